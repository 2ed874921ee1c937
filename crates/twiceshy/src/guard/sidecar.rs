//! [`Sidecar`]: a guard beside a store that stays as it is.
//!
//! The user's store has its own keys in its own order. The filter needs their digests in order;
//! these are in a store of the guard's own, with empty records. They take about 16 bytes per key
//! on a local disk.

use std::future::Future;
use std::sync::atomic::AtomicBool;

use twiceshy_filters::{Adapted, Digest};

use super::error::{Error, Result};
use super::open::Guard;
use super::role::Role;
use super::store::{Mark, Store};

/// A store that can look up a key.
pub trait Lookup {
    /// The value of a key.
    type Value;
    /// The error of a lookup.
    type Error;

    /// The value of a key, or `None`.
    ///
    /// # Errors
    /// The store's reason why it cannot answer.
    fn lookup(&self, key: &[u8]) -> Result<Option<Self::Value>, Self::Error>;
}

/// [`Lookup`] for asynchronous stores.
pub trait AsyncLookup {
    /// The value of a key.
    type Value;
    /// The error of a lookup.
    type Error;

    /// The value of a key, or `None`.
    ///
    /// # Errors
    /// The store's reason why it cannot answer.
    fn lookup(
        &self,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Self::Value>, Self::Error>> + Send;
}

/// A [`Guard`] for a store that it does not own.
///
/// Report every key: call [`Sidecar::added`] before the store gets the key, and
/// [`Sidecar::removed`] after the store has removed or rejected it. Report the changes of one key
/// in their order. If a removal is reported after the key was stored again, the sidecar denies
/// the key.
///
/// A new sidecar answers "maybe" to every key, until [`Sidecar::built`] says that it has all keys of
/// the store: a sidecar that was lost must not deny them.
///
/// ```
/// use std::collections::HashMap;
/// use twiceshy::guard::{GuardOptions, Lookup, MemoryStore};
/// use twiceshy::{Guard, KeyHasher, Sidecar};
///
/// struct Users(HashMap<Vec<u8>, String>);
/// impl Lookup for Users {
///     type Value = String;
///     type Error = std::convert::Infallible;
///     fn lookup(&self, key: &[u8]) -> Result<Option<String>, Self::Error> {
///         Ok(self.0.get(key).cloned()) // a query over the network, say
///     }
/// }
/// let users = Users(HashMap::from([(b"ada".to_vec(), "Ada".to_string())]));
///
/// let guard = Guard::open(MemoryStore::default(), KeyHasher::random(), &GuardOptions::default())?;
/// let sidecar = Sidecar::new(guard);
/// sidecar.added("ada")?;
/// sidecar.built(); // these are all keys that the store has
/// assert_eq!(sidecar.get("ada", &users), Ok(Some("Ada".to_string())));
/// assert_eq!(sidecar.get("bob", &users), Ok(None));
/// # Ok::<(), twiceshy::Error>(())
/// ```
pub struct Sidecar<S> {
    guard: Guard<S>,
}

impl<S: Store> Sidecar<S> {
    /// A sidecar with this guard, whose store holds only digests. It is not built.
    pub fn new(mut guard: Guard<S>) -> Self {
        guard.role = Role::Sidecar { built: AtomicBool::new(false) };
        Sidecar { guard }
    }

    /// Declares that every key of the store has been reported, or that the store is empty: from
    /// now on, keys that were not reported are answered "absent".
    ///
    /// Call this when a scan of the store has reported its keys, and never just because the
    /// program starts: the sidecar may have been lost, and would then deny every key.
    pub fn built(&self) {
        self.guard.role.set_built();
    }

    /// Whether the sidecar has been declared [built](Sidecar::built).
    pub fn is_built(&self) -> bool {
        self.guard.role.is_built()
    }

    /// Reports a key that is about to be stored. Returns whether the key is new.
    ///
    /// # Errors
    /// [`Error`] when the guard's own store failed. Do not store the key then, or the sidecar may
    /// deny it.
    pub fn added(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.added_many(&[key])? == 1)
    }

    /// [`Sidecar::added`] for many keys, with one write. Returns the number of new keys.
    ///
    /// # Errors
    /// As [`Sidecar::added`].
    pub fn added_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize> {
        let digests: Vec<Digest> = keys.iter().map(|key| self.digest(key)).collect();
        self.added_digests(&digests)
    }

    /// [`Sidecar::added_many`] by digests.
    ///
    /// # Errors
    /// As [`Sidecar::added`].
    pub fn added_digests(&self, digests: &[Digest]) -> Result<usize> {
        self.guard.write(empty_records(digests), &[])
    }

    /// Reports a key that is no longer stored. Returns whether the sidecar had it.
    ///
    /// # Errors
    /// [`Error`] when the guard's own store failed; call this again later.
    pub fn removed(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.guard.remove(key)
    }

    /// [`Sidecar::removed`] for many keys by their digests, with one write. Returns how many of
    /// them the sidecar had.
    ///
    /// # Errors
    /// As [`Sidecar::removed`].
    pub fn removed_many(&self, digests: &[Digest]) -> Result<usize> {
        self.removed_marked(digests, &[])
    }

    /// [`Sidecar::removed_many`], and marks that go to disk with it.
    ///
    /// # Errors
    /// As [`Sidecar::removed`].
    pub fn removed_marked(&self, digests: &[Digest], marks: &[Mark]) -> Result<usize> {
        self.guard.remove_digests(digests, marks)
    }

    /// [`Sidecar::added_digests`], then [`Sidecar::removed_many`], and marks that go to disk with
    /// the last of them: how far the sidecar has followed the store's log. After a crash
    /// [`Sidecar::mark`] is at or before what the sidecar knows.
    ///
    /// # Errors
    /// [`Error`] when the guard's own store failed: call this again with the same changes.
    pub fn follow(&self, added: &[Digest], removed: &[Digest], marks: &[Mark]) -> Result<()> {
        let last = if removed.is_empty() { marks } else { &[] };
        self.guard.write(empty_records(added), last)?;
        if !removed.is_empty() {
            self.guard.remove_digests(removed, marks)?;
        }
        Ok(())
    }

    /// What was last written under this name.
    ///
    /// # Errors
    /// [`Error::Read`] when the guard's own store failed.
    pub fn mark(&self, name: &str) -> Result<Option<u64>> {
        self.guard.store.mark(name).map_err(Error::Read)
    }

    /// The digest of a key.
    pub fn digest(&self, key: impl AsRef<[u8]>) -> Digest {
        self.guard.hasher.digest(key)
    }

    /// Whether the sidecar has a digest: an exact answer. This takes one read of the guard's own
    /// store, or none if the filter answers "absent". It does not count as a query.
    ///
    /// # Errors
    /// [`Error::Read`] when the guard's own store failed.
    pub fn exists(&self, digest: Digest) -> Result<bool> {
        if !self.guard.shard(digest).contains(digest) {
            return Ok(false);
        }
        let mut found = false;
        self.guard.store.read(digest..=digest, &mut |_, _| found = true).map_err(Error::Read)?;
        Ok(found)
    }

    /// [`Guard::contains`] for many keys. Look up the keys with `true` in the store, and call
    /// [`Guard::adapt`] for those that it does not have.
    pub fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<bool> {
        self.guard.contains_many(keys)
    }

    /// Counts lookups that were made in the store without asking the filter.
    pub fn count_unfiltered<K: AsRef<[u8]>>(&self, keys: &[K]) {
        for key in keys {
            self.guard.shard(self.digest(key)).counters.maybe.add(1);
        }
    }

    /// Counts a read of the store that is not part of a lookup: a second look, for example.
    pub fn count_read(&self, digest: Digest) {
        self.guard.shard(digest).counters.further_reads.add(1);
    }

    /// Counts a key that was removed because the store was found to have lost it:
    /// [`GuardStats::vanished`](super::GuardStats::vanished).
    pub fn count_vanished(&self, digest: Digest) {
        self.guard.shard(digest).counters.vanished.add(1);
    }

    /// Counts a lookup of a key that the sidecar has and the store does not, for which
    /// [`Guard::adapt`] returned [`Adapted::Stored`].
    pub fn count_false_positive(&self, digest: Digest) {
        self.guard.shard(digest).counters.false_positives.add(1);
    }

    /// The value of a key. It looks in the store only if the filter answers "maybe", and adapts
    /// if the store does not have the key. If the guard's own store fails, the filter does not
    /// adapt this time, and the answer is still correct.
    ///
    /// # Errors
    /// The error of the lookup.
    pub fn get<L: Lookup>(
        &self,
        key: impl AsRef<[u8]>,
        store: &L,
    ) -> Result<Option<L::Value>, L::Error> {
        let key = key.as_ref();
        if !self.guard.contains(key) {
            return Ok(None);
        }
        let found = store.lookup(key)?;
        if found.is_none() {
            self.missed(key);
        }
        Ok(found)
    }

    /// [`Sidecar::get`] with an asynchronous lookup. Adapting reads the guard's own store in place,
    /// which blocks for one short read.
    ///
    /// # Errors
    /// The error of the lookup.
    pub async fn get_async<L: AsyncLookup>(
        &self,
        key: impl AsRef<[u8]>,
        store: &L,
    ) -> Result<Option<L::Value>, L::Error> {
        let key = key.as_ref();
        if !self.guard.contains(key) {
            return Ok(None);
        }
        let found = store.lookup(key).await?;
        if found.is_none() {
            self.missed(key);
        }
        Ok(found)
    }

    /// Adapts to a key that the store does not have. It is not forgotten if the sidecar has it:
    /// the caller may have reported it, and be about to store it.
    fn missed(&self, key: &[u8]) {
        if matches!(self.guard.adapt(key), Ok(Adapted::Stored)) {
            self.count_false_positive(self.digest(key));
        }
    }

    /// The guard, for its statistics, snapshots and checks.
    pub fn guard(&self) -> &Guard<S> {
        &self.guard
    }
}

fn empty_records(digests: &[Digest]) -> Vec<(Digest, Vec<u8>)> {
    digests.iter().map(|&digest| (digest, Vec::new())).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use twiceshy_filters::KeyHasher;
    use twiceshy_filters::internals::Rng;

    use super::*;
    use crate::guard::options::GuardOptions;
    use crate::guard::store::MemoryStore;

    /// Reports of every kind against a set of the keys.
    #[test]
    fn a_sidecar_agrees_with_a_set() {
        let store = Arc::new(MemoryStore::default());
        let options = GuardOptions::default().capacity(40).shard_bits(2);
        let guard = Guard::open(store.clone(), KeyHasher::fast(1), &options).expect("empty");
        let (sidecar, mut rng) = (Sidecar::new(guard), Rng::new(1));
        let (mut keys, mut marked) = (BTreeSet::new(), None);
        let digests = |keys: &[String]| -> Vec<Digest> {
            keys.iter().map(|key| sidecar.digest(key)).collect()
        };
        for step in 0..3000 {
            let mut some = || -> Vec<String> {
                (0..rng.below(4)).map(|_| rng.below(200).to_string()).collect()
            };
            let (here, gone) = (some(), some());
            let one = some().pop().unwrap_or_default();
            let added = |keys: &mut BTreeSet<String>, new: &[String]| {
                new.iter().filter(|key| keys.insert((*key).clone())).count()
            };
            let removed = |keys: &mut BTreeSet<String>, old: &[String]| {
                old.iter().filter(|key| keys.remove(*key)).count()
            };
            let marks = [("a", step)];
            match step % 7 {
                0 => assert_eq!(sidecar.added(&one).expect("in memory"), keys.insert(one)),
                1 => assert_eq!(sidecar.added_many(&here).expect("ok"), added(&mut keys, &here)),
                2 => {
                    let new = sidecar.added_digests(&digests(&here)).expect("in memory");
                    assert_eq!(new, added(&mut keys, &here));
                }
                3 => assert_eq!(sidecar.removed(&one).expect("in memory"), keys.remove(&one)),
                4 => {
                    let old = sidecar.removed_many(&digests(&gone)).expect("in memory");
                    assert_eq!(old, removed(&mut keys, &gone));
                }
                5 => {
                    let old = sidecar.removed_marked(&digests(&gone), &marks).expect("in memory");
                    assert_eq!(old, removed(&mut keys, &gone));
                    marked = Some(step);
                }
                _ => {
                    sidecar.follow(&digests(&here), &digests(&gone), &marks).expect("in memory");
                    added(&mut keys, &here);
                    removed(&mut keys, &gone);
                    marked = Some(step);
                }
            }
            assert_eq!(sidecar.mark("a").expect("in memory"), marked, "step {step}");
            assert_eq!(store.count().expect("in memory"), keys.len() as u64, "step {step}");
        }
        let all: Vec<String> = (0..20_000).map(|key: u32| key.to_string()).collect();
        assert_eq!(sidecar.contains_many(&all), vec![true; all.len()], "it is not built");
        sidecar.built();
        let answers = sidecar.contains_many(&all);
        let before = sidecar.guard().stats();
        let mut wrong = 0;
        for (key, answer) in all.iter().zip(answers) {
            let known = sidecar.exists(sidecar.digest(key)).expect("in memory");
            assert_eq!(known, keys.contains(key), "{key}");
            assert!(answer || !known, "{key} is denied");
            wrong += usize::from(answer && !known);
        }
        assert!((1..2000).contains(&wrong), "{wrong} false positives");
        let stats = sidecar.guard().stats();
        assert_eq!((stats.queries, stats.keys), (before.queries, keys.len() as u64));
        assert_eq!(sidecar.guard().check(), Ok(0));
    }

    /// A key that was reported and is not in the store is a false positive, and stays known.
    #[test]
    fn a_key_that_the_store_has_lost_is_counted() {
        struct Nothing;
        impl Lookup for Nothing {
            type Value = ();
            type Error = std::convert::Infallible;
            fn lookup(&self, _: &[u8]) -> Result<Option<()>, Self::Error> {
                Ok(None)
            }
        }
        let options = GuardOptions::default().capacity(40);
        let guard = Guard::open(MemoryStore::default(), KeyHasher::fast(1), &options);
        let sidecar = Sidecar::new(guard.expect("empty"));
        assert!(sidecar.added("lost").expect("in memory"));
        sidecar.built();
        for lookups in 1..4 {
            assert_eq!(sidecar.get("lost", &Nothing), Ok(None));
            let stats = sidecar.guard().stats();
            assert_eq!((stats.false_positives, stats.vanished, stats.adapted), (lookups, 0, 0));
            assert_eq!(
                (stats.queries, stats.store_reads, stats.sidecar_reads),
                (lookups, lookups, 1 + lookups)
            );
        }
        assert!(sidecar.exists(sidecar.digest("lost")).expect("in memory"));
        sidecar.count_vanished(sidecar.digest("lost"));
        assert_eq!(sidecar.guard().stats().vanished, 1);
    }
}
