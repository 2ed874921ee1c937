//! [`Options`]: opening a directory.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::guard::{Change, GuardOptions, Opened};
use crate::{Guard, Sidecar};
use twiceshy_filters::{Digest, KeyHasher, Spec};

use crate::store::backup::{CopyProgress, Source};
use crate::store::engine::{Durability, Engine, EngineOptions, OpenError, Peeked};
use crate::store::error::{Error, Result};
use crate::store::files::{self, Files};
use crate::store::kept::Kept;
use crate::store::{GuardedStore, SidecarStore};

/// How a directory is opened: the filter, its room, what writes survive.
///
/// ```no_run
/// use twiceshy::store::{Durability, Options, Redb};
/// let store = Options::default()
///     .capacity(10_000_000)
///     .durability(Durability::Process)
///     .open::<Redb>("cache")?;
/// # Ok::<(), twiceshy::store::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    pub(crate) guard: GuardOptions,
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
pub(crate) enum Purpose {
    Store,
    Sidecar,
}

impl Purpose {
    /// The first part of the engine's file name.
    pub(crate) fn stem(self) -> &'static str {
        match self {
            Purpose::Store => "records",
            Purpose::Sidecar => "digests",
        }
    }

    /// The file of engine `redb`.
    #[cfg(feature = "redb")]
    pub(crate) fn file_name(self) -> &'static str {
        match self {
            Purpose::Store => "records.redb",
            Purpose::Sidecar => "digests.redb",
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
        let (guard, files, origin) = place.guard(&self.guard, progress)?;
        Ok(Kept::new(guard, files, origin))
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
        let (guard, files, origin) = place.guard(&self.guard, progress)?;
        Ok(Kept::new(Sidecar::new(guard), files, origin))
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
        let place = Place::<E>::new(directory.as_ref(), Purpose::Store, &self.engine)?;
        let records = records.into_iter().map(|(key, value)| {
            (place.hasher.digest(&key), crate::guard::record(key.as_ref(), value.as_ref()))
        });
        place.fill(records, progress)?;
        let (guard, files, origin) = place.guard(&self.guard, progress)?;
        Ok(Kept::new(guard, files, origin))
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
        let place = Place::<E>::new(directory.as_ref(), Purpose::Sidecar, &self.engine)?;
        let digests = keys.into_iter().map(|key| (place.hasher.digest(key), Vec::new()));
        place.fill(digests, progress)?;
        let (guard, files, origin) = place.guard(&self.guard, progress)?;
        Ok(Kept::new(Sidecar::new(guard), files, origin))
    }
}

/// A directory whose engine and secret belong together.
pub(crate) struct Place<E> {
    pub(crate) engine: E,
    pub(crate) hasher: KeyHasher,
    /// Whether nobody has used it yet.
    is_new: bool,
    origin: Origin,
    /// Dropped when the engine is closed.
    files: Files,
}

/// What is known of the files that an engine has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Nobody has touched them since they were last closed, or there were none.
    Intact,
    /// Somebody may have, or they were not closed; they are one state of the store.
    Verified,
    /// Somebody may have, or they were not closed, and the engine cannot tell more.
    Unknown,
}

impl<E: Engine> Place<E> {
    pub(crate) fn open(
        directory: &Path,
        purpose: Purpose,
        options: &EngineOptions,
    ) -> Result<Self> {
        Self::open_if(directory, purpose, options, |_| Ok(()))
    }

    /// A directory that nobody has used yet.
    fn new(directory: &Path, purpose: Purpose, options: &EngineOptions) -> Result<Self> {
        let is_new = |found: Peeked| match found.header {
            Some(_) => Err(Error::Directory {
                path: directory.into(),
                reason: "is in use already; remove it to build another".into(),
            }),
            None => Ok(()),
        };
        Self::open_if(directory, purpose, options, is_new)
    }

    /// Opens a directory if the engine has there what it should.
    fn open_if(
        directory: &Path,
        purpose: Purpose,
        options: &EngineOptions,
        should: impl Fn(Peeked) -> Result<()>,
    ) -> Result<Self> {
        let mut files = Files::new(directory)?;
        let path = engine_path::<E>(directory, purpose);
        let is_there = files::is_there(&path)?;
        // The engine's files come first, then the secret, then snapshots: without the
        // first it is a store of another kind, or what is left of this one.
        if !is_there && (files.secret()?.is_some() || files.has_snapshot()) {
            return Err(Error::Directory { path: directory.into(), reason: not_there(&path) });
        }
        let is_intact = !is_there || files.is_intact(&path);
        let mut peeked = None;
        if is_there {
            peeked = E::peek(&path, options, !is_intact).map_err(not_opened(&path))?;
        }
        // What can be refused is refused before anything is written.
        if let Some(found) = peeked {
            should(found)?;
            refuse(&files, &path, found)?;
        }
        files.break_seal()?;
        let (engine, origin) = if is_intact || peeked.is_some() {
            let origin = if is_intact { Origin::Intact } else { Origin::Verified };
            (E::open(&path, options).map_err(not_opened(&path))?, origin)
        } else {
            let (engine, verified) = E::open_foreign(&path, options).map_err(not_opened(&path))?;
            (engine, if verified { Origin::Verified } else { Origin::Unknown })
        };
        // Nobody else is here from now on.
        files.opened(&path, origin == Origin::Intact)?;
        let header = engine.header().map_err(twiceshy_filters::Error::Remote)?;
        let records = engine.count().map_err(twiceshy_filters::Error::Remote)?;
        let found = Peeked { records, header };
        should(found)?;
        refuse(&files, &path, found)?;
        let hasher = match files.secret()? {
            Some(hasher) => hasher,
            None => {
                // A loss of power must not leave a secret without the engine's files.
                engine.sync().map_err(twiceshy_filters::Error::Remote)?;
                let hasher = KeyHasher::random();
                files.set_secret(&hasher)?;
                hasher
            }
        };
        Ok(Place { engine, hasher, is_new: header.is_none(), origin, files })
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
            self.engine.write(&changes).map_err(twiceshy_filters::Error::Remote)?;
            done += chunk.len() as u64;
            progress(done, 0);
        }
    }

    /// Takes the secret of another store for a new one, whose digests are the same then.
    #[cfg(feature = "redb")]
    pub(crate) fn use_secret(&mut self, hasher: KeyHasher) -> Result<()> {
        self.files.set_secret(&hasher)?;
        self.hasher = hasher;
        Ok(())
    }

    pub(crate) fn guard(
        self,
        options: &GuardOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Guard<E>, Files, Origin)> {
        let Place { engine, hasher, is_new, origin, files } = self;
        let snapshot = files.snapshot()?;
        // Parts of several states may have the header of one of them, and its snapshot.
        if origin == Origin::Unknown
            && snapshot.is_some()
            && let Some(header) = engine.header().map_err(twiceshy_filters::Error::Remote)?
        {
            engine.set_header(header.renewed()).map_err(twiceshy_filters::Error::Remote)?;
        }
        let guard = Guard::open_with(engine, hasher, options, snapshot.as_deref(), progress)?;
        // Filters of damaged digests would deny keys. Other files have been verified.
        let built = matches!(guard.opened(), Opened::Rebuilt { .. });
        if built && !is_new && origin == Origin::Intact {
            guard.store().verify().map_err(twiceshy_filters::Error::Remote)?;
        }
        Ok((guard, files, origin))
    }
}

/// [`crate::store::backup()`].
pub(crate) fn backup<E: Engine>(
    directory: &Path,
    to: &Path,
    others: &[(&str, &[u8])],
    progress: CopyProgress<'_>,
) -> Result<u64> {
    let refused = |reason: String| Err(Error::Directory { path: directory.into(), reason });
    let purposes = [Purpose::Store, Purpose::Sidecar];
    let paths = purposes.map(|purpose| engine_path::<E>(directory, purpose));
    // Nothing is made where there is nothing.
    let Some(found) = paths.iter().position(|path| path.exists()) else {
        let [records, digests] = paths.each_ref().map(|path| file_name(path));
        return refused(format!("there is no store here: neither {records} nor {digests}"));
    };
    let place = Place::<E>::open(directory, purposes[found], &Options::default().engine)?;
    if place.is_new {
        return refused("there is nothing to copy: nothing was ever stored here".into());
    }
    let name = Path::new(paths[found].file_name().unwrap_or_default());
    let source = Source { engine: &place.engine, name, hasher: &place.hasher, others };
    source.copy_to(to, progress)
}

/// Where an engine's file or folder is.
pub(crate) fn engine_path<E: Engine>(directory: &Path, purpose: Purpose) -> PathBuf {
    directory.join(purpose.stem()).with_extension(E::EXTENSION)
}

fn file_name(path: &Path) -> impl fmt::Display {
    path.file_name().unwrap_or_default().display()
}

/// Refuses a directory whose files do not belong together.
fn refuse(files: &Files, path: &Path, found: Peeked) -> Result<()> {
    let refused = |reason: String| Err(Error::Directory { path: files.directory().into(), reason });
    let bad_secret =
        |reason: &str| Err(Error::Secret { path: files.secret_path(), reason: reason.into() });
    match (found.header, files.secret()?) {
        (Some(_), None) => bad_secret("is missing"),
        (Some(header), Some(hasher)) => match header.check(&hasher) {
            // It says so of nothing else.
            Err(twiceshy_filters::Error::Format { .. }) => {
                bad_secret("is not the one that the store's digests were made with")
            }
            checked => Ok(checked?),
        },
        (None, _) if found.records > 0 => refused(
            "an earlier build was interrupted; remove the directory and build it again".into(),
        ),
        (None, _) if files.has_snapshot() => refused(format!(
            "its {} is that of a new store, but there is a filter.snapshot of one that was used: \
             restore the file from a backup, or remove the directory to begin anew",
            file_name(path)
        )),
        (None, _) => Ok(()),
    }
}

/// Why a directory in use is refused when the engine's files are not there.
fn not_there(path: &Path) -> String {
    let name = file_name(path);
    if path.exists() {
        format!(
            "it is in use, and its {name} is empty: restore the file from a backup, or remove the \
             directory to begin anew"
        )
    } else {
        format!(
            "it is in use, and has no {name}: open it as what it is (engine, store or sidecar), \
             restore the file from a backup, or use another directory"
        )
    }
}

/// What to say when an engine does not open its files.
pub(crate) fn not_opened(path: &Path) -> impl FnOnce(OpenError) -> Error {
    let path = path.into();
    |error| match error {
        OpenError::Locked => Error::Locked { path },
        OpenError::Other(source) => Error::Engine { path, source },
    }
}
