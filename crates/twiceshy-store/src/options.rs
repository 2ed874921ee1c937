//! [`Options`]: opening a directory.

use std::path::Path;

use twiceshy::{Change, Digest, Guard, GuardOptions, KeyHasher, Opened, Sidecar, Spec};

use crate::engine::{Durability, Engine, EngineOptions, OpenError};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::kept::Kept;
use crate::{GuardedStore, SidecarStore};

/// How a directory is opened: the filter, its room, what writes survive.
///
/// ```no_run
/// use twiceshy_store::{Durability, Options, Redb};
/// let store = Options::default()
///     .capacity(10_000_000)
///     .durability(Durability::Process)
///     .open::<Redb>("cache")?;
/// # Ok::<(), twiceshy_store::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    guard: GuardOptions,
    engine: EngineOptions,
}

impl Default for Options {
    /// The default guard; writes survive a loss of power; 64 MiB of cache.
    fn default() -> Self {
        Options {
            guard: GuardOptions::default(),
            engine: EngineOptions { durability: Durability::Power, cache: 64 << 20 },
        }
    }
}

/// What the records of a directory are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Store,
    Sidecar,
}

impl Purpose {
    /// The first part of the engine's file name.
    fn stem(self) -> &'static str {
        match self {
            Purpose::Store => "records",
            Purpose::Sidecar => "digests",
        }
    }
}

impl Options {
    /// The filter; see [`GuardOptions::spec`].
    #[must_use]
    pub fn spec(mut self, spec: Spec) -> Self {
        self.guard.spec = spec;
        self
    }

    /// Keys to make room for at first.
    #[must_use]
    pub fn capacity(mut self, keys: usize) -> Self {
        self.guard.capacity = keys;
        self
    }

    /// How many slices the filter is cut into, as a power of two.
    #[must_use]
    pub fn shard_bits(mut self, bits: u32) -> Self {
        self.guard.shard_bits = bits;
        self
    }

    /// What a write that has returned survives.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.engine.durability = durability;
        self
    }

    /// Memory for the engine's cache, in bytes.
    #[must_use]
    pub fn cache(mut self, bytes: usize) -> Self {
        self.engine.cache = bytes;
        self
    }

    /// Opens a guarded store, or makes an empty one.
    ///
    /// # Errors
    /// See [`Error`]. Nothing has been answered then, and nothing is lost.
    pub fn open<E: Engine>(&self, directory: impl AsRef<Path>) -> Result<GuardedStore<E>> {
        self.open_with(directory, &mut |_, _| ())
    }

    /// [`Options::open`]; `progress` is told how many keys of how many are done
    /// when the filters have to be built again.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_with<E: Engine>(
        &self,
        directory: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<GuardedStore<E>> {
        let place = Place::<E>::open(directory.as_ref(), Purpose::Store, &self.engine)?;
        let (guard, files) = place.guard(&self.guard, progress)?;
        Ok(Kept::new(guard, files))
    }

    /// Opens the sidecar of a store of somebody else's, or makes an empty one.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_sidecar<E: Engine>(
        &self,
        directory: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SidecarStore<E>> {
        let place = Place::<E>::open(directory.as_ref(), Purpose::Sidecar, &self.engine)?;
        let (guard, files) = place.guard(&self.guard, progress)?;
        Ok(Kept::new(Sidecar::new(guard), files))
    }

    /// Makes a guarded store of many records at once, in an empty directory: faster
    /// than storing them one by one, since nothing is looked for. Of two records
    /// with one key the last counts. `progress` is told how many are written, of 0
    /// since nobody knows how many there are; then how many of how many are in the
    /// filters.
    ///
    /// # Errors
    /// As [`Options::open`]; [`Error::Directory`] when there is a store already.
    /// What an error or a crash leaves is refused by whoever opens it.
    pub fn build<E: Engine, K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &self,
        directory: impl AsRef<Path>,
        records: impl IntoIterator<Item = (K, V)>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<GuardedStore<E>> {
        let place = Place::<E>::open(directory.as_ref(), Purpose::Store, &self.engine)?;
        let records = records.into_iter().map(|(key, value)| {
            (place.hasher.digest(&key), twiceshy::record(key.as_ref(), value.as_ref()))
        });
        place.fill(records, progress)?;
        let (guard, files) = place.guard(&self.guard, progress)?;
        Ok(Kept::new(guard, files))
    }

    /// Makes the sidecar of a store that has keys already, in an empty directory;
    /// else as [`Options::build`].
    ///
    /// # Errors
    /// As [`Options::build`].
    pub fn build_sidecar<E: Engine, K: AsRef<[u8]>>(
        &self,
        directory: impl AsRef<Path>,
        keys: impl IntoIterator<Item = K>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SidecarStore<E>> {
        let place = Place::<E>::open(directory.as_ref(), Purpose::Sidecar, &self.engine)?;
        let digests = keys.into_iter().map(|key| (place.hasher.digest(key), Vec::new()));
        place.fill(digests, progress)?;
        let (guard, files) = place.guard(&self.guard, progress)?;
        Ok(Kept::new(Sidecar::new(guard), files))
    }
}

/// A directory whose engine and secret belong together.
struct Place<E> {
    files: Files,
    engine: E,
    hasher: KeyHasher,
    /// Whether nobody has used it yet.
    is_new: bool,
}

impl<E: Engine> Place<E> {
    fn open(directory: &Path, purpose: Purpose, options: &EngineOptions) -> Result<Self> {
        let files = Files::new(directory)?;
        let path = directory.join(purpose.stem()).with_extension(E::EXTENSION);
        // The engine's files come first, and the secret after them: a secret alone
        // is that of a store of another kind.
        if files.secret()?.is_some() && !path.exists() {
            return Err(Error::Directory {
                path: directory.into(),
                reason: format!(
                    "it is in use, and has no {}: open it as what it is (engine, store or \
                     sidecar), or use another directory",
                    path.file_name().unwrap_or_default().display()
                ),
            });
        }
        let engine = E::open(&path, options).map_err(|error| match error {
            OpenError::Locked => Error::Locked { path },
            OpenError::Other(source) => Error::Engine { path, source },
        })?;
        // Nobody else is here from now on.
        let header = engine.header().map_err(twiceshy::Error::Remote)?;
        let hasher = match files.secret()? {
            Some(hasher) => hasher,
            None if header.is_some() => {
                let path = files.secret_path();
                return Err(Error::Secret { path, reason: "is missing".into() });
            }
            None => {
                let hasher = KeyHasher::random();
                files.set_secret(&hasher)?;
                hasher
            }
        };
        let place = Place { files, engine, hasher, is_new: header.is_none() };
        if place.is_new && place.engine.count().map_err(twiceshy::Error::Remote)? > 0 {
            return Err(place.refused(
                "somebody began to build a store here and did not finish; remove the directory \
                 and build it again",
            ));
        }
        Ok(place)
    }

    /// Writes the first records. The guard writes the header after them: until
    /// then nobody else opens the directory.
    fn fill(
        &self,
        mut records: impl Iterator<Item = (Digest, Vec<u8>)>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        /// What is written at once: so many records, or a little more than so
        /// many bytes.
        const RECORDS: usize = 1 << 19;
        const BYTES: usize = 64 << 20;
        if !self.is_new {
            return Err(self.refused("is in use already; remove it to build another"));
        }
        let mut done = 0;
        loop {
            let (mut chunk, mut bytes) = (Vec::new(), 0);
            while chunk.len() < RECORDS
                && bytes < BYTES
                && let Some((digest, record)) = records.next()
            {
                bytes += record.len();
                chunk.push((digest, record));
            }
            if chunk.is_empty() {
                return Ok(());
            }
            let changes: Vec<Change<'_>> =
                chunk.iter().map(|(digest, record)| (*digest, Some(&record[..]))).collect();
            self.engine.write(&changes).map_err(twiceshy::Error::Remote)?;
            done += chunk.len() as u64;
            progress(done, 0);
        }
    }

    fn refused(&self, reason: &str) -> Error {
        Error::Directory { path: self.files.directory().into(), reason: reason.into() }
    }

    fn guard(
        self,
        options: &GuardOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Guard<E>, Files)> {
        let Place { files, engine, hasher, .. } = self;
        let snapshot = files.snapshot()?;
        let guard = Guard::open_with(engine, hasher, options, snapshot.as_deref(), progress)
            .map_err(|error| match error {
                // It says so of nothing else.
                twiceshy::Error::Format { .. } => Error::Secret {
                    path: files.secret_path(),
                    reason: "is not the one that the store's digests were made with".into(),
                },
                error => Error::Guard(error),
            })?;
        // A store that was put back from a copy could reach the generation of a
        // snapshot that is not its own.
        if !matches!(guard.opened(), Opened::Snapshot) {
            files.remove_snapshot()?;
        }
        Ok((guard, files))
    }
}
