//! A file that is replaced whole or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use twiceshy_filters::Result;

/// Who may read a new file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    Owner,
    /// All that the umask allows.
    Anybody,
}

/// Puts a new file in place of an old one: a reader sees one of the two, also after a crash.
pub(super) fn replace(path: &Path, bytes: &[u8], audience: Audience) -> io::Result<()> {
    // Behind symbolic links, so that these stay.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let new = beside(&path);
    let write = || {
        let mut file = create(&new, audience)?;
        if let Ok(old) = fs::metadata(&path) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        sync_directory(&path)
    };
    write().map_err(|error| {
        let _ = fs::remove_file(&new);
        named("cannot write", &path, &error)
    })
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

/// A name in the same directory that no other writer uses.
fn beside(path: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{}.new", process::id(), NEXT.fetch_add(1, Ordering::Relaxed)));
    path.with_file_name(name)
}

fn create(path: &Path, audience: Audience) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if audience == Audience::Owner {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = audience;
    options.open(path)
}

/// A rename lasts when its directory is on disk.
#[cfg(unix)]
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_directory(_: &Path) -> io::Result<()> {
    Ok(())
}
