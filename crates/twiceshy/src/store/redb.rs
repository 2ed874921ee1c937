//! [`Redb`]: one file, a B-tree whose pages are copied on write.
//!
//! A failure of the disk is an error of the call that met it. After a failed write
//! the database is opened again ([`reopen`]); a page that cannot be read, or makes no
//! sense, fails the reads that need it and no others ([`backend`]). That a record is not
//! there is believed of verified pages only ([`verified`]).

mod backend;
mod overlay;
pub(crate) mod pages;
mod peek;
mod reopen;
mod verified;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::{ControlFlow, RangeInclusive};
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::guard::{Change, Header, Mark, Store};
use arc_swap::ArcSwapOption;
use redb::{
    Database, ReadOnlyTable, ReadTransaction, ReadableDatabase as _, ReadableTableMetadata as _,
    StorageBackend, StorageError, TableDefinition, WriteTransaction,
};
use twiceshy_filters::remote::EVERY_DIGEST;
use twiceshy_filters::{Digest, RemoteError};

use crate::store::engine::{Durability, Engine, EngineOptions, OpenError, Peeked};
use backend::{Failure, Medium, Trace, while_writing};
use pages::{Found, Pages};
use reopen::{Writing, close};
use verified::{Reader, Tree, Unsound};

/// The records as of one commit.
struct View {
    /// As `redb` has them. Its transaction keeps their pages in place.
    records: ReadOnlyTable<u128, &'static [u8]>,
    tree: Tree,
    /// What [`Redb::openings`] was.
    opening: u64,
}

/// Keyed by digests as numbers: `redb` compares arrays byte by byte, which took an
/// eighth of a look-up.
const RECORDS: TableDefinition<u128, &[u8]> = TableDefinition::new("records");
const META: TableDefinition<&str, u64> = TableDefinition::new("meta");
pub(crate) const TAG: &str = "tag";
pub(crate) const GENERATION: &str = "generation";
/// The start of the names of [`Mark`]s.
const MARK: &str = "mark ";

/// Records in a file of crate `redb`.
pub struct Redb {
    path: PathBuf,
    medium: Box<dyn Medium>,
    /// The medium, for reads that are verified.
    pages: Box<dyn StorageBackend>,
    cache: usize,
    /// Whether writes wait for the disk.
    waits: bool,
    trace: Arc<Trace>,
    /// Held from the start of a write until [`Redb::shown`] has it.
    writing: Mutex<Writing>,
    /// The records as of the last write; `None` while the outcome of a write is
    /// unknown. Opening them for every read would take as long as the read; with a
    /// lock around them, readers would write to one cache line, and wait for a
    /// writer that waits for somebody's disk.
    shown: ArcSwapOption<View>,
    /// How often the database was opened again. The pages of earlier views may have been
    /// written over since.
    openings: AtomicU64,
}

/// Why a read failed.
enum Unread {
    /// The database was closed under it; whether the visitor has seen something.
    Closed { visited: bool },
    /// Anything else.
    Failed(RemoteError),
}

impl Redb {
    /// Records in a medium, whose pages are verified if it is `foreign`; `path` is for
    /// messages.
    fn over(
        medium: Box<dyn Medium>,
        path: &Path,
        options: &EngineOptions,
        foreign: bool,
    ) -> Result<Self, OpenError> {
        let redb = Redb {
            path: path.into(),
            pages: medium.backend()?,
            medium,
            cache: options.cache,
            waits: options.durability == Durability::Power,
            trace: Arc::new(Trace::default()),
            writing: Mutex::default(),
            shown: ArcSwapOption::empty(),
            openings: AtomicU64::new(0),
        };
        redb.open_first(foreign)?;
        Ok(redb)
    }

    /// Reads the records as of the last write. `read` is called a second time if a
    /// write failed meanwhile and the database was opened again.
    #[inline]
    fn view<T>(&self, mut read: impl FnMut(&View) -> Result<T, Unread>) -> Result<T, RemoteError> {
        if let Some(view) = &*self.shown.load() {
            match read(view) {
                Ok(value) => return Ok(value),
                Err(Unread::Closed { visited: false }) => (),
                Err(failed) => return Err(failed.into()),
            }
        }
        self.view_again(&mut read)
    }

    #[cold]
    fn view_again<T>(
        &self,
        read: &mut dyn FnMut(&View) -> Result<T, Unread>,
    ) -> Result<T, RemoteError> {
        {
            let mut writing = self.lock_soon()?;
            self.opened(&mut writing)?;
        }
        match &*self.shown.load() {
            Some(view) => read(view).map_err(RemoteError::from),
            None => Err(Unread::Closed { visited: false }.into()),
        }
    }

    /// Calls `redb` to read; a panic of it becomes an error. `visiting` is set while
    /// the caller's own code runs, whose panics are left alone.
    #[inline]
    fn caught<T>(
        &self,
        call: impl FnOnce(&mut Visit) -> Result<T, StorageError>,
    ) -> Result<T, Unread> {
        let mut visit = Visit::default();
        match panic::catch_unwind(AssertUnwindSafe(|| call(&mut visit))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.unread(error, visit.visited)),
            Err(payload) if visit.visiting => panic::resume_unwind(payload),
            Err(payload) => Err(Unread::Failed(self.unwound(Failure::of(payload)))),
        }
    }

    #[cold]
    fn unread(&self, error: StorageError, visited: bool) -> Unread {
        match error {
            StorageError::PreviousIo | StorageError::DatabaseClosed => Unread::Closed { visited },
            StorageError::Corrupted(reason) => Unread::Failed(self.damaged(&reason).into()),
            error => Unread::Failed(error.into()),
        }
    }

    #[cold]
    fn unwound(&self, failure: Failure) -> RemoteError {
        match failure {
            Failure::Read(error) => self.explained(error.kind(), &error.to_string()).into(),
            failure @ Failure::Damage(_) => self.damaged(&RemoteError::from(failure)).into(),
        }
    }

    /// Visits the records of a range, all of them on verified pages.
    fn visit(
        &self,
        view: &View,
        reader: &mut Reader<'_>,
        range: &RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Unread> {
        let mut visited = false;
        let range = range.start().number()..=range.end().number();
        let outcome = reader.visit(&view.tree, &range, &mut |digest, record| {
            visited = true;
            visitor(Digest::from_number(digest), record)
        });
        outcome.map_err(|unsound| self.unsound(view, unsound, visited))
    }

    #[cold]
    fn unsound(&self, view: &View, unsound: Unsound, visited: bool) -> Unread {
        if self.openings.load(Ordering::SeqCst) != view.opening {
            return Unread::Closed { visited };
        }
        let text = match unsound {
            Unsound::Unreadable(error) => self.explained(error.kind(), &error.to_string()),
            Unsound::Damaged(reason) => self.damaged(&reason),
        };
        Unread::Failed(text.into())
    }

    /// Verifies the pages that a write may hide damage in; see [`verified`]. Called under the
    /// writers' lock: what others write meanwhile could bring more pages within reach.
    fn verify_before(&self, view: &View, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        let removals = changes.iter().filter(|(_, record)| record.is_none());
        let mut digests: Vec<u128> = removals.map(|(digest, _)| digest.number()).collect();
        digests.sort_unstable();
        let reader = view.tree.reader(&*self.pages);
        let tables = reader.verify_tables(&view.tree);
        let verified = tables.and_then(|()| reader.verify_removals(&view.tree, &digests));
        Ok(verified.map_err(|unsound| self.unsound(view, unsound, false))?)
    }

    /// Changes records in a transaction.
    fn write_to(
        &self,
        view: &View,
        transaction: &WriteTransaction,
        changes: &[Change<'_>],
    ) -> Result<(), RemoteError> {
        self.verify_before(view, changes)?;
        let mut records = transaction.open_table(RECORDS)?;
        // If `redb` does not find the name, it has just made an empty table.
        if records.len()? != view.tree.entries {
            return Err(self.damaged(&"the table of records is not as committed").into());
        }
        // Neighbours share pages. Of two changes of a record the last counts.
        let mut ordered: Vec<&Change<'_>> = changes.iter().collect();
        ordered.sort_by_key(|(digest, _)| *digest);
        for (digest, record) in ordered {
            match record {
                Some(record) => records.insert(digest.number(), *record)?,
                None => records.remove(digest.number())?,
            };
        }
        Ok(())
    }

    /// Looks at the database while nobody writes.
    fn inspect<T>(
        &self,
        look: impl FnOnce(&Database) -> Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        let mut writing = self.lock();
        let database = self.opened(&mut writing)?;
        match while_writing(|| look(database)) {
            Err(error) if self.trace.failed() => Err(self.reopen(&mut writing, &error).into()),
            outcome => outcome,
        }
    }

    /// Makes a change in a transaction of its own, and shows it to readers. Nobody else writes
    /// between the view that the change gets and its commit.
    fn change(
        &self,
        change: impl FnOnce(&View, &WriteTransaction) -> Result<(), RemoteError>,
    ) -> Result<(), RemoteError> {
        let mut writing = self.lock();
        let database = self.writable(&mut writing)?;
        let view = self.shown.load_full().ok_or("it is closed")?;
        let mut committing = false;
        let mut unwound = true;
        let outcome = while_writing(|| {
            let changed = (|| {
                let transaction = database.begin_write()?;
                change(&view, &transaction)?;
                committing = true;
                transaction.commit()?;
                self.shown.store(Some(self.latest(database)?));
                Ok(())
            })();
            unwound = false;
            changed
        });
        match outcome {
            Ok(()) => {
                self.trace.clear();
                writing.succeeded();
                Ok(())
            }
            // Only this change was wrong, and it was rolled back.
            Err(error) if !(committing || unwound || self.trace.failed()) => Err(error),
            Err(error) => Err(self.reopen(&mut writing, &error).into()),
        }
    }
}

/// A file that is read and written.
fn file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// The header as of one moment.
fn header_of(view: &ReadTransaction) -> Result<Option<Header>, RemoteError> {
    let meta = view.open_table(META)?;
    let value = |name| Ok::<_, RemoteError>(meta.get(name)?.map(|value| value.value()));
    let (tag, generation) = (value(TAG)?, value(GENERATION)?);
    Ok(tag.zip(generation).map(|(tag, generation)| Header { tag, generation }))
}

/// What the caller's visitor of a read has seen.
#[derive(Default)]
struct Visit {
    visited: bool,
    visiting: bool,
}

impl Visit {
    #[inline]
    fn call(&mut self, visitor: impl FnOnce()) {
        (self.visited, self.visiting) = (true, true);
        visitor();
        self.visiting = false;
    }
}

impl From<Unread> for RemoteError {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Failed(error) => error,
            Unread::Closed { .. } => {
                "a write failed while this was read, and the store was opened again; read it \
                 once more"
                    .into()
            }
        }
    }
}

impl Drop for Redb {
    fn drop(&mut self) {
        close(self.lock().database.take());
    }
}

impl Engine for Redb {
    const EXTENSION: &'static str = "redb";

    fn open(path: &Path, options: &EngineOptions) -> Result<Self, OpenError> {
        Self::over(Box::new(file(path)?), path, options, false)
    }

    fn open_foreign(path: &Path, options: &EngineOptions) -> Result<(Self, bool), OpenError> {
        Ok((Self::over(Box::new(file(path)?), path, options, true)?, true))
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
        let (view, header) = self.inspect(|database| {
            let view = self.shown.load_full().ok_or("it is closed")?;
            Ok((view, header_of(&database.begin_read()?)?))
        })?;
        self.visit(&view, &mut view.tree.reader(&*self.pages), &EVERY_DIGEST, visitor)?;
        Ok(header)
    }

    fn verify(&self) -> Result<(), RemoteError> {
        let damaged = |reason: String| RemoteError::from(self.damaged(&reason));
        let mut pages = Pages::open(&self.path).map_err(damaged)?;
        let mut first = None;
        pages.walk(pages.commits[0], &mut |found| {
            if let Found::Damage { offset, reason } = found {
                first.get_or_insert_with(|| format!("{reason}, at byte {offset}"));
            }
        });
        first.map_or(Ok(()), |reason| Err(damaged(reason)))
    }

    fn sync(&self) -> Result<(), RemoteError> {
        let mut writing = self.lock();
        self.opened(&mut writing)?;
        let synced = self.trace.synced(self.medium.sync_all());
        synced.map_err(|error| self.reopen(&mut writing, &error).into())
    }
}

impl Store for Redb {
    /// Verified: it has to be complete.
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.view(|view| {
            self.visit(view, &mut view.tree.reader(&*self.pages), &range, &mut |digest, record| {
                visitor(digest, record);
                ControlFlow::Continue(())
            })
        })
    }

    /// One view for all; neighbours share pages.
    fn read_many(
        &self,
        ranges: &[RangeInclusive<Digest>],
        visitor: &mut dyn FnMut(usize, Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.view(|view| {
            let mut any = false;
            let mut reader = view.tree.reader(&*self.pages);
            for (index, range) in ranges.iter().enumerate() {
                let each = &mut |digest: Digest, record: &[u8]| {
                    any = true;
                    visitor(index, digest, record);
                    ControlFlow::Continue(())
                };
                match self.visit(view, &mut reader, range, each) {
                    Err(Unread::Closed { .. }) => return Err(Unread::Closed { visited: any }),
                    outcome => outcome?,
                }
            }
            Ok(())
        })
    }

    /// A point look-up allocates nothing, which makes it almost twice as fast. One
    /// that finds nothing has brought in the page that the range begins on.
    fn find(
        &self,
        digest: Digest,
        visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, RemoteError> {
        // The view is held for as long as what was found: `get` of redb 4.4 does not
        // keep the transaction, whatever its documentation says, and the page would
        // be freed.
        self.view(|view| {
            self.caught(|visit| {
                let Some(record) = view.records.get(digest.number())? else {
                    return Ok(Some(false));
                };
                let record = record.value();
                visit.call(|| visitor(record));
                Ok(Some(true))
            })
        })
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        self.change(|view, transaction| self.write_to(view, transaction, changes))
    }

    fn write_marked(&self, changes: &[Change<'_>], marks: &[Mark]) -> Result<(), RemoteError> {
        self.change(|view, transaction| {
            self.write_to(view, transaction, changes)?;
            let mut meta = transaction.open_table(META)?;
            for (name, mark) in marks {
                meta.insert(&*format!("{MARK}{name}"), mark)?;
            }
            Ok(())
        })
    }

    fn mark(&self, name: &str) -> Result<Option<u64>, RemoteError> {
        self.inspect(|database| {
            let meta = database.begin_read()?.open_table(META)?;
            Ok(meta.get(&*format!("{MARK}{name}"))?.map(|mark| mark.value()))
        })
    }

    fn count(&self) -> Result<u64, RemoteError> {
        self.view(|view| self.caught(|_| view.records.len()))
    }

    fn exact_count(&self) -> Result<Option<u64>, RemoteError> {
        self.count().map(Some)
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        self.inspect(|database| header_of(&database.begin_read()?))
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        self.change(|view, transaction| {
            self.verify_before(view, &[])?;
            let mut meta = transaction.open_table(META)?;
            meta.insert(TAG, header.tag)?;
            meta.insert(GENERATION, header.generation)?;
            Ok(())
        })
    }
}

#[cfg(test)]
mod faults;
#[cfg(test)]
mod tests;
