//! The files of a directory beside the engine's. Each is replaced atomically.
//!
//! ```text
//! directory/
//!   records.redb      the engine's (a sidecar's: digests.redb)
//!   secret            the hasher's secret; 0600, made once
//!   built             a sidecar's: it was told all keys of its store
//!   filter.snapshot   the filters at some moment; fits until the next write
//!   closed            the engine's files as the last close left them (seal.rs)
//!   lock              empty; locked while the directory is open
//! ```

use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use twiceshy_filters::KeyHasher;

use crate::store::error::{Error, Result};
use crate::store::seal;

pub(crate) const SECRET: &str = "secret";
pub(crate) const SNAPSHOT: &str = "filter.snapshot";
pub(crate) const BUILT: &str = "built";
pub(crate) const LOCK: &str = "lock";

/// A locked directory. Dropping this unlocks it.
pub(crate) struct Files {
    directory: PathBuf,
    /// The engine's file or folder, from when it is opened until [`Files::close`].
    engine: Option<PathBuf>,
    /// Whether closing may note the engine's files as the latest state of this directory.
    seals: AtomicBool,
    /// Engines lock their own files once these exist; this lock also covers making them. The
    /// operating system releases it when the file is closed.
    _lock: File,
}

impl Files {
    /// Makes the directory if it does not exist, and locks it.
    pub(crate) fn new(directory: &Path) -> Result<Self> {
        fs::create_dir_all(directory).map_err(failed("make the directory", directory))?;
        let path = directory.join(LOCK);
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let lock = opened.map_err(failed("open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Files {
                directory: directory.into(),
                engine: None,
                seals: AtomicBool::new(false),
                _lock: lock,
            }),
            Err(TryLockError::WouldBlock) => Err(Error::Locked { path: directory.into() }),
            Err(TryLockError::Error(error)) => Err(failed("lock", &path)(error)),
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn secret_path(&self) -> PathBuf {
        self.path(SECRET)
    }

    /// The hasher with the directory's secret, if there is one.
    pub(crate) fn secret(&self) -> Result<Option<KeyHasher>> {
        let path = self.secret_path();
        let Some(bytes) = read(&path)? else { return Ok(None) };
        match KeyHasher::from_bytes(&bytes) {
            Ok(hasher) => Ok(Some(hasher)),
            Err(_) => Err(Error::Secret { path, reason: "is damaged".into() }),
        }
    }

    pub(crate) fn set_secret(&self, hasher: &KeyHasher) -> Result<()> {
        self.replace(SECRET, &hasher.to_bytes())
    }

    /// Whether the sidecar with this secret was declared built. A file that an earlier sidecar
    /// left here has another tag.
    pub(crate) fn is_built(&self, hasher: &KeyHasher) -> Result<bool> {
        Ok(read(&self.path(BUILT))?.is_some_and(|found| found == built(hasher).as_bytes()))
    }

    pub(crate) fn set_built(&self, hasher: &KeyHasher) -> Result<()> {
        self.replace(BUILT, built(hasher).as_bytes())
    }

    /// The last snapshot, if there is one.
    pub(crate) fn snapshot(&self) -> Result<Option<Vec<u8>>> {
        read(&self.path(SNAPSHOT))
    }

    pub(crate) fn set_snapshot(&self, bytes: &[u8]) -> Result<()> {
        self.replace(SNAPSHOT, bytes)
    }

    pub(crate) fn has_snapshot(&self) -> bool {
        self.path(SNAPSHOT).exists()
    }

    /// Whether the engine's files are as the last close left them.
    pub(crate) fn is_intact(&self, engine: &Path) -> bool {
        seal::is_intact(&self.directory, engine)
    }

    /// Breaks the seal: the engine is about to be opened, and may write from then on.
    pub(crate) fn break_seal(&self) -> Result<()> {
        seal::break_open(&self.directory).map_err(failed("write to", &self.directory))
    }

    /// Notes that the engine has been opened. Closing seals its files if they were intact, and
    /// otherwise only after [`Files::seal_when_closed`]: a restored store that was only read is
    /// still a restored one.
    pub(crate) fn opened(&mut self, engine: &Path, was_intact: bool) -> Result<()> {
        self.engine = Some(engine.into());
        self.seals = AtomicBool::new(was_intact);
        self.break_seal()
    }

    /// Lets closing seal the files: the store has a generation that no copy has.
    pub(crate) fn seal_when_closed(&self) {
        self.seals.store(true, Ordering::Relaxed);
    }

    /// The engine's file or folder while it is open.
    pub(crate) fn engine(&self) -> Option<&Path> {
        self.engine.as_deref()
    }

    /// Seals the engine's files after the engine was closed. Dropping does the same.
    pub(crate) fn close(&mut self) {
        if let Some(engine) = self.engine.take()
            && self.seals.load(Ordering::Relaxed)
        {
            // Without a seal, the next open verifies the files.
            let _ = seal::close(&self.directory, &engine);
        }
    }

    /// Removes every file of a store: the engine's, called `engine`, those beside it, and
    /// `others`.
    ///
    /// # Errors
    /// [`Error::Directory`] if there is any other file; nothing is removed then.
    pub(crate) fn clear(&self, engine: &Path, others: &[(&str, &[u8])]) -> Result<()> {
        let names = [SECRET, BUILT, SNAPSHOT, seal::NAME].into_iter();
        let names: Vec<&str> = names.chain(others.iter().map(|(name, _)| *name)).collect();
        let is_ours = |name: &OsStr| {
            let plain = name.to_str().map(|name| name.strip_suffix(".new").unwrap_or(name));
            name == engine || name == LOCK || plain.is_some_and(|name| names.contains(&name))
        };
        let list = || -> io::Result<Vec<DirEntry>> { fs::read_dir(&self.directory)?.collect() };
        let entries = list().map_err(failed("list", &self.directory))?;
        if let Some(other) = entries.iter().find(|entry| !is_ours(&entry.file_name())) {
            let reason = format!(
                "it is left over from an unfinished backup, but has a file that is not part of \
                 one ({}); remove the directory if nobody needs it",
                other.path().display()
            );
            return Err(Error::Directory { path: self.directory.clone(), reason });
        }
        for entry in entries.iter().filter(|entry| entry.file_name() != LOCK) {
            let path = entry.path();
            // A link's target is not part of the directory.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed =
                if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(failed("remove", &path))?;
        }
        Ok(())
    }

    /// Removes the directory with every file of the store, and the lock last.
    pub(crate) fn discard(mut self, engine: &Path, others: &[(&str, &[u8])]) {
        self.engine = None;
        if self.clear(engine, others).is_ok() {
            let _ = fs::remove_file(self.path(LOCK));
            let _ = fs::remove_dir(&self.directory);
        }
    }

    /// Replaces a file atomically: also after a crash, the old or the new file is there.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let (path, new) = (self.path(name), self.path(&format!("{name}.new")));
        let write = || {
            let mut file = private(&new)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            // The new name is on disk once the directory is.
            #[cfg(unix)]
            File::open(&self.directory)?.sync_all()?;
            Ok(())
        };
        write().map_err(|error| {
            // A partial file would only take room.
            let _ = fs::remove_file(&new);
            failed("write", &path)(error)
        })
    }
}

impl Drop for Files {
    /// The engine must have been dropped before.
    fn drop(&mut self) {
        self.close();
    }
}

/// The contents of [`BUILT`].
fn built(hasher: &KeyHasher) -> String {
    format!("twiceshy sidecar built\n{:016x}\n", hasher.tag())
}

/// Whether an engine has files at a path: a file or folder that is not empty.
pub(crate) fn is_there(path: &Path) -> Result<bool> {
    let look = || -> io::Result<bool> {
        let metadata = fs::metadata(path)?;
        if metadata.is_dir() {
            return Ok(fs::read_dir(path)?.next().is_some());
        }
        Ok(metadata.len() > 0)
    };
    match look() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        there => there.map_err(failed("look at", path)),
    }
}

/// A new file that only its owner may read. Removes what a crash left first, since its
/// permissions may be wrong.
fn private(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => (),
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

pub(crate) fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

pub(crate) fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |source| Error::Io { doing, path: path.into(), source }
}
