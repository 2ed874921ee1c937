//! [`Kept`]: a guard, and the directory that keeps it.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use twiceshy::{Guard, Sidecar};

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::files::Files;

/// A guard or sidecar with its files. It is used as what it keeps; when it goes,
/// it leaves a snapshot, and the next to open it has the filters at once.
pub struct Kept<G: Guarding> {
    guarding: G,
    files: Files,
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
    pub(crate) fn new(guarding: G, files: Files) -> Self {
        Kept { guarding, files, saving: Mutex::new(()), closed: false }
    }

    /// Writes the filters, with all that they have learned, to the snapshot file.
    /// It is of use until the next change.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::Guard`]; then there is the snapshot that was
    /// there before, or none, and everything else goes on.
    pub fn snapshot(&self) -> Result<()> {
        let _lock = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let guard = self.guarding.guard();
        let bytes = guard.snapshot();
        // A store that a loss of power takes back behind this snapshot must not
        // reach its generation a second time.
        guard.store().sync().map_err(twiceshy::Error::Remote)?;
        self.files.set_snapshot(&bytes)
    }

    /// Leaves a snapshot and closes. Dropping does the same, and tells of no
    /// error.
    ///
    /// # Errors
    /// As [`Kept::snapshot`]. Whatever the error, nothing that was stored is lost.
    pub fn close(mut self) -> Result<()> {
        self.closed = true;
        self.snapshot()
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
