//! Remotes: the stored keys as a filter may see them; large, slow, the truth.
//!
//! Filters whose cells only the stored key can explain (the adaptive cuckoo
//! filters) need a [`Mirror`]: which digest sits in which cell. Filters that
//! can be rebuilt from the bare set need an [`Ordered`] one.
//!
//! A remote may fail. Filters therefore first read and plan, then make *one*
//! write, and only when that has succeeded change themselves: a remote has to
//! make each of its writes whole or not at all, and nothing else.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::digest::Digest;
use crate::error::{Error, RemoteError, Result};
use crate::format::{Reader, Writer};

/// How often a remote was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Records read.
    pub reads: u64,
    /// Records written or removed.
    pub writes: u64,
}

/// A remote that mirrors a filter cell by cell.
///
/// The filter knows which of its cells are occupied; what the mirror holds for
/// an empty cell is never read.
pub trait Mirror {
    /// The digest stored in an occupied cell.
    ///
    /// # Errors
    /// Whatever keeps the remote from answering.
    fn get(&mut self, cell: usize) -> Result<Digest, RemoteError>;

    /// Stores digests in cells: all of them, or none and an error.
    ///
    /// # Errors
    /// Whatever keeps the remote from writing.
    fn put(&mut self, writes: &[(usize, Digest)]) -> Result<(), RemoteError>;

    /// Takes a new layout, with one digest a cell, in place of the old: whole,
    /// or not at all and an error. Digests of empty cells are meaningless.
    ///
    /// # Errors
    /// Whatever keeps the remote from writing.
    fn replace(&mut self, layout: Vec<Digest>) -> Result<(), RemoteError>;

    /// How often it was asked so far.
    fn accesses(&self) -> Accesses;
}

/// A remote that holds the stored digests in order.
pub trait Ordered {
    /// Adds a digest; `false` when it was there.
    ///
    /// # Errors
    /// Whatever keeps the remote from writing; it is then unchanged.
    fn insert(&mut self, digest: Digest) -> Result<bool, RemoteError>;

    /// Removes a digest; `false` when it was not there.
    ///
    /// # Errors
    /// Whatever keeps the remote from writing; it is then unchanged.
    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError>;

    /// Visits every stored digest in the range, in order.
    ///
    /// # Errors
    /// Whatever keeps the remote from reading.
    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError>;

    /// How often it was asked so far.
    fn accesses(&self) -> Accesses;
}

/// Every digest there is.
pub const ALL: RangeInclusive<Digest> = Digest::new([0, 0])..=Digest::new([u64::MAX, u64::MAX]);

/// A [`Mirror`] in memory: 16 bytes a cell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryMirror {
    layout: Vec<Digest>,
    accesses: Accesses,
}

impl MemoryMirror {
    /// A mirror of that many cells.
    #[must_use]
    pub fn new(cells: usize) -> Self {
        MemoryMirror { layout: vec![Digest::default(); cells], accesses: Accesses::default() }
    }

    /// Cells it mirrors.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.layout.len()
    }

    /// One digest a cell.
    pub(crate) fn into_layout(self) -> Vec<Digest> {
        self.layout
    }

    /// Its bytes, in the format of `docs/format.md`.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        save_digests("mirror", self.layout.len(), self.layout.iter().copied())
    }

    /// The mirror that [`MemoryMirror::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are no saved mirror.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let layout = load_digests("mirror", bytes)?;
        Ok(MemoryMirror { layout, accesses: Accesses::default() })
    }
}

impl Mirror for MemoryMirror {
    fn get(&mut self, cell: usize) -> Result<Digest, RemoteError> {
        self.accesses.reads += 1;
        Ok(self.layout[cell])
    }

    fn put(&mut self, writes: &[(usize, Digest)]) -> Result<(), RemoteError> {
        self.accesses.writes += writes.len() as u64;
        for &(cell, digest) in writes {
            self.layout[cell] = digest;
        }
        Ok(())
    }

    fn replace(&mut self, layout: Vec<Digest>) -> Result<(), RemoteError> {
        self.accesses.writes += layout.len() as u64;
        self.layout = layout;
        Ok(())
    }

    fn accesses(&self) -> Accesses {
        self.accesses
    }
}

/// An [`Ordered`] remote in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySet {
    digests: BTreeSet<Digest>,
    accesses: Accesses,
}

impl MemorySet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its bytes, in the format of `docs/format.md`.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        save_digests("set", self.digests.len(), self.digests.iter().copied())
    }

    /// The set that [`MemorySet::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are no saved set.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let digests = load_digests("set", bytes)?;
        if !digests.is_sorted_by(|a, b| a < b) {
            return Err(Error::format("the digests of a set are out of order"));
        }
        Ok(MemorySet { digests: digests.into_iter().collect(), accesses: Accesses::default() })
    }
}

impl Ordered for MemorySet {
    fn insert(&mut self, digest: Digest) -> Result<bool, RemoteError> {
        self.accesses.writes += 1;
        Ok(self.digests.insert(digest))
    }

    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError> {
        self.accesses.writes += 1;
        Ok(self.digests.remove(&digest))
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        // One for the seek, also when it finds nothing.
        self.accesses.reads += 1;
        self.digests.range(range).for_each(|&digest| visitor(digest));
        Ok(())
    }

    fn accesses(&self) -> Accesses {
        self.accesses
    }
}

fn save_digests(kind: &str, len: usize, digests: impl Iterator<Item = Digest>) -> Vec<u8> {
    let mut writer = Writer::new(kind);
    writer.u64(len as u64);
    for digest in digests {
        let [first, second] = digest.words();
        writer.u64(first);
        writer.u64(second);
    }
    writer.finish()
}

fn load_digests(kind: &str, bytes: &[u8]) -> Result<Vec<Digest>> {
    let mut reader = Reader::open(bytes)?;
    reader.expect_kind(kind)?;
    let len = reader.count("digests", 16)?;
    let mut digests = Vec::with_capacity(len);
    for _ in 0..len {
        digests.push(Digest::new([reader.u64("a digest")?, reader.u64("a digest")?]));
    }
    reader.finish()?;
    Ok(digests)
}
