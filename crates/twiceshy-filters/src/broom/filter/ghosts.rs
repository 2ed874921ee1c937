//! Ghosts (section 4.3): what removed keys leave behind, and keys whose fingerprint had to be
//! longer than their group has room for.
//!
//! A ghost is needed until its function is gone, which depends on the frontier. So a removal
//! that leaves a ghost moves the frontier, as an adaptation does, and either moves it by a whole
//! group of ranges if the ghost found no room in its own group. This bounds the memory for any
//! sequence of operations: a ghost of phase `p` is dropped by the end of phase `p + 2`, and a
//! phase leaves at most one ghost outside per group, so there are at most three per group. A
//! swept key may leave one more where it collides in a group without room, but its hash is a
//! fresh one that nobody chose, and another key is in the yard for it.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::ops::Range;

use super::{BroomFilter, GROUP, Hash};
use crate::broom::form::Form;
use crate::broom::strings::Text;

/// What a removed key left. The order of fields is that of [`Outside`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ghost {
    quotient: u32,
    /// Whether its function is an odd or an even one.
    tag: bool,
    length: u8,
    bits: u64,
}

impl Ghost {
    pub(super) fn new(quotient: usize, tag: bool, string: Text) -> Self {
        let quotient = u32::try_from(quotient).expect("there are fewer than 2^32 quotients");
        Ghost { quotient, tag, length: string.length, bits: string.bits }
    }

    pub(super) fn quotient(self) -> usize {
        self.quotient as usize
    }

    pub(super) fn tag(self) -> bool {
        self.tag
    }

    pub(super) fn string(self) -> Text {
        Text { length: self.length, bits: self.bits }
    }
}

/// Ghosts that found no room in their groups.
#[derive(Clone, Default)]
pub(super) struct Outside(BTreeSet<Ghost>);

impl Outside {
    /// A tree set's nodes are two thirds full: 29 bytes for 16, with the allocator's
    /// share.
    const BYTES_OF_A_GHOST: usize = 29;

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Memory held, in bits.
    pub(super) fn bits(&self) -> usize {
        self.len() * Self::BYTES_OF_A_GHOST * 8
    }

    pub(super) fn insert(&mut self, ghost: Ghost) {
        self.0.insert(ghost);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Ghost> + '_ {
        self.0.iter().copied()
    }

    fn of(&self, quotients: Range<usize>) -> impl Iterator<Item = Ghost> + '_ {
        let first = |quotient| Ghost::new(quotient, false, Text::default());
        self.0.range(first(quotients.start)..first(quotients.end)).copied()
    }

    fn drop_tagged(&mut self, quotients: Range<usize>, tag: bool) {
        let dead: Vec<Ghost> = self.of(quotients).filter(|ghost| ghost.tag == tag).collect();
        for ghost in dead {
            self.0.remove(&ghost);
        }
    }
}

impl<F: Form> BroomFilter<F> {
    /// Removed keys whose adaptivity bits are remembered.
    #[must_use]
    pub fn ghosts(&self) -> usize {
        let in_groups =
            (0..self.level.groups()).map(|group| self.level.ghost_count(group) as usize);
        in_groups.sum::<usize>() + self.outside.len()
    }

    /// The length of the longest ghost that the digest matches.
    pub(super) fn ghost_length(&mut self, hash: &Hash) -> u8 {
        self.drop_dead_ghosts(hash.quotient / GROUP);
        let tag = self.tag(hash.new);
        let matching = self
            .ghosts_of(hash.quotient)
            .filter(|&(ghost, string)| ghost == tag && string.is_prefix_of(hash.bits));
        matching.map(|(_, string)| string.length).max().unwrap_or(0)
    }

    /// The tags and strings of a quotient's ghosts.
    fn ghosts_of(&self, quotient: usize) -> impl Iterator<Item = (bool, Text)> + '_ {
        let outside = self.outside.of(quotient..quotient + 1);
        self.level.ghosts(quotient).chain(outside.map(|ghost| (ghost.tag, ghost.string())))
    }

    /// The ghost that a key with this string will leave. A key that is removed again
    /// and again leaves one.
    pub(super) fn new_ghost(&mut self, hash: &Hash, string: Text) -> Option<Ghost> {
        if string.is_empty() || !self.params.ghosts {
            return None;
        }
        self.drop_dead_ghosts(hash.quotient / GROUP);
        let tag = self.tag(hash.new);
        let known = self.ghosts_of(hash.quotient).any(|ghost| ghost == (tag, string));
        (!known).then(|| Ghost::new(hash.quotient, tag, string))
    }

    /// By how many ranges a ghost that comes to its group moves the frontier.
    pub(super) fn ranges_for(&self, ghost: Ghost) -> usize {
        let usual = self.params.sweep as usize;
        if self.level.has_room_for_ghost(ghost.quotient() / GROUP) {
            usual
        } else {
            usual.max(GROUP)
        }
    }

    pub(super) fn leave(&mut self, ghost: Ghost) {
        if !self.level.add_ghost(ghost.quotient(), ghost.tag, ghost.string()) {
            self.outside.insert(ghost);
        }
    }

    /// Ghosts of odd and even functions are told apart; the old function is that
    /// of the phase.
    pub(super) fn tag(&self, new: bool) -> bool {
        (self.phase % 2 == 1) != new
    }

    /// Once in each phase, before a group has ghosts of the new function, those
    /// with its tag are of the function before the old one.
    pub(super) fn drop_dead_ghosts(&mut self, group: usize) {
        let now = self.phase % 2 == 1;
        if self.level.stamp(group) == now {
            return;
        }
        self.level.set_stamp(group, now);
        let dead = self.tag(true);
        self.level.drop_ghosts(group, dead);
        let end = (group + 1) * GROUP;
        self.outside.drop_tagged(group * GROUP..end.min(self.level.quotients()), dead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broom::form::Practical;
    use crate::digest::Digest;
    use crate::rng::Rng;

    fn filter(spec: &str) -> BroomFilter<Practical> {
        BroomFilter::new(&spec.parse().expect("a filter"), 1000).expect("a capacity")
    }

    /// A key that comes and goes leaves one ghost; another string, quotient or function has one of
    /// its own beside it. No adaptivity bits leave none, nor does a filter without ghosts.
    #[test]
    fn a_key_leaves_a_ghost_once() {
        let mut filter = filter("broom:f=8");
        let hash = filter.hash(Digest::new([5 << 56, 7]));
        let of = |quotient, new| Hash { quotient, new, ..hash };
        let beside = hash.quotient ^ 1;
        let bits = |length| Text::prefix(hash.bits, length);
        let all = [
            (of(hash.quotient, true), bits(3)),
            (of(hash.quotient, true), bits(4)),
            (of(beside, true), bits(3)),
            (of(hash.quotient, false), bits(3)),
        ];
        for (turn, (hash, string)) in all.into_iter().enumerate() {
            for (other, (hash, string)) in all.into_iter().enumerate() {
                let ghost = filter.new_ghost(&hash, string);
                let wanted = Ghost::new(hash.quotient, filter.tag(hash.new), string);
                assert!(ghost == (other >= turn).then_some(wanted), "{other} of {turn}");
            }
            let ghost = filter.new_ghost(&hash, string).expect("it is none of the others");
            filter.leave(ghost);
        }
        assert_eq!(filter.ghosts(), all.len());
        assert!(filter.new_ghost(&hash, bits(0)).is_none());
        let mut without = self::filter("broom:f=8,ghosts=0");
        assert!(without.new_ghost(&hash, bits(3)).is_none());
    }

    /// As many ranges as the parameter says, and a whole group from the ghost on that finds no
    /// room in its own group, which other groups have.
    #[test]
    fn a_ghost_without_room_moves_the_frontier_by_a_group() {
        for (sweep, without_room) in [(1, GROUP), (3, GROUP), (64, 64)] {
            let mut filter = filter(&alloc::format!("broom:f=8,sweep={sweep}"));
            let mut rng = Rng::new(1);
            let quotient = GROUP + 6;
            let mut turns = 0;
            while filter.outside.len() == 0 {
                let ghost = Ghost::new(quotient, true, Text::prefix(rng.next(), 9));
                let before = filter.outside.len();
                let ranges = filter.ranges_for(ghost);
                filter.leave(ghost);
                let has_room = filter.outside.len() == before;
                assert_eq!(ranges, if has_room { sweep } else { without_room });
                turns += 1;
            }
            assert!(turns > 1, "a group has room for some");
            let elsewhere = Ghost::new(5, true, Text::prefix(0, 9));
            assert_eq!(filter.ranges_for(elsewhere), sweep);
        }
    }
}
