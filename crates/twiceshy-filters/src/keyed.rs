//! Filters over keys: bytes at the edge, digests inside.

use crate::any::AnyFilter;
use crate::catalogue::Spec;
use crate::digest::{Digest, KeyHasher};
use crate::error::{Error, Result};
use crate::filter::{Adapted, Stats};
use crate::format::{Reader, Writer};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

/// A filter over keys with its remote in memory: a hasher with a secret, a filter, and 16 to 20
/// bytes per key beside it. For tools and experiments: in a program, a hash set of the same
/// memory gives exact answers. Crate `twiceshy` has a `Filter` that keeps no keys, and guards
/// whose remote is on disk.
///
/// ```
/// let mut filter = twiceshy_filters::KeyFilter::new(&"cuckooing:f=12".parse()?, 1000)?;
/// filter.insert("stored")?;
/// assert!(filter.contains("stored"));
/// if filter.contains("missing") {
///     filter.adapt("missing")?; // the store had no such key
/// }
/// # Ok::<(), twiceshy_filters::Error>(())
/// ```
#[derive(Debug)]
pub struct KeyFilter {
    hasher: KeyHasher,
    filter: AnyFilter,
}

/// What [`KeyFilter::save`] and [`KeyFilter::save_with_secret`] write.
const SAVED_KIND: &str = "filter over keys";
const WITH_SECRET: &str = "filter over keys with its secret";

impl KeyFilter {
    /// An empty filter for `capacity` keys, with a random secret.
    ///
    /// # Errors
    /// [`Error::Spec`] for a filter that cannot be built.
    #[cfg(feature = "getrandom")]
    pub fn new(spec: &Spec, capacity: usize) -> Result<Self> {
        Self::with_hasher(spec, capacity, KeyHasher::random())
    }

    /// An empty filter with a hasher of yours.
    ///
    /// # Errors
    /// [`Error::Spec`] for a filter that cannot be built.
    pub fn with_hasher(spec: &Spec, capacity: usize, hasher: KeyHasher) -> Result<Self> {
        Ok(KeyFilter { hasher, filter: spec.build(capacity)? })
    }

    /// Combines a filter of digests with the hasher that made them, for bulk loading: sorted
    /// digests go into a quotient filter of millions of keys about twice as fast.
    ///
    /// ```
    /// use twiceshy_filters::{KeyFilter, KeyHasher, Spec};
    /// let hasher = KeyHasher::random();
    /// let mut digests: Vec<_> = (0..1000).map(|n| hasher.digest(format!("key {n}"))).collect();
    /// digests.sort_unstable();
    /// let mut filter = "telescoping:f=8".parse::<Spec>()?.build(digests.len())?;
    /// for digest in digests {
    ///     filter.insert(digest)?;
    /// }
    /// assert_eq!(filter.states(), [1000]); // nothing yet, for all of them
    /// let filter = KeyFilter::from_parts(hasher, filter);
    /// assert!(filter.contains("key 7"));
    /// // Without the hasher, a saved filter can be looked at.
    /// assert_eq!(KeyFilter::load_filter(&filter.save())?.stats().len, 1000);
    /// # Ok::<(), twiceshy_filters::Error>(())
    /// ```
    #[must_use]
    pub const fn from_parts(hasher: KeyHasher, filter: AnyFilter) -> Self {
        KeyFilter { hasher, filter }
    }

    /// The hasher, and the filter of digests.
    #[must_use]
    pub fn into_parts(self) -> (KeyHasher, AnyFilter) {
        (self.hasher, self.filter)
    }

    /// `false`: definitely absent. `true`: maybe present.
    #[must_use]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.filter.contains(self.hasher.digest(key))
    }

    /// [`KeyFilter::contains`] for many keys, faster where the filter is larger
    /// than the cache.
    #[must_use]
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<bool> {
        let digests: Vec<Digest> = keys.iter().map(|key| self.hasher.digest(key)).collect();
        let mut found = vec![false; keys.len()];
        self.filter.contains_many(&digests, &mut found);
        found
    }

    /// Adds a key; `false` when it was stored already.
    ///
    /// # Errors
    /// [`Error::Full`] when there is no room; the filter is as before.
    pub fn insert(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.filter.insert(self.hasher.digest(key))
    }

    /// Removes a key; `false` when it was not stored.
    ///
    /// # Errors
    /// None as long as the remote is in memory.
    pub fn remove(&mut self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.filter.remove(self.hasher.digest(key))
    }

    /// Reports a positive answer that may have been false.
    ///
    /// # Errors
    /// None as long as the remote is in memory.
    pub fn adapt(&mut self, key: impl AsRef<[u8]>) -> Result<Adapted> {
        self.filter.adapt(self.hasher.digest(key))
    }

    /// Makes room for at least `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] when the stored keys do not fit that capacity.
    pub fn grow(&mut self, capacity: usize) -> Result<()> {
        self.filter.grow(capacity)
    }

    /// Rebuilds the filter with new hash functions.
    ///
    /// # Errors
    /// [`Error::Spec`] when the stored keys do not fit with any that were tried.
    pub fn rebuild(&mut self) -> Result<()> {
        self.filter.rebuild()
    }

    /// Verifies every invariant; for tests and fuzzers.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&mut self) -> Result<(), String> {
        self.filter.check()
    }

    /// The hasher: keep it ([`KeyHasher::to_bytes`]) to load what is saved.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Counts and sizes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.filter.stats()
    }

    /// The description that builds a filter like this.
    #[must_use]
    pub fn spec(&self) -> Spec {
        self.filter.spec()
    }

    /// Its bytes, without the hasher's secret.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(SAVED_KIND);
        writer.u64(self.hasher.tag());
        writer.block(&self.filter.save());
        writer.finish()
    }

    /// Loads what [`KeyFilter::save`] wrote, with the hasher that the filter was made with.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are not a saved filter, or were saved with another
    /// hasher.
    pub fn load(bytes: &[u8], hasher: KeyHasher) -> Result<Self> {
        let (tag, filter) = parts(bytes)?;
        if tag != hasher.tag() {
            return Err(Error::format(
                "it was saved with another hasher or secret; load it with the one it was made with",
            ));
        }
        Ok(KeyFilter { hasher, filter: AnyFilter::load(filter)? })
    }

    /// Its bytes with the hasher's secret: whoever has them can look up keys, and make up keys
    /// that collide.
    ///
    /// ```
    /// use twiceshy_filters::KeyFilter;
    /// let mut filter = KeyFilter::new(&"line".parse()?, 100)?;
    /// filter.insert("stored")?;
    /// let bytes = filter.save_with_secret();
    /// assert!(KeyFilter::load_with_secret(&bytes)?.contains("stored"));
    /// assert!(KeyFilter::load_with_secret(&filter.save()).is_err());
    /// # Ok::<(), twiceshy_filters::Error>(())
    /// ```
    #[must_use]
    pub fn save_with_secret(&self) -> Vec<u8> {
        with_secret(&self.hasher, &self.filter.save())
    }

    /// Loads what [`KeyFilter::save_with_secret`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are not such a filter.
    pub fn load_with_secret(bytes: &[u8]) -> Result<Self> {
        let (hasher, filter) = parts_with_secret(bytes)?;
        Ok(KeyFilter { hasher, filter: AnyFilter::load(filter)? })
    }

    /// The filter of digests in what [`KeyFilter::save`] wrote. It can be inspected without the
    /// hasher.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are not a saved filter.
    pub fn load_filter(bytes: &[u8]) -> Result<AnyFilter> {
        let (_, filter) = parts(bytes)?;
        AnyFilter::load(filter)
    }
}

/// The file of a hasher and the bytes of an [`AnyFilter`].
#[must_use]
pub fn with_secret(hasher: &KeyHasher, filter: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(WITH_SECRET);
    writer.block(&hasher.to_bytes());
    writer.block(filter);
    writer.finish()
}

/// What [`with_secret`] put together.
///
/// # Errors
/// [`Error::Format`] for other bytes.
pub fn parts_with_secret(bytes: &[u8]) -> Result<(KeyHasher, &[u8])> {
    let mut reader = Reader::open(bytes)?;
    reader.expect_kind(WITH_SECRET)?;
    let hasher = KeyHasher::from_bytes(reader.block("the hasher")?)?;
    let filter = reader.block("the filter")?;
    reader.finish()?;
    Ok((hasher, filter))
}

/// The hasher's tag and the filter's bytes.
fn parts(bytes: &[u8]) -> Result<(u64, &[u8])> {
    let mut reader = Reader::open(bytes)?;
    reader.expect_kind(SAVED_KIND)?;
    let tag = reader.u64("the hasher's tag")?;
    let filter = reader.block("the filter")?;
    reader.finish()?;
    Ok((tag, filter))
}
