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
//! In memory the three are apart, each aligned to cache lines. Side by side,
//! a group would be no whole number of lines unless `h + t` is a multiple of 8,
//! and either metadata would lie across two lines or up to a third of the memory
//! would be gaps. A lookup reads the line of the group, one or two with the heads
//! of a run of usual length, and one or two for each tail of a head that is right.

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
    /// This and all that it asks is inlined for certain: a batch of queries that called it
    /// took 1.15 times as long as single queries, in cache, where it had been inlined.
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

    /// Drops all ghosts of a group with this tag. How many it were.
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

    /// Asks for the memory of a quotient ahead of its use. Its run is not known
    /// before its group is there; at the loads of interest it is not far from
    /// the slot with its own number.
    #[inline]
    pub(crate) fn prefetch(&self, quotient: usize) {
        prefetch(&self.groups, quotient / SLOTS);
        self.heads.prefetch(quotient);
    }

    /// Cache lines that [`Level::matches`] reads at most: every tail of the run
    /// is read if all heads are right.
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
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// The slow obvious version: a list of remainders and strings for each
    /// quotient, and a list of ghosts for each group.
    #[derive(Clone)]
    struct Lists {
        runs: Vec<Vec<(u64, Text)>>,
        ghosts: Vec<Vec<(usize, bool, Text)>>,
    }

    impl Lists {
        fn new(quotients: usize) -> Self {
            let groups = quotients.div_ceil(SLOTS);
            Lists { runs: vec![Vec::new(); quotients], ghosts: vec![Vec::new(); groups] }
        }

        fn quotients(&self, group: usize) -> Range<usize> {
            group * SLOTS..((group + 1) * SLOTS).min(self.runs.len())
        }

        fn slots(&self, group: usize) -> usize {
            self.quotients(group).map(|quotient| self.runs[quotient].len()).sum()
        }

        fn bits(&self, group: usize) -> u32 {
            let runs = self.runs[self.quotients(group)].iter().flatten();
            let strings = runs.map(|(_, string)| string);
            let ghosts = self.ghosts[group].iter().map(|(.., string)| string);
            strings.chain(ghosts).map(|string| u32::from(string.length)).sum()
        }

        fn start(&self, quotient: usize) -> u32 {
            let before = quotient / SLOTS * SLOTS..quotient;
            before.map(|quotient| self.runs[quotient].len() as u32).sum()
        }

        /// The slots of a quotient that `pick` likes.
        fn bitmap(&self, quotient: usize, pick: impl Fn(u64, Text) -> bool) -> u64 {
            let slots = self.start(quotient)..;
            slots
                .zip(&self.runs[quotient])
                .filter(|(_, (remainder, string))| pick(*remainder, *string))
                .fold(0, |bitmap, (slot, _)| bitmap | 1 << slot)
        }

        fn compare(&self, level: &Level) {
            level.check().unwrap_or_else(|broken| panic!("{broken}"));
            assert_eq!(level.len(), self.runs.iter().map(Vec::len).sum::<usize>());
            let mut slots = level.iter();
            for (quotient, list) in self.runs.iter().enumerate() {
                let start = self.start(quotient);
                assert_eq!(level.run(quotient), start..start + list.len() as u32);
                for (slot, &(remainder, string)) in (start..).zip(list) {
                    assert_eq!(slots.next(), Some((quotient, slot)));
                    assert_eq!(level.remainder(quotient, slot), remainder);
                    assert_eq!(level.string(quotient, slot), string);
                }
                let ghosts = self.ghosts[quotient / SLOTS].iter();
                let ghosts = ghosts.filter(|ghost| ghost.0 == quotient);
                let ghosts: Vec<_> = ghosts.map(|&(_, tag, string)| (tag, string)).collect();
                assert_eq!(level.ghosts(quotient).collect::<Vec<_>>(), ghosts);
            }
            assert_eq!(slots.next(), None);
            for (group, ghosts) in self.ghosts.iter().enumerate() {
                assert_eq!(level.ghost_count(group) as usize, ghosts.len());
                assert_eq!(level.used_bits(group), self.bits(group));
            }
        }
    }

    fn shapes() -> impl Iterator<Item = Shape> {
        (1..=32).flat_map(|head| (0..=32 - head).map(move |tail| Shape { head, tail }))
    }

    /// Often empty, and few different ones.
    fn random_string(rng: &mut Rng) -> Text {
        let bits = [rng.next(), 0, u64::MAX][rng.below(3) as usize];
        let longest = [1, 4, 12, 65][rng.below(4) as usize];
        Text::prefix(bits, rng.below(longest) as u8)
    }

    /// Few different ones, and such that heads or tails alone are often equal.
    fn random_remainder(rng: &mut Rng, shape: Shape) -> u64 {
        let high = rng.below(3) & low_bits(shape.head);
        let low = rng.below(3) & low_bits(shape.tail);
        high << shape.tail | low
    }

    /// Random operations on all of a level; a share of quotients is picked more
    /// often, so that groups get full.
    fn play(quotients: usize, shape: Shape, steps: usize) {
        let mut rng = Rng::new((quotients as u64) << 12 | u64::from(shape.head * 64 + shape.tail));
        let mut level = Level::new(quotients, shape);
        let mut lists = Lists::new(quotients);
        for step in 0..steps {
            let range = if rng.below(2) == 0 { quotients } else { quotients.min(5) };
            let quotient = rng.below(range as u64) as usize;
            let group = quotient / SLOTS;
            let start = lists.start(quotient);
            let slot = start + rng.below(lists.runs[quotient].len() as u64 + 1) as u32;
            let index = (slot - start) as usize;
            let string = random_string(&mut rng);
            let remainder = random_remainder(&mut rng, shape);
            let before = level.clone();
            match rng.below(16) {
                0..8 => {
                    let expected = if lists.slots(group) == SLOTS {
                        Err(Full::Slots)
                    } else if lists.bits(group) + u32::from(string.length) > 128 {
                        Err(Full::Bits)
                    } else {
                        let run = &mut lists.runs[quotient];
                        run.push((remainder, string));
                        Ok(start + run.len() as u32 - 1)
                    };
                    assert_eq!(level.insert(quotient, remainder, string), expected);
                    assert!(expected.is_ok() || level == before, "nothing changed");
                }
                8..11 if index < lists.runs[quotient].len() => {
                    let (_, removed) = lists.runs[quotient].remove(index);
                    assert_eq!(level.remove(quotient, slot), removed);
                }
                11..13 if index < lists.runs[quotient].len() => {
                    let mut changed = lists.clone();
                    changed.runs[quotient][index].1 = string;
                    if changed.bits(group) <= 128 {
                        lists = changed;
                        assert_eq!(level.set_string(quotient, slot, string), Ok(()));
                    } else {
                        assert_eq!(level.set_string(quotient, slot, string), Err(Full::Bits));
                        assert!(level == before, "nothing changed");
                    }
                }
                13 => {
                    let tag = rng.below(2) == 1;
                    let room = lists.bits(group) + u32::from(string.length) <= 128
                        && lists.ghosts[group].len() < 7;
                    let fits = string.is_empty() || room;
                    assert_eq!(level.add_ghost(quotient, tag, string), fits);
                    if !string.is_empty() && room {
                        lists.ghosts[group].push((quotient, tag, string));
                    } else {
                        assert!(level == before, "nothing changed");
                    }
                }
                14 if rng.below(3) == 0 => {
                    let tag = rng.below(2) == 1;
                    let count = lists.ghosts[group].len();
                    lists.ghosts[group].retain(|ghost| ghost.1 != tag);
                    let dropped = count - lists.ghosts[group].len();
                    assert_eq!(level.drop_ghosts(group, tag) as usize, dropped);
                }
                _ => {
                    level.set_stamp(group, rng.below(2) == 1);
                    level.set_overflowed(group, !level.overflowed(group));
                    assert_ne!(level.overflowed(group), before.overflowed(group));
                }
            }
            let bits = random_string(&mut rng).bits;
            let head = |remainder: u64| remainder >> shape.tail;
            let same = lists.bitmap(quotient, |held, _| head(held) == head(remainder));
            assert_eq!(level.same_head(quotient, remainder), same);
            let equal = lists.bitmap(quotient, |held, _| held == remainder);
            assert_eq!(level.equal(quotient, remainder), equal);
            let matches = lists
                .bitmap(quotient, |held, string| held == remainder && string.is_prefix_of(bits));
            assert_eq!(level.matches(quotient, remainder, bits), matches);
            if step % 61 == 0 || step + 1 == steps {
                lists.compare(&level);
                let again = Level::from_bytes(&level.as_bytes(), quotients, shape);
                assert!(again.is_ok_and(|again| again == level));
            }
        }
    }

    #[test]
    fn levels_of_every_shape_agree_with_lists() {
        let steps = if cfg!(miri) { 5 } else { 400 };
        for (index, shape) in shapes().enumerate() {
            play([1, 2, 63, 64, 65, 200][index % 6], shape, steps);
        }
    }

    #[test]
    fn long_plays_agree_with_lists() {
        let steps = if cfg!(miri) { 100 } else { 20_000 };
        for (quotients, head, tail) in [(64, 8, 0), (130, 5, 0), (3, 6, 10), (64, 13, 19)] {
            play(quotients, Shape { head, tail }, steps);
        }
    }

    /// A level with something of everything, and what it was made of.
    fn sample(shape: Shape) -> Level {
        let mut level = Level::new(100, shape);
        for (quotient, length) in [(3, 0), (3, 5), (40, 1), (99, 0), (99, 64)] {
            let string = Text::prefix(0x6666_6666_6666_6666, length);
            level.insert(quotient, 1, string).expect("there is room");
        }
        assert!(level.add_ghost(7, true, Text::prefix(1 << 63, 2)));
        level
    }

    #[test]
    fn damaged_bytes_are_refused_or_give_a_level_that_holds_together() {
        let mut rng = Rng::new(4);
        for shape in [(8, 0), (1, 0), (5, 11), (32, 0)].map(|(head, tail)| Shape { head, tail }) {
            let whole = sample(shape).as_bytes();
            assert_eq!(whole.len() * 8, 2 * Level::group_bits(shape));
            assert!(Level::from_bytes(&whole[1..], 100, shape).is_err());
            assert!(Level::from_bytes(&whole, 99, shape).is_err(), "a quotient too many");
            assert!(Level::from_bytes(&whole, 129, shape).is_err(), "too few groups");
            assert!(Level::from_bytes(&whole, usize::MAX, shape).is_err());
            for _ in 0..if cfg!(miri) { 20 } else { 20_000 } {
                let mut damaged = whole.clone();
                for _ in 0..1 + rng.below(4) {
                    let at = rng.below(whole.len() as u64) as usize;
                    damaged[at] ^= 1 << rng.below(8);
                }
                let Ok(mut level) = Level::from_bytes(&damaged, 100, shape) else { continue };
                assert_eq!(level.as_bytes(), damaged);
                for quotient in 0..100 {
                    let _ = level.matches(quotient, 1, rng.next());
                    assert!(level.ghosts(quotient).count() <= 7);
                }
                let slots: Vec<_> = level.iter().collect();
                for (quotient, slot) in slots.into_iter().rev() {
                    let _ = level.remove(quotient, slot);
                }
                for (group, tag) in [(0, true), (0, false), (1, true), (1, false)] {
                    level.drop_ghosts(group, tag);
                }
                level.check().expect("nothing is left");
                assert!(level.len() == 0 && level.used_bits(0) + level.used_bits(1) == 0);
            }
        }
        let wide = Shape { head: 32, tail: u32::MAX };
        assert!(Level::from_bytes(&[], 0, wide).is_err());
        assert!(Level::from_bytes(&[], 0, Shape { head: 0, tail: 1 }).is_err());
    }

    #[test]
    fn a_flipped_bit_goes_unnoticed_only_where_any_value_is_right() {
        let shape = Shape { head: 5, tail: 3 };
        let whole = sample(shape).as_bytes();
        let unnoticed = (0..whole.len() * 8).filter(|bit| {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            Level::from_bytes(&flipped, 100, shape).is_ok()
        });
        let remainders = 5 * 8;
        let strings = 5 + 1 + 64 + 2;
        // The ghost's tag and any quotient; two flags for each group.
        let rest = 7 + 2 * 2;
        // A zero of a quotient as a one: a slot more, which holds 0.
        let slots = 100;
        assert_eq!(unnoticed.count(), remainders + strings + rest + slots);
    }

    #[test]
    fn a_remainder_in_an_empty_slot_is_refused() {
        let shape = Shape { head: 8, tail: 0 };
        let mut bytes = sample(shape).as_bytes();
        *bytes.last_mut().expect("the head of slot 63") = 1;
        let error = Level::from_bytes(&bytes, 100, shape).err().unwrap_or_default();
        assert_eq!(error, "group 1: slot 63 is empty and holds a remainder");
    }

    /// Memory is what the bytes need, up to a line for heads and for tails.
    #[test]
    fn no_gaps_between_groups() {
        for shape in shapes() {
            let level = Level::new(6400, shape);
            let gaps = level.bits() - 100 * Level::group_bits(shape);
            assert!(gaps < 2 * 512, "{shape:?}: {gaps}");
            assert_eq!(level.groups.as_ptr() as usize % 64, 0, "a group is one line");
        }
    }

    /// Sections 5.3 and 5.4: a constant number of words, however full the level.
    #[test]
    fn a_lookup_reads_few_cache_lines() {
        let mut rng = Rng::new(9);
        let quotients = if cfg!(miri) { 300 } else { 64_000 };
        for (head, tail, average) in [(8, 0, 1.6), (12, 0, 1.65), (8, 24, 2.3)] {
            let mut level = Level::new(quotients, Shape { head, tail });
            while level.len() * 10 < level.slots() * 9 {
                let quotient = rng.below(quotients as u64) as usize;
                let _ = level.insert(quotient, 0, Text::default());
            }
            let lines = (0..quotients).map(|quotient| level.lines(quotient));
            assert_eq!(lines.clone().min(), Some(1), "an empty run ends the lookup");
            assert!(lines.clone().max() <= Some(if tail == 0 { 3 } else { 5 }));
            let mean = f64::from(lines.sum::<u32>()) / quotients as f64;
            assert!(mean < average, "{head} + {tail}: {mean}");
        }
        // The most that can be: all slots of a group in one run.
        let mut level = Level::new(64, Shape { head: 8, tail: 24 });
        (0..64).for_each(|_| assert!(level.insert(5, 0, Text::default()).is_ok()));
        assert_eq!(level.lines(5), 1 + 1 + 3);
    }
}
