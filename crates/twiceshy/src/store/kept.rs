//! [`Kept`]: a guard with its directory.

use std::fmt;
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::guard::Store as _;
use crate::{Guard, Sidecar};
use twiceshy_filters::KeyHasher;

use crate::store::backup::{CopyProgress, Source};
use crate::store::engine::Engine;
use crate::store::error::{Error, Result};
use crate::store::files::Files;
use crate::store::options::Origin;

/// A guard or sidecar with its directory. It dereferences to the guard or sidecar. Dropping it
/// writes a snapshot of the filters, so that the directory opens without a rebuild.
pub struct Kept<G: Guarding> {
    guarding: G,
    /// After the engine, so that it is dropped when the engine is closed.
    files: Files,
    origin: Origin,
    /// Held while a snapshot is taken and written, so that an older one cannot replace it.
    saving: Mutex<()>,
    closed: bool,
}

/// A [`Guard`], or a [`Sidecar`] around one.
pub trait Guarding {
    /// The engine behind the guard.
    type Engine: Engine;

    /// The guard.
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

    /// Writes the filters, with their adaptations, to the snapshot file. The snapshot fits the
    /// store until the next write.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Engine`] or [`Error::Guard`]. The store works on; an earlier
    /// snapshot may no longer fit.
    pub fn snapshot(&self) -> Result<()> {
        let _lock = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = self.guarding.guard();
        let bytes = guard.snapshot()?;
        // The store's state must be on disk before its snapshot is.
        guard.store().sync().map_err(Error::engine("sync", self.engine_path()))?;
        // From now on the store has a generation that no copy has.
        self.files.seal_when_closed();
        self.files.set_snapshot(&bytes)
    }

    /// Writes a snapshot and closes the directory. Dropping does the same and ignores errors.
    /// Returns the store's last generation; see [`crate::guard::Header::generation`].
    ///
    /// # Errors
    /// As [`Kept::snapshot`]. After any error, everything that was stored is still there.
    pub fn close(mut self) -> Result<u64> {
        self.closed = true;
        self.snapshot()?;
        self.generation()
    }

    /// The store's present generation; see [`crate::guard::Header::generation`].
    ///
    /// # Errors
    /// [`Error::Engine`] when the engine cannot read.
    pub fn generation(&self) -> Result<u64> {
        let header = self.guarding.guard().store().header();
        let header = header.map_err(Error::engine("read", self.engine_path()))?;
        Ok(header.map_or(0, |header| header.generation))
    }

    fn hasher(&self) -> Result<KeyHasher> {
        let missing =
            || Error::Secret { path: self.files.secret_path(), reason: "is missing".into() };
        self.files.secret()?.ok_or_else(missing)
    }

    fn engine_path(&self) -> &Path {
        self.files.engine().expect("the engine is open as long as its guard is there")
    }

    /// Whether the engine's files were still as the last close left them when the directory was
    /// opened. `false` after a crash, and when the files were restored from a copy or replaced.
    #[must_use]
    pub fn was_intact(&self) -> bool {
        self.origin == Origin::Intact
    }

    /// Copies the store, as of one moment, to a new directory. Reads and writes go on meanwhile.
    /// Returns the number of records of the copy. The copy opens like any other directory, and
    /// its filters are built then. A sidecar's copy is not [built](Sidecar::built): it lacks the
    /// keys that the store gets later.
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
    /// assert!(copy.exists("ada")?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Directory`] when `to` exists, [`Error::Locked`] while another backup to the same
    /// place is running, and errors of the engine and of the disks. After an error there is no
    /// `to`.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<u64> {
        self.backup_with(to, &[], &mut |_, _| ControlFlow::Continue(()))
    }

    /// [`Kept::backup`] that also writes `others`, as names and contents, to the copy's
    /// directory. `progress` receives the number of records copied and about how many there are,
    /// and may stop the backup.
    ///
    /// # Errors
    /// As [`Kept::backup`].
    pub fn backup_with(
        &self,
        to: impl AsRef<Path>,
        others: &[(&str, &[u8])],
        progress: CopyProgress<'_>,
    ) -> Result<u64> {
        let hasher = self.hasher()?;
        let engine = self.guarding.guard().store();
        let source = Source { engine, path: self.engine_path(), hasher: &hasher, others };
        source.copy_to(to.as_ref(), progress)
    }
}

impl<E: Engine> Kept<Sidecar<E>> {
    /// [`Sidecar::built`], for good: the directory is built also when it is opened again.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Engine`]. The sidecar goes on answering "maybe" then.
    pub fn built(&self) -> Result<()> {
        // The keys must be on disk before the declaration is.
        let synced = self.guarding.guard().store().sync();
        synced.map_err(Error::engine("sync", self.engine_path()))?;
        self.files.set_built(&self.hasher()?)?;
        self.guarding.built();
        Ok(())
    }
}

impl<G: Guarding> Drop for Kept<G> {
    fn drop(&mut self) {
        // After a panic the filters are not worth keeping.
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
    /// The directory, the filter and the statistics, and never the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("directory", &self.files.directory())
            .field("filter", &self.guarding.guard().spec().to_string())
            .field("stats", &self.guarding.guard().stats())
            .finish()
    }
}
