//! A remote that finds digests by their hashes under several functions.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::digest::Digest;
use crate::digest_trie::DigestTrie;
use crate::error::{Error, RemoteError, Result};
use crate::format::{Reader, Writer};
use crate::remote::{Accesses, EVERY_DIGEST, read_digest, write_digest};

/// A digest, and its place in the index of one hash function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which hash function.
    pub function: u64,
    /// The digest's hash under it; two digests may share one.
    pub address: Digest,
    /// The digest itself.
    pub digest: Digest,
}

/// A remote with the stored digests in order, each also in the index of one hash
/// function: what a faithful [broom filter](crate::broom) needs.
pub trait Indexed {
    /// Removes entries and adds others. Atomic: after an error nothing has changed. A digest is
    /// stored while it has an entry.
    ///
    /// # Errors
    /// When the remote cannot write.
    fn put(&mut self, removed: &[Entry], added: &[Entry]) -> Result<(), RemoteError>;

    /// Replaces all entries by these. Atomic: after an error nothing has changed.
    ///
    /// # Errors
    /// When the remote cannot write.
    fn replace(&mut self, entries: &[Entry]) -> Result<(), RemoteError>;

    /// Visits every stored digest in the range, in order.
    ///
    /// # Errors
    /// When the remote cannot read.
    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError>;

    /// Visits the digests whose address under a function is in the range.
    ///
    /// # Errors
    /// When the remote cannot read.
    fn visit_index(
        &mut self,
        function: u64,
        addresses: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError>;

    /// The number of accesses so far.
    fn accesses(&self) -> Accesses;
}

/// An [`Indexed`] remote in memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryIndex {
    digests: DigestTrie,
    /// Function, address and digest: two digests may have one address.
    index: BTreeSet<(u64, Digest, Digest)>,
    accesses: Accesses,
}

/// The kind of its file.
const INDEX: &str = "index";

impl MemoryIndex {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Its bytes, in the format of `docs/format.md`.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(INDEX);
        writer.u64(self.index.len() as u64);
        for &(function, address, digest) in &self.index {
            writer.u64(function);
            write_digest(&mut writer, address);
            write_digest(&mut writer, digest);
        }
        writer.finish()
    }

    /// The index that [`MemoryIndex::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`](crate::Error::Format) for bytes that are not a saved index.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::open(bytes)?;
        reader.expect_kind(INDEX)?;
        let len = reader.count("entries", 40)?;
        let mut index = MemoryIndex::new();
        let mut last = None;
        for _ in 0..len {
            let function = reader.u64("a function")?;
            let (address, digest) = (read_digest(&mut reader)?, read_digest(&mut reader)?);
            if last.replace((function, address, digest)) >= Some((function, address, digest)) {
                return Err(Error::format("its entries are out of order"));
            }
            index.add(Entry { function, address, digest });
        }
        reader.finish()?;
        if index.digests.len() != len {
            return Err(Error::format("it has a digest twice"));
        }
        Ok(index)
    }

    fn add(&mut self, entry: Entry) {
        self.index.insert((entry.function, entry.address, entry.digest));
        self.digests.insert(entry.digest);
    }
}

impl Indexed for MemoryIndex {
    fn put(&mut self, removed: &[Entry], added: &[Entry]) -> Result<(), RemoteError> {
        self.accesses.writes += (removed.len() + added.len()) as u64;
        for entry in removed {
            self.index.remove(&(entry.function, entry.address, entry.digest));
            self.digests.remove(entry.digest);
        }
        added.iter().for_each(|&entry| self.add(entry));
        Ok(())
    }

    fn replace(&mut self, entries: &[Entry]) -> Result<(), RemoteError> {
        self.accesses.writes += entries.len() as u64;
        self.index.clear();
        self.digests = DigestTrie::default();
        entries.iter().for_each(|&entry| self.add(entry));
        Ok(())
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        self.accesses.reads += 1;
        self.digests.range(range).for_each(visitor);
        Ok(())
    }

    fn visit_index(
        &mut self,
        function: u64,
        addresses: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        self.accesses.reads += 1;
        let (first, last) = addresses.into_inner();
        let (least, most) = EVERY_DIGEST.into_inner();
        let range = (function, first, least)..=(function, last, most);
        self.index.range(range).for_each(|&(_, _, digest)| visitor(digest));
        Ok(())
    }

    fn accesses(&self) -> Accesses {
        self.accesses
    }
}
