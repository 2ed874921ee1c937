//! Making room for a fingerprint.

use core::convert::Infallible;

use super::super::params::Cuckoo as _;
use super::super::search::{self, Moves};
use super::super::table::Table;
use super::{Homes, Pairing, PartialKey};

/// Where fingerprints may move: only the table is asked.
struct PartialMoves<'a, P> {
    table: &'a Table,
    pairing: P,
}

impl<P: Pairing> PartialMoves<'_, P> {
    /// The other bin of the fingerprint in a cell of this bin.
    #[inline]
    fn other(&self, bin: usize, cell: usize) -> usize {
        self.pairing.other(bin, self.table.get(cell))
    }
}

impl<'a, P: Pairing> Moves for PartialMoves<'a, P> {
    type Error = Infallible;

    #[inline]
    fn slots(&self) -> usize {
        self.table.shape.slots as usize
    }

    #[inline]
    fn empty_cell(&self, bin: usize) -> Option<usize> {
        self.table.empty_cell(bin)
    }

    #[inline]
    fn prefetch(&self, bin: usize) {
        self.cells(bin).for_each(|cell| self.table.prefetch(self.other(bin, cell)));
    }

    #[inline]
    fn ways(
        &mut self,
        bin: usize,
        cell: usize,
    ) -> Result<impl Iterator<Item = usize> + use<'a, P>, Infallible> {
        Ok(core::iter::once(self.other(bin, cell)))
    }
}

impl<P: Pairing> PartialKey<P> {
    /// Moves fingerprints so that a cell of the two bins is free.
    pub(super) fn make_room(&mut self, homes: Homes) -> Option<usize> {
        let mut moves = PartialMoves { table: &self.table, pairing: self.pairing };
        let Ok(path) =
            search::path(self.params.cells().search, &homes.bins, &mut self.rng, &mut moves);
        let path = path?;
        for step in path.windows(2).rev() {
            let moved = self.table.get(step[0]);
            self.table.set(step[1], moved);
        }
        self.counts.kicks += path.len() as u64 - 1;
        Some(path[0])
    }
}
