//! Why a guard could not do what it was asked to.

use std::fmt;

use twiceshy_filters::{Digest, RemoteError};

/// Why a guard could not do what it was asked to.
///
/// After any error the guard's answers are still correct: it never denies a stored key.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The store could not be read.
    Read(RemoteError),
    /// The store reported that a write failed. It may have made the write nonetheless.
    Write(RemoteError),
    /// The store could not write its [`Header`](super::Header). No record was changed.
    Header(RemoteError),
    /// The store's digests were made with another hasher or another secret.
    WrongSecret,
    /// The store's records have a layout that this version cannot read.
    UnknownLayout {
        /// The layout of the store's records.
        found: u64,
        /// The layout that this version reads and writes.
        known: u64,
    },
    /// A store without a header has records that are not filed under the digests of their
    /// keys.
    Misfiled {
        /// How many such records the guard met before it stopped.
        records: u64,
    },
    /// Another key with the same digest is stored, or is in the same list.
    SameDigest {
        /// The digest of both keys.
        digest: Digest,
    },
    /// The record of a key is damaged.
    Damaged {
        /// The digest that the record is filed under.
        digest: Digest,
    },
    /// An option is out of range.
    Options {
        /// The option and the values that it can have.
        reason: String,
    },
    /// The bytes are not a snapshot of a guard, or they are damaged.
    Snapshot {
        /// What is wrong with them.
        reason: String,
    },
    /// A filter could not be built or grown.
    Filter(twiceshy_filters::Error),
}

/// The result of an operation of a guard.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<twiceshy_filters::Error> for Error {
    fn from(error: twiceshy_filters::Error) -> Self {
        match error {
            twiceshy_filters::Error::Remote(source) => Error::Read(source),
            other => Error::Filter(other),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Read(source) => write!(f, "cannot read the store: {source}"),
            Error::Write(source) => write!(
                f,
                "writing to the store failed: {source}; the store may have the change or not, so \
                 read the key or repeat the write"
            ),
            Error::Header(source) => {
                write!(f, "cannot write the store's header: {source}; no record was changed")
            }
            Error::WrongSecret => f.write_str(
                "the store's digests were made with another hasher or secret; open the store with \
                 the one that it was made with",
            ),
            Error::UnknownLayout { found, known } => write!(
                f,
                "the store's records have layout {found}, and this version reads layout {known}; \
                 open the store with the version of twiceshy that wrote it"
            ),
            Error::Misfiled { records } => write!(
                f,
                "the store has no header, and {records} of its records are not filed under the \
                 digest of their key; fill the store with the hasher that it is opened with"
            ),
            Error::SameDigest { digest } => write!(
                f,
                "two different keys have {digest:?}, and a store can hold only one of them; \
                 choose another key"
            ),
            Error::Damaged { digest } => write!(
                f,
                "the record under {digest:?} is damaged; run `twiceshy \
                 check` on the store"
            ),
            Error::Options { reason } => write!(f, "a guard cannot have these options: {reason}"),
            Error::Snapshot { reason } => write!(
                f,
                "not a usable snapshot of a guard: {reason}; open the store without it, and the \
                 filters are built from the store"
            ),
            Error::Filter(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Read(source) | Error::Write(source) | Error::Header(source) => {
                Some(source.as_ref())
            }
            Error::Filter(error) => Some(error),
            _ => None,
        }
    }
}
