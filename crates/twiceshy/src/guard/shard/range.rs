//! The range of digests that a shard is responsible for.
//!
//! ```text
//! digest       | shard |            the rest: 128 - s bits             |
//! as the
//! filter sees  |            the rest: 128 - s bits             | check |
//! ```
//!
//! A shard's digests are one range, so its reads of the store are as local as those of the
//! whole guard. Its filter sees *inner* digests: the shard's digests in the same order, spread
//! over all 128 bits. The check bits, which would otherwise be constant, are a hash of the rest.

use std::ops::RangeInclusive;

use twiceshy_filters::Digest;
use twiceshy_filters::internals::mix;

/// The digests that begin with the same bits: a shard's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShardRange {
    bits: u32,
    index: usize,
}

impl ShardRange {
    /// Shard `index` of `2^bits`.
    pub(crate) fn new(bits: u32, index: usize) -> Self {
        debug_assert!(bits < 32 && index >> bits == 0);
        ShardRange { bits, index }
    }

    /// The index of a digest's shard, of `2^bits`.
    #[inline]
    pub(crate) fn index_of(outer: Digest, bits: u32) -> usize {
        // In two steps: with one shard, all 64 bits are shifted out.
        (outer.word(0) >> 1 >> (63 - bits)) as usize
    }

    /// This shard's share of what all shards have together.
    pub(crate) fn share(&self, whole: usize) -> usize {
        whole >> self.bits
    }

    /// A digest of the shard as its filter sees it.
    #[inline]
    pub(crate) fn inner(&self, outer: Digest) -> Digest {
        if self.bits == 0 {
            return outer;
        }
        let check = mix(outer.word(0) ^ outer.word(1)) >> (64 - self.bits);
        Digest::from_number(outer.number() << self.bits | u128::from(check))
    }

    /// The digest that the filter sees as this one, whatever the check bits are.
    fn outer(&self, inner: Digest) -> Digest {
        if self.bits == 0 {
            return inner;
        }
        let first = (self.index as u128) << (128 - self.bits);
        Digest::from_number(first | inner.number() >> self.bits)
    }

    /// A range with all digests that the filter sees in an inner range, and at most two
    /// others.
    pub(crate) fn outer_range(&self, inner: &RangeInclusive<Digest>) -> RangeInclusive<Digest> {
        self.outer(*inner.start())..=self.outer(*inner.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twiceshy_filters::internals::Rng;
    use twiceshy_filters::remote::EVERY_DIGEST;

    #[test]
    fn shards_keep_digests_and_their_order() {
        let mut rng = Rng::new(1);
        for bits in [0, 1, 6, 13] {
            for _ in 0..1000 {
                let mut pair = [0, 1].map(|_| Digest::new([rng.next(), rng.next()]));
                // Close to each other, so that both are in one range.
                pair[1] =
                    Digest::from_number(pair[0].number() ^ u128::from(rng.next() >> (bits + 1)));
                let index = ShardRange::index_of(pair[0], bits);
                assert!(index >> bits == 0);
                let range = ShardRange::new(bits, index);
                let inner = pair.map(|outer| range.inner(outer));
                assert_eq!(inner.map(|inner| range.outer(inner)), pair);
                assert_eq!(inner[0].cmp(&inner[1]), pair[0].cmp(&pair[1]));
                assert!(range.outer_range(&(inner[0]..=inner[0])).contains(&pair[0]));
            }
            let whole: Vec<_> = (0..1 << bits)
                .map(|index| ShardRange::new(bits, index).outer_range(&EVERY_DIGEST))
                .collect();
            assert_eq!(whole[0].start(), EVERY_DIGEST.start());
            assert_eq!(whole.last().expect("one").end(), EVERY_DIGEST.end());
            let adjacent = |pair: &[RangeInclusive<Digest>]| {
                pair[0].end().number() + 1 == pair[1].start().number()
            };
            assert!(whole.windows(2).all(adjacent));
        }
    }

    /// Snapshots have fingerprints of these digests. (Computed apart from this code.)
    #[test]
    fn check_bits_are_those_of_snapshots() {
        let number = 0x0123_4567_89ab_cdef_0f1e_2d3c_4b5a_6978;
        for (bits, expected) in [
            (0, number),
            (8, 0x2345_6789_abcd_ef0f_1e2d_3c4b_5a69_7889),
            (12, 0x3456_789a_bcde_f0f1_e2d3_c4b5_a697_8895),
        ] {
            let outer = Digest::from_number(number);
            let range = ShardRange::new(bits, ShardRange::index_of(outer, bits));
            assert_eq!(range.inner(outer), Digest::from_number(expected), "{bits} bits");
        }
    }
}
