//! The parameters that cuckoo filters share.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::str::FromStr;

use libm::exp2;

use super::bounds::{first_pass_rate, target_load_permille};
use super::search::Search;
use crate::bits::packed::Packed;
use crate::error::Error;
use crate::params::{Field, Kind, Params, Shape, Valid, WhenFull, field, within};

/// Cells: how large they are, how many a digest has, and how it gets one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cells {
    /// Bits of a fingerprint.
    pub(crate) f: u32,
    /// Bins that a digest has: one in each table, or two of the only one.
    pub(crate) k: u32,
    /// Cells per bin.
    pub(crate) b: u32,
    pub(crate) search: Search,
    pub(crate) full: WhenFull,
}

impl Cells {
    /// Fingerprints of 12 bits in `k` bins of `b` cells.
    pub(super) const fn new(k: u32, b: u32) -> Self {
        Cells { f: 12, k, b, search: Search::BreadthFirst, full: WhenFull::Rebuild }
    }

    /// All of them in the order in which they are written, with a kind's own behind `f` and
    /// behind `b`.
    pub(super) fn fields<'a>(
        &'a mut self,
        of_fingerprints: impl IntoIterator<Item = Field<'a>>,
        of_adapting: impl IntoIterator<Item = Field<'a>>,
    ) -> Vec<Field<'a>> {
        let Cells { f, k, b, search, full } = self;
        let mut fields = vec![field("f", f)];
        fields.extend(of_fingerprints);
        fields.extend([field("k", k), field("b", b)]);
        fields.extend(of_adapting);
        fields.extend([field("search", search), field("full", full)]);
        fields
    }

    /// Whether the tables are any that a filter can have.
    pub(super) fn validate_tables(&self, least_slots: u32) -> Result<(), String> {
        within("k", self.k, 2, 16)?;
        self.validate_slots(least_slots)
    }

    pub(super) fn validate_slots(&self, least: u32) -> Result<(), String> {
        within("b", self.b, least, 64)
    }

    /// Whether a fingerprint and its selector fit a cell.
    pub(super) fn validate_fingerprint(&self, selector: u32) -> Result<(), String> {
        within("f", self.f, 2, 32 - selector)
    }

    /// The first-pass rate with fingerprints of so many values, where a query looks at the
    /// cells of all bins.
    pub(super) fn rate_of(&self, values: f64, load: f64) -> f64 {
        first_pass_rate(values, self.k * self.b, load)
    }
}

impl Shape for Cells {
    fn cell_bits(&self) -> u32 {
        self.f
    }

    /// Zero is no fingerprint.
    fn first_pass_rate(&self, load: f64) -> f64 {
        self.rate_of(exp2(f64::from(self.f)) - 1.0, load)
    }

    fn target_permille(&self) -> u32 {
        target_load_permille(self.k, self.b)
    }

    fn cells_per_bin(&self) -> u32 {
        self.k * self.b
    }

    fn bins_within(kind: &impl Kind<Shape = Self>, room: usize, keys: usize) -> Option<usize> {
        let (step, width) = (kind.bin_step(), kind.cell_bits());
        let cells = |bins: usize| bins * kind.cells_per_bin() as usize;
        let most = room / (cells(step) * width as usize);
        // A stash wants more room the fewer the subtables.
        let fits = |&steps: &usize| {
            let bins = steps * step;
            Packed::bits_for(cells(bins), width) + kind.stash_bits(bins, keys) <= room
        };
        (1..=most).rev().take(most / 8 + 2).find(fits).map(|steps| steps * step)
    }
}

/// The parameters of a cuckoo filter.
pub trait Cuckoo: Params + Copy + Default + FromStr<Err = Error> {
    /// Those that all of them have.
    fn cells(&self) -> &Cells;
}

impl<K: Kind<Shape = Cells>> Cuckoo for Valid<K> {
    fn cells(&self) -> &Cells {
        self.shape()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::{cyclic, plain, plain_full, simplified, varying};

    /// The probability that one of so many cells looks like a query, by its definition.
    #[test]
    fn rates_are_those_of_their_cells() {
        fn rate(params: impl Params, load: f64) -> f64 {
            params.first_pass_rate(load)
        }
        let parse = "parameters";
        let cells = |values: f64, cells: f64| 1.0 - libm::pow(1.0 - 1.0 / values, cells);
        let load = 0.9;
        let full: plain_full::Params = "plain-full:f=9,k=3,b=2".parse().expect(parse);
        let plain: plain::Params = "plain:f=9,b=4".parse().expect(parse);
        let simplified: simplified::Params = "simplified:f=9,b=4".parse().expect(parse);
        let cyclic: cyclic::Params = "cyclic:f=7,s=2,k=4,b=1".parse().expect(parse);
        let varying: varying::Params = "varying:f=7,s=2,r=3,k=4,b=1".parse().expect(parse);
        for (ours, expected) in [
            (rate(full, load), cells(511.0, 6.0 * load)),
            (rate(plain, load), cells(511.0, 8.0 * load)),
            (rate(simplified, load), cells(511.0, 8.0 * load)),
            // The first function has 2^7 values; or 7 of 8 of 2^9, of which one marks empty cells.
            (rate(cyclic, load), cells(128.0, 4.0 * load)),
            (rate(varying, load), cells(447.0, 4.0 * load)),
        ] {
            assert!((ours / expected - 1.0).abs() < 1e-9, "{ours}, {expected}");
        }
    }

    /// The most bins that fit, and not one step more.
    #[test]
    fn as_many_bins_as_fit_are_used() {
        fn check(
            params: impl Params,
            cells: usize,
            width: u32,
            step: usize,
            stash: impl Fn(usize) -> usize,
        ) {
            for room in [100_000, 1_000_000, 1_234_567] {
                let bins = params.bins_within(room, 10_000).expect("room for one");
                let bits = |bins: usize| Packed::bits_for(bins * cells, width) + stash(bins);
                assert!(bins.is_multiple_of(step) && bits(bins) <= room, "{bins} in {room}");
                assert!(bits(bins + step) > room, "{bins} in {room}");
            }
        }
        let full: plain_full::Params = "plain-full:f=9,k=3,b=2".parse().expect("parameters");
        check(full, 6, 9, 1, |_| 0);
        let cyclic: cyclic::Params = "cyclic:f=7,s=2,k=4,b=1".parse().expect("parameters");
        check(cyclic, 4, 9, 1, |_| 0);
        let simplified: simplified::Params = "simplified:f=6,b=4".parse().expect("parameters");
        check(simplified, 4, 6, 64, |bins| simplified.stash_bits(bins, 10_000));
    }
}
