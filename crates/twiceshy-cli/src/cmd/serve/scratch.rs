//! Directories that a demonstration fills, and takes away again.

use std::fs::{self, File, Metadata};
use std::io;
#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use tracing::{debug, warn};

/// What the names of temporary directories begin with.
const PREFIX: &str = "twiceshy-demo-";

/// A directory whose contents are removed when this is dropped, unless they are kept.
pub struct Scratch {
    path: PathBuf,
    /// Whether the directory itself was there before, and stays.
    existed: bool,
    kept: bool,
}

impl Scratch {
    /// A temporary directory, removed in any case.
    pub fn temporary() -> io::Result<Self> {
        let parent = std::env::temp_dir();
        remove_stale(&parent);
        // Removed by our own rules: see [`Scratch::discard`].
        let path = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?.keep();
        Ok(Scratch { path, existed: false, kept: false })
    }

    /// A directory that the user has named, removed unless [`Scratch::keep`] is called.
    /// `None` if there is something in it: then nothing of it is ours.
    pub fn named(path: &Path) -> Option<Self> {
        let existed = match fs::read_dir(path).map(Iterator::count) {
            Ok(0) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            _ => return None,
        };
        Some(Scratch { path: path.into(), existed, kept: false })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is in it stays.
    pub fn keep(mut self) {
        self.kept = true;
    }

    /// Removes what is there. A build that was interrupted may still make a file: then
    /// the directory is not empty, and the next attempt takes that file as well.
    fn discard(&self) -> io::Result<()> {
        const ATTEMPTS: u32 = 20;
        let mut removed = self.remove();
        for _ in 1..ATTEMPTS {
            if removed.is_ok() {
                break;
            }
            thread::sleep(Duration::from_millis(10));
            removed = self.remove();
        }
        removed
    }

    fn remove(&self) -> io::Result<()> {
        if !self.existed {
            return missing_is_fine(fs::remove_dir_all(&self.path));
        }
        // Only files are made in it.
        for entry in fs::read_dir(&self.path)? {
            missing_is_fine(fs::remove_file(entry?.path()))?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        if let Err(error) = self.discard() {
            warn!(directory = %self.path.display(), %error, "not removed; remove it by hand");
        }
    }
}

fn missing_is_fine(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Removes temporary directories of demonstrations that were killed. Each has a lock file,
/// which the system unlocks when its process ends; one without is of a demonstration that
/// has just begun, and is left alone, as is what belongs to others.
fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        let is_ours = |metadata: Metadata| metadata.is_dir() && belongs_to_us(&metadata);
        let named = path.file_name().and_then(|name| name.to_str());
        if named.is_none_or(|name| !name.starts_with(PREFIX))
            || !fs::symlink_metadata(&path).is_ok_and(is_ours)
        {
            continue;
        }
        // Held until the directory is gone.
        let Ok(lock) = File::open(path.join("lock")) else { continue };
        if lock.try_lock().is_ok() {
            let removed = fs::remove_dir_all(&path);
            debug!(directory = %path.display(), ?removed, "left by a demonstration that was killed");
        }
    }
}

#[cfg(unix)]
fn belongs_to_us(metadata: &Metadata) -> bool {
    metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn belongs_to_us(_: &Metadata) -> bool {
    false
}
