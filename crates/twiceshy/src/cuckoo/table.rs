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

use crate::bits::lanes::Lanes;
use crate::bits::packed::Packed;

/// Tables, bins a table and cells a bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(crate) tables: u32,
    pub(crate) bins: usize,
    pub(crate) slots: u32,
}

/// Where a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub(crate) table: u32,
    pub(crate) bin: usize,
    pub(crate) slot: u32,
}

impl Shape {
    /// All cells.
    pub(crate) fn cells(&self) -> usize {
        self.tables as usize * self.bins * self.slots as usize
    }

    /// The first cell of a bin.
    #[inline]
    pub(crate) fn first_cell(&self, table: u32, bin: usize) -> usize {
        (table as usize * self.bins + bin) * self.slots as usize
    }

    /// The cells of the bin that starts at `first`.
    pub(crate) fn bin_cells(&self, first: usize) -> std::ops::Range<usize> {
        first..first + self.slots as usize
    }

    /// Where a cell is.
    pub(crate) fn place(&self, cell: usize) -> Place {
        let (bin, slot) = (cell / self.slots as usize, cell % self.slots as usize);
        Place { table: (bin / self.bins) as u32, bin: bin % self.bins, slot: slot as u32 }
    }
}

/// The cells, and the word-parallel view of a bin where it fits a word.
#[derive(Clone)]
pub struct Table {
    pub(crate) shape: Shape,
    cells: Packed,
    lanes: Option<Lanes>,
}

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
        Table { shape, cells, lanes }
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

    /// All cells of a bin as one word of `lanes`. Bins are counted through all
    /// tables.
    #[inline]
    pub(crate) fn bin(&self, bin: usize, lanes: &Lanes) -> u64 {
        self.cells.window(bin, lanes.bits())
    }

    /// An empty cell of the bin that starts at `first`.
    #[inline]
    pub(crate) fn empty_cell(&self, first: usize) -> Option<usize> {
        self.shape.bin_cells(first).find(|&cell| self.is_empty(cell))
    }

    #[inline]
    pub(crate) fn is_empty(&self, cell: usize) -> bool {
        self.get(cell) == EMPTY
    }

    /// The cells that hold something.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = usize> {
        (0..self.cells.len()).filter(|&cell| !self.is_empty(cell))
    }

    #[inline]
    pub(crate) fn prefetch(&self, cell: usize) {
        self.cells.prefetch(cell);
    }

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        self.cells.bits()
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.cells.as_bytes()
    }
}
