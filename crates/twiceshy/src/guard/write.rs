//! Writing through a guard: fingerprints come before their records and leave after them.

use twiceshy_filters::Digest;

use super::error::{Error, Result};
use super::open::Guard;
use super::record;
use super::shard::{self, Evidence, Shard, ShardRange};
use super::store::{Change, Mark, Store};

impl<S: Store> Guard<S> {
    /// Stores a value under a key and replaces an earlier value. Returns whether the key is new.
    ///
    /// # Errors
    /// [`Error::Write`] when the store's write failed; the store may have the record or not, and
    /// the guard's answers are correct either way. After [`Error::Read`], [`Error::Header`] or
    /// [`Error::SameDigest`] nothing was stored.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.put_many(&[(key, value)])? == 1)
    }

    /// Stores many records with one write. Returns the number of new keys. If a key occurs
    /// several times, its last value counts.
    ///
    /// # Errors
    /// As [`Guard::put`], for all records together: the store has all of them or none.
    pub fn put_many<K, V>(&self, records: &[(K, V)]) -> Result<usize>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut changes = Vec::with_capacity(records.len());
        for (key, value) in records {
            changes.push((self.hasher.digest(key), record::encode(key.as_ref(), value.as_ref())));
        }
        self.write(changes, &[])
    }

    /// Removes a key and its value. Returns whether the key was stored.
    ///
    /// # Errors
    /// [`Error::Write`] when the store's write failed; the store may still have the record or
    /// not, and the guard's answers are correct either way. After [`Error::Read`] or
    /// [`Error::Header`] nothing was removed.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.remove_many(&[key])? == 1)
    }

    /// [`Guard::remove`] for many keys, with one write. Returns how many of them were stored.
    ///
    /// # Errors
    /// As [`Guard::remove`], for all keys together: the store has removed all of them or none.
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize> {
        let digests = keys.iter().map(|key| self.hasher.digest(key));
        let maybe: Vec<Digest> =
            digests.filter(|&digest| self.shard(digest).contains(digest)).collect();
        self.remove_digests(&maybe, &[])
    }

    /// Removes the records of these digests with one write, and sets marks of the store with it.
    /// Returns how many there were.
    pub(super) fn remove_digests(&self, digests: &[Digest], marks: &[Mark]) -> Result<usize> {
        let mut digests = digests.to_vec();
        digests.sort_unstable();
        digests.dedup();
        let mut writers = self.writers(&digests);
        let evidence = self.read_many(&digests, |_, _, _| ())?;
        let stored: Vec<Digest> = digests
            .into_iter()
            .zip(evidence)
            .filter_map(|(digest, evidence)| evidence.proves_stored().then_some(digest))
            .collect();
        if stored.is_empty() {
            self.commit(&[], marks)?;
            return Ok(0);
        }
        self.make_dirty()?;
        // The filters keep the fingerprints of all of them until each is removed below.
        stored.iter().for_each(|&digest| writers.of(digest).begin_removal(digest));
        let changes: Vec<Change<'_>> = stored.iter().map(|&digest| (digest, None)).collect();
        self.commit(&changes, marks)?;
        // The records are gone: fingerprints that remain are harmless.
        if let Ok(evidence) = self.read_many(&stored, |_, _, _| ()) {
            for (&digest, evidence) in stored.iter().zip(evidence) {
                let _ = writers.of(digest).remove(evidence, &self.store);
            }
        }
        Ok(stored.len())
    }

    /// Stores records, after their fingerprints, and sets marks of the store with them. Returns the
    /// number of new digests.
    pub(super) fn write(
        &self,
        mut records: Vec<(Digest, Vec<u8>)>,
        marks: &[Mark],
    ) -> Result<usize> {
        if records.is_empty() {
            self.commit(&[], marks)?;
            return Ok(0);
        }
        // In digest order. Of two records with one key, the later one stays.
        records.sort_by_key(|&(digest, _)| digest);
        let mut clash = None;
        records.dedup_by(|later, earlier| {
            let twice = later.0 == earlier.0;
            if twice {
                if !record::gives_way(&later.1, &earlier.1) {
                    clash = Some(later.0);
                }
                std::mem::swap(later, earlier);
            }
            twice
        });
        let digests: Vec<Digest> = records.iter().map(|&(digest, _)| digest).collect();
        let mut writers = self.writers(&digests);
        self.make_dirty()?;
        let evidence = self.read_many(&digests, |index, digest, stored| {
            let (own, record) = &records[index];
            if digest == *own && !record::gives_way(stored, record) {
                clash = Some(digest);
            }
        })?;
        if let Some(digest) = clash {
            return Err(Error::SameDigest { digest });
        }
        let mut new = 0;
        for (&digest, evidence) in digests.iter().zip(evidence) {
            new += usize::from(writers.of(digest).insert(evidence, &self.store)?);
        }
        let changes: Vec<Change<'_>> =
            records.iter().map(|(digest, record)| (*digest, Some(&record[..]))).collect();
        self.commit(&changes, marks)?;
        Ok(new)
    }

    /// Writes to the store, if there is anything to write.
    fn commit(&self, changes: &[Change<'_>], marks: &[Mark]) -> Result<()> {
        let written = match (changes, marks) {
            ([], []) => Ok(()),
            (_, []) => self.store.write(changes),
            _ => self.store.write_marked(changes, marks),
        };
        written.map_err(Error::Write)
    }

    /// Reads the ranges of these digests, which are in order, with one read of the store.
    fn read_many(
        &self,
        digests: &[Digest],
        visitor: impl FnMut(usize, Digest, &[u8]),
    ) -> Result<Vec<Evidence>> {
        let sharded: Vec<_> = digests.iter().map(|&digest| (digest, self.shard(digest))).collect();
        Shard::read_many(&sharded, &self.store, visitor)
    }

    /// Locks the shards of these digests for writing.
    fn writers(&self, digests: &[Digest]) -> Writers<'_> {
        let mut indices: Vec<usize> =
            digests.iter().map(|&digest| ShardRange::index_of(digest, self.shard_bits)).collect();
        // In order, so that no two calls wait for each other.
        indices.sort_unstable();
        indices.dedup();
        let writers = indices.iter().map(|&index| self.shards[index].writer()).collect();
        Writers { shard_bits: self.shard_bits, indices, writers }
    }
}

/// The right to write to some shards.
struct Writers<'a> {
    shard_bits: u32,
    /// The indices of the shards, in order.
    indices: Vec<usize>,
    writers: Vec<shard::Writer<'a>>,
}

impl<'a> Writers<'a> {
    /// The writer of a digest's shard, which must be one of these shards.
    fn of(&mut self, digest: Digest) -> &mut shard::Writer<'a> {
        let index = ShardRange::index_of(digest, self.shard_bits);
        let place = self.indices.binary_search(&index).expect("every shard is there");
        &mut self.writers[place]
    }
}
