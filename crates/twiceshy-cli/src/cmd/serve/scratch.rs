//! Directories that a demonstration fills, and removes again.
//!
//! Somebody else may use the same directory: another server may open it between our look
//! at it and our build, and a user may put a file into it at any time. So only files with
//! a store's names are removed, and only while nobody else can have the store open.

use std::fs::{self, File, Metadata};
use std::io;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tracing::{debug, warn};

/// What the names of temporary directories begin with.
const PREFIX: &str = "twiceshy-demo-";

/// The file by which [`remove_stale`] tells a temporary directory from one that a user
/// named.
const MARKER: &str = "demo";

/// The store's lock file: see `files.rs` of `twiceshy::store`.
const LOCK: &str = "lock";

/// Every file that a demonstration makes, in the order in which they are removed. The lock
/// comes after what it protects; a directory that still has its marker can be removed later.
const OURS: [&str; 8] = [
    "records.redb",
    "secret",
    "secret.new",
    "filter.snapshot",
    "filter.snapshot.new",
    "closed",
    LOCK,
    MARKER,
];

/// A directory whose contents are removed when this is dropped, unless they are kept.
pub struct Scratch {
    path: PathBuf,
    origin: Origin,
    build: Arc<Build>,
    kept: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// Made by us, under a name of its own.
    Temporary,
    /// Named by the user, not there before.
    Named,
    /// Named by the user, there before and empty: the directory itself stays.
    Existing,
}

impl Scratch {
    /// A temporary directory, removed in any case.
    pub fn temporary() -> io::Result<Self> {
        let parent = std::env::temp_dir();
        remove_stale(&parent);
        // Removed by our own rules: see [`Scratch::discard`].
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep();
        let scratch = Scratch::new(path, Origin::Temporary);
        File::create_new(scratch.path.join(MARKER))?;
        Ok(scratch)
    }

    /// A directory that the user has named, removed unless [`Scratch::keep`] is called.
    /// `None` if there is something in it: then nothing of it is ours.
    pub fn named(path: &Path) -> Option<Self> {
        let origin = match fs::read_dir(path).map(Iterator::count) {
            Ok(0) => Origin::Existing,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Origin::Named,
            _ => return None,
        };
        Some(Scratch::new(path.into(), origin))
    }

    fn new(path: PathBuf, origin: Origin) -> Self {
        Scratch { path, origin, build: Arc::default(), kept: false }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the build has to report to.
    pub fn build(&self) -> Arc<Build> {
        Arc::clone(&self.build)
    }

    /// What is in it stays.
    pub fn keep(mut self) {
        self.kept = true;
    }

    fn discard(&self) -> io::Result<()> {
        let stage = self.build.stop();
        if self.origin == Origin::Temporary {
            return self.remove();
        }
        match stage {
            // Nothing was made, or another server was faster: what is there is not ours.
            Stage::Idle | Stage::Ended { owned: false } => Ok(()),
            Stage::Opening => Err(io::Error::other("the store is still being opened")),
            // The build holds the lock until this process ends.
            Stage::Owned => self.remove(),
            Stage::Ended { owned: true } => {
                let lock = match File::open(self.path.join(LOCK)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    lock => lock?,
                };
                // Held until everything is gone.
                lock.try_lock()?;
                self.remove()
            }
        }
    }

    fn remove(&self) -> io::Result<()> {
        remove_files(&self.path)?;
        if self.origin == Origin::Existing { Ok(()) } else { remove_directory(&self.path) }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if let Err(error) = self.discard() {
            let directory = self.path.display();
            warn!(%directory, %error, "not removed; look what is in it, and remove it by hand");
        }
    }
}

/// How far the build of a demonstration is, and whether it may go on.
#[derive(Default)]
pub struct Build {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    stage: Stage,
    stopped: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Idle,
    /// It is not known yet whether the directory is ours.
    Opening,
    /// The build holds the directory's lock, and found no store there.
    Owned,
    Ended {
        owned: bool,
    },
}

/// A build that runs; dropped when it has ended.
pub struct Running(Arc<Build>);

impl Build {
    /// Says that the store is about to be opened.
    pub fn begin(self: Arc<Self>) -> Running {
        self.state().stage = Stage::Opening;
        Running(self)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops the build where it next calls [`Running::owned`], and says how far it came.
    fn stop(&self) -> Stage {
        /// Opening takes some milliseconds, most of it for the disk; one who waits for the
        /// end of the process should not notice.
        const PATIENCE: Duration = Duration::from_millis(500);
        let mut state = self.state();
        state.stopped = true;
        let opening = |state: &mut State| state.stage == Stage::Opening;
        let waited = self.changed.wait_timeout_while(state, PATIENCE, opening);
        waited.unwrap_or_else(PoisonError::into_inner).0.stage
    }
}

impl Running {
    /// Says that the directory is locked and had no store: the store asks for its first
    /// record only then. Does not return once the build is stopped, so that the directory stays
    /// locked, and nothing more is made in it, until the process ends.
    pub fn owned(&self) {
        let mut state = self.0.state();
        state.stage = Stage::Owned;
        self.0.changed.notify_all();
        while state.stopped {
            drop(state);
            thread::park();
            state = self.0.state();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.stage = Stage::Ended { owned: state.stage == Stage::Owned };
        self.0.changed.notify_all();
    }
}

fn remove_files(directory: &Path) -> io::Result<()> {
    OURS.iter().try_for_each(|name| missing_is_fine(fs::remove_file(directory.join(name))))
}

/// Fails if there is something in it.
fn remove_directory(directory: &Path) -> io::Result<()> {
    missing_is_fine(fs::remove_dir(directory))
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes temporary directories of demonstrations that were killed.
fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if !is_left_by_a_demonstration(&path).unwrap_or(false) {
            continue;
        }
        // The system unlocks it when its process ends. Held until the directory is gone.
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if lock.try_lock().is_ok() {
            let removed = remove_files(&path).and_then(|()| remove_directory(&path));
            debug!(directory = %path.display(), ?removed, "left by a demonstration that was killed");
        }
    }
}

/// Whether a directory has the name and the marker of a temporary one, is ours, and has
/// our files alone. Without a lock file it belongs to a demonstration that has just begun.
fn is_left_by_a_demonstration(path: &Path) -> io::Result<bool> {
    let name = path.file_name().and_then(|name| name.to_str());
    // Of a link itself, not of what it leads to.
    let metadata = fs::symlink_metadata(path)?;
    if name.is_none_or(|name| !name.starts_with(PREFIX))
        || !metadata.is_dir()
        || !belongs_to_us(&metadata)
    {
        return Ok(false);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let ours = OURS.into_iter().find(|&name| entry.file_name() == name);
        match ours {
            Some(name) if entry.file_type()?.is_file() => found.push(name),
            _ => return Ok(false),
        }
    }
    Ok([MARKER, LOCK].iter().all(|name| found.contains(name)))
}

#[cfg(unix)]
fn belongs_to_us(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn belongs_to_us(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use twiceshy::store::{Options, Redb};

    use super::*;

    /// A demonstration's build as far as it comes.
    fn build(scratch: &Scratch) -> Result<(), twiceshy::store::Error> {
        let running = scratch.build().begin();
        let records =
            (0..10).map(|index| (format!("user:{index}"), "")).inspect(|_| running.owned());
        Options::default().build::<Redb, _, _>(scratch.path(), records, &mut |_, _| ()).map(drop)
    }

    /// Two servers begin at the same time, and the demonstration is the slower one.
    #[test]
    fn a_store_that_another_server_has_made_meanwhile_is_kept() {
        for (there_before, closed) in [(false, false), (false, true), (true, false), (true, true)] {
            let above = tempfile::tempdir().expect("a directory");
            let directory = above.path().join("data");
            if there_before {
                fs::create_dir(&directory).expect("a directory");
            }
            let scratch = Scratch::named(&directory).expect("it is empty");
            let other = Options::default().open::<Redb>(&directory).expect("nobody has it");
            other.put(b"key", b"value").expect("written");
            build(&scratch).expect_err("another server has it");
            if closed {
                other.close().expect("closed");
                drop(scratch);
            } else {
                drop(scratch);
                other.close().expect("closed");
            }
            let other = Options::default().open::<Redb>(&directory).expect("it is there");
            assert_eq!(other.get(b"key").expect("read"), Some(b"value".to_vec()));
        }
    }

    /// A build that failed, on a full disk say, leaves the directory as it was; unless
    /// another server has opened it since.
    #[test]
    fn what_a_failed_build_left_is_removed_if_nobody_has_it_open() {
        for opened in [false, true] {
            let directory = tempfile::tempdir().expect("a directory");
            let scratch = Scratch::named(directory.path()).expect("it is empty");
            build(&scratch).expect("built");
            let other = opened.then(|| Options::default().open::<Redb>(directory.path()));
            drop(scratch);
            assert_eq!(directory.path().join("records.redb").exists(), opened);
            assert_eq!(fs::read_dir(directory.path()).expect("a directory").count() > 0, opened);
            drop(other);
        }
    }

    /// Every file that a store makes is removed: a new one would be left behind.
    #[test]
    fn a_temporary_directory_is_removed_whole() {
        let scratch = Scratch::temporary().expect("a directory");
        let path = scratch.path().to_path_buf();
        build(&scratch).expect("built");
        let store = Options::default().open::<Redb>(&path).expect("it is there");
        store.close().expect("closed");
        assert!(path.join("filter.snapshot").exists() && path.join("closed").exists());
        drop(scratch);
        assert!(!path.exists());
    }
}
