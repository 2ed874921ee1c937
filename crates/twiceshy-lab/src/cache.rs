//! A bounded cache of refuted keys: false positives that the store has disproved.
//!
//! Bender, Das, Farach-Colton, Mo, Tench, Wang, "Mitigating False Positives in Filters: to Adapt
//! or to Cache?" A static filter with a cache beside it is the simplest filter that does not
//! repeat its mistakes. It holds while the mistakes that come back fit the cache.
//!
//! A full cache evicts by CLOCK. Entries stand in a ring. A hit marks its entry; the hand passes
//! over marked entries, takes their marks away, and replaces the first one without a mark.

use std::cell::Cell;
use std::collections::HashMap;

use twiceshy_filters::Digest;

/// Refuted keys, at most as many as its memory holds.
#[derive(Debug)]
pub struct Cache {
    ring: Vec<Entry>,
    /// Where in the ring a digest is.
    places: HashMap<Digest, usize>,
    hand: usize,
    most: usize,
    added: u64,
}

#[derive(Debug)]
struct Entry {
    digest: Digest,
    /// Asked for since the hand was here. Lookups set it, and they share the cache.
    marked: Cell<bool>,
}

/// Bits of an exact list's entry: a digest and its control byte, in a table that is filled
/// to seven eighths.
pub const LISTED_BITS: usize = (size_of::<Digest>() + 1) * 8 * 8 / 7;

/// Bits of a cache's entry: the same, and its mark. The ring is the table itself.
pub const CACHED_BITS: usize = LISTED_BITS + 1;

impl Cache {
    /// An empty cache of at most `room` bits.
    #[must_use]
    pub fn within(room: usize) -> Self {
        let most = room / CACHED_BITS;
        Cache { ring: Vec::new(), places: HashMap::new(), hand: 0, most, added: 0 }
    }

    /// Whether a key is known to be absent. A hit marks it.
    #[must_use]
    pub fn contains(&self, digest: Digest) -> bool {
        let place = self.places.get(&digest);
        place.inspect(|&&place| self.ring[place].marked.set(true)).is_some()
    }

    /// Adds a refuted key, and evicts another if the cache is full. `false` if it has no room
    /// for even one.
    pub fn add(&mut self, digest: Digest) -> bool {
        if self.most == 0 || self.contains(digest) {
            return self.most != 0;
        }
        let entry = Entry { digest, marked: Cell::new(false) };
        let place = if self.ring.len() < self.most {
            self.ring.push(entry);
            self.ring.len() - 1
        } else {
            let place = self.victim();
            self.places.remove(&self.ring[place].digest);
            self.ring[place] = entry;
            place
        };
        self.places.insert(digest, place);
        self.added += 1;
        true
    }

    /// The entry to replace, with the hand behind it.
    fn victim(&mut self) -> usize {
        loop {
            let place = self.hand % self.ring.len();
            self.hand = place + 1;
            if !self.ring[place].marked.replace(false) {
                return place;
            }
        }
    }

    /// Forgets a key: it is stored now, and must not be answered "absent".
    pub fn remove(&mut self, digest: Digest) {
        let Some(place) = self.places.remove(&digest) else { return };
        self.ring.swap_remove(place);
        if let Some(moved) = self.ring.get(place) {
            self.places.insert(moved.digest, place);
        }
    }

    /// Memory, in bits, whether it is full or not.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.most * CACHED_BITS
    }

    /// Keys that it has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.most
    }

    /// Keys that were added so far, with those evicted since.
    #[must_use]
    pub fn added(&self) -> u64 {
        self.added
    }

    /// Verifies every invariant; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        if self.ring.len() > self.most {
            return Err(format!("{} keys in a cache for {}", self.ring.len(), self.most));
        }
        if self.places.len() != self.ring.len() {
            return Err(format!("{} places for {} keys", self.places.len(), self.ring.len()));
        }
        let misplaced = self
            .ring
            .iter()
            .enumerate()
            .find(|(place, entry)| self.places.get(&entry.digest) != Some(place));
        match misplaced {
            Some((place, entry)) => Err(format!("{:?} is not found at {place}", entry.digest)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u64) -> Digest {
        Digest::new([number, !number])
    }

    fn cache_of(entries: usize) -> Cache {
        Cache::within(entries * CACHED_BITS)
    }

    /// By hand. The hand starts at 1: that is marked and passed over, 2 goes; then 3 goes, as
    /// the hand is behind it and 1 has no mark any more but is further round.
    #[test]
    fn a_marked_entry_survives_one_round_of_the_hand() {
        let mut cache = cache_of(3);
        for number in 1..=3 {
            assert!(cache.add(key(number)));
        }
        assert!(cache.contains(key(1)));
        assert!(cache.add(key(4)));
        let held = |cache: &Cache| -> Vec<u64> {
            (1..=6).filter(|&number| cache.places.contains_key(&key(number))).collect()
        };
        assert_eq!(held(&cache), [1, 3, 4]);
        assert!(cache.add(key(5)));
        assert_eq!(held(&cache), [1, 4, 5]);
        assert!(cache.add(key(6)));
        assert_eq!(held(&cache), [4, 5, 6]);
        assert_eq!(cache.added(), 6);
    }

    #[test]
    fn a_removed_key_leaves_the_others_where_they_are_found() {
        let mut cache = cache_of(4);
        for number in 0..4 {
            cache.add(key(number));
        }
        for number in [1, 3, 7] {
            cache.remove(key(number));
            cache.check().unwrap();
            assert!(!cache.contains(key(number)));
        }
        assert!(cache.contains(key(0)) && cache.contains(key(2)));
    }

    #[test]
    fn a_cache_without_room_refuses() {
        let mut cache = Cache::within(CACHED_BITS - 1);
        assert!(!cache.add(key(1)));
        assert!(!cache.contains(key(1)));
        assert_eq!(cache.bits(), 0);
    }
}
