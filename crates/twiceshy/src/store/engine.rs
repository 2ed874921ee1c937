//! What an embedded engine has to do to stand behind a guard.

use std::ops::ControlFlow;
use std::path::Path;

use crate::guard::{Header, Store};
use twiceshy_filters::{Digest, RemoteError};

/// A store on a local disk. Records are keyed by their digests as 128-bit numbers,
/// so that their order is the order of digests.
pub trait Engine: Store + Sized {
    /// What its file or folder is called after the dot.
    const EXTENSION: &'static str;

    /// Opens what is at a path, or makes it. Nobody else has it open then.
    ///
    /// # Errors
    /// [`OpenError::Locked`] when somebody has; whatever else is in the way.
    fn open(path: &Path, options: &EngineOptions) -> Result<Self, OpenError>;

    /// [`Engine::open`] for files that somebody may have put in place since they were
    /// last closed (a copy that was made while they were written, say), and that
    /// [`Engine::peek`] could not verify. Also tells whether the engine has verified that
    /// they are together one state of the store, and not parts of several. Engines that
    /// cannot tell say `false`.
    ///
    /// # Errors
    /// As [`Engine::open`]; whatever shows that the parts do not belong together.
    fn open_foreign(path: &Path, options: &EngineOptions) -> Result<(Self, bool), OpenError> {
        Ok((Self::open(path, options)?, false))
    }

    /// What there is at a path, without writing to it, so that a directory which is
    /// refused stays as it was. With `verify` the files may be foreign, and `Some` says that
    /// they are one state of the store. `None` if the engine cannot tell without writing.
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

    /// Visits every record as of one moment, in order, while writes go on, until the
    /// visitor has had enough. Returns the header of that moment. For backups.
    ///
    /// # Errors
    /// Whatever keeps the engine from reading; that it has no such view.
    fn visit_all(
        &self,
        _visitor: &mut dyn FnMut(Digest, &[u8]) -> ControlFlow<()>,
    ) -> Result<Option<Header>, RemoteError> {
        Err("this engine makes no backups".into())
    }

    /// Verifies everything that is stored, as far as the engine can without writing: for
    /// filters that are built from it, which would deny the keys of damaged digests.
    ///
    /// # Errors
    /// What is damaged, and what to do.
    fn verify(&self) -> Result<(), RemoteError> {
        Ok(())
    }

    /// Waits until every write that has returned survives the loss of power.
    ///
    /// # Errors
    /// Whatever keeps the disk from it.
    fn sync(&self) -> Result<(), RemoteError>;
}

/// What an engine has at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peeked {
    /// How many records.
    pub records: u64,
    /// What [`Store::set_header`] stored last.
    pub header: Option<Header>,
}

/// How an engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// What a write that has returned survives.
    pub durability: Durability,
    /// Memory for parts of the file, in bytes.
    pub cache: usize,
}

/// What a write that has returned survives. Both survive the death of the
/// process at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The loss of power too: every write waits for the disk, which takes
    /// milliseconds. Write many records at once.
    Power,
    /// The death of the process and no more; writes wait for nothing.
    /// [`crate::Guard`]s are right again after a loss of power as well, but
    /// the last writes may be gone (`fjall`), or the store as a whole (`redb`,
    /// which then refuses to open): for what can be made again.
    Process,
}

/// Why an engine was not opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process, or this one, has it open.
    Locked,
    /// The engine's own reason.
    Other(RemoteError),
}

impl<E: Into<RemoteError>> From<E> for OpenError {
    fn from(error: E) -> Self {
        OpenError::Other(error.into())
    }
}
