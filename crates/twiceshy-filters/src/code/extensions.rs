//! The code for the extensions of an extending filter's block.
//!
//! Lee, McCauley, Singh, Stein, "Telescoping Filter", appendix C.4. An
//! extension is a string of bits; the code orders strings by length, and each
//! length by value:
//!
//! ```text
//! |----------- empty -----------|--- 0 ---|--- 1 ---|00|01|10|11|000...
//!        1 - 2^-a - 2^-b        |<----- length 1 -->|<-length 2->|
//! ```
//!
//! Length `l` has probability `2^-l` among what is not empty, and each of its
//! `2^l` strings an equal part of that: `2^-2l`, where the paper's formula has
//! an exponent of `-2^l` by misprint.
//!
//! # Which a and b
//!
//! The number of queries with a key's quotient and remainder is Poisson with mean `m`
//! (`m = load c 2^-r` after `c` queries per key), and an extension is as long as it takes
//! to differ from all of them: `Pr[length <= l] = exp(-m 2^-l)`. The length of a remainder
//! matters only through `m`, so the best code depends on the budget alone: it is the one
//! whose expected length reaches the budget last. For 56 bits that is `1/16 + 1/32`, as in
//! the authors' program.

use super::arithmetic::{
    Alphabet, Coder, Costs, Interval, Point, SLOTS, Steps, Word, last_to_fill,
};
use alloc::vec::Vec;

use libm::{exp2, expm1, log2};

/// The longest extension, in bits.
pub(crate) const MAX_LENGTH: u8 = 32;

/// Bits that follow a slot's remainder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Extension {
    /// How many bits, up to [`MAX_LENGTH`].
    pub(crate) length: u8,
    /// The bits as a number below `2^length`, the first of them on top.
    pub(crate) bits: u32,
}

/// A code for the extensions of a block.
#[derive(Clone, Debug)]
pub(crate) struct ExtensionCode {
    coder: Coder<Strings>,
}

impl ExtensionCode {
    /// The code for blocks of `budget` bits, whatever the remainder.
    pub(crate) fn for_budget(budget: u32) -> Self {
        ExtensionCode { coder: Coder::new(Strings::best(budget), budget, SLOTS) }
    }

    /// The code of a block; `None` when it does not fit the budget.
    #[must_use]
    pub(crate) fn encode(&self, extensions: &[Extension; SLOTS]) -> Option<u128> {
        self.coder.encode(extensions)
    }

    /// The block of a code.
    pub(crate) fn decode(&self, code: u128) -> [Extension; SLOTS] {
        self.coder.decode(code)
    }

    /// The ideal length of the code of an extension of `length` bits, in bits.
    pub(crate) fn bits(&self, length: u8) -> f64 {
        self.coder.alphabet().bits(Extension { length, bits: 0 })
    }

    /// Whether the first `count` slots have no extension.
    #[inline]
    pub(crate) fn starts_with_zeros(&self, code: u128, count: usize) -> bool {
        self.coder.starts_with_zeros(code, count)
    }

    /// The extension of one slot.
    pub(crate) fn decode_one(&self, code: u128, slot: usize) -> Extension {
        self.coder.decode_one(code, slot)
    }
}

/// The probabilities of extensions.
///
/// An extension is not empty with probability `2^-a + 2^-b`. More terms would let a filter
/// take at most 0.1 % more queries before its blocks are spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Strings {
    a: u32,
    b: u32,
}

impl Strings {
    /// An exponent whose power no range has a part of.
    const NEVER: u32 = 128;

    /// The probabilities whose expected length reaches `budget` last.
    fn best(budget: u32) -> Self {
        let second = |a| (a + 1..=6).chain([Self::NEVER]).map(move |b| Strings { a, b });
        let all = (1..=6).flat_map(second);
        let all: Vec<_> = all.map(|strings| (strings, strings.costs())).collect();
        last_to_fill(budget, &all, Self::steps)
    }

    /// The length of a key's extension after so many collisions on average, the `m` of the
    /// module's documentation.
    fn steps(collisions: f64) -> Steps {
        let longer = |length| -expm1(-collisions * exp2(-f64::from(length)));
        Steps { some: longer(0), mean: (0..MAX_LENGTH).map(longer).sum() }
    }

    fn costs(&self) -> Costs {
        let bits = |length| self.bits(Extension { length, bits: 0 });
        Costs { zero: bits(0), first: bits(1), step: bits(2) - bits(1) }
    }

    /// The probability of an extension that is not empty.
    fn probability(&self) -> f64 {
        exp2(-f64::from(self.a)) + exp2(-f64::from(self.b))
    }

    /// The largest number of `length` bits.
    fn last(length: u32) -> u32 {
        u32::MAX.checked_shr(u32::BITS - length).unwrap_or(0)
    }

    /// Of the part of extensions that are not empty, that of length `length`
    /// (from 1 on) and more.
    fn at_least<W: Word>(others: W, length: u32) -> W {
        if length > u32::from(MAX_LENGTH) { W::default() } else { others.part(length - 1) }
    }
}

impl Alphabet for Strings {
    type SlotState = Extension;

    #[inline(always)]
    fn others<W: Word>(&self, range: W) -> W {
        range.part(self.a) + range.part(self.b)
    }

    fn encode<W: Word>(&self, extension: Extension, interval: &mut Interval<W>) -> Option<()> {
        let length = u32::from(extension.length);
        let last = Self::last(length);
        assert!(
            extension.length <= MAX_LENGTH && extension.bits <= last,
            "{extension:?} has more bits than its length, or than {MAX_LENGTH}"
        );
        let others = self.others(interval.range());
        interval.keep(Self::at_least(others, length), Self::at_least(others, length + 1))?;
        interval.number(extension.bits, last)
    }

    fn decode<W: Word>(&self, point: &mut Point<W>) -> Extension {
        let others = self.others(point.range());
        let mut length = 1;
        while point.in_top(Self::at_least(others, length + 1)) {
            length += 1;
        }
        point.keep(Self::at_least(others, length), Self::at_least(others, length + 1));
        let bits = point.number(Self::last(length));
        Extension { length: length as u8, bits }
    }

    fn bits(&self, extension: Extension) -> f64 {
        let present = self.probability();
        match extension.length {
            0 => -log2(1.0 - present),
            MAX_LENGTH => f64::from(2 * MAX_LENGTH - 1) - log2(present),
            length => f64::from(2 * length) - log2(present),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::arithmetic::laws;
    use super::*;
    use crate::rng::Rng;

    /// The paper's own: 29/32 are empty.
    const PAPER: Strings = Strings { a: 4, b: 5 };

    fn extension(text: &str) -> Extension {
        let bits = if text.is_empty() { 0 } else { u32::from_str_radix(text, 2).expect("bits") };
        Extension { length: text.len() as u8, bits }
    }

    /// Probabilities of a slot's lengths after this many queries per key, for
    /// 8-bit remainders.
    fn lengths(queries_per_key: f64) -> Vec<f64> {
        let collisions = Steps::LOAD * queries_per_key / 256.0;
        let up_to = |length: u8| (-collisions * (-f64::from(length)).exp2()).exp();
        let longer =
            (1..=MAX_LENGTH).map(|length| Steps::LOAD * (up_to(length) - up_to(length - 1)));
        [1.0 - Steps::LOAD + Steps::LOAD * up_to(0)].into_iter().chain(longer).collect()
    }

    fn with_bits(length: usize, rng: &mut Rng) -> Extension {
        let bits = rng.next() as u32 & Strings::last(length as u32);
        Extension { length: length as u8, bits }
    }

    fn draw_block(draw: &laws::Draw, rng: &mut Rng) -> [Extension; SLOTS] {
        core::array::from_fn(|_| with_bits(draw.next(rng), rng))
    }

    #[test]
    fn words_written_by_hand() {
        // The corrected formula, of a range r that divides evenly:
        // r 29/32 + r 3/32 (1/2 + ... + 2^-(l - 1)) + r 3/32 2^-2l x.
        let coder = Coder::new(PAPER, 32, 2);
        let (empty, others) = (29u128 << 27, 3u128 << 27);
        for (text, expected) in [
            ("0", empty),
            ("1", empty + others / 4),
            ("00", empty + others / 2),
            ("11", empty + others / 2 + 3 * others / 16),
            ("101", empty + others / 2 + others / 4 + 5 * others / 64),
        ] {
            let block = [extension(text), extension("")];
            assert_eq!(coder.encode(&block), Some(expected), "{text}");
            assert_eq!(coder.decode(expected), block);
            let [before, _]: [_; 2] = coder.decode(expected - 1);
            assert_ne!(before, block[0]);
        }
        // A second slot divides what "101" leaves: 3 * 2^21 words.
        let block = [extension("101"), extension("01")];
        let third = (3u128 << 21) * 3 / 32;
        let before = empty + others * 3 / 4 + 5 * others / 64 + (3u128 << 21) * 29 / 32;
        assert_eq!(coder.encode(&block), Some(before + third / 2 + third / 16));
    }

    #[test]
    fn every_word_and_block_of_small_codes() {
        let texts = ["", "0", "1", "00", "10", "11", "010", "1111"];
        let states = texts.map(extension);
        for strings in [PAPER, Strings { a: 1, b: 2 }, Strings { a: 3, b: Strings::NEVER }] {
            for (budget, slots) in [(8, 1), (8, 4), (13, 3), (16, 2)] {
                laws::all_words_and_blocks(&Coder::new(strings, budget, slots), &states);
            }
        }
    }

    #[test]
    fn random_words_of_every_budget() {
        for strings in [PAPER, Strings { a: 2, b: 5 }] {
            for coder in laws::every_budget(strings) {
                laws::random_words_decode(&coder, coder.budget().into());
            }
        }
    }

    #[test]
    fn long_extensions_come_back() {
        let code = ExtensionCode::for_budget(128);
        let mut rng = Rng::new(6);
        for length in 0..=MAX_LENGTH {
            for slot in 0..SLOTS {
                let mut block = [Extension::default(); SLOTS];
                block[slot] = with_bits(length.into(), &mut rng);
                let word = code.encode(&block).expect("room for one of any length");
                assert_eq!(code.decode(word), block);
                assert_eq!(code.decode_one(word, slot), block[slot]);
            }
        }
    }

    #[test]
    #[should_panic(expected = "more bits than its length")]
    fn more_bits_than_the_length_are_refused() {
        let mut block = [Extension::default(); SLOTS];
        block[3] = Extension { length: 2, bits: 4 };
        let _ = ExtensionCode::for_budget(56).encode(&block);
    }

    #[test]
    fn blocks_come_back_or_are_within_two_bits_of_the_budget() {
        let mut rng = Rng::new(7);
        let mut draws: Vec<_> =
            [5.0, 10.0, 20.0].map(|c| laws::Draw::new(lengths(c))).into_iter().collect();
        let weights: [&[f64]; 3] = [&[0.0, 1.0], &[0.8, 0.1, 0.1], &[0.95, 0.0, 0.0, 0.0, 0.05]];
        draws.extend(weights.map(|weights| laws::Draw::new(weights.iter().copied())));
        let evenly = (0..=MAX_LENGTH).map(|_| 1.0 / f64::from(MAX_LENGTH + 1));
        draws.push(laws::Draw::new(evenly));
        for draw in &draws {
            for round in 0..1000 {
                let mut block = draw_block(draw, &mut rng);
                let (from, to) = (rng.below(65) as usize, rng.below(65) as usize);
                if round % 2 == 0 {
                    block[..from].fill(Extension::default());
                    block[to..].fill(Extension::default());
                }
                laws::comes_back_near_its_length(PAPER, &block);
                laws::comes_back(&Coder::new(PAPER, 56, SLOTS), &block);
                laws::comes_back(&Coder::new(Strings::best(128), 128, SLOTS), &block);
            }
        }
    }

    /// 2,000 blocks from the probabilities that the code assumes. A block's
    /// ideal length has a standard deviation below 20 bits, so the mean is
    /// within 2.3 bits of the entropy but for an error probability below 1e-6.
    #[test]
    fn lengths_are_near_the_entropy() {
        for strings in [PAPER, Strings { a: 5, b: Strings::NEVER }] {
            let of_length = |length: u8| {
                let bits = strings.bits(Extension { length, bits: 0 });
                (bits, (f64::from(length) - bits).exp2())
            };
            let slot: f64 = (0..=MAX_LENGTH).map(of_length).map(|(bits, p)| bits * p).sum();
            let entropy = slot * SLOTS as f64;
            let draw = laws::Draw::new((0..=MAX_LENGTH).map(|length| of_length(length).1));
            let coders = laws::every_budget(strings);
            let mut rng = Rng::new(8);
            let mut sum = 0.0;
            for _ in 0..2000 {
                let block = draw_block(&draw, &mut rng);
                let length = laws::length(&coders, &block);
                assert!(length < coders[0].bits(&block).max(6.0) + 3.0, "{block:?}");
                sum += length;
            }
            let difference = sum / 2000.0 - entropy;
            assert!(difference.abs() < 0.02 * entropy + 2.0 + 2.3, "{difference} off {entropy}");
        }
    }

    #[test]
    fn chosen_exponents_fill_the_budget_last() {
        assert_eq!(Strings::best(56), PAPER);
        // By a program of its own: 3/64, 1/16, 1/8, 3/16, 1/4, 17/64.
        for (budget, expected) in
            [(32, 3.0), (40, 4.0), (64, 8.0), (96, 12.0), (120, 16.0), (128, 17.0)]
        {
            let found = Strings::best(budget).probability();
            assert_eq!(found * 64.0, expected, "{budget} bits");
        }
        for collisions in [0.02, 0.1, 0.5] {
            let lengths = lengths(collisions * 256.0 / Steps::LOAD);
            let bits = |length| PAPER.bits(Extension { length, bits: 0 });
            let summed: f64 = (0..).zip(&lengths).map(|(length, p)| p * bits(length)).sum();
            assert!(
                (summed - Strings::steps(collisions).expected_bits(&PAPER.costs())).abs() < 1e-6,
                "{collisions}"
            );
        }
    }

    /// Shares of blocks that need more than 56 bits, against the table of
    /// expected values (`exaf_ovf`).
    ///
    /// Slots are independent, with the exact distribution at load 0.95; 300,000
    /// blocks. Bounds are 5.5 standard deviations wide, so all six fail with a
    /// probability below 1e-6. The table's values are met between limits of 55.5
    /// and 56.5 bits: lengths come in steps of two bits, so one composition of a
    /// block, at 56.01 bits, has 0.8 % of the probability at 20 queries a key.
    #[test]
    fn overflow_at_56_bits_is_that_of_the_table() {
        let code = ExtensionCode::for_budget(56);
        let bits: Vec<_> =
            (0..=MAX_LENGTH).map(|length| PAPER.bits(Extension { length, bits: 0 })).collect();
        for (queries, expected) in [(5.0, 0.000_852_43), (10.0, 0.013_891), (20.0, 0.164_86f64)] {
            let blocks = 300_000;
            let fits = |block: &[usize; SLOTS], rng: &mut Rng| {
                code.encode(&block.map(|length| with_bits(length, rng))).is_some()
            };
            let ([most, least], refused) =
                laws::shares_above(blocks, &lengths(queries), &bits, [55.5, 56.5], fits);
            let error = 5.5 * (expected / f64::from(blocks)).sqrt();
            assert!(
                least - error <= expected && expected <= most + error,
                "{queries}: {least} {most}"
            );
            assert!(refused <= expected + error, "{queries}: {refused} refused");
        }
    }
}
