//! A filter in front of a store: misses that it knows never reach it.
//!
//! ```text
//!                       ┌──────────── Guard ────────────┐
//!  get(key) ─ digest ──▶│ filter.contains(d)?           │
//!                       │   no  ─────────────────────────┼──▶ absent (no read)
//!                       │   yes ─▶ store.read(range(d))  │──▶ found: value
//!                       │            none of them is key │
//!                       │            ─▶ filter.adapt(d)  │──▶ absent (one read)
//!                       └────────────────────────────────┘
//!  put(key)    filter first, then store      (a crash leaves a harmless extra
//!  remove(key) store first, then filter       fingerprint, or nothing at all)
//! ```
//!
//! The store's records are in digest order, so the one read that proves a key
//! absent shows every key that could have caused the false positive, and
//! adapting reads nothing more (unless a block's budget is spent: then it reads
//! that block's keys once).
//!
//! Digests are cut into slices, each with a filter of its own ([`shard`]). Lookups never
//! wait for writes, and resizing touches one small filter.

mod ahead;
mod record;
mod shard;
mod sidecar;
mod slice;
mod snapshot;
mod staged;
mod stats;
mod store;
mod sync;

use std::convert::Infallible;
use std::sync::PoisonError;

use twiceshy_filters::Adapted;
use twiceshy_filters::internals::{OrderedFilter, ordered};
use twiceshy_filters::remote::EVERY_DIGEST;
use twiceshy_filters::{Digest, KeyHasher};
use twiceshy_filters::{Error, RemoteError, Result};
use twiceshy_filters::{Spec, WhenFull};

pub use sidecar::{AsyncLookup, Lookup, Sidecar};
pub use snapshot::snapshot_options;
pub use stats::GuardStats;
pub use store::{Change, Header, MemoryStore, Store};

use shard::{Evidence, Shard};
use slice::Slice;
use staged::Staged;
use sync::{AtomicBool, Mutex, Ordering};

/// What a guard is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuardOptions {
    /// The filter: one that [guards a store](Spec::guards_a_store).
    pub spec: Spec,
    /// Keys to make room for at first; the guard grows with its keys.
    pub capacity: usize,
    /// How many slices, as a power of two: 6 makes 64. A slice that grows has a list
    /// of its digests beside its old and new filter, 16 bytes for each of its keys: a
    /// quarter of a byte for each of the guard's keys with 64 slices, which is nothing,
    /// and much with one.
    pub shard_bits: u32,
}

impl Default for GuardOptions {
    /// The default filter ([`Spec::default`]): telescoping with 8-bit remainders, whose
    /// spent blocks take other hash functions. Of the filters that need 12 bits per key, it
    /// is the one that no stream of queries was seen to defeat.
    ///
    /// Keys that are removed and stored again keep what the filter learned about them,
    /// as long as no more than about 0.5 % of a shard's keys are out at once; beyond
    /// 1.2 % the false positives of those that left first come back, once each. Growth of
    /// the shard or a restart in between forgets it, too. This takes 0.19 bits per key, or
    /// 32 bytes for a shard with fewer than 1440 slots.
    fn default() -> Self {
        GuardOptions { spec: Spec::default(), capacity: 1 << 16, shard_bits: 6 }
    }
}

/// How a guard came by its filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The store was empty.
    Empty,
    /// From the snapshot, with all that it had learned.
    Snapshot,
    /// Built again from the store.
    Rebuilt {
        /// Why the snapshot was not used.
        reason: String,
    },
}

/// An adaptive filter in front of a store, for all threads.
///
/// ```
/// use twiceshy::guard::{GuardOptions, MemoryStore};
/// use twiceshy::{Guard, KeyHasher};
/// let guard = Guard::open(MemoryStore::default(), KeyHasher::random(), &GuardOptions::default())?;
/// guard.put("stored", "value")?;
/// assert_eq!(guard.get("stored")?.as_deref(), Some(&b"value"[..]));
/// assert_eq!(guard.get("missing")?, None); // the store was not even asked
/// # Ok::<(), twiceshy::Error>(())
/// ```
pub struct Guard<S> {
    store: S,
    hasher: KeyHasher,
    spec: Spec,
    shard_bits: u32,
    shards: Vec<Shard>,
    opened: Opened,
    /// Whether the store's generation is that of no snapshot.
    dirty: AtomicBool,
    /// Held while the store's generation changes.
    dirtying: Mutex<()>,
}

/// The most slices, as a power of two.
const MOST_SHARD_BITS: u32 = 16;

impl<S: Store> Guard<S> {
    /// A guard in front of a store, with filters built from it.
    ///
    /// # Errors
    /// As [`Guard::open_with`].
    pub fn open(store: S, hasher: KeyHasher, options: &GuardOptions) -> Result<Self> {
        Self::open_with(store, hasher, options, None, &mut |_, _| ())
    }

    /// A guard in front of a store, with the filters of a snapshot if that is of
    /// the store as it is, or else built from the store. `progress` is told how
    /// many keys of how many are done.
    ///
    /// # Errors
    /// [`Error::Format`] when the store's digests were made with another hasher
    /// or secret; [`Error::Outdated`]; [`Error::Spec`]; [`Error::Remote`].
    pub fn open_with(
        store: S,
        hasher: KeyHasher,
        options: &GuardOptions,
        snapshot: Option<&[u8]>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let GuardOptions { spec, capacity, shard_bits } = *options;
        if shard_bits > MOST_SHARD_BITS {
            let reason = format!("2^{shard_bits} shards are too many; use 0 to {MOST_SHARD_BITS}");
            return Err(Error::spec(spec.to_string(), reason));
        }
        // A shard that is full grows; it must not do so by itself.
        let spec = spec.when_full(WhenFull::Error);
        let header = store.header().map_err(Error::Remote)?;
        if let Some(header) = header {
            header.check(&hasher)?;
        }
        let mut guard = Guard {
            store,
            hasher,
            spec,
            shard_bits,
            shards: Vec::new(),
            opened: Opened::Snapshot,
            // The header may be that of a snapshot: the first change renews it.
            dirty: AtomicBool::new(false),
            dirtying: Mutex::new(()),
        };
        let used = snapshot.ok_or("there is none".to_string());
        match used.and_then(|bytes| guard.restored(bytes, header)) {
            Ok(shards) => guard.shards = shards,
            Err(reason) => {
                guard.opened = Opened::Rebuilt { reason };
                guard.build(capacity, header.is_some(), progress)?;
            }
        }
        if header.is_none() {
            let header = Header { tag: tag(&guard.hasher), generation: new_generation() };
            guard.store.set_header(header).map_err(Error::Remote)?;
        }
        Ok(guard)
    }

    /// Makes the filters from the store, shard by shard.
    ///
    /// Nobody has said of a store without a header by whom it was filled. A record of
    /// another hasher or layout would never be found, so each has to show its key.
    fn build(
        &mut self,
        capacity: usize,
        has_header: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let total = self.store.count().map_err(Error::Remote)?;
        let mut done = 0;
        for index in 0..1_usize << self.shard_bits {
            let slice = Slice::new(self.shard_bits, index);
            let mut digests = Vec::new();
            let mut strangers = 0_u64;
            let each = &mut |digest: Digest, record: &[u8]| {
                digests.push(slice.inner(digest));
                // A sidecar's records are empty.
                let is_own = has_header
                    || record.is_empty()
                    || record::parts(record)
                        .is_some_and(|(key, _)| self.hasher.digest(key) == digest);
                strangers += u64::from(!is_own);
            };
            self.store.read(slice.outer_range(&EVERY_DIGEST), each).map_err(Error::Remote)?;
            if strangers > 0 {
                return Err(Error::format(format!(
                    "records of the store that are not under the digests of their keys: \
                     {strangers}; fill it with the hasher and the version that it is opened with"
                )));
            }
            done += digests.len() as u64;
            let expected = capacity >> self.shard_bits;
            // Shards are not equally full: four standard deviations more.
            let room = expected + 4 * expected.isqrt() + 1;
            let filter = self.built(room, digests)?;
            self.shards.push(Shard::new(slice, filter));
            progress(done, total.max(done));
        }
        if done == 0 {
            self.opened = Opened::Empty;
        }
        Ok(())
    }

    /// A filter of these digests with room for an eighth more, and for `room` in
    /// all at least.
    fn built(&self, room: usize, digests: Vec<Digest>) -> Result<Box<dyn OrderedFilter>> {
        let mut capacity = room.max(digests.len() + digests.len() / 8);
        let mut staged = Staged::default();
        staged.add(EVERY_DIGEST, digests);
        loop {
            let mut filter = ordered(self.spec, capacity)?;
            match filter.rebuild(&mut staged) {
                Ok(()) => return Ok(filter),
                // No hash functions were found: more room.
                Err(Error::Spec { .. }) => capacity += capacity / 4 + 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// The value of a key. One read of the store, and none for most keys that it
    /// does not have. (Where a block of the filter forgets, or a broom filter
    /// sweeps, adapting reads one range more.)
    ///
    /// # Errors
    /// [`Error::Remote`] when the store failed.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.find(key.as_ref(), <[u8]>::to_vec)
    }

    /// Whether a key is stored: an exact answer, as that of [`Guard::get`].
    ///
    /// # Errors
    /// [`Error::Remote`] when the store failed.
    pub fn contains(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.find(key.as_ref(), |_| ())?.is_some())
    }

    /// [`Guard::get`] for many keys, faster than one by one: the parts of the filters
    /// that they need are prefetched.
    ///
    /// # Errors
    /// [`Error::Remote`] when the store failed.
    pub fn get_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = Vec::with_capacity(keys.len());
        self.for_each_digest(keys, |key, digest| {
            let absent = self.is_absent(digest);
            values.push(if absent { None } else { self.verify(digest, key, <[u8]>::to_vec)? });
            Ok(())
        })?;
        Ok(values)
    }

    /// Stores a value under a key; `false` when there was one already, which is
    /// replaced.
    ///
    /// # Errors
    /// [`Error::Remote`] when the store failed. Whether the record is stored is
    /// then up to the store; the guard is right either way.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.put_many(&[(key, value)])? == 1)
    }

    /// Stores many records with one write: all of them, or none and an error.
    /// Returns how many keys are new.
    ///
    /// # Errors
    /// [`Error::Remote`] when the store failed.
    pub fn put_many<K, V>(&self, records: &[(K, V)]) -> Result<usize>
    where
        K: AsRef<[u8]>,
        V: AsRef<[u8]>,
    {
        let mut changes = Vec::with_capacity(records.len());
        for (key, value) in records {
            changes.push((self.hasher.digest(key), record::encode(key.as_ref(), value.as_ref())));
        }
        self.write(changes)
    }

    /// Removes a key and its value; `false` when it was not stored.
    ///
    /// # Errors
    /// [`Error::Remote`] when the store failed. Whether the record is gone is then
    /// up to the store; the guard is right either way.
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.remove_many(&[key])? == 1)
    }

    /// [`Guard::remove`] for many keys, with one write: all of them, or none and an
    /// error. Returns how many were stored.
    ///
    /// # Errors
    /// [`Error::Remote`] when the store failed.
    pub fn remove_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<usize> {
        let digests = keys.iter().map(|key| self.hasher.digest(key));
        let maybe: Vec<Digest> =
            digests.filter(|&digest| self.shard(digest).contains(digest)).collect();
        self.remove_digests(&maybe)
    }

    /// Removes what is stored under these digests with one write: all of it, or
    /// nothing and an error. Returns how many records there were.
    fn remove_digests(&self, digests: &[Digest]) -> Result<usize> {
        let mut digests = digests.to_vec();
        digests.sort_unstable();
        digests.dedup();
        let mut writers = self.writers(&digests);
        let evidence = self.read_many(&digests, |_, _, _| ())?;
        let stored: Vec<Digest> = digests
            .into_iter()
            .zip(evidence)
            .filter_map(|(digest, evidence)| evidence.proves_stored().then_some(digest))
            .collect();
        if stored.is_empty() {
            return Ok(0);
        }
        self.make_dirty()?;
        // The filters have the fingerprints of all of them until each is taken out.
        stored.iter().for_each(|&digest| writers.of(digest).goes(digest));
        let changes: Vec<Change<'_>> = stored.iter().map(|&digest| (digest, None)).collect();
        self.store.write(&changes).map_err(Error::Remote)?;
        // The records are gone: fingerprints that remain are harmless.
        if let Ok(evidence) = self.read_many(&stored, |_, _, _| ()) {
            for (&digest, evidence) in stored.iter().zip(evidence) {
                let _ = writers.of(digest).remove(evidence, &self.store);
            }
        }
        Ok(stored.len())
    }

    /// `false`: surely absent, as far as this guard was told of all keys. For
    /// who asks another store then; see [`Sidecar`].
    #[must_use]
    pub fn may_contain(&self, key: impl AsRef<[u8]>) -> bool {
        let digest = self.hasher.digest(key);
        self.answer(digest, self.is_absent(digest))
    }

    /// [`Guard::may_contain`] for many keys.
    fn may_contain_many<K: AsRef<[u8]>>(&self, keys: &[K]) -> Vec<bool> {
        let mut answers = Vec::with_capacity(keys.len());
        let Ok(()) = self.for_each_digest(keys, |_, digest| {
            answers.push(self.answer(digest, self.is_absent(digest)));
            Ok::<_, Infallible>(())
        });
        answers
    }

    /// Whether a digest may be stored; counts that it may.
    fn answer(&self, digest: Digest, absent: bool) -> bool {
        if !absent {
            self.shard(digest).counters.maybe.add(1);
        }
        !absent
    }

    /// Visits keys with their digests, a group at a time: what the filters have of all keys
    /// of a group is prefetched before the first is visited.
    #[inline(always)]
    fn for_each_digest<K: AsRef<[u8]>, E>(
        &self,
        keys: &[K],
        mut visit: impl FnMut(&[u8], Digest) -> Result<(), E>,
    ) -> Result<(), E> {
        /// A core has 10 to 16 cache misses under way, and a block has two lines.
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

    /// Tells the guard that a key was answered "maybe" and is not in the store
    /// that it shields: one read of the guard's own store, and the filter adapts.
    ///
    /// # Errors
    /// [`Error::Remote`] when the guard's own store failed.
    pub fn disprove(&self, key: impl AsRef<[u8]>) -> Result<Adapted> {
        let digest = self.hasher.digest(key);
        let evidence = self.shard(digest).read(digest, &self.store, |_, _| ())?;
        if evidence.proves_stored() {
            return Ok(Adapted::Stored);
        }
        self.adapt(digest, evidence)
    }

    /// Counts and sizes.
    #[must_use]
    pub fn stats(&self) -> GuardStats {
        let mut sum = GuardStats::default();
        self.shard_stats().into_iter().for_each(|stats| sum += stats);
        sum
    }

    /// Counts and sizes of each shard: where keys are asked for, and where the
    /// filter learns.
    #[must_use]
    pub fn shard_stats(&self) -> Vec<GuardStats> {
        self.shards.iter().map(Shard::stats).collect()
    }

    /// Whether a key is one of the false positives that were fixed last, as far
    /// as they are remembered; see [`GuardStats::spared`].
    #[must_use]
    pub fn was_fixed(&self, key: impl AsRef<[u8]>) -> bool {
        let digest = self.hasher.digest(key);
        self.shard(digest).counters.was_fixed(digest)
    }

    /// [`Guard::get_many`] where not all values may fit in memory. `take` sees each value
    /// where the store has it, and returns what to keep of it, or `None` to end there; the
    /// answers are those of the keys before.
    ///
    /// # Errors
    /// [`Error::Remote`] when the store failed.
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
                // The end, and no error.
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

    /// How it came by its filters.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The filters' description.
    pub fn spec(&self) -> Spec {
        self.spec
    }

    /// The store behind it. Who writes to it directly makes the guard wrong.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Verifies that no key of the store is answered "absent", and that each has a
    /// fingerprint of its own. Returns how many fingerprints there are beside: those
    /// of writes that failed, which cost a read when they show themselves and are
    /// dropped then. In a shard with such it is verified that every key is answered
    /// "maybe", and the form of the filter; where there are none, also that every
    /// slot is that of its key. For tests; reads everything, and who changes a shard
    /// has to wait.
    ///
    /// # Errors
    /// What does not hold: a key may be denied, or the store failed.
    pub fn check(&self) -> Result<u64, String> {
        self.shards.iter().map(|shard| shard.writer().check(&self.store)).sum()
    }

    #[inline(always)]
    fn shard(&self, digest: Digest) -> &Shard {
        &self.shards[Slice::index_of(digest, self.shard_bits)]
    }

    /// Whether a digest is surely absent; counts that it is. Inlined, as all that it
    /// calls: a digest that is handed on in memory is waited for.
    #[inline(always)]
    fn is_absent(&self, digest: Digest) -> bool {
        let shard = self.shard(digest);
        let absent = !shard.contains(digest);
        if absent {
            shard.counters.answer_absent(digest);
        }
        absent
    }

    fn find<T>(&self, key: &[u8], value: impl FnMut(&[u8]) -> T) -> Result<Option<T>> {
        let digest = self.hasher.digest(key);
        if self.is_absent(digest) { Ok(None) } else { self.verify(digest, key, value) }
    }

    /// Asks the store for a key that may be there, and learns if it is not.
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
            return if damaged { Err(Error::Remote(is_damaged())) } else { Ok(found) };
        }
        let evidence = shard.read(digest, &self.store, |other, record| {
            if other == digest {
                see(record);
            }
        })?;
        if !evidence.proves_stored() {
            // The answer stands, whether or not the filter can adapt.
            let _ = self.adapt(digest, evidence);
        }
        if damaged { Err(Error::Remote(is_damaged())) } else { Ok(found) }
    }

    fn adapt(&self, digest: Digest, evidence: Evidence) -> Result<Adapted> {
        let shard = self.shard(digest);
        let outcome = shard.adapt(evidence, &self.store);
        // A key that is being stored just now is no false positive.
        if !matches!(outcome, Ok(Some(Adapted::Stored))) {
            shard.counters.false_positives.add(1);
        }
        match outcome? {
            Some(Adapted::Fixed) => {
                shard.counters.fix(digest);
                Ok(Adapted::Fixed)
            }
            Some(outcome) => Ok(outcome),
            None => {
                shard.counters.postponed.add(1);
                Ok(Adapted::Unfixed)
            }
        }
    }

    /// Stores records: fingerprints first.
    fn write(&self, mut records: Vec<(Digest, Vec<u8>)>) -> Result<usize> {
        if records.is_empty() {
            return Ok(0);
        }
        // In the order of the store, and of two with one key the last.
        records.sort_by_key(|&(digest, _)| digest);
        let mut same = true;
        records.dedup_by(|later, earlier| {
            let twice = later.0 == earlier.0;
            if twice {
                same &= record::gives_way(&later.1, &earlier.1);
                std::mem::swap(later, earlier);
            }
            twice
        });
        let digests: Vec<Digest> = records.iter().map(|&(digest, _)| digest).collect();
        let mut writers = self.writers(&digests);
        self.make_dirty()?;
        let evidence = self.read_many(&digests, |index, digest, stored| {
            let (own, record) = &records[index];
            same &= digest != *own || record::gives_way(stored, record);
        })?;
        if !same {
            return Err(Error::Remote(one_digest()));
        }
        let mut new = 0;
        for (&digest, evidence) in digests.iter().zip(evidence) {
            new += usize::from(writers.of(digest).insert(evidence, &self.store)?);
        }
        let changes: Vec<Change<'_>> =
            records.iter().map(|(digest, record)| (*digest, Some(&record[..]))).collect();
        self.store.write(&changes).map_err(Error::Remote)?;
        Ok(new)
    }

    /// Reads the store where these digests, which are in order, would be: one read.
    fn read_many(
        &self,
        digests: &[Digest],
        visitor: impl FnMut(usize, Digest, &[u8]),
    ) -> Result<Vec<Evidence>> {
        let sharded: Vec<_> = digests.iter().map(|&digest| (digest, self.shard(digest))).collect();
        Shard::read_many(&sharded, &self.store, visitor)
    }

    /// The right to change the shards of these digests.
    fn writers(&self, digests: &[Digest]) -> Writers<'_> {
        let mut indices: Vec<usize> =
            digests.iter().map(|&digest| Slice::index_of(digest, self.shard_bits)).collect();
        // In order, so that no two calls wait for each other.
        indices.sort_unstable();
        indices.dedup();
        let writers = indices.iter().map(|&index| self.shards[index].writer()).collect();
        Writers { shard_bits: self.shard_bits, indices, writers }
    }

    /// Gives the store a generation that no snapshot has, before its first change after
    /// a snapshot or an opening: that snapshot is not of what comes.
    fn make_dirty(&self) -> Result<()> {
        if self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let _lock = self.dirtying.lock().unwrap_or_else(PoisonError::into_inner);
        if self.dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let header = Header { tag: tag(&self.hasher), generation: new_generation() };
        self.store.set_header(header).map_err(Error::Remote)?;
        self.dirty.store(true, Ordering::Release);
        Ok(())
    }
}

/// By what a store, and a snapshot, is known to have digests of this hasher and
/// records of this layout.
fn tag(hasher: &KeyHasher) -> u64 {
    hasher.tag().wrapping_add(record::LAYOUT)
}

/// A number that no snapshot hashes to, and no other state of any store has. Counted
/// numbers would come again in a store that was made anew or restored from a backup.
fn new_generation() -> u64 {
    getrandom::u64().expect("the operating system gives random bytes")
}

/// The right to change some shards.
struct Writers<'a> {
    shard_bits: u32,
    /// Of the shards, in order.
    indices: Vec<usize>,
    writers: Vec<shard::Writer<'a>>,
}

impl<'a> Writers<'a> {
    /// That of the shard of a digest they were taken for.
    fn of(&mut self, digest: Digest) -> &mut shard::Writer<'a> {
        let index = Slice::index_of(digest, self.shard_bits);
        let place = self.indices.binary_search(&index).expect("every shard is there");
        &mut self.writers[place]
    }
}

/// Two keys with one digest: 10^-21 for 10^9 keys.
fn one_digest() -> RemoteError {
    "another key with the same digest is stored; choose another key".into()
}

/// A record whose checksum is wrong.
#[cold]
fn is_damaged() -> RemoteError {
    "the record of this key is damaged; run `twiceshy check` on the store".into()
}

/// The key of a [`record`] and its value; `None` if the record is damaged.
#[must_use]
pub fn read_record(record: &[u8]) -> Option<(&[u8], &[u8])> {
    record::parts(record)
}

/// What the store of a [`Guard`] has for a key and its value: for who fills a
/// store before there is a guard in front of it. The layout is that of this version;
/// records of others are refused.
#[must_use]
pub fn record(key: &[u8], value: &[u8]) -> Vec<u8> {
    record::encode(key, value)
}
