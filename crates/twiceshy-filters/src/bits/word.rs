//! Rank and select on a word, with bit-counting intrinsics.
//!
//! ```text
//! word           0 0 1 0 1 1 0 1        bit 7 .. bit 0
//! rank(word, 3)   = 2                   set bits below position 3
//! select(word, 2) = 3                   where set bit number 2, from 0, is
//! ```
//!
//! On x86-64 both are a few instructions where the processor has BMI2 (Pandey et al., "A
//! General-Purpose Counting Filter"). The compiler may not assume BMI2, and checking before each
//! word costs more than the word itself. So [`tuned`] checks once per operation, which is
//! compiled twice. Elsewhere, and under Miri, only the safe twin exists. Tests drive both.

use super::bytes::{self, Candidates};

/// Searches for bits and bytes in words.
pub trait Words: Copy {
    /// The position of set bit number `index`, counted from 0 at the lowest; 64
    /// where there are not so many.
    fn select(self, word: u64, index: u32) -> u32;

    /// The positions of set bits number `index` (below 64) and `index + more`,
    /// where `more` is 0 or 1: without a branch on it.
    fn select_two(self, word: u64, index: u32, more: u32) -> (u32, u32);

    /// [`Words::select_two`] as words with that one bit set; none where there are not
    /// so many.
    fn pick_two(self, word: u64, index: u32, more: u32) -> [u64; 2];

    /// Does some work in the same way, out of line: the rare part of an operation, so that the
    /// common part loses neither registers nor instructions to it.
    fn apart<I, W: WorkOn<I>>(self, work: W, input: I) -> W::Outcome;

    /// Whether some bytes of `word` are candidates.
    fn any_byte(self, word: u64, candidates: Candidates) -> bool;
}

/// An operation that searches words.
pub trait Work {
    /// What comes of it.
    type Outcome;

    /// Does it. This and everything that it calls must be `#[inline(always)]`; other code is
    /// compiled for the baseline processor.
    fn run(self, words: impl Words) -> Self::Outcome;
}

/// An operation with an input of its own. Values of more than two words are passed in memory;
/// passing a query and its digest separately keeps both in registers.
pub trait WorkOn<I> {
    /// What comes of it.
    type Outcome;

    /// Does it, as [`Work::run`].
    fn run_on(self, words: impl Words, input: I) -> Self::Outcome;
}

impl<W: Work> WorkOn<()> for W {
    type Outcome = W::Outcome;

    #[inline(always)]
    fn run_on(self, words: impl Words, (): ()) -> W::Outcome {
        self.run(words)
    }
}

/// Does some work with the fast bit-counting instructions of this processor, if it has them.
#[inline(always)]
pub(crate) fn tuned<W: Work>(work: W) -> W::Outcome {
    tuned_on(work, ())
}

/// [`tuned`] for work with an input.
#[inline(always)]
pub(crate) fn tuned_on<I, W: WorkOn<I>>(work: W, input: I) -> W::Outcome {
    #[cfg(all(target_arch = "x86_64", feature = "std", not(miri)))]
    if let Some(level) = intrinsics::Level3::found() {
        return level.run(work, input);
    }
    portable(work, input)
}

/// [`tuned`] for a loop that the compiler vectorises: with AVX-512, if the processor has it.
#[inline(always)]
pub(crate) fn tuned_loop<W: Work>(work: W) -> W::Outcome {
    #[cfg(all(target_arch = "x86_64", feature = "std", not(miri)))]
    if let Some(level) = intrinsics::Level3::found() {
        return level.run_loop(work);
    }
    portable(work, ())
}

/// Does some work with the safe twin. Out of line where that is the exception: callers then
/// inline only the check and one call.
#[cfg_attr(all(target_arch = "x86_64", feature = "std", not(miri)), cold, inline(never))]
#[cfg_attr(not(all(target_arch = "x86_64", feature = "std", not(miri))), inline(always))]
fn portable<I, W: WorkOn<I>>(work: W, input: I) -> W::Outcome {
    work.run_on(Portable, input)
}

/// Set bits of `word` below position `bit` (0 to 64).
#[inline(always)]
pub(crate) const fn rank(word: u64, bit: u32) -> u32 {
    (word & low_bits(bit)).count_ones()
}

/// The position of set bit number `index` of 128, of which at least `index + 1`
/// must be set.
#[inline]
pub(crate) fn select_wide(wide: u128, index: u32) -> u32 {
    debug_assert!(index < wide.count_ones(), "{wide:x} has no set bit number {index}");
    tuned(WideSelect { wide, index })
}

struct WideSelect {
    wide: u128,
    index: u32,
}

impl Work for WideSelect {
    type Outcome = u32;

    #[inline(always)]
    fn run(self, words: impl Words) -> u32 {
        // Which half it is would be an unpredictable branch.
        let below = (self.wide as u64).count_ones();
        let upper = u32::from(self.index >= below);
        let half = (self.wide >> (64 * upper)) as u64;
        64 * upper + words.select(half, self.index - upper * below)
    }
}

/// The lowest `count` bits (0 to 64) set.
#[inline(always)]
pub(crate) const fn low_bits(count: u32) -> u64 {
    match u64::MAX.checked_shl(count) {
        Some(high) => !high,
        None => u64::MAX,
    }
}

/// The lowest `count` bits (0 to 128) set.
#[inline]
pub(crate) const fn low_bits_wide(count: u32) -> u128 {
    if count == 0 { 0 } else { u128::MAX >> (128 - count) }
}

#[cfg(all(target_arch = "x86_64", feature = "std", not(miri)))]
mod intrinsics {
    use core::arch::x86_64::_pdep_u64;
    use core::sync::atomic::{AtomicU8, Ordering};
    use std::arch::is_x86_feature_detected;

    use super::{Words, WorkOn};
    use crate::bits::bytes::{self, Candidates};

    const UNKNOWN: u8 = 0;
    const ABSENT: u8 = 1;
    const PRESENT: u8 = 2;

    /// One byte to check, where the standard library checks each feature.
    static FEATURES: AtomicU8 = AtomicU8::new(UNKNOWN);

    /// Proof that this processor has AVX2, BMI1, BMI2, LZCNT and POPCNT, which come
    /// together: most of what is called x86-64-v3.
    #[derive(Clone, Copy)]
    pub(super) struct Level3(());

    impl Level3 {
        #[inline(always)]
        pub(super) fn found() -> Option<Self> {
            let present = match FEATURES.load(Ordering::Relaxed) {
                UNKNOWN => look(),
                known => known == PRESENT,
            };
            present.then_some(Level3(()))
        }

        #[inline(always)]
        pub(super) fn run<I, W: WorkOn<I>>(self, work: W, input: I) -> W::Outcome {
            // SAFETY: `found` alone makes `self`, and only with every feature.
            unsafe { compiled(self, work, input) }
        }

        #[inline(always)]
        pub(super) fn run_loop<W: WorkOn<()>>(self, work: W) -> W::Outcome {
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vl") {
                // SAFETY: it has these two, and `found` alone makes `self`, with the others.
                unsafe { compiled_wide(self, work) }
            } else {
                self.run(work, ())
            }
        }
    }

    #[cold]
    fn look() -> bool {
        let present = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        FEATURES.store(if present { PRESENT } else { ABSENT }, Ordering::Relaxed);
        present
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn compiled<I, W: WorkOn<I>>(words: Level3, work: W, input: I) -> W::Outcome {
        work.run_on(words, input)
    }

    /// [`compiled`] with twice as wide vectors.
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512vl")]
    fn compiled_wide<W: WorkOn<()>>(words: Level3, work: W) -> W::Outcome {
        work.run_on(words, ())
    }

    /// [`compiled`], never inlined.
    #[inline(never)]
    #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
    fn compiled_apart<I, W: WorkOn<I>>(words: Level3, work: W, input: I) -> W::Outcome {
        work.run_on(words, input)
    }

    impl Words for Level3 {
        #[inline(always)]
        fn select(self, word: u64, index: u32) -> u32 {
            // SAFETY: `found` alone makes `self`, and only with every feature.
            unsafe { nth(word, 1u64.checked_shl(index).unwrap_or(0)) }
        }

        #[inline(always)]
        fn select_two(self, word: u64, index: u32, more: u32) -> (u32, u32) {
            let number = 1 << index;
            // SAFETY: `found` alone makes `self`, and only with every feature.
            unsafe { (nth(word, number), nth(word, number << more)) }
        }

        #[inline(always)]
        fn pick_two(self, word: u64, index: u32, more: u32) -> [u64; 2] {
            let number = 1 << index;
            // SAFETY: `found` alone makes `self`, and only with every feature.
            unsafe { [_pdep_u64(number, word), _pdep_u64(number << more, word)] }
        }

        #[inline(always)]
        fn apart<I, W: WorkOn<I>>(self, work: W, input: I) -> W::Outcome {
            // SAFETY: `found` alone makes `self`, and only with every feature.
            unsafe { compiled_apart(self, work, input) }
        }

        #[inline(always)]
        fn any_byte(self, word: u64, candidates: Candidates) -> bool {
            // SAFETY: `found` alone makes `self`, and only with every feature.
            unsafe { bytes::any_wide(word, candidates) }
        }
    }

    /// The position of the set bit of `word` whose number is that of the one set
    /// bit of `number`; 64 where there is none.
    #[inline]
    #[target_feature(enable = "bmi1,bmi2")]
    fn nth(word: u64, number: u64) -> u32 {
        _pdep_u64(number, word).trailing_zeros()
    }
}

/// The safe twin.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

impl Words for Portable {
    /// Counts bytes first, then the bits of one byte.
    #[inline]
    fn select(self, word: u64, index: u32) -> u32 {
        /// 1 in every byte.
        const ONES: u64 = 0x0101_0101_0101_0101;
        /// The high bit of every byte.
        const HIGHS: u64 = ONES << 7;
        if index >= 64 {
            return 64;
        }
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
    fn select_two(self, word: u64, index: u32, more: u32) -> (u32, u32) {
        (self.select(word, index), self.select(word, index + more))
    }

    #[inline]
    fn pick_two(self, word: u64, index: u32, more: u32) -> [u64; 2] {
        let (one, other) = self.select_two(word, index, more);
        [one, other].map(|bit| 1u64.checked_shl(bit).unwrap_or(0))
    }

    #[inline(never)]
    fn apart<I, W: WorkOn<I>>(self, work: W, input: I) -> W::Outcome {
        work.run_on(self, input)
    }

    #[inline]
    fn any_byte(self, word: u64, candidates: Candidates) -> bool {
        bytes::any(word, candidates)
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
        (0..bit).map(|at| (word >> at & 1) as u32).sum()
    }

    struct Select(u64);

    impl WorkOn<u32> for Select {
        type Outcome = u32;

        fn run_on(self, words: impl Words, index: u32) -> u32 {
            words.select(self.0, index)
        }
    }

    struct Compare(u64);

    impl Work for Compare {
        type Outcome = ();

        fn run(self, words: impl Words) {
            let word = self.0;
            for at in 0..=64 {
                assert_eq!(rank(word, at), slow_rank(word, at), "{word:x} {at}");
                let selected = slow_select(word, at);
                assert_eq!(words.select(word, at), selected, "{word:x} {at}");
                assert_eq!(words.apart(Select(word), at), selected, "{word:x} {at}");
                for more in 0..if at < 64 { 2 } else { 0 } {
                    let two = (selected, slow_select(word, at + more));
                    assert_eq!(words.select_two(word, at, more), two, "{word:x} {at}");
                    let bits = [two.0, two.1].map(|bit| 1u64.checked_shl(bit).unwrap_or(0));
                    assert_eq!(words.pick_two(word, at, more), bits, "{word:x} {at}");
                }
            }
        }
    }

    fn compare(word: u64) {
        Compare(word).run(Portable);
        tuned(Compare(word));
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

    /// Without it the test above would have compared one twin with itself.
    #[test]
    #[cfg(all(target_arch = "x86_64", feature = "std", not(miri)))]
    fn the_intrinsics_run_where_the_processor_has_them() {
        use std::arch::is_x86_feature_detected;
        let counts = is_x86_feature_detected!("popcnt") && is_x86_feature_detected!("lzcnt");
        let compares = is_x86_feature_detected!("avx2");
        let moves = is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
        assert_eq!(intrinsics::Level3::found().is_some(), counts && compares && moves);
    }

    #[test]
    fn both_twins_select_in_128_bits() {
        let mut rng = Rng::new(2);
        for _ in 0..if cfg!(miri) { 10 } else { 1000 } {
            let wide = u128::from(rng.next() & rng.next()) << 64 | u128::from(rng.next());
            let set = (0..128).filter(|bit| wide >> bit & 1 == 1);
            for (index, bit) in (0..).zip(set) {
                assert_eq!(select_wide(wide, index), bit, "{wide:x} {index}");
                assert_eq!(WideSelect { wide, index }.run(Portable), bit, "{wide:x} {index}");
            }
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
