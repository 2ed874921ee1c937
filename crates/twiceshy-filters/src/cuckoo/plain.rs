//! The original cuckoo filter: two bins, fingerprints of `f` bits.
//!
//! Fan et al., as told by Eppstein, "Cuckoo Filter: Simplification and Analysis", section 2.5,
//! and Mitzenmacher et al., section 2.2. There the other bin is `bin xor h2(fingerprint)`, which
//! needs a power of two of bins. Here it is `h2(fingerprint) - bin` modulo the number of bins,
//! which is its own inverse for any number of bins.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::digest::{Digest, mix, reduce64};
use crate::error::Result;
use crate::params::{Field, Kind, Valid, field};

use super::hashes::Fingerprints;
use super::params::Cells;
use super::partial::Pairing;

/// The parameters of "plain".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 32 | 12 |
/// | `b` | cells per bin, 1 to 64 | 4 |
/// | `search` | how a full bin makes room: `bfs` or `walk` | `bfs` |
/// | `full` | what a full filter does: `error`, `rebuild` or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    cells: Cells,
}

impl Kind for Values {
    type Shape = Cells;

    const NAME: &'static str = "plain";
    const ADAPTS: bool = false;
    const USUAL: Self = Values { cells: Cells::new(2, 4) };

    fn shape(&self) -> &Cells {
        &self.cells
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let Cells { f, b, search, full, .. } = &mut self.cells;
        vec![field("f", f), field("b", b), field("search", search), field("full", full)]
    }

    fn validate(&self) -> Result<(), String> {
        self.cells.validate_slots(1)?;
        self.cells.validate_fingerprint(0)
    }

    fn cells_per_bin(&self) -> u32 {
        self.cells.b
    }
}

/// The other bin mirrors the first about a point that the fingerprint gives.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Reflection {
    bins: usize,
    fingerprints: Fingerprints,
}

impl Pairing for Reflection {
    const STASHES: bool = false;

    type Params = Params;

    fn new(params: &Params, bins: usize) -> Self {
        Reflection { bins, fingerprints: Fingerprints::new(params.cells.f) }
    }

    #[inline]
    fn home(&self, digest: Digest) -> (usize, u64) {
        let bin = reduce64(digest.bits(0, 64), self.bins as u64);
        (bin as usize, self.fingerprints.of(digest.bits(64, 32)))
    }

    #[inline]
    fn other(&self, bin: usize, fingerprint: u64) -> usize {
        let sum = reduce64(mix(fingerprint), self.bins as u64) as usize;
        let (difference, below_zero) = sum.overflowing_sub(bin);
        if below_zero { difference.wrapping_add(self.bins) } else { difference }
    }
}
