//! Which fingerprints a filter has: of which kind, and how long.

use twiceshy_filters::Params as _;
use twiceshy_filters::cuckoo::bounds::{target_load_permille, theorem_5_1_rate};
use twiceshy_filters::line;

/// Cells per bin of a plain filter.
const SLOTS: u32 = 4;

/// Bits per slot of a quotient filter beside its remainder.
const SLOT_METADATA_BITS: f64 = 17.0 * 8.0 / 64.0;

/// Bits of a line of a line filter.
const LINE_BITS: f64 = 512.0;

/// Keys of a line filter whose load is taken for that of all. Smaller ones have a line or two to
/// spare; those of 5 * 10^7 keys and more have emptier lines.
const MANY: usize = 10_000_000;

/// A plain filter replaces a line filter where it takes at most this share of the memory ...
const CLEARLY_SMALLER: f64 = 7.0 / 8.0;

/// ... or, within the same memory, has at most this share of the rate.
const CLEARLY_LOWER: f64 = 1.0 / 4.0;

/// The kind of filter that a [`Filter`](super::Filter) keeps its fingerprints in;
/// see [`Builder::kind`](super::Builder::kind).
///
/// ```
/// use twiceshy::filter::{Filter, Kind};
/// let builder = Filter::builder().capacity(1_000_000).rate(0.002);
/// let fast = builder.clone().build()?;
/// let small = builder.kind(Kind::Rsqf).build()?;
/// assert!(small.stats().bytes < fast.stats().bytes);
/// # Ok::<(), twiceshy::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The line filter: a lookup reads one cache line. It has five sizes:
    ///
    /// | bits of a fingerprint | bits per key | rate, full |
    /// | --- | --- | --- |
    /// | 9 | 12.5 | 0.0020 |
    /// | 10 | 13.8 | 0.00091 |
    /// | 11 | 15.4 | 0.00041 |
    /// | 12 | 16.9 | 0.00019 |
    /// | 16 | 22.6 | 0.0000096 |
    ///
    /// A cuckoo filter takes its place where that is clearly better: at least an eighth smaller
    /// for the rate that was asked for (from a rate of 0.008 on, and for most below 0.0002), or
    /// with at most a fourth of the rate for the bits per key that were asked for.
    #[default]
    Line,
    /// The cuckoo filter, of any size: 12.6 bits per key for a rate of 0.002. A lookup reads two
    /// cache lines.
    Plain,
    /// The rank-and-select quotient filter, the smallest: 11.7 bits per key for a rate of
    /// 0.002. Lookups and insertions take longer.
    Rsqf,
}

impl Kind {
    /// The fingerprints that it can have, shortest first.
    fn all(self) -> impl DoubleEndedIterator<Item = Fingerprints> {
        let can_have = move |bits: &u32| match self {
            Kind::Line => matches!(bits, 9..=12 | 16),
            // A full plain filter with fewer than 4 bits would answer "maybe" to everything.
            Kind::Plain => *bits >= 4,
            Kind::Rsqf => true,
        };
        (1..=32).filter(can_have).map(move |bits| Fingerprints { kind: self, bits })
    }
}

/// Fingerprints of one kind and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprints {
    pub(crate) kind: Kind,
    pub(crate) bits: u32,
}

impl Fingerprints {
    /// The shortest with which a full filter has at most this rate; `None` if none is long
    /// enough.
    pub(crate) fn for_rate(kind: Kind, most: f64) -> Option<Self> {
        let shortest =
            |kind: Kind| kind.all().find(|fingerprints| fingerprints.full_rate() <= most);
        if kind != Kind::Line {
            return shortest(kind);
        }
        let plain = shortest(Kind::Plain)?;
        let is_small = |line: &Self| plain.bits_per_key() > CLEARLY_SMALLER * line.bits_per_key();
        shortest(Kind::Line).filter(is_small).or(Some(plain))
    }

    /// The longest of those that fit; `None` if none does.
    pub(crate) fn longest(kind: Kind, fits: impl Fn(Self) -> bool) -> Option<Self> {
        let longest = |kind: Kind| kind.all().rev().find(|&fingerprints| fits(fingerprints));
        if kind != Kind::Line {
            return longest(kind);
        }
        let plain = longest(Kind::Plain)?;
        let is_low = |line: &Self| plain.full_rate() > CLEARLY_LOWER * line.full_rate();
        longest(Kind::Line).filter(is_low).or(Some(plain))
    }

    /// The shortest of a kind, or of the one in its place.
    pub(crate) fn shortest(kind: Kind) -> Self {
        Self::for_rate(kind, 1.0).expect("the rate of a filter is at most 1")
    }

    /// The parameters of such a line filter.
    pub(crate) fn line(self) -> line::Params {
        line::Params::default().with("f", self.bits).expect("a length of `Kind::all`")
    }

    /// The load of a full filter.
    pub(crate) fn target_load(self) -> f64 {
        let (tables, slots) = match self.kind {
            Kind::Line => {
                let params = self.line();
                let lines = params.bins_for(MANY).expect("a usual size");
                return MANY as f64 / (lines as f64 * f64::from(params.cells_per_bin()));
            }
            Kind::Plain => (2, SLOTS),
            Kind::Rsqf => (1, 1),
        };
        f64::from(target_load_permille(tables, slots)) / 1000.0
    }

    /// Bits per key of a full filter.
    pub(crate) fn bits_per_key(self) -> f64 {
        let bits = f64::from(self.bits);
        let cell = match self.kind {
            Kind::Line => LINE_BITS / f64::from(self.line().cells_per_bin()),
            Kind::Plain => bits,
            Kind::Rsqf => bits + SLOT_METADATA_BITS,
        };
        cell / self.target_load()
    }

    /// The share of absent keys that a filter takes for stored. No fingerprint is stored
    /// twice in the same place, so the chances of all of them add up.
    pub(crate) fn rate(self, load: f64) -> f64 {
        let rate = match self.kind {
            Kind::Line => self.line().first_pass_rate(load),
            Kind::Plain => theorem_5_1_rate(self.bits, SLOTS, load),
            Kind::Rsqf => load / f64::from(self.bits).exp2(),
        };
        rate.min(1.0)
    }

    /// [`Fingerprints::rate`] of a full filter.
    pub(crate) fn full_rate(self) -> f64 {
        self.rate(self.target_load())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: Kind, bits: u32) -> Fingerprints {
        Fingerprints { kind, bits }
    }

    /// The table in the documentation of [`Kind::Line`].
    #[test]
    fn lines_have_the_documented_sizes() {
        let documented = [
            (9, 12.5, 0.0020),
            (10, 13.8, 0.00091),
            (11, 15.4, 0.00041),
            (12, 16.9, 0.00019),
            (16, 22.6, 0.000_009_6),
        ];
        let lines: Vec<Fingerprints> = Kind::Line.all().collect();
        assert_eq!(lines, documented.map(|(bits, ..)| of(Kind::Line, bits)));
        for (line, (_, bits_per_key, rate)) in lines.into_iter().zip(documented) {
            let (is, rate_is) = (line.bits_per_key(), line.full_rate());
            assert!((is - bits_per_key).abs() < 0.06, "{line:?}: {is} bits per key");
            assert!((rate_is / rate - 1.0).abs() < 0.025, "{line:?}: a rate of {rate_is}");
        }
    }

    #[test]
    fn a_plain_filter_replaces_lines_where_it_is_clearly_better() {
        let for_rate = |rate| Fingerprints::for_rate(Kind::Line, rate);
        for (rate, kind, bits) in [
            (0.6, Kind::Plain, 4),
            (0.0075, Kind::Plain, 10),
            (0.0074, Kind::Line, 9),
            (0.002, Kind::Line, 9),
            (0.0019, Kind::Line, 10),
            (0.0005, Kind::Line, 11),
            (0.0002, Kind::Line, 12),
            (0.0001, Kind::Plain, 17),
            (0.000_012, Kind::Line, 16),
            (0.000_009, Kind::Plain, 20),
            (2e-9, Kind::Plain, 32),
        ] {
            assert_eq!(for_rate(rate), Some(of(kind, bits)), "{rate}");
        }
        assert_eq!(for_rate(1e-10), None);
        let within = |most: f64| Fingerprints::longest(Kind::Line, |of| of.bits_per_key() <= most);
        for (most, kind, bits) in [
            (12.4, Kind::Plain, 11),
            (12.5, Kind::Line, 9),
            (13.7, Kind::Line, 9),
            (13.8, Kind::Line, 10),
            (15.4, Kind::Line, 11),
            (16.9, Kind::Line, 12),
            (19.0, Kind::Plain, 18),
            (22.6, Kind::Line, 16),
            (40.0, Kind::Plain, 32),
        ] {
            assert_eq!(within(most), Some(of(kind, bits)), "{most}");
        }
        assert_eq!(within(4.0), None);
        assert_eq!(Fingerprints::shortest(Kind::Line), of(Kind::Plain, 4));
    }
}
