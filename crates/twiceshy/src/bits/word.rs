//! Rank and select on a word: the leaf of bit-counting intrinsics.
//!
//! ```text
//! word           0 0 1 0 1 1 0 1        bit 7 .. bit 0
//! rank(word, 3)  = 3                    set bits at positions 0 to 3
//! select(word, 2) = 3                   where set bit number 2, from 0, is
//! ```
//!
//! On x86-64 both are a few instructions where the processor has BMI2 (Pandey
//! et al., "A General-Purpose Counting Filter"); whether it has is asked at run
//! time, and remembered by the standard library. Elsewhere, and under Miri, the
//! safe twin runs. Tests drive both.

/// Set bits of `word` at positions 0 to `bit`, both included.
#[inline]
pub(crate) fn rank(word: u64, bit: u32) -> u32 {
    debug_assert!(bit < 64, "a word has no bit {bit}");
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if intrinsics::available() {
        // SAFETY: `available` has just found every feature that it needs.
        return unsafe { intrinsics::rank(word, bit) };
    }
    portable::rank(word, bit)
}

/// The position of set bit number `index` (below 64), counted from 0 at the
/// lowest; 64 where there are not so many.
#[inline]
pub(crate) fn select(word: u64, index: u32) -> u32 {
    debug_assert!(index < 64, "a word has no set bit number {index}");
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if intrinsics::available() {
        // SAFETY: `available` has just found every feature that it needs.
        return unsafe { intrinsics::select(word, index) };
    }
    portable::select(word, index)
}

/// [`select`] in 128 bits, of which at least `index + 1` must be set.
#[inline]
pub(crate) fn select_wide(wide: u128, index: u32) -> u32 {
    debug_assert!(index < wide.count_ones(), "{wide:x} has no set bit number {index}");
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if intrinsics::available() {
        // SAFETY: `available` has just found every feature that it needs.
        return unsafe { intrinsics::select_wide(wide, index) };
    }
    portable::select_wide(wide, index)
}

/// The lowest `count` bits (0 to 64) set.
#[inline]
pub(crate) const fn low_bits(count: u32) -> u64 {
    if count == 0 { 0 } else { u64::MAX >> (64 - count) }
}

/// The lowest `count` bits (0 to 128) set.
#[inline]
pub(crate) const fn low_bits_wide(count: u32) -> u128 {
    if count == 0 { 0 } else { u128::MAX >> (128 - count) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod intrinsics {
    use std::arch::is_x86_feature_detected;
    use std::arch::x86_64::{_bzhi_u64, _pdep_u64};

    #[inline]
    pub(super) fn available() -> bool {
        is_x86_feature_detected!("bmi2") && is_x86_feature_detected!("popcnt")
    }

    #[inline]
    #[target_feature(enable = "bmi2,popcnt")]
    pub(super) fn rank(word: u64, bit: u32) -> u32 {
        _bzhi_u64(word, bit + 1).count_ones()
    }

    #[inline]
    #[target_feature(enable = "bmi2,popcnt")]
    pub(super) fn select(word: u64, index: u32) -> u32 {
        _pdep_u64(1 << index, word).trailing_zeros()
    }

    #[inline]
    #[target_feature(enable = "bmi2,popcnt")]
    pub(super) fn select_wide(wide: u128, index: u32) -> u32 {
        let (low, high) = (wide as u64, (wide >> 64) as u64);
        let below = low.count_ones();
        if index < below { select(low, index) } else { 64 + select(high, index - below) }
    }
}

mod portable {
    use super::low_bits;

    /// 1 in every byte.
    const ONES: u64 = 0x0101_0101_0101_0101;
    /// The high bit of every byte.
    const HIGHS: u64 = ONES << 7;

    #[inline]
    pub(super) fn rank(word: u64, bit: u32) -> u32 {
        (word & low_bits(bit + 1)).count_ones()
    }

    /// Counts bytes first, then the bits of one byte.
    #[inline]
    pub(super) fn select(word: u64, index: u32) -> u32 {
        let pairs = word - (word >> 1 & 0x5555_5555_5555_5555);
        let nibbles = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
        let bytes = (nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
        // Byte i: set bits of bytes 0 to i, at most 64.
        let sums = bytes.wrapping_mul(ONES);
        // Bytes that end at or before the wanted bit keep their high bit.
        let passed = (((u64::from(index) * ONES) | HIGHS) - sums) & HIGHS;
        let byte = passed.count_ones();
        if byte == 8 {
            return 64;
        }
        let before = (sums << 8 >> (8 * byte) & 0xff) as u32;
        let mut rest = word >> (8 * byte);
        for _ in before..index {
            rest &= rest - 1;
        }
        8 * byte + rest.trailing_zeros()
    }

    #[inline]
    pub(super) fn select_wide(wide: u128, index: u32) -> u32 {
        let (low, high) = (wide as u64, (wide >> 64) as u64);
        let below = low.count_ones();
        if index < below { select(low, index) } else { 64 + select(high, index - below) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Bit by bit.
    fn slow_select(word: u64, index: u32) -> u32 {
        (0..64).filter(|bit| word >> bit & 1 == 1).nth(index as usize).unwrap_or(64)
    }

    fn slow_rank(word: u64, bit: u32) -> u32 {
        (0..=bit).map(|at| (word >> at & 1) as u32).sum()
    }

    fn compare(word: u64) {
        for at in 0..64 {
            let (ranked, selected) = (slow_rank(word, at), slow_select(word, at));
            assert_eq!(portable::rank(word, at), ranked, "{word:x} {at}");
            assert_eq!(portable::select(word, at), selected, "{word:x} {at}");
            assert_eq!(rank(word, at), ranked, "{word:x} {at}");
            assert_eq!(select(word, at), selected, "{word:x} {at}");
        }
    }

    #[test]
    fn both_twins_agree_with_counting_bit_by_bit() {
        let small = if cfg!(miri) { 1 << 4 } else { 1 << 12 };
        for word in 0..small {
            for shift in [0, 7, 30, 52] {
                compare(word << shift);
            }
        }
        let mut rng = Rng::new(1);
        for round in 0..small {
            // Sparse, even and dense words.
            let word = match round % 3 {
                0 => rng.next() & rng.next() & rng.next(),
                1 => rng.next(),
                _ => rng.next() | rng.next() | rng.next(),
            };
            compare(word);
        }
        compare(u64::MAX);
    }

    #[test]
    fn both_twins_select_in_two_words_as_counting_bit_by_bit() {
        let mut rng = Rng::new(2);
        let sparse = |rng: &mut Rng| rng.next() & rng.next();
        for round in 0..if cfg!(miri) { 8 } else { 1000 } {
            let (low, high) = match round % 4 {
                0 => (sparse(&mut rng), sparse(&mut rng)),
                1 => (0, rng.next()),
                2 => (rng.next(), 0),
                _ => (u64::MAX, u64::MAX),
            };
            let wide = u128::from(high) << 64 | u128::from(low);
            let set = (0..128).filter(|bit| wide >> bit & 1 == 1);
            for (index, bit) in set.enumerate() {
                assert_eq!(portable::select_wide(wide, index as u32), bit, "{wide:x} {index}");
                assert_eq!(select_wide(wide, index as u32), bit, "{wide:x} {index}");
            }
        }
    }

    /// Without it the tests above would have compared one twin with itself.
    #[test]
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn the_intrinsics_run_where_the_processor_has_them() {
        if !intrinsics::available() {
            return;
        }
        // SAFETY: `available` has just found every feature that they need.
        unsafe {
            assert_eq!(intrinsics::rank(0b10_1101, 3), 3);
            assert_eq!(intrinsics::select(0b10_1101, 2), 3);
            assert_eq!(intrinsics::select(0b10_1101, 4), 64);
            assert_eq!(intrinsics::select_wide(0b11 << 63, 1), 64);
        }
    }

    #[test]
    fn low_bits_of_every_count() {
        assert_eq!([low_bits(0), low_bits(1), low_bits(63)], [0, 1, u64::MAX >> 1]);
        assert_eq!(low_bits(64), u64::MAX);
        assert_eq!([low_bits_wide(0), low_bits_wide(65)], [0, u128::MAX >> 63]);
        assert_eq!(low_bits_wide(128), u128::MAX);
    }
}
