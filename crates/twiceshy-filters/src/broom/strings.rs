//! Strings of bits, side by side in one wide word.
//!
//! Bender et al., "Bloom Filters, Adaptivity, and the Dictionary Problem",
//! appendix A, Lemma 29. The strings `110`, `0` and `01`, the first bit of each
//! at its lowest position:
//!
//! ```text
//! position   5 4 3 2 1 0
//! data       1 0 0 0 1 1
//! last       1 0 1 1 0 0        the last bit of each string
//! ```
//!
//! The paper marks where strings start and finds matches with tables. With the ends marked, a
//! string is found without its neighbours; and instead of using tables, a query follows all
//! strings at once, one bit per step ([`Strings::prefixes`]). An empty string has no bits to
//! mark; its owner keeps it elsewhere.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use crate::bits::word::{low_bits, low_bits_wide, select_wide};

#[cfg_attr(not(test), expect(dead_code, reason = "Lemma 29 has it, the filter needs it not"))]
mod parallel;

/// Bits that all strings have together.
pub(crate) const ROOM: u32 = u128::BITS;

/// One string of up to 64 bits: the first at bit 63, those behind the last zero.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Text {
    pub length: u8,
    pub bits: u64,
}

impl Text {
    /// The most bits of a string.
    pub(crate) const LONGEST: u8 = 64;

    /// The first `length` (up to 64) of some bits.
    #[inline]
    pub(crate) fn prefix(bits: u64, length: u8) -> Self {
        Text { length, bits: bits & !low_bits(64 - u32::from(length)) }
    }

    pub(crate) fn is_empty(self) -> bool {
        self.length == 0
    }

    /// How many bits are the same before the first that differs.
    #[inline]
    pub(crate) fn common(self, bits: u64) -> u8 {
        let same = (self.bits ^ bits).leading_zeros() as u8;
        same.min(self.length)
    }

    #[inline]
    pub(crate) fn is_prefix_of(self, bits: u64) -> bool {
        self.common(bits) == self.length
    }
}

/// Strings that are not empty, known by their rank from 0.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Strings {
    data: u128,
    last: u128,
}

impl Strings {
    /// Strings as [`Strings::parts`] gave them, checked.
    pub(crate) fn from_parts(data: u128, last: u128) -> Result<Self, String> {
        let strings = Strings { data, last };
        strings.check()?;
        Ok(strings)
    }

    /// Data, and the marks of last bits.
    pub(crate) fn parts(self) -> (u128, u128) {
        (self.data, self.last)
    }

    pub(crate) fn count(self) -> u32 {
        self.last.count_ones()
    }

    /// Bits in use.
    pub(crate) fn used(self) -> u32 {
        ROOM - self.last.leading_zeros()
    }

    /// Where string `rank` starts; for the rank behind the last, where the
    /// next would.
    #[inline]
    fn start(self, rank: u32) -> u32 {
        if rank == 0 { 0 } else { select_wide(self.last, rank - 1) + 1 }
    }

    pub(crate) fn get(self, rank: u32) -> Text {
        let (start, end) = (self.start(rank), self.start(rank + 1));
        let bits = (self.data >> start) as u64 & low_bits(end - start);
        Text { length: (end - start) as u8, bits: bits.reverse_bits() }
    }

    /// The strings with one more at `rank`, if there is room.
    #[must_use]
    pub(crate) fn insert(self, rank: u32, text: Text) -> Option<Self> {
        assert!(!text.is_empty(), "an empty string has no bits to keep");
        let length = u32::from(text.length);
        if self.used() + length > ROOM {
            return None;
        }
        let start = self.start(rank);
        let mut data = open(self.data, start, length);
        let mut last = open(self.last, start, length);
        data |= u128::from(text.bits.reverse_bits()) << start;
        last |= 1 << (start + length - 1);
        Some(Strings { data, last })
    }

    /// The strings without that of `rank`, and that one.
    #[must_use]
    pub(crate) fn remove(self, rank: u32) -> (Self, Text) {
        let text = self.get(rank);
        (self.cut(self.start(rank), text.length), text)
    }

    /// The strings with another at `rank`, if there is room.
    #[cfg_attr(not(test), expect(dead_code, reason = "Lemma 29 has it, the filter needs it not"))]
    #[must_use]
    pub(crate) fn replace(self, rank: u32, text: Text) -> Option<Self> {
        self.remove(rank).0.insert(rank, text)
    }

    /// The strings with up to `count` bits less at the front of `rank`. Without
    /// any left the string is gone.
    #[cfg_attr(not(test), expect(dead_code, reason = "Lemma 29 has it, the filter needs it not"))]
    #[must_use]
    pub(crate) fn splice(self, rank: u32, count: u8) -> Self {
        self.cut(self.start(rank), count.min(self.get(rank).length))
    }

    /// The strings with `rank` and the next as one, unless it were longer than
    /// a [`Text`].
    #[cfg_attr(not(test), expect(dead_code, reason = "Lemma 29 has it, the filter needs it not"))]
    #[must_use]
    pub(crate) fn concat(self, rank: u32) -> Option<Self> {
        let both = self.start(rank + 2) - self.start(rank);
        let joint = self.start(rank + 1) - 1;
        (both <= u64::BITS).then_some(Strings { last: self.last & !(1 << joint), ..self })
    }

    fn cut(self, start: u32, length: u8) -> Self {
        let length = u32::from(length);
        Strings { data: close(self.data, start, length), last: close(self.last, start, length) }
    }

    /// Which strings of these ranks are prefixes of `query`, by rank.
    ///
    /// All strings are compared at once, bit by bit, so the time depends on how
    /// far the query is followed and on how many match, not on how many there
    /// are.
    #[inline]
    pub(crate) fn prefixes(self, ranks: Range<u32>, query: u64) -> u128 {
        let mut ends = self.agreeing(ranks, query) & self.last;
        let mut matches = 0;
        while ends != 0 {
            let before = low_bits_wide(ends.trailing_zeros());
            matches |= 1 << (self.last & before).count_ones();
            ends &= ends - 1;
        }
        matches
    }

    /// The bits of the strings of these ranks up to where they differ from `query`, by position.
    #[inline]
    fn agreeing(self, ranks: Range<u32>, query: u64) -> u128 {
        let within = low_bits_wide(self.start(ranks.end)) & !low_bits_wide(self.start(ranks.start));
        // One bit of each string that has agreed so far, from its first on.
        let mut front = (self.last << 1 | 1) & within;
        let mut agreeing = 0;
        let mut rest = query;
        while front != 0 {
            let ones = u128::from(rest >> 63).wrapping_neg();
            front &= !(self.data ^ ones);
            agreeing |= front;
            front = (front & !self.last) << 1;
            rest <<= 1;
        }
        agreeing
    }

    /// Verifies every invariant.
    pub(crate) fn check(self) -> Result<(), String> {
        let used = self.used();
        if self.data & !low_bits_wide(used) != 0 {
            return Err(format!("data behind the last of {used} bits of strings"));
        }
        let long = (0..self.count()).find(|&rank| self.start(rank + 1) - self.start(rank) > 64);
        match long {
            Some(rank) => Err(format!("string {rank} is longer than 64 bits")),
            None => Ok(()),
        }
    }
}

/// Moves the bits from `start` on up by `length` (1 to 64), over zeros.
pub(super) fn open(word: u128, start: u32, length: u32) -> u128 {
    let below = low_bits_wide(start);
    word & below | (word & !below) << length
}

/// Takes out `length` (up to 64) bits from `start` on.
pub(super) fn close(word: u128, start: u32, length: u32) -> u128 {
    let below = low_bits_wide(start);
    word & below | word >> length & !below
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::rng::Rng;

    fn text(bits: &str) -> Text {
        let padded = format!("{bits:0<64}");
        Text {
            length: bits.len() as u8,
            bits: u64::from_str_radix(&padded, 2).expect("zeros and ones"),
        }
    }

    /// The slow obvious version.
    fn compare(strings: Strings, list: &[Text]) {
        strings.check().expect("it holds together");
        assert_eq!(strings.count() as usize, list.len());
        assert_eq!(strings.used(), total(list));
        let held: Vec<Text> = (0..strings.count()).map(|rank| strings.get(rank)).collect();
        assert_eq!(held, list);
    }

    fn total(list: &[Text]) -> u32 {
        list.iter().map(|text| u32::from(text.length)).sum()
    }

    /// Mostly short, as adaptivity bits are; few different ones, so that many
    /// are prefixes of others.
    fn random(rng: &mut Rng, longest: u64) -> Text {
        let bits = [rng.next(), 0, u64::MAX, 0x5555_5555_5555_5555][rng.below(4) as usize];
        let longest = 1 + rng.below(longest);
        Text::prefix(bits, 1 + rng.below(longest) as u8)
    }

    #[test]
    fn the_strings_drawn_above() {
        let list = ["110", "0", "01"].map(text);
        let strings = (0..3).fold(Strings::default(), |strings, rank| {
            strings.insert(rank, list[rank as usize]).expect("there is room")
        });
        assert_eq!(strings.parts(), (0b10_0011, 0b10_1100));
        compare(strings, &list);
        assert_eq!(strings.prefixes(0..3, text("0110").bits), 0b110);
        assert_eq!(strings.prefixes(0..2, text("0110").bits), 0b010);
        assert_eq!(strings.prefixes(0..3, text("1100").bits), 0b001);
        assert_eq!(strings.prefixes(1..1, text("0110").bits), 0);
        compare(strings.concat(0).expect("short"), &["1100", "01"].map(text));
        compare(strings.splice(0, 2), &["0", "0", "01"].map(text));
        compare(strings.splice(1, 2), &["110", "01"].map(text));
    }

    #[test]
    fn strings_agree_with_a_list() {
        let mut rng = Rng::new(1);
        for round in 0..if cfg!(miri) { 4 } else { 400 } {
            let longest = [3, 12, 64][round % 3];
            let mut strings = Strings::default();
            let mut list: Vec<Text> = Vec::new();
            for _ in 0..200 {
                let at = rng.below(list.len() as u64 + 1) as usize;
                let new = random(&mut rng, longest);
                let choice = rng.below(12);
                if choice < 6 || at == list.len() {
                    let fits = total(&list) + u32::from(new.length) <= ROOM;
                    let inserted = strings.insert(at as u32, new);
                    assert_eq!(inserted.is_some(), fits);
                    if let Some(inserted) = inserted {
                        strings = inserted;
                        list.insert(at, new);
                    }
                } else if choice < 8 {
                    let (rest, removed) = strings.remove(at as u32);
                    assert_eq!(removed, list.remove(at));
                    strings = rest;
                } else if choice < 10 {
                    let mut changed = list.clone();
                    changed[at] = new;
                    let replaced = strings.replace(at as u32, new);
                    assert_eq!(replaced.is_some(), total(&changed) <= ROOM);
                    if let Some(replaced) = replaced {
                        (strings, list) = (replaced, changed);
                    }
                } else if choice == 10 {
                    let count = rng.below(8) as u8;
                    strings = strings.splice(at as u32, count);
                    let old = list[at];
                    if count < old.length {
                        list[at] = Text::prefix(old.bits << count, old.length - count);
                    } else {
                        list.remove(at);
                    }
                } else if at + 1 < list.len() {
                    let (one, two) = (list[at], list[at + 1]);
                    let joined = strings.concat(at as u32);
                    assert_eq!(joined.is_some(), one.length + two.length <= 64);
                    if let Some(joined) = joined {
                        strings = joined;
                        let length = one.length + two.length;
                        let behind = two.bits.checked_shr(u32::from(one.length)).unwrap_or(0);
                        list[at] = Text { length, bits: one.bits | behind };
                        list.remove(at + 1);
                    }
                }
                compare(strings, &list);
                let (data, last) = strings.parts();
                assert_eq!(Strings::from_parts(data, last), Ok(strings));
            }
        }
    }

    #[test]
    fn prefixes_agree_with_comparing_each_string() {
        let mut rng = Rng::new(2);
        for round in 0..if cfg!(miri) { 10 } else { 3000 } {
            let longest = [1, 3, 12, 64][round % 4];
            let mut strings = Strings::default();
            while let Some(more) = strings.insert(0, random(&mut rng, longest)) {
                strings = more;
            }
            let count = strings.count();
            for _ in 0..10 {
                let first = rng.below(u64::from(count) + 1) as u32;
                let end = first + rng.below(u64::from(count - first) + 1) as u32;
                // Half of the queries continue one of the strings.
                let query = match rng.below(2) {
                    0 => random(&mut rng, 64).bits,
                    _ => strings.get(rng.below(u64::from(count)) as u32).bits | rng.below(256),
                };
                let expected = (first..end)
                    .filter(|&rank| strings.get(rank).is_prefix_of(query))
                    .fold(0, |matches, rank| matches | 1 << rank);
                assert_eq!(strings.prefixes(first..end, query), expected, "{strings:?}");
            }
        }
    }

    #[test]
    fn a_string_agrees_with_its_characters() {
        let mut rng = Rng::new(3);
        assert!(Text::default().is_prefix_of(7) && Text::prefix(u64::MAX, 64).length == 64);
        assert_eq!(Text::prefix(u64::MAX, 3), text("111"));
        for _ in 0..2000 {
            let (one, query) = (random(&mut rng, 64), random(&mut rng, 64).bits);
            let bit = |word: u64, index: u8| word >> (63 - index) & 1;
            let common =
                (0..one.length).take_while(|&i| bit(one.bits, i) == bit(query, i)).count() as u8;
            assert_eq!(one.common(query), common);
            assert_eq!(one.is_prefix_of(query), common == one.length);
        }
    }

    #[test]
    fn all_the_room_is_used() {
        let ones = (0..ROOM).fold(Strings::default(), |strings, rank| {
            strings.insert(rank / 2, text("1")).expect("a bit is free")
        });
        assert_eq!((ones.count(), ones.used()), (ROOM, ROOM));
        assert_eq!(ones.insert(ROOM, text("0")), None);
        assert_eq!(ones.prefixes(0..ROOM, u64::MAX), u128::MAX);
        let whole = Text::prefix(0x0123_4567_89ab_cdef, 64);
        let two = Strings::default().insert(0, whole).and_then(|one| one.insert(1, whole));
        let two = two.expect("two words");
        compare(two, &[whole, whole]);
        assert_eq!(two.prefixes(0..2, whole.bits), 0b11);
        assert_eq!(two.concat(0), None);
    }

    #[test]
    fn bits_that_are_no_strings_are_refused() {
        assert!(Strings::from_parts(0b1000, 0b100).is_err(), "data behind the last string");
        assert!(Strings::from_parts(1, 0).is_err(), "data of no string");
        assert!(Strings::from_parts(0, 1 << 63).is_ok(), "64 bits");
        assert!(Strings::from_parts(0, 1 << 64).is_err(), "65 bits");
        assert!(Strings::from_parts(0, 1 << 127 | 1 << 62).is_err(), "65 bits behind 63");
    }
}
