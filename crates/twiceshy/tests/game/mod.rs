//! The adaptivity game: Bender et al., "Bloom Filters, Adaptivity, and the
//! Dictionary Problem", section 2, figure 1.
//!
//! An oracle owns the filter, the set and the secret; an adversary sees answers,
//! and wins if the key that it names at the end is a false positive.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::HashSet;

use twiceshy::{AnyFilter, KeyHasher, Spec};

/// What the adversary talks to. Keys are numbers.
pub struct Oracle {
    filter: AnyFilter,
    hasher: KeyHasher,
    set: HashSet<u64>,
    capacity: usize,
    /// Lookups that were false positives.
    pub false_positives: u64,
    pub lookups: u64,
}

impl Oracle {
    pub fn new(spec: &str, capacity: usize, secret: u64) -> Self {
        let mut key = [7; 16];
        key[..8].copy_from_slice(&secret.to_le_bytes());
        let spec: Spec = spec.parse().expect("a filter");
        Oracle {
            filter: spec.build(capacity).expect("a capacity"),
            hasher: KeyHasher::keyed(key),
            set: HashSet::new(),
            capacity,
            false_positives: 0,
            lookups: 0,
        }
    }

    /// The answer, "present" or not. The filter is told of false positives.
    pub fn lookup(&mut self, key: u64) -> bool {
        let digest = self.hasher.digest(key.to_le_bytes());
        let answer = self.filter.contains(digest);
        self.lookups += 1;
        assert!(answer || !self.set.contains(&key), "{key} is denied: a false negative");
        if answer && !self.set.contains(&key) {
            self.false_positives += 1;
            self.filter.adapt(digest).expect("in memory");
        }
        answer
    }

    /// # Panics
    /// If the adversary does not keep to the rules.
    pub fn insert(&mut self, key: u64) {
        assert!(self.set.len() < self.capacity && self.set.insert(key), "against the rules");
        assert!(self.filter.insert(self.hasher.digest(key.to_le_bytes())).expect("room"));
    }

    /// # Panics
    /// If the adversary does not keep to the rules.
    pub fn delete(&mut self, key: u64) {
        assert!(self.set.remove(&key), "against the rules");
        assert!(self.filter.remove(self.hasher.digest(key.to_le_bytes())).expect("in memory"));
    }

    /// Whether the adversary wins with this key.
    pub fn is_false_positive(&self, key: u64) -> bool {
        !self.set.contains(&key) && self.filter.contains(self.hasher.digest(key.to_le_bytes()))
    }

    pub fn check(&mut self) {
        self.filter.check().expect("every invariant holds");
    }
}

/// Somebody who wants a false positive.
pub trait Adversary {
    /// Plays, and names a key at last. Its own set of keys is up to it.
    fn play(&mut self, oracle: &mut Oracle) -> u64;
}

/// How many of so many games an adversary wins.
pub fn wins(
    spec: &str,
    keys: usize,
    games: u64,
    adversary: impl Fn(u64) -> Box<dyn Adversary>,
) -> u64 {
    (0..games)
        .map(|game| {
            let mut oracle = Oracle::new(spec, keys, game);
            let named = adversary(game).play(&mut oracle);
            u64::from(oracle.is_false_positive(named))
        })
        .sum()
}
