//! One shard of a guard: a filter that many read and one changes.
//!
//! ```text
//! writers   held by whoever changes the shard, from its first read of the store
//!           to its last write: filter and store then agree
//! filter    locked for moments: to look, or to make a change that is planned
//! version   odd while somebody stores or removes keys; even and the same again
//!           means that what was read of the store in between is still true
//! ```

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, TryLockError};

use crate::any::{OrderedFilter, load_ordered};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::Adapted;
use crate::remote::EVERY_DIGEST;

use super::ahead::Ahead;
use super::slice::Slice;
use super::staged::Staged;
use super::stats::{Counters, GuardStats, REMEMBERED};
use super::store::Store;

pub(super) struct Shard {
    slice: Slice,
    writers: Mutex<()>,
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

/// The right to change a shard.
pub(super) struct Writer<'a> {
    shard: &'a Shard,
    /// Digests of which the filter has the fingerprints and the store has no
    /// records, yet or any more: what is read of the store counts them in.
    pending: BTreeSet<Digest>,
    purpose: Purpose,
    _lock: MutexGuard<'a, ()>,
}

/// What somebody wants with the right to change a shard.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To store or remove keys: what others are reading may no longer be true.
    Store,
    /// To let the filter learn, or to have it to oneself: the keys stay.
    Hold,
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        if self.purpose == Purpose::Store {
            self.shard.version.fetch_add(1, Ordering::Release);
        }
    }
}

impl Shard {
    pub(super) fn new(slice: Slice, filter: Box<dyn OrderedFilter>) -> Self {
        let stats = filter.stats();
        Shard {
            keys: AtomicUsize::new(stats.len),
            capacity: AtomicUsize::new(stats.capacity),
            slice,
            writers: Mutex::new(()),
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

    /// [`Shard::contains`] for many.
    pub(super) fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        let inner: Vec<Digest> = digests.iter().map(|&digest| self.slice.inner(digest)).collect();
        self.look(|filter| filter.contains_many(&inner, found));
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

    /// Waits for the right to change the shard.
    pub(super) fn writer(&self) -> Writer<'_> {
        self.begin(Purpose::Store, self.lock())
    }

    /// Waits until nobody changes the shard, and keeps it so.
    pub(super) fn hold(&self) -> Writer<'_> {
        self.begin(Purpose::Hold, self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin<'a>(&'a self, purpose: Purpose, lock: MutexGuard<'a, ()>) -> Writer<'a> {
        if purpose == Purpose::Store {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
        Writer { shard: self, pending: BTreeSet::new(), purpose, _lock: lock }
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

    /// Tells the filter of a false positive, with the read that proved it one;
    /// `None` if the shard has changed since, or is changing: the read may no
    /// longer be true, and a filter that learns from it may deny a key.
    pub(super) fn learn(&self, evidence: Evidence, store: &impl Store) -> Result<Option<Adapted>> {
        let lock = match self.writers.try_lock() {
            Ok(lock) => lock,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Ok(None),
        };
        if self.version.load(Ordering::Acquire) != evidence.version {
            return Ok(None);
        }
        let inner = evidence.inner;
        let adapt =
            |filter: &mut dyn OrderedFilter, remote: &mut Staged| filter.adapt(inner, remote);
        self.begin(Purpose::Hold, lock).change(evidence.staged(), store, adapt).map(Some)
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
        self.count_in_pending(&evidence.range, &mut evidence.digests);
        if evidence.proves_stored() {
            return Ok(false);
        }
        let inner = evidence.inner;
        let insert =
            |filter: &mut dyn OrderedFilter, remote: &mut Staged| filter.insert(inner, remote);
        let Shard { keys, capacity, .. } = self.shard;
        let mut room = capacity.load(Ordering::Relaxed);
        if keys.load(Ordering::Relaxed) >= room {
            self.grow(room, store)?;
        }
        let mut outcome = self.change(evidence.staged(), store, insert);
        while let Err(Error::Full { .. }) = outcome {
            self.grow(room, store)?;
            outcome = self.change(Staged::default(), store, insert);
            room = capacity.load(Ordering::Relaxed);
            room += room / 2 + 1;
        }
        outcome?;
        keys.fetch_add(1, Ordering::Relaxed);
        self.pending.insert(inner);
        Ok(true)
    }

    /// The store has removed the record of a digest whose fingerprint is still to
    /// be taken out.
    pub(super) fn gone(&mut self, digest: Digest) {
        self.pending.insert(self.shard.slice.inner(digest));
    }

    /// Takes the fingerprint of a digest out that is [`Writer::gone`]; the evidence
    /// is of it, and read since.
    pub(super) fn remove(&mut self, mut evidence: Evidence, store: &impl Store) -> Result<()> {
        self.count_in_pending(&evidence.range, &mut evidence.digests);
        let inner = evidence.inner;
        let remove =
            |filter: &mut dyn OrderedFilter, remote: &mut Staged| filter.remove(inner, remote);
        self.change(evidence.staged(), store, remove)?;
        self.pending.remove(&inner);
        self.shard.keys.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Changes the filter; what it wants to read of the store is read while
    /// nobody has to wait for it.
    fn change<T>(
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

    /// Verifies the filter against the store; returns how many fingerprints more
    /// than keys it has.
    pub(super) fn check(&self, store: &impl Store) -> Result<u64, String> {
        let digests = self.digests(&EVERY_DIGEST, store).map_err(|error| error.to_string())?;
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
        let spec = self.shard.look(|filter| filter.spec());
        let larger = loop {
            match self.shard.look(|filter| filter.larger(capacity, &mut staged)) {
                // No hash functions were found: more room, as long as there is more.
                Err(Error::Spec { .. }) if spec.bins_for(capacity).is_ok() => {
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
