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

use super::hashes::{Fingerprints, Hashes};
use super::mirrored::{Mirrored, Rule};
use super::table::Place;

/// One fingerprint, wherever the key sits.
#[derive(Clone, Copy)]
pub struct PlainFull {
    fingerprints: Fingerprints,
}

impl Rule for PlainFull {
    const KINDS: &[Kind] = &[Kind::PlainFull];
    const BY_PATTERN: bool = true;

    fn new(spec: &Spec) -> Self {
        PlainFull { fingerprints: Fingerprints::new(spec.f) }
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
