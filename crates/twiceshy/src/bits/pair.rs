//! The leaf of comparisons: is a value in either of two bins of four cells?
//!
//! ```text
//! one bin, the other    | c0 | c1 | c2 | c3 | c0 | c1 | c2 | c3 |
//! the value             | v  | v  | v  | v  | v  | v  | v  | v  |   compared at once
//! ```
//!
//! Cells of 8 and of 16 bits are what SSE2 compares, and SSE2 is part of every
//! x86-64 target: half the instructions of the same question to two words. The
//! safe twin asks it on other targets and under Miri; a test drives both.

#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
pub(crate) use portable::{any_u8, any_u16};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
pub(crate) use sse2::{any_u8, any_u16};

#[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
mod sse2 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_cmpeq_epi16, _mm_cvtsi32_si128, _mm_cvtsi64_si128, _mm_movemask_epi8,
        _mm_set1_epi8, _mm_set1_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };

    /// Whether `value` is one of four cells of 8 bits in either bin.
    #[inline(always)]
    pub(crate) fn any_u8(one: [u8; 4], other: [u8; 4], value: u8) -> bool {
        let [one, other] = [one, other].map(i32::from_le_bytes);
        // SAFETY: this module is there only where the whole target has SSE2.
        let equal = unsafe {
            let cells = _mm_unpacklo_epi32(_mm_cvtsi32_si128(one), _mm_cvtsi32_si128(other));
            _mm_movemask_epi8(_mm_cmpeq_epi8(cells, _mm_set1_epi8(value.cast_signed())))
        };
        // The upper half of the register holds no cells.
        equal & 0xff != 0
    }

    /// Whether `value` is one of four cells of 16 bits in either bin.
    #[inline(always)]
    pub(crate) fn any_u16(one: [u8; 8], other: [u8; 8], value: u16) -> bool {
        let [one, other] = [one, other].map(i64::from_le_bytes);
        // SAFETY: this module is there only where the whole target has SSE2.
        let equal = unsafe {
            let cells = _mm_unpacklo_epi64(_mm_cvtsi64_si128(one), _mm_cvtsi64_si128(other));
            _mm_movemask_epi8(_mm_cmpeq_epi16(cells, _mm_set1_epi16(value.cast_signed())))
        };
        equal != 0
    }
}

#[cfg(any(not(all(target_arch = "x86_64", target_feature = "sse2")), miri, test))]
mod portable {
    /// Whether `value` is one of four cells of 8 bits in either bin.
    #[inline(always)]
    pub(crate) fn any_u8(one: [u8; 4], other: [u8; 4], value: u8) -> bool {
        let cells = u64::from(u32::from_le_bytes(one)) | u64::from(u32::from_le_bytes(other)) << 32;
        let pattern = u64::from(value) * ONES_OF_8;
        any_zero(cells ^ pattern, ONES_OF_8)
    }

    /// Whether `value` is one of four cells of 16 bits in either bin.
    #[inline(always)]
    pub(crate) fn any_u16(one: [u8; 8], other: [u8; 8], value: u16) -> bool {
        let pattern = u64::from(value) * ONES_OF_16;
        [one, other].into_iter().any(|bin| any_zero(u64::from_le_bytes(bin) ^ pattern, ONES_OF_16))
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
        std::array::from_fn(|cell| differ[(cell + turn) % differ.len()])
    }

    fn ask_u8(cells: [u16; 8], value: u16) -> [bool; 2] {
        let bytes = cells.map(|cell| u8::try_from(cell).expect("8 bits"));
        let [one, other] = [0, 4].map(|at| bytes[at..at + 4].try_into().expect("four bytes"));
        let value = u8::try_from(value).expect("8 bits");
        [any_u8(one, other, value), portable::any_u8(one, other, value)]
    }

    fn ask_u16(cells: [u16; 8], value: u16) -> [bool; 2] {
        let [one, other] = [0, 4].map(|at| {
            let bytes = cells[at..at + 4].iter().flat_map(|cell| cell.to_le_bytes());
            bytes.collect::<Vec<u8>>().try_into().expect("eight bytes")
        });
        [any_u16(one, other, value), portable::any_u16(one, other, value)]
    }

    /// Asks for every value in every cell, among cells that are close to it.
    fn every_value_in_every_cell(bits: u16, ask: impl Fn([u16; 8], u16) -> [bool; 2]) {
        let step = if cfg!(miri) { 97 } else { 1 };
        for value in (0..=bits).step_by(step) {
            for cell in 0..8 {
                let mut cells = others(value, bits, cell);
                assert_eq!(ask(cells, value), [false; 2], "{value:#x} in {cells:x?}");
                cells[cell] = value;
                assert_eq!(ask(cells, value), [true; 2], "{value:#x} in {cells:x?}");
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
