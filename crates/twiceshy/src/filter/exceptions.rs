//! Reported false positives, in a small table of fixed size.
//!
//! ```text
//! index  | which set, or none yet |  ...                                4 bytes per set
//!
//! set    | entry 0 | entry 1 | entry 2 | entry 3 | entry 4 | order |   64 bytes: a cache line
//!          12 bytes each                                     4
//! order    most recent first; a hit moves to the front, a new entry comes in the middle
//! ```
//!
//! A digest belongs to one set, and a full set forgets its last entry. New entries start in
//! the middle, so a scan of keys that never repeat pushes out at most three of the five.
//! Measured in wasted reads: 310, where CLOCK had 397, LRU 417 and FIFO 493.
//!
//! A set takes memory when it gets its first entry. The room for all of them is reserved when
//! a table is made, but not when one is loaded: an empty set is one byte in a file, so a
//! small file could ask for 64 times its size. With the index, loading takes at most
//! 68 bytes for 13 bytes of file.
//!
//! # Readers share the table
//!
//! A hit has to move to the front, and hits happen under a shared reference. So entries stay
//! where they are, and only `order` changes: a permutation of the occupied slots in one
//! atomic word. Entries are written under an exclusive reference alone, so no reader sees
//! half of one. Two hits at once may lose one of the two moves, and that is all: each
//! writes a permutation of the same slots. A lookup takes a bounded number of steps and
//! never waits.
//!
//! # Could an exception hide a stored key?
//!
//! Only that of another key with the same set and the same entry. Set and entry are cut from the
//! digest under hash functions of their own, so they are independent of the bins and the
//! fingerprint that made the other key a false positive. Two keys agree on both with probability
//! `1 / (sets * 2^96)`. An insertion removes the entry that its key would match, no matter which
//! key left it there; so only an adaptation *after* the insertion can hide a key. For `N` stored
//! keys and `A` adaptations the probability that this ever happens is at most
//!
//! ```text
//! N * A / (sets * 2^96)  <=  544 * A / (b * 2^96)       with b bits of table per key
//! ```
//!
//! because `b` bits per key are at least `N * b / 544` sets. It depends on the number of
//! adaptations only: for 10^9 of them it is 1.4 * 10^-17 with half a bit per key, 2.7 * 10^-17
//! with a quarter, and 6.9 * 10^-16 with [`LEAST_BITS`], the smallest table. (Equal
//! digests of two keys add 3 * 10^-21 for 10^9 keys.) How many entries the table has at
//! once does not matter: those that were pushed out are counted too.

use std::sync::atomic::{AtomicU32, Ordering};

use twiceshy_filters::internals::{Reader, Writer, reduce64};
use twiceshy_filters::{Digest, Error, Result};

/// The fewest bits per key that a table may have, if there is one.
pub(crate) const LEAST_BITS: f64 = 0.01;

/// The most, which is enough for thousands of exceptions of a handful of keys.
pub(crate) const MOST_BITS: f64 = 65536.0;

/// Bits of an entry. Tests use fewer, to see what more make impossible.
pub(crate) const ENTRY_BITS: u32 = 96;

const SLOTS: usize = 5;
const WORDS: usize = 3;
const ENTRY_BYTES: usize = WORDS * size_of::<u32>();
/// A set and its number in the index.
const SET_BITS: f64 = ((size_of::<Set>() + size_of::<u32>()) * 8) as f64;

/// Where a new entry comes in a set.
const MIDDLE: u32 = 2;

/// The set of hash functions that places exceptions. Filters without a remote never use any
/// but number 0.
const HASH_FUNCTIONS: u64 = 0x6578_6365_7074;

type Entry = [u32; WORDS];

/// A bounded table of digests, each cut to a set and `WIDTH` bits.
#[derive(Clone, Default)]
pub(crate) struct Exceptions<const WIDTH: u32 = ENTRY_BITS> {
    /// For each set one more than its place in `sets`; 0 if it never had an entry.
    index: Vec<u32>,
    /// In order of their first entry.
    sets: Vec<Set>,
    /// Entries of all sets.
    len: usize,
}

#[repr(C, align(64))]
#[derive(Default)]
struct Set {
    entries: [Entry; SLOTS],
    order: AtomicU32,
}

/// The occupied slots of a set, most recent first: one more than the slot in four bits for
/// each, from the lowest up, and zeros behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order(u32);

impl Order {
    const BITS: u32 = 4;
    const ALL: u32 = (1 << (Self::BITS * SLOTS as u32)) - 1;

    /// The bits of the positions before this one.
    const fn before(position: u32) -> u32 {
        (1 << (Self::BITS * position)) - 1
    }

    /// The slot at a position; `None` behind the last.
    fn slot(self, position: u32) -> Option<usize> {
        ((self.0 >> (Self::BITS * position)) as usize & 0xf).checked_sub(1)
    }

    fn slots(self) -> impl Iterator<Item = usize> {
        (0..SLOTS as u32).map_while(move |position| self.slot(position))
    }

    fn len(self) -> u32 {
        (u32::BITS - self.0.leading_zeros()).div_ceil(Self::BITS)
    }

    /// Without the slot at a position.
    fn without(self, position: u32) -> Self {
        let before = Self::before(position);
        Order(self.0 & before | (self.0 >> Self::BITS) & !before)
    }

    /// With a slot at a position; of five others, the last is lost.
    fn with(self, position: u32, slot: usize) -> Self {
        let before = Self::before(position);
        let slot = (slot as u32 + 1) << (Self::BITS * position);
        Order((self.0 & before | slot | (self.0 & !before) << Self::BITS) & Self::ALL)
    }
}

impl Set {
    fn order(&self) -> Order {
        Order(self.order.load(Ordering::Relaxed))
    }

    fn set_order(&mut self, order: Order) {
        *self.order.get_mut() = order.0;
    }

    /// The position of an entry.
    fn find(&self, order: Order, entry: Entry) -> Option<u32> {
        let position = order.slots().position(|slot| self.entries[slot] == entry)?;
        Some(position as u32)
    }

    /// Whether it has an entry, which moves to the front.
    fn hit(&self, entry: Entry) -> bool {
        let order = self.order();
        let Some(position) = self.find(order, entry) else { return false };
        // An entry that is in front already costs no write, so that readers of a hot one
        // share its cache line.
        if let (1.., Some(slot)) = (position, order.slot(position)) {
            self.order.store(order.without(position).with(0, slot).0, Ordering::Relaxed);
        }
        true
    }

    /// Adds an entry that is not there; `true` if another was lost for it.
    fn push(&mut self, entry: Entry) -> bool {
        let order = self.order();
        let free = (0..SLOTS).find(|slot| order.slots().all(|used| used != *slot));
        let slot = free.or(order.slot(SLOTS as u32 - 1)).expect("a set with no free slot is full");
        self.entries[slot] = entry;
        let order = if free.is_none() { order.without(SLOTS as u32 - 1) } else { order };
        self.set_order(order.with(MIDDLE.min(order.len()), slot));
        free.is_none()
    }

    /// Its entries, most recent first.
    fn entries(&self) -> impl Iterator<Item = Entry> {
        self.order().slots().map(|slot| self.entries[slot])
    }
}

impl Clone for Set {
    fn clone(&self) -> Self {
        Set { entries: self.entries, order: AtomicU32::new(self.order().0) }
    }
}

/// Equal tables have the same size and entries, no matter which were used last.
impl<const WIDTH: u32> PartialEq for Exceptions<WIDTH> {
    fn eq(&self, other: &Self) -> bool {
        let sorted = |set: Option<&Set>| {
            let mut entries: Vec<Entry> = set.into_iter().flat_map(Set::entries).collect();
            entries.sort_unstable();
            entries
        };
        self.room() == other.room()
            && self.len == other.len
            && self.in_order().map(sorted).eq(other.in_order().map(sorted))
    }
}

impl<const WIDTH: u32> Exceptions<WIDTH> {
    /// An empty table of about so many bits for each of `keys` keys: whole sets, at least one
    /// unless `bits_per_key` is zero.
    pub(crate) fn new(keys: usize, bits_per_key: f64) -> Self {
        let sets = (keys as f64 * bits_per_key / SET_BITS).ceil() as usize;
        Exceptions { index: vec![0; sets], sets: Vec::with_capacity(sets), len: 0 }
    }

    /// Entries in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Entries that it has room for.
    pub(crate) fn room(&self) -> usize {
        self.index.len() * SLOTS
    }

    /// Bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.index.capacity() * size_of::<u32>() + self.sets.capacity() * size_of::<Set>()
    }

    /// A digest's set and its entry there.
    fn place(&self, digest: Digest) -> (usize, Entry) {
        let [first, second] = digest.rehashed(HASH_FUNCTIONS).words();
        let set = reduce64(first, self.index.len() as u64) as usize;
        let bits = u128::from(first as u32) << 64 | u128::from(second);
        let bits = bits & (u128::MAX >> (u128::BITS - WIDTH));
        (set, [bits as u32, (bits >> 32) as u32, (bits >> 64) as u32])
    }

    /// The place of a set in `sets`, if it has had an entry.
    #[inline]
    fn set_at(&self, set: usize) -> Option<usize> {
        (self.index[set] as usize).checked_sub(1)
    }

    /// The sets in order; `None` for one that never had an entry.
    fn in_order(&self) -> impl Iterator<Item = Option<&Set>> {
        (0..self.index.len()).map(|set| self.set_at(set).map(|at| &self.sets[at]))
    }

    /// Adds a set to `sets`, and returns its place.
    fn add_set(&mut self, set: usize) -> usize {
        let at = self.sets.len();
        if at == self.sets.capacity() {
            // As a vector grows, but never beyond what the table may have.
            self.sets.reserve_exact(at.max(4).min(self.index.len() - at));
        }
        self.sets.push(Set::default());
        self.index[set] = u32::try_from(at + 1).expect("fewer sets than 256 GiB hold");
        at
    }

    /// Whether it has a digest, which moves to the front of its set.
    #[inline]
    pub(crate) fn hit(&self, digest: Digest) -> bool {
        if self.len == 0 {
            return false;
        }
        let (set, entry) = self.place(digest);
        self.set_at(set).is_some_and(|at| self.sets[at].hit(entry))
    }

    /// Whether it has a digest; nothing moves.
    #[inline]
    pub(crate) fn holds(&self, digest: Digest) -> bool {
        if self.len == 0 {
            return false;
        }
        let (set, entry) = self.place(digest);
        let holds = |set: &Set| set.find(set.order(), entry).is_some();
        self.set_at(set).is_some_and(|at| holds(&self.sets[at]))
    }

    /// Adds a digest; `false` if there is no table.
    pub(crate) fn insert(&mut self, digest: Digest) -> bool {
        if self.index.is_empty() {
            return false;
        }
        let (set, entry) = self.place(digest);
        let at = self.set_at(set).unwrap_or_else(|| self.add_set(set));
        if !self.sets[at].hit(entry) {
            let lost = self.sets[at].push(entry);
            self.len += usize::from(!lost);
        }
        true
    }

    /// Removes a digest; `false` if it was not there.
    #[inline]
    pub(crate) fn remove(&mut self, digest: Digest) -> bool {
        if self.len == 0 {
            return false;
        }
        let (set, entry) = self.place(digest);
        let Some(at) = self.set_at(set) else { return false };
        let set = &mut self.sets[at];
        let order = set.order();
        let Some(position) = set.find(order, entry) else { return false };
        set.set_order(order.without(position));
        self.len -= 1;
        true
    }

    /// Removes all.
    pub(crate) fn clear(&mut self) {
        self.sets.iter_mut().for_each(|set| set.set_order(Order(0)));
        self.len = 0;
    }

    /// Gives an empty table's memory back.
    pub(crate) fn drop_if_empty(&mut self) {
        if self.len == 0 {
            *self = Exceptions::default();
        }
    }

    /// The number of sets, then for each its number of entries (a byte) and its entries,
    /// most recent first.
    pub(crate) fn write(&self, writer: &mut Writer) {
        let mut bytes = Vec::with_capacity(self.index.len() + self.len * ENTRY_BYTES);
        for set in self.in_order() {
            bytes.push(set.map_or(0, |set| set.order().len() as u8));
            let entries = set.into_iter().flat_map(Set::entries);
            bytes.extend(entries.flatten().flat_map(u32::to_le_bytes));
        }
        writer.u64(self.index.len() as u64);
        writer.block(&bytes);
    }

    /// What [`Exceptions::write`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        // A set has its byte in the block behind this number.
        let sets = reader.count("sets of exceptions", 1)?;
        let mut bytes = reader.block("the exceptions")?;
        if sets > bytes.len() {
            return Err(Error::format(format!(
                "{sets} sets of exceptions in {} bytes",
                bytes.len()
            )));
        }
        // Every entry has its bytes, and a set with entries has at least one.
        let most = ((bytes.len() - sets) / ENTRY_BYTES).min(sets);
        let mut table = Exceptions { index: vec![0; sets], sets: Vec::with_capacity(most), len: 0 };
        for number in 0..sets {
            let (set, rest) = read_set(bytes)
                .ok_or_else(|| Error::format("its exceptions are cut short or out of order"))?;
            bytes = rest;
            let len = set.order().len() as usize;
            if len != 0 {
                let at = table.add_set(number);
                table.sets[at] = set;
                table.len += len;
            }
        }
        if !bytes.is_empty() {
            return Err(Error::format(format!("{} bytes too many behind exceptions", bytes.len())));
        }
        table.check().map_err(Error::format)?;
        Ok(table)
    }

    /// Verifies every invariant.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut places: Vec<u32> = self.index.iter().copied().filter(|place| *place != 0).collect();
        places.sort_unstable();
        if !places.into_iter().eq(1..=self.sets.len() as u32) {
            return Err("the index of the exceptions does not have each set once".into());
        }
        let mut len = 0;
        for (index, set) in self.in_order().enumerate() {
            let Some(set) = set else { continue };
            let order = set.order();
            let slots: Vec<usize> = order.slots().collect();
            let twice = |slot: &usize| slots.iter().filter(|other| *other == slot).count() != 1;
            if slots.iter().any(|slot| *slot >= SLOTS || twice(slot))
                || slots.len() as u32 != order.len()
            {
                return Err(format!("set {index} of the exceptions has the order {order:x?}"));
            }
            let entries: Vec<Entry> = set.entries().collect();
            if (1..entries.len()).any(|at| entries[..at].contains(&entries[at])) {
                return Err(format!("set {index} of the exceptions has an entry twice"));
            }
            len += entries.len();
        }
        if len != self.len {
            return Err(format!("{len} exceptions, and a count of {}", self.len));
        }
        Ok(())
    }
}

/// A set's entries, and the bytes behind them.
fn read_set(bytes: &[u8]) -> Option<(Set, &[u8])> {
    let (&len, rest) = bytes.split_first()?;
    let len = usize::from(len);
    if len > SLOTS {
        return None;
    }
    let (entries, rest) = rest.split_at_checked(len * ENTRY_BYTES)?;
    let mut set = Set::default();
    let mut order = Order(0);
    for (slot, entry) in entries.chunks_exact(ENTRY_BYTES).enumerate() {
        let words = entry.chunks_exact(4);
        for (word, bytes) in set.entries[slot].iter_mut().zip(words) {
            *word = u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        }
        order = order.with(slot as u32, slot);
    }
    set.set_order(order);
    Some((set, rest))
}

#[cfg(test)]
mod tests;
