//! A filter for lookups only.

use std::fmt;

use twiceshy_filters::{Digest, KeyHasher};

use super::chain::Chain;
use super::{Key, Stats, digests};

/// A filter for lookups only, to ship to clients or to share between threads.
///
/// [`Filter::freeze`](super::Filter::freeze) makes it. It answers as the filter did at that
/// moment, exceptions included, and never changes. Its file has the size of its fingerprints,
/// plus 12 bytes per exception and about 300 bytes.
///
/// The file contains the secret of the hash function, because lookups need it. Anyone who has it
/// can construct keys that are false positives.
///
/// ```
/// use twiceshy::{Filter, Frozen};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("blocked");
/// let blocked: Filter = ["ads.example", "malware.example"].into_iter().collect();
/// blocked.freeze().save(&path)?;
///
/// let blocked = Frozen::load(&path)?;
/// assert!(blocked.contains("ads.example"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Frozen {
    pub(super) hasher: KeyHasher,
    pub(super) chain: Chain,
}

impl Frozen {
    pub(super) fn new(hasher: KeyHasher, mut chain: Chain) -> Self {
        chain.shrink();
        Frozen { hasher, chain }
    }

    /// `false`: definitely absent. `true`: maybe present.
    #[inline]
    #[must_use]
    pub fn contains(&self, key: impl Key) -> bool {
        self.chain.peek(key.encode(|bytes| self.hasher.digest(bytes)))
    }

    /// [`Frozen::contains`] for many keys, faster where the filter is larger than the
    /// processor's cache.
    #[must_use]
    pub fn contains_many<K: Key>(&self, keys: &[K]) -> Vec<bool> {
        self.contains_digests(&digests(&self.hasher, keys))
    }

    /// [`Frozen::contains_many`] of digests that its hasher made; for the command line.
    #[doc(hidden)]
    #[must_use]
    pub fn contains_digests(&self, digests: &[Digest]) -> Vec<bool> {
        let mut found = vec![false; digests.len()];
        self.chain.peek_many(digests, &mut found);
        found
    }

    /// About how many keys are stored; see [`Filter::len`](super::Filter::len).
    #[must_use]
    pub fn len(&self) -> usize {
        self.stats().len
    }

    /// Whether it has no key; this is exact.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The hash function and its secret.
    #[must_use]
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Counts and sizes, including all memory that the filter holds.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::of(&self.chain, size_of::<Self>())
    }

    /// Verifies every invariant; for tests and fuzzers.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        self.chain.check()
    }
}

impl fmt::Debug for Frozen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        super::stats::debug("Frozen", &self.hasher, &self.stats(), f)
    }
}
