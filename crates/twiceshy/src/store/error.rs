//! [`Error`]: why a directory could not be opened, copied, checked or saved.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use twiceshy_filters::RemoteError;

use crate::{filters, guard};

/// Why a directory could not be opened, copied, checked or saved.
///
/// It is also the crate's error for `?`: errors of guards ([`guard::Error`]) and of filters
/// ([`filters::Error`]) convert to it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory beside the engine's cannot be read or written.
    Io {
        /// What failed, as in "cannot read".
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The directory is open already, in this process or another.
    Locked {
        /// The directory, or the engine's file or folder in it.
        path: PathBuf,
    },
    /// The engine cannot open, read or write its files.
    Engine {
        /// What failed, as in "cannot open".
        doing: &'static str,
        /// The engine's file or folder.
        path: PathBuf,
        /// The engine's reason.
        source: RemoteError,
    },
    /// The secret is missing or damaged, or is not the one that the store was made with.
    Secret {
        /// Where the secret should be.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory does not contain what was asked for.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The guard failed.
    Guard(guard::Error),
    /// A filter outside a guard failed.
    Filter(filters::Error),
}

/// A result with the crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// The error of an engine that failed while `doing` something with its files.
    pub(crate) fn engine(doing: &'static str, path: &Path) -> impl FnOnce(RemoteError) -> Self {
        move |source| Error::Engine { doing, path: path.into(), source }
    }
}

impl From<guard::Error> for Error {
    fn from(error: guard::Error) -> Self {
        Error::Guard(error)
    }
}

impl From<filters::Error> for Error {
    fn from(error: filters::Error) -> Self {
        Error::Filter(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { doing, path, source } => {
                write!(f, "cannot {doing} {}: {source}", path.display())
            }
            Error::Locked { path } => write!(
                f,
                "{} is open already, in this process or another; close it there, or use another \
                 directory",
                path.display()
            ),
            Error::Engine { doing, path, source } => {
                write!(f, "cannot {doing} {}: {source}", path.display())
            }
            Error::Secret { path, reason } => write!(
                f,
                "the secret {} {reason}; put back the one that the store was made with (without \
                 it no stored key can be found)",
                path.display()
            ),
            Error::Directory { path, reason } => write!(f, "{}: {reason}", path.display()),
            Error::Guard(error) => error.fmt(f),
            Error::Filter(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Engine { source, .. } => Some(source.as_ref()),
            Error::Guard(error) => Some(error),
            Error::Filter(error) => Some(error),
            Error::Locked { .. } | Error::Secret { .. } | Error::Directory { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    /// Which file, what is wrong, and what to do.
    #[test]
    fn texts_name_the_file_and_the_remedy() {
        let path = || PathBuf::from("/data/users");
        let denied = || io::Error::new(io::ErrorKind::PermissionDenied, "denied");
        let damaged = || twiceshy_filters::Error::format("cut short");
        let cases = [
            (
                Error::Io { doing: "write", path: path(), source: denied() },
                "cannot write /data/users: denied",
                Some("denied"),
            ),
            (
                Error::Locked { path: path() },
                "/data/users is open already, in this process or another; close it there, or use \
                 another directory",
                None,
            ),
            (
                Error::engine("sync", &path())("no space left".into()),
                "cannot sync /data/users: no space left",
                Some("no space left"),
            ),
            (
                Error::Secret { path: path(), reason: "is missing".into() },
                "the secret /data/users is missing; put back the one that the store was made with \
                 (without it no stored key can be found)",
                None,
            ),
            (
                Error::Directory { path: path(), reason: "is in use; remove it".into() },
                "/data/users: is in use; remove it",
                None,
            ),
            (
                Error::from(guard::Error::Read("no disk".into())),
                "cannot read the store: no disk",
                Some("cannot read the store: no disk"),
            ),
            (
                Error::from(damaged()),
                "not a usable saved filter: cut short",
                Some("not a usable saved filter: cut short"),
            ),
        ];
        for (error, text, source) in cases {
            assert_eq!(error.to_string(), text);
            assert_eq!(error.source().map(ToString::to_string).as_deref(), source, "{error}");
        }
    }
}
