//! The file that says which store a sidecar is of, and what it knows of it.
//!
//! ```text
//! twiceshy sidecar of
//! postgres://127.0.0.1:5432/shop public.users email text
//! whole 93c467e37db0c7a4                         or: partial, loose
//! ```
//!
//! A sidecar that is whole is trusted without a resync only if its digests are of the
//! generation that is named here, and nobody has touched their file since: a file that
//! was restored from a copy does not know what was added since the copy was made.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::backend::Failure;

const NAME: &str = "upstream";
const LOCK: &str = "upstream.lock";
const TITLE: &str = "twiceshy sidecar of";

/// Which store a sidecar is of, and what it knows of it. Nobody else has it.
pub(super) struct Origin {
    directory: PathBuf,
    origin: String,
    state: State,
    /// From before the sidecar is opened until after it was closed.
    _lock: File,
}

/// What a sidecar knows of its store's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No scan of the store was ever finished.
    Partial,
    /// One was, and the run after it has not been ended by a clean stop: a loss of power
    /// may have taken keys away.
    Loose,
    /// One was, and all that the sidecar was told of since is on disk.
    Whole {
        /// Of the digests that a clean stop left.
        generation: u64,
    },
}

impl State {
    fn to_text(self) -> String {
        match self {
            State::Partial => "partial".into(),
            State::Loose => "loose".into(),
            State::Whole { generation } => format!("whole {generation:016x}"),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        match text {
            "partial" => Some(State::Partial),
            // Without a generation, as earlier versions wrote it, it can be of any.
            "loose" | "whole" => Some(State::Loose),
            text => {
                let digits = text.strip_prefix("whole ").filter(|digits| digits.len() == 16)?;
                let generation = u64::from_str_radix(digits, 16).ok()?;
                Some(State::Whole { generation })
            }
        }
    }
}

impl Origin {
    /// Reads the file; where there is none, nothing is known. Nothing is written but
    /// the lock.
    pub(super) fn open(directory: &Path, origin: String) -> Result<Self, Failure> {
        fs::create_dir_all(directory).map_err(failed("make", directory))?;
        let path = directory.join(LOCK);
        let lock = File::create(&path).map_err(failed("make", &path))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => Failure::Store(format!(
                "{} is open already; stop the server that has it, or use another directory",
                directory.display()
            )),
            TryLockError::Error(error) => failed("lock", &path)(error),
        })?;
        let state = match fs::read_to_string(directory.join(NAME)) {
            Ok(text) => read(&text, directory, &origin)?,
            Err(error) if error.kind() == ErrorKind::NotFound => State::Partial,
            Err(error) => return Err(failed("read", &directory.join(NAME))(error)),
        };
        Ok(Origin { directory: directory.into(), origin, state, _lock: lock })
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Writes the file.
    pub(super) fn set(&mut self, state: State) -> Result<(), Failure> {
        replace_file(&self.directory, NAME, &text(&self.origin, state))?;
        self.state = state;
        Ok(())
    }

    /// The sidecar has been closed: what it has, and that is of this generation, is put on
    /// disk, and is whole.
    pub(super) fn settle(&mut self, generation: u64) -> Result<(), Failure> {
        let sync_all = || {
            for entry in fs::read_dir(&self.directory)? {
                let entry = entry?;
                if entry.file_type()?.is_file() {
                    sync(&entry.path())?;
                }
            }
            Ok(())
        };
        sync_all().map_err(failed("sync", &self.directory))?;
        self.set(State::Whole { generation })
    }
}

/// Writes a small file: it is the old one or the new one, never a part of it, and when this
/// returns it is the new one for good.
pub(crate) fn replace_file(directory: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = directory.join(name);
    let write = || {
        let draft = path.with_extension("new");
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, &path)?;
        sync_names(directory)
    };
    write().map_err(failed("write", &path))
}

fn text(origin: &str, state: State) -> String {
    format!("{TITLE}\n{origin}\n{}\n", state.to_text())
}

/// The file for a copy of a sidecar: its name and its text. What the copy has is of some
/// moment, and is not to be trusted without a resync.
pub(super) fn of_a_copy(origin: &str, state: State) -> (&'static str, String) {
    let state = if state == State::Partial { State::Partial } else { State::Loose };
    (NAME, text(origin, state))
}

/// [`of_a_copy`] for a directory that nobody has open; nothing if it is no sidecar's, or
/// its file cannot be read: the copy is built again then.
pub(super) fn of_a_copy_of(directory: &Path) -> Option<(&'static str, String)> {
    let found = fs::read_to_string(directory.join(NAME)).ok()?;
    let [TITLE, origin, state] = found.lines().collect::<Vec<_>>()[..] else { return None };
    Some(of_a_copy(origin, State::from_text(state)?))
}

fn read(text: &str, directory: &Path, origin: &str) -> Result<State, Failure> {
    let lines: Vec<&str> = text.lines().collect();
    let parts = match lines[..] {
        [TITLE, found, name] => State::from_text(name).map(|state| (found, state)),
        _ => None,
    };
    match parts {
        None => Err(Failure::Store(format!(
            "{} is damaged; remove the directory, and the filter is built again",
            directory.join(NAME).display()
        ))),
        Some((found, _)) if found != origin => Err(Failure::Refused(format!(
            "the directory {} is of {found}, not of {origin}; use another directory, or remove it \
             and the filter is built again",
            directory.display()
        ))),
        Some((_, state)) => Ok(state),
    }
}

/// Waits until a file is on disk.
fn sync(path: &Path) -> io::Result<()> {
    File::options().write(true).open(path)?.sync_all()
}

/// Waits until the names of a directory are on disk, where that can be asked for.
fn sync_names(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> Failure {
    move |error| Failure::Store(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_what_was_set_and_of_one_store() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("sidecar");
        let open = |name: &str| Origin::open(&path, name.into());
        let mut origin = open("redis://a/0").expect("a new one");
        assert_eq!(origin.state(), State::Partial);
        assert!(!path.join(NAME).exists(), "opening claims nothing");
        let whole = State::Whole { generation: 0x1234_5678_9abc_def0 };
        for (state, name) in [
            (State::Partial, "partial"),
            (State::Loose, "loose"),
            (whole, "whole 123456789abcdef0"),
        ] {
            origin.set(state).expect("written");
            drop(origin);
            let text = fs::read_to_string(path.join(NAME)).expect("a file");
            assert_eq!(text, format!("twiceshy sidecar of\nredis://a/0\n{name}\n"));
            origin = open("redis://a/0").expect("the same store");
            assert_eq!(origin.state(), state);
        }
        let failure = open("redis://a/0").err().expect("it is locked");
        assert!(failure.to_string().contains("is open already"), "{failure}");
        drop(origin);
        let loose = "twiceshy sidecar of\nredis://a/0\nloose\n".to_string();
        assert_eq!(of_a_copy_of(&path), Some((NAME, loose)), "a copy is never whole");
        fs::write(path.join(NAME), "twiceshy sidecar of\nredis://a/0\nwhole\n").expect("written");
        assert_eq!(open("redis://a/0").expect("the same").state(), State::Loose, "of whenever");
        let failure = open("redis://b/0").err().expect("of another store");
        assert!(failure.to_string().contains("is of redis://a/0, not of redis://b/0"), "{failure}");
        fs::write(path.join(NAME), "twiceshy sidecar of\nredis://a/0\nwhol").expect("written");
        let failure = open("redis://a/0").err().expect("half a file");
        assert!(failure.to_string().contains("is damaged"), "{failure}");
    }
}
