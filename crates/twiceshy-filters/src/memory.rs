//! Remotes in memory, of the kind that a filter needs.

use alloc::vec::Vec;

use crate::error::Result;
use crate::filter::Stats;
use crate::remote::{Accesses, Indexed, MemoryIndex, MemoryMirror, MemorySet, Mirror, Ordered};

/// A remote in memory for filters whose remote is an `R`.
pub trait InMemory<R: ?Sized>: Sized {
    /// An empty one for a filter.
    fn behind(filter: &Stats) -> Self;

    /// What [`InMemory::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`](crate::Error::Format).
    fn open(bytes: &[u8]) -> Result<Self>;

    /// All that it has.
    fn to_bytes(&self) -> Vec<u8>;

    /// Whether it can stand behind a filter of that many cells.
    fn fits(&self, _cells: usize) -> bool {
        true
    }

    /// As the filter sees it.
    fn remote(&mut self) -> &mut R;

    /// How often it was asked.
    fn accesses(&self) -> Accesses;
}

impl InMemory<dyn Mirror> for MemoryMirror {
    fn behind(filter: &Stats) -> Self {
        MemoryMirror::new(filter.cells)
    }

    fn open(bytes: &[u8]) -> Result<Self> {
        MemoryMirror::load(bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.save()
    }

    fn fits(&self, cells: usize) -> bool {
        self.cells() == cells
    }

    fn remote(&mut self) -> &mut (dyn Mirror + 'static) {
        self
    }

    fn accesses(&self) -> Accesses {
        Mirror::accesses(self)
    }
}

impl InMemory<dyn Ordered> for MemorySet {
    fn behind(filter: &Stats) -> Self {
        MemorySet::with_capacity(filter.capacity)
    }

    fn open(bytes: &[u8]) -> Result<Self> {
        MemorySet::load(bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.save()
    }

    fn remote(&mut self) -> &mut (dyn Ordered + 'static) {
        self
    }

    fn accesses(&self) -> Accesses {
        Ordered::accesses(self)
    }
}

impl InMemory<dyn Indexed> for MemoryIndex {
    fn behind(_: &Stats) -> Self {
        MemoryIndex::new()
    }

    fn open(bytes: &[u8]) -> Result<Self> {
        MemoryIndex::load(bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.save()
    }

    fn remote(&mut self) -> &mut (dyn Indexed + 'static) {
        self
    }

    fn accesses(&self) -> Accesses {
        Indexed::accesses(self)
    }
}
