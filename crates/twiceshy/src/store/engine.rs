//! [`Engine`]: an embedded database behind a guard.

use std::ops::ControlFlow;
use std::path::Path;

use crate::guard::{Header, Store};
use twiceshy_filters::{Digest, RemoteError};

/// A store on a local disk. Records are keyed by their digests as 128-bit numbers, so that they
/// are in digest order.
pub trait Engine: Store + Sized {
    /// The extension of its file or folder.
    const EXTENSION: &'static str;

    /// Opens the files at a path, or makes them, and locks them.
    ///
    /// # Errors
    /// [`OpenError::Locked`] when they are open already; the engine's other reasons.
    fn open(path: &Path, options: &EngineOptions) -> Result<Self, OpenError>;

    /// [`Engine::open`] for files that may have been replaced since they were last closed (by a
    /// copy that was made while they were written, say), and that [`Engine::peek`] could not
    /// verify. Also returns whether the engine has verified that the files are one state of the
    /// store, and not parts of several. Engines that cannot verify this return `false`.
    ///
    /// # Errors
    /// As [`Engine::open`]; that the files do not belong together.
    fn open_foreign(path: &Path, options: &EngineOptions) -> Result<(Self, bool), OpenError> {
        Ok((Self::open(path, options)?, false))
    }

    /// Looks at the files at a path without writing, so that a directory that is refused stays
    /// as it was. With `verify`, the files may have been replaced, and `Some` means that they are
    /// one state of the store. `None` means that the engine cannot tell without writing.
    ///
    /// # Errors
    /// As [`Engine::open_foreign`].
    fn peek(
        _path: &Path,
        _options: &EngineOptions,
        _verify: bool,
    ) -> Result<Option<Peeked>, OpenError> {
        Ok(None)
    }

    /// Visits every record as of one moment, in order, until the visitor stops. Writes go on
    /// meanwhile. Returns the header as of that moment. For backups.
    ///
    /// # Errors
    /// The engine's reason why it cannot read; that it has no such view.
    fn visit_all(
        &self,
        _visitor: &mut dyn FnMut(Digest, &[u8]) -> ControlFlow<()>,
    ) -> Result<Option<Header>, RemoteError> {
        Err("this engine makes no backups".into())
    }

    /// Verifies everything that is stored, as far as the engine can without writing. Filters that
    /// were built from damaged digests would deny keys.
    ///
    /// # Errors
    /// What is damaged, and what to do.
    fn verify(&self) -> Result<(), RemoteError> {
        Ok(())
    }

    /// Waits until every write that has returned survives a loss of power.
    ///
    /// # Errors
    /// The disk's reason.
    fn sync(&self) -> Result<(), RemoteError>;
}

/// What [`Engine::peek`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// The number of records.
    pub records: u64,
    /// The header that [`Store::set_header`] stored last.
    pub header: Option<Header>,
}

/// How an engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineOptions {
    /// What a write survives once it has returned.
    pub durability: Durability,
    /// The size of the engine's cache, in bytes.
    pub cache: usize,
}

impl Default for EngineOptions {
    /// Writes that survive a loss of power, and 64 MiB of cache.
    fn default() -> Self {
        EngineOptions { durability: Durability::Power, cache: 64 << 20 }
    }
}

impl EngineOptions {
    /// Sets [`EngineOptions::durability`].
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// Sets [`EngineOptions::cache`].
    #[must_use]
    pub fn cache(mut self, bytes: usize) -> Self {
        self.cache = bytes;
        self
    }
}

/// What a write survives once it has returned. Every write survives the death of the process at
/// any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A loss of power too. Every write waits for the disk, which takes milliseconds: write many
    /// records at once.
    Power,
    /// The death of the process only. Writes do not wait for the disk. After a loss of power, the
    /// last writes may be lost (`fjall`), or the whole store (`redb`, which then refuses to
    /// open); answers are still correct. For data that can be made again.
    Process,
}

/// Why an engine could not open its files.
#[derive(Debug)]
pub enum OpenError {
    /// The files are open already, in this process or another.
    Locked,
    /// The engine's own reason.
    Other(RemoteError),
}

impl<E: Into<RemoteError>> From<E> for OpenError {
    fn from(error: E) -> Self {
        OpenError::Other(error.into())
    }
}
