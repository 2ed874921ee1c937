//! The cuckoo filter that the adaptive ones are compared with: `k` tables,
//! real hashes of the key, one fingerprint that never changes.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 4.1
//! (the baseline, d = 4, c = 1).

use crate::bits::lanes::Lanes;
use crate::digest::Digest;
use crate::error::Result;
use crate::remote::Mirror;
use crate::spec::{Kind, Spec};

use super::hashes::{Hashes, fingerprint};
use super::mirrored::{Mirrored, Rule};
use super::table::Place;

/// One fingerprint, wherever the key sits.
#[derive(Clone, Copy)]
pub struct PlainFull {
    width: u32,
}

impl Rule for PlainFull {
    const KINDS: &[Kind] = &[Kind::PlainFull];

    fn new(spec: &Spec) -> Self {
        PlainFull { width: spec.f }
    }

    #[inline]
    fn arrival(&self, hashes: Hashes, _: Place) -> u64 {
        fingerprint(hashes.tag(0), self.width)
    }

    #[inline(always)]
    fn pattern(&self, hashes: Hashes, _: u32, lanes: &Lanes) -> u64 {
        lanes.broadcast(fingerprint(hashes.tag(0), self.width))
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
