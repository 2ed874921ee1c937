//! What the states of slots mean in one variant of the adaptive quotient filter.
//!
//! A variant writes a [`Rule`]. How a query searches a run without decoding its block is a
//! second trait, [`super::search::Search`], whose defaults are right for every rule.

use super::block::SLOTS;
use super::params::Quotient;
use super::place::Place;

/// The most bytes of a block's encoded state.
pub(super) const MOST_STATE: usize = SLOTS;

/// The state of a block: the selectors or extensions of its slots.
#[derive(Clone, PartialEq)]
pub struct BlockState<S> {
    /// Which hash functions its remainders come from; 0 at first.
    pub(super) epoch: u8,
    pub(super) slots: [S; SLOTS],
}

impl<S: Copy + Default> BlockState<S> {
    /// The state of a block that has not adapted in this epoch.
    pub(super) fn unadapted(epoch: u8) -> Self {
        BlockState { epoch, slots: [S::default(); SLOTS] }
    }
}

/// Up to 16 bytes as a number, in two loads. A copy of variable length would be a call, and
/// a load that waits for its stores.
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

/// What the states of slots mean in one variant.
pub trait Rule: Clone {
    /// Whether a slot's remainder depends on its state. If so, a block that forgets its
    /// state has to recompute its remainders.
    const REMAINDERS_CHANGE: bool;

    /// A slot's selector or extension; by default that of a slot that has not adapted.
    type SlotState: Copy + Default + PartialEq;

    /// What a filter with this rule is made from.
    type Params: Quotient;

    /// The rule of these parameters.
    fn new(params: &Self::Params) -> Self;

    /// The state of a block. Zeros decode to that of a block that has not adapted.
    fn decode(&self, state: &[u8]) -> BlockState<Self::SlotState>;

    /// The bytes of a block's state; `None` when they are more than its budget.
    fn encode(&self, state: &BlockState<Self::SlotState>) -> Option<[u8; MOST_STATE]>;

    /// Epoch and state of slot `index` of a block.
    fn decode_one(&self, state: &[u8], index: usize) -> (u8, Self::SlotState) {
        let BlockState { epoch, slots } = self.decode(state);
        (epoch, slots[index])
    }

    /// The epoch of a block after its budget was spent.
    fn next_epoch(&self, epoch: u8) -> u8 {
        epoch
    }

    /// A slot's state as a number, 0 if it has not adapted: together with the digest that
    /// is all of it.
    fn depth(&self, state: Self::SlotState) -> u8;

    /// The state of this depth for the slot of a digest.
    fn at_depth(&self, place: &Place, depth: u8) -> Self::SlotState;

    /// The remainder of a stored digest in a slot of this state.
    fn remainder(&self, place: &Place, epoch: u8, state: Self::SlotState) -> u64;

    /// Whether a slot may be the digest's.
    fn holds(&self, remainder: u64, place: &Place, epoch: u8, state: Self::SlotState) -> bool {
        remainder == self.remainder(place, epoch, state)
    }

    /// Whether an adaptation changes each slot that matches once, also where the query then
    /// still matches.
    fn adapts_once(&self) -> bool {
        false
    }

    /// The first state from `state` on in which the slot of a stored digest does not match
    /// the query, or the next state if slots [adapt once](Rule::adapts_once); `None` when there is
    /// none.
    fn adapted(
        &self,
        query: &Place,
        stored: &Place,
        epoch: u8,
        state: Self::SlotState,
    ) -> Option<Self::SlotState>;
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
