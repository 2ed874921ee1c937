//! The cuckoo table: `k` tables of bins of `b` packed cells.
//!
//! ```text
//! table 0                         table 1                    ...  table k-1
//! | bin 0 | bin 1 | ... | bin N-1 | bin 0 | ...              ...          |
//!   └ b cells of w bits; a cell of value 0 is empty
//! ```
//!
//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo
//! Filters", section 2.1 (k tables); Fan et al. as told by Eppstein, section
//! 2.5 (one table). The number of bins is any number, not only a power of two.

use core::hint::select_unpredictable;
use core::ops::Range;

use crate::bits::lanes::Lanes;
use crate::bits::packed::{Packed, mask};
use crate::bits::pair;
use crate::bits::word::low_bits;

/// Tables, bins per table and cells per bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(crate) tables: u32,
    pub(crate) bins: usize,
    pub(crate) slots: u32,
}

/// The parts of a cell's position that its value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) table: u32,
    pub(crate) slot: u32,
}

impl Shape {
    /// All cells.
    pub(crate) fn cells(&self) -> usize {
        self.tables as usize * self.bins * self.slots as usize
    }

    /// A bin of a table, numbered through all tables. Bins are numbered so unless stated
    /// otherwise.
    #[inline(always)]
    pub(crate) fn bin(&self, table: u32, bin: usize) -> usize {
        table as usize * self.bins + bin
    }

    /// The cells of a bin.
    #[inline(always)]
    pub(crate) fn cells_of(&self, bin: usize) -> Range<usize> {
        let first = bin * self.slots as usize;
        first..first + self.slots as usize
    }

    /// The bin of a cell.
    #[inline]
    pub(crate) fn bin_of(&self, cell: usize) -> usize {
        cell / self.slots as usize
    }

    /// Where a cell is.
    pub(crate) fn place(&self, cell: usize) -> Place {
        let bin = self.bin_of(cell);
        let slot = (cell - bin * self.slots as usize) as u32;
        Place { table: self.table_of(bin), slot }
    }

    /// The table of a bin.
    #[inline]
    pub(crate) fn table_of(&self, bin: usize) -> u32 {
        (bin / self.bins) as u32
    }
}

/// The cells, and the word-parallel view of a bin: as a word, or as several.
#[derive(Clone)]
pub struct Table {
    pub(crate) shape: Shape,
    cells: Packed,
    lanes: Option<Lanes>,
    /// As many lanes as one load has, of a bin that does not fit a word.
    part: Lanes,
    form: Form,
}

/// How two bins are compared with a value at once: the same for all of a table.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Four cells of 8 bits.
    FourU8,
    /// Four cells of 16 bits.
    FourU16,
    /// Two words of whole bytes, of these lanes.
    Words(Lanes),
    /// Two words that may start within a byte, of these lanes.
    OddWords(Lanes),
    /// Cell by cell.
    Cells,
}

/// The lanes of a bin of four cells.
const FOUR_U8: Lanes = Lanes::new(4, 8).expect("32 bits fit a word");
const FOUR_U16: Lanes = Lanes::new(4, 16).expect("64 bits fit a word");

/// The value of an empty cell.
pub(crate) const EMPTY: u64 = 0;

impl Table {
    pub(crate) fn new(shape: Shape, width: u32) -> Self {
        Self::with_cells(shape, Packed::new(shape.cells(), width))
    }

    /// The table whose cells [`Table::as_bytes`] gave, if they fit the shape.
    pub(crate) fn from_bytes(bytes: &[u8], shape: Shape, width: u32) -> Option<Self> {
        Some(Self::with_cells(shape, Packed::from_bytes(bytes, shape.cells(), width)?))
    }

    fn with_cells(shape: Shape, cells: Packed) -> Self {
        let lanes = Lanes::new(shape.slots, cells.width());
        let form = match (shape.slots, cells.width(), lanes) {
            (4, 8, _) => Form::FourU8,
            (4, 16, _) => Form::FourU16,
            (_, _, Some(lanes)) if lanes.bits().is_multiple_of(8) => Form::Words(lanes),
            (_, _, Some(lanes)) => Form::OddWords(lanes),
            (_, _, None) => Form::Cells,
        };
        let width = cells.width();
        let part = Lanes::new(Packed::AT_ONCE / width, width).expect("cells of 1 to 32 bits");
        Table { shape, cells, lanes, part, form }
    }

    /// The lanes of a bin, where a bin fits a word.
    #[inline]
    pub(crate) fn lanes(&self) -> Option<&Lanes> {
        self.lanes.as_ref()
    }

    #[inline]
    pub(crate) fn get(&self, cell: usize) -> u64 {
        self.cells.get(cell)
    }

    #[inline]
    pub(crate) fn set(&mut self, cell: usize, value: u64) {
        self.cells.set(cell, value);
    }

    /// All cells of a bin as one word of `lanes`, with other bits above them.
    #[inline(always)]
    pub(crate) fn bin(&self, bin: usize, lanes: &Lanes) -> u64 {
        self.cells.window(bin, lanes.bits())
    }

    /// The first cell of a bin that holds `value`.
    #[inline(always)]
    pub(crate) fn find(&self, bin: usize, value: u64) -> Option<usize> {
        match &self.lanes {
            Some(lanes) => {
                let marks = lanes.zeros(self.bin(bin, lanes) ^ lanes.broadcast(value));
                let first = bin * self.shape.slots as usize;
                (marks != 0).then(|| first + lanes.first(marks) as usize)
            }
            None => self.find_in_words(bin, value),
        }
    }

    /// The same for a bin of more than 64 bits, part by part: as many steps as it has words, and
    /// at most twice as many.
    fn find_in_words(&self, bin: usize, value: u64) -> Option<usize> {
        let (cells, pattern) = (self.shape.cells_of(bin), self.part.broadcast(value));
        let (width, at_once) =
            (self.cells.width(), (self.part.bits() / self.cells.width()) as usize);
        cells.clone().step_by(at_once).find_map(|first| {
            let count = (cells.end - first).min(at_once) as u32;
            let zeros = self.part.zeros(self.cells.load_from(first) ^ pattern);
            let marks = zeros & low_bits(count * width);
            (marks != 0).then(|| first + self.part.first(marks) as usize)
        })
    }

    /// How two bins are compared.
    #[inline(always)]
    pub(crate) fn form(&self) -> Form {
        self.form
    }

    /// Whether a cell of either bin holds `value`. `form` must be the table's own; where it is a
    /// constant of the caller, no branch is left.
    #[inline(always)]
    pub(crate) fn either_holds(&self, form: Form, bins: [usize; 2], value: u64) -> bool {
        let pattern = match form {
            // With constants the multiplications are of these widths.
            Form::FourU8 => u64::from(value as u32 * (u32::MAX / 0xff)),
            Form::FourU16 => value.wrapping_mul(u64::MAX / 0xffff),
            Form::Words(lanes) | Form::OddWords(lanes) => lanes.broadcast(value),
            Form::Cells => {
                return bins.into_iter().any(|bin| self.find(bin, value).is_some());
            }
        };
        self.either_is(form, bins, [pattern; 2])
    }

    /// Whether a cell of either bin holds what its bin's pattern has at its place;
    /// for bins that are words.
    #[inline(always)]
    pub(crate) fn either_is(&self, form: Form, bins: [usize; 2], patterns: [u64; 2]) -> bool {
        let [its, others] = patterns;
        match form {
            Form::FourU8 => {
                let patterns = patterns.map(|pattern| pattern as u32);
                pair::any_u8(bins.map(|bin| self.cells.byte_window(bin)), patterns)
            }
            Form::FourU16 => pair::any_u16(bins.map(|bin| self.cells.byte_window(bin)), patterns),
            Form::Words(lanes) => {
                let [one, other] = bins.map(|bin| self.cells.byte_aligned(bin, lanes.bits() / 8));
                lanes.any_zero_of(one ^ its, other ^ others)
            }
            Form::OddWords(lanes) => {
                let [one, other] = bins.map(|bin| self.bin(bin, &lanes));
                lanes.any_zero_of(one ^ its, other ^ others)
            }
            Form::Cells => unreachable!("bins that are no words have no patterns"),
        }
    }

    /// An empty cell of a bin.
    #[inline]
    pub(crate) fn empty_cell(&self, bin: usize) -> Option<usize> {
        self.find(bin, EMPTY)
    }

    /// An empty cell of the emptiest of some bins. Keeping bins level means
    /// fewer full ones: with two bins of four, a third fewer keys have to move
    /// by the time the table is 95 % full than if the first empty cell were taken.
    #[inline(always)]
    pub(crate) fn emptiest_cell(&self, bins: impl Iterator<Item = usize>) -> Option<usize> {
        let Some(lanes) = self.lanes.as_ref().filter(|_| self.shape.slots > 1) else {
            return { bins }.find_map(|bin| self.empty_cell(bin));
        };
        // Bins fill from their lowest cell up, so the larger word of marks is the
        // emptier bin; where keys were removed, mostly. Counting the marks takes 20
        // instructions a bin where the target has none for it, an eighth of the time
        // of an insertion, and saves no moves at loads from 0.9 on.
        //
        // Which bin it is is unpredictable. With a branch here, the processor would wait for
        // every bin before it could prefetch the next key's: twice the time of an insertion out
        // of cache.
        let (mut most, mut emptiest) = (0u64, 0);
        for bin in bins {
            let marks = lanes.zeros(self.bin(bin, lanes));
            let emptier = u64::from(marks > most).wrapping_neg();
            most ^= (most ^ marks) & emptier;
            emptiest ^= (emptiest ^ bin) & emptier as usize;
        }
        (most != 0).then(|| emptiest * self.shape.slots as usize + lanes.first(most) as usize)
    }

    /// Puts a value into an empty cell of the emptier of two bins. `false`, and nothing
    /// has changed, where there is none or where it has to be looked for: removed keys
    /// may have left one in the other bin, or bins are no whole bytes. `form` is the
    /// table's own.
    ///
    /// Bins fill from their lowest cell up, so the smaller word is the emptier bin. An
    /// insertion waits for two places far away, and the fewer instructions it has, the
    /// more insertions wait at once: with 133 of them, 3*10^7 keys of 16 bits took 50 ns
    /// each where there was room.
    #[inline(always)]
    pub(crate) fn fill(&mut self, form: Form, bins: [usize; 2], value: u64) -> bool {
        let lanes = match form {
            Form::FourU8 => FOUR_U8,
            Form::FourU16 => FOUR_U16,
            Form::Words(lanes) => lanes,
            Form::OddWords(_) | Form::Cells => return false,
        };
        let bytes = lanes.bits() / 8;
        let [its, others] = bins.map(|bin| match form {
            Form::FourU8 => u64::from(u32::from_le_bytes(self.cells.byte_window(bin))),
            Form::FourU16 => u64::from_le_bytes(self.cells.byte_window(bin)),
            _ => self.cells.byte_aligned(bin, bytes),
        });
        let used = mask(lanes.bits());
        // A branch here would be unpredictable, and would wait for both bins.
        let other = others & used < its & used;
        let word = select_unpredictable(other, others, its);
        let bin = select_unpredictable(other, bins[1], bins[0]);
        let empty = lanes.zeros(word);
        if empty == 0 {
            return false;
        }
        let filled = word | value << lanes.first_bit(empty);
        match form {
            Form::FourU8 => self.cells.set_byte_window(bin, (filled as u32).to_le_bytes()),
            Form::FourU16 => self.cells.set_byte_window(bin, filled.to_le_bytes()),
            _ => self.cells.set_byte_aligned(bin, bytes, filled),
        }
        true
    }

    #[inline]
    pub(crate) fn is_empty(&self, cell: usize) -> bool {
        self.get(cell) == EMPTY
    }

    /// The cells that hold something.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = usize> {
        (0..self.cells.len()).filter(|&cell| !self.is_empty(cell))
    }

    /// Prefetches two bins; `form` as above.
    #[inline(always)]
    pub(crate) fn prefetch_both(&self, form: Form, bins: [usize; 2]) {
        for bin in bins {
            match form {
                Form::FourU8 => self.cells.prefetch_byte(bin * 4),
                Form::FourU16 => self.cells.prefetch_byte(bin * 8),
                Form::Words(lanes) => self.cells.prefetch_byte(bin * (lanes.bits() / 8) as usize),
                Form::OddWords(_) | Form::Cells => self.prefetch(bin),
            }
        }
    }

    /// Prefetches a bin.
    #[inline(always)]
    pub(crate) fn prefetch(&self, bin: usize) {
        self.cells.prefetch(bin * self.shape.slots as usize);
    }

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        self.cells.bits()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.cells.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::rng::Rng;

    /// Section 6 of Eppstein for bins of any number of words, against a look at every cell.
    #[test]
    fn the_first_cell_with_a_value_is_found_in_bins_of_any_size() {
        let mut rng = Rng::new(8);
        for width in 1..=32 {
            for slots in [1, 2, 3, 64_u32.div_ceil(width), 64 / width + 1, 33, 63, 64] {
                let shape = Shape { tables: 1, bins: 5, slots };
                let mut table = Table::new(shape, width);
                for round in 0..30 {
                    // Few different values, and the largest, whose neighbours could be flagged.
                    let values = [0, 1, mask(width) - 1, mask(width), rng.next() & mask(width)];
                    for cell in 0..shape.cells() {
                        let kinds = if round % 2 == 0 { 5 } else { 3 };
                        table.set(cell, values[rng.below(kinds) as usize]);
                    }
                    for (bin, value) in (0..5).flat_map(|bin| values.map(|value| (bin, value))) {
                        let slow = shape.cells_of(bin).find(|&cell| table.get(cell) == value);
                        assert_eq!(table.find(bin, value), slow, "{slots} cells of {width} bits");
                    }
                }
            }
        }
    }

    #[test]
    fn a_value_is_in_either_bin_where_a_cell_holds_it() {
        let mut rng = Rng::new(7);
        let mut answers = [[0; 2]; 5];
        for (slots, width) in [(4, 8), (4, 16), (4, 12), (2, 4), (8, 8), (1, 32), (3, 5), (8, 9)] {
            let shape = Shape { tables: 1, bins: 23, slots };
            let mut table = Table::new(shape, width);
            // Few values, so that matches and empty cells are common.
            let values = [0, 1, 2, 1 << (width - 1), (1 << width) - 1];
            let mut value = || values[rng.below(values.len() as u64) as usize];
            (0..shape.cells()).for_each(|cell| table.set(cell, value()));
            let form = match table.form() {
                Form::FourU8 => 0,
                Form::FourU16 => 1,
                Form::Words(_) => 2,
                Form::OddWords(_) => 3,
                Form::Cells => 4,
            };
            for bins in (0..23).flat_map(|one| (0..23).map(move |other| [one, other])) {
                for value in values {
                    let mut cells = bins.into_iter().flat_map(|bin| shape.cells_of(bin));
                    let held = cells.any(|cell| table.get(cell) == value);
                    let found = table.either_holds(table.form(), bins, value);
                    assert_eq!(found, held, "{slots} cells of {width} bits: {value} in {bins:?}");
                    answers[form][usize::from(held)] += 1;
                }
            }
        }
        // Both answers of every form were seen.
        assert!(answers.as_flattened().iter().all(|&count| count > 0), "{answers:?}");
    }

    #[test]
    fn a_value_fills_one_empty_cell_of_the_emptier_bin() {
        let mut rng = Rng::new(8);
        for (slots, width) in [(4, 8), (4, 16), (4, 12), (2, 4), (8, 8), (1, 32), (3, 5), (8, 9)] {
            let shape = Shape { tables: 1, bins: 23, slots };
            let form = Table::new(shape, width).form();
            let words = !matches!(form, Form::OddWords(_) | Form::Cells);
            let mut answers = [0; 2];
            for _ in 0..2000 {
                // Bins filled from below, as insertions leave them, and some with holes.
                let mut cells: Vec<u64> = Vec::new();
                for _ in 0..shape.bins {
                    let (used, holes) = (rng.below(u64::from(slots) + 1), rng.below(4) == 0);
                    cells.extend((0..u64::from(slots)).map(|slot| {
                        let empty = slot >= used || holes && rng.below(2) == 0;
                        if empty { EMPTY } else { 1 + rng.below((1 << width) - 1) }
                    }));
                }
                let mut table = Table::new(shape, width);
                cells.iter().enumerate().for_each(|(cell, &value)| table.set(cell, value));
                let bins = [rng.below(23) as usize, rng.below(23) as usize];
                let value = 1 + rng.below((1 << width) - 1);
                let filled = table.fill(form, bins, value);
                // A word is compared by its highest cell first.
                let in_order = |bin: usize| cells[shape.cells_of(bin)].iter().rev();
                let swap = in_order(bins[1]).lt(in_order(bins[0]));
                let emptier = shape.cells_of(bins[usize::from(swap)]);
                let empty = { emptier }.find(|&cell| cells[cell] == EMPTY);
                assert_eq!(filled, words && empty.is_some(), "{slots} cells of {width} bits");
                if let Some(cell) = empty.filter(|_| filled) {
                    cells[cell] = value;
                }
                let held: Vec<u64> = (0..shape.cells()).map(|cell| table.get(cell)).collect();
                assert_eq!(held, cells, "{slots} cells of {width} bits: {value} into {bins:?}");
                answers[usize::from(filled)] += 1;
            }
            assert!(answers[0] > 0 && (answers[1] > 0) == words, "{answers:?}");
        }
    }

    /// Of bins that fit a word, the one whose highest cells are empty; of larger bins, and of those
    /// of one cell, the first with an empty cell.
    #[test]
    fn the_emptiest_bin_has_its_highest_cells_empty() {
        let mut rng = Rng::new(9);
        for (slots, width) in [(4, 8), (4, 12), (2, 4), (8, 8), (3, 5), (1, 9), (16, 8)] {
            let shape = Shape { tables: 4, bins: 4, slots };
            let mut table = Table::new(shape, width);
            for _ in 0..3000 {
                for bin in 0..shape.cells() / slots as usize {
                    let (used, holes) = (rng.below(u64::from(slots) + 1), rng.below(4) == 0);
                    for (slot, cell) in (0..).zip(shape.cells_of(bin)) {
                        let empty = slot >= used || holes && rng.below(2) == 0;
                        let value = 1 + rng.below((1 << width) - 1);
                        table.set(cell, if empty { EMPTY } else { value });
                    }
                }
                let bins = [0, 4, 8, 12].map(|first| first + rng.below(4) as usize);
                let has_room = |bin: &usize| shape.cells_of(*bin).any(|cell| table.is_empty(cell));
                let empties =
                    |bin: usize| shape.cells_of(bin).rev().map(|cell| table.is_empty(cell));
                let mut with_room = bins.into_iter().filter(has_room);
                let emptiest = if table.lanes().is_some() && slots > 1 {
                    // The first of those that are alike.
                    with_room
                        .reduce(|one, next| if empties(one).lt(empties(next)) { next } else { one })
                } else {
                    with_room.next()
                };
                let cell =
                    emptiest.and_then(|bin| shape.cells_of(bin).find(|&at| table.is_empty(at)));
                let found = table.emptiest_cell(bins.into_iter());
                assert_eq!(found, cell, "{slots} cells of {width} bits: {bins:?}");
            }
        }
    }
}
