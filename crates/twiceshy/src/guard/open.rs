//! Opening a guard: its filters come from a snapshot, or are built from the store.

use std::fmt;

use twiceshy_filters::internals::{OrderedFilter, ordered};
use twiceshy_filters::remote::EVERY_DIGEST;
use twiceshy_filters::{Digest, KeyHasher, Spec, WhenFull};

use super::error::{Error, Result};
use super::generation::Generation;
use super::options::GuardOptions;
use super::record;
use super::role::Role;
use super::shard::{Shard, ShardRange, Staged};
use super::stats::GuardStats;
use super::store::Store;

/// An adaptive filter in front of a store, shared by all threads.
///
/// ```
/// use twiceshy::guard::{GuardOptions, MemoryStore};
/// use twiceshy::{Guard, KeyHasher};
/// let guard = Guard::open(MemoryStore::default(), KeyHasher::random(), &GuardOptions::default())?;
/// guard.put("stored", "value")?;
/// assert_eq!(guard.get("stored")?.as_deref(), Some(&b"value"[..]));
/// assert_eq!(guard.get("missing")?, None); // the store was not read
/// # Ok::<(), twiceshy::Error>(())
/// ```
pub struct Guard<S> {
    pub(super) store: S,
    pub(super) hasher: KeyHasher,
    pub(super) spec: Spec,
    pub(super) shard_bits: u32,
    pub(super) shards: Vec<Shard>,
    pub(super) opened: Opened,
    pub(super) generation: Generation,
    pub(super) role: Role,
}

/// Where a guard's filters came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    /// The store was empty.
    Empty,
    /// From the snapshot, with all its adaptations.
    Snapshot,
    /// Built from the store, without adaptations.
    Rebuilt {
        /// Why the snapshot was not used.
        reason: String,
    },
}

/// In a word, for a log; and why it was rebuilt.
impl fmt::Display for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Opened::Empty => write!(f, "empty"),
            Opened::Snapshot => write!(f, "snapshot"),
            Opened::Rebuilt { reason } => write!(f, "rebuilt (snapshot: {reason})"),
        }
    }
}

impl<S: Store> Guard<S> {
    /// Opens a guard and builds its filters from the store.
    ///
    /// # Errors
    /// As [`Guard::open_with`].
    pub fn open(store: S, hasher: KeyHasher, options: &GuardOptions) -> Result<Self> {
        Self::open_with(store, hasher, options, None, &mut |_, _| ())
    }

    /// Opens a guard with the filters of a snapshot. If the snapshot was not taken of the store
    /// in its present state, the filters are built from the store. `progress` receives the
    /// number of keys done and of all keys.
    ///
    /// # Errors
    /// [`Error::WrongSecret`], [`Error::UnknownLayout`] or [`Error::Misfiled`] when the store's
    /// records are not this guard's; [`Error::Options`] or [`Error::Filter`] when there can be
    /// no such guard; [`Error::Read`] or [`Error::Header`] when the store fails.
    pub fn open_with(
        store: S,
        hasher: KeyHasher,
        options: &GuardOptions,
        snapshot: Option<&[u8]>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        options.validate()?;
        let header = store.header().map_err(Error::Read)?;
        if let Some(header) = header {
            header.check(&hasher)?;
        }
        let mut guard = Guard {
            store,
            hasher,
            // The guard replaces a full filter; the filter must not grow by itself.
            spec: options.spec.when_full(WhenFull::Error),
            shard_bits: options.shard_bits,
            shards: Vec::new(),
            opened: Opened::Snapshot,
            generation: Generation::default(),
            role: Role::Store,
        };
        let used = snapshot.ok_or("there is none".to_string());
        match used.and_then(|bytes| guard.restored(bytes, header)) {
            Ok(shards) => guard.shards = shards,
            Err(reason) => {
                guard.opened = Opened::Rebuilt { reason };
                guard.build(options.capacity, header.is_some(), progress)?;
            }
        }
        if header.is_none() {
            guard.store.set_header(guard.new_header()).map_err(Error::Header)?;
        }
        Ok(guard)
    }

    /// Builds the filters from the store, shard by shard.
    ///
    /// In a store without a header, each record has to show its key: a record that was filed
    /// with another hasher or in another layout would never be found.
    fn build(
        &mut self,
        capacity: usize,
        has_header: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let total = self.store.count().map_err(Error::Read)?;
        let mut done = 0;
        for index in 0..1_usize << self.shard_bits {
            let range = ShardRange::new(self.shard_bits, index);
            let mut digests = Vec::new();
            let mut misfiled = 0_u64;
            let each = &mut |digest: Digest, record: &[u8]| {
                digests.push(range.inner(digest));
                // A sidecar's records are empty.
                let is_own = has_header
                    || record.is_empty()
                    || record::parts(record)
                        .is_some_and(|(key, _)| self.hasher.digest(key) == digest);
                misfiled += u64::from(!is_own);
            };
            self.store.read(range.outer_range(&EVERY_DIGEST), each).map_err(Error::Read)?;
            if misfiled > 0 {
                return Err(Error::Misfiled { records: misfiled });
            }
            done += digests.len() as u64;
            let expected = capacity >> self.shard_bits;
            // Shards are not equally full: add four standard deviations.
            let room = expected + 4 * expected.isqrt() + 1;
            let filter = self.built(room, digests)?;
            self.shards.push(Shard::new(range, filter));
            progress(done, total.max(done));
        }
        if done == 0 {
            self.opened = Opened::Empty;
        }
        Ok(())
    }

    /// A filter of these digests, with room for an eighth more and for at least `room`.
    fn built(&self, room: usize, digests: Vec<Digest>) -> Result<Box<dyn OrderedFilter>> {
        let mut capacity = room.max(digests.len() + digests.len() / 8);
        let mut staged = Staged::default();
        staged.add(EVERY_DIGEST, digests);
        loop {
            let mut filter = ordered(self.spec, capacity)?;
            match filter.rebuild(&mut staged) {
                Ok(()) => return Ok(filter),
                // No hash functions were found: try with more room.
                Err(twiceshy_filters::Error::Spec { .. }) => capacity += capacity / 4 + 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Where the filters came from.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    /// The description of the filters.
    pub fn spec(&self) -> Spec {
        self.spec
    }

    /// The store behind the guard. Writing to the store directly makes the guard's answers
    /// wrong.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Counts since the guard was opened, and sizes.
    #[must_use]
    pub fn stats(&self) -> GuardStats {
        let mut sum = GuardStats::default();
        self.shard_stats().into_iter().for_each(|stats| sum += stats);
        sum
    }

    /// [`Guard::stats`] of each shard.
    #[must_use]
    pub fn shard_stats(&self) -> Vec<GuardStats> {
        let is_sidecar = self.role.is_sidecar();
        self.shards.iter().map(|shard| shard.stats(is_sidecar)).collect()
    }

    /// Verifies that the filters have a fingerprint for each key of the store. For tests: it
    /// reads the whole store, and writes to a shard wait for its check.
    ///
    /// Returns the number of fingerprints without a key, which failed writes leave behind. Each
    /// of them costs at most one read; then the filter drops it. In a shard that has such
    /// fingerprints, the check covers each key's answer and the form of the filter. In a shard
    /// without them, it also covers the contents of every slot.
    ///
    /// # Errors
    /// The first violation, or the error of the store.
    pub fn check(&self) -> Result<u64, String> {
        self.shards.iter().map(|shard| shard.writer().check(&self.store)).sum()
    }

    /// The shard that a digest belongs to.
    #[inline(always)]
    pub(super) fn shard(&self, digest: Digest) -> &Shard {
        &self.shards[ShardRange::index_of(digest, self.shard_bits)]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::guard::store::MemoryStore;

    /// An eighth more than there are keys, or the share of the capacity and four standard
    /// deviations, if that is more.
    #[test]
    fn filters_are_built_with_room_for_more_keys() {
        let hasher = || KeyHasher::fast(1);
        let store = Arc::new(MemoryStore::default());
        let options = |capacity, bits| GuardOptions::default().capacity(capacity).shard_bits(bits);
        let first = Guard::open(store.clone(), hasher(), &options(10, 0)).expect("empty");
        assert_eq!(first.opened(), &Opened::Empty);
        for key in 0..1000_u32 {
            first.put(key.to_string(), "value").expect("in memory");
        }
        for (capacity, bits, room) in [
            (10, 0, [1125; 1].to_vec()),
            (1125, 0, [1125 + 4 * 33 + 1].to_vec()),
            (4000, 2, [1000 + 4 * 31 + 1; 4].to_vec()),
        ] {
            let mut progress = Vec::new();
            let note = &mut |done, all| progress.push((done, all));
            let guard =
                Guard::open_with(store.clone(), hasher(), &options(capacity, bits), None, note);
            let guard = guard.expect("its own store");
            assert_eq!(guard.opened(), &Opened::Rebuilt { reason: "there is none".into() });
            let made = |shard: &Shard| shard.with_filter(|filter| filter.stats().capacity);
            assert_eq!(guard.shards.iter().map(made).collect::<Vec<_>>(), room);
            let keys: Vec<u64> = guard.shard_stats().iter().map(|shard| shard.keys).collect();
            let sums = keys.iter().scan(0, |sum, keys| {
                *sum += keys;
                Some((*sum, 1000))
            });
            assert_eq!(progress, sums.collect::<Vec<_>>());
            assert_eq!((guard.stats().keys, guard.check()), (1000, Ok(0)));
            let bytes = |shard: &Shard| shard.with_filter(|filter| filter.stats().bits).div_ceil(8);
            assert_eq!(guard.stats().bytes, guard.shards.iter().map(bytes).sum::<usize>() as u64);
            assert_eq!(guard.get("7").expect("in memory").as_deref(), Some(&b"value"[..]));
            assert!(!guard.was_adapted("7"));
        }
    }

    /// All records of the first shard that has some are counted.
    #[test]
    fn records_of_others_are_counted() {
        let store = MemoryStore::default();
        let records: Vec<_> = (0..5_u8).map(|key| record::encode(&[key], b"value")).collect();
        let own = KeyHasher::fast(1);
        let digest = |key: u8| own.digest([key]);
        let changes: Vec<_> = (0..5_u8)
            .map(|key| {
                (digest(if key < 2 { key } else { key + 10 }), Some(&records[usize::from(key)][..]))
            })
            .collect();
        store.write(&changes).expect("in memory");
        let options = GuardOptions::default().shard_bits(0);
        let refused = Guard::open(store, own, &options).map(|_| ());
        assert!(matches!(refused, Err(Error::Misfiled { records: 3 })), "{refused:?}");
    }
}
