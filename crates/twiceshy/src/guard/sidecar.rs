//! A guard beside a store that stays as it is.
//!
//! The user's store has its own keys and its own order. What the filter needs of
//! it, the digests in order, is in a store of the guard's own, with empty
//! records: about 16 bytes a key, on a local disk.

use std::future::Future;

use twiceshy_filters::Digest;
use twiceshy_filters::{Error, Result};

use super::{Guard, Store};

/// A store that can be asked for one key.
pub trait Lookup {
    /// What it has for a key.
    type Value;
    /// Why it cannot answer.
    type Error;

    /// The value of a key, or `None`.
    ///
    /// # Errors
    /// Whatever keeps it from answering.
    fn lookup(&self, key: &[u8]) -> Result<Option<Self::Value>, Self::Error>;
}

/// [`Lookup`] for stores that are waited for.
pub trait AsyncLookup {
    /// What it has for a key.
    type Value;
    /// Why it cannot answer.
    type Error;

    /// The value of a key, or `None`.
    ///
    /// # Errors
    /// Whatever keeps it from answering.
    fn lookup(
        &self,
        key: &[u8],
    ) -> impl Future<Output = Result<Option<Self::Value>, Self::Error>> + Send;
}

/// A [`Guard`] that shields a store of somebody else's.
///
/// It has to be told of every key: [`Sidecar::added`] before the store gets it,
/// [`Sidecar::removed`] when the store has removed it or did not take it. Changes
/// of one key come one after the other: a removal that is told late, when the key
/// is stored again, makes the shield deny it.
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
/// let shield = Sidecar::new(guard);
/// shield.added("ada")?;
/// assert_eq!(shield.get("ada", &users), Ok(Some("Ada".to_string())));
/// assert_eq!(shield.get("bob", &users), Ok(None));
/// # Ok::<(), twiceshy::Error>(())
/// ```
pub struct Sidecar<S> {
    guard: Guard<S>,
}

impl<S: Store> Sidecar<S> {
    /// A shield with a guard whose store is its own.
    pub fn new(guard: Guard<S>) -> Self {
        Sidecar { guard }
    }

    /// A key is about to be stored. `false` when it was known.
    ///
    /// # Errors
    /// [`crate::Error::Remote`] when the guard's own store failed; do not store
    /// the key then, or it will be denied.
    pub fn added(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.added_many(&[key])? == 1)
    }

    /// [`Sidecar::added`] for many keys, with one write. Returns how many are
    /// new.
    ///
    /// # Errors
    /// [`crate::Error::Remote`] when the guard's own store failed.
    pub fn added_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize> {
        let digests: Vec<Digest> = keys.iter().map(|key| self.digest(key)).collect();
        self.added_digests(&digests)
    }

    /// [`Sidecar::added_many`] for keys whose digests are at hand.
    ///
    /// # Errors
    /// [`crate::Error::Remote`] when the guard's own store failed.
    pub fn added_digests(&self, digests: &[Digest]) -> Result<usize> {
        self.guard.write(digests.iter().map(|&digest| (digest, Vec::new())).collect())
    }

    /// A key is stored no longer. `false` when it was not known.
    ///
    /// # Errors
    /// [`crate::Error::Remote`] when the guard's own store failed.
    pub fn removed(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.guard.remove(key)
    }

    /// [`Sidecar::removed`] for many keys by their digests, with one write.
    /// Returns how many were known.
    ///
    /// # Errors
    /// [`crate::Error::Remote`] when the guard's own store failed.
    pub fn removed_many(&self, digests: &[Digest]) -> Result<usize> {
        self.guard.remove_digests(digests)
    }

    /// The digest that the guard knows a key by.
    pub fn digest(&self, key: impl AsRef<[u8]>) -> Digest {
        self.guard.hasher.digest(key)
    }

    /// Whether the sidecar was told of a key, by its digest, and exactly: one read of
    /// the guard's own store, unless the filter knows better. It counts as no query.
    ///
    /// # Errors
    /// [`crate::Error::Remote`] when the guard's own store failed.
    pub fn knows(&self, digest: Digest) -> Result<bool> {
        if !self.guard.shard(digest).contains(digest) {
            return Ok(false);
        }
        let mut known = false;
        self.guard.store.read(digest..=digest, &mut |_, _| known = true).map_err(Error::Remote)?;
        Ok(known)
    }

    /// Whether the store may have each of these keys: for who asks it then, and
    /// calls [`Guard::disprove`] for those it does not have.
    pub fn may_contain_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<bool> {
        self.guard.may_contain_many(keys)
    }

    /// The value of a key; the store is asked only if it may have it. What keeps
    /// the guard's own store from a lesson costs a read the next time, no answer.
    ///
    /// # Errors
    /// The store's own.
    pub fn get<L: Lookup>(
        &self,
        key: impl AsRef<[u8]>,
        store: &L,
    ) -> Result<Option<L::Value>, L::Error> {
        let key = key.as_ref();
        if !self.guard.may_contain(key) {
            return Ok(None);
        }
        let found = store.lookup(key)?;
        if found.is_none() {
            let _ = self.guard.disprove(key);
        }
        Ok(found)
    }

    /// [`Sidecar::get`], waiting for nothing but the store; the guard's own read,
    /// when the store had nothing, is short and made in place.
    ///
    /// # Errors
    /// The store's own.
    pub async fn get_async<L: AsyncLookup>(
        &self,
        key: impl AsRef<[u8]>,
        store: &L,
    ) -> Result<Option<L::Value>, L::Error> {
        let key = key.as_ref();
        if !self.guard.may_contain(key) {
            return Ok(None);
        }
        let found = store.lookup(key).await?;
        if found.is_none() {
            let _ = self.guard.disprove(key);
        }
        Ok(found)
    }

    /// The guard, for its counts, snapshots and invariants.
    pub fn guard(&self) -> &Guard<S> {
        &self.guard
    }
}
