//! What can go wrong beside a store, with where and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use twiceshy_filters::RemoteError;

/// Why a directory was not opened, or a snapshot not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// A file or directory of ours cannot be read or written.
    Io {
        /// What was being done.
        doing: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Somebody has the directory open.
    Locked {
        /// The directory, or the engine's file or folder in it.
        path: PathBuf,
    },
    /// The engine did not open its file.
    Engine {
        /// The engine's file or folder.
        path: PathBuf,
        /// The engine's reason.
        source: RemoteError,
    },
    /// The secret is not the one that the store was made with, or is not there.
    Secret {
        /// Where it is looked for.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The directory has something else than what was asked for.
    Directory {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it and what to do.
        reason: String,
    },
    /// The guard failed.
    Guard(twiceshy_filters::Error),
}

/// The result of opening or saving something.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<twiceshy_filters::Error> for Error {
    fn from(error: twiceshy_filters::Error) -> Self {
        Error::Guard(error)
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
            Error::Engine { path, source } => {
                write!(f, "cannot open {}: {source}", path.display())
            }
            Error::Secret { path, reason } => write!(
                f,
                "the secret {} {reason}; put back the one that the store was made with (without \
                 it no stored key can be found)",
                path.display()
            ),
            Error::Directory { path, reason } => write!(f, "{}: {reason}", path.display()),
            Error::Guard(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::Engine { source, .. } => Some(source.as_ref()),
            Error::Guard(error) => Some(error),
            Error::Locked { .. } | Error::Secret { .. } | Error::Directory { .. } => None,
        }
    }
}
