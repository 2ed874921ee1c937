//! 64 neighbouring quotients with 64 slots: everything but remainders.
//!
//! Bender et al., "Bloom Filters, Adaptivity, and the Dictionary Problem", sections 5.1 to 5.3.
//! Nothing ever leaves its group, which bounds probing (section 5.3); the caller handles a full
//! group.
//!
//! ```text
//! bytes   16      8           16     16     7        1
//!         | runs  | extended  | data | last | ghosts | flags |     64: one cache line
//!
//! runs      for each quotient its number of slots, in unary: ones and a zero
//! extended  bit s: slot s has adaptivity bits
//! strings   (data and last) those of slots, in their order, then of ghosts
//! ghosts    a byte each, from the first on: 1, its tag, its quotient (6 bits)
//! flags     bit 0: overflowed, bit 1: stamp; what they mean is up to the caller
//! ```
//!
//! Runs follow each other from slot 0 on without gaps. With the run of quotient
//! 0 holding slots 0 and 1, that of 2 slot 2, and no others, `runs` ends in
//! `...0 10 0 011`, read from the right.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use crate::bits::word::{low_bits, rank, select_wide};

use super::strings::{ROOM, Strings, Text, close, open};

/// Quotients of a group, and slots.
pub(crate) const SLOTS: usize = 64;

const GHOSTS: usize = 7;
/// Tells a ghost's byte from none.
const GHOST: u8 = 0x80;
const TAG: u32 = 6;
const QUOTIENT: u8 = 0x3f;

/// What an insertion found no room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// All slots of the group are in use.
    Slots,
    /// The string does not fit beside the group's others.
    Bits,
}

/// A bit for the caller's use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Flag {
    Overflowed = 0b01,
    Stamp = 0b10,
}

const FLAGS: u8 = Flag::Overflowed as u8 | Flag::Stamp as u8;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(align(64))]
pub(crate) struct Group {
    runs: u128,
    extended: u64,
    strings: Strings,
    ghosts: [u8; GHOSTS],
    flags: u8,
}

const _: () = assert!(size_of::<Group>() == Group::BYTES);

impl Group {
    pub(crate) const BYTES: usize = 64;

    /// Slots in use.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.runs.count_ones()
    }

    /// The slots of a quotient.
    #[inline(always)]
    pub(crate) fn run(&self, quotient: u32) -> Range<u32> {
        let first = self.first(quotient);
        let start = first - quotient;
        // A run has at most 64 slots: the lower half will do.
        start..start + ((self.runs >> first) as u64).trailing_ones()
    }

    /// Where a quotient starts in `runs`: behind the zeros of those before it.
    #[inline(always)]
    fn first(&self, quotient: u32) -> u32 {
        select_wide(!self.runs << 1 | 1, quotient)
    }

    /// The rank of a slot's string, were it to have one.
    #[inline]
    fn rank(&self, slot: u32) -> u32 {
        rank(self.extended, slot)
    }

    fn is_extended(&self, slot: u32) -> bool {
        self.extended >> slot & 1 == 1
    }

    /// The adaptivity bits of a slot.
    pub(crate) fn string(&self, slot: u32) -> Text {
        if self.is_extended(slot) { self.strings.get(self.rank(slot)) } else { Text::default() }
    }

    /// Those of some slots whose strings are prefixes of `bits`.
    #[inline(always)]
    pub(crate) fn prefixes(&self, slots: u64, bits: u64) -> u64 {
        let extended = slots & self.extended;
        if extended == 0 {
            return slots;
        }
        let (lowest, highest) = (extended.trailing_zeros(), 63 - extended.leading_zeros());
        let ranks = self.rank(lowest)..self.rank(highest) + 1;
        let prefixes = self.strings.prefixes(ranks, bits);
        set_bits(extended.into())
            .filter(|&slot| prefixes >> self.rank(slot) & 1 == 0)
            .fold(slots, |kept, slot| kept & !(1 << slot))
    }

    /// Adds a slot at the end of a quotient's run; later ones move up by one.
    pub(crate) fn insert(&mut self, quotient: u32, string: Text) -> Result<u32, Full> {
        if self.len() as usize == SLOTS {
            return Err(Full::Slots);
        }
        let slot = self.run(quotient).end;
        if !string.is_empty() {
            self.strings = self.strings.insert(self.rank(slot), string).ok_or(Full::Bits)?;
        }
        let below = low_bits(slot);
        let new = u64::from(!string.is_empty()) << slot;
        self.extended = self.extended & below | (self.extended & !below) << 1 | new;
        let at = quotient + slot;
        self.runs = open(self.runs, at, 1) | 1 << at;
        Ok(slot)
    }

    /// Takes a slot out of a quotient's run; later ones move down by one.
    pub(crate) fn remove(&mut self, quotient: u32, slot: u32) -> Text {
        assert!(self.run(quotient).contains(&slot), "slot {slot} is not of quotient {quotient}");
        let string = self.string(slot);
        if !string.is_empty() {
            self.strings = self.strings.remove(self.rank(slot)).0;
        }
        let below = low_bits(slot);
        self.extended = self.extended & below | self.extended >> 1 & !below;
        self.runs = close(self.runs, quotient + slot, 1);
        string
    }

    /// Gives a slot other adaptivity bits.
    pub(crate) fn set_string(&mut self, slot: u32, string: Text) -> Result<(), Full> {
        assert!(slot < self.len(), "slot {slot} of {} in use", self.len());
        let rank = self.rank(slot);
        let mut strings = self.strings;
        if self.is_extended(slot) {
            strings = strings.remove(rank).0;
        }
        if !string.is_empty() {
            strings = strings.insert(rank, string).ok_or(Full::Bits)?;
        }
        self.strings = strings;
        self.extended = self.extended & !(1 << slot) | u64::from(!string.is_empty()) << slot;
        Ok(())
    }

    /// Whether [`Group::set_string`] has room.
    pub(crate) fn has_room_for_string(&self, slot: u32, string: Text) -> bool {
        let others = self.used_bits() - u32::from(self.string(slot).length);
        others + u32::from(string.length) <= ROOM
    }

    pub(crate) fn ghost_count(&self) -> u32 {
        self.ghosts.iter().filter(|&&ghost| ghost != 0).count() as u32
    }

    pub(crate) fn has_room_for_ghost(&self) -> bool {
        self.ghosts[GHOSTS - 1] == 0
    }

    /// Keeps a string that no slot has any more. `false`: there is no room.
    #[must_use]
    pub(crate) fn add_ghost(&mut self, quotient: u32, tag: bool, string: Text) -> bool {
        if string.is_empty() {
            return true;
        }
        if !self.has_room_for_ghost() {
            return false;
        }
        let count = self.ghost_count() as usize;
        let Some(strings) = self.strings.insert(self.strings.count(), string) else { return false };
        self.strings = strings;
        self.ghosts[count] = GHOST | u8::from(tag) << TAG | quotient as u8;
        true
    }

    /// The ghosts of a quotient: their tags and strings.
    pub(crate) fn ghosts(&self, quotient: u32) -> impl Iterator<Item = (bool, Text)> + '_ {
        let first = self.extended.count_ones();
        let ghosts = self.ghosts.iter().zip(first..).filter(|(ghost, _)| **ghost != 0);
        ghosts
            .filter(move |(ghost, _)| u32::from(**ghost & QUOTIENT) == quotient)
            .map(|(ghost, rank)| (is_tagged(*ghost), self.strings.get(rank)))
    }

    /// Drops all ghosts with this tag. Returns their number.
    pub(crate) fn drop_ghosts(&mut self, tag: bool) -> u32 {
        let first = self.extended.count_ones();
        let (mut kept, mut count) = ([0; GHOSTS], 0);
        let before = self.ghost_count();
        for &ghost in &self.ghosts[..before as usize] {
            if is_tagged(ghost) == tag {
                self.strings = self.strings.remove(first + count as u32).0;
            } else {
                kept[count] = ghost;
                count += 1;
            }
        }
        self.ghosts = kept;
        before - count as u32
    }

    /// Bits of strings in use.
    pub(crate) fn used_bits(&self) -> u32 {
        self.strings.used()
    }

    #[inline]
    pub(crate) fn flag(&self, flag: Flag) -> bool {
        self.flags & flag as u8 != 0
    }

    pub(crate) fn set_flag(&mut self, flag: Flag, value: bool) {
        self.flags = self.flags & !(flag as u8) | if value { flag as u8 } else { 0 };
    }

    /// Every slot in use with its quotient, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        // Before a slot's one are those of all slots before it; the rest are
        // zeros of quotients.
        (0..).zip(set_bits(self.runs)).map(|(slot, at)| (at - slot, slot))
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let (data, last) = self.strings.parts();
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.runs.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.extended.to_le_bytes());
        bytes[24..40].copy_from_slice(&data.to_le_bytes());
        bytes[40..56].copy_from_slice(&last.to_le_bytes());
        bytes[56..63].copy_from_slice(&self.ghosts);
        bytes[63] = self.flags;
        bytes
    }

    /// A group from bytes that [`Group::to_bytes`] gave, checked, of the first
    /// `quotients` of its quotients.
    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES], quotients: u32) -> Result<Self, String> {
        let wide = |at: usize| {
            u128::from_le_bytes(bytes[at..at + 16].try_into().expect("a slice of sixteen bytes"))
        };
        let group = Group {
            runs: wide(0),
            extended: wide(16) as u64,
            strings: Strings::from_parts(wide(24), wide(40))?,
            ghosts: bytes[56..63].try_into().expect("a slice of seven bytes"),
            flags: bytes[63],
        };
        group.check(quotients)?;
        Ok(group)
    }

    /// Verifies every invariant of a group of the first `quotients` of its
    /// quotients.
    pub(crate) fn check(&self, quotients: u32) -> Result<(), String> {
        if self.len() as usize > SLOTS {
            return Err(format!("runs of {} slots, and a group has {SLOTS}", self.len()));
        }
        if let Some((quotient, _)) = self.iter().last().filter(|last| last.0 >= quotients) {
            return Err(format!("quotient {quotient} of {quotients} has a run"));
        }
        if self.extended & !low_bits(self.len()) != 0 {
            return Err(format!("a slot behind the {} in use has a string", self.len()));
        }
        self.strings.check()?;
        let count = self.ghost_count() as usize;
        let (ghosts, behind) = self.ghosts.split_at(count);
        if behind.iter().any(|&ghost| ghost != 0) {
            return Err(format!("the {count} ghosts have gaps between them"));
        }
        let known = |ghost: u8| ghost & GHOST != 0 && u32::from(ghost & QUOTIENT) < quotients;
        if let Some(ghost) = ghosts.iter().find(|&&ghost| !known(ghost)) {
            return Err(format!("{ghost:#x} is no ghost of {quotients} quotients"));
        }
        let (strings, slots) = (self.strings.count(), self.extended.count_ones());
        if strings as usize != slots as usize + count {
            return Err(format!("{strings} strings for {slots} slots and {count} ghosts"));
        }
        if self.flags & !FLAGS != 0 {
            return Err(format!("flags {:#x} are not known", self.flags));
        }
        Ok(())
    }
}

fn is_tagged(ghost: u8) -> bool {
    ghost >> TAG & 1 == 1
}

/// The positions of the set bits of a word.
fn set_bits(word: u128) -> impl Iterator<Item = u32> {
    let mut rest = word;
    core::iter::from_fn(move || {
        let bit = (rest != 0).then(|| rest.trailing_zeros())?;
        rest &= rest - 1;
        Some(bit)
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_group_written_by_hand() {
        let mut group = Group::default();
        let string = Text::prefix(0b110 << 61, 3);
        for (quotient, string) in
            [(2, Text::prefix(0, 1)), (0, Text::default()), (0, string), (63, Text::default())]
        {
            group.insert(quotient, string).expect("there is room");
        }
        assert!(group.add_ghost(9, true, Text::prefix(1 << 62, 2)));
        group.set_flag(Flag::Stamp, true);
        let mut expected = [0; Group::BYTES];
        expected[0] = 0b01_0011; // quotient 0: two slots, 1: none, 2: one
        expected[8] = 0b100; // 63 zeros and three ones before quotient 63's one
        expected[16] = 0b0110;
        expected[24] = 0b10_0011;
        expected[40] = 0b10_1100;
        expected[56] = 0b1100_1001;
        expected[63] = 0b10;
        assert_eq!(group.to_bytes(), expected);
        assert!(Group::from_bytes(&expected, 64).is_ok_and(|again| again == group));
        assert!(Group::from_bytes(&expected, 63).is_err(), "quotient 63 is one too many");
        assert_eq!(group.iter().collect::<Vec<_>>(), [(0, 0), (0, 1), (2, 2), (63, 3)]);
        assert_eq!([group.run(0), group.run(1), group.run(63)], [0..2, 2..2, 3..4]);
    }

    #[test]
    fn the_last_quotient_may_have_all_slots() {
        let mut group = Group::default();
        for slot in 0..64 {
            assert_eq!(group.insert(63, Text::default()), Ok(slot));
            assert_eq!((group.run(62), group.run(63)), (0..0, 0..slot + 1));
        }
        assert_eq!(group.insert(0, Text::default()), Err(Full::Slots));
        group.check(64).expect("all slots are in use");
        let last = Text::prefix(u64::MAX, 64);
        assert_eq!(group.set_string(63, last), Ok(()));
        assert_eq!(group.set_string(0, last), Ok(()));
        assert_eq!(group.set_string(1, Text::prefix(0, 1)), Err(Full::Bits));
        assert!(!group.add_ghost(0, true, Text::prefix(0, 1)));
        assert_eq!(group.prefixes(u64::MAX, 0), !(1 << 63 | 1));
        (0..64)
            .rev()
            .for_each(|slot| assert_eq!(group.remove(63, slot).is_empty(), slot % 63 != 0));
        assert!(group == Group::default());
    }

    /// One line for each thing that [`Group::check`] says.
    #[test]
    fn broken_groups_are_refused() {
        let refused = |at: usize, byte: u8, message: &str| {
            let mut bytes = [0; Group::BYTES];
            bytes[0] = 0b11; // two slots of quotient 0
            bytes[at] = byte;
            let error = Group::from_bytes(&bytes, 8).err().unwrap_or_default();
            assert!(error.contains(message), "{at}, {byte}: {error}");
        };
        refused(3, 1, "quotient 22 of 8 has a run");
        refused(16, 0b100, "a slot behind the 2 in use has a string");
        refused(16, 0b1, "0 strings for 1 slots and 0 ghosts");
        refused(24, 1, "data behind the last of 0 bits");
        refused(40, 1, "1 strings for 0 slots and 0 ghosts");
        refused(48, 1, "string 0 is longer than 64 bits");
        refused(56, 0x80, "0 strings for 0 slots and 1 ghosts");
        refused(56, 0x07, "0x7 is no ghost of 8");
        refused(56, 0x88, "0x88 is no ghost of 8");
        refused(57, 0x80, "gaps");
        refused(63, 0b100, "flags 0x4");
        let mut bytes = [0; Group::BYTES];
        bytes[..9].fill(0xff);
        let error = Group::from_bytes(&bytes, 64).err().unwrap_or_default();
        assert!(error.contains("runs of 72 slots"), "{error}");
    }
}
