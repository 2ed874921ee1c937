//! The original cuckoo filter: two bins, fingerprints of `f` bits.
//!
//! Fan et al., as told by Eppstein, "Cuckoo Filter: Simplification and
//! Analysis", section 2.5, and Mitzenmacher et al., section 2.2. There the
//! other bin is `bin xor h2(fingerprint)`, which needs a power of two of bins.
//! Here it is `h2(fingerprint) - bin` modulo the number of bins: as much its
//! own inverse, for any number of them.

use crate::digest::{Digest, mix, reduce64};
use crate::spec::{Kind, Spec};

use super::hashes::Fingerprints;
use super::partial::Pairing;

/// The other bin mirrors the first about a point that the fingerprint gives.
#[derive(Clone, Copy)]
pub struct Reflection {
    bins: usize,
    fingerprints: Fingerprints,
}

impl Pairing for Reflection {
    const KIND: Kind = Kind::Plain;
    const STASHES: bool = false;

    fn new(spec: &Spec, bins: usize) -> Self {
        Reflection { bins, fingerprints: Fingerprints::new(spec.f) }
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
