//! The simplified cuckoo filter: the other bin is `bin xor fingerprint`.
//!
//! Eppstein, "Cuckoo Filter: Simplification and Analysis", sections 3 to 5.
//! Bins whose numbers agree in all but the low `f` bits form a subtable, a
//! small cuckoo filter of its own; there may be any number of subtables. What
//! does not fit a subtable goes to its [`super::stash::Stash`].
//!
//! The paper remarks that any `(2^f - 1)`-regular graph on the bins would do in
//! place of these cliques, with a fingerprint as the name of an edge; nobody
//! has needed one, and it is not built here.

use crate::digest::{Digest, reduce64};
use crate::spec::{Kind, Spec};

use super::hashes::Fingerprints;
use super::partial::Pairing;

/// The other bin is in the same subtable, the fingerprint away.
#[derive(Clone, Copy)]
pub struct Difference {
    subtables: u64,
    width: u32,
    fingerprints: Fingerprints,
}

impl Pairing for Difference {
    const KIND: Kind = Kind::Simplified;
    const STASHES: bool = true;

    fn new(spec: &Spec, bins: usize) -> Self {
        let fingerprints = Fingerprints::new(spec.f);
        Difference { subtables: (bins >> spec.f) as u64, width: spec.f, fingerprints }
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
