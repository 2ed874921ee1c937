//! What a variant makes of the adaptive quotient filter.

use core::ops::Range;

use crate::bits::word::Words;

use super::block::{Bytes, SLOTS, Within};
use super::params::Quotient;
use super::place::Place;
use super::runs::Runs;

/// The most bytes of a block's state.
pub(super) const MOST_STATE: usize = SLOTS;

/// What the slots of a block have learned.
#[derive(Clone, PartialEq)]
pub struct Learned<S> {
    /// Which hash functions its remainders come from; 0 at first.
    pub(super) epoch: u8,
    pub(super) slots: [S; SLOTS],
}

impl<S: Copy + Default> Learned<S> {
    pub(super) fn nothing(epoch: u8) -> Self {
        Learned { epoch, slots: [S::default(); SLOTS] }
    }
}

/// Up to 16 bytes as a number, in two loads: a copy of a length that is not known
/// beforehand is a call, and a load that has to wait for its stores.
#[inline]
pub(super) fn number(bytes: &[u8]) -> u128 {
    /// Of two overlapping parts, whose common bytes are equal.
    fn joined(first: u64, last: u64, distance: usize) -> u128 {
        u128::from(first) | u128::from(last) << (8 * distance)
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        return joined(u64::from_le_bytes(*first), u64::from_le_bytes(*last), bytes.len() - 8);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [first, last] = [first, last].map(|four| u32::from_le_bytes(*four).into());
        return joined(first, last, bytes.len() - 4);
    }
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte))
}

/// What a variant makes of the general filter. A state of zeros is that of a
/// block that never learned anything.
pub trait Rule: Clone {
    /// Whether a slot's remainder depends on what it learned: a block that
    /// forgets must then recompute its remainders.
    const REMAINDERS_CHANGE: bool;

    /// Whether all queries look at a block's state, and not only those that have found
    /// a remainder of theirs.
    const EVERY_QUERY_READS_STATE: bool;

    /// What a slot learns; by default nothing.
    type Symbol: Copy + Default + PartialEq;

    /// What a filter with this rule is made from.
    type Params: Quotient;

    /// The rule of these parameters.
    fn new(params: &Self::Params) -> Self;

    /// What a block's slots have learned.
    fn decode(&self, state: &[u8]) -> Learned<Self::Symbol>;

    /// The state of a block, `None` when the budget does not suffice.
    fn encode(&self, learned: &Learned<Self::Symbol>) -> Option<[u8; MOST_STATE]>;

    /// The epoch of a block that is spent.
    fn next_epoch(&self, epoch: u8) -> u8 {
        epoch
    }

    /// How much a slot has learned, 0 for nothing: with the digest that is all of it.
    fn depth(&self, symbol: Self::Symbol) -> u8;

    /// What the slot of a digest has learned that has learned so much.
    fn at_depth(&self, place: &Place, depth: u8) -> Self::Symbol;

    /// What a stored digest leaves in a slot that has learned this.
    fn remainder(&self, place: &Place, epoch: u8, symbol: Self::Symbol) -> u64;

    /// Whether a slot may be the digest's.
    fn holds(&self, remainder: u64, place: &Place, epoch: u8, symbol: Self::Symbol) -> bool {
        remainder == self.remainder(place, epoch, symbol)
    }

    /// The next thing to learn, from `symbol` on, so that the slot of a stored
    /// digest is not taken for the query's.
    fn apart(
        &self,
        query: &Place,
        stored: &Place,
        epoch: u8,
        symbol: Self::Symbol,
    ) -> Option<Self::Symbol>;

    /// `false` when no slot of a run is the digest's, whatever they have learned:
    /// what most queries end with.
    fn may_be_in(&self, words: impl Words, runs: &Runs, run: &Range<usize>, place: &Place) -> bool;

    /// [`Rule::may_be_in`] where it can be said in one step, as coded variants can for
    /// nearly all queries: this is inlined into every query.
    fn may_be_in_at_once(
        &self,
        words: impl Words,
        runs: &Runs,
        run: Within,
        place: &Place,
    ) -> Option<bool>;

    /// `false` when none of these slots is the digest's, for many queries: without a
    /// branch that cannot be foreseen.
    fn may_be_among(&self, words: impl Words, slots: Bytes, place: &Place) -> bool;

    /// Whether no slot of a run has learned anything, where one step shows it. Then
    /// `true` of [`Rule::may_be_in_at_once`] is final.
    #[inline(always)]
    fn none_has_learned(&self, _runs: &Runs, _run: Within) -> bool {
        false
    }

    /// Whether slot `index` of a block may be the digest's, where that can be
    /// said without decoding.
    fn undecoded(&self, state: &[u8], index: usize, remainder: u64, place: &Place) -> Option<bool>;

    /// Epoch and symbol of slot `index`.
    fn decode_one(&self, state: &[u8], index: usize) -> (u8, Self::Symbol);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_length() {
        let bytes: [u8; 17] =
            core::array::from_fn(|at| (at as u8).wrapping_mul(17).wrapping_add(129));
        for len in 0..=16 {
            let mut word = [0; 16];
            word[..len].copy_from_slice(&bytes[1..=len]);
            assert_eq!(number(&bytes[1..=len]), u128::from_le_bytes(word), "{len} bytes");
        }
    }
}
