//! A filter's file and the secret beside it.
//!
//! ```text
//! keys.twiceshy           the filter and its keys' digests (docs/format.md): replaced whole
//! keys.twiceshy.secret    what turns keys into digests: 0600, written once and kept
//! ```
//!
//! A filter without the digests of its keys has its secret in the one file (`loaded.rs`).
//!
//! Because the secret stays when a filter is built again, the file is all that is
//! ever replaced, and one rename does it: a reader sees the old filter or the new
//! one, and the secret fits both. And because the secret stays, writers lock it before they
//! replace the file; readers need no lock.

use std::error::Error;
use std::ffi::OsString;
#[cfg(unix)]
use std::fs::TryLockError;
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use twiceshy::filter::kind_of;
use twiceshy::{Filter, Frozen};
use twiceshy_filters::{KeyFilter, KeyHasher};

use crate::loaded::{Contents, Loaded};

type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// A filter's file.
pub struct Saved {
    /// Where it is: behind symbolic links, so that these stay.
    path: PathBuf,
    /// As the user calls it.
    name: String,
}

impl Saved {
    /// The file with this name, which may not be there yet.
    pub fn new(path: &Path) -> Self {
        let linked = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_symlink());
        let real = fs::canonicalize(path).ok().filter(|_| linked);
        let real = real.unwrap_or_else(|| path.to_path_buf());
        Saved { path: real, name: path.display().to_string() }
    }

    /// As the user calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its secret is.
    pub fn secret_path(&self) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(".secret");
        name.into()
    }

    /// Its bytes, and which version of the file they are.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(&self) -> Result<(Vec<u8>, Version)> {
        let read = || {
            let mut file = File::open(&self.path)?;
            let metadata = file.metadata()?;
            let mut bytes = Vec::new();
            io::Read::read_to_end(&mut file, &mut bytes)?;
            Ok((bytes, Version::of(&metadata)?))
        };
        read().map_err(|error: io::Error| {
            let advice = match error.kind() {
                io::ErrorKind::NotFound => {
                    format!("; 'twiceshy build KEYS -o {}' makes it", self.name)
                }
                _ => String::new(),
            };
            format!("cannot read {}: {error}{advice}", self.name).into()
        })
    }

    /// The filter in it.
    ///
    /// # Errors
    /// A file that cannot be read, is damaged, or has lost its secret.
    pub fn load(&self) -> Result<(Loaded, Version)> {
        let (bytes, version) = self.read()?;
        let loaded = match Contents::of(&bytes) {
            Contents::Keyed => return Ok((self.load_keyed(&bytes)?, version)),
            Contents::KeyedWithSecret => KeyFilter::load_with_secret(&bytes).map(|keyed| {
                let (hasher, filter) = keyed.into_parts();
                Loaded::KeyedWithSecret(hasher, Box::new(filter))
            }),
            Contents::Filter => Filter::from_bytes(&bytes).map(Box::new).map(Loaded::Filter),
            Contents::Frozen => Frozen::from_bytes(&bytes).map(Box::new).map(Loaded::Frozen),
        };
        Ok((loaded.map_err(|error| format!("{}: {error}", self.name))?, version))
    }

    /// The filter whose secret is beside it.
    fn load_keyed(&self, bytes: &[u8]) -> Result<Loaded> {
        // What is not a filter at all has no secret to look for.
        kind_of(bytes).map_err(|error| format!("{}: {error}", self.name))?;
        let secret = self.secret()?.ok_or_else(|| {
            let path = self.secret_path();
            format!(
                "{} is missing, without which no key can be looked up; copy it from where {} was \
                 built, or build it again",
                path.display(),
                self.name
            )
        })?;
        let filter = KeyFilter::load(bytes, secret);
        let (hasher, filter) =
            filter.map_err(|error| format!("{}: {error}", self.name))?.into_parts();
        Ok(Loaded::Keyed(hasher, Box::new(filter)))
    }

    /// Its secret, `None` if there is none.
    ///
    /// # Errors
    /// One that cannot be read, or is none.
    pub fn secret(&self) -> Result<Option<KeyHasher>> {
        let path = self.secret_path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(format!("cannot read {}: {error}", path.display()).into()),
        };
        warn_if_open_to_others(&path);
        let hasher = KeyHasher::from_bytes(&bytes).map_err(|_| {
            format!(
                "{} is damaged: {} bytes that are no secret; restore it, or remove it and build {} \
                 again",
                path.display(),
                bytes.len(),
                self.name
            )
        })?;
        Ok(Some(hasher))
    }

    /// Its secret; a new one is written if there is none.
    ///
    /// # Errors
    /// Whatever keeps it from being read or written.
    pub fn secret_or_new(&self) -> Result<KeyHasher> {
        if let Some(secret) = self.secret()? {
            return Ok(secret);
        }
        let path = self.secret_path();
        let fail = |error: io::Error| format!("cannot write {}: {error}", path.display());
        let secret = KeyHasher::random();
        // A temporary file is the user's alone, and keeps its mode.
        let mut file = NamedTempFile::new_in(folder_of(&path)).map_err(fail)?;
        write_all(&mut file, &secret.to_bytes()).map_err(fail)?;
        match file.persist_noclobber(&path) {
            Ok(_) => sync_folder(&path).map_err(fail)?,
            // Somebody else built at the same time, and was first.
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                return self.secret()?.ok_or_else(|| "the secret comes and goes".into());
            }
            Err(error) => return Err(fail(error.error).into()),
        }
        Ok(secret)
    }

    /// The right to replace the file, until it is dropped. Without a secret there is
    /// nothing to replace, and nothing that is locked.
    ///
    /// # Errors
    /// Fails at once if another process holds it.
    #[cfg(unix)]
    pub fn lock(&self) -> Result<Option<Lock>> {
        let path = self.secret_path();
        let fail = |error: io::Error| format!("cannot lock {}: {error}", path.display());
        // For writing: some network file systems lock no other files.
        let opened = match File::options().read(true).write(true).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => File::open(&path),
            opened => opened,
        };
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(fail)?,
        };
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock { _file: file })),
            // As where there are no locks at all.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                Ok(None)
            }
            Err(TryLockError::WouldBlock) => Err(format!(
                "{} is being built or adapted by somebody else; nothing was changed, run it again \
                 when that is done",
                self.name
            )
            .into()),
            Err(TryLockError::Error(error)) => Err(fail(error).into()),
        }
    }

    /// Elsewhere a locked file cannot be read either, and readers come first: only
    /// versions keep two writers apart.
    #[cfg(not(unix))]
    pub fn lock(&self) -> Result<Option<Lock>> {
        Ok(None)
    }

    /// An error, early, if the file cannot become a filter's.
    ///
    /// # Errors
    /// A folder, a device, or something in a folder that is not there.
    pub fn check_replaceable(&self) -> Result<()> {
        match fs::metadata(&self.path) {
            Ok(metadata) if !metadata.is_file() => {
                Err(format!("{} is not a regular file; name another with -o", self.name).into())
            }
            Err(_) if !folder_of(&self.path).is_dir() => {
                let folder = folder_of(&self.path).display().to_string();
                Err(format!("cannot write {}: there is no folder {folder}", self.name).into())
            }
            _ => Ok(()),
        }
    }

    /// Puts a filter's bytes in the file's place, whole or not at all. With a version,
    /// only if the file was still that one right before: whoever copies another file
    /// to its place takes no lock. Gives its number of bytes.
    ///
    /// # Errors
    /// Whatever keeps it from being written; the file is then as before.
    pub fn replace(&self, bytes: &[u8], read: Option<Version>) -> Result<u64> {
        self.check_replaceable()?;
        let fail = |error: io::Error| format!("cannot write {}: {error}", self.name);
        // What has its secret in it is the user's alone, unless it is made to be shipped.
        let private = matches!(Contents::of(bytes), Contents::Filter | Contents::KeyedWithSecret);
        let mut file = self.temporary(private).map_err(fail)?;
        write_all(&mut file, bytes).map_err(fail)?;
        if let Some(version) = read {
            let now = fs::metadata(&self.path).and_then(|metadata| Version::of(&metadata));
            if now.map_err(fail)? != version {
                let changed = "another process has changed it; nothing was saved, run it again";
                return Err(format!("{}: {changed}", self.name).into());
            }
        }
        file.persist(&self.path).map_err(|error| fail(error.error))?;
        sync_folder(&self.path).map_err(fail)?;
        Ok(bytes.len() as u64)
    }

    /// A file beside it, with the mode that it has or that a new file gets.
    fn temporary(&self, private: bool) -> io::Result<NamedTempFile> {
        let mut builder = tempfile::Builder::new();
        let old = fs::metadata(&self.path).ok();
        // The default of a temporary file is the user's alone.
        let new = || if private { None } else { mode_of_new_files() };
        let mode = old.as_ref().map(Metadata::permissions).or_else(new);
        if let Some(mode) = &mode {
            builder.permissions(mode.clone());
        }
        let file = builder.tempfile_in(folder_of(&self.path))?;
        if let Some(old) = old {
            file.as_file().set_permissions(old.permissions())?;
        }
        Ok(file)
    }
}

/// The right to replace a filter's file; see [`Saved::lock`].
#[derive(Debug)]
pub struct Lock {
    /// The system unlocks it when it is closed, also for a process that dies.
    _file: File,
}

/// Which version of a file was read: it is replaced whole, so its time of change
/// and its size tell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Version {
    modified: std::time::SystemTime,
    bytes: u64,
    #[cfg(unix)]
    inode: u64,
}

impl Version {
    fn of(metadata: &Metadata) -> io::Result<Self> {
        Ok(Version {
            modified: metadata.modified()?,
            bytes: metadata.len(),
            #[cfg(unix)]
            inode: std::os::unix::fs::MetadataExt::ino(metadata),
        })
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn write_all(file: &mut NamedTempFile, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.as_file().sync_all()
}

/// A rename lasts when its folder is on disk.
#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// What `open` would give a new file: all that the umask allows.
#[cfg(unix)]
fn mode_of_new_files() -> Option<Permissions> {
    Some(std::os::unix::fs::PermissionsExt::from_mode(0o666))
}

#[cfg(not(unix))]
fn mode_of_new_files() -> Option<Permissions> {
    None
}

#[cfg(unix)]
fn warn_if_open_to_others(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        let (name, mode) = (path.display(), mode & 0o777);
        eprintln!("warning: {name} is open to others (mode {mode:o}); 'chmod 600 {name}'");
    }
}

#[cfg(not(unix))]
fn warn_if_open_to_others(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(keys: u32, secret: &KeyHasher) -> KeyFilter {
        let spec = "telescoping:f=8".parse().expect("a filter");
        let mut filter = KeyFilter::with_hasher(&spec, 1000, secret.clone()).expect("room");
        for key in 0..keys {
            filter.insert(key.to_le_bytes()).expect("room");
        }
        filter
    }

    #[test]
    fn a_version_that_is_gone_is_not_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let saved = Saved::new(&folder.path().join("a.twiceshy"));
        let secret = saved.secret_or_new().expect("a secret");
        saved.replace(&filter(10, &secret).save(), None).expect("saved");
        let (old, version) = saved.read().expect("read");
        saved.replace(&filter(20, &secret).save(), None).expect("saved again");
        let error = saved.replace(&old, Some(version)).expect_err("an old filter").to_string();
        assert!(error.contains("run it again"), "{error}");
        let (newer, version) = saved.read().expect("read");
        assert_eq!(KeyFilter::load(&newer, secret).expect("whole").stats().len, 20);
        saved.replace(&newer, Some(version)).expect("nobody else has changed it");
    }

    #[cfg(unix)]
    #[test]
    fn one_at_a_time_may_replace_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let saved = Saved::new(&folder.path().join("a.twiceshy"));
        assert!(saved.lock().expect("there is nothing yet").is_none());
        saved.secret_or_new().expect("a secret");
        let lock = saved.lock().expect("nobody else").expect("a secret");
        let error = saved.lock().expect_err("it is locked").to_string();
        assert!(error.contains("a.twiceshy") && error.contains("run it again"), "{error}");
        assert!(saved.secret().expect("readers go on").is_some());
        drop(lock);
        assert!(saved.lock().expect("nobody else").is_some());
    }

    #[test]
    fn nothing_is_left_beside_the_two_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let saved = Saved::new(&folder.path().join("a"));
        let secret = saved.secret_or_new().expect("a secret");
        assert!(saved.secret_or_new().expect("the same") == secret);
        saved.replace(&filter(10, &secret).save(), None).expect("saved");
        let (_, version) = saved.load().expect("loaded");
        saved.replace(&filter(11, &secret).save(), None).expect("saved");
        saved.replace(&filter(12, &secret).save(), Some(version)).expect_err("an old version");
        let mut names: Vec<OsString> = fs::read_dir(folder.path())
            .expect("a folder")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["a", "a.secret"]);
    }
}
