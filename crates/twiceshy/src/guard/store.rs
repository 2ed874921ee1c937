//! [`Store`]: what a guard stands in front of.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};

use twiceshy_filters::remote::Accesses;
use twiceshy_filters::{Digest, KeyHasher, RemoteError};

use super::error::{Error, Result};
use super::{generation, record};

/// Records in digest order. The store is slow, and it is the truth.
///
/// All threads share a store. A write is atomic, and once it has returned it survives the death
/// of the process.
pub trait Store: Send + Sync {
    /// Visits the records of a range of digests, in order: one read.
    ///
    /// # Errors
    /// The store's reason why it cannot read.
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError>;

    /// [`Store::read`] for many ranges, in the order of their starts: one read. Ranges may
    /// overlap. The visitor receives the index of the range. Stores for which this is cheaper
    /// than a read per range override it.
    ///
    /// # Errors
    /// The store's reason why it cannot read.
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

    /// Visits the record of one digest and returns whether there is one. Stores for which this
    /// is cheaper than the start of a range override it; the guard then calls [`Store::read`]
    /// only if there is no record. `None` means that this store has no such fast path.
    ///
    /// # Errors
    /// The store's reason why it cannot read.
    fn find(
        &self,
        _digest: Digest,
        _visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, RemoteError> {
        Ok(None)
    }

    /// Stores records, and removes those that are `None`: all of them, or none and an error. Of
    /// several changes of one digest, the last one counts.
    ///
    /// # Errors
    /// The store's reason why it cannot write. A write that is reported as failed may have
    /// happened, but must not happen later: the guard forgets its keys.
    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError>;

    /// [`Store::write`], and marks of the caller's in the same write: how far it has followed the
    /// log of another store, say. Stores without marks refuse.
    ///
    /// # Errors
    /// As [`Store::write`].
    fn write_marked(&self, _changes: &[Change<'_>], _marks: &[Mark]) -> Result<(), RemoteError> {
        Err("this store keeps no marks".into())
    }

    /// What [`Store::write_marked`] last wrote under this name.
    ///
    /// # Errors
    /// The store's reason why it cannot read.
    fn mark(&self, _name: &str) -> Result<Option<u64>, RemoteError> {
        Ok(None)
    }

    /// The number of records, exactly or approximately, for progress and sizes.
    ///
    /// # Errors
    /// The store's reason why it cannot read.
    fn count(&self) -> Result<u64, RemoteError>;

    /// The exact number of records if the store knows it without counting, or `None`. The guard
    /// compares it with that of a snapshot.
    ///
    /// # Errors
    /// The store's reason why it cannot read.
    fn exact_count(&self) -> Result<Option<u64>, RemoteError> {
        Ok(None)
    }

    /// The header that [`Store::set_header`] stored last.
    ///
    /// # Errors
    /// The store's reason why it cannot read.
    fn header(&self) -> Result<Option<Header>, RemoteError>;

    /// Stores the header. It must survive everything that a later write survives.
    ///
    /// # Errors
    /// The store's reason why it cannot write.
    fn set_header(&self, header: Header) -> Result<(), RemoteError>;
}

/// A digest, and its record or `None` to remove it.
pub type Change<'a> = (Digest, Option<&'a [u8]>);

/// A number that a store keeps for its caller, under a name.
pub type Mark = (&'static str, u64);

/// What a store keeps for its guard: which digests and records it has, and which snapshot fits.
///
/// A store keeps both fields, so this struct is exhaustive: a field that a store did not keep
/// would be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Identifies the hasher that made the digests, and the layout of the records.
    pub tag: u64,
    /// Identifies the state of the store: the hash of the snapshot that fits, or, from the next
    /// write on, a random number.
    pub generation: u64,
}

impl Header {
    /// Verifies that the store's digests were made with this hasher, and that its records have
    /// the layout of this version.
    ///
    /// # Errors
    /// [`Error::WrongSecret`] or [`Error::UnknownLayout`].
    pub fn check(&self, hasher: &KeyHasher) -> Result<()> {
        /// Layouts have small numbers. Two hashers have tags this close in one of 2^56 cases.
        const LAYOUTS: u64 = 256;
        match self.tag.wrapping_sub(hasher.tag()) {
            record::LAYOUT => Ok(()),
            found if found < LAYOUTS => Err(Error::UnknownLayout { found, known: record::LAYOUT }),
            _ => Err(Error::WrongSecret),
        }
    }

    /// The same header with a generation that no snapshot has, for a copy of the store or a
    /// store that others may have changed.
    #[must_use]
    pub fn renewed(self) -> Self {
        Header { generation: generation::random(), ..self }
    }
}

/// A [`Store`] in memory that counts its accesses, for tests and examples.
#[derive(Debug, Default)]
pub struct MemoryStore {
    records: RwLock<BTreeMap<Digest, Box<[u8]>>>,
    header: RwLock<Option<Header>>,
    marks: RwLock<BTreeMap<String, u64>>,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl MemoryStore {
    /// The number of reads and writes so far: calls, not records.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Accesses { reads: load(&self.reads), writes: load(&self.writes) }
    }
}

/// Why the locks of a memory store are never poisoned.
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

    fn write_marked(&self, changes: &[Change<'_>], marks: &[Mark]) -> Result<(), RemoteError> {
        self.write(changes)?;
        let marks = marks.iter().map(|&(name, mark)| (name.into(), mark));
        self.marks.write().expect(WHOLE).extend(marks);
        Ok(())
    }

    fn mark(&self, name: &str) -> Result<Option<u64>, RemoteError> {
        Ok(self.marks.read().expect(WHOLE).get(name).copied())
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

/// A shared store is a store.
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

    fn write_marked(&self, changes: &[Change<'_>], marks: &[Mark]) -> Result<(), RemoteError> {
        (**self).write_marked(changes, marks)
    }

    fn mark(&self, name: &str) -> Result<Option<u64>, RemoteError> {
        (**self).mark(name)
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Has what its caller must have, and the rest as every store has it.
    struct Least;

    impl Store for Least {
        fn read(
            &self,
            _: RangeInclusive<Digest>,
            _: &mut dyn FnMut(Digest, &[u8]),
        ) -> Result<(), RemoteError> {
            Err("read".into())
        }

        fn write(&self, _: &[Change<'_>]) -> Result<(), RemoteError> {
            Err("write".into())
        }

        fn count(&self) -> Result<u64, RemoteError> {
            Ok(5)
        }

        fn header(&self) -> Result<Option<Header>, RemoteError> {
            Ok(Some(Header { tag: 1, generation: 2 }))
        }

        fn set_header(&self, _: Header) -> Result<(), RemoteError> {
            Err("set_header".into())
        }
    }

    const DIGEST: Digest = Digest::new([3, 4]);
    const OTHER: Digest = Digest::new([5, 6]);

    #[test]
    fn what_a_store_does_not_say_is_unknown() {
        assert!(matches!((Least.mark("a"), Least.exact_count()), (Ok(None), Ok(None))));
        assert!(matches!(Least.find(DIGEST, &mut |_| ()), Ok(None)));
        let error = Least.write_marked(&[], &[("a", 1)]).expect_err("it has no marks");
        assert_eq!(error.to_string(), "this store keeps no marks");
    }

    #[test]
    fn a_shared_store_hands_everything_on() {
        let least = Arc::new(Least);
        assert_eq!(Store::count(&least).expect("known"), 5);
        assert_eq!(Store::header(&least).expect("known"), Least.header().expect("known"));
        let header = Header { tag: 6, generation: 7 };
        for (failed, what) in [
            (least.read(DIGEST..=DIGEST, &mut |_, _| ()), "read"),
            (Store::write(&least, &[]), "write"),
            (Store::set_header(&least, header), "set_header"),
        ] {
            assert_eq!(failed.expect_err(what).to_string(), what);
        }

        let own = MemoryStore::default();
        let shared: Arc<dyn Store> = Arc::new(own);
        let through = Arc::new(shared);
        Store::write_marked(&through, &[(DIGEST, Some(b"one"))], &[("a", 8)]).expect("in memory");
        assert_eq!(Store::mark(&through, "a").expect("in memory"), Some(8));
        assert_eq!(Store::mark(&through, "b").expect("in memory"), None);
        assert_eq!(Store::exact_count(&through).expect("in memory"), Some(1));
        Store::write(&through, &[(OTHER, Some(b"two")), (OTHER, Some(b"2"))]).expect("in memory");
        assert_eq!(Store::exact_count(&through).expect("in memory"), Some(2));
        Store::write(&through, &[(OTHER, None)]).expect("in memory");
        assert_eq!(Store::count(&through).expect("in memory"), 1);
        Store::set_header(&through, header).expect("in memory");
        assert_eq!(Store::header(&through).expect("in memory"), Some(header));
        let mut seen = Vec::new();
        let ranges = [DIGEST..=DIGEST, DIGEST..=DIGEST];
        let read = Store::read_many(&through, &ranges, &mut |index, digest, record| {
            seen.push((index, digest, record.to_vec()));
        });
        read.expect("in memory");
        assert_eq!(seen, [0, 1].map(|index| (index, DIGEST, b"one".to_vec())));
    }
}
