//! Making room for a digest. The mirror knows which digests have to move.

use alloc::vec::Vec;
use alloc::{format, vec};

use super::super::params::Cuckoo as _;
use super::super::search::{self, Moves};
use super::{Mirrored, Rule};
use crate::digest::Digest;
use crate::error::{Error, RemoteError, Result};
use crate::remote::{Mirror, Write};

/// Where digests may move. The mirror knows which they are.
struct MirroredMoves<'a, R: Rule> {
    filter: &'a Mirrored<R>,
    remote: &'a mut dyn Mirror,
    /// The cells that were read from the mirror, and their digests.
    occupants: Vec<(usize, Digest)>,
}

impl<'a, R: Rule> Moves for MirroredMoves<'a, R> {
    type Error = Error;

    fn slots(&self) -> usize {
        self.filter.table.shape.slots as usize
    }

    #[inline]
    fn empty_cell(&self, bin: usize) -> Option<usize> {
        self.filter.table.empty_cell(bin)
    }

    fn prefetch(&self, bin: usize) {
        self.cells(bin).for_each(|cell| self.remote.prefetch(cell));
    }

    fn ways(
        &mut self,
        bin: usize,
        cell: usize,
    ) -> Result<impl Iterator<Item = usize> + use<'a, R>> {
        let filter = self.filter;
        let occupant = filter.occupant(cell, self.remote)?;
        self.occupants.push((cell, occupant));
        let (hashes, shape) = (filter.hashes(occupant), filter.table.shape);
        let home = shape.table_of(bin);
        let others = (0..shape.tables).filter(move |&table| table != home);
        Ok(others.map(move |table| hashes.bin(table, &shape)))
    }
}

/// A cell that is occupied in the filter and not in its mirror.
fn orphan(cell: usize) -> RemoteError {
    format!("cell {cell} is occupied in the filter and empty in its mirror; rebuild the filter")
        .into()
}

impl<R: Rule> Mirrored<R> {
    /// The digest in a cell that is occupied here.
    pub(crate) fn occupant(&self, cell: usize, remote: &mut dyn Mirror) -> Result<Digest> {
        remote
            .get(cell)
            .and_then(|content| content.ok_or_else(|| orphan(cell)))
            .map_err(Error::Remote)
    }

    /// The moves that free a cell for `digest`, and its own.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        digest: Digest,
        remote: &mut dyn Mirror,
    ) -> Result<Option<Vec<Write>>> {
        let starts: Vec<usize> = self.bins(self.hashes(digest)).collect();
        let mut rng = self.rng.clone();
        let mut moves = MirroredMoves { filter: self, remote, occupants: Vec::new() };
        let path = search::path(self.params.cells().search, &starts, &mut rng, &mut moves)?;
        let occupants = moves.occupants;
        self.rng = rng;
        let Some(path) = path else { return Ok(None) };
        let occupant = |cell| {
            let known = occupants.iter().find(|(at, _)| *at == cell);
            known.expect("the search asked every occupant on its path").1
        };
        let mut writes = vec![(path[0], Some(digest))];
        writes.extend(path.windows(2).map(|step| (step[1], Some(occupant(step[0])))));
        Ok(Some(writes))
    }
}
