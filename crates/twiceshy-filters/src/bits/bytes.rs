//! Compares the bytes of a word with several candidates, all pairs at once.
//!
//! On x86-64 it uses vectors of 32 bytes (`any_wide`); elsewhere, and under Miri, its safe twin
//! compares rotation by rotation. [`super::word::tuned`] detects the processor's features. A
//! test compares the two.

/// 1 in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The high bit of every byte.
const HIGHS: u64 = ONES << 7;

/// What bytes are compared with.
#[derive(Clone, Copy)]
pub struct Candidates {
    /// The candidate of the lowest `lens[0]` bytes (0 to 7).
    pub(crate) first: u8,
    /// Eight more, of the lowest `lens[1]` bytes (0 to 7).
    pub(crate) others: u64,
    pub(crate) lens: [u32; 2],
}

/// Whether any of the lowest `len` bytes (0 to 7) of `word` is this one.
#[inline(always)]
pub(crate) fn any_equal(word: u64, len: u32, byte: u8) -> bool {
    let word = word ^ (u64::from(byte) * ONES);
    // A borrow runs on from a byte that is zero, and only to those above it.
    word.wrapping_sub(ONES) & !word & HIGHS & ((1 << (8 * len)) - 1) != 0
}

/// Whether any byte of `word` is a candidate of it.
#[cfg(all(target_arch = "x86_64", feature = "std", not(miri)))]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn any_wide(word: u64, candidates: Candidates) -> bool {
    use core::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set1_epi8, _mm256_castsi256_si128,
        _mm256_cmpeq_epi8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi64x,
        _mm256_setr_epi64x, _mm256_shuffle_epi8,
    };
    const BYTE: i64 = ONES as i64;
    let Candidates { first, others, lens: [len, others_len] } = candidates;
    // Each of the others eight times, four to a vector. This does not wait for the
    // word, which comes from memory.
    let others = _mm256_set1_epi64x(others as i64);
    let low = _mm256_setr_epi64x(0, BYTE, 2 * BYTE, 3 * BYTE);
    let high = _mm256_setr_epi64x(4 * BYTE, 5 * BYTE, 6 * BYTE, 7 * BYTE);
    let word = _mm256_set1_epi64x(word as i64);
    let found = _mm256_or_si256(
        _mm256_cmpeq_epi8(word, _mm256_shuffle_epi8(others, low)),
        _mm256_cmpeq_epi8(word, _mm256_shuffle_epi8(others, high)),
    );
    let others = _mm256_movemask_epi8(found) as u32 & (0x0101_0101 * ((1 << others_len) - 1));
    let first = _mm_cmpeq_epi8(_mm256_castsi256_si128(word), _mm_set1_epi8(first as i8));
    let first = _mm_movemask_epi8(first) as u32 & ((1 << len) - 1);
    first | others != 0
}

/// The safe twin of `any_wide`.
#[inline(always)]
pub(crate) fn any(word: u64, candidates: Candidates) -> bool {
    let Candidates { first, others, lens } = candidates;
    let [len, others_len] = lens.map(|len| (1 << (8 * len)) - 1);
    let mut found = zeros(word ^ (u64::from(first) * ONES)) & len;
    for turn in 0..8 {
        found |= zeros(word ^ others.rotate_left(8 * turn)) & others_len;
    }
    found != 0
}

/// The high bit of each byte that is zero.
#[inline(always)]
fn zeros(word: u64) -> u64 {
    let low = (word & !HIGHS) + !HIGHS;
    !(low | word) & HIGHS
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;
    use crate::bits::word::{Portable, Words, Work, tuned};
    use crate::rng::Rng;

    struct Any(u64, Candidates);

    impl Work for Any {
        type Outcome = bool;

        fn run(self, words: impl Words) -> bool {
            words.any_byte(self.0, self.1)
        }
    }

    #[test]
    fn both_twins_agree_with_comparing_byte_by_byte() {
        let mut rng = Rng::new(1);
        let mut found = [0; 2];
        for round in 0..if cfg!(miri) { 20 } else { 10_000 } {
            // Few different bytes, so that many are equal.
            let few = if round % 2 == 0 { u64::MAX } else { 0x0303_0307_0f0f_1f3f };
            let (word, others, first) = (rng.next() & few, rng.next() & few, rng.next() & few);
            let first = first as u8;
            for lens in (0..8).flat_map(|len| (0..8).map(move |others| [len, others])) {
                let candidates = Candidates { first, others, lens };
                let bytes = word.to_le_bytes();
                let [own, more] = lens.map(|len| &bytes[..len as usize]);
                let expected = own.contains(&first)
                    || more.iter().any(|byte| others.to_le_bytes().contains(byte));
                let case = format!("{word:x} {first:x} {others:x} {lens:?}");
                assert_eq!(any_equal(word, lens[0], first), own.contains(&first), "{case}");
                assert_eq!(any(word, candidates), expected, "{case}");
                assert_eq!(tuned(Any(word, candidates)), expected, "{case}");
                assert_eq!(Portable.any_byte(word, candidates), expected, "{case}");
                found[usize::from(expected)] += 1;
            }
        }
        assert!(found.iter().all(|&count| count > 100), "{found:?} prove little");
    }
}
