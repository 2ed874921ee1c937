//! Arithmetic coding of a short block into one integer.
//!
//! Lee, McCauley, Singh, Stein, "Telescoping Filter", section 5 and appendix
//! C.1. The words below `2^budget` are divided among the possible states of the first
//! slot, the part of its actual state among those of the second slot, and so on. The
//! code is the lowest word of the last part.
//!
//! ```text
//! low                                                       low + range
//!  |------------------ 0 ------------------|--- 1 ---|- 2 -|-3-|...|
//!                                          |<----- at least 1 ---->|
//!                                                    |<at least 2->|
//! ```
//!
//! A part is given by its distance from the top: "at least 1", "at least 2"
//! and so on are sums of right shifts of the range, rounded down, and each
//! state has the words between two of them. Unlike the paper's parts, which are all
//! rounded down, these tile the range:
//!
//! - every word belongs to a block;
//! - rounding favours the zero, which keeps a part even of a range of 1;
//! - encoding fails only when the part of a state other than the zero is empty.
//!
//! The zero lies at the bottom, so zeros do not move `low`. A block of zeros is the word
//! 0, zeros behind the last other state cost neither bits nor time, and the ranges that
//! leading zeros leave are computed once.

#[cfg(test)]
use alloc::vec;
#[cfg(test)]
use alloc::vec::Vec;
use core::ops::{Add, Sub};

/// Slots of a block.
pub(crate) const SLOTS: usize = 64;

/// Budgets in bits. The paper has 56; below about 32 there is no use but tests.
pub(crate) const BUDGETS: core::ops::RangeInclusive<u32> = 8..=128;

/// What intervals are counted in: `u64` where the budget allows, for speed.
pub(crate) trait Word:
    Copy + Default + Ord + Add<Output = Self> + Sub<Output = Self> + Into<u128>
{
    /// The low bits of `word`.
    fn truncate(word: u128) -> Self;

    /// The part of `2^-shift`, rounded down.
    fn part(self, shift: u32) -> Self;
}

impl Word for u64 {
    #[inline(always)]
    fn truncate(word: u128) -> Self {
        word as u64
    }

    #[inline(always)]
    fn part(self, shift: u32) -> Self {
        self.checked_shr(shift).unwrap_or(0)
    }
}

impl Word for u128 {
    #[inline(always)]
    fn truncate(word: u128) -> Self {
        word
    }

    #[inline(always)]
    fn part(self, shift: u32) -> Self {
        self.checked_shr(shift).unwrap_or(0)
    }
}

/// The words whose blocks begin with the states encoded so far.
pub(crate) struct Interval<W> {
    low: W,
    range: W,
}

impl<W: Word> Interval<W> {
    /// How many words are left.
    #[inline(always)]
    pub(crate) fn range(&self) -> W {
        self.range
    }

    /// Keeps the top `at_least` words without the top `more` of them; `None` if none is
    /// left.
    #[inline(always)]
    #[must_use]
    pub(crate) fn keep(&mut self, at_least: W, more: W) -> Option<()> {
        self.low = self.low + (self.range - at_least);
        self.range = at_least - more;
        (self.range != W::default()).then_some(())
    }

    /// Encodes a bit that is one with probability `2^-shift`.
    #[must_use]
    pub(crate) fn bit(&mut self, one: bool, shift: u32) -> Option<()> {
        let ones = self.range.part(shift);
        if one { self.keep(ones, W::default()) } else { self.keep(self.range, ones) }
    }

    /// Encodes a number from 0 to `last`, all about equally likely.
    #[must_use]
    pub(crate) fn number(&mut self, number: u32, last: u32) -> Option<()> {
        debug_assert!(number <= last, "{number} is past {last}");
        let encode = |position| {
            let one = number >> position & 1 == 1;
            self.bit(one, 1).map(|()| one)
        };
        by_free_bits(last, encode).map(drop)
    }
}

/// A word, relative to the interval of the states decoded so far.
pub(crate) struct Point<W> {
    /// Distance from the interval's low end.
    offset: W,
    range: W,
}

impl<W: Word> Point<W> {
    /// How many words the interval has.
    #[inline(always)]
    pub(crate) fn range(&self) -> W {
        self.range
    }

    /// Whether the word is among the top `count` of the interval.
    #[inline(always)]
    pub(crate) fn in_top(&self, count: W) -> bool {
        self.range - self.offset <= count
    }

    /// Narrows the interval as [`Interval::keep`] does; the word must be in it.
    #[inline(always)]
    pub(crate) fn keep(&mut self, at_least: W, more: W) {
        self.offset = self.offset - (self.range - at_least);
        self.range = at_least - more;
    }

    /// Decodes what [`Interval::bit`] encoded.
    pub(crate) fn bit(&mut self, shift: u32) -> bool {
        let ones = self.range.part(shift);
        let one = self.in_top(ones);
        if one {
            self.keep(ones, W::default())
        } else {
            self.keep(self.range, ones)
        }
        one
    }

    /// Decodes what [`Interval::number`] encoded.
    pub(crate) fn number(&mut self, last: u32) -> u32 {
        by_free_bits(last, |_| Some(self.bit(1))).expect("decoding never fails")
    }
}

/// Builds a number from 0 to `last` from its high bit down. `bit` is asked only for
/// positions where a one would not lead past `last`.
fn by_free_bits(last: u32, mut bit: impl FnMut(u32) -> Option<bool>) -> Option<u32> {
    let mut number = 0;
    for position in (0..u32::BITS - last.leading_zeros()).rev() {
        let with_one = number | 1 << position;
        if with_one <= last && bit(position)? {
            number = with_one;
        }
    }
    Some(number)
}

/// How a range is divided among the states of a slot. The default state is the zero.
pub(crate) trait Alphabet {
    /// A slot's selector or extension.
    type SlotState: Copy + Default + PartialEq;

    /// The top part of `range` that all states but the zero share.
    fn others<W: Word>(&self, range: W) -> W;

    /// Narrows `interval` to the part of `state`, which is not the zero.
    fn encode<W: Word>(&self, state: Self::SlotState, interval: &mut Interval<W>) -> Option<()>;

    /// Narrows the interval of `point`, which lies in the part of the others,
    /// to the part of a state.
    fn decode<W: Word>(&self, point: &mut Point<W>) -> Self::SlotState;

    /// The ideal length of `state`'s code, in bits: minus the logarithm of
    /// its probability.
    fn bits(&self, state: Self::SlotState) -> f64;
}

/// The bits that an alphabet ideally spends.
#[derive(Clone, Copy)]
pub(crate) struct Costs {
    /// On the zero.
    pub(crate) zero: f64,
    /// On the states next to the zero.
    pub(crate) first: f64,
    /// On each step further away.
    pub(crate) step: f64,
}

/// How many steps the slot state of a key is away from the zero.
pub(crate) struct Steps {
    /// The probability of at least one.
    pub(crate) some: f64,
    /// The mean number.
    pub(crate) mean: f64,
}

impl Steps {
    /// The assumed load: that of the paper's experiments. Slots without a key are zero.
    pub(crate) const LOAD: f64 = 0.95;

    /// Expected bits for a slot.
    pub(crate) fn expected_bits(&self, costs: &Costs) -> f64 {
        let (some, further) = (Self::LOAD * self.some, Self::LOAD * (self.mean - self.some));
        (1.0 - some) * costs.zero + some * costs.first + further * costs.step
    }
}

/// Picks the alphabet whose expected length reaches `budget` last as the collisions per
/// key, and with them its `steps`, grow.
pub(crate) fn last_to_fill<A: Copy>(
    budget: u32,
    alphabets: &[(A, Costs)],
    steps: impl Fn(f64) -> Steps,
) -> A {
    let shortest = |collisions| {
        let steps = steps(collisions);
        let lengths =
            alphabets.iter().map(|(alphabet, costs)| (alphabet, steps.expected_bits(costs)));
        lengths.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are alphabets to choose from")
    };
    // At 8 collisions per key no code stays below 2 bits. After fifty halvings both ends
    // are equal for every purpose.
    let (mut fits, mut overflows) = (0.0, 8.0);
    for _ in 0..50 {
        let middle = (fits + overflows) / 2.0;
        if shortest(middle).1 * SLOTS as f64 <= f64::from(budget) {
            fits = middle;
        } else {
            overflows = middle;
        }
    }
    *shortest(fits).0
}

/// A code for blocks of an alphabet's states.
///
/// With the alphabets here, rounding takes less than 4 words from any interval. So a block
/// encodes whenever its ideal length is 2 bits below the budget.
#[derive(Clone, Debug)]
pub(crate) struct Coder<A> {
    alphabet: A,
    budget: u32,
    slots: usize,
    /// The range left before slot `i` when all slots before it are zero.
    untouched: [u128; SLOTS + 1],
}

impl<A: Alphabet> Coder<A> {
    /// A code for blocks of `slots` slots in words of `budget` bits.
    pub(crate) fn new(alphabet: A, budget: u32, slots: usize) -> Self {
        assert!(BUDGETS.contains(&budget), "a budget has 8 to 128 bits, not {budget}");
        assert!((1..=SLOTS).contains(&slots), "a block has 1 to {SLOTS} slots, not {slots}");
        let mut untouched = [0; SLOTS + 1];
        // At 128 bits the last word goes unused: the range itself must fit a word.
        untouched[0] = 1u128.checked_shl(budget).unwrap_or(u128::MAX);
        for slot in 0..slots {
            untouched[slot + 1] = untouched[slot] - alphabet.others(untouched[slot]);
        }
        Coder { alphabet, budget, slots, untouched }
    }

    /// How it divides ranges.
    pub(crate) fn alphabet(&self) -> &A {
        &self.alphabet
    }

    /// Bits of a code.
    #[cfg(test)]
    pub(crate) fn budget(&self) -> u32 {
        self.budget
    }

    /// The code of a block; `None` when it does not fit the budget.
    #[must_use]
    pub(crate) fn encode(&self, states: &[A::SlotState]) -> Option<u128> {
        if self.is_narrow() {
            self.encode_in::<u64>(states)
        } else {
            self.encode_in::<u128>(states)
        }
    }

    /// The block of a code. Bits above the budget are ignored.
    #[inline]
    pub(crate) fn decode<const N: usize>(&self, code: u128) -> [A::SlotState; N] {
        assert_eq!(N, self.slots, "a block has {} slots", self.slots);
        let mut states = [A::SlotState::default(); N];
        self.visit(code, N, |slot, state| states[slot] = state);
        states
    }

    /// Entry `n`: the first code whose first `n` slots are not all zeros. `None` if codes
    /// are longer than a word.
    pub(crate) fn zeros(&self) -> Option<[u64; SLOTS + 1]> {
        self.is_narrow().then(|| self.untouched.map(u64::truncate))
    }

    /// Whether the first `count` slots are zeros: one comparison with that table.
    #[inline]
    pub(crate) fn starts_with_zeros(&self, code: u128, count: usize) -> bool {
        self.within(code) < self.untouched[count]
    }

    /// The state of one slot. Stops there, so low slots are cheaper.
    #[inline]
    pub(crate) fn decode_one(&self, code: u128, slot: usize) -> A::SlotState {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        let mut found = A::SlotState::default();
        self.visit(code, slot + 1, |at, state| {
            if at == slot {
                found = state;
            }
        });
        found
    }

    /// The ideal length of a block's code, in bits.
    #[cfg(test)]
    pub(crate) fn bits(&self, states: &[A::SlotState]) -> f64 {
        states.iter().map(|&state| self.alphabet.bits(state)).sum()
    }

    /// Whether the range of the whole budget fits a `u64`.
    fn is_narrow(&self) -> bool {
        self.budget < u64::BITS
    }

    fn encode_in<W: Word>(&self, states: &[A::SlotState]) -> Option<u128> {
        assert_eq!(states.len(), self.slots, "a block has {} slots", self.slots);
        let zero = A::SlotState::default();
        let other = |&state: &A::SlotState| state != zero;
        let (Some(first), Some(last)) =
            (states.iter().position(other), states.iter().rposition(other))
        else {
            return Some(0);
        };
        let range = W::truncate(self.untouched[first]);
        let mut interval = Interval { low: W::default(), range };
        for &state in &states[first..=last] {
            if state == zero {
                interval.range = interval.range - self.alphabet.others(interval.range);
            } else {
                self.alphabet.encode(state, &mut interval)?;
            }
        }
        Some(interval.low.into())
    }

    /// Calls `found` with the slots before `end` that are not zero.
    #[inline]
    fn visit(&self, code: u128, end: usize, found: impl FnMut(usize, A::SlotState)) {
        if code == 0 {
            return;
        }
        if self.is_narrow() {
            self.visit_in::<u64>(code, end, found);
        } else {
            self.visit_in::<u128>(code, end, found);
        }
    }

    /// A word without the bits above the budget.
    #[inline]
    fn within(&self, code: u128) -> u128 {
        (code & u128::MAX >> (128 - self.budget)).min(self.untouched[0] - 1)
    }

    fn visit_in<W: Word>(
        &self,
        code: u128,
        end: usize,
        mut found: impl FnMut(usize, A::SlotState),
    ) {
        let code = self.within(code);
        let zeros = self.untouched[1..=self.slots].partition_point(|&left| code < left);
        let range = W::truncate(self.untouched[zeros]);
        let mut point = Point { offset: W::truncate(code), range };
        for slot in zeros..end {
            let others = self.alphabet.others(point.range);
            if !point.in_top(others) {
                point.range = point.range - others;
                continue;
            }
            found(slot, self.alphabet.decode(&mut point));
            if point.offset == W::default() {
                return;
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod laws;

#[cfg(test)]
mod tests;
