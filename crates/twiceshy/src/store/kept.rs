//! [`Kept`]: a guard, and the directory that keeps it.

use std::fmt;
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::guard::Store as _;
use crate::{Guard, Sidecar};

use crate::store::backup::{CopyProgress, Source};
use crate::store::engine::Engine;
use crate::store::error::{Error, Result};
use crate::store::files::Files;
use crate::store::options::Origin;

/// A guard or sidecar with its files. It is used as what it keeps; when it goes,
/// it leaves a snapshot, and the next to open it has the filters at once.
pub struct Kept<G: Guarding> {
    guarding: G,
    /// Dropped when the engine is closed.
    files: Files,
    origin: Origin,
    /// Held while a snapshot is taken and written, so that no older one follows.
    saving: Mutex<()>,
    closed: bool,
}

/// A [`Guard`], or a [`Sidecar`] around one.
pub trait Guarding {
    /// What its guard stands in front of.
    type Engine: Engine;

    /// Its guard.
    fn guard(&self) -> &Guard<Self::Engine>;
}

impl<E: Engine> Guarding for Guard<E> {
    type Engine = E;

    fn guard(&self) -> &Guard<E> {
        self
    }
}

impl<E: Engine> Guarding for Sidecar<E> {
    type Engine = E;

    fn guard(&self) -> &Guard<E> {
        Sidecar::guard(self)
    }
}

impl<G: Guarding> Kept<G> {
    pub(crate) fn new(guarding: G, files: Files, origin: Origin) -> Self {
        Kept { guarding, files, origin, saving: Mutex::new(()), closed: false }
    }

    /// Writes the filters, with all that they have learned, to the snapshot file.
    /// It is of use until the next change.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Guard`]. Everything else goes on; the snapshot that was
    /// there before may be of no use any more.
    pub fn snapshot(&self) -> Result<()> {
        let _lock = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = self.guarding.guard();
        let bytes = guard.snapshot()?;
        // A snapshot on disk is of a state that is on disk.
        guard.store().sync().map_err(twiceshy_filters::Error::Remote)?;
        // It has a generation that no copy has.
        self.files.seal_when_closed();
        self.files.set_snapshot(&bytes)
    }

    /// Leaves a snapshot and closes. Dropping does the same, and tells of no
    /// error. Returns the generation of the store that is left: see
    /// [`crate::guard::Header::generation`].
    ///
    /// # Errors
    /// As [`Kept::snapshot`]. Whatever the error, nothing that was stored is lost.
    pub fn close(mut self) -> Result<u64> {
        self.closed = true;
        self.snapshot()?;
        self.generation()
    }

    /// The generation of the store as it is: see [`crate::guard::Header::generation`].
    ///
    /// # Errors
    /// [`Error::Guard`] when the store cannot be read.
    pub fn generation(&self) -> Result<u64> {
        let header =
            self.guarding.guard().store().header().map_err(twiceshy_filters::Error::Remote)?;
        Ok(header.map_or(0, |header| header.generation))
    }

    /// Whether the engine's files were as the last close left them when this was opened:
    /// `false` when they have been restored from a copy or otherwise replaced, and after a
    /// crash.
    #[must_use]
    pub fn was_intact(&self) -> bool {
        self.origin == Origin::Intact
    }

    /// Copies the store to a new directory, as of one moment, while others read and
    /// write. Returns how many records the copy has. It is opened like any other
    /// directory; its filters are built then.
    ///
    /// ```
    /// # let directory = tempfile::tempdir()?;
    /// # let (path, to) = (directory.path().join("users"), directory.path().join("backup"));
    /// let store = twiceshy::open(path)?;
    /// store.put("ada", "Ada Lovelace")?;
    /// assert_eq!(store.backup(&to)?, 1);
    /// store.remove("ada")?;
    ///
    /// let copy = twiceshy::open(to)?;
    /// assert!(copy.contains("ada")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Directory`] when `to` exists, [`Error::Locked`] when another backup of
    /// that name is being made; whatever keeps the disks from it. Then there is no `to`.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<u64> {
        self.backup_with(to, &[], &mut |_, _| ControlFlow::Continue(()))
    }

    /// [`Kept::backup`] with other files, as names and contents, in the copy's directory.
    /// `progress` is told how many records of about how many are copied, and may end it.
    ///
    /// # Errors
    /// As [`Kept::backup`].
    pub fn backup_with(
        &self,
        to: impl AsRef<Path>,
        others: &[(&str, &[u8])],
        progress: CopyProgress<'_>,
    ) -> Result<u64> {
        let missing =
            || Error::Secret { path: self.files.secret_path(), reason: "is missing".into() };
        let hasher = self.files.secret()?.ok_or_else(missing)?;
        let name = self.files.engine().and_then(Path::file_name).map(Path::new);
        let name = name.expect("the engine's file has a name while it is open");
        let engine = self.guarding.guard().store();
        Source { engine, name, hasher: &hasher, others }.copy_to(to.as_ref(), progress)
    }
}

impl<G: Guarding> Drop for Kept<G> {
    fn drop(&mut self) {
        // What a panic has left of the filters is not worth keeping.
        if !self.closed && !std::thread::panicking() {
            let _: Result<(), Error> = self.snapshot();
        }
    }
}

impl<G: Guarding> Deref for Kept<G> {
    type Target = G;

    fn deref(&self) -> &G {
        &self.guarding
    }
}

impl<G: Guarding> fmt::Debug for Kept<G> {
    /// Where and how large, never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("directory", &self.files.directory())
            .field("filter", &self.guarding.guard().spec().to_string())
            .field("stats", &self.guarding.guard().stats())
            .finish()
    }
}
