//! Filters of strings: ours and other crates', as their users see them.

use std::hash::{BuildHasher, DefaultHasher, RandomState};

use twiceshy::{Filter, KeyHasher};
use xorf::Filter as _;

/// The rate asked of filters that can be asked for one; `cuckoofilter` has 3 %.
const RATE: f64 = 1.0 / 256.0;

/// A filter of strings.
pub trait Contender: Sync {
    /// Adds keys; a static filter takes them all at once.
    fn fill(&mut self, keys: &[String]);

    /// How many of these it answers "maybe".
    fn count(&self, keys: &[String]) -> usize;
}

/// A filter made of three functions, so that each loop is compiled for its filter.
struct Made<F, I, C> {
    filter: F,
    insert: I,
    contains: C,
}

impl<F, I, C> Contender for Made<F, I, C>
where
    F: Sync,
    I: Fn(&mut F, &str) + Sync,
    C: Fn(&F, &str) -> bool + Sync,
{
    fn fill(&mut self, keys: &[String]) {
        keys.iter().for_each(|key| (self.insert)(&mut self.filter, key));
    }

    fn count(&self, keys: &[String]) -> usize {
        keys.iter().filter(|key| (self.contains)(&self.filter, key)).count()
    }
}

/// A static filter of 64-bit hashes, which are made by std's SipHash-1-3.
struct Fuse {
    hasher: RandomState,
    filter: Option<xorf::BinaryFuse8>,
}

impl Contender for Fuse {
    fn fill(&mut self, keys: &[String]) {
        let hashed = keys.iter().map(|key| self.hasher.hash_one(key.as_bytes()));
        let mut hashes: Vec<u64> = hashed.collect();
        hashes.sort_unstable();
        hashes.dedup();
        self.filter = Some(xorf::BinaryFuse8::try_from(&hashes).expect("distinct hashes"));
    }

    fn count(&self, keys: &[String]) -> usize {
        let filter = self.filter.as_ref().expect("it was filled");
        keys.iter().filter(|key| filter.contains(&self.hasher.hash_one(key.as_bytes()))).count()
    }
}

/// Nothing, for the memory of the keys and the program.
struct Nothing;

impl Contender for Nothing {
    fn fill(&mut self, _: &[String]) {}

    fn count(&self, _: &[String]) -> usize {
        0
    }
}

pub const FASTBLOOM: &str = "fastbloom, SipHash";
pub const NOTHING: &str = "nothing";

pub const STATIC: &str = "xorf BinaryFuse8 (static), SipHash";

pub const NAMES: [&str; 6] = [
    "twiceshy::Filter, SipHash",
    "twiceshy::Filter, XXH3",
    FASTBLOOM,
    "qfilter, foldhash",
    "cuckoofilter 8-bit, SipHash",
    STATIC,
];

fn ours(keys: usize, hasher: KeyHasher) -> Box<dyn Contender> {
    let builder = Filter::builder().capacity(keys).rate(RATE).hasher(hasher);
    Box::new(Made {
        filter: builder.build().expect("a good size"),
        insert: |filter: &mut Filter, key: &str| {
            filter.insert(key);
        },
        contains: |filter: &Filter, key: &str| filter.contains(key),
    })
}

/// An empty filter for so many keys.
pub fn make(name: &str, keys: usize) -> Box<dyn Contender> {
    match name {
        "twiceshy::Filter, SipHash" => ours(keys, KeyHasher::random()),
        "twiceshy::Filter, XXH3" => ours(keys, KeyHasher::fast(7)),
        FASTBLOOM => Box::new(Made {
            filter: fastbloom::BloomFilter::with_false_pos(RATE).expected_items(keys),
            insert: |filter: &mut fastbloom::BloomFilter, key: &str| {
                filter.insert(key);
            },
            contains: |filter: &fastbloom::BloomFilter, key: &str| filter.contains(key),
        }),
        "qfilter, foldhash" => Box::new(Made {
            filter: qfilter::Filter::new(keys as u64, RATE).expect("a good size"),
            insert: |filter: &mut qfilter::Filter, key: &str| {
                filter.insert(key).expect("there is room");
            },
            contains: |filter: &qfilter::Filter, key: &str| filter.contains(key),
        }),
        "cuckoofilter 8-bit, SipHash" => Box::new(Made {
            filter: cuckoofilter::CuckooFilter::<DefaultHasher>::with_capacity(keys),
            insert: |filter: &mut cuckoofilter::CuckooFilter<DefaultHasher>, key: &str| {
                filter.add(key).expect("there is room");
            },
            contains: |filter: &cuckoofilter::CuckooFilter<DefaultHasher>, key: &str| {
                filter.contains(key)
            },
        }),
        STATIC => Box::new(Fuse { hasher: RandomState::new(), filter: None }),
        NOTHING => Box::new(Nothing),
        other => panic!("no contender is called {other}"),
    }
}
