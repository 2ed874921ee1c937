//! Why there is no workload, and what to do about it.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why there is no workload.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No source has this name.
    Name {
        /// What was asked for.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The source does not say by itself how large it is.
    Missing {
        /// The source.
        source: String,
        /// "keys" or "queries".
        what: &'static str,
    },
    /// A ratio or a scale that is none.
    Size {
        /// Which field of the size.
        what: &'static str,
        /// Its value.
        value: f64,
    },
    /// More absent keys than [`super::MAX_ABSENT`].
    TooManyAbsent {
        /// Stored keys.
        keys: u64,
        /// Absent keys for each of them.
        ratio: f64,
    },
    /// A trace that leaves no key to store or none to ask for.
    TooFewDistinct {
        /// The trace.
        source: String,
        /// How many distinct keys it has.
        distinct: u64,
        /// How many of them were to be stored.
        keys: u64,
    },
    /// More than the memory holds.
    Memory {
        /// What there is too much of.
        what: &'static str,
        /// How much.
        count: u64,
    },
    /// A file that cannot be read.
    Io {
        /// The file.
        path: PathBuf,
        /// How many bytes of it were read before.
        offset: u64,
        /// What the system says.
        error: io::Error,
    },
    /// A file that is not what it should be.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the part begins that makes no sense.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Name { name, reason } => write!(f, "no workload \"{name}\": {reason}"),
            Error::Missing { source, what } => {
                write!(f, "{source} does not say how many {what} there are; give a number")
            }
            Error::Size { what, value } => {
                write!(f, "a {what} of {value} makes no workload; use a positive number")
            }
            Error::TooManyAbsent { keys, ratio } => write!(
                f,
                "{keys} keys with {ratio} absent keys each are more than the 2^32 absent keys of \
                 a workload; ask for fewer keys or fewer absent ones"
            ),
            Error::TooFewDistinct { source, distinct, keys } => write!(
                f,
                "{source} has {distinct} distinct keys: with {keys} of them stored there has to \
                 be at least one stored and one absent; store fewer or change the ratio"
            ),
            Error::Memory { what, count } => {
                write!(f, "no memory for {count} {what}; ask for less")
            }
            Error::Io { path, offset, error } => {
                write!(f, "{} cannot be read at byte {offset}: {error}", path.display())
            }
            Error::Damaged { path, offset, reason } => {
                write!(f, "{} is damaged at byte {offset}: {reason}", path.display())
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Room for `count` items.
///
/// # Errors
/// [`Error::Memory`] instead of the end of the process.
pub fn reserve<T>(count: u64, what: &'static str) -> Result<Vec<T>, Error> {
    let mut items = Vec::new();
    let reserved = usize::try_from(count).is_ok_and(|count| items.try_reserve_exact(count).is_ok());
    if reserved { Ok(items) } else { Err(Error::Memory { what, count }) }
}
