//! A level: groups of quotients with their remainders.
//!
//! Bender et al., "Bloom Filters, Adaptivity, and the Dictionary Problem",
//! sections 5.2 to 5.4. One group, in memory and in a file:
//!
//! ```text
//! memory   groups   | group 0 | group 1 | ...     64 bytes each
//!          heads    |  64 h bits |  64 h bits | ...
//!          tails    |  64 t bits |  64 t bits | ...
//! file     | group 0, 64 h bits, 64 t bits | group 1, 64 h bits, 64 t bits | ...
//! ```
//!
//! A remainder's highest `h` bits are its head, the rest its tail. Where
//! remainders are small (section 5.3) there is no tail; where they are large
//! (section 5.4) the head is the paper's signature: heads are compared a word
//! at a time, and a tail is read only where its head is right.
//!
//! In memory the three are separate, each aligned to cache lines. Side by side, a group would
//! not be a whole number of lines unless `h + t` is a multiple of 8: either metadata would span
//! two lines, or up to a third of the memory would be gaps. A lookup reads the line of the
//! group, one or two with the heads of a run of usual length, and one or two for each tail of a
//! head that is right.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ops::Range;

use crate::bits::prefetch::prefetch;
use crate::bits::word::low_bits;

use super::cells::Cells;
use super::group::{Flag, Group, SLOTS};
use super::strings::Text;

pub(crate) use super::group::Full;

/// Bits of a remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// 1 to 32.
    pub head: u32,
    /// 0 or more, up to 32 with the head.
    pub tail: u32,
}

impl Shape {
    fn check(self) -> Result<(), String> {
        let Shape { head, tail } = self;
        if (1..=32).contains(&head) && tail <= 32 - head {
            return Ok(());
        }
        Err(format!("remainders of {head} and {tail} bits: 1 to 32 together, 1 at the head"))
    }

    /// Bytes of a group with its remainders.
    fn group_bytes(self) -> usize {
        Group::BYTES + Cells::group_bytes(self.head) + Cells::group_bytes(self.tail)
    }
}

/// Runs of remainders with adaptivity bits. Quotients are counted through all
/// groups, slots within their group.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Level {
    groups: Vec<Group>,
    heads: Cells,
    tails: Cells,
    shape: Shape,
    quotients: usize,
    len: usize,
}

impl Level {
    pub(crate) fn new(quotients: usize, shape: Shape) -> Self {
        shape.check().unwrap_or_else(|broken| panic!("{broken}"));
        let count = quotients.div_ceil(SLOTS);
        Level {
            groups: vec![Group::default(); count],
            heads: Cells::new(count, shape.head),
            tails: Cells::new(count, shape.tail),
            shape,
            quotients,
            len: 0,
        }
    }

    pub(crate) fn quotients(&self) -> usize {
        self.quotients
    }

    pub(crate) fn groups(&self) -> usize {
        self.groups.len()
    }

    pub(crate) fn slots(&self) -> usize {
        self.groups.len() * SLOTS
    }

    /// Slots in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        self.groups.capacity() * Group::BYTES * 8 + self.heads.bits() + self.tails.bits()
    }

    /// Bits of a group with its remainders.
    pub(crate) fn group_bits(shape: Shape) -> usize {
        shape.group_bytes() * 8
    }

    fn split(&self, remainder: u64) -> (u64, u64) {
        debug_assert!(
            remainder & !low_bits(self.shape.head + self.shape.tail) == 0,
            "{remainder} is wider than {:?}",
            self.shape
        );
        (remainder >> self.shape.tail, remainder & low_bits(self.shape.tail))
    }

    /// The slots of a quotient.
    #[inline(always)]
    pub(crate) fn run(&self, quotient: usize) -> Range<u32> {
        self.groups[quotient / SLOTS].run(within(quotient))
    }

    /// The slots of a quotient with the head of `remainder`, as a bitmap.
    #[inline(always)]
    pub(crate) fn same_head(&self, quotient: usize, remainder: u64) -> u64 {
        let run = self.run(quotient);
        self.heads.equal(quotient / SLOTS, run, remainder >> self.shape.tail)
    }

    /// The slots of a quotient with `remainder`, as a bitmap.
    #[inline(always)]
    pub(crate) fn equal(&self, quotient: usize, remainder: u64) -> u64 {
        let (_, tail) = self.split(remainder);
        let mut equal = self.same_head(quotient, remainder);
        let mut unseen = if self.shape.tail == 0 { 0 } else { equal };
        while unseen != 0 {
            let slot = unseen.trailing_zeros();
            if self.tails.get(cell(quotient, slot)) != tail {
                equal &= !(1 << slot);
            }
            unseen &= unseen - 1;
        }
        equal
    }

    /// The slots of a quotient with `remainder` whose strings are prefixes of
    /// `bits`, as a bitmap.
    ///
    /// This and all that it calls are always inlined: with a call, a batch of queries in cache
    /// took 1.15 times as long as single queries, where it was inlined.
    #[inline(always)]
    pub(crate) fn matches(&self, quotient: usize, remainder: u64, bits: u64) -> u64 {
        match self.equal(quotient, remainder) {
            0 => 0,
            equal => self.groups[quotient / SLOTS].prefixes(equal, bits),
        }
    }

    pub(crate) fn remainder(&self, quotient: usize, slot: u32) -> u64 {
        let cell = cell(quotient, slot);
        self.heads.get(cell) << self.shape.tail | self.tails.get(cell)
    }

    /// The adaptivity bits of a slot.
    pub(crate) fn string(&self, quotient: usize, slot: u32) -> Text {
        self.groups[quotient / SLOTS].string(slot)
    }

    /// Adds a slot at the end of a quotient's run; later ones of the group move
    /// up by one.
    pub(crate) fn insert(
        &mut self,
        quotient: usize,
        remainder: u64,
        string: Text,
    ) -> Result<u32, Full> {
        debug_assert!(quotient < self.quotients, "quotient {quotient} of {}", self.quotients);
        let slot = self.groups[quotient / SLOTS].insert(within(quotient), string)?;
        let (head, tail) = self.split(remainder);
        self.heads.insert(cell(quotient, slot), head);
        self.tails.insert(cell(quotient, slot), tail);
        self.len += 1;
        Ok(slot)
    }

    /// Takes out a slot of a quotient; later ones of the group move down by one.
    /// Its adaptivity bits are handed back.
    pub(crate) fn remove(&mut self, quotient: usize, slot: u32) -> Text {
        let string = self.groups[quotient / SLOTS].remove(within(quotient), slot);
        self.heads.remove(cell(quotient, slot));
        self.tails.remove(cell(quotient, slot));
        self.len -= 1;
        string
    }

    /// Gives a slot other adaptivity bits.
    pub(crate) fn set_string(
        &mut self,
        quotient: usize,
        slot: u32,
        string: Text,
    ) -> Result<(), Full> {
        self.groups[quotient / SLOTS].set_string(slot, string)
    }

    /// Whether [`Level::set_string`] has room.
    pub(crate) fn has_room_for_string(&self, quotient: usize, slot: u32, string: Text) -> bool {
        self.groups[quotient / SLOTS].has_room_for_string(slot, string)
    }

    /// Keeps a string that no slot has any more. `false`: there is no room. An
    /// empty one needs no ghost.
    #[must_use]
    pub(crate) fn add_ghost(&mut self, quotient: usize, tag: bool, string: Text) -> bool {
        self.groups[quotient / SLOTS].add_ghost(within(quotient), tag, string)
    }

    /// The ghosts of a quotient: their tags and strings.
    pub(crate) fn ghosts(&self, quotient: usize) -> impl Iterator<Item = (bool, Text)> + '_ {
        self.groups[quotient / SLOTS].ghosts(within(quotient))
    }

    /// Drops all ghosts of a group with this tag. Returns their number.
    pub(crate) fn drop_ghosts(&mut self, group: usize, tag: bool) -> u32 {
        self.groups[group].drop_ghosts(tag)
    }

    /// Whether a group has room for one more ghost, if its string has.
    pub(crate) fn has_room_for_ghost(&self, group: usize) -> bool {
        self.groups[group].has_room_for_ghost()
    }

    pub(crate) fn ghost_count(&self, group: usize) -> u32 {
        self.groups[group].ghost_count()
    }

    /// Bits of strings in use in a group.
    pub(crate) fn used_bits(&self, group: usize) -> u32 {
        self.groups[group].used_bits()
    }

    #[inline]
    pub(crate) fn overflowed(&self, group: usize) -> bool {
        self.groups[group].flag(Flag::Overflowed)
    }

    pub(crate) fn set_overflowed(&mut self, group: usize, value: bool) {
        self.groups[group].set_flag(Flag::Overflowed, value);
    }

    #[inline]
    pub(crate) fn stamp(&self, group: usize) -> bool {
        self.groups[group].flag(Flag::Stamp)
    }

    pub(crate) fn set_stamp(&mut self, group: usize, value: bool) {
        self.groups[group].set_flag(Flag::Stamp, value);
    }

    /// Every slot in use with its quotient, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        self.groups.iter().enumerate().flat_map(|(index, group)| {
            group.iter().map(move |(quotient, slot)| (cell(index * SLOTS, quotient), slot))
        })
    }

    /// Prefetches a quotient. Its run is not known before its group is in cache; at usual loads
    /// it is close to the slot with the quotient's own number.
    #[inline]
    pub(crate) fn prefetch(&self, quotient: usize) {
        prefetch(&self.groups, quotient / SLOTS);
        self.heads.prefetch(quotient);
    }

    /// The most cache lines that [`Level::matches`] reads: every tail of the run is read if all
    /// heads match.
    pub(crate) fn lines(&self, quotient: usize) -> u32 {
        let run = self.run(quotient);
        let cells = cell(quotient, run.start)..cell(quotient, run.end);
        1 + self.heads.lines(cells.clone()) + self.tails.lines(cells)
    }

    /// The bytes of all groups.
    pub(crate) fn as_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.groups() * self.shape.group_bytes());
        for (index, group) in self.groups.iter().enumerate() {
            bytes.extend(group.to_bytes());
            bytes.extend(self.heads.group_to_bytes(index));
            bytes.extend(self.tails.group_to_bytes(index));
        }
        bytes
    }

    /// A level from bytes that [`Level::as_bytes`] gave, checked.
    pub(crate) fn from_bytes(data: &[u8], quotients: usize, shape: Shape) -> Result<Self, String> {
        shape.check()?;
        let size = shape.group_bytes();
        if quotients.div_ceil(SLOTS).checked_mul(size) != Some(data.len()) {
            let len = data.len();
            return Err(format!("{len} bytes are no groups of {size} for {quotients} quotients"));
        }
        let mut level = Level::new(quotients, shape);
        for (index, bytes) in data.chunks_exact(size).enumerate() {
            let (group, remainders) =
                bytes.split_first_chunk().expect("a group is the first of its bytes");
            level.groups[index] = Group::from_bytes(group, level.quotients_of(index))
                .map_err(|broken| format!("group {index}: {broken}"))?;
            let (heads, tails) = remainders.split_at(Cells::group_bytes(shape.head));
            level.heads.set_group(index, heads);
            level.tails.set_group(index, tails);
            level.len += level.groups[index].len() as usize;
        }
        level.check()?;
        Ok(level)
    }

    /// Quotients of a group: the last may have fewer than others.
    fn quotients_of(&self, group: usize) -> u32 {
        (self.quotients - group * SLOTS).min(SLOTS) as u32
    }

    /// Verifies every invariant.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut len = 0;
        for (index, group) in self.groups.iter().enumerate() {
            let named = |broken: String| format!("group {index}: {broken}");
            group.check(self.quotients_of(index)).map_err(named)?;
            let quotient = index * SLOTS;
            let mut unused = group.len()..SLOTS as u32;
            if let Some(slot) = unused.find(|&slot| self.remainder(quotient, slot) != 0) {
                return Err(named(format!("slot {slot} is empty and holds a remainder")));
            }
            len += group.len() as usize;
        }
        if len != self.len {
            return Err(format!("{len} slots in use where {} are counted", self.len));
        }
        Ok(())
    }
}

/// A quotient's number within its group.
#[inline(always)]
fn within(quotient: usize) -> u32 {
    (quotient % SLOTS) as u32
}

/// The number, through all groups, of a slot of the quotient's group.
#[inline(always)]
fn cell(quotient: usize, slot: u32) -> usize {
    quotient / SLOTS * SLOTS + slot as usize
}

#[cfg(test)]
mod tests;
