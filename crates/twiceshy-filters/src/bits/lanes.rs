//! A word as lanes of equal width, and tests on all lanes at once.
//!
//! This is the bit-parallel query of Eppstein, "Cuckoo Filter: Simplification and Analysis",
//! section 6, without its two drawbacks. The paper adds 1 to each lane of the complemented
//! difference and looks for carries: that needs a spare bit above the last lane, and the carry
//! out of a matching lane can flag the lane above it as well. Here the high bit of each lane is
//! left out of the addition, so no carry leaves a lane:
//!
//! ```text
//! difference     x          lane = 0 where the lane matches
//! (x & low) + low           high bit set  iff  any low bit of the lane is set
//! ... | x                   high bit set  iff  any bit of the lane is set
//! ```

use super::packed::mask;
use super::word::low_bits;

/// `count` lanes of `width` bits, from the lowest bits of a word up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lanes {
    /// The lowest bit of each lane.
    ones: u64,
    /// The negative of that: adding it needs no copy of the word.
    minus_ones: u64,
    /// The highest bit of each lane.
    highs: u64,
    /// All other bits of each lane.
    lows: u64,
    width: u32,
    bits: u32,
    /// `2^16 / width`, rounded up: a division by the width in one product.
    reciprocal: u32,
}

impl Lanes {
    /// `None` where the lanes do not fit a word.
    pub(crate) const fn new(count: u32, width: u32) -> Option<Self> {
        let Some(bits @ 1..=64) = count.checked_mul(width) else { return None };
        let mut ones = 0u64;
        let mut lane = 0;
        while lane < count {
            ones |= 1 << (lane * width);
            lane += 1;
        }
        let highs = ones << (width - 1);
        let reciprocal = (1u32 << 16).div_ceil(width);
        let (minus_ones, lows) = (ones.wrapping_neg(), mask(bits) & !highs);
        Some(Lanes { ones, minus_ones, highs, lows, width, bits, reciprocal })
    }

    /// Bits of all lanes together.
    #[inline]
    pub(crate) fn bits(&self) -> u32 {
        self.bits
    }

    /// `value` in every lane.
    #[inline]
    pub(crate) fn broadcast(&self, value: u64) -> u64 {
        self.ones.wrapping_mul(value)
    }

    /// The high bit of every lane of `word` that is zero.
    #[inline(always)]
    pub(crate) fn zeros(&self, word: u64) -> u64 {
        !(((word & self.lows) + self.lows) | word) & self.highs
    }

    /// The high bit of the lowest lane that is zero, and perhaps of others above
    /// it: a borrow runs on from a lane that is zero. Enough to know whether
    /// there is any, in fewer steps than [`Lanes::zeros`].
    #[inline(always)]
    fn borrows(&self, word: u64) -> u64 {
        word.wrapping_add(self.minus_ones) & !word
    }

    /// Whether any lane of `word` is zero.
    #[inline(always)]
    pub(crate) fn any_zero(&self, word: u64) -> bool {
        self.borrows(word) & self.highs != 0
    }

    /// Whether any lane of either word is zero.
    #[inline(always)]
    pub(crate) fn any_zero_of(&self, one: u64, other: u64) -> bool {
        (self.borrows(one) | self.borrows(other)) & self.highs != 0
    }

    /// Whether any lane of the lowest `bits` bits (0 to 64) of `word` is zero.
    #[inline(always)]
    pub(crate) fn any_zero_below(&self, word: u64, bits: u32) -> bool {
        self.borrows(word) & self.highs & low_bits(bits) != 0
    }

    /// How many lanes of the lowest `bits` bits (0 to 64) of `word` hold `value`
    /// or less.
    #[inline(always)]
    pub(crate) fn count_up_to(&self, word: u64, value: u64, bits: u32) -> u32 {
        (self.at_most(word, self.broadcast(value)) & low_bits(bits)).count_ones()
    }

    /// Whether the lanes of the lowest `bits` bits (0 to 64) of `word` are in order
    /// from the lowest up, equal ones allowed.
    #[inline(always)]
    pub(crate) fn are_sorted(&self, word: u64, bits: u32) -> bool {
        // The last has no next, nor has one that fills the word.
        let pairs = low_bits(bits.saturating_sub(self.width)) & self.highs;
        self.at_most(word, word.wrapping_shr(self.width)) & pairs == pairs
    }

    /// The high bit of every lane of `word` that is no more than that of `most`.
    #[inline(always)]
    fn at_most(&self, word: u64, most: u64) -> u64 {
        // The high bits aside, no lane borrows from the next.
        let lows_fit = (most | self.highs) - (word & self.lows);
        (most & !word | !(most ^ word) & lows_fit) & self.highs
    }

    /// The first lane that is marked at its high bit.
    #[inline]
    pub(crate) fn first(&self, marks: u64) -> u32 {
        (marks.trailing_zeros() * self.reciprocal) >> 16
    }

    /// The lowest bit of the first lane that is marked at its high bit.
    #[inline(always)]
    pub(crate) fn first_bit(&self, marks: u64) -> u32 {
        marks.trailing_zeros() + 1 - self.width
    }

    /// All bits of the lanes that are marked at their high bit.
    #[inline]
    pub(crate) fn spread(&self, marks: u64) -> u64 {
        (marks >> (self.width - 1)).wrapping_mul(mask(self.width))
    }

    /// The lowest bit of each lane.
    #[inline]
    pub(crate) fn ones(&self) -> u64 {
        self.ones
    }

    /// The value in lane `index`.
    #[inline]
    pub(crate) fn lane(&self, word: u64, index: u32) -> u64 {
        word >> (index * self.width) & mask(self.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn naive_zeros(word: u64, count: u32, width: u32) -> u64 {
        (0..count)
            .filter(|lane| word >> (lane * width) & mask(width) == 0)
            .fold(0, |marks, lane| marks | 1 << (lane * width + width - 1))
    }

    /// The paper's own formula, with its bit of room.
    fn paper_marks(word: u64, value: u64, count: u32, width: u32) -> u128 {
        let ones = (0..count).fold(0u128, |w, lane| w | 1 << (lane * width));
        let q = u128::from(word) ^ (u128::from(value ^ mask(width)) * ones);
        ((q + ones) ^ q ^ ones) & ones << width
    }

    #[test]
    fn all_words_and_values_of_small_sizes() {
        for (count, width) in [
            (1, 1),
            (6, 1),
            (1, 2),
            (2, 2),
            (4, 2),
            (7, 2),
            (2, 3),
            (4, 3),
            (5, 3),
            (3, 4),
            (4, 4),
            (2, 7),
        ] {
            let lanes = Lanes::new(count, width).expect("fits");
            for word in 0..1u64 << (count * width) {
                for below in 0..=count {
                    let sorted = (0..below).map(|lane| lanes.lane(word, lane)).is_sorted();
                    assert_eq!(lanes.are_sorted(word, below * width), sorted, "{word:b} {below}");
                }
                for value in 0..1u64 << width {
                    let difference = word ^ lanes.broadcast(value);
                    let expected = naive_zeros(difference, count, width);
                    assert_eq!(
                        lanes.zeros(difference),
                        expected,
                        "{count}x{width} {word:b} {value:b}"
                    );
                    assert_eq!(lanes.any_zero(difference), expected != 0, "{word:b} {value:b}");
                    // The paper's first flag is right; a later one may not be.
                    let paper = paper_marks(word, value, count, width);
                    assert_eq!(paper == 0, expected == 0);
                    if expected != 0 {
                        assert_eq!(paper.trailing_zeros() - 1, expected.trailing_zeros());
                    }
                }
            }
        }
    }

    #[test]
    fn the_papers_carry_flags_a_lane_that_does_not_match() {
        // Lane 0 matches 5; lane 1 holds 5 ^ 1, which the carry turns into a flag.
        let word = (5 ^ 1) << 4 | 5;
        assert_eq!(paper_marks(word, 5, 2, 4).count_ones(), 2);
        let lanes = Lanes::new(2, 4).expect("fits");
        assert_eq!(lanes.zeros(word ^ lanes.broadcast(5)).count_ones(), 1);
    }

    #[test]
    fn random_words_of_every_size_that_fits() {
        let mut rng = Rng::new(3);
        for width in 1..=64 {
            for count in 1..=64 / width {
                let lanes = Lanes::new(count, width).expect("fits");
                for _ in 0..200 {
                    // Lanes are zeroed at random so that matches are common.
                    let mut word = rng.next() & mask(lanes.bits());
                    for lane in 0..count {
                        if rng.below(3) == 0 {
                            word &= !(mask(width) << (lane * width));
                        }
                    }
                    let marks = naive_zeros(word, count, width);
                    assert_eq!(lanes.zeros(word), marks, "{count}x{width} {word:x}");
                    let filled = word | lanes.spread(marks);
                    assert!(!lanes.any_zero(filled) && !lanes.any_zero_of(filled, filled));
                    let any = marks != 0;
                    assert_eq!(lanes.any_zero_of(word, filled), any);
                    assert_eq!(lanes.any_zero_of(filled, word), any);
                    for below in 0..=count {
                        let part = below * width;
                        let any = naive_zeros(word, below, width) != 0;
                        // Behind the last lane there may be anything.
                        let junk = word | rng.next() & !low_bits(lanes.bits());
                        assert_eq!(lanes.any_zero_below(junk, part), any);
                        let value = lanes.lane(rng.next(), 0);
                        let values = (0..below).map(|lane| lanes.lane(word, lane));
                        let up_to = values.filter(|&held| held <= value).count() as u32;
                        assert_eq!(lanes.count_up_to(junk, value, part), up_to, "{value}");
                        let sorted = (0..below).map(|lane| lanes.lane(word, lane)).is_sorted();
                        assert_eq!(lanes.are_sorted(junk, part), sorted, "{count}x{width}");
                    }
                    let first = (0..count).find(|&lane| lanes.lane(word, lane) == 0);
                    assert_eq!(any.then(|| lanes.first(marks)), first, "{count}x{width}");
                }
            }
        }
        assert!(Lanes::new(5, 13).is_none());
    }
}
