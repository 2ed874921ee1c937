//! Opening the database, and opening it again after a failure.
//!
//! After an error of its medium (a full disk, say) `redb` refuses all further work,
//! and whether the failed commit counts is decided by whoever opens the file next. A
//! guard relies on that decision: a write that is reported as failed may have
//! happened, but must not happen later. So the write that fails opens the database
//! again before it returns. Where that is impossible there is no view of the records
//! until an attempt succeeds, and every read and write is an error.
//!
//! ```text
//!          ┌────────── write fails ──────────┐
//!          ▼                                 │
//!  reopen, under the writers' lock ── ok ──▶ open: reads, writes
//!          │   ▲
//!        fails │ a read or write, once the pause is over
//!          ▼   │
//!        closed: every call is an error
//! ```
//!
//! Opening after a failure reads the whole file (`redb` verifies every page), so a
//! pause of four times as long follows before the next write is tried: a disk that
//! stays full keeps the store from answering a fifth of the time at most. A read that
//! comes while the file is verified waits for a moment, and is an error then.

use std::fmt::Display;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use redb::{
    Builder, Database, DatabaseError, ReadableDatabase as _, ReadableTableMetadata as _,
    StorageBackend as _, TableHandle as _,
};
use twiceshy_filters::RemoteError;

use super::backend::{Backend, while_writing};
use super::peek::not_one_state;
use super::peek::not_ours;
use super::verified::{Tree, Unsound};
use super::{META, RECORDS, Redb, View};
use crate::store::engine::OpenError;

/// What writers share.
#[derive(Default)]
pub(super) struct Writing {
    /// `None`: the last attempt to open it failed.
    pub(super) database: Option<Database>,
    /// After a failure: when to try again, and what went wrong.
    pause: Option<(Instant, String)>,
}

/// The pause after a failure, as a multiple of the time that opening took.
const PAUSE: u32 = 4;

/// How long a read waits for the database to be opened again.
const PATIENCE: Duration = Duration::from_millis(100);

/// How much of the file is written again at once after a failed sync.
const BLOCK: usize = 4096;

impl Redb {
    /// The writers' lock. A panic under it leaves nothing half done: the next
    /// writer finds a database, or opens one.
    pub(super) fn lock(&self) -> MutexGuard<'_, Writing> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writers' lock, for a read that found the database closed: an error if it is not
    /// to be had soon. Opening a large database takes minutes, and the
    /// caller may be able to answer other requests meanwhile.
    pub(super) fn lock_soon(&self) -> Result<MutexGuard<'_, Writing>, RemoteError> {
        let started = Instant::now();
        loop {
            match self.writing.try_lock() {
                Ok(writing) => return Ok(writing),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if started.elapsed() > PATIENCE => {
                    let path = self.path.display();
                    return Err(format!(
                        "{path}: a write has failed, and the file is being verified; try again"
                    )
                    .into());
                }
                Err(TryLockError::WouldBlock) => thread::sleep(PATIENCE / 100),
            }
        }
    }

    /// Opens the database for the first time, and makes its tables. If it is `foreign`,
    /// somebody may have put the file in place: every page is verified.
    pub(super) fn open_first(&self, foreign: bool) -> Result<(), OpenError> {
        let mut locked = false;
        let opened = while_writing(|| {
            let (mut database, repaired) = match self.database(true) {
                Err(DatabaseError::DatabaseAlreadyOpen) => {
                    locked = true;
                    return Err("it is open already".into());
                }
                database => database?,
            };
            if foreign && !repaired {
                database.check_integrity()?;
            }
            // A name with a flipped bit is no table that is not there yet.
            self.tree()?;
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
            self.shown.store(Some(self.latest(&database)?));
            Ok(database)
        });
        match opened {
            Ok(database) => {
                self.trace.clear();
                self.lock().database = Some(database);
                Ok(())
            }
            Err(_) if locked => Err(OpenError::Locked),
            Err(error) if foreign => Err(OpenError::Other(not_one_state(&error))),
            Err(error) => Err(OpenError::Other(error)),
        }
    }

    /// Opens the medium, and tells whether `redb` had to repair it: every page has been
    /// verified then.
    ///
    /// If the last commit in the file is not whole, the one before it takes its place.
    /// Not so if it is `first` no more and the file starts as the last successful commit
    /// left it: that one is damaged then, and must not be lost without a word. A failed
    /// commit overwrites the place of the one before that.
    fn database(&self, first: bool) -> Result<(Database, bool), DatabaseError> {
        /// How far `redb` is with a repair when it has found that the last commit is
        /// not whole.
        const ROLLS_BACK: std::ops::Range<f64> = 0.2..0.4;
        let backend = Backend {
            medium: self.medium.backend()?,
            waits: self.waits,
            trace: Arc::clone(&self.trace),
        };
        if self.trace.sync_failed() {
            self.trace.note(write_again(&backend))?;
        }
        let has_start = self.trace.has_committed_start(&*backend.medium);
        let rolls_back = first || !self.trace.note(has_start)?;
        let repaired = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&repaired);
        let mut builder = Builder::new();
        builder.set_cache_size(self.cache);
        builder.set_repair_callback(move |session| {
            noted.store(true, Ordering::Relaxed);
            if ROLLS_BACK.contains(&session.progress()) && !rolls_back {
                session.abort();
            }
        });
        let database = builder.create_with_backend(backend)?;
        Ok((database, repaired.load(Ordering::Relaxed)))
    }

    /// The database, opened again if it is closed.
    ///
    /// # Errors
    /// Why it cannot be opened, or that it is too early for another attempt.
    pub(super) fn opened<'a>(
        &self,
        writing: &'a mut Writing,
    ) -> Result<&'a mut Database, RemoteError> {
        if writing.database.is_none() {
            writing.pausing()?;
            self.reopen(writing, &"it cannot be opened");
        }
        let Writing { database, pause } = writing;
        let reason = || pause.as_ref().map_or("it is closed", |(_, reason)| reason).into();
        database.as_mut().ok_or_else(reason)
    }

    /// The database, for a writer.
    ///
    /// # Errors
    /// As [`Redb::opened`]; also if a write failed a moment ago.
    pub(super) fn writable<'a>(
        &self,
        writing: &'a mut Writing,
    ) -> Result<&'a mut Database, RemoteError> {
        writing.pausing()?;
        self.opened(writing)
    }

    /// Opens the database again after a failed write, or after a failed attempt,
    /// which decides whether that write counts. Returns what went wrong, for the user;
    /// `error` is what `redb` said.
    pub(super) fn reopen(&self, writing: &mut Writing, error: &dyn Display) -> String {
        let started = Instant::now();
        let noted = || {
            let reason = self.trace.take_reason();
            reason.map(|(kind, text)| self.explained(kind, &text))
        };
        let reason = noted().unwrap_or_else(|| self.damaged(error));
        let old = writing.database.take();
        // Before anything is written that may take the place of pages of old views.
        self.openings.fetch_add(1, Ordering::SeqCst);
        let opened = while_writing(|| {
            drop(old);
            let (database, _) = self.database(false)?;
            let view = self.latest(&database)?;
            Ok((database, view))
        });
        let reason = match opened {
            Ok((database, view)) => {
                self.shown.store(Some(view));
                self.trace.clear();
                writing.database = Some(database);
                reason
            }
            Err(error) => {
                self.shown.store(None);
                noted().unwrap_or_else(|| self.damaged(&error))
            }
        };
        let pause = started.elapsed() * PAUSE;
        writing.pause = Some((Instant::now() + pause, reason.clone()));
        reason
    }

    /// The records as of the last commit. Nobody may write meanwhile.
    pub(super) fn latest(&self, database: &Database) -> Result<Arc<View>, RemoteError> {
        let records = database.begin_read()?.open_table(RECORDS)?;
        // Both are of one commit, or else what `redb` finds and what is verified differ.
        let tree = self.tree()?.filter(|tree| records.len().is_ok_and(|len| len == tree.entries));
        let tree = tree.ok_or("the first page is not that of the last commit")?;
        let opening = self.openings.load(Ordering::SeqCst);
        Ok(Arc::new(View { records, tree, opening }))
    }

    /// Where the records of the last commit are, if it has any table of them.
    fn tree(&self) -> Result<Option<Tree>, RemoteError> {
        match Tree::latest(&*self.pages, RECORDS.name()) {
            Ok(tree) => Ok(tree),
            Err(Unsound::Unreadable(error)) => Ok(self.trace.note(Err(error))?),
            Err(Unsound::Damaged(reason)) => Err(self.damaged(&reason).into()),
        }
    }

    /// What a failure of the medium means to the user.
    pub(super) fn explained(&self, kind: io::ErrorKind, text: &str) -> String {
        let path = self.path.display();
        match kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
                "{path}: the disk is full ({text}); make room, and writes resume by themselves"
            ),
            io::ErrorKind::FileTooLarge => format!(
                "{path}: it may not grow any more ({text}); raise the limit, and writes resume by \
                 themselves"
            ),
            io::ErrorKind::UnexpectedEof => self.damaged(&text),
            _ => format!("{path}: {text}; check the disk for errors (dmesg)"),
        }
    }

    /// That the file is damaged, and what to do.
    pub(super) fn damaged(&self, reason: &dyn Display) -> String {
        let path = self.path.display();
        format!("{path}: {reason}; stop the server, then run `twiceshy check DIR`")
    }
}

impl Writing {
    /// An error for as long as it is too early for another attempt.
    fn pausing(&mut self) -> Result<(), RemoteError> {
        match &self.pause {
            Some((until, reason)) if Instant::now() < *until => Err(reason.clone().into()),
            _ => Ok(()),
        }
    }

    /// A write has succeeded.
    pub(super) fn succeeded(&mut self) {
        self.pause = None;
    }
}

/// Writes everything in the file again, as it reads.
///
/// A system whose sync has failed may have dropped what it had to write, show it to
/// readers for a while all the same, and report the next sync as a success. What is
/// written again is part of that one.
fn write_again(backend: &Backend) -> io::Result<()> {
    let mut block = [0; BLOCK];
    let length = backend.len()?;
    for offset in (0..length).step_by(BLOCK) {
        let size = usize::try_from(length - offset).map_or(BLOCK, |rest| rest.min(BLOCK));
        let block = &mut block[..size];
        backend.read(offset, block)?;
        // Zeros too: they may have been dropped like anything else.
        backend.medium.write(offset, block)?;
    }
    backend.sync_data()
}

/// Closes a database whatever its medium says.
pub(super) fn close(database: Option<Database>) {
    let closed = while_writing(|| {
        drop(database);
        Ok(())
    });
    // What `redb` could not write on closing it finds out when it opens the file.
    let _: Result<(), RemoteError> = closed;
}
