//! The eight bytes of one word against the eight of another, all pairs at once.
//!
//! On x86-64 with the vector instructions that every such processor has; elsewhere
//! by the twin, rotation by rotation. A test compares the two.

/// Which bytes of `word`, one bit each, are equal to any byte of `values`.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) fn common(word: u64, values: u64) -> u32 {
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
    let marks = _mm_movemask_epi8(found) as u32;
    (marks | marks >> 8) & 0xff
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use twin as common;

/// The safe twin of [`common`].
#[cfg(any(test, not(all(target_arch = "x86_64", not(miri)))))]
#[inline(always)]
pub(crate) fn twin(word: u64, values: u64) -> u32 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut zeros = 0;
    for turn in 0..8 {
        let difference = word ^ values.rotate_left(8 * turn);
        // The high bit of each byte that is zero.
        let low = (difference & (ONES * 0x7f)) + ONES * 0x7f;
        zeros |= !(low | difference) & (ONES << 7);
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
            assert_eq!(twin(word, values), expected, "{word:x} {values:x}");
            assert_eq!(common(word, values), expected, "{word:x} {values:x}");
        }
    }
}
