//! One shard of a guard: a filter that many read and one changes.
//!
//! ```text
//! writers   held by whoever stores or removes keys, from the first read of the store
//!           to the last change: one such operation at a time
//! pending   digests whose records are on their way into the store, or out of it; held
//!           while the filter changes, and never while the store writes
//! filter    locked for moments: to look, or to make a change that is planned
//! version   counts the digests that left `pending`: while it stays the same, what was
//!           read of the store, with `pending`, is what the filter has fingerprints of
//! ```
//!
//! At any moment when `pending` is not held, the filter has a fingerprint of each record of
//! the store and of each pending digest, and (orphans aside) of no other. That is what
//! adapting needs to know, so it need not wait for a write of the store to end.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicUsize;
use std::sync::{PoisonError, TryLockError};

use twiceshy_filters::Adapted;
use twiceshy_filters::Digest;
use twiceshy_filters::internals::{OrderedFilter, load_ordered};
use twiceshy_filters::remote::EVERY_DIGEST;
use twiceshy_filters::{Error, Result};

use super::ahead::Ahead;
use super::slice::Slice;
use super::staged::Staged;
use super::stats::{Counters, GuardStats, REMEMBERED};
use super::store::Store;
use super::sync::{AtomicU64, Mutex, MutexGuard, Ordering, RwLock, yield_now};

pub(super) struct Shard {
    slice: Slice,
    writers: Mutex<()>,
    pending: Mutex<BTreeSet<Digest>>,
    filter: RwLock<Box<dyn OrderedFilter>>,
    /// Where the filter's blocks are.
    ahead: Ahead,
    version: AtomicU64,
    /// Keys that were stored, and for how many the filter was made. Only writers
    /// look at them.
    keys: AtomicUsize,
    capacity: AtomicUsize,
    pub(super) counters: Counters,
}

/// The right to store and remove keys of a shard.
pub(super) struct Writer<'a> {
    shard: &'a Shard,
    _lock: MutexGuard<'a, ()>,
}

impl Drop for Writer<'_> {
    /// What is still pending has been written, or has failed to be: from now on the store
    /// says which.
    fn drop(&mut self) {
        let mut filter = self.shard.change();
        if !filter.pending.is_empty() {
            filter.pending.clear();
            filter.outdate_reads();
        }
    }
}

/// The right to change a shard's filter.
struct Changing<'a> {
    shard: &'a Shard,
    pending: MutexGuard<'a, BTreeSet<Digest>>,
}

impl Shard {
    pub(super) fn new(slice: Slice, filter: Box<dyn OrderedFilter>) -> Self {
        let stats = filter.stats();
        Shard {
            keys: AtomicUsize::new(stats.len),
            capacity: AtomicUsize::new(stats.capacity),
            slice,
            writers: Mutex::new(()),
            pending: Mutex::new(BTreeSet::new()),
            ahead: Ahead::of(&*filter),
            filter: RwLock::new(filter),
            version: AtomicU64::new(0),
            counters: Counters::new(slice.share(REMEMBERED)),
        }
    }

    /// `false`: surely absent.
    #[inline(always)]
    pub(super) fn contains(&self, digest: Digest) -> bool {
        let inner = self.slice.inner(digest);
        self.ahead.prefetch(inner);
        self.look(|filter| filter.contains(inner))
    }

    /// Asks memory for the part of the filter that [`Shard::contains`] looks at.
    #[inline(always)]
    pub(super) fn prefetch(&self, digest: Digest) {
        self.ahead.prefetch(self.slice.inner(digest));
    }

    /// Looks at the filter. A panic of another thread does not bother: a filter
    /// changes after all that can fail.
    #[inline(always)]
    pub(super) fn look<T>(&self, look: impl FnOnce(&dyn OrderedFilter) -> T) -> T {
        look(&**self.filter.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Its counts and sizes.
    pub(super) fn stats(&self) -> GuardStats {
        let stats = self.look(|filter| filter.stats());
        GuardStats {
            keys: stats.len as u64,
            spent: stats.spent,
            bytes: stats.bits.div_ceil(8) as u64,
            ..self.counters.stats()
        }
    }

    /// Waits for the right to store and remove keys. Whoever has it also knows that
    /// store and filter have the same keys until it is used.
    pub(super) fn writer(&self) -> Writer<'_> {
        let lock = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
        Writer { shard: self, _lock: lock }
    }

    /// Waits for the right to change the filter: for moments, unless it grows.
    fn change(&self) -> Changing<'_> {
        let pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        Changing { shard: self, pending }
    }

    /// The right to change the filter, unless somebody has it for longer than a change
    /// takes: a filter that grows, or a thread that lost its processor.
    fn try_change(&self) -> Option<Changing<'_>> {
        /// Under the model checker one try says as much as many.
        const TRIES: usize = if cfg!(loom) { 1 } else { 16 };
        for _ in 0..TRIES {
            match self.pending.try_lock() {
                Ok(pending) => return Some(Changing { shard: self, pending }),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return Some(Changing { shard: self, pending: poisoned.into_inner() });
                }
                Err(TryLockError::WouldBlock) => yield_now(),
            }
        }
        None
    }

    /// Looks for the record of a digest that was answered "maybe", if the store has
    /// a fast way; whether it was there.
    pub(super) fn find(
        &self,
        digest: Digest,
        store: &impl Store,
        visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<bool> {
        let found = store.find(digest, visitor).map(|found| found == Some(true));
        let counters = &self.counters;
        if matches!(found, Ok(true)) { &counters.found } else { &counters.maybe }.add(1);
        found.map_err(Error::Remote)
    }

    /// Reads the store where a digest that was answered "maybe" would be: one
    /// read, which shows every record that can have caused the answer.
    pub(super) fn read(
        &self,
        digest: Digest,
        store: &impl Store,
        mut visitor: impl FnMut(Digest, &[u8]),
    ) -> Result<Evidence> {
        let mut evidence = self.question(digest);
        self.visit(&evidence.range, store, |outer, inner, record| {
            evidence.digests.push(inner);
            visitor(outer, record);
        })?;
        Ok(evidence)
    }

    /// What is to be read where a digest would be.
    fn question(&self, digest: Digest) -> Evidence {
        let version = self.version.load(Ordering::Acquire);
        let inner = self.slice.inner(digest);
        let range = self.look(|filter| filter.range(inner));
        Evidence { version, inner, range, digests: Vec::new() }
    }

    /// [`Shard::read`] for many digests, which are in order, with the shard of each:
    /// one read of the store.
    pub(super) fn read_many(
        digests: &[(Digest, &Shard)],
        store: &impl Store,
        mut visitor: impl FnMut(usize, Digest, &[u8]),
    ) -> Result<Vec<Evidence>> {
        let Some((_, first)) = digests.first() else { return Ok(Vec::new()) };
        first.counters.store_reads.add(1);
        let mut evidence = Vec::with_capacity(digests.len());
        let mut ranges = Vec::with_capacity(digests.len());
        for &(digest, shard) in digests {
            let question = shard.question(digest);
            ranges.push(shard.slice.outer_range(&question.range));
            evidence.push(question);
        }
        let each = &mut |index: usize, outer: Digest, record: &[u8]| {
            let (inner, evidence) = (digests[index].1.slice.inner(outer), &mut evidence[index]);
            if evidence.range.contains(&inner) {
                evidence.digests.push(inner);
                visitor(index, outer, record);
            }
        };
        store.read_many(&ranges, each).map_err(Error::Remote)?;
        Ok(evidence)
    }

    /// Visits the records of a range of the filter's digests.
    fn visit(
        &self,
        range: &RangeInclusive<Digest>,
        store: &impl Store,
        mut visitor: impl FnMut(Digest, Digest, &[u8]),
    ) -> Result<()> {
        self.counters.store_reads.add(1);
        let each = &mut |outer: Digest, record: &[u8]| {
            let inner = self.slice.inner(outer);
            if range.contains(&inner) {
                visitor(outer, inner, record);
            }
        };
        store.read(self.slice.outer_range(range), each).map_err(Error::Remote)
    }

    /// Tells the filter of a false positive, with the read that proved it one; `None` if
    /// somebody is changing the filter just now. A read that a write has overtaken is made
    /// again: a filter that adapts to it may deny a key.
    pub(super) fn adapt(
        &self,
        mut evidence: Evidence,
        store: &impl Store,
    ) -> Result<Option<Adapted>> {
        let Some(mut filter) = self.try_change() else { return Ok(None) };
        let inner = evidence.inner;
        let mut staged = Staged::default();
        if self.version.load(Ordering::Acquire) == evidence.version {
            filter.count_in_pending(&evidence.range, &mut evidence.digests);
            staged = evidence.staged();
        }
        filter.make(staged, store, |filter, remote| filter.adapt(inner, remote)).map(Some)
    }
}

/// What a read showed, and when.
pub(super) struct Evidence {
    version: u64,
    inner: Digest,
    range: RangeInclusive<Digest>,
    digests: Vec<Digest>,
}

impl Evidence {
    /// Whether the digest is stored.
    pub(super) fn proves_stored(&self) -> bool {
        self.digests.binary_search(&self.inner).is_ok()
    }

    fn staged(self) -> Staged {
        let mut staged = Staged::default();
        staged.add(self.range, self.digests);
        staged
    }
}

impl Writer<'_> {
    /// Adds a fingerprint, before the store gets the record of the digest that
    /// the evidence is of; `false` if there is one already. A full filter grows.
    pub(super) fn insert(&mut self, mut evidence: Evidence, store: &impl Store) -> Result<bool> {
        let mut filter = self.shard.change();
        filter.count_in_pending(&evidence.range, &mut evidence.digests);
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
        let mut outcome = filter.make(evidence.staged(), store, insert);
        while let Err(Error::Full { .. }) = outcome {
            filter.grow(room, store)?;
            outcome = filter.make(Staged::default(), store, insert);
            room = capacity.load(Ordering::Relaxed);
            room += room / 2 + 1;
        }
        outcome?;
        keys.fetch_add(1, Ordering::Relaxed);
        filter.pending.insert(inner);
        Ok(true)
    }

    /// The store is about to remove the record of a digest.
    pub(super) fn goes(&mut self, digest: Digest) {
        self.shard.change().pending.insert(self.shard.slice.inner(digest));
    }

    /// Takes the fingerprint of a digest out whose record the store has removed; the
    /// evidence is of it, and read since.
    pub(super) fn remove(&mut self, mut evidence: Evidence, store: &impl Store) -> Result<()> {
        let mut filter = self.shard.change();
        filter.count_in_pending(&evidence.range, &mut evidence.digests);
        let inner = evidence.inner;
        filter.make(evidence.staged(), store, |filter, remote| filter.remove(inner, remote))?;
        filter.pending.remove(&inner);
        filter.outdate_reads();
        self.shard.keys.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Verifies the filter against the store; returns how many fingerprints more
    /// than keys it has.
    pub(super) fn check(&self, store: &impl Store) -> Result<u64, String> {
        let filter = self.shard.change();
        let digests = filter.digests(&EVERY_DIGEST, store).map_err(|error| error.to_string())?;
        self.shard.look(|filter| {
            if let Some(denied) = digests.iter().find(|digest| !filter.contains(**digest)) {
                return Err(format!("{denied:?} is stored and is answered \"absent\""));
            }
            let (held, keys) = (filter.stats().len, digests.len());
            match held.checked_sub(keys) {
                None => Err(format!("{held} fingerprints for {keys} keys")),
                Some(0) => {
                    let mut staged = Staged::default();
                    staged.add(EVERY_DIGEST, digests);
                    filter.check(&mut staged).map(|()| 0)
                }
                // Which slots are the orphans' nobody knows; what needs no keys
                // is verified by who loads it.
                Some(orphans) => match load_ordered(&filter.save()) {
                    Ok(_) => Ok(orphans as u64),
                    Err(broken) => Err(broken.to_string()),
                },
            }
        })
    }
}

impl Changing<'_> {
    /// A digest has left `pending`, so the list of a read from before may be wrong.
    fn outdate_reads(&mut self) {
        self.shard.version.fetch_add(1, Ordering::Release);
    }

    /// Makes a change of the filter. What it wants to read of the store is read while
    /// nobody has to wait for the filter.
    fn make<T>(
        &mut self,
        mut staged: Staged,
        store: &impl Store,
        change: impl Fn(&mut dyn OrderedFilter, &mut Staged) -> Result<T>,
    ) -> Result<T> {
        loop {
            let outcome = {
                let mut filter = self.shard.filter.write().unwrap_or_else(PoisonError::into_inner);
                let outcome = change(&mut **filter, &mut staged);
                // A filter may add a block, and its blocks move.
                self.shard.ahead.note(&**filter);
                outcome
            };
            match staged.wanted() {
                None => return outcome,
                Some(range) => {
                    let digests = self.digests(&range, store)?;
                    staged.add(range, digests);
                }
            }
        }
    }

    /// The digests of a range that the filter has fingerprints of.
    fn digests(&self, range: &RangeInclusive<Digest>, store: &impl Store) -> Result<Vec<Digest>> {
        let mut digests = Vec::new();
        if *range == EVERY_DIGEST {
            // A list that doubles as it fills takes up to three times its memory.
            digests.reserve_exact(self.shard.keys.load(Ordering::Relaxed) + 1);
        }
        self.shard.visit(range, store, |_, inner, _| digests.push(inner))?;
        self.count_in_pending(range, &mut digests);
        Ok(digests)
    }

    fn count_in_pending(&self, range: &RangeInclusive<Digest>, digests: &mut Vec<Digest>) {
        let pending = self.pending.range(range.clone()).copied();
        let new: Vec<Digest> =
            pending.filter(|digest| digests.binary_search(digest).is_err()).collect();
        if !new.is_empty() {
            digests.extend(new);
            digests.sort_unstable();
        }
    }

    /// Puts a filter with room for half as many keys again, and for `room` at
    /// least, in place of a full one, while the old one answers.
    ///
    /// It is the keys of the store that count: what puts that failed left in the
    /// old filter goes with it, or else a disk that is full would fill the memory.
    fn grow(&mut self, room: usize, store: &impl Store) -> Result<()> {
        let digests = self.digests(&EVERY_DIGEST, store)?;
        let keys = digests.len();
        let mut capacity = room.max(keys + keys / 2 + 1);
        let mut staged = Staged::default();
        staged.add(EVERY_DIGEST, digests);
        let larger = loop {
            match self.shard.look(|filter| filter.larger(capacity, &mut staged)) {
                // No hash functions were found: more room, as long as there is more.
                Err(Error::Spec { .. })
                    if self.shard.look(|filter| filter.check_capacity(capacity)).is_ok() =>
                {
                    capacity += capacity / 4 + 1;
                }
                outcome => break outcome?,
            }
        };
        let mut filter = self.shard.filter.write().unwrap_or_else(PoisonError::into_inner);
        *filter = larger;
        self.shard.ahead.note(&**filter);
        drop(filter);
        self.shard.keys.store(keys, Ordering::Relaxed);
        self.shard.capacity.store(capacity, Ordering::Relaxed);
        self.shard.counters.grow();
        Ok(())
    }
}
