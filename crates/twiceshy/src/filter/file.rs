//! Files that are replaced atomically.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use twiceshy_filters::Result;

/// Who may read a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// The file has a secret: its owner, and the group that could read the old file.
    Owner,
    /// Everyone who could read the old file; without one, as the umask allows.
    Anybody,
}

/// Replaces a file atomically: readers see the old or the new file, also after a crash.
pub(super) fn replace(path: &Path, bytes: &[u8], audience: Audience) -> io::Result<()> {
    // The file behind a symbolic link, if there is one, so that the link stays.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let new = beside(&path);
    let cannot_write = |error: io::Error| named("cannot write", &path, &error);
    let old = fs::metadata(&path).ok();
    // A rename would put a file in the place of a device or a pipe, such as /dev/null.
    if old.as_ref().is_some_and(|old| !old.is_file()) {
        return Err(cannot_write(io::Error::other("it exists and is not a regular file")));
    }
    let old = old.map(|old| old.permissions());
    let mut file =
        create(&new, audience == Audience::Owner || old.is_some()).map_err(cannot_write)?;
    let write = || {
        file.write_all(bytes)?;
        if let Some(old) = old {
            file.set_permissions(kept(old, audience))?;
        }
        file.sync_all()?;
        fs::rename(&new, &path)?;
        sync_directory(&path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        cannot_write(error)
    })
}

/// The permissions of a file that takes the place of one with these.
#[cfg(unix)]
fn kept(mut old: Permissions, audience: Audience) -> Permissions {
    use std::os::unix::fs::PermissionsExt as _;
    if audience == Audience::Owner {
        old.set_mode(old.mode() & 0o770);
    }
    old
}

#[cfg(not(unix))]
fn kept(old: Permissions, _: Audience) -> Permissions {
    old
}

/// What a file holds.
pub(super) fn load<T>(path: &Path, read: impl FnOnce(&[u8]) -> Result<T>) -> io::Result<T> {
    let bytes = fs::read(path).map_err(|error| named("cannot read", path, &error))?;
    read(&bytes).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

fn named(failed: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{failed} {}: {error}", path.display()))
}

/// A temporary name in the same directory that no other process uses and no crash has left.
fn beside(path: &Path) -> PathBuf {
    let random = getrandom::u64().expect("the operating system gives random bytes");
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{random:016x}.new"));
    path.with_file_name(name)
}

fn create(path: &Path, private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = private;
    options.open(path)
}

/// A rename is durable once its directory is synced.
#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
