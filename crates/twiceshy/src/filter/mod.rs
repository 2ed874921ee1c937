//! A filter of keys in memory.

mod base;
mod builder;
mod chain;
mod exceptions;
mod file;
mod fingerprints;
mod frozen;
mod key;
mod layer;
mod saved;
#[cfg(feature = "serde")]
mod serde;
mod stats;

use std::fmt;

use twiceshy_filters::{Digest, KeyHasher, Result};

use chain::Chain;

pub use builder::{Builder, DEFAULT_RATE};
pub use fingerprints::Kind;
pub use frozen::Frozen;
pub use key::Key;
#[doc(hidden)]
pub use saved::kind_of;
pub use stats::Stats;

/// An approximate set of keys in memory, about 13 bits per key.
///
/// It answers "definitely absent" or "maybe present", and never "absent" for a key that was
/// inserted. When your store does not have a key that was answered "maybe", report it with
/// [`Filter::adapt`]: the filter answers "absent" to that key from then on.
///
/// ```
/// use twiceshy::Filter;
///
/// let mut filter = Filter::builder().capacity(1_000_000).rate(0.001).build()?;
/// filter.insert("stored key");
/// assert!(filter.contains("stored key"));
/// if filter.contains("missing key") {
///     filter.adapt("missing key"); // you looked: your store does not have it
/// }
/// assert!(!filter.contains("missing key"));
/// # Ok::<(), twiceshy::Error>(())
/// ```
///
/// [`Key`] lists the types of keys. Lookups take a shared reference and never wait, so any
/// number of threads can look up keys at once; `insert` and `adapt` take an exclusive reference.
///
/// # What adapting is good for
///
/// The filter keeps reported keys as *exceptions* in a small table of fixed size: by default
/// half a bit per key, or 4,880 exceptions for a million keys. A lookup consults the table only
/// after a "maybe". Exceptions in use stay; unused ones make room for others. Inserting a key
/// removes its exception.
///
/// Exceptions help with skewed traffic and repeats: on seven recorded traces, with a tenth of
/// the keys stored, the default filter caused 153 wasted reads per million misses where a static
/// filter of the same memory (13.0 bits per key) caused 1,343. With 12.5 bits per key it was 419
/// and 3,133. (Geometric means; `cargo run -p twiceshy-lab --example exceptions`.)
///
/// **They do not protect against an attacker** who collects more false positives than the table
/// holds and repeats them in turn: measured, 68 to 99 % of the attacker's queries get through.
/// Use a [`Guard`](crate::Guard) or a [`Sidecar`](crate::Sidecar) against attackers: they keep
/// the digests of their keys on disk, and the rate of their filters holds.
///
/// **Report absent keys only.** The filter cannot tell a stored key from an absent one, and
/// `adapt` of a stored key hides it until it is inserted again or its exception is pushed
/// out. The exception of one key hides no other: the probability that this ever happens to
/// any of 10^9 stored keys within 10^9 adaptations is below 10^-15 (1.4 * 10^-17 with half a
/// bit per key).
///
/// # More keys than its capacity
///
/// The filter has no copy of its keys, so it cannot be rebuilt. When it is full, it adds a
/// second filter of twice the size, then a third, and so on. The false-positive rate stays
/// within the one you asked for, but a lookup of an absent key searches all of them, and each
/// takes more bits per key than the last: by default 12.5, then 17.9, then 18.9. A good estimate of the capacity avoids that;
/// [`Stats::layers`] counts them.
///
/// Keys cannot be removed one by one: [`Filter::clear`] removes them all. Where keys come and
/// go, use a [`Guard`](crate::Guard) or a [`Sidecar`](crate::Sidecar).
#[derive(Clone)]
pub struct Filter {
    hasher: KeyHasher,
    chain: Chain,
}

impl Filter {
    /// An empty filter for `capacity` keys that answers "maybe" to one absent key in 500 the
    /// first time ([`DEFAULT_RATE`]).
    ///
    /// # Errors
    /// [`Error::Spec`](crate::filters::Error::Spec) for a capacity of zero, or of more than 170 * 10^9.
    pub fn new(capacity: usize) -> Result<Self> {
        Self::builder().capacity(capacity).build()
    }

    /// Configures a filter: `capacity`, then `rate` or `bits_per_key`, then `build`.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// `false`: definitely absent. `true`: maybe present.
    #[inline]
    #[must_use]
    pub fn contains(&self, key: impl Key) -> bool {
        self.chain.contains(self.digest(key))
    }

    /// [`Filter::contains`] for many keys, faster where the filter is larger than the
    /// processor's cache.
    #[must_use]
    pub fn contains_many<K: Key>(&self, keys: &[K]) -> Vec<bool> {
        self.contains_digests(&digests(&self.hasher, keys))
    }

    /// [`Filter::contains`] without noting that an exception is in use: a lookup that changes
    /// nothing at all. Copies of a filter that get the same insertions and adaptations stay equal,
    /// whatever lookups each of them gets; but exceptions in use do not outlive others.
    #[inline]
    #[must_use]
    pub fn peek(&self, key: impl Key) -> bool {
        self.chain.peek(self.digest(key))
    }

    /// [`Filter::peek`] for many keys.
    #[must_use]
    pub fn peek_many<K: Key>(&self, keys: &[K]) -> Vec<bool> {
        let mut found = vec![false; keys.len()];
        self.chain.peek_many(&digests(&self.hasher, keys), &mut found);
        found
    }

    /// Adds a key, and removes its exception. `false` when the filter already answered "maybe":
    /// the key was stored before, or it was a false positive and needs no fingerprint of its
    /// own.
    pub fn insert(&mut self, key: impl Key) -> bool {
        self.chain.insert(self.digest(key))
    }

    /// [`Filter::insert`], unless the filter would have to grow to more than so many bytes. With 0
    /// it does not grow at all.
    ///
    /// ```
    /// use twiceshy::{Filter, filters::Error};
    /// let mut filter = Filter::new(100)?;
    /// let full = (0..1000).find_map(|number| filter.insert_within(number, 0).err());
    /// assert!(matches!(full, Some(Error::Full { len: 100, .. })));
    /// # Ok::<(), twiceshy::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Full`](crate::filters::Error::Full); nothing has changed.
    pub fn insert_within(&mut self, key: impl Key, most_bytes: usize) -> Result<bool> {
        let digest = self.digest(key);
        self.chain.insert_within(digest, most_bytes.saturating_sub(size_of::<Self>()))
    }

    /// Reports that a key which the filter answered "maybe" is not stored. The filter answers
    /// "absent" from now on, until the key is inserted or its exception makes room for others.
    ///
    /// `false` when it already answers "absent", or was built without exceptions.
    ///
    /// ```
    /// let mut filter = twiceshy::Filter::new(1000)?;
    /// (0..1000).for_each(|number| drop(filter.insert(number)));
    /// let wrong = (1000..).find(|number| filter.contains(number)).expect("one in 500");
    /// assert!(filter.adapt(wrong) && !filter.contains(wrong));
    /// filter.insert(wrong);
    /// assert!(filter.contains(wrong));
    /// # Ok::<(), twiceshy::Error>(())
    /// ```
    pub fn adapt(&mut self, key: impl Key) -> bool {
        self.chain.adapt(self.digest(key))
    }

    /// About how many keys are stored. Keys that were false positives when they were inserted
    /// are not counted: a share of at most the filter's rate.
    #[must_use]
    pub fn len(&self) -> usize {
        self.chain.layers().map(layer::Layer::len).sum()
    }

    /// Whether no key was inserted; this is exact.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes all keys and exceptions. Keeps the memory of the largest filter of a chain, and
    /// frees the others.
    pub fn clear(&mut self) {
        self.chain.clear();
    }

    /// Adds the keys of another filter with the same hasher. From then on, this filter answers
    /// "maybe" exactly where one of the two did: exceptions of either stay. It becomes a chain of
    /// both, so its rate and its memory are those of both together.
    ///
    /// ```
    /// use twiceshy::Filter;
    /// let mut today: Filter = ["ada"].into_iter().collect();
    /// let mut later = Filter::builder().capacity(1).hasher(today.hasher().clone()).build()?;
    /// later.insert("bob");
    /// today.absorb(later)?;
    /// assert!(today.contains("ada") && today.contains("bob"));
    /// # Ok::<(), twiceshy::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Spec`](crate::filters::Error::Spec) for a filter with another hasher or secret;
    /// nothing has changed.
    pub fn absorb(&mut self, other: Filter) -> Result<()> {
        if self.hasher != other.hasher {
            let reason = "two filters can be joined only if they have the same hasher and secret";
            return Err(twiceshy_filters::Error::spec("another hasher", reason));
        }
        self.chain.absorb(other.chain);
        Ok(())
    }

    /// Removes all exceptions, and resizes the table to so many bits per key.
    ///
    /// # Errors
    /// [`Error::Spec`](crate::filters::Error::Spec) for a size that a table cannot have; nothing has
    /// changed.
    pub fn reset_exceptions(&mut self, bits_per_key: f64) -> Result<()> {
        self.chain.reset_exceptions(builder::checked_exceptions(bits_per_key)?);
        Ok(())
    }

    /// Turns the filter into one for lookups only, to ship to clients or to share.
    #[must_use]
    pub fn freeze(self) -> Frozen {
        Frozen::new(self.hasher, self.chain)
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

    /// [`Filter::insert`] of a digest that its hasher made; for the command line, which sorts
    /// digests.
    #[doc(hidden)]
    pub fn insert_digest(&mut self, digest: Digest) -> bool {
        self.chain.insert(digest)
    }

    /// [`Filter::adapt`] likewise.
    #[doc(hidden)]
    pub fn adapt_digest(&mut self, digest: Digest) -> bool {
        self.chain.adapt(digest)
    }

    /// [`Filter::contains`] likewise.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub fn contains_digest(&self, digest: Digest) -> bool {
        self.chain.contains(digest)
    }

    /// [`Filter::contains_many`] likewise.
    #[doc(hidden)]
    #[must_use]
    pub fn contains_digests(&self, digests: &[Digest]) -> Vec<bool> {
        let mut found = vec![false; digests.len()];
        self.answer_digests(digests, &mut found);
        found
    }

    /// [`Filter::contains_digests`] into memory of the caller's.
    ///
    /// # Panics
    /// If there are not as many answers as digests.
    #[doc(hidden)]
    pub fn answer_digests(&self, digests: &[Digest], found: &mut [bool]) {
        self.chain.contains_many(digests, found);
    }

    #[inline]
    fn digest(&self, key: impl Key) -> Digest {
        key.encode(|bytes| self.hasher.digest(bytes))
    }
}

/// The digests of many keys.
fn digests<K: Key>(hasher: &KeyHasher, keys: &[K]) -> Vec<Digest> {
    keys.iter().map(|key| key.encode(|bytes| hasher.digest(bytes))).collect()
}

impl<K: Key> Extend<K> for Filter {
    fn extend<I: IntoIterator<Item = K>>(&mut self, keys: I) {
        keys.into_iter().for_each(|key| {
            self.insert(key);
        });
    }
}

/// A filter with the default rate, sized for the number of keys. Building it takes 16 more bytes
/// per key; a [`Builder`] with a capacity avoids that.
impl<K: Key> FromIterator<K> for Filter {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        let hasher = KeyHasher::random();
        let digest = |key: K| key.encode(|bytes| hasher.digest(bytes));
        let digests: Vec<Digest> = keys.into_iter().map(digest).collect();
        let builder = Self::builder().capacity(digests.len().max(1)).hasher(hasher);
        let mut filter = builder.build().expect("as many keys as there were digests in memory");
        for digest in digests {
            filter.chain.insert(digest);
        }
        filter
    }
}

/// Equal filters have the same hasher and answer every query alike, now and after the same
/// changes. Two filters of the same keys need not be equal: what a filter stores depends on the
/// order of insertions.
impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.hasher == other.hasher && self.chain == other.chain
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        stats::debug("Filter", &self.hasher, &self.stats(), f)
    }
}

const _: () = {
    const fn shared_between_threads<T: Send + Sync>() {}
    shared_between_threads::<Filter>();
    shared_between_threads::<Frozen>();
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a filter, of one that has grown, and of one that is frozen.
    #[test]
    fn every_form_of_a_question_has_one_answer() {
        for (kind, stored) in [Kind::Line, Kind::Plain, Kind::Rsqf]
            .into_iter()
            .flat_map(|kind| [(kind, 90_u64), (kind, 900)])
        {
            let builder = Filter::builder().capacity(100).rate(0.05).kind(kind).exceptions(100.0);
            let mut filter = builder.hasher(KeyHasher::fast(5)).build().expect("good numbers");
            assert!(filter.is_empty() && !filter.contains(1_u64));
            let mut new = 0;
            for key in 0..stored {
                new += usize::from(filter.insert(key));
                assert!(!filter.insert(key), "{kind:?}: it was stored");
            }
            let stats = filter.stats();
            assert_eq!((filter.len(), stats.len, stats.exceptions), (new, new, 0));
            assert!(!filter.is_empty() && (stats.layers > 1) == (stored > 100), "{stats:?}");
            let keys: Vec<u64> = (0..40_000).collect();
            let share = keys.iter().filter(|key| **key >= stored && filter.peek(**key)).count();
            // Six standard deviations are 0.007 at most; formulas for small filters are rough.
            let off = share as f64 / (40_000 - stored) as f64 - stats.rate;
            assert!(off.abs() < 0.007 + 0.2 * stats.rate, "{kind:?}, {stored}: {off}, {stats:?}");

            let wrong = |filter: &Filter| {
                (stored..).find(|&key| filter.contains(key)).expect("there is no end of keys")
            };
            for adapted in 0..10 {
                let key = wrong(&filter);
                if adapted % 2 == 0 {
                    assert!(filter.adapt(key) && !filter.adapt(key));
                } else {
                    let digest = filter.digest(key);
                    assert!(filter.adapt_digest(digest) && !filter.adapt_digest(digest));
                }
                assert!(!filter.contains(key) && !filter.peek(key));
                assert!(filter.stats().exceptions > adapted);
            }
            let digests = digests(&filter.hasher, &keys);
            let answers: Vec<bool> = keys.iter().map(|&key| filter.contains(key)).collect();
            assert!(answers[..stored as usize].iter().all(|&answer| answer), "{kind:?}");
            let mut given = vec![false; keys.len()];
            filter.answer_digests(&digests, &mut given);
            let one_by_one = |ask: &dyn Fn(usize) -> bool| (0..keys.len()).map(ask).collect();
            for (form, others) in [
                given,
                filter.contains_many(&keys),
                filter.peek_many(&keys),
                filter.contains_digests(&digests),
                one_by_one(&|at| filter.peek(keys[at])),
                one_by_one(&|at| filter.contains_digest(digests[at])),
            ]
            .into_iter()
            .enumerate()
            {
                assert!(others == answers, "{kind:?}: form {form}");
            }
            let len = filter.len();
            let mut cleared = filter.clone();
            cleared.clear();
            assert!(
                cleared.is_empty()
                    && cleared.stats().exceptions == 0
                    && cleared.stats().layers == 1
            );
            assert!(!cleared.contains_many(&keys).contains(&true), "{kind:?}");
            let frozen = filter.freeze();
            assert_eq!((frozen.len(), frozen.is_empty(), frozen.stats().len), (len, false, len));
            for (form, others) in [
                frozen.contains_many(&keys),
                frozen.contains_digests(&digests),
                one_by_one(&|at| frozen.contains(keys[at])),
            ]
            .into_iter()
            .enumerate()
            {
                assert!(others == answers, "{kind:?}: frozen form {form}");
            }
            assert!(cleared.freeze().is_empty());
        }
    }
}
