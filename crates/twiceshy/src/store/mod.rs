//! Embedded stores behind an adaptive filter: misses are answered from memory, and a false
//! positive does not repeat.
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
//! The store dereferences to a [`crate::Guard`]. Its directory has the engine's file, the secret
//! that digests are made with, and a snapshot of the filters. Only one process at a time can
//! have a directory open.
//!
//! [`open_sidecar`] opens a [`crate::Sidecar`] for a store that stays as it is. It takes about 20
//! bytes per key on a local disk.
//!
//! Writes survive the death of the process, and by default a loss of power; see [`Durability`].
//! A damaged, stale or missing snapshot costs a rebuild from the store; adaptations are
//! relearned.
//!
//! [`Kept::backup`] copies a store that is in use, [`backup()`] a directory that is not open.
//! Files that were copied by other means may be restored in any combination: the store then
//! answers as its records say, or refuses to open.

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
#[cfg(feature = "redb")]
mod report;
mod seal;

use std::path::Path;

use crate::{Guard, Sidecar};

pub use backup::CopyProgress;
#[cfg(feature = "redb")]
pub use check::{check, repair};
pub use engine::{Durability, Engine, EngineOptions, OpenError, Peeked};
pub use error::{Error, Result};
#[cfg(feature = "fjall")]
pub use fjall::Fjall;
pub use kept::{Guarding, Kept};
pub use metered::{Metric, metrics, publish};
pub use options::Options;
#[cfg(feature = "redb")]
pub use redb::Redb;
#[cfg(feature = "redb")]
pub use report::{Damage, Report};

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

/// Opens a guarded store, or makes an empty one, with the default [`Options`].
///
/// # Errors
/// As [`Options::open`].
#[cfg(feature = "redb")]
pub fn open(directory: impl AsRef<Path>) -> Result<GuardedStore> {
    Options::default().open(directory)
}

/// Opens a sidecar, or makes an empty one. A sidecar answers "maybe" to every key until it has been
/// built from the store, by [`Options::build_sidecar`] or [`Kept::built`].
///
/// # Errors
/// As [`Options::open`].
#[cfg(feature = "redb")]
pub fn open_sidecar(directory: impl AsRef<Path>) -> Result<SidecarStore> {
    Options::default().open_sidecar(directory, &mut |_, _| ())
}

/// Copies a store or sidecar that is not open, with `others`, to a new directory; see
/// [`Kept::backup_with`]. It builds no filters.
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
