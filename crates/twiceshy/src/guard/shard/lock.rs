//! [`FilterLock`]: the right to modify a shard's filter.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::{PoisonError, TryLockError};

use twiceshy_filters::Digest;
use twiceshy_filters::internals::OrderedFilter;
use twiceshy_filters::remote::EVERY_DIGEST;

use super::lookup::Shard;
use super::staged::Staged;
use crate::guard::error::{Error, Result};
use crate::guard::store::Store;
use crate::guard::sync::{MutexGuard, Ordering, yield_now};

/// The right to modify a shard's filter. Lookups go on meanwhile.
pub(super) struct FilterLock<'a> {
    shard: &'a Shard,
    pub(super) pending: MutexGuard<'a, BTreeSet<Digest>>,
}

impl Shard {
    /// Waits for the right to modify the filter: a moment, unless the filter grows.
    pub(super) fn lock_filter(&self) -> FilterLock<'_> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        FilterLock { shard: self, pending }
    }

    /// The right to modify the filter, unless another thread holds it for longer than a
    /// modification takes: because the filter grows, or because that thread was preempted.
    pub(super) fn try_lock_filter(&self) -> Option<FilterLock<'_>> {
        /// Under the model checker, one try covers the same cases as many.
        const TRIES: usize = if cfg!(loom) { 1 } else { 16 };
        for _ in 0..TRIES {
            match self.pending.try_lock() {
                Ok(pending) => return Some(FilterLock { shard: self, pending }),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(FilterLock { shard: self, pending: poisoned.into_inner() });
                }
                Err(TryLockError::WouldBlock) => yield_now(),
            }
        }
        None
    }
}

impl FilterLock<'_> {
    /// Marks earlier reads as out of date, because a digest has left `pending`.
    pub(super) fn outdate_reads(&mut self) {
        self.shard.version.fetch_add(1, Ordering::Release);
    }

    /// Modifies the filter. When the modification needs a range of the store, the range is read
    /// while lookups go on, and the modification is tried again.
    pub(super) fn modify<T>(
        &mut self,
        mut staged: Staged,
        store: &impl Store,
        change: impl Fn(&mut dyn OrderedFilter, &mut Staged) -> twiceshy_filters::Result<T>,
    ) -> Result<T> {
        loop {
            let outcome = {
                let mut filter = self.shard.filter.write().unwrap_or_else(PoisonError::into_inner);
                let outcome = change(&mut **filter, &mut staged);
                // A filter may add a block, and then its blocks move.
                self.shard.prefetch.note(&**filter);
                outcome
            };
            match staged.wanted() {
                None => return outcome.map_err(Error::from),
                Some(range) => {
                    let digests = self.digests(&range, store)?;
                    staged.add(range, digests);
                }
            }
        }
    }

    /// The digests of a range that the filter has fingerprints of, in order.
    pub(super) fn digests(
        &self,
        range: &RangeInclusive<Digest>,
        store: &impl Store,
    ) -> Result<Vec<Digest>> {
        let mut digests = Vec::new();
        if *range == EVERY_DIGEST {
            // A vector that doubles while it fills takes up to three times the memory.
            digests.reserve_exact(self.shard.keys.load(Ordering::Relaxed) + 1);
        }
        self.shard.visit(range, store, |_, inner, _| digests.push(inner))?;
        self.add_pending(range, &mut digests);
        Ok(digests)
    }

    /// Adds the pending digests of a range to those that were read from the store.
    pub(super) fn add_pending(&self, range: &RangeInclusive<Digest>, digests: &mut Vec<Digest>) {
        let pending = self.pending.range(range.clone()).copied();
        let new: Vec<Digest> =
            pending.filter(|digest| digests.binary_search(digest).is_err()).collect();
        if !new.is_empty() {
            digests.extend(new);
            digests.sort_unstable();
        }
    }

    /// Replaces a full filter by one with room for half as many keys again, and for at least
    /// `room`. The old filter answers meanwhile.
    ///
    /// The new filter has only keys of the store. Fingerprints that failed writes left behind go
    /// with the old filter; otherwise a full disk would fill the memory.
    pub(super) fn grow(&mut self, room: usize, store: &impl Store) -> Result<()> {
        let digests = self.digests(&EVERY_DIGEST, store)?;
        let keys = digests.len();
        let mut capacity = room.max(keys + keys / 2 + 1);
        let mut staged = Staged::default();
        staged.add(EVERY_DIGEST, digests);
        let larger = loop {
            match self.shard.with_filter(|filter| filter.larger(capacity, &mut staged)) {
                // No hash functions were found: try with more room, as long as there is more.
                Err(twiceshy_filters::Error::Spec { .. })
                    if self.shard.with_filter(|filter| filter.check_capacity(capacity)).is_ok() =>
                {
                    capacity += capacity / 4 + 1;
                }
                outcome => break outcome?,
            }
        };
        let mut filter = self.shard.filter.write().unwrap_or_else(PoisonError::into_inner);
        *filter = larger;
        self.shard.prefetch.note(&**filter);
        drop(filter);
        self.shard.keys.store(keys, Ordering::Relaxed);
        self.shard.capacity.store(capacity, Ordering::Relaxed);
        self.shard.counters.grow();
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use twiceshy_filters::Spec;
    use twiceshy_filters::internals::{mix, ordered};

    use super::super::range::ShardRange;
    use super::*;
    use crate::guard::store::{Change, MemoryStore};

    /// Keys that pile up need more room than there are keys: as much as the first filter has that
    /// takes them, each larger than the last by a quarter.
    #[test]
    fn a_filter_grows_until_its_keys_fit() {
        let spec: Spec = "line".parse().expect("a filter");
        let digests: Vec<Digest> = (0..300).map(|key| Digest::new([mix(key) >> 5, key])).collect();
        let store = MemoryStore::default();
        let changes: Vec<Change<'_>> =
            digests.iter().map(|&digest| (digest, Some(&b"record"[..]))).collect();
        store.write(&changes).expect("in memory");
        let mut sorted = digests.clone();
        sorted.sort_unstable();
        let mut staged = Staged::default();
        staged.add(EVERY_DIGEST, sorted);
        for (room, first) in [(10, 451), (451, 451), (1000, 1000)] {
            let shard = Shard::new(ShardRange::new(0, 0), ordered(spec, 10).expect("a filter"));
            let (mut capacity, mut tries) = (first, 1);
            while shard.with_filter(|filter| filter.larger(capacity, &mut staged)).is_err() {
                capacity += capacity / 4 + 1;
                tries += 1;
            }
            assert!(tries > 3, "{room}: {tries} tries");
            shard.lock_filter().grow(room, &store).expect("there is room");
            let stats = shard.with_filter(|filter| filter.stats());
            assert_eq!((stats.capacity, stats.len), (capacity, 300), "{room}");
            let known = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed);
            assert_eq!((known(&shard.capacity), known(&shard.keys)), (capacity, 300), "{room}");
            assert!(digests.iter().all(|&digest| shard.contains(digest)), "{room}");
            assert_eq!(shard.stats(false).growths, 1, "{room}");
        }
    }
}
