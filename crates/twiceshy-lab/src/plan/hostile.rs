//! What an adversary can keep.
//!
//! The round attack of Lee et al., "Telescoping Filter", section 6.1 (after Bender et
//! al., section 6): ask for many keys, drop those that are no false positives, ask for
//! the others again, and so on. Whatever the filter cannot fix is all that is left at
//! last, and then every query is a false positive. So a filter holds as long as there
//! is nothing that it cannot fix, and we count what there is, on average, when the
//! adversary asks for `absent` keys a stored one:
//!
//! | filter | what it cannot fix |
//! | --- | --- |
//! | static | any false positive |
//! | cyclic, varying | a cell that collides under every function: with one key (Kopelowitz et al., Theorem 9) or with several |
//! | swapping | a key that collides in every position, or a position in which every key does (Theorem 10, and the bins without a free arrangement) |
//! | cuckooing | a key that collides in every table; and everything once an adaptation brings more than one false positive |
//! | telescoping, extension | a block whose budget is spent |
//! | telescoping with `spent=reseed`, uncompressed, broom | nothing: the rate of a first pass is sustained |
//! | cached | false positives beyond what the cache holds: asked in turn, each is evicted before it is asked again |
//! | aqf | false positives that come when the slots are spent |
//! | line | nothing: a line is redrawn; the rate of a first pass in groups that have adapted is sustained |
//!
//! Against the measurements of `docs/papers.md` (249,036 keys, 11-bit cells, 8-bit
//! remainders) and of the papers' own filters: the first survivors appear at 10 to 20
//! queries a key for telescoping (predicted: 20), below 5 for extension (4), at 10 for
//! swapping (11), between 5 and 10 for cyclic with two selector bits (6), below 5 with one
//! (0.3), between 20 and 50 for cuckooing (25).

use twiceshy_filters::Spec;
use twiceshy_filters::internals::block_code;

use crate::design::Design;
use crate::model::line::Lines;
use crate::model::poisson::Poisson;
use crate::model::telescoping::{SLOTS, overflow, slot_selectors};
use crate::model::{adaptive_quotient, cuckooing, extension};

use super::predict::{Built, number, ranges, values};

/// Things that a filter of `keys` keys cannot fix when an adversary asks for `absent`
/// keys a stored one.
#[must_use]
pub fn unfixable(built: &Built, keys: f64, absent: f64) -> f64 {
    let Built { design, load, cached } = *built;
    match design {
        Design::Library(spec) => of_the_library(&spec, keys, load, absent),
        Design::AdaptiveQuotient(shape) => keys * adaptive_quotient::shortage(&shape, load, absent),
        Design::Cached { base, .. } | Design::Whitelist(base) => {
            keys * (absent * base.first_pass_rate(load) - cached)
        }
    }
}

fn of_the_library(spec: &Spec, keys: f64, load: f64, absent: f64) -> f64 {
    let cells = || f64::from(number(spec, "k") * number(spec, "b"));
    match spec {
        Spec::Cyclic(_) | Spec::Varying(_) => {
            let ranges = ranges(spec);
            let arriving = cells() * load * absent;
            let several = Poisson::new(arriving).mean_of(|zeta| {
                let colliding = |range: &f64| -(-f64::from(zeta) / range).exp_m1();
                ranges.iter().map(colliding).product()
            });
            let alone: f64 = arriving * ranges.iter().map(|range| 1.0 / range).product::<f64>();
            keys * (several + alone)
        }
        Spec::Swapping(_) => {
            let slots = number(spec, "b") as i32;
            let arriving = cells() * load * absent;
            let values = values(number(spec, "f"));
            let colliding = -(-arriving / values).exp_m1();
            let alone = arriving * values.powi(-slots);
            // Rows and columns of a square of keys and positions.
            let bins = keys / (f64::from(slots) * load);
            let lines = f64::from(slots) * (load + load.powi(slots));
            bins * lines * colliding.powi(slots) + keys * alone
        }
        Spec::Cuckooing(_) => {
            let colliding = cells() * load * absent / values(number(spec, "f"));
            if colliding * cuckooing::moves(load, 1.0) >= 1.0 {
                return keys;
            }
            keys * (-(-colliding).exp_m1()).powi(number(spec, "k") as i32)
        }
        Spec::Telescoping(_) if spec.label() == "telescoping-reseed" => 0.0,
        Spec::Telescoping(_) | Spec::Extension(_) => {
            let epsilon = (-f64::from(number(spec, "f"))).exp2();
            let slot = match spec {
                Spec::Extension(_) => extension::slot_lengths(epsilon, load, absent),
                _ => slot_selectors(epsilon, load, absent),
            };
            let code = block_code(spec).expect("it has one");
            // What has no code does not fit.
            let bits = |state: usize| code.bits.get(state).copied().unwrap_or(1e3);
            let blocks = keys / (SLOTS as f64 * load);
            blocks * overflow(&slot, bits, code.budget.into())
        }
        Spec::Uncompressed(_) | Spec::Broom(_) | Spec::Line(_) => 0.0,
        _ => keys * absent * spec.first_pass_rate(load),
    }
}

/// The false-positive rate of queries that were never made before, of a filter that an adversary
/// has adapted as it likes but not broken.
#[must_use]
pub fn sustained(built: &Built) -> f64 {
    match built.design {
        Design::Library(spec @ Spec::Line(_)) => {
            Lines::new(number(&spec, "f"), built.load).first_pass(1.0)
        }
        design => design.first_pass_rate(built.load),
    }
}

/// Distinct queries a key with which an adversary breaks the filter: there is one
/// thing that it cannot fix. `None` for more than 8192, or where theory has none.
#[must_use]
pub fn breaks_at(built: &Built, keys: f64) -> Option<f64> {
    // 2^-30 to 2^13 queries a key, to a hundredth.
    let (mut low, mut high) = (-30.0_f64, 13.0_f64);
    let breaks = |log: f64| unfixable(built, keys, log.exp2()) >= 1.0;
    if !breaks(high) {
        return None;
    }
    while high - low > 0.014 {
        let middle = (low + high) / 2.0;
        if breaks(middle) { high = middle } else { low = middle }
    }
    Some(high.exp2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adaptive_quotient::Shape;

    fn built(text: &str) -> Built {
        let design = Design::Library(text.parse().expect(text));
        Built { design, load: 0.95, cached: 0.0 }
    }

    /// The table of the module's documentation: where the first things appear that
    /// stay, measured with one seed, within a factor of two of the ends.
    #[test]
    fn filters_break_where_they_were_measured_to() {
        for (text, from, to) in [
            ("telescoping:f=8", 10.0, 20.0),
            ("extension:f=8", 2.0, 5.0),
            ("cyclic:f=10,s=1", 0.0, 5.0),
            ("cyclic:f=9,s=2", 5.0, 10.0),
            ("swapping:f=11", 5.0, 10.0),
            ("cuckooing:f=11", 20.0, 50.0),
        ] {
            let at = breaks_at(&built(text), 249_036.0).expect("it breaks");
            assert!(from / 2.0 <= at && at <= 2.0 * to, "{text}: {at}");
        }
    }

    #[test]
    fn some_filters_hold() {
        for text in ["telescoping:f=8,spent=reseed", "uncompressed:f=8", "broom:f=8", "line"] {
            assert_eq!(breaks_at(&built(text), 249_036.0), None, "{text}");
        }
        // One false positive is enough for a filter that does not adapt.
        let rsqf = built("rsqf:f=8");
        let queries = breaks_at(&rsqf, 1e6).expect("it breaks") * 1e6;
        assert!((queries / 270.0 - 1.0).abs() < 0.02, "{queries}");
    }

    /// A cache breaks when there are more false positives than it holds; an adaptive quotient
    /// filter when its slots are spent.
    #[test]
    fn what_has_no_room_breaks() {
        let Design::Library(base) = built("plain:f=8").design else { unreachable!() };
        let cached = Built { design: Design::Cached { base, share: 10 }, load: 0.95, cached: 0.02 };
        let at = breaks_at(&cached, 1e6).expect("it breaks");
        assert!((at * base.first_pass_rate(0.95) / 0.02 - 1.0).abs() < 0.02, "{at}");
        let aqf =
            Built { design: Design::AdaptiveQuotient(Shape::default()), load: 0.9, cached: 0.0 };
        let at = breaks_at(&aqf, 1e6).expect("it breaks");
        assert!((15.0..16.0).contains(&at), "{at}");
    }
}
