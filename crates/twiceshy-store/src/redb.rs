//! [`Redb`]: one file, a B-tree whose pages are copied on write.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::ops::{Bound, ControlFlow, RangeInclusive};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use redb::backends::FileBackend;
use redb::{
    BackendError, Builder, Database, DatabaseError, ReadOnlyTable, ReadTransaction,
    ReadableDatabase as _, ReadableTable as _, ReadableTableMetadata as _, StorageBackend,
    TableDefinition, TableError,
};
use twiceshy::{Change, Digest, Header, RemoteError, Store};

use crate::engine::{Durability, Engine, EngineOptions, OpenError, Peeked, from_number, to_number};

type Records = ReadOnlyTable<u128, &'static [u8]>;

/// Keyed by digests as numbers: `redb` compares arrays byte by byte, which took an
/// eighth of a look-up.
const RECORDS: TableDefinition<u128, &[u8]> = TableDefinition::new("records");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
const TAG: &str = "tag";
const GENERATION: &str = "generation";

/// Records in a file of crate `redb`.
pub struct Redb {
    database: Database,
    /// Held from the start of a write until [`Redb::records`] shows it.
    writing: Mutex<()>,
    /// The records as of the last write. Opening them for every read would take
    /// as long as the read; with a lock around them, readers would write to one
    /// cache line, and wait for a writer that waits for somebody's disk.
    records: ArcSwap<Records>,
    file: File,
    /// Whether a write has failed: what it left may come to light when the file is
    /// opened again, so no snapshot of the filters may be taken for one of that.
    failed: AtomicBool,
}

impl Redb {
    /// Records in a file that a backend reads and writes; `file` is to be synced.
    fn over(backend: impl StorageBackend, file: File, cache: usize) -> Result<Self, OpenError> {
        Self::with(opened(backend, cache)?.0, file)
    }

    fn with(database: Database, file: File) -> Result<Self, OpenError> {
        let both_there = {
            let transaction = database.begin_read()?;
            transaction.open_table(RECORDS).is_ok() && transaction.open_table(META).is_ok()
        };
        if !both_there {
            let transaction = database.begin_write()?;
            transaction.open_table(RECORDS).map_err(not_ours)?;
            transaction.open_table(META).map_err(not_ours)?;
            transaction.commit()?;
        }
        let records = ArcSwap::new(Self::latest(&database)?);
        let (writing, failed) = (Mutex::new(()), AtomicBool::new(false));
        Ok(Redb { database, writing, records, file, failed })
    }

    fn latest(database: &Database) -> Result<Arc<Records>, RemoteError> {
        Ok(Arc::new(database.begin_read()?.open_table(RECORDS)?))
    }

    /// Shows readers what was written.
    fn show_latest(&self) -> Result<(), RemoteError> {
        self.records.store(Self::latest(&self.database)?);
        Ok(())
    }

    fn visit(
        records: &Records,
        range: &RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        for entry in records.range(to_number(*range.start())..=to_number(*range.end()))? {
            let (digest, record) = entry?;
            visitor(from_number(digest.value()), record.value());
        }
        Ok(())
    }
}

impl Engine for Redb {
    const EXTENSION: &'static str = "redb";

    fn open(path: &Path, options: &EngineOptions) -> Result<Self, OpenError> {
        let (file, backend) = backend(path, options.durability)?;
        Self::over(backend, file, options.cache)
    }

    fn open_foreign(path: &Path, options: &EngineOptions) -> Result<(Self, bool), OpenError> {
        let (file, backend) = backend(path, options.durability)?;
        let verify = || {
            let (mut database, repaired) = opened(backend, options.cache)?;
            if !repaired {
                database.check_integrity().map_err(not_one_state)?;
            }
            Self::with(database, file)
        };
        // Pages of different moments may break what `redb` takes for granted.
        let verified = panic::catch_unwind(AssertUnwindSafe(verify));
        let redb = verified.unwrap_or_else(|_| Err(not_one_state("it panicked").into()))?;
        Ok((redb, true))
    }

    fn peek(
        path: &Path,
        options: &EngineOptions,
        verify: bool,
    ) -> Result<Option<Peeked>, OpenError> {
        peek::peek(path, options.cache, verify)
    }

    fn visit_all(
        &self,
        visitor: &mut dyn FnMut(Digest, &[u8]) -> ControlFlow<()>,
    ) -> Result<Option<Header>, RemoteError> {
        let view = self.database.begin_read()?;
        for entry in view.open_table(RECORDS)?.iter()? {
            let (digest, record) = entry?;
            if visitor(from_number(digest.value()), record.value()).is_break() {
                break;
            }
        }
        header_of(&view)
    }

    fn sync(&self) -> Result<(), RemoteError> {
        if self.failed.load(Ordering::Acquire) {
            return Err(
                "a write has failed; the filters are built again when it is next opened".into()
            );
        }
        Ok(self.file.sync_all()?)
    }
}

impl Store for Redb {
    /// One descent: `redb` looks for the end of a range as it goes.
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        Self::visit(&self.records.load(), &range, visitor)
    }

    /// One view for all; neighbours share pages.
    fn read_many(
        &self,
        ranges: &[RangeInclusive<Digest>],
        visitor: &mut dyn FnMut(usize, Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        let records = self.records.load();
        for (index, range) in ranges.iter().enumerate() {
            Self::visit(&records, range, &mut |digest, record| visitor(index, digest, record))?;
        }
        Ok(())
    }

    /// A point look-up allocates nothing, which makes it almost twice as fast. One
    /// that finds nothing has brought in the page that the range begins on.
    fn find(
        &self,
        digest: Digest,
        visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, RemoteError> {
        // For as long as what was found: `get` of redb 4.4 does not keep the
        // transaction, whatever its documentation says, and the page would be freed.
        let records = self.records.load();
        let found = records.get(to_number(digest))?;
        Ok(Some(found.inspect(|record| visitor(record.value())).is_some()))
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        let _lock = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let transaction = self.database.begin_write()?;
        {
            let mut records = transaction.open_table(RECORDS)?;
            // Neighbours share pages. Of two changes of a record the last counts.
            let mut ordered: Vec<&Change<'_>> = changes.iter().collect();
            ordered.sort_by_key(|(digest, _)| *digest);
            for (digest, record) in ordered {
                match record {
                    Some(record) => records.insert(to_number(*digest), *record)?,
                    None => records.remove(to_number(*digest))?,
                };
            }
        }
        let committed = transaction.commit().map_err(RemoteError::from);
        let shown = committed.and_then(|()| self.show_latest());
        self.failed.fetch_or(shown.is_err(), Ordering::AcqRel);
        shown
    }

    fn count(&self) -> Result<u64, RemoteError> {
        Ok(self.records.load().len()?)
    }

    fn exact_count(&self) -> Result<Option<u64>, RemoteError> {
        self.count().map(Some)
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        header_of(&self.database.begin_read()?)
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        let transaction = self.database.begin_write()?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert(TAG, header.tag)?;
            meta.insert(GENERATION, header.generation)?;
        }
        Ok(transaction.commit()?)
    }
}

/// The header as of one moment.
fn header_of(view: &ReadTransaction) -> Result<Option<Header>, RemoteError> {
    let meta = view.open_table(META)?;
    let value = |name| Ok::<_, RemoteError>(meta.get(name)?.map(|value| value.value()));
    let (tag, generation) = (value(TAG)?, value(GENERATION)?);
    Ok(tag.zip(generation).map(|(tag, generation)| Header { tag, generation }))
}

/// Opens a database, and tells whether `redb` had to repair it: every page has been
/// verified then.
fn opened(backend: impl StorageBackend, cache: usize) -> Result<(Database, bool), OpenError> {
    let repaired = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&repaired);
    let mut builder = Builder::new();
    builder.set_cache_size(cache);
    builder.set_repair_callback(move |_| noted.store(true, Ordering::Relaxed));
    let database = builder.create_with_backend(backend).map_err(|error| match error {
        DatabaseError::DatabaseAlreadyOpen => OpenError::Locked,
        error => OpenError::Other(error.into()),
    })?;
    Ok((database, repaired.load(Ordering::Relaxed)))
}

/// Why a file is not opened whose pages do not belong together.
fn not_one_state(error: impl fmt::Display) -> RemoteError {
    format!(
        "it is damaged, or was copied while it was written ({error}); restore another copy \
         (`twiceshy backup` makes good ones)"
    )
    .into()
}

/// Why a table cannot be had: there is one of that name with other contents.
fn not_ours(error: TableError) -> RemoteError {
    if let TableError::Storage(error) = error {
        return error.into();
    }
    format!(
        "{error} (it was made by another program, or by another version of this one: open it \
         with that, or use another directory)"
    )
    .into()
}

/// A file, and what reads and writes it for `redb`.
fn backend(path: &Path, durability: Durability) -> io::Result<(File, Backend)> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let backend = FileBackend::new(file.try_clone()?).map_err(io::Error::other)?;
    Ok((file, Backend { file: backend, waits: durability == Durability::Power }))
}

/// A file whose writes wait for the disk only if they have to survive a loss of
/// power. What the system has taken survives the process.
#[derive(Debug)]
struct Backend {
    file: FileBackend,
    waits: bool,
}

impl StorageBackend for Backend {
    fn sync_data(&self) -> io::Result<()> {
        if self.waits { self.file.sync_data() } else { Ok(()) }
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

mod overlay;
mod peek;
#[cfg(test)]
mod tests;
