//! The cuckoo filter that the adaptive ones are compared with: `k` tables,
//! real hashes of the key, one fingerprint that never changes.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 4.1
//! (the baseline, d = 4, c = 1).

use alloc::string::String;
use alloc::vec::Vec;

use crate::bits::lanes::Lanes;
use crate::digest::Digest;
use crate::error::Result;
use crate::params::{Field, Kind, Valid};
use crate::remote::Mirror;

use super::hashes::{Fingerprints, Hashes};
use super::mirrored::{Mirrored, Rule};
use super::params::Cells;
use super::table::Place;

/// The parameters of "plain-full".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 32 | 12 |
/// | `k` | tables, 2 to 16 | 4 |
/// | `b` | cells per bin, 1 to 64 | 1 |
/// | `search` | how a full bin makes room: `bfs`, `walk`, or `next` as published | `bfs` |
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

    const NAME: &'static str = "plain-full";
    const ADAPTS: bool = false;
    const USUAL: Self = Values { cells: Cells::new(4, 1) };

    fn shape(&self) -> &Cells {
        &self.cells
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        self.cells.fields([], [])
    }

    fn validate(&self) -> Result<(), String> {
        self.cells.validate_tables(1)?;
        self.cells.validate_fingerprint(0)
    }
}

/// One fingerprint, wherever the key sits.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct PlainFull {
    fingerprints: Fingerprints,
}

impl Rule for PlainFull {
    const BY_PATTERN: bool = true;
    const SAME_IN_BIN: bool = true;

    type Params = Params;

    fn new(params: &Params) -> Self {
        PlainFull { fingerprints: Fingerprints::new(params.cells.f) }
    }

    #[inline]
    fn arrival(&self, hashes: Hashes, _: Place) -> u64 {
        self.fingerprints.of(hashes.tag(0))
    }

    #[inline(always)]
    fn pattern(&self, hashes: Hashes, _: u32, lanes: &Lanes) -> u64 {
        lanes.broadcast(self.fingerprints.of(hashes.tag(0)))
    }

    /// Nothing to change: a false positive stays one.
    fn fix(
        _: &mut Mirrored<Self>,
        _: Digest,
        _: &[(usize, Digest)],
        _: &mut dyn Mirror,
    ) -> Result<()> {
        Ok(())
    }
}
