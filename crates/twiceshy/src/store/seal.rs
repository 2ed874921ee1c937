//! The seal: whether the engine's files are as the last close left them.
//!
//! A copy of a file that is taken while the file is written may mix pages of two moments, and an
//! engine that finds a clean ending trusts the rest. Closing therefore writes the file `closed`:
//! for each of the engine's files its inode, its time of change and its length. Replacing a file
//! or writing to it changes the inode or the time, which no program can set. Opening verifies
//! files that do not match `closed`.
//!
//! An open store has an empty `closed`, which is on disk before anything is written. A loss of
//! power therefore never restores a seal that does not fit.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

pub(crate) const NAME: &str = "closed";

/// How long closing waits for the file system's clock to advance. It ticks every 1 to 10 ms.
const TICKS: u32 = 50;
const TICK: Duration = Duration::from_millis(1);

/// Whether the engine's files are as the last close left them.
pub(crate) fn is_intact(directory: &Path, engine: &Path) -> bool {
    let mut noted = String::new();
    let read =
        File::open(directory.join(NAME)).and_then(|mut file| file.read_to_string(&mut noted));
    read.is_ok() && !noted.is_empty() && identity(engine).is_ok_and(|found| found == noted)
}

/// Breaks the seal durably, before files are written.
pub(crate) fn break_open(directory: &Path) -> io::Result<()> {
    match File::options().write(true).open(directory.join(NAME)) {
        Ok(file) if file.metadata()?.len() > 0 => {
            file.set_len(0)?;
            file.sync_all()
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Seals the engine's files after they were closed.
pub(crate) fn close(directory: &Path, engine: &Path) -> io::Result<()> {
    let files = files(engine)?;
    for path in &files {
        File::open(path)?.sync_all()?;
    }
    let noted = identity(engine)?;
    let newest = files.iter().map(|path| changed(path)).collect::<io::Result<Vec<_>>>()?;
    let newest = newest.into_iter().max();
    let path = directory.join(NAME);
    // A change within the same tick of the clock would not show. So the clock must advance
    // before anybody else can change the files; this file's own time says whether it has.
    for _ in 0..TICKS {
        let mut file = File::options().write(true).create(true).truncate(true).open(&path)?;
        file.write_all(noted.as_bytes())?;
        file.sync_all()?;
        if Some(changed(&path)?) > newest {
            return Ok(());
        }
        file.set_len(0)?;
        sleep(TICK);
    }
    Ok(())
}

/// A line per file: its name, and what changes when it is replaced or written.
fn identity(engine: &Path) -> io::Result<String> {
    let mut lines = String::new();
    for path in files(engine)? {
        let metadata = fs::metadata(&path)?;
        let name = path.strip_prefix(engine).unwrap_or(&path).display();
        let ((seconds, nanoseconds), length) = (change_of(&metadata)?, metadata.len());
        let inode = inode_of(&metadata);
        lines += &format!("{name} {inode} {seconds} {nanoseconds} {length}\n");
    }
    Ok(lines)
}

/// The files of an engine: one file, or a folder of them.
fn files(engine: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(engine)?.is_dir() {
        return Ok(vec![engine.into()]);
    }
    let (mut folders, mut files) = (vec![engine.to_path_buf()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if fs::metadata(&path)?.is_dir() { &mut folders } else { &mut files }.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn changed(path: &Path) -> io::Result<(i64, i64)> {
    change_of(&fs::metadata(path)?)
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "other systems may not know")]
fn change_of(metadata: &Metadata) -> io::Result<(i64, i64)> {
    use std::os::unix::fs::MetadataExt as _;
    Ok((metadata.ctime(), metadata.ctime_nsec()))
}

#[cfg(unix)]
fn inode_of(metadata: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(metadata)
}

/// The time of the last write. Programs can set it, but these systems have no better one.
#[cfg(not(unix))]
fn change_of(metadata: &Metadata) -> io::Result<(i64, i64)> {
    let since = metadata.modified()?.duration_since(std::time::UNIX_EPOCH);
    let since = since.map_err(io::Error::other)?;
    Ok((since.as_secs().cast_signed(), i64::from(since.subsec_nanos())))
}

#[cfg(not(unix))]
fn inode_of(_: &Metadata) -> u64 {
    0
}
