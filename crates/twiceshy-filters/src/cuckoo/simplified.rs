//! The simplified cuckoo filter: the other bin is `bin xor fingerprint`.
//!
//! Eppstein, "Cuckoo Filter: Simplification and Analysis", sections 3 to 5.
//! Bins whose numbers agree in all but the low `f` bits form a subtable, a
//! small cuckoo filter of its own; there may be any number of subtables. What
//! does not fit a subtable goes to its stash.
//!
//! The paper remarks that any `(2^f - 1)`-regular graph on the bins would do in place of these
//! cliques, with fingerprints as edge labels. That is not built here.

use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use crate::digest::{Digest, reduce64};
use crate::error::{Error, Result};
use crate::params::{Field, Kind, Params as _, Valid, field, within};

use super::bounds;
use super::hashes::Fingerprints;
use super::params::Cells;
use super::partial::Pairing;

/// The parameters of "simplified".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 24 | 12 |
/// | `b` | cells per bin, 1 to 64 | 4 |
/// | `stash` | stashed fingerprints per subtable, 0 for no stash | 1024 |
/// | `search` | how a full bin makes room: `bfs` or `walk` | `bfs` |
/// | `full` | what a full filter does: `error`, `rebuild` or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    cells: Cells,
    stash: u32,
}

impl Kind for Values {
    type Shape = Cells;

    const NAME: &'static str = "simplified";
    const ADAPTS: bool = false;
    const USUAL: Self = Values { cells: Cells::new(2, 4), stash: 1024 };

    fn shape(&self) -> &Cells {
        &self.cells
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let Cells { f, b, search, full, .. } = &mut self.cells;
        vec![
            field("f", f),
            field("b", b),
            field("stash", &mut self.stash),
            field("search", search),
            field("full", full),
        ]
    }

    fn validate(&self) -> Result<(), String> {
        self.cells.validate_slots(1)?;
        within("f", self.cells.f, 2, 24)?;
        within("stash", self.stash, 0, 1 << 20)
    }

    fn cells_per_bin(&self) -> u32 {
        self.cells.b
    }

    fn bin_step(&self) -> usize {
        1 << self.cells.f
    }

    /// The stash is counted as the keys that do not fit subtables filled to 0.975 (they can be
    /// filled further), plus three standard deviations.
    fn stash_bits(&self, bins: usize, keys: usize) -> usize {
        if self.stash == 0 {
            return 0;
        }
        let step = self.bin_step();
        let subtables = bins / step;
        let placeable = 0.975 * (step * self.cells.b as usize) as f64;
        let (mean, square) = bounds::surplus(keys as f64 / subtables as f64, placeable);
        let entries = subtables as f64 * mean + 3.0 * libm::sqrt(subtables as f64 * square);
        (subtables * size_of::<Vec<u64>>() + libm::ceil(entries) as usize * 8) * 8
    }
}

impl Params {
    /// The parameters of Theorem 4.3 for `keys` keys, and the bins that they take.
    ///
    /// # Errors
    /// [`Error::Spec`] where the theorem promises nothing, or asks for a fingerprint that
    /// is too long.
    pub(crate) fn guaranteed(keys: usize, slots: u32, exponent: f64) -> Result<(Self, usize)> {
        let mut params = Params::default();
        params.0.cells.b = slots;
        let promised = bounds::theorem_4_3(keys, slots, exponent).ok_or_else(|| {
            let reason = "Theorem 4.3 promises no load for these; use 4 cells a bin or more";
            Error::spec(params.to_string(), reason)
        })?;
        let params = params.with("f", promised.fingerprint_bits)?;
        let bins = promised.bins.next_multiple_of(params.bin_step());
        Ok((params, bins))
    }
}

/// The other bin is in the same subtable, the fingerprint away.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Difference {
    subtables: u64,
    width: u32,
    fingerprints: Fingerprints,
}

impl Pairing for Difference {
    const STASHES: bool = true;

    type Params = Params;

    fn new(params: &Params, bins: usize) -> Self {
        let width = params.cells.f;
        let fingerprints = Fingerprints::new(width);
        Difference { subtables: (bins >> width) as u64, width, fingerprints }
    }

    fn stash(params: &Params) -> u32 {
        params.stash
    }

    #[inline]
    fn home(&self, digest: Digest) -> (usize, u64) {
        let subtable = reduce64(digest.bits(0, 64), self.subtables);
        let bin = subtable << self.width | digest.bits(96, self.width);
        (bin as usize, self.fingerprints.of(digest.bits(64, 32)))
    }

    #[inline]
    fn other(&self, bin: usize, fingerprint: u64) -> usize {
        bin ^ fingerprint as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For subtables of 256 bins, filled to 0.93 to 0.98, against the sum over Poisson's formula.
    /// The normal approximation may be off by 5 %: it lacks the skew, a 30th of a deviation.
    #[test]
    fn a_stash_is_as_large_as_it_gets() {
        let params: Params = "simplified:f=8,b=4".parse().expect("a filter");
        let (subtables, cells) = (1000, 1024.0_f64);
        for load in [0.93, 0.96, 0.975, 0.98] {
            let keys = load * cells * subtables as f64;
            let (mean, placeable) = (keys / subtables as f64, 0.975 * cells);
            let mut log_term = -mean;
            let (mut first, mut second) = (0.0, 0.0);
            for count in 1..2000 {
                log_term += libm::log(mean / f64::from(count));
                let over = (f64::from(count) - placeable).max(0.0);
                first += over * libm::exp(log_term);
                second += over * over * libm::exp(log_term);
            }
            let entries = subtables as f64 * first + 3.0 * libm::sqrt(subtables as f64 * second);
            let lists = subtables * size_of::<Vec<u64>>() * 8;
            let bits = params.stash_bits(256 * subtables, keys as usize) - lists;
            let off = bits as f64 / (64.0 * entries) - 1.0;
            assert!(off.abs() < 0.05, "{load}: {bits} bits for {entries} entries");
        }
        let none: Params = "simplified:f=8,b=4,stash=0".parse().expect("a filter");
        assert_eq!(none.stash_bits(256_000, 1_000_000), 0);
    }
}
