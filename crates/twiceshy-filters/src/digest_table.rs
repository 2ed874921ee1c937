//! An ordered set of digests whose size is known in advance.
//!
//! Linear probing with ordered keys (Amble and Knuth, "Ordered Hash Tables", 1974) and an
//! order-preserving hash function: a digest's first word, as a fraction, times the number of
//! homes.
//!
//! ```text
//! homes    0   1   2   3   4   5
//! slots  [ a │   │ b │ c │ d │   │   ]     2 is the home of b and of c
//! ```
//!
//! A digest is at its home, or behind it with no gap in between. From its home on, the first
//! slot that is empty or holds a digest that is not smaller is its own. An insertion touches one
//! or two cache lines, where a sorted array would move half of its digests.

#[cfg(test)]
use alloc::format;
#[cfg(test)]
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::bits::pages::filled;
use crate::bits::prefetch::prefetch;
use crate::digest::{Digest, reduce64};

/// Up to a number of digests that are spread evenly, as those of a hash function
/// are.
#[derive(Clone)]
pub(crate) struct DigestTable {
    /// The complements of digests, so that memory that comes zeroed is empty. The
    /// last slot is empty.
    slots: Vec<u128>,
    homes: u64,
    len: usize,
    capacity: usize,
}

/// What an empty slot reads as: greater than any digest that a table can hold.
const EMPTY: u128 = u128::MAX;

/// Slots behind the last home. In a full table random digests need more once in
/// ten million times or less: a queue of one customer a step, served with 13/16 of
/// the steps taken, is longer than k with probability exp(-0.40 k).
const TAIL: usize = 48;

/// Slots from a digest's home to the next gap, at most. Among 10^9 random digests
/// there is hardly one that needs 1500; who needs more is not random.
const LONGEST: usize = 4096;

/// It has no room for a digest.
#[derive(Debug)]
pub(crate) struct NoRoom;

impl DigestTable {
    /// An empty one with room for so many.
    pub(crate) fn new(capacity: usize) -> Self {
        let homes = capacity + (3 * capacity).div_ceil(13);
        DigestTable { slots: filled(0, homes + TAIL), homes: homes as u64, len: 0, capacity }
    }

    #[inline]
    fn home(&self, number: u128) -> usize {
        reduce64((number >> 64) as u64, self.homes) as usize
    }

    #[inline]
    fn number(&self, slot: usize) -> u128 {
        !self.slots[slot]
    }

    /// Where a number is, or where it would be put.
    #[inline]
    fn search(&self, number: u128) -> usize {
        let mut slot = self.home(number);
        while self.number(slot) < number {
            slot += 1;
        }
        slot
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a digest; `false` when it was there.
    ///
    /// # Errors
    /// That there is no room for it.
    pub(crate) fn insert(&mut self, digest: Digest) -> Result<bool, NoRoom> {
        let number = digest.number();
        let slot = self.search(number);
        if self.number(slot) == number && number != EMPTY {
            return Ok(false);
        }
        let taken = self.slots[slot..].iter().position(|&slot| slot == 0);
        let gap = slot + taken.expect("the last slot is empty");
        let is_last = gap + 1 == self.slots.len();
        let is_far = gap - self.home(number) > LONGEST;
        if self.len == self.capacity || is_last || is_far || number == EMPTY {
            return Err(NoRoom);
        }
        self.slots.copy_within(slot..gap, slot + 1);
        self.slots[slot] = !number;
        self.len += 1;
        Ok(true)
    }

    /// Removes a digest; `false` when it was not there.
    pub(crate) fn remove(&mut self, digest: Digest) -> bool {
        let number = digest.number();
        let slot = self.search(number);
        if self.number(slot) != number || number == EMPTY {
            return false;
        }
        // Those behind it that are not at home come nearer.
        let is_away = |&other: &usize| {
            let number = self.number(other);
            number != EMPTY && self.home(number) < other
        };
        let last = (slot + 1..).take_while(is_away).last().unwrap_or(slot);
        self.slots.copy_within(slot + 1..=last, slot);
        self.slots[last] = 0;
        self.len -= 1;
        true
    }

    /// The digests of a range in order.
    pub(crate) fn range(&self, range: RangeInclusive<Digest>) -> impl Iterator<Item = Digest> {
        let (start, end) = (range.start().number(), range.end().number());
        let slots = if start <= end { self.search(start)..self.search(end) + 1 } else { 0..0 };
        let numbers = slots.map(|slot| self.number(slot));
        let within = numbers.filter(move |&number| number <= end && number != EMPTY);
        within.map(Digest::from_number)
    }

    /// Asks for the memory of a digest's home and of what is next to it.
    #[inline]
    pub(crate) fn prefetch(&self, digest: Digest) {
        let home = self.home(digest.number());
        prefetch(&self.slots, home);
        prefetch(&self.slots, home + 4);
    }

    /// The heap that it holds, in bits.
    pub(crate) fn bits(&self) -> usize {
        8 * size_of_val(&*self.slots)
    }

    /// Checks every invariant.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<(), String> {
        let taken = (0..self.slots.len()).filter(|&slot| self.number(slot) != EMPTY);
        let numbers: Vec<u128> = taken.clone().map(|slot| self.number(slot)).collect();
        if numbers.len() != self.len || !numbers.is_sorted_by(|a, b| a < b) {
            return Err(format!("{} digests are {numbers:x?}", self.len));
        }
        if self.slots.last() != Some(&0) || self.len > self.capacity {
            return Err(format!("{} of {} digests, up to the end", self.len, self.capacity));
        }
        for slot in taken {
            let home = self.home(self.number(slot));
            if home > slot || self.slots[home..slot].contains(&0) {
                return Err(format!("slot {slot} has a digest of {home}"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn random_digests_find_room_in_their_table() {
        // A table of 10^5 has no room in the end once in ten million times.
        for (seed, capacity) in [0, 1, 2, 3, 10, 100, 1000, 100_000].into_iter().enumerate() {
            if cfg!(miri) && capacity > 100 {
                continue;
            }
            let mut rng = Rng::new(seed as u64);
            let mut table = DigestTable::new(capacity);
            for _ in 0..capacity {
                let digest = Digest::new([rng.next(), rng.next()]);
                assert!(table.insert(digest).expect("room"));
                assert!(!table.insert(digest).expect("it is there"));
            }
            table.check().expect("sound");
            table.insert(Digest::new([rng.next(), 0])).expect_err("full");
            assert_eq!(table.len(), capacity);
            if capacity > 10_000 {
                let bytes = table.bits() as f64 / 8.0 / capacity as f64;
                assert!((19.69..19.75).contains(&bytes), "{bytes}");
            }
        }
    }

    #[test]
    fn a_digest_that_does_not_fit_changes_nothing() {
        let mut table = DigestTable::new(100_000);
        let pile = |n: u64| Digest::new([1 << 63, n]);
        let room = (0..).find(|&n| table.insert(pile(n)).is_err()).expect("a pile is not random");
        assert_eq!(room, LONGEST as u64 + 1);
        table.check().expect("sound");
        assert!(table.range(pile(0)..=pile(u64::MAX)).eq((0..room).map(pile)));

        let mut table = DigestTable::new(1000);
        let last = |n: u64| Digest::new([u64::MAX, n]);
        let room = (0..).find(|&n| table.insert(last(n)).is_err()).expect("the tail is short");
        assert_eq!(room, TAIL as u64);
        table.check().expect("sound");

        let greatest = Digest::new([u64::MAX; 2]);
        table = DigestTable::new(1000);
        table.insert(greatest).expect_err("it would read as empty");
        assert!(!table.remove(greatest) && table.len() == 0);
    }
}
