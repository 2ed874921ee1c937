//! [`Writer`]: the right to store and remove keys of a shard.

use std::sync::PoisonError;

use twiceshy_filters::Digest;
use twiceshy_filters::internals::{OrderedFilter, load_ordered};
use twiceshy_filters::remote::EVERY_DIGEST;

use super::lookup::{Evidence, Shard};
use super::staged::Staged;
use crate::guard::error::{Error, Result};
use crate::guard::store::Store;
use crate::guard::sync::{MutexGuard, Ordering};

/// The right to store and remove keys of a shard.
pub(crate) struct Writer<'a> {
    shard: &'a Shard,
    _lock: MutexGuard<'a, ()>,
}

impl Drop for Writer<'_> {
    /// Pending digests have been written, or the write has failed: from now on the store alone
    /// says which.
    fn drop(&mut self) {
        let mut filter = self.shard.lock_filter();
        if !filter.pending.is_empty() {
            filter.pending.clear();
            filter.outdate_reads();
        }
    }
}

impl Shard {
    /// Waits for the right to store and remove keys. Until the writer uses it, the store and the
    /// filter have the same keys.
    pub(crate) fn writer(&self) -> Writer<'_> {
        let lock = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        Writer { shard: self, _lock: lock }
    }
}

impl Writer<'_> {
    /// Adds the fingerprint of a digest, before the store gets its record. Returns whether the
    /// digest is new. A full filter grows.
    pub(crate) fn insert(&mut self, mut evidence: Evidence, store: &impl Store) -> Result<bool> {
        let mut filter = self.shard.lock_filter();
        filter.add_pending(&evidence.range, &mut evidence.digests);
        if evidence.proves_stored() {
            return Ok(false);
        }
        let inner = evidence.inner;
        let insert =
            |filter: &mut dyn OrderedFilter, remote: &mut Staged| filter.insert(inner, remote);
        let Shard { keys, capacity, .. } = self.shard;
        let mut room = capacity.load(Ordering::Relaxed);
        if keys.load(Ordering::Relaxed) >= room {
            filter.grow(room, store)?;
        }
        let mut outcome = filter.modify(evidence.staged(), store, insert);
        while let Err(Error::Filter(twiceshy_filters::Error::Full { .. })) = outcome {
            filter.grow(room, store)?;
            outcome = filter.modify(Staged::default(), store, insert);
            room = capacity.load(Ordering::Relaxed);
            room += room / 2 + 1;
        }
        outcome?;
        keys.fetch_add(1, Ordering::Relaxed);
        filter.pending.insert(inner);
        Ok(true)
    }

    /// Announces that the store is about to remove the record of a digest.
    pub(crate) fn begin_removal(&mut self, digest: Digest) {
        self.shard.lock_filter().pending.insert(self.shard.shard_range.inner(digest));
    }

    /// Removes the fingerprint of a digest whose record the store has removed. The evidence was
    /// read after that.
    pub(crate) fn remove(&mut self, mut evidence: Evidence, store: &impl Store) -> Result<()> {
        let mut filter = self.shard.lock_filter();
        filter.add_pending(&evidence.range, &mut evidence.digests);
        let inner = evidence.inner;
        filter.modify(evidence.staged(), store, |filter, remote| filter.remove(inner, remote))?;
        filter.pending.remove(&inner);
        filter.outdate_reads();
        self.shard.keys.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Verifies the filter against the store. Returns the number of fingerprints without a key.
    pub(crate) fn check(&self, store: &impl Store) -> Result<u64, String> {
        let filter = self.shard.lock_filter();
        let digests = filter.digests(&EVERY_DIGEST, store).map_err(|error| error.to_string())?;
        self.shard.with_filter(|filter| {
            if let Some(denied) = digests.iter().find(|digest| !filter.contains(**digest)) {
                return Err(format!("{denied:?} is stored, and the filter answers \"absent\""));
            }
            let (held, keys) = (filter.stats().len, digests.len());
            match held.checked_sub(keys) {
                None => Err(format!("{held} fingerprints for {keys} keys")),
                Some(0) => {
                    let mut staged = Staged::default();
                    staged.add(EVERY_DIGEST, digests);
                    filter.check(&mut staged).map(|()| 0)
                }
                // Nobody knows which slots have no key. Loading the saved filter verifies
                // everything that needs no keys.
                Some(orphans) => match load_ordered(&filter.save()) {
                    Ok(_) => Ok(orphans as u64),
                    Err(broken) => Err(broken.to_string()),
                },
            }
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use twiceshy_filters::Spec;
    use twiceshy_filters::internals::{mix, ordered};

    use super::super::range::ShardRange;
    use super::*;
    use crate::guard::store::MemoryStore;

    /// Digests that pile up fill a filter long before it has the keys that it was made for. Each
    /// that finds no room makes it grow: at first perhaps to the size that it has, with other hash
    /// functions, and then by half.
    #[test]
    fn keys_that_pile_up_find_room() {
        let spec: Spec = "line".parse().expect("a filter");
        let shard = Shard::new(ShardRange::new(0, 0), ordered(spec, 10).expect("a filter"));
        let store = MemoryStore::default();
        let pile = |key: u64| Digest::new([mix(key) >> 6, key]);
        for key in 0..300 {
            let digest = pile(key);
            for is_new in [true, false] {
                let evidence = shard.read(digest, &store, |_, _| ()).expect("in memory");
                let mut writer = shard.writer();
                assert_eq!(writer.insert(evidence, &store).expect("room"), is_new, "key {key}");
                // Its record is on its way.
                let evidence = shard.read(digest, &store, |_, _| ()).expect("in memory");
                assert!(!writer.insert(evidence, &store).expect("room"), "key {key}");
                store.write(&[(digest, Some(b"record"))]).expect("in memory");
            }
            assert!(shard.contains(digest), "key {key}");
        }
        assert!((0..300).all(|key| shard.contains(pile(key))));
        assert_eq!(shard.writer().check(&store), Ok(0));
        let (stats, capacity) = (shard.stats(false), shard.capacity.load(Ordering::Relaxed));
        assert_eq!((stats.keys, shard.keys.load(Ordering::Relaxed)), (300, 300));
        assert_eq!(capacity, shard.with_filter(|filter| filter.stats().capacity));
        let halves = (capacity as f64 / 10.0).ln() / 1.5_f64.ln();
        assert!(stats.growths as f64 <= 2.0 * halves + 2.0, "{capacity} keys, {stats:?}");
    }
}
