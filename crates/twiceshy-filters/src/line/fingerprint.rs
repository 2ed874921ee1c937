//! What a digest leaves in a slot.

use super::shape::{REMAINDER_BITS, Shape};
use crate::digest::{Digest, fold};

/// An odd constant with no structure: the golden ratio.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which hash functions the fingerprints of a line come from: an odd byte, of 128 that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Epoch(u8);

impl Epoch {
    pub(super) const FIRST: Self = Epoch(1);

    /// The upper seven bits of a byte say which.
    #[inline(always)]
    pub(super) fn of(byte: u8) -> Self {
        Epoch(byte | 1)
    }

    /// The byte that [`Epoch::of`] reads, with a zero below.
    #[inline(always)]
    pub(super) fn byte(self) -> u8 {
        self.0 ^ 1
    }

    /// Another one, chosen by a number.
    pub(super) fn another(self, number: u64) -> Self {
        Epoch(self.0.wrapping_add(2 * (1 + number % 127) as u8))
    }
}

/// The hash bits of a digest in an epoch: all fingerprints there are cut from them.
#[derive(Clone, Copy)]
pub(super) struct Hash(u64);

impl Hash {
    #[inline(always)]
    pub(super) fn of(digest: Digest, epoch: Epoch) -> Self {
        Hash(fold(digest.word(1), STEP.wrapping_mul(u64::from(epoch.0))))
    }

    /// The fingerprint under a selector, which is below [`Shape::selectors`] or of no account.
    #[inline(always)]
    pub(super) fn select(self, selector: u32, shape: &Shape) -> Fingerprint {
        Fingerprint(self.0.rotate_right(selector.wrapping_mul(shape.fingerprint_bits())))
    }
}

/// A remainder and a bit for each plane. Bits above are others'.
#[derive(Clone, Copy)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    /// Zeros.
    pub(super) const NONE: Self = Fingerprint(0);

    #[inline(always)]
    pub(super) fn remainder(self) -> u8 {
        self.0 as u8
    }

    /// Its bit of a plane, in every position.
    #[inline(always)]
    pub(super) fn plane(self, plane: usize) -> u64 {
        0u64.wrapping_sub(self.0 >> (REMAINDER_BITS as usize + plane) & 1)
    }

    /// Whether two digests look alike where planes from `first` on are compared.
    pub(super) fn equals(self, other: Self, first: usize, shape: &Shape) -> bool {
        let differ = self.0 ^ other.0;
        let planes = differ >> REMAINDER_BITS & ((1 << shape.planes) - 1);
        differ as u8 == 0 && planes >> first == 0
    }
}
