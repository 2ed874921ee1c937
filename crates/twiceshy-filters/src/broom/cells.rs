//! Remainders: cells of one width, 64 per group, in whole cache lines.
//!
//! ```text
//! cell i      bits i w to (i + 1) w, the lowest first      (w = width)
//! group g     words g w to (g + 1) w: 64 cells are a whole number of words
//! ```
//!
//! Memory is a vector of aligned lines, so a cell's index determines its cache line. Cells of
//! width 0 are allowed, and hold 0.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bits::lanes::Lanes;
use crate::bits::prefetch::prefetch;
use crate::bits::word::low_bits;

use super::group::SLOTS;

const WORDS_OF_LINE: usize = 8;

/// A cache line.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
struct Line([u64; WORDS_OF_LINE]);

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Cells {
    lines: Vec<Line>,
    width: u32,
    /// As many cells as a word has room for; `None` without width.
    lanes: Option<Lanes>,
}

impl Cells {
    /// The cells of `groups` groups, of up to 32 bits, all zero.
    pub(crate) fn new(groups: usize, width: u32) -> Self {
        assert!(width <= 32, "cells of {width} bits, and 32 is the most");
        let words = groups.checked_mul(width as usize).expect("the cells fit the address space");
        let lines = vec![Line([0; WORDS_OF_LINE]); words.div_ceil(WORDS_OF_LINE)];
        let lanes = 64u32.checked_div(width).and_then(|count| Lanes::new(count, width));
        Cells { lines, width, lanes }
    }

    /// Bytes of a group.
    pub(crate) fn group_bytes(width: u32) -> usize {
        SLOTS / 8 * width as usize
    }

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        self.lines.capacity() * size_of::<Line>() * 8
    }

    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.lines[index / WORDS_OF_LINE].0[index % WORDS_OF_LINE]
    }

    fn set_word(&mut self, index: usize, word: u64) {
        self.lines[index / WORDS_OF_LINE].0[index % WORDS_OF_LINE] = word;
    }

    /// Word and bit where a cell starts.
    #[inline(always)]
    fn place(&self, cell: usize) -> (usize, u32) {
        let at = cell * self.width as usize;
        (at / 64, (at % 64) as u32)
    }

    /// At least `bits` (up to 64) bits from the start of a cell on. Reads no
    /// word, and so no line, that it does not need.
    #[inline(always)]
    fn window(&self, cell: usize, bits: u32) -> u64 {
        let (word, shift) = self.place(cell);
        let mut window = self.word(word) >> shift;
        if shift + bits > 64 {
            window |= self.word(word + 1) << (64 - shift);
        }
        window
    }

    #[inline]
    pub(crate) fn get(&self, cell: usize) -> u64 {
        if self.width == 0 {
            return 0;
        }
        self.window(cell, self.width) & low_bits(self.width)
    }

    fn set(&mut self, cell: usize, value: u64) {
        debug_assert!(value & !low_bits(self.width) == 0, "{value} in {} bits", self.width);
        let (word, shift) = self.place(cell);
        let hole = low_bits(self.width) << shift;
        self.set_word(word, self.word(word) & !hole | value << shift);
        if shift + self.width > 64 {
            let hole = low_bits(self.width) >> (64 - shift);
            self.set_word(word + 1, self.word(word + 1) & !hole | value >> (64 - shift));
        }
    }

    /// Which of some neighbouring cells of a group (`slots` within it) hold
    /// `value`: a word of cells at a time.
    #[inline(always)]
    pub(crate) fn equal(&self, group: usize, slots: Range<u32>, value: u64) -> u64 {
        let Some(lanes) = &self.lanes else { return low_bits(slots.end) & !low_bits(slots.start) };
        let everywhere = lanes.broadcast(value);
        let mut equal = 0;
        let mut from = slots.start;
        while from < slots.end {
            let bits = lanes.bits().min((slots.end - from) * self.width);
            let window = self.window(group * SLOTS + from as usize, bits);
            let mut marks = lanes.zeros(window ^ everywhere) & low_bits(bits);
            while marks != 0 {
                equal |= 1 << (from + lanes.first(marks));
                marks &= marks - 1;
            }
            from += lanes.bits() / self.width;
        }
        equal
    }

    /// Moves the cells of a group from `cell` on up by one, and sets `cell`. The
    /// last is pushed out.
    pub(crate) fn insert(&mut self, cell: usize, value: u64) {
        if self.width == 0 {
            return;
        }
        let (first, shift) = self.place(cell);
        for word in (first + 1..self.group_end(cell)).rev() {
            let moved = self.word(word) << self.width | self.word(word - 1) >> (64 - self.width);
            self.set_word(word, moved);
        }
        let (old, below) = (self.word(first), low_bits(shift));
        self.set_word(first, old & below | (old & !below) << self.width);
        self.set(cell, value);
    }

    /// Moves the cells of a group behind `cell` down by one, over it. The last
    /// becomes 0.
    pub(crate) fn remove(&mut self, cell: usize) {
        if self.width == 0 {
            return;
        }
        let (first, shift) = self.place(cell);
        let end = self.group_end(cell);
        let mut kept = low_bits(shift);
        for word in first..end {
            let above = if word + 1 < end { self.word(word + 1) } else { 0 };
            let moved = self.word(word) >> self.width | above << (64 - self.width);
            self.set_word(word, self.word(word) & kept | moved & !kept);
            kept = 0;
        }
    }

    /// The word behind the group of a cell.
    fn group_end(&self, cell: usize) -> usize {
        (cell / SLOTS + 1) * self.width as usize
    }

    /// Prefetches a cell.
    #[inline]
    pub(crate) fn prefetch(&self, cell: usize) {
        prefetch(&self.lines, self.place(cell).0 / WORDS_OF_LINE);
    }

    /// Cache lines that these neighbouring cells lie in.
    pub(crate) fn lines(&self, cells: Range<usize>) -> u32 {
        let bits = cells.start * self.width as usize..cells.end * self.width as usize;
        let line = size_of::<Line>() * 8;
        if bits.is_empty() { 0 } else { ((bits.end - 1) / line - bits.start / line + 1) as u32 }
    }

    /// A group's words, as bytes.
    pub(crate) fn group_to_bytes(&self, group: usize) -> impl Iterator<Item = u8> + '_ {
        let words = group * self.width as usize..(group + 1) * self.width as usize;
        words.flat_map(|word| self.word(word).to_le_bytes())
    }

    /// Fills a group from bytes that [`Cells::group_to_bytes`] gave.
    pub(crate) fn set_group(&mut self, group: usize, bytes: &[u8]) {
        debug_assert_eq!(bytes.len(), Self::group_bytes(self.width));
        let first = group * self.width as usize;
        for (index, eight) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(eight.try_into().expect("a slice of eight bytes"));
            self.set_word(first + index, word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn every_width_agrees_with_a_vector_of_numbers() {
        let mut rng = Rng::new(1);
        for width in 0..=32 {
            let mut cells = Cells::new(3, width);
            let mut plain = vec![0; 3 * SLOTS];
            for _ in 0..if cfg!(miri) { 20 } else { 500 } {
                let cell = rng.below(3 * SLOTS as u64) as usize;
                let end = (cell / SLOTS + 1) * SLOTS;
                if rng.below(3) > 0 {
                    // Few values, so that many are equal.
                    let value = rng.next() & rng.below(4).wrapping_neg() & low_bits(width);
                    cells.insert(cell, value);
                    plain.copy_within(cell..end - 1, cell + 1);
                    plain[cell] = value;
                } else {
                    cells.remove(cell);
                    plain.copy_within(cell + 1..end, cell);
                    plain[end - 1] = 0;
                }
                let held: Vec<u64> = (0..plain.len()).map(|cell| cells.get(cell)).collect();
                assert_eq!(held, plain, "width {width}");

                let (group, slot) = (cell / SLOTS, cell % SLOTS);
                let slots = slot as u32..(slot as u64 + rng.below(65 - slot as u64)) as u32;
                let expected = slots
                    .clone()
                    .filter(|&slot| plain[group * SLOTS + slot as usize] == plain[cell])
                    .fold(0, |equal, slot| equal | 1 << slot);
                assert_eq!(cells.equal(group, slots, plain[cell]), expected, "width {width}");
            }
            let mut again = Cells::new(3, width);
            for group in 0..3 {
                let bytes: Vec<u8> = cells.group_to_bytes(group).collect();
                again.set_group(group, &bytes);
            }
            assert!(again == cells, "width {width}");
        }
    }

    #[test]
    fn cells_written_by_hand() {
        let mut cells = Cells::new(2, 12);
        cells.insert(64, 0x123);
        cells.insert(64, 0xabc);
        let bytes: Vec<u8> = cells.group_to_bytes(1).collect();
        assert_eq!(bytes.len(), Cells::group_bytes(12));
        assert_eq!(&bytes[..4], [0xbc, 0x3a, 0x12, 0]);
        assert!(cells.group_to_bytes(0).all(|byte| byte == 0));
    }

    #[test]
    fn lines_are_those_of_the_addresses() {
        for width in 1..=32 {
            let cells = Cells::new(5, width);
            let start = cells.lines.as_ptr() as usize;
            assert_eq!(start % 64, 0, "lines are aligned");
            let line = |bit: usize| (start + bit / 8) / 64;
            for from in 0..5 * SLOTS {
                let to = (from + from % 13).min(5 * SLOTS);
                let (first, end) = (from * width as usize, to * width as usize);
                let expected = if from == to { 0 } else { line(end - 1) - line(first) + 1 };
                assert_eq!(cells.lines(from..to) as usize, expected, "width {width}");
            }
        }
        assert_eq!(Cells::new(5, 0).lines(0..64), 0);
    }
}
