//! The original cuckoo filter: two bins, fingerprints of `f` bits.
//!
//! Fan et al., as told by Eppstein, "Cuckoo Filter: Simplification and Analysis", section 2.5,
//! and Mitzenmacher et al., section 2.2. There the other bin is `bin xor h2(fingerprint)` with an
//! `h2` that is never zero, which needs a power of two of bins; `literal=1` is that. By default it
//! is `h2(fingerprint) - bin` modulo the number of bins, which is its own inverse for any number
//! of bins. Of each fingerprint's bins one or two are then their own other bin.

use alloc::string::String;
use alloc::vec::Vec;

use crate::digest::{Digest, mix, reduce64};
use crate::error::Result;
use crate::params::{Field, Kind, Literal, Shape as _, Valid, field};

use super::hashes::Fingerprints;
use super::params::Cells;
use super::partial::Pairing;

/// The parameters of "plain".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 32 | 12 |
/// | `b` | cells per bin, 1 to 64 | 4 |
/// | `literal` | 1: a power of two of bins, and two different ones for every key | 0 |
/// | `search` | how a full bin makes room: `bfs` or `walk` | `bfs` |
/// | `full` | what a full filter does: `error`, `rebuild` or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    cells: Cells,
    literal: Literal,
}

impl Kind for Values {
    type Shape = Cells;

    const NAME: &'static str = "plain";
    const ADAPTS: bool = false;
    const USUAL: Self = Values { cells: Cells::new(2, 4), literal: Literal(false) };

    fn shape(&self) -> &Cells {
        &self.cells
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let Values { cells: Cells { f, b, search, full, .. }, literal } = self;
        let cells = [field("f", f), field("b", b), field("literal", literal)];
        cells.into_iter().chain([field("search", search), field("full", full)]).collect()
    }

    fn validate(&self) -> Result<(), String> {
        self.cells.validate_slots(1)?;
        self.cells.validate_fingerprint(0)
    }

    fn label(&self) -> String {
        self.literal.label(Self::NAME)
    }

    fn whole_bins(&self, bins: usize) -> usize {
        if self.literal.0 { bins.next_power_of_two().max(2) } else { bins }
    }

    fn bins(&self, capacity: usize) -> u128 {
        let per_bin = u128::from(self.cells_per_bin()) * u128::from(self.target_permille());
        let bins = (capacity as u128 * 1000).div_ceil(per_bin);
        if self.literal.0 { bins.next_power_of_two().max(2) } else { bins }
    }

    fn bins_within(&self, room: usize, keys: usize) -> Option<usize> {
        let bins = Cells::bins_within(self, room, keys)?;
        let most = if self.literal.0 { 1 << bins.ilog2() } else { bins };
        (self.whole_bins(most) == most).then_some(most)
    }

    fn cells_per_bin(&self) -> u32 {
        self.cells.b
    }
}

/// The other bin mirrors the first about a point that the fingerprint gives, or differs from it
/// in bits that the fingerprint gives.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Reflection {
    bins: usize,
    fingerprints: Fingerprints,
    literal: bool,
}

impl Pairing for Reflection {
    const STASHES: bool = false;

    type Params = Params;

    fn new(params: &Params, bins: usize) -> Self {
        let fingerprints = Fingerprints::new(params.cells.f);
        Reflection { bins, fingerprints, literal: params.literal.0 }
    }

    #[inline]
    fn home(&self, digest: Digest) -> (usize, u64) {
        let bin = reduce64(digest.bits(0, 64), self.bins as u64);
        (bin as usize, self.fingerprints.of(digest.bits(64, 32)))
    }

    #[inline]
    fn other(&self, bin: usize, fingerprint: u64) -> usize {
        if self.literal {
            return bin ^ (1 + reduce64(mix(fingerprint), self.bins as u64 - 1) as usize);
        }
        let sum = reduce64(mix(fingerprint), self.bins as u64) as usize;
        let (difference, below_zero) = sum.overflowing_sub(bin);
        if below_zero { difference.wrapping_add(self.bins) } else { difference }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Each bin is the other of its other bin. As published the two are never the same; by default
    /// they are for one bin of a fingerprint if the bins are odd in number, for none or two
    /// otherwise.
    #[test]
    fn two_bins_are_each_others() {
        let pairing = |text: &str, bins: usize| {
            let params: Params = text.parse().expect("a filter");
            Reflection::new(&params, bins)
        };
        let (usual, literal) = ("plain:f=8", "plain:f=8,literal=1");
        for (text, bins) in [(usual, 100), (usual, 101), (usual, 128), (literal, 2), (literal, 128)]
        {
            let pairing = pairing(text, bins);
            for fingerprint in 1..256 {
                let others = (0..bins).map(|bin| (bin, pairing.other(bin, fingerprint)));
                let own = others.clone().filter(|(bin, other)| bin == other).count();
                assert!(
                    others.clone().all(|(bin, other)| pairing.other(other, fingerprint) == bin)
                );
                assert!(others.clone().all(|(_, other)| other < bins));
                let possible = match (text == literal, bins % 2) {
                    (true, _) => [0, 0],
                    (false, 1) => [1, 1],
                    (false, _) => [0, 2],
                };
                assert!(possible.contains(&own), "{text}, {bins} bins: {own} are their own");
            }
        }
        // Every difference occurs: 127 values, 4000 fingerprints; one is missed with probability
        // 127 (126/127)^4000, below 1e-11.
        let (wide, mut rng) = (pairing("plain:f=32,literal=1", 128), Rng::new(1));
        let mut seen = [false; 128];
        (0..4000).for_each(|_| seen[wide.other(0, rng.below(1 << 32))] = true);
        assert_eq!(seen.iter().filter(|&&seen| !seen).count(), 1, "all but zero");
    }

    #[test]
    fn a_literal_filter_has_a_power_of_two_of_bins() {
        let params: Params = "plain:f=8,literal=1".parse().expect("a filter");
        assert_eq!(
            [1, 100, 1000, 3891, 3892].map(|keys| params.bins(keys)),
            [2, 32, 512, 1024, 2048]
        );
        let whole = |bins| params.whole_bins(bins);
        assert_eq!([1, 2, 3, 4, 5, 1000].map(whole), [2, 2, 4, 4, 8, 1024]);
    }
}
