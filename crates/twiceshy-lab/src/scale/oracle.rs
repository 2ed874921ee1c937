//! What the store has: the truth that answers are compared with.

use std::collections::HashSet;

/// A key by its number; [`super::key_name`] has its text. Kinds of keys have ranges of their own.
pub(super) type Key = u64;

/// The first absent key that traffic asks for.
pub(super) const ABSENT: Key = 1 << 40;
/// The first key of the first pass.
pub(super) const FIRST_PASS: Key = 1 << 41;
/// The first key that the attacker asks for.
pub(super) const ATTACK: Key = 1 << 42;

/// Why a stored key was answered "absent".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// Its insertion was lost with a node, as any acknowledged write may be.
    Lost,
    /// It was reported as absent by a client that had read the store before the key was stored.
    Hidden,
    /// A false negative: there is no excuse.
    Unexplained,
}

/// The stored keys.
#[derive(Debug, Default)]
pub(super) struct Oracle {
    /// Keys `0..loaded` are stored.
    loaded: u64,
    /// Those that came later, in order.
    pub(super) inserted: Vec<Key>,
    stored: HashSet<Key>,
    lost: HashSet<Key>,
    hidden: HashSet<Key>,
}

impl Oracle {
    pub(super) fn new(loaded: u64) -> Self {
        Oracle { loaded, ..Oracle::default() }
    }

    pub(super) fn is_stored(&self, key: Key) -> bool {
        key < self.loaded || self.stored.contains(&key)
    }

    /// A key that was loaded, counted from the most popular one.
    pub(super) fn loaded(&self) -> u64 {
        self.loaded
    }

    /// Stores a key; `false` if it was stored.
    pub(super) fn store(&mut self, key: Key) -> bool {
        // The insertion that was acknowledged last is the one that counts.
        self.lost.remove(&key);
        self.hidden.remove(&key);
        let new = !self.is_stored(key);
        if new {
            self.stored.insert(key);
            self.inserted.push(key);
        }
        new
    }

    /// The filter has lost a key that is stored.
    pub(super) fn lose(&mut self, key: Key) {
        self.lost.insert(key);
    }

    /// A report of a key that is stored has hidden it.
    pub(super) fn hide(&mut self, key: Key) {
        self.hidden.insert(key);
    }

    /// A node's filters have been rebuilt: this key is there again.
    pub(super) fn recover(&mut self, key: Key) {
        self.lost.remove(&key);
        self.hidden.remove(&key);
    }

    /// Why this stored key was denied.
    pub(super) fn explain(&self, key: Key) -> Denied {
        match () {
            () if self.lost.contains(&key) => Denied::Lost,
            () if self.hidden.contains(&key) => Denied::Hidden,
            () => Denied::Unexplained,
        }
    }

    /// All stored keys.
    pub(super) fn all(&self) -> impl Iterator<Item = Key> + '_ {
        (0..self.loaded).chain(self.inserted.iter().copied())
    }
}
