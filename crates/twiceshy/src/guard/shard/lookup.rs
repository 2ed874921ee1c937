//! Looking up a digest: in the shard's filter, then in the store.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::PoisonError;
use std::sync::atomic::AtomicUsize;

use twiceshy_filters::Digest;
use twiceshy_filters::internals::OrderedFilter;

use super::prefetch::Prefetch;
use super::range::ShardRange;
use super::staged::Staged;
use crate::guard::error::{Error, Result};
use crate::guard::stats::{Counters, GuardStats, REMEMBERED};
use crate::guard::store::Store;
use crate::guard::sync::{AtomicU64, Mutex, Ordering, RwLock};

/// The filter of one range of digests, with its locks and counters; see the module's
/// documentation.
pub(crate) struct Shard {
    pub(super) shard_range: ShardRange,
    pub(super) writers: Mutex<()>,
    pub(super) pending: Mutex<BTreeSet<Digest>>,
    pub(super) filter: RwLock<Box<dyn OrderedFilter>>,
    pub(super) prefetch: Prefetch,
    pub(super) version: AtomicU64,
    /// The number of stored keys. Only writers use it.
    pub(super) keys: AtomicUsize,
    /// The number of keys that the filter was made for. Only writers use it.
    pub(super) capacity: AtomicUsize,
    pub(crate) counters: Counters,
}

impl Shard {
    pub(crate) fn new(shard_range: ShardRange, filter: Box<dyn OrderedFilter>) -> Self {
        let stats = filter.stats();
        Shard {
            keys: AtomicUsize::new(stats.len),
            capacity: AtomicUsize::new(stats.capacity),
            shard_range,
            writers: Mutex::new(()),
            pending: Mutex::new(BTreeSet::new()),
            prefetch: Prefetch::of(&*filter),
            filter: RwLock::new(filter),
            version: AtomicU64::new(0),
            counters: Counters::new(shard_range.share(REMEMBERED)),
        }
    }

    /// Asks the filter: `false` means that the digest is not stored.
    #[inline(always)]
    pub(crate) fn contains(&self, digest: Digest) -> bool {
        let inner = self.shard_range.inner(digest);
        self.prefetch.prefetch(inner);
        self.with_filter(|filter| filter.contains(inner))
    }

    /// Prefetches the cache lines that [`Shard::contains`] reads.
    #[inline(always)]
    pub(crate) fn prefetch(&self, digest: Digest) {
        self.prefetch.prefetch(self.shard_range.inner(digest));
    }

    /// Looks at the filter. A panic in another thread does no harm: a filter changes only after
    /// everything that can fail.
    #[inline(always)]
    pub(crate) fn with_filter<T>(&self, look: impl FnOnce(&dyn OrderedFilter) -> T) -> T {
        look(&**self.filter.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The shard's counts and sizes.
    pub(crate) fn stats(&self, is_sidecar: bool) -> GuardStats {
        let stats = self.with_filter(|filter| filter.stats());
        GuardStats {
            keys: stats.len as u64,
            spent: stats.spent,
            bytes: stats.bits.div_ceil(8) as u64,
            ..self.counters.stats(is_sidecar)
        }
    }

    /// Looks for the record of a digest that the filter answered "maybe", if the store has a
    /// fast path for that. Returns whether it was found.
    pub(crate) fn find(
        &self,
        digest: Digest,
        store: &impl Store,
        visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let found = store.find(digest, visitor).map(|found| found == Some(true));
        let counters = &self.counters;
        if matches!(found, Ok(true)) { &counters.found } else { &counters.maybe }.add(1);
        found.map_err(Error::Read)
    }

    /// Reads the range of a digest that the filter answered "maybe": one read, which shows every
    /// record that can have caused the answer.
    pub(crate) fn read(
        &self,
        digest: Digest,
        store: &impl Store,
        mut visitor: impl FnMut(Digest, &[u8]),
    ) -> Result<Evidence> {
        let mut evidence = self.plan_read(digest);
        self.visit(&evidence.range, store, |outer, inner, record| {
            evidence.digests.push(inner);
            visitor(outer, record);
        })?;
        Ok(evidence)
    }

    /// The range to read for a digest.
    fn plan_read(&self, digest: Digest) -> Evidence {
        let version = self.version.load(Ordering::Acquire);
        let inner = self.shard_range.inner(digest);
        let range = self.with_filter(|filter| filter.range(inner));
        Evidence { version, inner, range, digests: Vec::new() }
    }

    /// [`Shard::read`] for many digests in order, each with its shard: one read of the store.
    pub(crate) fn read_many(
        digests: &[(Digest, &Shard)],
        store: &impl Store,
        mut visitor: impl FnMut(usize, Digest, &[u8]),
    ) -> Result<Vec<Evidence>> {
        let Some((_, first)) = digests.first() else { return Ok(Vec::new()) };
        first.counters.store_reads.add(1);
        let mut evidence = Vec::with_capacity(digests.len());
        let mut ranges = Vec::with_capacity(digests.len());
        for &(digest, shard) in digests {
            let planned = shard.plan_read(digest);
            ranges.push(shard.shard_range.outer_range(&planned.range));
            evidence.push(planned);
        }
        let each = &mut |index: usize, outer: Digest, record: &[u8]| {
            let inner = digests[index].1.shard_range.inner(outer);
            let evidence = &mut evidence[index];
            if evidence.range.contains(&inner) {
                evidence.digests.push(inner);
                visitor(index, outer, record);
            }
        };
        store.read_many(&ranges, each).map_err(Error::Read)?;
        Ok(evidence)
    }

    /// Visits the records of a range of the filter's digests.
    pub(super) fn visit(
        &self,
        range: &RangeInclusive<Digest>,
        store: &impl Store,
        mut visitor: impl FnMut(Digest, Digest, &[u8]),
    ) -> Result<()> {
        self.counters.store_reads.add(1);
        let each = &mut |outer: Digest, record: &[u8]| {
            let inner = self.shard_range.inner(outer);
            if range.contains(&inner) {
                visitor(outer, inner, record);
            }
        };
        store.read(self.shard_range.outer_range(range), each).map_err(Error::Read)
    }
}

/// What a read of the store showed, and the shard's version before it.
pub(crate) struct Evidence {
    pub(super) version: u64,
    pub(super) inner: Digest,
    pub(super) range: RangeInclusive<Digest>,
    pub(super) digests: Vec<Digest>,
}

impl Evidence {
    /// Whether the digest is stored.
    pub(crate) fn proves_stored(&self) -> bool {
        self.digests.binary_search(&self.inner).is_ok()
    }

    /// The same as a remote for the filter.
    pub(super) fn staged(self) -> Staged {
        let mut staged = Staged::default();
        staged.add(self.range, self.digests);
        staged
    }
}
