//! The file that says which store a sidecar is of.
//!
//! ```text
//! twiceshy sidecar of
//! postgres://127.0.0.1:5432/shop public.users email text
//! whole                                                   or: partial
//! ```

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::backend::Failure;

const NAME: &str = "upstream";
const TITLE: &str = "twiceshy sidecar of";

/// Which store a sidecar is of, and whether it has ever seen all of its keys.
pub(super) struct Origin {
    path: PathBuf,
    origin: String,
    whole: bool,
}

impl Origin {
    /// Reads the file, or writes the one of a new sidecar.
    pub(super) fn open(directory: &Path, origin: String) -> Result<Self, Failure> {
        let path = directory.join(NAME);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                fs::create_dir_all(directory).map_err(failed("make", directory))?;
                let new = Origin { path, origin, whole: false };
                new.write()?;
                return Ok(new);
            }
            Err(error) => return Err(failed("read", &path)(error)),
        };
        let lines: Vec<&str> = text.lines().collect();
        let (found, whole) = match lines[..] {
            [TITLE, found, "whole"] => (found, true),
            [TITLE, found, "partial"] => (found, false),
            _ => {
                return Err(Failure::Store(format!(
                    "{} is damaged; remove the directory, and the filter is built again",
                    path.display()
                )));
            }
        };
        if found != origin {
            return Err(Failure::Refused(format!(
                "the directory {} is of {found}, not of {origin}; use another directory, or \
                 remove it and the filter is built again",
                directory.display()
            )));
        }
        Ok(Origin { path, origin, whole })
    }

    /// Whether a scan of the store was once finished.
    pub(super) fn is_whole(&self) -> bool {
        self.whole
    }

    /// A scan was finished.
    pub(super) fn set_whole(&mut self) -> Result<(), Failure> {
        if !self.whole {
            self.whole = true;
            self.write()?;
        }
        Ok(())
    }

    /// The file is the old one or the new one, never a part of it.
    fn write(&self) -> Result<(), Failure> {
        let state = if self.whole { "whole" } else { "partial" };
        let text = format!("{TITLE}\n{}\n{state}\n", self.origin);
        let draft = self.path.with_extension("new");
        let write = || {
            let mut file = File::create(&draft)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&draft, &self.path)
        };
        write().map_err(failed("write", &self.path))
    }
}

fn failed(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Failure {
    move |error| Failure::Store(format!("cannot {what} {}: {error}", path.display()))
}
