//! [`Options`]: how a directory is opened.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::guard::{Change, GuardOptions, Opened};
use crate::{Guard, Sidecar, guard};
use twiceshy_filters::{Digest, KeyHasher, Spec};

use crate::store::backup::{CopyProgress, Source};
use crate::store::engine::{Durability, Engine, EngineOptions, OpenError, Peeked};
use crate::store::error::{Error, Result};
use crate::store::files::{self, Files};
use crate::store::kept::Kept;
use crate::store::{GuardedStore, SidecarStore};

/// How a directory is opened: the filter, its capacity and shards, durability and cache.
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
    /// The default guard, writes that survive a loss of power, and 64 MiB of cache.
    fn default() -> Self {
        Options { guard: GuardOptions::default(), engine: EngineOptions::default() }
    }
}

/// What a directory is for.
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
    /// Sets the filter; see [`GuardOptions::spec`].
    #[must_use]
    pub fn spec(mut self, spec: Spec) -> Self {
        self.guard.spec = spec;
        self
    }

    /// Sets the number of keys to make room for at first.
    #[must_use]
    pub fn capacity(mut self, keys: usize) -> Self {
        self.guard.capacity = keys;
        self
    }

    /// Sets the number of shards, as a power of two; see [`GuardOptions::shard_bits`].
    #[must_use]
    pub fn shard_bits(mut self, bits: u32) -> Self {
        self.guard.shard_bits = bits;
        self
    }

    /// Sets what a write survives once it has returned.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.engine.durability = durability;
        self
    }

    /// Sets the size of the engine's cache, in bytes.
    #[must_use]
    pub fn cache(mut self, bytes: usize) -> Self {
        self.engine.cache = bytes;
        self
    }

    /// Opens a guarded store, or makes an empty one.
    ///
    /// # Errors
    /// See [`Error`]. After an error, everything that was stored is still there.
    pub fn open<E: Engine>(&self, directory: impl AsRef<Path>) -> Result<GuardedStore<E>> {
        self.open_with(directory, &mut |_, _| ())
    }

    /// [`Options::open`] with progress: while the filters are built, `progress` receives the
    /// number of keys done and of all keys.
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

    /// Opens a sidecar, or makes an empty one. It answers "maybe" to every key until it is built:
    /// by [`Options::build_sidecar`], or [`Kept::built`] now or earlier.
    ///
    /// # Errors
    /// As [`Options::open`].
    pub fn open_sidecar<E: Engine>(
        &self,
        directory: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SidecarStore<E>> {
        let place = Place::<E>::open(directory.as_ref(), Purpose::Sidecar, &self.engine)?;
        let is_built = place.files.is_built(&place.hasher)?;
        let (guard, files, origin) = place.guard(&self.guard, progress)?;
        let sidecar = Sidecar::new(guard);
        if is_built {
            sidecar.built();
        }
        Ok(Kept::new(sidecar, files, origin))
    }

    /// Makes a guarded store of many records in an empty directory. This is faster than storing
    /// them one by one, since nothing is looked up. If a key occurs several times, its last value
    /// counts. `progress` first receives the number of records written and 0, since their total
    /// is not known, and then the number of keys in the filters and of all keys.
    ///
    /// # Errors
    /// As [`Options::open`]; [`Error::Directory`] when there is a store already. A directory that
    /// an error or a crash left unfinished cannot be opened.
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

    /// Makes a sidecar with all keys of a store in an empty directory, as [`Options::build`] does.
    /// Without keys it is the sidecar of an empty store. Only this and [`Kept::built`] make a
    /// sidecar that answers "absent".
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
        let sidecar = Kept::new(Sidecar::new(guard), files, origin);
        sidecar.built()?;
        Ok(sidecar)
    }
}

/// An open directory, whose engine and secret belong together.
pub(crate) struct Place<E> {
    pub(crate) engine: E,
    pub(crate) hasher: KeyHasher,
    /// Whether no guard has used it yet.
    is_new: bool,
    origin: Origin,
    /// After the engine, so that it is dropped when the engine is closed.
    files: Files,
}

/// What is known about the files that an engine has opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// They are as the last close left them, or there were none.
    Intact,
    /// They may have been replaced, or were not closed; the engine has verified that they are one
    /// state of the store.
    Verified,
    /// They may have been replaced, or were not closed, and the engine cannot verify them.
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

    /// Opens a directory that no guard has used yet.
    fn new(directory: &Path, purpose: Purpose, options: &EngineOptions) -> Result<Self> {
        let is_new = |found: Peeked| match found.header {
            Some(_) => Err(Error::Directory {
                path: directory.into(),
                reason: "it holds a store already; remove it to build another, or name another \
                         directory"
                    .into(),
            }),
            None => Ok(()),
        };
        Self::open_if(directory, purpose, options, is_new)
    }

    /// Opens a directory if `should` accepts what the engine has there.
    fn open_if(
        directory: &Path,
        purpose: Purpose,
        options: &EngineOptions,
        should: impl Fn(Peeked) -> Result<()>,
    ) -> Result<Self> {
        let mut files = Files::new(directory)?;
        let path = engine_path::<E>(directory, purpose);
        let is_there = files::is_there(&path)?;
        // The engine's files are made first, then the secret, then snapshots. Without the first,
        // this is a store of another kind, or the remains of one.
        if !is_there && (files.secret()?.is_some() || files.has_snapshot()) {
            return Err(Error::Directory { path: directory.into(), reason: not_there(&path) });
        }
        let is_intact = !is_there || files.is_intact(&path);
        let mut peeked = None;
        if is_there {
            peeked = E::peek(&path, options, !is_intact).map_err(not_opened(&path))?;
        }
        // Refuse what can be refused before anything is written.
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
        // From now on nobody else can open the directory.
        files.opened(&path, origin == Origin::Intact)?;
        let header = engine.header().map_err(Error::engine("read", &path))?;
        let records = engine.count().map_err(Error::engine("read", &path))?;
        let found = Peeked { records, header };
        should(found)?;
        refuse(&files, &path, found)?;
        let hasher = match files.secret()? {
            Some(hasher) => hasher,
            None => {
                // A loss of power must not leave a secret without the engine's files.
                engine.sync().map_err(Error::engine("sync", &path))?;
                let hasher = KeyHasher::random();
                files.set_secret(&hasher)?;
                hasher
            }
        };
        Ok(Place { engine, hasher, is_new: header.is_none(), origin, files })
    }

    /// Writes the first records. The guard writes the header after them; until then the directory
    /// cannot be opened.
    fn fill(
        &self,
        mut records: impl Iterator<Item = (Digest, Vec<u8>)>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        /// The size of a write: so many records, or a little more than so many bytes.
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
            self.engine.write(&changes).map_err(Error::engine("write to", self.path()))?;
            done += chunk.len() as u64;
            progress(done, 0);
        }
    }

    /// Gives a new store the secret of another, so that their digests are the same.
    #[cfg(feature = "redb")]
    pub(crate) fn use_secret(&mut self, hasher: KeyHasher) -> Result<()> {
        self.files.set_secret(&hasher)?;
        self.hasher = hasher;
        Ok(())
    }

    /// The engine's file or folder.
    pub(crate) fn path(&self) -> &Path {
        self.files.engine().expect("the engine is open")
    }

    pub(crate) fn guard(
        self,
        options: &GuardOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(Guard<E>, Files, Origin)> {
        let path = self.path().to_path_buf();
        let Place { engine, hasher, is_new, origin, files } = self;
        let snapshot = files.snapshot()?;
        // Files of several states may have the header of one of them, and its snapshot.
        if origin == Origin::Unknown
            && snapshot.is_some()
            && let Some(header) = engine.header().map_err(Error::engine("read", &path))?
        {
            let renewed = engine.set_header(header.renewed());
            renewed.map_err(Error::engine("write to", &path))?;
        }
        let guard = Guard::open_with(engine, hasher, options, snapshot.as_deref(), progress)?;
        // Filters that are built from damaged digests would deny keys. Files that may have been
        // replaced have been verified before.
        let built = matches!(guard.opened(), Opened::Rebuilt { .. });
        if built && !is_new && origin == Origin::Intact {
            guard.store().verify().map_err(Error::engine("read", &path))?;
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
    // Opening would make a store where there is none.
    let Some(found) = paths.iter().position(|path| path.exists()) else {
        let [records, digests] = paths.each_ref().map(|path| file_name(path));
        return refused(format!("there is no store here: neither {records} nor {digests}"));
    };
    let place = Place::<E>::open(directory, purposes[found], &Options::default().engine)?;
    if place.is_new {
        return refused("there is nothing to copy: nothing was ever stored here".into());
    }
    let path = &paths[found];
    let source = Source { engine: &place.engine, path, hasher: &place.hasher, others };
    source.copy_to(to, progress)
}

/// The path of an engine's file or folder.
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
            Err(guard::Error::WrongSecret) => {
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

/// Why a directory without the engine's files is refused.
fn not_there(path: &Path) -> String {
    let name = file_name(path);
    if path.exists() {
        format!(
            "it was used before, and its {name} is empty: restore the file from a backup, or \
             remove the directory to begin anew"
        )
    } else {
        format!(
            "it was used before, and has no {name}: open it as what it is (engine, store or \
             sidecar), restore the file from a backup, or use another directory"
        )
    }
}

/// The error of an engine that does not open its files.
pub(crate) fn not_opened(path: &Path) -> impl FnOnce(OpenError) -> Error {
    let path = path.into();
    |error| match error {
        OpenError::Locked => Error::Locked { path },
        OpenError::Other(source) => Error::Engine { doing: "open", path, source },
    }
}
