//! The adaptive quotient filter of Wen et al., "Adaptive Quotient Filters".
//!
//! A key's fingerprint is extended at the first query that shares its remainder, and then nearly
//! all others are fixed with it: of those that share a remainder, a share of `epsilon` shares the
//! next chunk as well. When the slots are spent nothing is extended any more, and queries that
//! come late stay false positives for ever.

use super::cache::reaching;
use super::popularity::Popularity;
use crate::adaptive_quotient::Shape;

/// False positives, and extension slots, for each stored key whose fingerprint is shared by
/// `sharing` queries on average.
fn extensions(sharing: f64, epsilon: f64) -> f64 {
    let extended = -(-sharing).exp_m1();
    extended + epsilon * (sharing - extended)
}

/// False positives for each query, when `absent` keys are asked for each stored one.
#[must_use]
pub fn rate(shape: &Shape, load: f64, absent: f64, popularity: &Popularity) -> f64 {
    let epsilon = shape.epsilon();
    // Of a key's fingerprint, up to a time.
    let sharing = |time: f64| load * epsilon * absent * (1.0 - popularity.unasked(time));
    let used = |time: f64| extensions(sharing(time), epsilon);
    let spare = shape.spare_slots(load);
    let full = if used(1.0) <= spare { 1.0 } else { reaching(spare, used) };
    let fixed = used(full) / absent;
    // Queries first asked after that, for keys that have not been extended.
    let unfixed = load * epsilon * (-sharing(full)).exp() * popularity.late(full);
    (fixed + unfixed) / popularity.repeats()
}

/// By how many extension slots an adversary with `absent` queries a key asks for more than there
/// are, for each key; below 0 if they suffice.
#[must_use]
pub fn shortage(shape: &Shape, load: f64, absent: f64) -> f64 {
    let epsilon = shape.epsilon();
    extensions(load * epsilon * absent, epsilon) - shape.spare_slots(load)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a load of 0.90, 0.0556 - 0.0035 slots a key are spare; 0.0346, 0.0514 and 0.0679 are
    /// needed with 10, 15 and 20 queries a key.
    #[test]
    fn eight_bits_at_a_load_of_ninety_percent_are_short_of_slots_between_15_and_20() {
        let shape = Shape { remainder_bits: 8, load_percent: 90 };
        for (absent, expected) in [(10.0, -0.0174), (15.0, -0.0006), (20.0, 0.0160)] {
            let short = shortage(&shape, 0.9, absent);
            assert!((short - expected).abs() < 3e-4, "{absent}: {short}, not {expected}");
        }
    }

    /// With room, each query costs what the first of those that share a fingerprint does.
    #[test]
    fn with_room_a_query_is_a_false_positive_about_once() {
        let shape = Shape { remainder_bits: 8, load_percent: 50 };
        let rate = rate(&shape, 0.5, 2.0, &Popularity::equal(10.0));
        assert!((rate / (0.5 / 256.0 / 10.0) - 1.0).abs() < 0.01, "{rate}");
    }
}
