//! Changes that are planned before any of them is made.

use crate::digest::Digest;
use crate::error::Result;
use crate::remote::{Mirror, Write};
use alloc::vec::Vec;

use super::mirrored::{Mirrored, Rule};

/// The planned contents of cells. Nothing changes until the draft is written, and then
/// everything does at once.
#[derive(Default)]
pub(crate) struct Draft {
    edits: Vec<Write>,
    moves: usize,
}

impl Draft {
    /// Moves so far.
    pub(crate) fn moves(&self) -> usize {
        self.moves
    }

    /// What a cell is going to hold, if the draft changes it.
    pub(crate) fn edit(&self, cell: usize) -> Option<Option<Digest>> {
        self.edits.iter().find(|(at, _)| *at == cell).map(|(_, content)| *content)
    }

    pub(crate) fn is_empty<R: Rule>(&self, filter: &Mirrored<R>, cell: usize) -> bool {
        self.edit(cell).map_or_else(|| filter.table.is_empty(cell), |content| content.is_none())
    }

    /// What a cell is going to hold, from the draft or from the mirror.
    pub(crate) fn content<R: Rule>(
        &self,
        filter: &Mirrored<R>,
        cell: usize,
        remote: &mut dyn Mirror,
    ) -> Result<Option<Digest>> {
        match self.edit(cell) {
            Some(content) => Ok(content),
            None if filter.table.is_empty(cell) => Ok(None),
            None => filter.occupant(cell, remote).map(Some),
        }
    }

    /// Empties a cell; its key goes elsewhere.
    pub(crate) fn clear(&mut self, cell: usize) {
        self.set(cell, None);
    }

    /// Moves a key into a cell.
    pub(crate) fn move_to(&mut self, cell: usize, digest: Digest) {
        self.moves += 1;
        self.set(cell, Some(digest));
    }

    fn set(&mut self, cell: usize, content: Option<Digest>) {
        match self.edits.iter_mut().find(|(at, _)| *at == cell) {
            Some((_, edited)) => *edited = content,
            None => self.edits.push((cell, content)),
        }
    }

    /// All changes.
    pub(crate) fn into_writes(self) -> Vec<Write> {
        self.edits
    }

    /// Makes all changes.
    pub(crate) fn write<R: Rule>(
        self,
        filter: &mut Mirrored<R>,
        remote: &mut dyn Mirror,
    ) -> Result<()> {
        filter.write(&self.edits, self.moves, remote)
    }
}
