//! What the figures have in common: a filter that is filled, a stream that is
//! played, a rate that comes out.

use twiceshy_filters::{KeyHasher, Spec};

use super::skipping::play;
use super::{Measured, Point, Trial};
use crate::contestant::Contestant;
use crate::design::Design;
use crate::entrants;
use crate::random::hasher;
use crate::workload::{Key, Workload};

/// Why a trial gave nothing.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The load of every filter in the papers' experiments.
pub const LOAD: f64 = 0.95;

/// A curve: its name, and the filter that it is of.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// The filter.
    pub design: Design,
}

impl Curve {
    /// The filter of a description, under its own label.
    pub fn new(text: &str) -> Self {
        let parsed = entrants::parse(text).unwrap_or_else(|error| {
            panic!("a figure describes a filter wrongly: {error}");
        });
        let [entrant] = parsed.0.as_slice() else { panic!("{text} is more than one filter") };
        Curve { name: entrant.design.label(), design: entrant.design }
    }

    /// The same filter under another name.
    pub fn named(self, name: impl Into<String>) -> Self {
        Curve { name: name.into(), ..self }
    }
}

/// The plain cuckoo filter of the papers: four tables, one cell a bin.
pub fn plain(cell_bits: u32) -> Curve {
    Curve::new(&format!("plain-full:f={cell_bits},k=4,b=1")).named("plain")
}

/// The cyclic filter as published: the selector is part of the cell.
pub fn cyclic(selector_bits: u32, cell_bits: u32) -> Curve {
    let fingerprint = cell_bits - selector_bits;
    Curve::new(&format!("cyclic:f={fingerprint},s={selector_bits},k=4,b=1,retry=0"))
}

/// The swapping filter as published: two tables, four cells per bin.
pub fn swapping(cell_bits: u32) -> Curve {
    Curve::new(&format!("swapping:f={cell_bits},k=2,b=4,retry=0"))
}

/// The cuckooing filter: four tables, one cell a bin.
pub fn cuckooing(cell_bits: u32) -> Curve {
    Curve::new(&format!("cuckooing:f={cell_bits},k=4,b=1"))
}

/// A plain filter with a cache of refuted keys, in the memory of cells of so many bits: one bit
/// in eight is the cache's, or one at least.
pub fn cached(cell_bits: u32) -> Curve {
    let cache_bits = (cell_bits / 8).max(1);
    let (fingerprint, share) = (cell_bits - cache_bits, 100 * cache_bits / cell_bits);
    Curve::new(&format!("cached:f={fingerprint},share={share}")).named("cached")
}

/// The adaptive quotient filter in at most the memory of cells of so many bits: four bits go to
/// metadata and to room for extensions. Short remainders need more room: keys share them.
pub fn adaptive_quotient(cell_bits: u32) -> Curve {
    let load = if cell_bits > 8 { 90 } else { 85 };
    Curve::new(&format!("aqf:f={},load={load}", cell_bits - 4))
}

/// A point whose trials all can fail alike.
pub fn point<M: Into<Measured>>(
    panel: impl Into<String>,
    series: impl Into<String>,
    x: f64,
    trials: u32,
    run: impl Fn(u64) -> Result<M, Failure> + Send + Sync + 'static,
) -> Point {
    let run: Trial = Box::new(move |seed| run(seed).map(Into::into));
    Point { panel: panel.into(), series: series.into(), x, trials, run }
}

/// A filter for so many keys that never grows: it would have more memory than
/// the others.
///
/// # Errors
/// [`twiceshy_filters::Error::Spec`].
pub fn empty(design: &Design, keys: usize) -> Result<Contestant, Failure> {
    Ok(design.build(keys)?)
}

/// A filter of these keys.
///
/// # Errors
/// The keys do not fit.
pub fn filled(design: &Design, keys: &[Key], hasher: &KeyHasher) -> Result<Contestant, Failure> {
    let mut filter = empty(design, keys.len())?;
    for key in keys {
        filter.insert(hasher.digest(key.to_le_bytes()))?;
    }
    Ok(filter)
}

/// The most cells by which a filter is larger than asked for: a bin of four
/// cells in each of two tables.
const WHOLE_BINS: f64 = 8.0;

/// An error unless a filter is as full as the papers' are.
fn check_load(filter: &Contestant) -> Result<(), Failure> {
    let stats = filter.stats();
    let load = match filter.design() {
        Design::AdaptiveQuotient(shape) => shape.load(),
        // In whole lines, one of them to spare: its curves are called by their bits per key.
        Design::Library(Spec::Line(_)) => return Ok(()),
        _ => LOAD,
    };
    let spare = stats.cells as f64 - stats.len as f64 / load;
    if (-1.0..=WHOLE_BINS).contains(&spare) {
        return Ok(());
    }
    let (spec, seen) = (filter.spec(), stats.load());
    Err(format!("{spec} with {} keys has load {seen}, not {load}", stats.len).into())
}

/// What a stream of queries brought.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    /// Queries asked.
    pub queries: u64,
    /// Those answered "maybe", each of which the filter was told of.
    pub false_positives: u64,
}

impl Played {
    /// False positives for each query.
    pub const fn rate(&self) -> Measured {
        Measured::share(self.false_positives, self.queries)
    }
}

/// The false-positive rate of a filter on a workload, at load 0.95 (an adaptive quotient filter:
/// at its own).
///
/// # Errors
/// The keys do not fit, or the filter is not as full as that.
pub fn rate(design: &Design, workload: &Workload, seed: u64) -> Result<Measured, Failure> {
    let hasher = hasher(seed);
    let filter = filled(design, &workload.stored, &hasher)?;
    check_load(&filter)?;
    Ok(play(filter, workload, &hasher)?.rate())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Size, Source};

    fn uniform() -> Workload {
        let size =
            Size { keys: Some(2_000), ratio: 50.0, queries: Some(400_000), ..Size::default() };
        Source::Uniform.workload(&size, 1).expect("a workload")
    }

    /// 100,000 absent keys, four queries each: 1,482 of them collide, each with
    /// Poisson(4) queries, so the standard deviation is sqrt(1482 * (16 + 4)) of
    /// 5,928 false positives, 2.9 %. Two-sided, 5.2 of them have probability
    /// 2 * 10^-7.
    #[test]
    fn a_plain_filter_has_its_first_pass_rate() {
        let curve = plain(8);
        let measured = rate(&curve.design, &uniform(), 1).expect("a rate").value;
        let expected = curve.design.first_pass_rate(LOAD);
        assert!((measured / expected - 1.0).abs() < 5.2 * 0.029, "{measured}, {expected}");
    }

    #[test]
    fn a_filter_that_is_less_full_than_the_papers_is_refused() {
        let half_full = Curve::new("plain-full:f=8,k=2,b=1");
        let error = rate(&half_full.design, &uniform(), 1).expect_err("it has load 0.45");
        assert!(error.to_string().contains("has load 0.4"), "{error}");
    }

    /// A line filter of 2,000 keys is not as full as a cuckoo filter; the figures have it as it is.
    #[test]
    fn a_line_filter_is_measured_as_full_as_it_gets() {
        let measured = rate(&Curve::new("line:f=9").design, &uniform(), 1).expect("a rate");
        assert!((0.0..0.01).contains(&measured.value), "{measured:?}");
    }

    /// In bits per key, against cells at a load of 0.95.
    #[test]
    fn what_the_lab_adds_has_the_memory_of_the_others() {
        const KEYS: usize = 100_000;
        for bits in [8, 11, 12, 16] {
            let room = f64::from(bits) / LOAD;
            for curve in [cached(bits), adaptive_quotient(bits)] {
                let taken = empty(&curve.design, KEYS).unwrap().stats().bits as f64 / KEYS as f64;
                assert!((0.93 * room..1.002 * room).contains(&taken), "{}: {taken}", curve.design);
            }
        }
    }

    #[test]
    fn cells_are_as_wide_as_they_are_called() {
        for bits in [8, 11, 16] {
            let cyclic = [1, 2, 3].map(|selector_bits| cyclic(selector_bits, bits));
            let others = [plain(bits), swapping(bits), cuckooing(bits)];
            for curve in others.into_iter().chain(cyclic) {
                assert_eq!(curve.design.cell_bits(), bits, "{}", curve.design);
            }
        }
    }
}
