//! Embedded stores behind an adaptive filter: a miss is answered from memory, and
//! one that got through does not get through again.
//!
//! ```
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("users");
//! let store = twiceshy::open(path)?;
//! store.put("ada", "Ada Lovelace")?;
//! assert_eq!(store.get("ada")?.as_deref(), Some(&b"Ada Lovelace"[..]));
//! # assert_eq!(store.get("bob")?, None);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The store is a [`crate::Guard`] and is used as one. Its directory has the
//! engine's file, the secret that digests are made with, and a snapshot of the
//! filters; they are opened, made, and left behind here. A directory is open once.
//!
//! [`open_sidecar`] does the same for a store that stays as it is: about 20 bytes
//! a key on a local disk, and a [`crate::Sidecar`] to ask first.
//!
//! What is stored survives the process, and by default the loss of power; see
//! [`Durability`]. A snapshot that is damaged, old or absent costs a rebuild from
//! the store and nothing else.
//!
//! [`Kept::backup`] copies a store that is in use, [`backup()`] a directory that nobody has
//! open. Files that were copied otherwise may be put back in any combination: what is
//! opened then answers as its records say, or is refused.

#![deny(missing_docs)]

mod backup;
#[cfg(feature = "redb")]
mod check;
mod engine;
mod error;
mod files;
#[cfg(feature = "fjall")]
mod fjall;
mod kept;
mod metered;
mod options;
#[cfg(feature = "redb")]
mod redb;
mod seal;

use std::path::Path;

use crate::{Guard, Sidecar};

pub use backup::CopyProgress;
#[cfg(feature = "redb")]
pub use check::{Damage, Report, check, repair};
pub use engine::{Durability, Engine, EngineOptions, OpenError, Peeked};
pub use error::{Error, Result};
#[cfg(feature = "fjall")]
pub use fjall::Fjall;
pub use kept::{Guarding, Kept};
pub use metered::{Metric, metrics, publish};
pub use options::Options;
#[cfg(feature = "redb")]
pub use redb::Redb;

/// A guarded store in a directory.
#[cfg(feature = "redb")]
pub type GuardedStore<E = Redb> = Kept<Guard<E>>;

/// A guarded store in a directory.
#[cfg(not(feature = "redb"))]
pub type GuardedStore<E> = Kept<Guard<E>>;

/// A sidecar in a directory.
#[cfg(feature = "redb")]
pub type SidecarStore<E = Redb> = Kept<Sidecar<E>>;

/// A sidecar in a directory.
#[cfg(not(feature = "redb"))]
pub type SidecarStore<E> = Kept<Sidecar<E>>;

/// Opens a guarded store, or makes an empty one; [`Options`] has choices.
///
/// # Errors
/// As [`Options::open`].
#[cfg(feature = "redb")]
pub fn open(directory: impl AsRef<Path>) -> Result<GuardedStore> {
    Options::default().open(directory)
}

/// Opens a sidecar, or makes an empty one; [`Options::build_sidecar`] makes one
/// for a store that has keys already.
///
/// # Errors
/// As [`Options::open`].
#[cfg(feature = "redb")]
pub fn open_sidecar(directory: impl AsRef<Path>) -> Result<SidecarStore> {
    Options::default().open_sidecar(directory, &mut |_, _| ())
}

/// Copies a store or sidecar that nobody has open, with `others`, to a new directory; see
/// [`Kept::backup_with`]. Its filters are neither needed nor built.
///
/// # Errors
/// As [`Options::open`] and [`Kept::backup`]; [`Error::Directory`] when there is no store.
pub fn backup<E: Engine>(
    directory: impl AsRef<Path>,
    to: impl AsRef<Path>,
    others: &[(&str, &[u8])],
    progress: CopyProgress<'_>,
) -> Result<u64> {
    options::backup::<E>(directory.as_ref(), to.as_ref(), others, progress)
}
