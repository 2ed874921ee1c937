//! The hash functions of the cuckoo filters, all cut from one digest.

use crate::digest::{Digest, reduce32};

use super::table::Shape;

/// The hash functions of one digest: bins in every table, and tags.
///
/// ```text
/// stream of the digest  | bin in table 0 | ... | bin in table k-1 | tag 0 | tag 1 | ...
///                         32 bits each                              32 bits each
/// ```
#[derive(Clone, Copy)]
pub struct Hashes {
    stream: Digest,
    tables: u32,
}

const HASH_BITS: u32 = 32;

impl Hashes {
    #[inline(always)]
    pub(crate) fn new(digest: Digest, seed: u64, tables: u32) -> Self {
        Hashes { stream: digest.rehashed(seed), tables }
    }

    /// The bin in one of the tables.
    #[inline(always)]
    pub(crate) fn bin(self, table: u32, bins: usize) -> usize {
        reduce32(self.stream.bits(HASH_BITS * table, HASH_BITS), bins as u64) as usize
    }

    /// The first cell of the bin in one of the tables.
    #[inline]
    pub(crate) fn first_cell(self, shape: &Shape, table: u32) -> usize {
        shape.first_cell(table, self.bin(table, shape.bins))
    }

    /// The 32-bit hash from which tag `index` is made.
    #[inline(always)]
    pub(crate) fn tag(self, index: u32) -> u64 {
        self.tag_bits(HASH_BITS * index, HASH_BITS)
    }

    /// Bits of the stream behind the bins.
    #[inline(always)]
    pub(crate) fn tag_bits(self, at: u32, count: u32) -> u64 {
        self.stream.bits(HASH_BITS * self.tables + at, count)
    }

    /// The 32-bit hash of a selector, which is known only when its cell has
    /// been read: the first half of a derived word of its own behind the bins,
    /// so that there is nothing to shift or to branch on.
    #[inline(always)]
    pub(crate) fn selected_tag(self, selector: u32) -> u64 {
        let first = (self.tables * HASH_BITS).div_ceil(64).max(2);
        self.stream.derived(first + selector) >> HASH_BITS
    }
}

/// A fingerprint of `width` bits that is not zero, because zero marks an empty
/// cell: uniform over `2^width - 1` values.
#[inline(always)]
pub(crate) fn fingerprint(hash: u64, width: u32) -> u64 {
    1 + reduce32(hash, (1 << width) - 1)
}
