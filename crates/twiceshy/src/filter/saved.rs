//! Saving and loading filters, as bytes and as files.
//!
//! ```text
//! kind "filter" or "frozen filter"
//! 8     the hasher's tag
//! block the hasher with its secret, or nothing
//! ..    the chain (chain.rs)
//! ```

use std::io;
use std::path::Path;

use twiceshy_filters::internals::{Reader, Writer};
use twiceshy_filters::{Error, KeyHasher, Result};

use super::chain::Chain;
use super::file::{self, Audience};
use super::{Filter, Frozen};

/// The kinds of the two files.
const FILTER: &str = "filter";
const FROZEN: &str = "frozen filter";

/// Whether the file contains the secret.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Secret {
    With,
    Without,
}

fn to_bytes(kind: &str, hasher: &KeyHasher, chain: &Chain, secret: Secret) -> Vec<u8> {
    let mut writer = Writer::new(kind);
    writer.u64(hasher.tag());
    match secret {
        Secret::With => writer.block(&hasher.to_bytes()),
        Secret::Without => writer.block(&[]),
    }
    chain.write(&mut writer);
    writer.finish()
}

/// The hasher in the file, or the one that the caller has.
fn from_bytes(kind: &str, bytes: &[u8], known: Option<KeyHasher>) -> Result<(KeyHasher, Chain)> {
    let mut reader = Reader::open(bytes)?;
    reader.expect_kind(kind)?;
    let tag = reader.u64("the hasher's tag")?;
    let hasher = match (reader.block("the hasher")?, known) {
        (_, Some(known)) => known,
        ([], None) => {
            let reason =
                "it was saved without its secret; load it with the hasher it was made with";
            return Err(Error::format(reason));
        }
        (saved, None) => KeyHasher::from_bytes(saved)?,
    };
    if hasher.tag() != tag {
        return Err(Error::format(
            "it was made with another hasher or secret; load it with the one it was made with",
        ));
    }
    let chain = Chain::read(&mut reader)?;
    reader.finish()?;
    Ok((hasher, chain))
}

impl Filter {
    /// Saves the filter in a file, with its secret. The file is replaced atomically, even if the
    /// machine crashes. Because of the secret, only its owner can read a new file; a replaced
    /// file keeps its permissions, except those for everyone.
    ///
    /// ```
    /// use twiceshy::Filter;
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("seen");
    /// let seen: Filter = ["ada", "bob"].into_iter().collect();
    /// seen.save(&path)?;
    /// assert!(Filter::load(&path)?.contains("ada"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// When the file cannot be written; an old file is unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        file::replace(path.as_ref(), &self.to_bytes(), Audience::Owner)
    }

    /// Saves the filter without the secret of its hash function. Keep the hasher elsewhere
    /// ([`Filter::hasher`]), and load the file with [`Filter::load_with_hasher`].
    ///
    /// # Errors
    /// When the file cannot be written; an old file is unchanged.
    pub fn save_without_secret(&self, path: impl AsRef<Path>) -> io::Result<()> {
        file::replace(path.as_ref(), &self.to_bytes_without_secret(), Audience::Anybody)
    }

    /// Loads a filter that [`Filter::save`] wrote.
    ///
    /// # Errors
    /// When the file cannot be read; of kind [`io::ErrorKind::InvalidData`] if it is damaged,
    /// not a filter, or was saved without its secret.
    pub fn load(path: impl AsRef<Path>) -> io::Result<Self> {
        file::load(path.as_ref(), Self::from_bytes)
    }

    /// Loads a filter that [`Filter::save_without_secret`] or [`Filter::save`] wrote, with the
    /// hasher that it was made with.
    ///
    /// # Errors
    /// As [`Filter::load`], and if the hasher is another one.
    pub fn load_with_hasher(path: impl AsRef<Path>, hasher: KeyHasher) -> io::Result<Self> {
        file::load(path.as_ref(), |bytes| Self::from_bytes_with_hasher(bytes, hasher))
    }

    /// The bytes of [`Filter::save`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(FILTER, &self.hasher, &self.chain, Secret::With)
    }

    /// The bytes of [`Filter::save_without_secret`].
    #[must_use]
    pub fn to_bytes_without_secret(&self) -> Vec<u8> {
        to_bytes(FILTER, &self.hasher, &self.chain, Secret::Without)
    }

    /// The filter that [`Filter::to_bytes`] gave.
    ///
    /// # Errors
    /// [`Error::Format`] for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (hasher, chain) = from_bytes(FILTER, bytes, None)?;
        Ok(Filter { hasher, chain })
    }

    /// The filter that [`Filter::to_bytes_without_secret`] gave, with the hasher that it was
    /// made with.
    ///
    /// # Errors
    /// [`Error::Format`] for other bytes, or another hasher.
    pub fn from_bytes_with_hasher(bytes: &[u8], hasher: KeyHasher) -> Result<Self> {
        let (hasher, chain) = from_bytes(FILTER, bytes, Some(hasher))?;
        Ok(Filter { hasher, chain })
    }
}

impl Frozen {
    /// Saves the filter in a file, with its secret. The file is replaced atomically. A new file
    /// has the permissions that the umask allows; a replaced one keeps its own.
    ///
    /// # Errors
    /// When the file cannot be written; an old file is unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> io::Result<()> {
        file::replace(path.as_ref(), &self.to_bytes(), Audience::Anybody)
    }

    /// Loads a filter that [`Frozen::save`] wrote.
    ///
    /// # Errors
    /// When the file cannot be read; of kind [`io::ErrorKind::InvalidData`] if it is damaged or
    /// not a frozen filter.
    pub fn load(path: impl AsRef<Path>) -> io::Result<Self> {
        file::load(path.as_ref(), Self::from_bytes)
    }

    /// The bytes of [`Frozen::save`].
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        to_bytes(FROZEN, &self.hasher, &self.chain, Secret::With)
    }

    /// The filter that [`Frozen::to_bytes`] gave.
    ///
    /// # Errors
    /// [`Error::Format`] for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (hasher, chain) = from_bytes(FROZEN, bytes, None)?;
        Ok(Frozen { hasher, chain })
    }
}

/// The kind of file that these bytes are, if they are an intact file of this library; for the
/// command line.
#[doc(hidden)]
pub fn kind_of(bytes: &[u8]) -> Result<&str> {
    Reader::open(bytes).map(|reader| reader.kind())
}
