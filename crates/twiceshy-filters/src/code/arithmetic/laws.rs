//! What every alphabet's tests check.

use super::*;
use crate::rng::Rng;
use core::fmt::Debug;
use core::hash::Hash;
use std::collections::HashSet;

fn block<A: Alphabet>(coder: &Coder<A>, code: u128) -> Vec<A::SlotState> {
    let mut states = vec![A::SlotState::default(); coder.slots];
    coder.visit(code, coder.slots, |slot, state| states[slot] = state);
    states
}

/// Decoding as the paper describes it: slot by slot, all in `u128`, with no
/// table and no early end.
fn slow_block<A: Alphabet>(coder: &Coder<A>, code: u128) -> Vec<A::SlotState> {
    let range = 1u128.checked_shl(coder.budget).unwrap_or(u128::MAX);
    let mut point = Point { offset: code.min(range - 1), range };
    let mut decode = |_| {
        let others = coder.alphabet.others(point.range);
        if point.in_top(others) {
            return coder.alphabet.decode(&mut point);
        }
        point.keep(point.range, others);
        A::SlotState::default()
    };
    (0..coder.slots).map(&mut decode).collect()
}

/// Any word decodes, and what it decodes to has a code, which is no larger
/// and decodes to the same.
pub(crate) fn word_decodes<A: Alphabet<SlotState: Debug>>(coder: &Coder<A>, word: u128) {
    let states = block(coder, word);
    assert_eq!(states, slow_block(coder, word), "{word:x} in {} bits", coder.budget);
    let code = coder.encode(&states).expect("what a word decodes to has a code");
    assert!(code <= word, "{code:x} of {word:x} in {} bits", coder.budget);
    assert_eq!(block(coder, code), states, "{code:x} of {word:x}");
    let slot = (word % coder.slots as u128) as usize;
    assert_eq!(coder.decode_one(word, slot), states[slot], "slot {slot} of {word:x}");
    let zeros = states.iter().take_while(|&&state| state == A::SlotState::default()).count();
    for count in 0..=coder.slots {
        let starts = count <= zeros;
        assert_eq!(coder.starts_with_zeros(word, count), starts, "{count} of {word:x}");
        let from = coder.zeros().map(|from| from[count].into());
        assert!(from.is_none_or(|from: u128| (word < from) == starts), "{count} of {word:x}");
    }
}

/// Random words of the budget, with few bits, many bits and near the ends.
pub(crate) fn random_words_decode<A: Alphabet<SlotState: Debug>>(coder: &Coder<A>, seed: u64) {
    let all = u128::MAX >> (128 - coder.budget);
    let mut rng = Rng::new(seed);
    for round in 0..100 {
        let word = u128::from(rng.next()) << 64 | u128::from(rng.next());
        let fewer = word & (u128::from(rng.next()) << 64 | u128::from(rng.next()));
        let shift = round % coder.budget;
        for word in [word, fewer, !fewer, word >> (128 - coder.budget) >> shift] {
            word_decodes(coder, word & all);
        }
    }
    word_decodes(coder, 0);
    word_decodes(coder, all);
}

/// A block that has a code comes back from it.
pub(crate) fn comes_back<A: Alphabet<SlotState: Debug>>(coder: &Coder<A>, states: &[A::SlotState]) {
    if let Some(code) = coder.encode(states) {
        assert_eq!(block(coder, code), states, "{code:x} in {} bits", coder.budget);
        let untouched = states.iter().all(|&state| state == A::SlotState::default());
        assert_eq!(code == 0, untouched, "{states:?}");
    } else {
        let ideal = coder.bits(states);
        assert!(ideal + 2.0 > coder.budget.into(), "{states:?} has {ideal} ideal bits");
    }
}

/// The same at the budgets where that block is about to fit.
pub(crate) fn comes_back_near_its_length<A>(alphabet: A, states: &[A::SlotState])
where
    A: Alphabet<SlotState: Debug> + Clone,
{
    let ideal = states.iter().map(|&state| alphabet.bits(state)).sum::<f64>().ceil() as u32;
    for budget in (ideal.saturating_sub(2)..=ideal + 2).filter(|b| BUDGETS.contains(b)) {
        comes_back(&Coder::new(alphabet.clone(), budget, SLOTS), states);
    }
}

/// Takes every word of a small code, and every block of some states: the
/// words of a block follow each other, its code is the first, and blocks
/// without a code have no word either.
pub(crate) fn all_words_and_blocks<A>(coder: &Coder<A>, states: &[A::SlotState])
where
    A: Alphabet<SlotState: Debug + Eq + Hash>,
{
    let mut known = HashSet::new();
    let mut first = 0;
    for word in 0..1 << coder.budget {
        word_decodes(coder, word);
        let states = block(coder, word);
        first = if known.contains(&states) { first } else { word };
        assert_eq!(coder.encode(&states), Some(first), "{states:?} at {word:x}");
        known.insert(states);
    }
    for index in 0..states.len().pow(coder.slots as u32) {
        let digit = |slot| states[index / states.len().pow(slot) % states.len()];
        let block: Vec<_> = (0..coder.slots as u32).map(digit).collect();
        assert_eq!(coder.encode(&block).is_some(), known.contains(&block), "{block:?}");
        comes_back(coder, &block);
    }
}

/// The smallest budget at which a block has a code. `coders` are all that
/// there are, from the smallest budget up.
pub(crate) fn length<A: Alphabet>(coders: &[Coder<A>], states: &[A::SlotState]) -> f64 {
    let coder = coders.iter().find(|coder| coder.encode(states).is_some());
    coder.expect("a block of at most 126 bits").budget.into()
}

/// A code for each budget.
pub(crate) fn every_budget<A: Alphabet + Clone>(alphabet: A) -> Vec<Coder<A>> {
    BUDGETS.map(|budget| Coder::new(alphabet.clone(), budget, SLOTS)).collect()
}

/// Draws numbers with given probabilities; the last has what is left.
pub(crate) struct Draw {
    up_to: Vec<u64>,
}

impl Draw {
    pub(crate) fn new(probabilities: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let up_to = probabilities.into_iter().map(|probability| {
            sum += probability;
            (sum * 2f64.powi(64)) as u64
        });
        Draw { up_to: up_to.collect() }
    }

    pub(crate) fn next(&self, rng: &mut Rng) -> usize {
        let word = rng.next();
        let found = self.up_to.iter().position(|&up_to| word < up_to);
        found.unwrap_or(self.up_to.len() - 1)
    }
}

/// Shares of `blocks` random blocks of independent slots with
/// probabilities `slot`: those whose ideal length (by `bits`) exceeds each
/// of `limits`, and last those for which `fits` says no.
pub(crate) fn shares_above<const N: usize>(
    blocks: u32,
    slot: &[f64],
    bits: &[f64],
    limits: [f64; N],
    mut fits: impl FnMut(&[usize; SLOTS], &mut Rng) -> bool,
) -> ([f64; N], f64) {
    let draw = Draw::new(slot.iter().copied());
    let mut rng = Rng::new(20);
    let (mut above, mut refused) = ([0u32; N], 0u32);
    for _ in 0..blocks {
        let block: [usize; SLOTS] = core::array::from_fn(|_| draw.next(&mut rng));
        let length: f64 = block.iter().map(|&state| bits[state]).sum();
        (0..N).for_each(|i| above[i] += u32::from(length > limits[i]));
        // A shorter block always fits: the law of two bits.
        let short = length + 2.0 <= 56.0;
        refused += u32::from(!short && !fits(&block, &mut rng));
    }
    let share = |count| f64::from(count) / f64::from(blocks);
    (above.map(share), share(refused))
}
