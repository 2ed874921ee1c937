//! Backups: a copy of a directory as of one moment, while the store is in use.
//!
//! Records are read through one consistent view of the engine and written to a new engine.
//! Files are not copied, so no write is copied by half. The copy has the same secret, a
//! generation of its own and no snapshot: its filters are built when it is first opened. It is
//! made under another name and renamed when it is on disk.

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::guard::Change;
use twiceshy_filters::{Digest, KeyHasher};

use crate::store::engine::{Durability, Engine, EngineOptions};
use crate::store::error::{Error, Result};
use crate::store::files::Files;
use crate::store::options::not_opened;

/// Receives the number of records copied and about how many there are; returns whether to go
/// on.
pub type CopyProgress<'a> = &'a mut dyn FnMut(u64, u64) -> ControlFlow<()>;

/// The size of a write: so many records, or a little more than so many bytes.
const RECORDS: usize = 1 << 16;
const BYTES: usize = 16 << 20;

/// The copy's cache. It can be small, since the copy is written in order and not read.
const CACHE: usize = 16 << 20;

/// The source of a copy: an engine's records, and the files that go with them.
pub(crate) struct Source<'a, E> {
    pub(crate) engine: &'a E,
    /// The engine's file or folder.
    pub(crate) path: &'a Path,
    pub(crate) hasher: &'a KeyHasher,
    /// Other files for the copy: their names and contents.
    pub(crate) others: &'a [(&'a str, &'a [u8])],
}

impl<E: Engine> Source<'_, E> {
    /// Makes the copy. Returns the number of its records.
    pub(crate) fn copy_to(&self, to: &Path, progress: CopyProgress<'_>) -> Result<u64> {
        if fs::symlink_metadata(to).is_ok() {
            return Err(refused(to, "exists already; name a directory that does not"));
        }
        let (Some(name), Some(parent)) = (to.file_name(), to.parent()) else {
            return Err(refused(to, "is not a name for a new directory"));
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        fs::metadata(parent).map_err(failed("find the directory", parent))?;
        let draft = parent.join(format!(".{}.unfinished", name.display()));
        // A link may lead anywhere.
        if fs::symlink_metadata(&draft).is_ok_and(|found| !found.is_dir()) {
            return Err(refused(&draft, "is in the way, and is not a directory; remove it"));
        }
        // While this backup runs, another one to the same place fails here.
        let mut files = Files::new(&draft)?;
        files.clear(self.name(), self.others)?;
        let copied = self.fill(&mut files, &draft, to, progress);
        if copied.is_err() {
            // An unfinished copy would only take room.
            files.discard(self.name(), self.others);
        }
        copied
    }

    fn name(&self) -> &Path {
        Path::new(self.path.file_name().unwrap_or_default())
    }

    fn fill(
        &self,
        files: &mut Files,
        draft: &Path,
        to: &Path,
        progress: CopyProgress<'_>,
    ) -> Result<u64> {
        let path = draft.join(self.name());
        let options = EngineOptions { durability: Durability::Process, cache: CACHE };
        let copy = E::open(&path, &options).map_err(not_opened(&path))?;
        files.opened(&path, true)?;
        let records = self.copy_records(&copy, &path, to, progress)?;
        copy.sync().map_err(Error::engine("sync", &path))?;
        drop(copy);
        files.set_secret(self.hasher)?;
        for (name, bytes) in self.others {
            files.replace(name, bytes)?;
        }
        files.close();
        // The lock is still held: nobody removes the draft.
        fs::rename(draft, to).map_err(failed("rename the copy to", to))?;
        sync_names(to).map_err(failed("sync", to))?;
        Ok(records)
    }

    fn copy_records(
        &self,
        copy: &E,
        copy_path: &Path,
        to: &Path,
        progress: CopyProgress<'_>,
    ) -> Result<u64> {
        let total = self.engine.count().map_err(Error::engine("read", self.path))?;
        let mut chunk = Chunk { copy, path: copy_path, records: Vec::new(), bytes: 0, done: 0 };
        let mut outcome = Ok(());
        let each = &mut |digest: Digest, record: &[u8]| {
            chunk.bytes += record.len();
            chunk.records.push((digest, record.to_vec()));
            if chunk.records.len() < RECORDS && chunk.bytes < BYTES {
                return ControlFlow::Continue(());
            }
            outcome = chunk.write();
            if outcome.is_ok() && progress(chunk.done, total.max(chunk.done)).is_break() {
                outcome = Err(refused(to, "the backup was stopped"));
            }
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        let header = self.engine.visit_all(each).map_err(Error::engine("read", self.path))?;
        outcome?;
        chunk.write()?;
        // The header comes last: without it the copy is known to be incomplete.
        let header = header.ok_or_else(|| refused(to, "there is no store to copy"))?;
        copy.set_header(header.renewed()).map_err(Error::engine("write to", copy_path))?;
        let _ = progress(chunk.done, chunk.done);
        Ok(chunk.done)
    }
}

/// Records that are written together.
struct Chunk<'a, E> {
    copy: &'a E,
    path: &'a Path,
    records: Vec<(Digest, Vec<u8>)>,
    bytes: usize,
    done: u64,
}

impl<E: Engine> Chunk<'_, E> {
    fn write(&mut self) -> Result<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        let changes: Vec<Change<'_>> =
            self.records.iter().map(|(digest, record)| (*digest, Some(&record[..]))).collect();
        self.copy.write(&changes).map_err(Error::engine("write to", self.path))?;
        self.done += self.records.len() as u64;
        self.records.clear();
        self.bytes = 0;
        Ok(())
    }
}

/// Syncs a directory and its name in the directory above.
fn sync_names(path: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    File::open(path)?.sync_all()?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => File::open(".")?.sync_all(),
    }
}

fn refused(path: &Path, reason: &str) -> Error {
    Error::Directory { path: path.into(), reason: reason.into() }
}

fn failed(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = PathBuf::from(path);
    move |source| Error::Io { doing, path, source }
}
