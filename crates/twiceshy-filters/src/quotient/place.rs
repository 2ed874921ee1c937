//! Where a digest belongs in a table of any number of slots, and back.
//!
//! A digest's first word, taken as a fraction of 2^64 and multiplied by the
//! number of slots, is cut at the binary point: before it the quotient, behind
//! it the fraction whose first bits are the remainder. This keeps the order of
//! digests, so a quotient is one range of them.

use core::ops::RangeInclusive;

use crate::digest::Digest;

/// A digest as a table of some number of slots sees it.
#[derive(Clone, Copy)]
pub struct Place {
    pub(crate) digest: Digest,
    pub(crate) quotient: usize,
    pub(crate) fraction: u64,
}

impl Place {
    #[inline(always)]
    pub(crate) fn new(digest: Digest, slots: usize) -> Self {
        let product = u128::from(digest.word(0)) * slots as u128;
        Place { digest, quotient: (product >> 64) as usize, fraction: product as u64 }
    }

    /// The first `width` bits behind the quotient.
    #[inline(always)]
    pub(crate) fn remainder(&self, width: u32) -> u64 {
        self.fraction >> (64 - width)
    }
}

/// The digests of these quotients, of `slots`.
pub(crate) fn digests_of(quotients: RangeInclusive<usize>, slots: usize) -> RangeInclusive<Digest> {
    // The first word at or past a quotient; one more than there are for the end
    // of the last.
    let first = |quotient: usize| ((quotient as u128) << 64).div_ceil(slots as u128);
    let (start, end) = quotients.into_inner();
    Digest::new([first(start) as u64, 0])..=Digest::new([(first(end + 1) - 1) as u64, u64::MAX])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_quotient_is_one_range_of_digests() {
        let mut rng = Rng::new(1);
        for slots in [1, 2, 3, 7, 64, 100, 1000, 12_345, u32::MAX as usize] {
            for _ in 0..200 {
                let quotient = rng.below(slots as u64) as usize;
                let range = digests_of(quotient..=quotient, slots);
                let place = |word: u64| Place::new(Digest::new([word, 7]), slots);
                let (first, last) = (range.start().word(0), range.end().word(0));
                assert_eq!(place(first).quotient, quotient);
                assert_eq!(place(last).quotient, quotient);
                assert_eq!(range.start().word(1), 0);
                assert_eq!(range.end().word(1), u64::MAX);
                assert!(first == 0 || place(first - 1).quotient == quotient - 1);
                assert!(last == u64::MAX || place(last + 1).quotient == quotient + 1);
            }
            assert_eq!(digests_of(0..=slots - 1, slots), crate::remote::EVERY_DIGEST);
        }
    }
}
