//! [`Report`]: what a check found.

use std::fmt;
use std::path::PathBuf;

use twiceshy_filters::Digest;

/// What [`check()`](super::check()) found in a directory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The engine's file.
    pub path: PathBuf,
    /// Bytes of the file that are in use.
    pub bytes: u64,
    /// Pages of the file that are in use.
    pub pages: u64,
    /// Undamaged records.
    pub records: u64,
    /// The part of [`Report::records`] on or below damaged pages. They are undamaged, but may be
    /// out of date.
    pub doubtful: u64,
    /// Whether a crash interrupted the last commit. The commit before it counts then.
    pub interrupted: bool,
    /// The state of the filters' snapshot.
    pub snapshot: String,
    /// Everything that is damaged.
    pub damage: Vec<Damage>,
}

impl Report {
    /// Whether nothing is damaged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damage.is_empty()
    }
}

/// Something that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// A whole file.
    File {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A page of the engine's file.
    Page {
        /// Where the page begins, in bytes.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// A record.
    Record {
        /// The digest that the record is filed under.
        digest: Digest,
        /// The key, if it can be read.
        key: Option<Vec<u8>>,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::File { name, reason } => write!(f, "{name}: {reason}"),
            Damage::Page { offset, reason } => write!(f, "page at byte {offset}: {reason}"),
            Damage::Record { digest, key: Some(key), reason } => {
                let key = String::from_utf8_lossy(key);
                write!(f, "record of key {key:?} ({digest:?}): {reason}")
            }
            Damage::Record { digest, key: None, reason } => {
                write!(f, "record under {digest:?}: {reason}")
            }
        }
    }
}
