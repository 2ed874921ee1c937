//! What may stand in front of a store: all over the same keys, and with the same memory.

use std::collections::{HashSet, VecDeque};
use std::path::Path;

use fastbloom::BloomFilter;
use fjall::config::{BloomConstructionPolicy, FilterPolicy, FilterPolicyEntry};
use tempfile::TempDir;
use twiceshy::store::{Engine, Fjall, GuardedStore, Redb};

use crate::Outcome;
use crate::bare::{BareFjall, BareRedb, CACHE};
use crate::gets::guarded;
use crate::keys::{KEY, stored};

/// Bytes of an entry of a cache of misses: a digest, when it ends, and the room
/// that a hash table leaves. What is in use takes twice as much or more.
const CACHE_ENTRY: u64 = 24;

/// One byte in so many is the cache's, where a Bloom filter has one beside it.
const MOKA_SHARE: u64 = 10;

/// What is asked first.
pub trait Front {
    /// Reads of the store that a lookup of this absent key makes.
    fn ask(&mut self, key: [u8; KEY]) -> Outcome<u64>;

    /// Reads so far that [`Front::ask`] has not returned.
    fn further(&self) -> u64 {
        0
    }
}

/// How to make one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Nothing,
    Bloom,
    BloomAndCache,
    Cache,
    OursRedb,
    OursFjall,
    FjallFilters,
}

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::Nothing,
        Kind::FjallFilters,
        Kind::Cache,
        Kind::Bloom,
        Kind::BloomAndCache,
        Kind::OursRedb,
        Kind::OursFjall,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Nothing => "no filter",
            Kind::Bloom => "fastbloom",
            Kind::BloomAndCache => "fastbloom and moka",
            Kind::Cache => "a cache of misses",
            Kind::OursRedb => "twiceshy",
            Kind::OursFjall => "twiceshy (fjall)",
            Kind::FjallFilters => "fjall's own filters",
        }
    }
}

/// The keys, the memory, and the stores that nothing changes.
pub struct Stores<'a> {
    directory: &'a Path,
    keys: u64,
    /// Bytes that every front gets: those of ours.
    bytes: u64,
    redb: BareRedb,
    fjall: BareFjall,
}

impl<'a> Stores<'a> {
    pub fn filled(directory: &'a Path, keys: u64) -> Outcome<Self> {
        let sized = TempDir::new_in(directory)?;
        let bytes = guarded::<Redb>(sized.path(), keys, CACHE)?.stats().bytes;
        let bits = (bytes * 8) as f32 / keys as f32;
        let filters = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(bits));
        let [redb, fjall] = ["redb", "fjall"].map(|name| directory.join(format!("{name}-{keys}")));
        Ok(Stores {
            directory,
            keys,
            bytes,
            redb: BareRedb::filled(&redb, keys, CACHE)?,
            fjall: BareFjall::filled(&fjall, keys, Some(FilterPolicy::all(filters)), CACHE)?,
        })
    }

    /// A new one, which has learned nothing yet.
    pub fn front(&self, kind: Kind) -> Outcome<Box<dyn Front + '_>> {
        let store = &self.redb;
        Ok(match kind {
            Kind::Nothing => Box::new(Nothing(store)),
            Kind::Bloom => Box::new(Bloom { store, filter: self.bloom(self.bytes), refuted: None }),
            Kind::BloomAndCache => {
                let share = self.bytes / MOKA_SHARE;
                let refuted = Some(moka::sync::Cache::new(share / CACHE_ENTRY));
                Box::new(Bloom { store, filter: self.bloom(self.bytes - share), refuted })
            }
            Kind::Cache => Box::new(Misses::within(self.bytes, store)),
            Kind::OursRedb => Box::new(Ours::<Redb>::filled(self.directory, self.keys)?),
            Kind::OursFjall => Box::new(Ours::<Fjall>::filled(self.directory, self.keys)?),
            Kind::FjallFilters => Box::new(&self.fjall),
        })
    }

    /// Memory of a front, in KiB.
    pub fn kibibytes(&self, kind: Kind) -> u64 {
        if kind == Kind::Nothing { 0 } else { self.bytes / 1024 }
    }

    fn bloom(&self, bytes: u64) -> BloomFilter {
        let mut bloom =
            BloomFilter::with_num_bits(bytes as usize * 8).expected_items(self.keys as usize);
        (0..self.keys).for_each(|index| {
            bloom.insert(&stored(index));
        });
        bloom
    }
}

/// A read of the store that finds nothing.
fn wasted(store: &BareRedb, key: [u8; KEY]) -> Outcome<u64> {
    assert!(store.get(key)?.is_none(), "nobody stores it");
    Ok(1)
}

struct Nothing<'a>(&'a BareRedb);

impl Front for Nothing<'_> {
    fn ask(&mut self, key: [u8; KEY]) -> Outcome<u64> {
        wasted(self.0, key)
    }
}

/// A Bloom filter, and perhaps a cache of the keys that the store did not have.
struct Bloom<'a> {
    store: &'a BareRedb,
    filter: BloomFilter,
    refuted: Option<moka::sync::Cache<[u8; KEY], ()>>,
}

impl Front for Bloom<'_> {
    fn ask(&mut self, key: [u8; KEY]) -> Outcome<u64> {
        if !self.filter.contains(&key) {
            return Ok(0);
        }
        if let Some(refuted) = &self.refuted {
            if refuted.get(&key).is_some() {
                return Ok(0);
            }
            refuted.insert(key, ());
        }
        wasted(self.store, key)
    }
}

/// Misses that were seen, the oldest of which go first. Their time to live is
/// longer than the benchmark.
struct Misses<'a> {
    store: &'a BareRedb,
    known: HashSet<[u8; KEY]>,
    order: VecDeque<[u8; KEY]>,
    most: usize,
}

impl<'a> Misses<'a> {
    fn within(bytes: u64, store: &'a BareRedb) -> Self {
        let most = (bytes / CACHE_ENTRY) as usize;
        Misses { store, known: HashSet::new(), order: VecDeque::new(), most }
    }
}

impl Front for Misses<'_> {
    fn ask(&mut self, key: [u8; KEY]) -> Outcome<u64> {
        if !self.known.insert(key) {
            return Ok(0);
        }
        self.order.push_back(key);
        if self.order.len() > self.most {
            self.known.remove(&self.order.pop_front().expect("it is not empty"));
        }
        wasted(self.store, key)
    }
}

/// A guarded store.
pub struct Ours<E: Engine> {
    pub store: GuardedStore<E>,
    /// Reads before the first question, and those that were returned.
    before: u64,
    returned: u64,
    _directory: TempDir,
}

impl<E: Engine> Ours<E> {
    pub fn filled(directory: &Path, keys: u64) -> Outcome<Self> {
        let own = TempDir::new_in(directory)?;
        let store = guarded::<E>(own.path(), keys, CACHE)?;
        let before = store.stats().store_reads;
        Ok(Ours { store, before, returned: 0, _directory: own })
    }
}

impl<E: Engine> Front for Ours<E> {
    /// Counting the reads of all shards takes longer than a query: a query is a read if the
    /// filter says "maybe".
    fn ask(&mut self, key: [u8; KEY]) -> Outcome<u64> {
        let read = u64::from(self.store.contains(key));
        assert!(self.store.get(key)?.is_none(), "nobody stores it");
        self.returned += read;
        Ok(read)
    }

    /// Of spent blocks, say.
    fn further(&self) -> u64 {
        self.store.stats().store_reads - self.before - self.returned
    }
}

impl Front for &BareFjall {
    /// Blocks of data that were looked into: up to two for a false positive.
    fn ask(&mut self, key: [u8; KEY]) -> Outcome<u64> {
        let before = self.blocks();
        assert!(self.get(key)?.is_none(), "nobody stores it");
        Ok(self.blocks() - before)
    }
}
