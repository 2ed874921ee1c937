//! The part of all digests that a shard has.
//!
//! ```text
//! digest       | shard |            the rest: 128 - s bits             |
//! as the
//! filter sees  |            the rest: 128 - s bits             | check |
//! ```
//!
//! A shard's digests are one range, so its store reads are as local as the whole
//! guard's; and its filter sees digests that fill all of theirs, in the same
//! order. The last bits, which would be the same for all, are a hash of the
//! others.

use std::ops::RangeInclusive;

use twiceshy_filters::Digest;
use twiceshy_filters::internals::mix;

/// Digests that begin with the same bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slice {
    bits: u32,
    index: usize,
}

impl Slice {
    /// Slice `index` of `2^bits`.
    pub(super) fn new(bits: u32, index: usize) -> Self {
        debug_assert!(bits < 32 && index >> bits == 0);
        Slice { bits, index }
    }

    /// The slice that a digest is in, of `2^bits`.
    #[inline]
    pub(super) fn index_of(outer: Digest, bits: u32) -> usize {
        // In two steps: with one slice, all 64 bits go.
        (outer.word(0) >> 1 >> (63 - bits)) as usize
    }

    /// This slice's part of what all slices share.
    pub(super) fn share(&self, whole: usize) -> usize {
        whole >> self.bits
    }

    /// A digest of the slice as its filter sees it.
    #[inline]
    pub(super) fn inner(&self, outer: Digest) -> Digest {
        if self.bits == 0 {
            return outer;
        }
        let check = mix(outer.word(0) ^ outer.word(1)) >> (64 - self.bits);
        Digest::from_number(outer.number() << self.bits | u128::from(check))
    }

    /// The digest that the filter sees as this one, or would if the last bits
    /// were right.
    fn outer(&self, inner: Digest) -> Digest {
        if self.bits == 0 {
            return inner;
        }
        let first = (self.index as u128) << (128 - self.bits);
        Digest::from_number(first | inner.number() >> self.bits)
    }

    /// Digests among which are all that the filter sees in this range, and at
    /// most two others.
    pub(super) fn outer_range(&self, inner: &RangeInclusive<Digest>) -> RangeInclusive<Digest> {
        self.outer(*inner.start())..=self.outer(*inner.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use twiceshy_filters::internals::Rng;
    use twiceshy_filters::remote::EVERY_DIGEST;

    #[test]
    fn slices_keep_digests_and_their_order() {
        let mut rng = Rng::new(1);
        for bits in [0, 1, 6, 13] {
            for _ in 0..1000 {
                let mut pair = [0, 1].map(|_| Digest::new([rng.next(), rng.next()]));
                // Close to each other, so that both are in one slice.
                pair[1] =
                    Digest::from_number(pair[0].number() ^ u128::from(rng.next() >> (bits + 1)));
                let index = Slice::index_of(pair[0], bits);
                assert!(index >> bits == 0);
                let slice = Slice::new(bits, index);
                let inner = pair.map(|outer| slice.inner(outer));
                assert_eq!(inner.map(|inner| slice.outer(inner)), pair);
                assert_eq!(inner[0].cmp(&inner[1]), pair[0].cmp(&pair[1]));
                assert!(slice.outer_range(&(inner[0]..=inner[0])).contains(&pair[0]));
            }
            let whole: Vec<_> = (0..1 << bits)
                .map(|index| Slice::new(bits, index).outer_range(&EVERY_DIGEST))
                .collect();
            assert_eq!(whole[0].start(), EVERY_DIGEST.start());
            assert_eq!(whole.last().expect("one").end(), EVERY_DIGEST.end());
            let adjacent = |pair: &[RangeInclusive<Digest>]| {
                pair[0].end().number() + 1 == pair[1].start().number()
            };
            assert!(whole.windows(2).all(adjacent));
        }
    }
}
