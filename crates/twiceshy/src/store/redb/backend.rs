//! What reads and writes the file for `redb`, and notes what went wrong.

use std::any::Any;
use std::cell::Cell;
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use twiceshy_filters::RemoteError;

/// What holds a database's bytes: a file, or in tests something that fails.
pub(super) trait Medium: Send + Sync {
    /// Access for one opening of the database. All share one lock on the medium.
    fn backend(&self) -> io::Result<Box<dyn StorageBackend>>;

    /// Waits until everything that was written survives a loss of power.
    fn sync_all(&self) -> io::Result<()>;
}

impl Medium for File {
    fn backend(&self) -> io::Result<Box<dyn StorageBackend>> {
        let file = FileBackend::new(self.try_clone()?).map_err(io::Error::other)?;
        Ok(Box::new(file))
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }
}

/// What happened to the medium since the last commit that succeeded.
#[derive(Debug, Default)]
pub(super) struct Trace {
    /// Whether an access failed that makes `redb` refuse all further work.
    failed: AtomicBool,
    /// Whether a sync failed: the system may then have dropped any write since the
    /// last sync and still show it to readers until it needs the memory.
    sync_failed: AtomicBool,
    /// The start of the file, where a commit is decided.
    header: Mutex<Starts>,
    /// The reason of the last failure.
    reason: Mutex<Option<(io::ErrorKind, String)>>,
}

/// What was written to the start of the file.
#[derive(Debug, Default)]
struct Starts {
    last: Vec<u8>,
    /// With the last commit that succeeded.
    committed: Vec<u8>,
}

impl Trace {
    /// A commit has succeeded, or its outcome was decided.
    pub(super) fn clear(&self) {
        self.failed.store(false, Ordering::Relaxed);
        self.sync_failed.store(false, Ordering::Relaxed);
        let mut starts = self.starts();
        let Starts { last, committed } = &mut *starts;
        committed.clone_from(last);
    }

    fn starts(&self) -> MutexGuard<'_, Starts> {
        self.header.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn failed(&self) -> bool {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn sync_failed(&self) -> bool {
        self.sync_failed.load(Ordering::Relaxed)
    }

    /// Whether a file still has the start that the last commit gave it.
    pub(super) fn has_committed_start(&self, medium: &dyn StorageBackend) -> io::Result<bool> {
        let committed = self.starts().committed.clone();
        let mut found = vec![0; committed.len()];
        medium.read(0, &mut found)?;
        Ok(found == committed)
    }

    /// Takes the reason of the last failure.
    pub(super) fn take_reason(&self) -> Option<(io::ErrorKind, String)> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Notes the outcome of a sync.
    pub(super) fn synced(&self, outcome: io::Result<()>) -> io::Result<()> {
        self.sync_failed.fetch_or(outcome.is_err(), Ordering::Relaxed);
        self.note(outcome)
    }

    /// Notes the reason of a failure.
    pub(super) fn note<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &outcome {
            self.failed.store(true, Ordering::Relaxed);
            let reason = Some((error.kind(), error.to_string()));
            *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = reason;
        }
        outcome
    }
}

/// A medium as `redb` sees it. Writes wait for the disk only if they have to survive
/// a loss of power; what the system has taken survives the process.
#[derive(Debug)]
pub(super) struct Backend {
    pub(super) medium: Box<dyn StorageBackend>,
    pub(super) waits: bool,
    pub(super) trace: Arc<Trace>,
}

thread_local! {
    /// Whether this thread is writing, opening or closing.
    static WRITING: Cell<bool> = const { Cell::new(false) };
}

/// Calls something that may write, and turns panics of `redb` into errors.
pub(super) fn while_writing<T>(
    call: impl FnOnce() -> Result<T, RemoteError>,
) -> Result<T, RemoteError> {
    let before = WRITING.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(call));
    WRITING.set(before);
    outcome.unwrap_or_else(|payload| Err(Failure::of(payload).into()))
}

/// Why a call of `redb` unwound.
#[derive(Debug)]
pub(super) enum Failure {
    /// A page could not be read.
    Read(io::Error),
    /// A page was read and made no sense; what `redb` said.
    Damage(String),
}

impl Failure {
    pub(super) fn of(payload: Box<dyn Any + Send>) -> Self {
        let payload = match payload.downcast::<ReadFailed>() {
            Ok(failed) => return Failure::Read(failed.0),
            Err(payload) => payload,
        };
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        Failure::Damage(text.unwrap_or("the engine panicked").to_string())
    }
}

impl From<Failure> for RemoteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Read(error) => error.into(),
            Failure::Damage(text) => format!("a page is damaged ({text})").into(),
        }
    }
}

/// Carries the error of a read past `redb`, which would refuse all further work
/// after it: one bad sector would take the whole store away.
struct ReadFailed(io::Error);

impl StorageBackend for Backend {
    fn sync_data(&self) -> io::Result<()> {
        if !self.waits {
            return Ok(());
        }
        self.trace.synced(self.medium.sync_data())
    }

    fn len(&self) -> io::Result<u64> {
        self.trace.note(self.medium.len())
    }

    /// A read that fails unwinds to [`super::Redb`], except in a thread that writes:
    /// `redb` holds locks there, and the whole transaction has to fail. (Programs that
    /// are built to abort on panics end here.)
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match self.medium.read(offset, out) {
            Err(error) if !WRITING.get() => panic::resume_unwind(Box::new(ReadFailed(error))),
            outcome => self.trace.note(outcome),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.trace.note(self.medium.set_len(len))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset == 0 {
            data.clone_into(&mut self.trace.starts().last);
        }
        self.trace.note(self.medium.write(offset, data))
    }

    /// Keeps the lock: the next opening of the same medium has it. The system
    /// releases it when the medium is dropped.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.medium.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.medium.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.medium.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.medium.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.medium.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.medium.query_lock_range(start, end)
    }
}
