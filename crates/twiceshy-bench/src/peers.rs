//! The peer crates as contenders.
//!
//! Every peer takes 64 bits of an item through its own `Hash` interface. With
//! [`ReadyHasher`] those bits are the hash, so that nobody pays for hashing;
//! with the peer's default hasher they are the key. What cannot be replaced:
//! `xorf` always mixes its keys with its own seed, and `sbbf-rs-safe` takes
//! hashes only, so it has no row of its own hashing.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hasher};

use xorf::Filter as _;

use crate::contender::{Contender, Entry, count, taken};
use crate::workload::Item;

/// The name of crate `cuckoofilter` in the tables.
pub const CUCKOOFILTER: &str = "cuckoofilter 8-bit";
/// The name of crate `bloom-lib`'s cuckoo filter, sized by itself.
pub const BLOOM_LIB: &str = "bloom-lib cuckoo 16-bit";
/// The same with half the cells, where its own size leaves it half empty.
pub const BLOOM_LIB_FULL: &str = "bloom-lib cuckoo 16-bit, filled";

/// The name of crate `qfilter` in the tables.
pub const QFILTER: &str = "qfilter 2^-8";

/// The rate asked of filters that can be asked for one.
const RATE: f64 = 1.0 / 256.0;

/// Bits a key of the split block Bloom filter, whose rate is then about 0.5 %.
const SBBF_BITS: usize = 12;

/// A hasher that hands a ready 64-bit hash through.
#[derive(Clone, Copy, Default)]
pub struct ReadyHasher(u64);

impl Hasher for ReadyHasher {
    /// Only `cuckoofilter` comes here, with a fingerprint of one byte from
    /// which it derives the other bucket.
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
    }

    #[inline]
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    /// The length of that fingerprint: no information.
    #[inline]
    fn write_usize(&mut self, _: usize) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

type Ready = BuildHasherDefault<ReadyHasher>;

/// All peers, given ready hashes, for filters of that many keys.
pub fn with_ready_hashes<I: Item>(keys: usize) -> Vec<Entry<I>> {
    let mut entries = vec![
        Entry::new(CUCKOOFILTER, Cuckoofilter::<ReadyHasher>::new),
        Entry::new(BLOOM_LIB, |keys| BloomLib::new(keys, Ready::default())),
    ];
    if let Some(capacity) = BloomLib::<Ready>::fuller(keys) {
        let make = move |_| BloomLib::new(capacity, Ready::default());
        entries.push(Entry::new(BLOOM_LIB_FULL, make));
    }
    entries.extend([
        Entry::new(QFILTER, |keys| Quotient::new(keys, Ready::default())),
        Entry::new("fastbloom 2^-8", |keys| {
            let builder = fastbloom::BloomFilter::with_false_pos(RATE).hasher(Ready::default());
            Bloom { filter: builder.expected_items(keys) }
        }),
        Entry::new("xorf BinaryFuse8 (static, own mixing)", |_| Fuse { filter: None }),
        Entry::new("sbbf-rs-safe 12 bits", |keys| SplitBlock {
            filter: sbbf_rs_safe::Filter::new(SBBF_BITS, keys),
        }),
    ]);
    entries
}

/// The peers that hash keys, with the hashers they come with.
pub fn with_their_hashers<I: Item>() -> Vec<Entry<I>> {
    vec![
        Entry::new("cuckoofilter 8-bit, SipHash", Cuckoofilter::<DefaultHasher>::new),
        Entry::new("bloom-lib cuckoo 16-bit, own hash", |keys| {
            BloomLib::new(keys, bloom_lib::hash::DefaultHashBuilder)
        }),
        Entry::new("qfilter 2^-8, foldhash", |keys| {
            Quotient::new(keys, qfilter::StableBuildHasher)
        }),
        Entry::new("fastbloom 2^-8, SipHash", |keys| Bloom {
            filter: fastbloom::BloomFilter::with_false_pos(RATE).expected_items(keys),
        }),
        Entry::new("xorf BinaryFuse8 (static), own mixing", |_| Fuse { filter: None }),
    ]
}

/// Crate `qfilter`, given ready hashes, with slots for that many keys, however
/// few it is filled with.
pub fn qfilter_for<I: Item>(capacity: usize) -> Entry<I> {
    Entry::new(QFILTER, move |_| Quotient::new(capacity, Ready::default()))
}

struct Cuckoofilter<H> {
    filter: cuckoofilter::CuckooFilter<H>,
    cells: usize,
}

impl<H: Hasher + Default> Cuckoofilter<H> {
    fn new(keys: usize) -> Self {
        let filter = cuckoofilter::CuckooFilter::with_capacity(keys);
        Cuckoofilter { filter, cells: keys.next_power_of_two() }
    }
}

impl<I: Item, H: Hasher + Default> Contender<I> for Cuckoofilter<H> {
    fn fill(&mut self, items: &[I]) -> usize {
        taken(items, |item| self.filter.add(&item.word()).is_ok())
    }

    fn hits(&self, items: &[I]) -> usize {
        count(items, |item| self.filter.contains(&item.word()))
    }

    fn empty(&mut self, items: &[I]) -> Option<usize> {
        Some(count(items, |item| self.filter.delete(&item.word())))
    }

    fn bits(&self) -> usize {
        self.filter.memory_usage() * 8
    }

    fn load(&self) -> Option<f64> {
        Some(self.filter.len() as f64 / self.cells as f64)
    }
}

struct BloomLib<S> {
    filter: bloom_lib::CuckooFilter<u64, S>,
}

impl<S: BuildHasher> BloomLib<S> {
    fn new(capacity: usize, hasher: S) -> Self {
        let filter = bloom_lib::CuckooFilter::with_hasher(capacity, hasher);
        BloomLib { filter: filter.expect("a capacity above zero") }
    }

    /// A capacity that gives it half the cells it would take for `keys` keys,
    /// where they are still enough.
    fn fuller(keys: usize) -> Option<usize> {
        let cells = (keys as f64 / 0.96) as usize;
        let capacity = (cells.next_power_of_two() as f64 * 0.949) as usize;
        (capacity < keys).then_some(capacity)
    }
}

impl<I: Item, S: BuildHasher> Contender<I> for BloomLib<S> {
    fn fill(&mut self, items: &[I]) -> usize {
        taken(items, |item| self.filter.insert(&item.word()).is_ok())
    }

    fn hits(&self, items: &[I]) -> usize {
        count(items, |item| self.filter.contains(&item.word()))
    }

    fn empty(&mut self, items: &[I]) -> Option<usize> {
        Some(count(items, |item| self.filter.remove(&item.word())))
    }

    fn bits(&self) -> usize {
        self.filter.capacity() * 16
    }

    fn load(&self) -> Option<f64> {
        Some(self.filter.load_factor())
    }
}

struct Quotient<S> {
    filter: qfilter::Filter<Box<[u8]>, S>,
    hasher: S,
}

impl<S: BuildHasher + Clone> Quotient<S> {
    fn new(keys: usize, hasher: S) -> Self {
        let filter = qfilter::Filter::new_with_hasher(keys as u64, RATE, hasher.clone());
        Quotient { filter: filter.expect("a capacity that fits"), hasher }
    }
}

impl<I: Item, S: BuildHasher + Clone> Contender<I> for Quotient<S> {
    /// Keys with one fingerprint are kept twice: with its plain `insert` they
    /// share a slot, and removing one denies the other.
    fn fill(&mut self, items: &[I]) -> usize {
        taken(items, |item| self.filter.insert_duplicated(item.word()).is_ok())
    }

    fn hits(&self, items: &[I]) -> usize {
        count(items, |item| self.filter.contains(item.word()))
    }

    fn empty(&mut self, items: &[I]) -> Option<usize> {
        Some(count(items, |item| self.filter.remove(item.word())))
    }

    fn bits(&self) -> usize {
        self.filter.memory_usage() * 8
    }

    /// By its own fingerprints, the lowest bits of a hash.
    fn sorted(&self, items: &[I]) -> Option<Vec<I>> {
        let bits = self.filter.fingerprint_size();
        let mut sorted = items.to_vec();
        sorted.sort_unstable_by_key(|item| {
            qfilter::compute_fingerprint_with_hasher(&self.hasher, item.word(), bits)
        });
        Some(sorted)
    }

    fn fill_sorted(&mut self, items: &[I]) -> usize {
        let empty = Quotient::new(self.filter.capacity() as usize, self.hasher.clone());
        let mut builder = qfilter::Builder::new(empty.filter);
        let taken = taken(items, |item| {
            let hash = self.hasher.hash_one(item.word());
            builder.insert_fingerprint(true, hash).is_ok()
        });
        self.filter = builder.into_filter();
        taken
    }

    /// Its capacity is 95 % of its slots, which are a power of two.
    fn load(&self) -> Option<f64> {
        let slots = self.filter.capacity().next_power_of_two();
        Some(self.filter.len() as f64 / slots as f64)
    }
}

struct Bloom<S> {
    filter: fastbloom::BloomFilter<S>,
}

impl<I: Item, S: BuildHasher> Contender<I> for Bloom<S> {
    fn fill(&mut self, items: &[I]) -> usize {
        count(items, |item| {
            self.filter.insert(&item.word());
            true
        })
    }

    fn hits(&self, items: &[I]) -> usize {
        count(items, |item| self.filter.contains(&item.word()))
    }

    fn bits(&self) -> usize {
        self.filter.num_bits()
    }
}

struct Fuse {
    filter: Option<xorf::BinaryFuse8>,
}

impl<I: Item> Contender<I> for Fuse {
    /// Its bulk construction: the filter is static.
    fn fill(&mut self, items: &[I]) -> usize {
        let words = items.iter().map(|item| item.word());
        self.filter = xorf::BinaryFuse8::try_from_iterator(words).ok();
        if self.filter.is_some() { items.len() } else { 0 }
    }

    fn hits(&self, items: &[I]) -> usize {
        let Some(filter) = &self.filter else { return 0 };
        count(items, |item| filter.contains(&item.word()))
    }

    fn bits(&self) -> usize {
        self.filter.as_ref().map_or(0, |filter| filter.len() * 8)
    }
}

struct SplitBlock {
    filter: sbbf_rs_safe::Filter,
}

impl<I: Item> Contender<I> for SplitBlock {
    fn fill(&mut self, items: &[I]) -> usize {
        count(items, |item| {
            self.filter.insert_hash(item.word());
            true
        })
    }

    fn hits(&self, items: &[I]) -> usize {
        count(items, |item| self.filter.contains_hash(item.word()))
    }

    fn bits(&self) -> usize {
        self.filter.as_bytes().len() * 8
    }
}
