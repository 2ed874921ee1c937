//! The hash functions of the cuckoo filters, all taken from one digest.

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
    pub(crate) fn bin(self, table: u32, shape: &Shape) -> usize {
        let hash = self.stream.bits(HASH_BITS * table, HASH_BITS);
        shape.bin(table, reduce32(hash, shape.bins as u64) as usize)
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

    /// The 32-bit hash of a selector, which is known only once its cell has been read. It is the
    /// first half of a derived word of its own behind the bins, which needs no shift and no
    /// branch.
    #[inline(always)]
    pub(crate) fn selected_tag(self, selector: u32) -> u64 {
        let first = (self.tables * HASH_BITS).div_ceil(64).max(2);
        self.stream.derived(first + selector) >> HASH_BITS
    }
}

/// Fingerprints of some length. None is zero, because zero marks an empty cell.
#[derive(Clone, Copy)]
pub(crate) struct Fingerprints {
    count: u64,
}

impl Fingerprints {
    pub(crate) fn new(width: u32) -> Self {
        Fingerprints { count: (1 << width) - 1 }
    }

    /// The fingerprint of a 32-bit hash, uniform over all values.
    #[inline(always)]
    pub(crate) fn of(self, hash: u64) -> u64 {
        1 + reduce32(hash, self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bins, tags and the tags of selectors are of different bits, as the picture above has them.
    #[test]
    fn tags_are_behind_the_bins() {
        let digest = Digest::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        for tables in 2..=16 {
            let hashes = Hashes::new(digest, 0, tables);
            let end = 32 * tables;
            let first = (2..).find(|word| 64 * word >= end).expect("a word behind the bins");
            for index in 0..20 {
                assert_eq!(hashes.tag(index), digest.bits(end + 32 * index, 32), "{tables}");
                assert_eq!(hashes.tag_bits(index, 9), digest.bits(end + index, 9), "{tables}");
                let tag = digest.bits(64 * (first + index), 32);
                assert_eq!(hashes.selected_tag(index), tag, "{tables} tables, {index}");
            }
        }
    }

    /// Every value from 1 on, each as often.
    #[test]
    fn fingerprints_are_uniform_and_not_zero() {
        let fingerprints = Fingerprints::new(3);
        let mut counts = [0; 8];
        for hash in (0..7_000).map(|step| (step << 32) / 7_000) {
            counts[fingerprints.of(hash) as usize] += 1;
        }
        assert!(
            counts[0] == 0 && counts[1..].iter().all(|count| (999..=1001).contains(count)),
            "{counts:?}"
        );
    }
}
