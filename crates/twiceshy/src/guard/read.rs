//! Reading through a guard: ask the filter, then the store, and adapt to a miss.

use std::convert::Infallible;

use twiceshy_filters::{Adapted, Digest};

use super::error::{Error, Result};
use super::open::Guard;
use super::record;
use super::shard::Evidence;
use super::store::Store;

impl<S: Store> Guard<S> {
    /// The value of a key.
    ///
    /// A stored key takes one read of the store, a missing key mostly none. A missing key that
    /// passes the filter takes one read, and the filter adapts to it. (A block whose budget is
    /// spent, and a broom filter that sweeps, read one range more.)
    ///
    /// # Errors
    /// [`Error::Read`] when the store failed; [`Error::Damaged`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.find(key.as_ref(), <[u8]>::to_vec)
    }

    /// Whether a key is stored: an exact answer, like that of [`Guard::get`].
    ///
    /// # Errors
    /// As [`Guard::get`].
    pub fn exists(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.find(key.as_ref(), |_| ())?.is_some())
    }

    /// [`Guard::get`] for many keys. It is faster than one call per key, because it prefetches
    /// the cache lines of the filters.
    ///
    /// # Errors
    /// As [`Guard::get`].
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.for_each_digest(keys, |key, digest| {
            let absent = self.is_absent(digest);
            values.push(if absent { None } else { self.verify(digest, key, <[u8]>::to_vec)? });
            Ok::<_, Error>(())
        })?;
        Ok(values)
    }

    /// [`Guard::get_many`] with bounded memory. `take` sees each value in place and returns what
    /// to keep of it, or `None` to stop. The result has the answers of the keys before that one.
    ///
    /// # Errors
    /// As [`Guard::get`].
    pub fn get_many_while<K: AsRef<[u8]>, T>(
        &self,
        keys: &[K],
        mut take: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Vec<Option<T>>> {
        let mut values = Vec::with_capacity(keys.len());
        let visited = self.for_each_digest(keys, |key, digest| {
            let found = if self.is_absent(digest) {
                None
            } else {
                self.verify(digest, key, &mut take).map_err(Some)?
            };
            match found {
                // `take` said stop, which is no error.
                Some(None) => return Err(None),
                found => values.push(found.flatten()),
            }
            Ok(())
        });
        match visited {
            Ok(()) | Err(None) => Ok(values),
            Err(Some(error)) => Err(error),
        }
    }

    /// Asks the filter alone: `false` means that the key is not stored, `true` that it may be.
    /// A [`Sidecar`](super::Sidecar) that is not built answers `true`.
    ///
    /// For callers that then look in another store; see [`Sidecar`](super::Sidecar). Report
    /// false positives with [`Guard::adapt`].
    #[must_use]
    pub fn contains(&self, key: impl AsRef<[u8]>) -> bool {
        self.contains_digest(self.hasher.digest(key))
    }

    /// [`Guard::contains`] for many keys.
    pub(super) fn contains_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<bool> {
        let mut answers = Vec::with_capacity(keys.len());
        let Ok(()) = self.for_each_digest(keys, |_, digest| {
            answers.push(self.contains_digest(digest));
            Ok::<_, Infallible>(())
        });
        answers
    }

    #[inline(always)]
    fn contains_digest(&self, digest: Digest) -> bool {
        let absent = self.role.is_built() && self.is_absent(digest);
        if !absent {
            self.shard(digest).counters.maybe.add(1);
        }
        !absent
    }

    /// Adapts to a false positive: a key that [`Guard::contains`] answered `true`, and that the
    /// caller did not find. This takes one read of the guard's own store.
    ///
    /// [`Adapted::Stored`] means that the filter was right as far as the guard knows: its own
    /// store has the key. A [`Sidecar`](super::Sidecar) that is not built changes nothing.
    ///
    /// # Errors
    /// [`Error::Read`] when the guard's own store failed.
    pub fn adapt(&self, key: impl AsRef<[u8]>) -> Result<Adapted> {
        if !self.role.is_built() {
            return Ok(Adapted::Unfixed);
        }
        let digest = self.hasher.digest(key);
        let evidence = self.shard(digest).read(digest, &self.store, |_, _| ())?;
        if evidence.proves_stored() {
            return Ok(Adapted::Stored);
        }
        self.adapt_to(digest, evidence)
    }

    /// Whether the guard has lately adapted to a key; see
    /// [`GuardStats::reads_avoided_by_adapting`](super::GuardStats::reads_avoided_by_adapting).
    #[must_use]
    pub fn was_adapted(&self, key: impl AsRef<[u8]>) -> bool {
        let digest = self.hasher.digest(key);
        self.shard(digest).counters.was_adapted(digest)
    }

    /// Visits keys with their digests, in groups: it prefetches the filters' cache lines of a
    /// whole group before it visits the first key.
    #[inline(always)]
    fn for_each_digest<K: AsRef<[u8]>, E>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(&[u8], Digest) -> Result<(), E>,
    ) -> Result<(), E> {
        /// A core has 10 to 16 cache misses in flight, and a block has two cache lines.
        const GROUP: usize = 16;
        for group in keys.chunks(GROUP) {
            let mut digests = [Digest::new([0; 2]); GROUP];
            for (digest, key) in digests.iter_mut().zip(group) {
                *digest = self.hasher.digest(key);
                self.shard(*digest).prefetch(*digest);
            }
            for (key, digest) in group.iter().zip(digests) {
                visit(key.as_ref(), digest)?;
            }
        }
        Ok(())
    }

    /// Asks the filter, and counts an avoided read. Inlined with all that it calls: a digest
    /// that is passed in memory stalls the lookup.
    #[inline(always)]
    fn is_absent(&self, digest: Digest) -> bool {
        let shard = self.shard(digest);
        let absent = !shard.contains(digest);
        if absent {
            shard.counters.avoid_read(digest);
        }
        absent
    }

    fn find<T>(&self, key: &[u8], value: impl FnMut(&[u8]) -> T) -> Result<Option<T>> {
        let digest = self.hasher.digest(key);
        if self.is_absent(digest) { Ok(None) } else { self.verify(digest, key, value) }
    }

    /// Looks in the store for a key that the filter answered "maybe", and adapts if the key is
    /// not there.
    fn verify<T>(
        &self,
        digest: Digest,
        key: &[u8],
        mut value: impl FnMut(&[u8]) -> T,
    ) -> Result<Option<T>> {
        let mut found = None;
        let mut damaged = false;
        let mut see = |record: &[u8]| match record::value(record, key) {
            Ok(stored) => found = stored.map(&mut value),
            Err(record::Damaged) => damaged = true,
        };
        let shard = self.shard(digest);
        if shard.find(digest, &self.store, &mut see)? {
            return if damaged { Err(Error::Damaged { digest }) } else { Ok(found) };
        }
        let evidence = shard.read(digest, &self.store, |other, record| {
            if other == digest {
                see(record);
            }
        })?;
        if !evidence.proves_stored() {
            // The answer stands, whether or not the filter can adapt.
            let _ = self.adapt_to(digest, evidence);
        }
        if damaged { Err(Error::Damaged { digest }) } else { Ok(found) }
    }

    fn adapt_to(&self, digest: Digest, evidence: Evidence) -> Result<Adapted> {
        let shard = self.shard(digest);
        let outcome = shard.adapt(evidence, &self.store);
        // A key that is being stored at this moment is not a false positive.
        if !matches!(outcome, Ok(Some(Adapted::Stored))) {
            shard.counters.false_positives.add(1);
        }
        match outcome? {
            Some(Adapted::Fixed) => {
                shard.counters.adapt(digest);
                Ok(Adapted::Fixed)
            }
            Some(outcome) => Ok(outcome),
            None => {
                shard.counters.postponed.add(1);
                Ok(Adapted::Unfixed)
            }
        }
    }
}
