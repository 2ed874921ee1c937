//! Every guard against a map.

use std::collections::HashMap;
use std::sync::Arc;

use twiceshy::Guard;
use twiceshy::guard::{GuardOptions, GuardStats, MemoryStore, Opened};
use twiceshy_filters::Adapted;

use crate::random::Random;
use crate::stores::{SPECS, hasher, is_adaptive};
use crate::{key, options};

/// A guard, the map that it should agree with, and snapshots of both kinds.
struct Play {
    store: Arc<MemoryStore>,
    guard: Guard<Arc<MemoryStore>>,
    options: GuardOptions,
    oracle: HashMap<Vec<u8>, Vec<u8>>,
    /// A snapshot of the store as it is, and one of the store as it was.
    fresh: Option<Vec<u8>>,
    stale: Option<Vec<u8>>,
    random: Random,
    universe: u64,
    /// Counts of the guards that were closed.
    before: GuardStats,
    reopened: [u32; 4],
}

impl Play {
    fn new(options: GuardOptions, seed: u64) -> Self {
        let store = Arc::new(MemoryStore::default());
        let guard = Guard::open(store.clone(), hasher(), &options).expect("an empty store");
        assert_eq!(*guard.opened(), Opened::Empty);
        Play {
            store,
            guard,
            options,
            oracle: HashMap::new(),
            fresh: None,
            stale: None,
            random: Random(seed),
            universe: 4 * options.capacity as u64 + 20,
            before: GuardStats::default(),
            reopened: [0; 4],
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random.next() % limit
    }

    fn key(&mut self) -> Vec<u8> {
        key(self.below(self.universe))
    }

    fn record(&mut self) -> (Vec<u8>, Vec<u8>) {
        let length = self.below(20) as usize;
        (self.key(), self.random.bytes(length))
    }

    /// The store has changed: no snapshot is of it any more.
    fn changed(&mut self) {
        self.stale = self.fresh.take().or(self.stale.take());
    }

    fn step(&mut self) {
        match self.below(1000) {
            0..300 => self.put(),
            300..340 => self.put_many(),
            340..500 => self.remove(),
            500..800 => self.get(),
            800..900 => self.exists(),
            900..960 => self.get_many(),
            960..975 => self.snapshot(),
            975..985 => self.reopen(),
            985..990 => self.check(),
            _ => {
                let text = self.key();
                let outcome = self.guard.adapt(&text).expect("in memory");
                assert_eq!(outcome == Adapted::Stored, self.oracle.contains_key(&text));
            }
        }
    }

    /// Each snapshot takes the place of the one before.
    fn snapshot(&mut self) {
        self.changed();
        self.fresh = Some(self.guard.snapshot().expect("in memory"));
    }

    fn put(&mut self) {
        let (key, value) = self.record();
        let new = self.guard.put(&key, &value).expect("in memory");
        assert_eq!(new, self.oracle.insert(key, value).is_none());
        self.changed();
    }

    /// Also with a key that is there twice: the last value counts.
    fn put_many(&mut self) {
        let count = self.below(20);
        let mut records: Vec<_> = (0..count).map(|_| self.record()).collect();
        if let Some((key, _)) = records.first().cloned() {
            records.push((key, b"again".to_vec()));
        }
        let new = self.guard.put_many(&records).expect("in memory");
        let before = self.oracle.len();
        let changes = !records.is_empty();
        self.oracle.extend(records);
        assert_eq!(new, self.oracle.len() - before);
        if changes {
            self.changed();
        }
    }

    fn remove(&mut self) {
        let key = self.key();
        let was = self.guard.remove(&key).expect("in memory");
        assert_eq!(was, self.oracle.remove(&key).is_some());
        if was {
            self.changed();
        }
    }

    fn get(&mut self) {
        let key = self.key();
        assert_eq!(self.guard.get(&key).expect("in memory").as_ref(), self.oracle.get(&key));
    }

    fn exists(&mut self) {
        let key = self.key();
        assert_eq!(self.guard.exists(&key).expect("in memory"), self.oracle.contains_key(&key));
    }

    fn get_many(&mut self) {
        let keys: Vec<_> = (0..self.below(40)).map(|_| self.key()).collect();
        let found = self.guard.get_many(&keys).expect("in memory");
        assert_eq!(found.len(), keys.len());
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found.as_ref(), self.oracle.get(key));
        }
    }

    /// Closes the guard and opens another, with or without a snapshot.
    fn reopen(&mut self) {
        let way = self.below(4) as usize;
        let snapshot = match way {
            0 => {
                if self.fresh.is_none() {
                    self.snapshot();
                }
                self.fresh.clone()
            }
            1 => self.stale.clone(),
            2 => self.fresh.clone().or(self.stale.clone()).map(|mut bytes| {
                let bit = self.below(8 * bytes.len() as u64) as usize;
                bytes[bit / 8] ^= 1 << (bit % 8);
                bytes
            }),
            _ => None,
        };
        let given = snapshot.is_some();
        let count = self.oracle.len() as u64;
        let mut last = (0, 0);
        let guard = Guard::open_with(
            self.store.clone(),
            hasher(),
            &self.options,
            snapshot.as_deref(),
            &mut |done, total| last = (done, total),
        );
        let old = std::mem::replace(&mut self.guard, guard.expect("in memory"));
        add(&mut self.before, &old.stats());
        let used = *self.guard.opened() == Opened::Snapshot;
        assert_eq!(used, way == 0 && given, "way {way}: {:?}", self.guard.opened());
        if !used {
            assert_eq!(last, (count, count), "progress ends with all keys");
            let empty = *self.guard.opened() == Opened::Empty;
            assert_eq!(empty, self.oracle.is_empty());
        }
        self.reopened[way] += u32::from(given || way == 3);
    }

    fn check(&mut self) {
        assert_eq!(self.guard.check(), Ok(0), "{}", self.guard.spec());
        assert_eq!(self.guard.stats().keys, self.oracle.len() as u64);
        for (key, value) in &self.oracle {
            assert!(self.guard.contains(key), "false negative");
            assert_eq!(self.guard.get(key).expect("in memory").as_ref(), Some(value));
        }
    }
}

fn add(sum: &mut GuardStats, stats: &GuardStats) {
    sum.false_positives += stats.false_positives;
    sum.adapted += stats.adapted;
    sum.postponed += stats.postponed;
    sum.spent += stats.spent;
    sum.growths += stats.growths;
}

/// Eight plays for each filter, each of 3,000 operations.
#[test]
fn every_guard_agrees_with_a_map() {
    for (which, text) in SPECS.iter().enumerate() {
        let mut sum = GuardStats::default();
        let mut reopened = [0; 4];
        for play in 0..8 {
            let capacity = [1, 8, 60, 300][play % 4];
            let shard_bits = (play / 2 % 4) as u32;
            let seed = (which * 100 + play) as u64;
            let mut play = Play::new(options(text, capacity, shard_bits), seed);
            for _ in 0..3000 {
                play.step();
            }
            play.check();
            add(&mut sum, &play.before);
            add(&mut sum, &play.guard.stats());
            (0..4).for_each(|way| reopened[way] += play.reopened[way]);
        }
        // The test proves little where nothing of it happened.
        assert!(sum.false_positives > 100 && sum.growths > 8, "{text}: {sum:?}");
        assert_eq!(sum.postponed, 0, "{text}: nobody else is there");
        assert_eq!(sum.adapted > 100, is_adaptive(text), "{text}: {sum:?}");
        assert!(reopened.iter().all(|&count| count > 5), "{text}: {reopened:?}");
        if text.starts_with("telescoping") || text.starts_with("extension") {
            assert!(sum.spent > 20, "{text}: {sum:?}");
        }
    }
}

/// The same with line filters, whose fingerprints are too long for many false positives.
#[test]
fn every_guard_of_a_line_filter_agrees_with_a_map() {
    for (which, text) in ["line", "line:f=12"].iter().enumerate() {
        let mut sum = GuardStats::default();
        for play in 0..8 {
            let capacity = [1, 8, 60, 300][play % 4];
            let seed = (which * 100 + play) as u64;
            let mut play = Play::new(options(text, capacity, (play / 2 % 4) as u32), seed);
            for _ in 0..3000 {
                play.step();
            }
            play.check();
            add(&mut sum, &play.before);
            add(&mut sum, &play.guard.stats());
        }
        assert!(sum.growths > 8 && sum.postponed == 0, "{text}: {sum:?}");
    }
}

/// From room for a few keys to thousands, one by one: also filters of partial keys
/// whose fingerprints are too short for the load that they were made for.
#[test]
fn every_guard_grows_as_far_as_it_has_to() {
    for text in SPECS {
        let options = options(text, 4, 0);
        let guard = Guard::open(MemoryStore::default(), hasher(), &options).expect("empty");
        for number in 0..4000 {
            guard.put(key(number), "value").unwrap_or_else(|error| panic!("{text}: {error}"));
        }
        assert_eq!(guard.check(), Ok(0), "{text}");
        assert!(guard.stats().growths > 10, "{text}");
    }
}
