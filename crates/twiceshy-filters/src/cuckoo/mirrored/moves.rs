//! Making room for a digest. The mirror knows which digests have to move.

use alloc::vec::Vec;
use alloc::{format, vec};

use super::super::draft::Draft;
use super::super::params::Cuckoo as _;
use super::super::search::{self, Moves, Search};
use super::{Mirrored, Rule};
use crate::digest::Digest;
use crate::error::{Error, RemoteError, Result};
use crate::remote::{Mirror, Write};

/// Moves of a published insertion before it gives up, times log2 of the keys.
const MOVES: usize = 32;

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
        if self.params.cells().search == Search::NextTable {
            return Ok(self.displace(digest, remote)?.map(Draft::into_writes));
        }
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

    /// The moves of an insertion as published (section 2.2): a displaced key takes an empty cell
    /// of its own, or displaces a key in its next table. `None` after [`MOVES`] times as many
    /// moves as the logarithm of the keys.
    fn displace(&mut self, digest: Digest, remote: &mut dyn Mirror) -> Result<Option<Draft>> {
        let shape = self.table.shape;
        let most = MOVES * libm::ceil(libm::log2(self.len() as f64)).max(1.0) as usize;
        let mut draft = Draft::default();
        let mut homeless = digest;
        let mut table = self.rng.below(u64::from(shape.tables)) as u32;
        while draft.moves() < most {
            let hashes = self.hashes(homeless);
            let empty = self
                .bins(hashes)
                .flat_map(|bin| shape.cells_of(bin))
                .find(|&cell| draft.is_empty(self, cell));
            if let Some(at) = empty {
                draft.move_to(at, homeless);
                return Ok(Some(draft));
            }
            let slot = self.rng.below(u64::from(shape.slots)) as usize;
            let cell = shape.cells_of(self.bin(hashes, table)).start + slot;
            let victim = draft.content(self, cell, remote)?.expect("no cell of its is empty");
            draft.move_to(cell, homeless);
            (homeless, table) = (victim, (table + 1) % shape.tables);
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cuckoo::plain_full::PlainFull;
    use crate::filter::DigestFilter as _;
    use crate::remote::MemoryMirror;
    use crate::rng::Rng;

    /// An insertion as published: a displaced key goes to its next table, unless a cell of its own
    /// is empty.
    #[test]
    fn displaced_keys_go_to_their_next_table() {
        let params = "plain-full:f=8,k=4,b=1,search=next".parse().expect("a filter");
        let mut filter = Mirrored::<PlainFull>::new(&params, 1000).expect("a capacity");
        let (mut mirror, mut rng) = (MemoryMirror::new(filter.stats().cells), Rng::new(1));
        let mut digests = core::iter::from_fn(|| Some(Digest::new([rng.next(), rng.next()])));
        for digest in digests.by_ref().take(950) {
            assert!(filter.insert(digest, &mut mirror).expect("room"));
        }
        filter.check(&mut mirror).expect("every invariant holds");
        let (shape, mut further) = (filter.table.shape, 0);
        for digest in digests.take(2000) {
            if filter.empty_for(digest).is_some() {
                continue;
            }
            let draft = filter.displace(digest, &mut mirror).expect("in memory");
            let Some(draft) = draft else { continue };
            // A key that was displaced twice has gone further.
            let moves = draft.moves();
            let writes = draft.into_writes();
            if writes.len() < moves {
                continue;
            }
            let mut old_table = None;
            for (cell, content) in writes {
                let new_table = shape.place(cell).table;
                let was_empty = filter.table.is_empty(cell);
                if let (Some(old), false) = (old_table, was_empty) {
                    assert_eq!(new_table, (old + 1) % shape.tables);
                    further += 1;
                }
                assert!(content.is_some());
                // The next write is of the key that was here.
                old_table = Some(new_table);
            }
        }
        assert!(further > 100, "{further} moves prove little");
    }

    /// Without an empty cell it gives up after `MOVES` times the logarithm of the keys.
    #[test]
    fn a_published_insertion_gives_up() {
        let params = "plain-full:f=8,k=2,b=2,search=next,full=error".parse().expect("a filter");
        let mut filter = Mirrored::<PlainFull>::new(&params, 16).expect("a capacity");
        let (mut mirror, mut rng) = (MemoryMirror::new(filter.stats().cells), Rng::new(1));
        let mut digest = || Digest::new([rng.next(), rng.next()]);
        while filter.len() < filter.table.shape.cells() {
            let _ = filter.insert(digest(), &mut mirror);
        }
        for _ in 0..20 {
            assert!(filter.displace(digest(), &mut mirror).expect("in memory").is_none());
        }
        filter.check(&mut mirror).expect("nothing has changed");
    }
}
