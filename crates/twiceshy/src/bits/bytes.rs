//! The bytes of one word against others, all pairs at once.
//!
//! On x86-64 with the vector instructions that every such processor has; elsewhere
//! by the twin, rotation by rotation. A test compares the two.

/// 1 in every byte.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The high bit of every byte.
const HIGHS: u64 = ONES << 7;

/// Whether any of the lowest `len` bytes (0 to 7) of `word` is `value`.
#[inline(always)]
pub(crate) fn any_equal(word: u64, len: u32, value: u64) -> bool {
    let difference = word ^ value * ONES;
    // The lowest byte that is zero borrows for certain; those above it may.
    difference.wrapping_sub(ONES) & !difference & HIGHS & ((1 << (8 * len)) - 1) != 0
}

/// Whether any of the lowest `len` bytes (0 to 7) of `word` is equal to any byte of
/// `values`.
#[inline(always)]
pub(crate) fn any_common(word: u64, len: u32, values: u64) -> bool {
    common(word, values) & (0x101 * ((1 << len) - 1)) != 0
}

/// Which bytes of `word` are equal to any byte of `values`: bit `i` or bit `8 + i`
/// is set for byte `i`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn common(word: u64, values: u64) -> u32 {
    // SAFETY: every x86-64 processor has SSE2.
    unsafe { vectors(word, values) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
#[target_feature(enable = "sse2")]
fn vectors(word: u64, values: u64) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cvtsi64_si128, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi64x,
        _mm_unpackhi_epi16, _mm_unpackhi_epi32, _mm_unpacklo_epi8, _mm_unpacklo_epi16,
        _mm_unpacklo_epi32,
    };
    // Each value eight times, two values to a vector. This does not wait for the
    // word, which comes from memory.
    let values = _mm_cvtsi64_si128(values as i64);
    let twice = _mm_unpacklo_epi8(values, values);
    let [low, high] = [_mm_unpacklo_epi16(twice, twice), _mm_unpackhi_epi16(twice, twice)];
    let word = _mm_set1_epi64x(word as i64);
    let found = _mm_or_si128(
        _mm_or_si128(
            _mm_cmpeq_epi8(word, _mm_unpacklo_epi32(low, low)),
            _mm_cmpeq_epi8(word, _mm_unpackhi_epi32(low, low)),
        ),
        _mm_or_si128(
            _mm_cmpeq_epi8(word, _mm_unpacklo_epi32(high, high)),
            _mm_cmpeq_epi8(word, _mm_unpackhi_epi32(high, high)),
        ),
    );
    _mm_movemask_epi8(found) as u32
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
use twin as common;

/// The safe twin of [`common`].
#[cfg(any(test, not(all(target_arch = "x86_64", not(miri)))))]
#[inline(always)]
fn twin(word: u64, values: u64) -> u32 {
    let mut zeros = 0;
    for turn in 0..8 {
        let difference = word ^ values.rotate_left(8 * turn);
        // The high bit of each byte that is zero.
        let low = (difference & (ONES * 0x7f)) + ONES * 0x7f;
        zeros |= !(low | difference) & HIGHS;
    }
    // One bit of each byte to the top, side by side.
    ((zeros >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn both_twins_agree_with_comparing_byte_by_byte() {
        let mut rng = Rng::new(1);
        for round in 0..if cfg!(miri) { 50 } else { 20_000 } {
            // Few different bytes, so that many are equal.
            let few = if round % 2 == 0 { u64::MAX } else { 0x0303_0307_0f0f_1f3f };
            let (word, values) = (rng.next() & few, rng.next() & few);
            let values_of = values.to_le_bytes();
            let expected = (0..8)
                .filter(|&at| values_of.contains(&word.to_le_bytes()[at]))
                .fold(0, |marks, at| marks | 1 << at);
            let folded = |marks: u32| (marks | marks >> 8) & 0xff;
            assert_eq!(folded(twin(word, values)), expected, "{word:x} {values:x}");
            assert_eq!(folded(common(word, values)), expected, "{word:x} {values:x}");
            for len in 0..8 {
                let any = expected & ((1 << len) - 1) != 0;
                assert_eq!(any_common(word, len, values), any, "{word:x} {values:x} {len}");
                let value = values_of[0];
                let any = word.to_le_bytes()[..len as usize].contains(&value);
                assert_eq!(any_equal(word, len, value.into()), any, "{word:x} {value:x} {len}");
            }
        }
    }
}
