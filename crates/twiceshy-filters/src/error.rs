//! What can go wrong, with the offending values and what to do about it.

use alloc::boxed::Box;
use alloc::string::String;
use core::fmt;

use crate::digest::Digest;

/// Why an operation failed. After any error no stored key is lost, and the filter answers as
/// before.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No room for the key that is handed back.
    Full {
        /// The digest that was not inserted.
        digest: Digest,
        /// Keys stored.
        len: usize,
        /// Keys that the filter was sized for.
        capacity: usize,
    },
    /// A filter description that cannot be built.
    Spec {
        /// The description, or the part of it that is wrong.
        text: String,
        /// What is wrong with it and what would be right.
        reason: String,
    },
    /// Bytes that are not a saved filter.
    Format {
        /// What is wrong with them.
        reason: String,
    },
    /// The remote failed; its own error says why.
    Remote(RemoteError),
}

/// An error of a remote.
pub type RemoteError = Box<dyn core::error::Error + Send + Sync>;

/// The result of an operation on a filter.
pub type Result<T, E = Error> = core::result::Result<T, E>;

impl Error {
    #[doc(hidden)]
    pub fn spec(text: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::Spec { text: text.into(), reason: reason.into() }
    }

    #[doc(hidden)]
    pub fn format(reason: impl Into<String>) -> Self {
        Error::Format { reason: reason.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Full { digest, len, capacity } => write!(
                f,
                "no room for {digest:?}: the filter holds {len} keys and was made for {capacity}; \
                 grow it, or build it with full=grow"
            ),
            Error::Spec { text, reason } => write!(f, "filter \"{text}\": {reason}"),
            Error::Format { reason } => write!(f, "not a usable saved filter: {reason}"),
            Error::Remote(error) => write!(f, "the remote failed: {error}"),
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Error::Remote(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}
