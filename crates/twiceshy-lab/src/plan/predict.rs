//! What a filter does in a stream of queries for absent keys.
//!
//! | kind | model |
//! | --- | --- |
//! | plain, plain-full, simplified, rsqf | the first-pass rate, for ever |
//! | cyclic, varying | [`cell`](crate::model::cell), a cycle of functions |
//! | swapping | [`swapping`](crate::model::swapping) |
//! | cuckooing | [`cuckooing`] |
//! | telescoping, uncompressed, extension | [`block`](crate::model::block) |
//! | broom | [`sweep`] |
//! | line | [`line`](crate::model::line) |
//! | cached | [`cache`] |
//! | aqf | [`adaptive_quotient`] |
//!
//! Sampled to 1 % of the rate. Beside that error the models leave out what binds
//! cells and bins together; `tests/lab/models.rs` compares them with the filters.

use twiceshy_filters::Spec;
use twiceshy_filters::internals::block_code;

use crate::design::Design;
use crate::model::block::{Block, SlotStates};
use crate::model::cell::{Arrivals, Cycle, Effort, estimate};
use crate::model::cyclic::joint;
use crate::model::line::Lines;
use crate::model::popularity::Popularity;
use crate::model::swapping::Swapping;
use crate::model::sweep::{self, Quotients};
use crate::model::{adaptive_quotient, cache, cuckooing};
use crate::random::rng;

/// A stream of queries for absent keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream {
    /// Absent keys for each stored one.
    pub absent: f64,
    /// How often each is asked.
    pub popularity: Popularity,
}

/// What a filter does in a stream, for each query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// False positives.
    pub rate: f64,
    /// Reads of the remote: one that proves each false positive wrong, and those
    /// that adapting takes.
    pub reads: f64,
}

/// A filter as it was built.
#[derive(Clone, Copy, Debug)]
pub struct Built {
    /// What it is.
    pub design: Design,
    /// Keys for each cell.
    pub load: f64,
    /// Refuted keys that its cache holds, for each stored key.
    pub cached: f64,
}

impl Built {
    /// What it does in a stream.
    ///
    /// # Panics
    /// As [`predict`], and for a whitelist, which is not modelled.
    #[must_use]
    pub fn predict(&self, stream: &Stream) -> Prediction {
        let Stream { absent, popularity } = stream;
        let rate = match &self.design {
            Design::Library(spec) => return predict(spec, self.load, stream),
            Design::Cached { base, .. } => {
                cache::rate(base.first_pass_rate(self.load), self.cached, *absent, popularity)
            }
            Design::AdaptiveQuotient(shape) => {
                adaptive_quotient::rate(shape, self.load, *absent, popularity)
            }
            Design::Whitelist(_) => panic!("a whitelist is not modelled"),
        };
        Prediction { rate, reads: rate }
    }
}

/// Everything random in a prediction comes from this.
const SEED: u64 = 1;

/// What a filter of the library does at this load.
///
/// # Panics
/// For filters with more than 64 selectors, or bins of more than 8 cells that swap:
/// they are not modelled.
#[must_use]
pub fn predict(spec: &Spec, load: f64, stream: &Stream) -> Prediction {
    let Stream { absent, popularity } = stream;
    match spec {
        Spec::Cyclic(_) | Spec::Varying(_) => {
            let rate = cyclic(spec, load, stream);
            Prediction { rate, reads: rate }
        }
        Spec::Swapping(_) => {
            let filter = Swapping {
                tables: number(spec, "k"),
                slots: number(spec, "b"),
                values: values(number(spec, "f")),
                retry: number(spec, "retry") == 1,
            };
            let rate = filter.rate(load, *absent, popularity, Effort::USUAL, SEED).mean;
            let rate = joint(rate, filter.tables);
            // The cell that swaps with the colliding one is read if it is occupied.
            Prediction { rate, reads: rate * (1.0 + load) }
        }
        Spec::Cuckooing(_) => {
            let values = values(number(spec, "f"));
            let outcome = cuckooing::rate(values, load, *absent, popularity, Effort::USUAL, SEED);
            let rate = joint(outcome.rate.mean, number(spec, "k"));
            // Whoever moves is read.
            Prediction { rate, reads: rate * outcome.moves }
        }
        Spec::Telescoping(_) | Spec::Uncompressed(_) | Spec::Extension(_) => {
            let outcome = block(spec).rate(load, *absent, popularity, Effort::USUAL, SEED);
            // Slots of one run may collide together.
            let rate = -(-outcome.rate.mean).exp_m1();
            // Remainders of a spent block are computed anew, from its keys; those of
            // an extension filter stay.
            let asked = !matches!(spec, Spec::Extension(_));
            let again = if asked { outcome.spent } else { 0.0 };
            Prediction { rate, reads: rate + again }
        }
        Spec::Broom(_) => {
            let epsilon = (-f64::from(number(spec, "f"))).exp2();
            let swept = f64::from(number(spec, "sweep")) * load;
            // One read for what is rehashed, as one range of digests; as published,
            // one for the old function's and one for the new one's.
            let (quotients, sweeps) = match spec.label().as_str() {
                "broom-faithful" => (Quotients::Change, 2.0),
                _ => (Quotients::Stay, 1.0),
            };
            let rate = sweep::rate(epsilon, load, *absent, popularity, swept, quotients);
            Prediction { rate, reads: rate * (1.0 + sweeps) }
        }
        Spec::Line(_) => {
            let lines = Lines::new(number(spec, "f"), load);
            let outcome = lines.play(*absent, popularity, Effort::USUAL, SEED);
            // Slots of one run may collide together.
            let rate = -(-outcome.rate.mean).exp_m1();
            // The keys of a line that is redrawn are one further read.
            Prediction { rate, reads: rate + outcome.redrawn }
        }
        _ => {
            let rate = spec.first_pass_rate(load);
            Prediction { rate, reads: rate }
        }
    }
}

/// A parameter that the kind is known to have.
pub(super) fn number(spec: &Spec, parameter: &str) -> u32 {
    spec.number(parameter).unwrap_or_else(|| panic!("{spec} has a number {parameter}"))
}

/// Fingerprints of so many bits; zero marks an empty cell.
pub(super) fn values(bits: u32) -> f64 {
    f64::from(bits).exp2() - 1.0
}

/// The ranges of a cyclic filter's functions, as the library has them.
pub(super) fn ranges(spec: &Spec) -> Vec<f64> {
    let (f, s) = (number(spec, "f"), number(spec, "s"));
    let Some(r) = spec.number("r") else {
        let mut equal = vec![f64::from(f).exp2(); 1 << s];
        // One value marks an empty cell.
        equal[(1 << s) - 1] -= 1.0;
        return equal;
    };
    let first = f64::from(f + s).exp2() * (1.0 - (-f64::from(r)).exp2()) - 1.0;
    let others = std::iter::repeat_n(f64::from(f - r).exp2(), 1 << s);
    std::iter::once(first).chain(others).collect()
}

fn cyclic(spec: &Spec, load: f64, stream: &Stream) -> f64 {
    let ranges = ranges(spec);
    let (k, b) = (number(spec, "k"), number(spec, "b"));
    let arrivals = Arrivals {
        mean: f64::from(k * b) * load * stream.absent,
        matching: ranges.iter().map(|range| 1.0 / range).collect(),
        several: true,
        popularity: &stream.popularity,
    };
    let retry = number(spec, "retry") == 1;
    let a_key = estimate(Effort::USUAL, &mut rng(SEED), |rng| {
        arrivals.sample(&mut Cycle::new(ranges.len(), retry), 0.0, rng)
    });
    joint(a_key.mean / (stream.absent * stream.popularity.repeats()), k)
}

fn block(spec: &Spec) -> Block {
    let states = match spec {
        Spec::Extension(_) => SlotStates::Extensions,
        _ => SlotStates::Selectors,
    };
    let epsilon = (-f64::from(number(spec, "f"))).exp2();
    let reseeds = spec.label() == "telescoping-reseed";
    match block_code(spec) {
        Some(code) => {
            Block { states, epsilon, budget: code.budget.into(), bits: code.bits, reseeds }
        }
        // A byte for each selector.
        None => Block { states, epsilon, budget: f64::INFINITY, bits: vec![0.0; 256], reseeds },
    }
}
