//! What a guard stands in front of.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use twiceshy_filters::remote::Accesses;
use twiceshy_filters::{Digest, KeyHasher};
use twiceshy_filters::{Error, RemoteError};

/// Records in the order of their keys' digests: slow, and the truth.
///
/// It is shared by all threads. A write is whole or not at all, and when it has
/// returned it survives the death of the process.
pub trait Store: Send + Sync {
    /// Visits the records of a range of digests, in order: one read.
    ///
    /// # Errors
    /// Whatever keeps the store from reading.
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError>;

    /// [`Store::read`] for many ranges, in the order of their starts: one read. The
    /// visitor is told which range it is; ranges may overlap. For stores where that
    /// is cheaper than one read after the other, which it is otherwise.
    ///
    /// # Errors
    /// Whatever keeps the store from reading.
    fn read_many(
        &self,
        ranges: &[RangeInclusive<Digest>],
        visitor: &mut dyn FnMut(usize, Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        for (index, range) in ranges.iter().enumerate() {
            self.read(range.clone(), &mut |digest, record| visitor(index, digest, record))?;
        }
        Ok(())
    }

    /// Visits the record of one digest, and says whether there is one. For stores
    /// where that is cheaper than the start of a range: [`Store::read`] is then
    /// asked only if there is none. `None`: this store is not one of them.
    ///
    /// # Errors
    /// Whatever keeps the store from reading.
    fn find(
        &self,
        _digest: Digest,
        _visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, RemoteError> {
        Ok(None)
    }

    /// Stores records, or removes those that are `None`: all of them, or none
    /// and an error. Of several changes of one digest the last one counts.
    ///
    /// # Errors
    /// Whatever keeps the store from writing. A write that is reported as failed
    /// may have happened, but must not happen later: the guard forgets its keys.
    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError>;

    /// How many records there are, or a good guess: for progress and sizes.
    ///
    /// # Errors
    /// Whatever keeps the store from reading.
    fn count(&self) -> Result<u64, RemoteError>;

    /// How many records there are, exactly, if the store knows that without counting
    /// them: for comparing it with a snapshot. `None`: it does not.
    ///
    /// # Errors
    /// Whatever keeps the store from reading.
    fn exact_count(&self) -> Result<Option<u64>, RemoteError> {
        Ok(None)
    }

    /// What [`Store::set_header`] stored last.
    ///
    /// # Errors
    /// Whatever keeps the store from reading.
    fn header(&self) -> Result<Option<Header>, RemoteError>;

    /// Stores the header; it has to survive whatever a later write survives.
    ///
    /// # Errors
    /// Whatever keeps the store from writing.
    fn set_header(&self, header: Header) -> Result<(), RemoteError>;
}

/// A digest, and its record or `None` to remove it.
pub type Change<'a> = (Digest, Option<&'a [u8]>);

/// What a store knows of its guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The tag of the hasher that made its digests, and of the records' layout.
    pub tag: u64,
    /// Which state of the store this is: a hash of the snapshot that was taken of it,
    /// or a random number from the first change after it on.
    pub generation: u64,
}

impl Header {
    /// Whether the store's digests were made with this hasher, and its records are laid
    /// out as this version does it.
    ///
    /// # Errors
    /// [`Error::Format`] or [`Error::Outdated`] if not.
    pub fn check(&self, hasher: &KeyHasher) -> Result<(), Error> {
        if self.tag == super::tag(hasher) {
            return Ok(());
        }
        let earlier = |layout| hasher.tag().wrapping_add(layout);
        if (0..super::record::LAYOUT).any(|layout| self.tag == earlier(layout)) {
            return Err(Error::Outdated);
        }
        Err(Error::format(
            "the store's digests were made with another hasher or secret; open it with the one \
             it was made with",
        ))
    }

    /// The same with a generation that no snapshot has: for a copy of the store, or one
    /// that may have been changed by others.
    #[must_use]
    pub fn renewed(self) -> Self {
        Header { generation: super::new_generation(), ..self }
    }
}

/// A [`Store`] in memory, for tests and examples. It counts its accesses.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: RwLock<BTreeMap<Digest, Box<[u8]>>>,
    header: RwLock<Option<Header>>,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl MemoryStore {
    /// How often it was asked so far: calls, not records.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Accesses { reads: load(&self.reads), writes: load(&self.writes) }
    }
}

/// No operation of a memory store leaves it half changed, so it is as good after
/// a panic as before.
const WHOLE: &str = "no thread panics while it holds this lock";

impl Store for MemoryStore {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let records = self.records.read().expect(WHOLE);
        records.range(range).for_each(|(digest, record)| visitor(*digest, record));
        Ok(())
    }

    fn read_many(
        &self,
        ranges: &[RangeInclusive<Digest>],
        visitor: &mut dyn FnMut(usize, Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let records = self.records.read().expect(WHOLE);
        for (index, range) in ranges.iter().enumerate() {
            let found = records.range(range.clone());
            found.for_each(|(digest, record)| visitor(index, *digest, record));
        }
        Ok(())
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        let mut records = self.records.write().expect(WHOLE);
        for &(digest, record) in changes {
            match record {
                Some(record) => records.insert(digest, record.into()),
                None => records.remove(&digest),
            };
        }
        Ok(())
    }

    fn count(&self) -> Result<u64, RemoteError> {
        Ok(self.records.read().expect(WHOLE).len() as u64)
    }

    fn exact_count(&self) -> Result<Option<u64>, RemoteError> {
        self.count().map(Some)
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        Ok(*self.header.read().expect(WHOLE))
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        *self.header.write().expect(WHOLE) = Some(header);
        Ok(())
    }
}

/// A store that is shared is a store.
impl<S: Store + ?Sized> Store for std::sync::Arc<S> {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        (**self).read(range, visitor)
    }

    fn read_many(
        &self,
        ranges: &[RangeInclusive<Digest>],
        visitor: &mut dyn FnMut(usize, Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        (**self).read_many(ranges, visitor)
    }

    fn find(
        &self,
        digest: Digest,
        visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, RemoteError> {
        (**self).find(digest, visitor)
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        (**self).write(changes)
    }

    fn count(&self) -> Result<u64, RemoteError> {
        (**self).count()
    }

    fn exact_count(&self) -> Result<Option<u64>, RemoteError> {
        (**self).exact_count()
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        (**self).header()
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        (**self).set_header(header)
    }
}
