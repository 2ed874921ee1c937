//! Compares the cells of two bins with their patterns at once.
//!
//! ```text
//! one bin, the other    | c0 | c1 | c2 | c3 | c0 | c1 | c2 | c3 |
//! what each would hold  | p0 | p1 | p2 | p3 | q0 | q1 | q2 | q3 |   compared at once
//! ```
//!
//! SSE2, which every x86-64 target has, compares four cells of 8 or of 16 bits in each of two
//! bins with half the instructions that two words take. The safe twin runs on other targets and
//! under Miri; a test drives both.

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
pub(crate) use portable::{any_u8, any_u16};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
pub(crate) use sse2::{any_u8, any_u16};

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod sse2 {
    use core::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cmpeq_epi16, _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_movemask_epi8,
        _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };

    /// Whether a cell of 8 bits in either bin is the same in its pattern.
    #[inline(always)]
    pub(crate) fn any_u8(bins: [[u8; 4]; 2], patterns: [u32; 2]) -> bool {
        let [one, other] = bins.map(i32::from_le_bytes);
        let [its, others] = patterns.map(u32::cast_signed);
        // SAFETY: this module is there only where the whole target has SSE2.
        let equal = unsafe {
            let cells = _mm_unpacklo_epi32(_mm_cvtsi32_si128(one), _mm_cvtsi32_si128(other));
            let pattern = _mm_unpacklo_epi32(_mm_cvtsi32_si128(its), _mm_cvtsi32_si128(others));
            _mm_movemask_epi8(_mm_cmpeq_epi8(cells, pattern))
        };
        // The upper half of the register holds no cells.
        equal & 0xff != 0
    }

    /// Whether a cell of 16 bits in either bin is the same in its pattern.
    #[inline(always)]
    pub(crate) fn any_u16(bins: [[u8; 8]; 2], patterns: [u64; 2]) -> bool {
        let [one, other] = bins.map(i64::from_le_bytes);
        let [its, others] = patterns.map(u64::cast_signed);
        // SAFETY: this module is there only where the whole target has SSE2.
        let equal = unsafe {
            let cells = _mm_unpacklo_epi64(_mm_cvtsi64_si128(one), _mm_cvtsi64_si128(other));
            let pattern = _mm_unpacklo_epi64(_mm_cvtsi64_si128(its), _mm_cvtsi64_si128(others));
            _mm_movemask_epi8(_mm_cmpeq_epi16(cells, pattern))
        };
        equal != 0
    }
}

#[cfg(any(not(all(target_arch = "x86_64", target_feature = "sse2")), miri, test))]
mod portable {
    /// Whether a cell of 8 bits in either bin is the same in its pattern.
    #[inline(always)]
    pub(crate) fn any_u8(bins: [[u8; 4]; 2], patterns: [u32; 2]) -> bool {
        let joined = |[one, other]: [u32; 2]| u64::from(one) | u64::from(other) << 32;
        any_zero(joined(bins.map(u32::from_le_bytes)) ^ joined(patterns), ONES_OF_8)
    }

    /// Whether a cell of 16 bits in either bin is the same in its pattern.
    #[inline(always)]
    pub(crate) fn any_u16(bins: [[u8; 8]; 2], patterns: [u64; 2]) -> bool {
        let mut both = bins.into_iter().zip(patterns);
        both.any(|(bin, pattern)| any_zero(u64::from_le_bytes(bin) ^ pattern, ONES_OF_16))
    }

    /// The lowest bit of every lane of a word.
    const ONES_OF_8: u64 = u64::MAX / 0xff;
    const ONES_OF_16: u64 = u64::MAX / 0xffff;

    /// Whether a lane is zero: a borrow leaves the lowest that is, if any.
    #[inline(always)]
    fn any_zero(lanes: u64, ones: u64) -> bool {
        lanes.wrapping_sub(ones) & !lanes & ones.rotate_right(1) != 0
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// What a cell may hold beside `value` that a comparison could get wrong: one
    /// bit apart, one more or less (carries and borrows), empty, full.
    fn near(value: u16) -> [u16; 6] {
        [value ^ 1, value ^ 0x8080, value.wrapping_add(1), value.wrapping_sub(1), 0, u16::MAX]
    }

    /// Eight cells that are no `value`, none alike where that can be helped.
    fn others(value: u16, bits: u16, turn: usize) -> [u16; 8] {
        let differ = near(value).map(|other| other & bits).into_iter().filter(|&o| o != value);
        let differ: Vec<u16> = differ.collect();
        core::array::from_fn(|cell| differ[(cell + turn) % differ.len()])
    }

    fn ask_u8(cells: [u16; 8], patterns: [u16; 8]) -> [bool; 2] {
        let [bins, patterns] = [cells, patterns].map(|eight| {
            let bytes = eight.map(|cell| u8::try_from(cell).expect("8 bits"));
            [0, 4].map(|at| bytes[at..at + 4].try_into().expect("four bytes"))
        });
        let patterns = patterns.map(u32::from_le_bytes);
        [any_u8(bins, patterns), portable::any_u8(bins, patterns)]
    }

    fn ask_u16(cells: [u16; 8], patterns: [u16; 8]) -> [bool; 2] {
        let [bins, patterns] = [cells, patterns].map(|eight| {
            [0, 4].map(|at| {
                let bytes = eight[at..at + 4].iter().flat_map(|cell| cell.to_le_bytes());
                bytes.collect::<Vec<u8>>().try_into().expect("eight bytes")
            })
        });
        let patterns = patterns.map(u64::from_le_bytes);
        [any_u16(bins, patterns), portable::any_u16(bins, patterns)]
    }

    /// Asks for every value in every cell, among cells that are close to it: as one
    /// pattern for all cells, and as that of one cell only.
    fn every_value_in_every_cell(bits: u16, ask: impl Fn([u16; 8], [u16; 8]) -> [bool; 2]) {
        let step = if cfg!(miri) { 97 } else { 1 };
        for value in (0..=bits).step_by(step) {
            for cell in 0..8 {
                let mut cells = others(value, bits, cell);
                assert_eq!(ask(cells, [value; 8]), [false; 2], "{value:#x} in {cells:x?}");
                cells[cell] = value;
                assert_eq!(ask(cells, [value; 8]), [true; 2], "{value:#x} in {cells:x?}");
                let mut patterns = cells.map(|cell| cell ^ 1);
                assert_eq!(ask(cells, patterns), [false; 2], "{patterns:x?} in {cells:x?}");
                patterns[cell] = value;
                assert_eq!(ask(cells, patterns), [true; 2], "{patterns:x?} in {cells:x?}");
                // The value of one cell where another is compared.
                patterns[cell] = value ^ 1;
                patterns[(cell + 1) % 8] = value;
                assert_eq!(ask(cells, patterns), [false; 2], "{patterns:x?} in {cells:x?}");
            }
        }
    }

    #[test]
    fn both_twins_find_a_value_of_8_bits_in_any_cell_and_no_other() {
        every_value_in_every_cell(0xff, ask_u8);
    }

    #[test]
    fn both_twins_find_a_value_of_16_bits_in_any_cell_and_no_other() {
        every_value_in_every_cell(0xffff, ask_u16);
    }
}
