//! A swapping filter (section 3.3): which cell of its bin each key is in.

use twiceshy_filters::Digest;
use twiceshy_filters::internals::Rng;

use super::{Collision, Row};

pub struct Swaps {
    /// Where in its bin the key is that was in each cell at first. What was empty is somewhere,
    /// too.
    pub slots: Vec<u8>,
    pub in_bin: usize,
    /// Whether another cell is drawn while the query would still collide.
    pub retry: bool,
    /// One swap per false positive.
    pub once: bool,
    /// The filter's own.
    pub coins: Rng,
}

impl Swaps {
    /// Whether this absent key collides with keys where they are now, which are then swapped.
    #[inline]
    pub fn ask(&mut self, rows: &[Row], digest: Digest) -> bool {
        let of_key = rows.iter().flat_map(|row| &row.0);
        let meets = |of: &Collision| of.under >> self.slots[of.cell as usize] & 1;
        let wrong = of_key.fold(0, |any, of| any | meets(of)) == 1;
        if wrong {
            self.adapt(rows, digest);
        }
        wrong
    }

    /// In the order of cells, as the filter does it. An earlier swap may have changed what a cell
    /// holds.
    #[inline(never)]
    fn adapt(&mut self, rows: &[Row], digest: Digest) {
        self.coins.stir(digest);
        let of_key = rows.iter().flat_map(|row| &row.0).filter(|of| of.under != 0);
        let now = of_key.map(|of| of.cell as usize).filter_map(|first| {
            let cell = first - first % self.in_bin + usize::from(self.slots[first]);
            self.collides(rows, first, cell).then_some(cell)
        });
        let mut cells: Vec<usize> = now.collect();
        cells.sort_unstable();
        for cell in cells {
            let stored = self.key_in(cell);
            if self.collides(rows, stored, cell) {
                self.swap(rows, stored, cell);
                if self.once {
                    return;
                }
            }
        }
    }

    fn swap(&mut self, rows: &[Row], stored: usize, cell: usize) {
        let bin = cell - cell % self.in_bin;
        let mut partners: Vec<usize> =
            (bin..bin + self.in_bin).filter(|&other| other != cell).collect();
        loop {
            let partner = partners.swap_remove(self.coins.below(partners.len() as u64) as usize);
            let other = self.key_in(partner);
            let still = self.collides(rows, stored, partner) || self.collides(rows, other, cell);
            if !(still && self.retry) || partners.is_empty() {
                self.slots.swap(stored, other);
                return;
            }
        }
    }

    /// The key that is in a cell now, by its first cell.
    fn key_in(&self, cell: usize) -> usize {
        let bin = cell - cell % self.in_bin;
        let there = |&first: &usize| bin + usize::from(self.slots[first]) == cell;
        (bin..bin + self.in_bin).find(there).expect("each cell has a key, or what was empty")
    }

    /// Whether a query with these rows collides with this key in this cell.
    fn collides(&self, rows: &[Row], first: usize, cell: usize) -> bool {
        let mut of_key = rows.iter().flat_map(|row| &row.0).filter(|of| of.cell as usize == first);
        of_key.any(|of| of.under >> (cell % self.in_bin) & 1 == 1)
    }
}
