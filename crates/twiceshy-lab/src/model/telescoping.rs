//! Selectors of the telescoping filter: their distribution, entropy and code, and
//! how soon a block is spent.
//!
//! Lee, McCauley, Singh, Stein, "Telescoping Filter", section 4 and appendix C. The
//! worst case of queries is assumed: each of `c` distinct ones a key is repeated
//! until nothing changes.

use super::poisson::Poisson;

/// Slots of a block.
pub const SLOTS: usize = 64;

/// Selectors from here on are counted as one.
const ENOUGH: usize = 64;

/// `Pr[v >= k]` for the selector `v` of a key, for `k` up to 64, when the queries
/// that share its quotient are Poisson of this mean.
///
/// A key passes selector `i` if any of those has its `i`-th remainder, so with
/// `zeta` of them `Pr[v >= k] = E[(1 - (1 - epsilon)^zeta)^k]`. The paper's Lemma 2
/// and [`corollary_3`] differ, and are no bounds: the remainders of one query are
/// not alone in a quotient.
#[must_use]
pub fn at_least(epsilon: f64, mean: f64) -> Vec<f64> {
    let queries = Poisson::new(mean);
    let some = |zeta: u32| -f64::exp_m1(f64::from(zeta) * f64::ln_1p(-epsilon));
    let mut powers: Vec<(f64, f64)> =
        queries.iter().map(|(zeta, probability)| (probability, some(zeta))).collect();
    (0..=ENOUGH)
        .map(|_| {
            let sum = powers.iter().map(|(weight, _)| weight).sum();
            powers.iter_mut().for_each(|(weight, some)| *weight *= *some);
            sum
        })
        .collect()
}

/// Probabilities of a key's selectors 0, 1, ..., as [`at_least`]; the last one is that of
/// all further ones.
#[must_use]
pub fn key_selectors(epsilon: f64, mean: f64) -> Vec<f64> {
    let at_least = at_least(epsilon, mean);
    let exactly = at_least.windows(2).map(|two| two[0] - two[1]);
    exactly.chain(at_least.last().copied()).collect()
}

/// Probabilities of a slot's selectors: its key's, if it has one, after `absent`
/// distinct queries per key. There are `1 / load` quotients a key, so that a key
/// shares its own with `load * absent` queries.
#[must_use]
pub fn slot_selectors(epsilon: f64, load: f64, absent: f64) -> Vec<f64> {
    let mut slot = key_selectors(epsilon, load * absent);
    slot.iter_mut().for_each(|probability| *probability *= load);
    slot[0] += 1.0 - load;
    slot
}

/// Corollary 3 as printed: `e^(-c epsilon)` for selector 0, and
/// `epsilon^k sum_{i=1}^k c^i / i!` for selector `k`, with `c` queries per key on as
/// many quotients as keys. The paper calls these upper bounds; they are not.
#[must_use]
pub fn corollary_3(epsilon: f64, absent: f64, selector: u32) -> f64 {
    if selector == 0 {
        return (-absent * epsilon).exp();
    }
    let mut term = 1.0;
    let mut sum = 0.0;
    for i in 1..=selector {
        term *= absent / f64::from(i);
        sum += term;
    }
    epsilon.powi(selector as i32) * sum
}

/// The entropy of a distribution, in bits.
#[must_use]
pub fn entropy(probabilities: &[f64]) -> f64 {
    probabilities.iter().filter(|p| **p > 0.0).map(|p| -p * p.log2()).sum()
}

/// Theorem 4: bits per key that suffice for `1 / (b sqrt(epsilon))` distinct queries a
/// key, `1/e + b / (b - 1)^2`. `None` outside `2 <= b <= 1 / sqrt(epsilon)` or for
/// epsilon from 1/2 on, where it says nothing.
///
/// ```
/// use twiceshy_lab::model::telescoping::{theorem_4_bits, theorem_4_queries};
/// // The paper's example: 0.812 bits per key for 4 queries per key.
/// assert!((theorem_4_bits(1.0 / 256.0, 4.0).unwrap() - 0.812).abs() < 5e-4);
/// assert_eq!(theorem_4_queries(1.0 / 256.0, 4.0), 4.0);
/// ```
#[must_use]
pub fn theorem_4_bits(epsilon: f64, b: f64) -> Option<f64> {
    let applies = epsilon < 0.5 && b >= 2.0 && b <= epsilon.sqrt().recip();
    applies.then(|| (-1.0_f64).exp() + b / (b - 1.0).powi(2))
}

/// Distinct queries per key that Theorem 4 speaks of, for its parameter `b`.
#[must_use]
pub fn theorem_4_queries(epsilon: f64, b: f64) -> f64 {
    1.0 / (b * epsilon.sqrt())
}

/// Bits that the code of appendix C.2 spends on a selector: the logarithm of its
/// probability. Selectors from 6 on share what the others leave.
#[must_use]
pub fn tuned_bits(selector: usize) -> f64 {
    const POWERS: [&[i32]; 6] =
        [&[1, 2, 5], &[3, 4, 7, 9], &[6, 8], &[10, 11], &[14, 16], &[19, 20, 23]];
    let probability = |powers: &[i32]| powers.iter().map(|p| 0.5_f64.powi(*p)).sum::<f64>();
    match POWERS.get(selector) {
        Some(powers) => -probability(powers).log2(),
        None => -(1.0 - POWERS.iter().map(|powers| probability(powers)).sum::<f64>()).log2(),
    }
}

/// Bits that the code of appendix C.3 spends on a selector: it is not 0 with
/// probability `2^-x`, and passes each further value with `2^-y`. (Corrected: the
/// sign of the paper's exponent.)
#[must_use]
pub fn general_bits(x: u32, y: u32, selector: usize) -> f64 {
    let all_but = |power: u32| -(1.0 - (-f64::from(power)).exp2()).log2();
    match selector {
        0 => all_but(x),
        _ => f64::from(x) + f64::from(y) * (selector - 1) as f64 + all_but(y),
    }
}

/// Bits that a code spends on a slot on average.
#[must_use]
pub fn expected_bits(slot: &[f64], bits: impl Fn(usize) -> f64) -> f64 {
    slot.iter().enumerate().map(|(state, probability)| probability * bits(state)).sum()
}

/// The probability that the code of 64 slots needs more than `budget` bits.
///
/// Slots are taken as independent. What a slot spends beyond a 0 is rounded to 1/256
/// bit; a block has room for some seventeen such slots, so the sum is exact to 1/30.
#[must_use]
pub fn overflow(slot: &[f64], bits: impl Fn(usize) -> f64, budget: f64) -> f64 {
    const GRID: f64 = 256.0;
    let zero = bits(0);
    // Beyond what 64 zeros take, few slots spend anything: count in that excess.
    let room = ((budget - SLOTS as f64 * zero) * GRID).floor();
    if room < 0.0 {
        return 1.0;
    }
    let room = room as usize;
    let excess: Vec<(usize, f64)> = slot
        .iter()
        .enumerate()
        .map(|(state, probability)| (((bits(state) - zero) * GRID).round() as usize, *probability))
        .collect();
    let mut fits = vec![0.0; room + 1];
    fits[0] = 1.0;
    // What leaves the room is summed as it does: it may be 10^-12, which no
    // difference from 1 would show.
    let mut over = 0.0;
    for _ in 0..SLOTS {
        let mut next = vec![0.0; room + 1];
        for &(more, probability) in &excess {
            let stays = (room + 1).saturating_sub(more);
            over += probability * fits[stays..].iter().sum::<f64>();
            for (to, from) in next.iter_mut().skip(more).zip(&fits) {
                *to += probability * from;
            }
        }
        fits = next;
    }
    over
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPSILON: f64 = 1.0 / 256.0;
    const LOAD: f64 = 0.95;

    fn near(ours: f64, table: f64, tolerance: f64, what: &str) {
        assert!((ours / table - 1.0).abs() < tolerance, "{what}: {ours}, not {table}");
    }

    /// Rows of `taf_exaf_entropy.csv`, printed to five digits: A/S, Pv0 to Pv3,
    /// pn1, cor3_1, pn2, cor3_2, H_slot, xent_slot, taf_ovf, thm4_bound.
    type Row = (f64, [f64; 4], [f64; 4], f64, f64, f64, Option<f64>);
    const ROWS: [Row; 4] = [
        (
            1.0,
            [0.9963, 0.003676, 2.7843e-5, 2.6306e-7],
            [0.0038683, 0.0039062, 3.0045e-5, 2.2888e-5],
            0.033977,
            0.36322,
            5.83e-13,
            Some(0.43899),
        ),
        (
            20.0,
            [0.92847, 0.066165, 0.0049464, 0.00038611],
            [0.069242, 0.078125, 0.0054248, 0.0033569],
            0.38656,
            0.50973,
            0.00037268,
            None,
        ),
        (
            40.0,
            [0.86205, 0.11849, 0.016656, 0.0023919],
            [0.12328, 0.15625, 0.01815, 0.012817],
            0.65012,
            0.68995,
            0.087494,
            None,
        ),
        (
            60.0,
            [0.80039, 0.15921, 0.032114, 0.0065655],
            [0.16471, 0.23438, 0.034746, 0.028381],
            0.87395,
            0.89873,
            0.52637,
            None,
        ),
    ];

    /// One unit of the last printed digit.
    const PRINTED: f64 = 1e-4;

    #[test]
    fn selectors_and_their_entropy_are_the_tables() {
        for (absent, selectors, paper, entropy_of_slot, code, _, bound) in ROWS {
            let key = key_selectors(EPSILON, LOAD * absent);
            for (k, expected) in selectors.into_iter().enumerate() {
                near(key[k], expected, PRINTED, &format!("Pv{k} at {absent}"));
            }
            // The paper counts as many quotients as keys.
            let key = key_selectors(EPSILON, absent);
            near(key[1], paper[0], PRINTED, "pn1");
            near(corollary_3(EPSILON, absent, 1), paper[1], PRINTED, "cor3_1");
            near(key[2], paper[2], PRINTED, "pn2");
            near(corollary_3(EPSILON, absent, 2), paper[3], PRINTED, "cor3_2");
            // No bound.
            assert!(key[2] > corollary_3(EPSILON, absent, 2));

            let slot = slot_selectors(EPSILON, LOAD, absent);
            near(entropy(&slot), entropy_of_slot, PRINTED, "H_slot");
            // The table gives selectors from 6 on, which have no code in the paper,
            // that of 5.
            near(expected_bits(&slot, |v| tuned_bits(v.min(5))), code, PRINTED, "xent_slot");
            let b = 1.0 / (absent * EPSILON.sqrt());
            match (theorem_4_bits(EPSILON, b), bound) {
                (Some(ours), Some(expected)) => near(ours, expected, PRINTED, "thm4_bound"),
                (ours, expected) => assert_eq!(ours, expected, "{absent}"),
            }
        }
    }

    /// The table counts code lengths on a coarser grid, which it does not state: its
    /// probability has to be that of a budget within a quarter of a bit. (Its first
    /// row, 10^-12, is a difference from 1.)
    #[test]
    fn overflow_is_the_tables() {
        for (absent, .., overflowing, _) in ROWS.into_iter().skip(1) {
            let slot = slot_selectors(EPSILON, LOAD, absent);
            let [less, more] = [56.25, 55.75].map(|budget| overflow(&slot, tuned_bits, budget));
            assert!(less <= overflowing && overflowing <= more, "{absent}: {less} to {more}");
        }
        // 64 zeros alone take 22.8 bits.
        assert_eq!(overflow(&slot_selectors(EPSILON, LOAD, 1.0), tuned_bits, 22.0), 1.0);
    }

    /// With two states the number of slots that are not 0 is binomial.
    #[test]
    fn overflow_of_two_states_is_binomial() {
        let slot = [0.9, 0.1];
        let bits = |state: usize| [0.25, 4.0][state];
        // 16 + 3.75 k > 40 from k = 7 on.
        let (mut term, mut fits) = (0.9_f64.powi(64), 0.0);
        for k in 0..7 {
            fits += term;
            term *= f64::from(64 - k) / f64::from(k + 1) * 0.1 / 0.9;
        }
        near(overflow(&slot, bits, 40.0), 1.0 - fits, 1e-9, "binomial");
    }

    #[test]
    fn the_general_code_is_a_code() {
        for (x, y) in [(1, 1), (3, 4), (4, 3)] {
            let sum: f64 = (0..200).map(|v| (-general_bits(x, y, v)).exp2()).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{x}, {y}: {sum}");
        }
        let sum: f64 = (0..=6).map(|v| (-tuned_bits(v)).exp2()).sum();
        assert!((sum - 1.0).abs() < 1e-12, "{sum}");
    }
}
