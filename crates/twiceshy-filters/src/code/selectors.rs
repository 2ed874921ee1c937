//! Codes for the selectors of a telescoping filter's block.
//!
//! Lee, McCauley, Singh, Stein, "Telescoping Filter", appendix C.2 (the tuned
//! code) and C.3 (the general one). A selector counts how often its slot's key
//! was taken for another, so most are 0 and each value is rarer than the one
//! before:
//!
//! ```text
//! tuned      0: 25/32   1: 101/512   2: 5/256   3: 3/2048   4, 5: small
//!            6 and more: the 2^-11.26 that the paper leaves over
//! general    at least k: 2^-(x + (k - 1) y)
//! ```
//!
//! # Which x and y
//!
//! Let a filter of load `a` have met `c` distinct queries per key. A quotient
//! then got `z ~ Poisson(a c)` of them, and a key's selector passes each value
//! unless all `z` differ from it in that remainder. With `e = 2^-r`,
//!
//! ```text
//! Pr[v >= k] = E[(1 - (1 - e)^z)^k]
//! Pr[v >= 1] = 1 - exp(-m)                where m = a c e
//! E[v]       = E[(1 - e)^-z] - 1 = exp(m / (1 - e)) - 1
//! ```
//!
//! (the values of the paper's Lemma 2 and Corollary 3 differ, and bound nothing).
//! The general code spends `x + y (v - 1)` bits and a constant on a selector, so
//! these two moments give its expected length, without a sum. It grows with
//! `m`; [`SelectorCode::general`] takes the pair of `x` and `y` that
//! reaches the budget last.

use super::arithmetic::{
    Alphabet, Coder, Costs, Interval, Point, SLOTS, Steps, Word, last_to_fill,
};
use alloc::vec::Vec;

use libm::{exp2, expm1, log2};

/// A code for the selectors of a block.
#[derive(Clone, Debug)]
pub(crate) enum SelectorCode {
    /// Appendix C.2.
    Tuned(Coder<Tuned>),
    /// Appendix C.3.
    General(Coder<General>),
}

impl SelectorCode {
    /// The code of appendix C.2.
    pub(crate) fn tuned(budget: u32) -> Self {
        SelectorCode::Tuned(Coder::new(Tuned, budget, SLOTS))
    }

    /// The code of appendix C.3, with the parameters that are best for
    /// remainders of `remainder` bits.
    pub(crate) fn general(remainder: u32, budget: u32) -> Self {
        SelectorCode::General(Coder::new(General::best(remainder, budget), budget, SLOTS))
    }

    /// The code of a block; `None` when it does not fit the budget.
    #[must_use]
    pub(crate) fn encode(&self, selectors: &[u16; SLOTS]) -> Option<u128> {
        match self {
            SelectorCode::Tuned(coder) => coder.encode(selectors),
            SelectorCode::General(coder) => coder.encode(selectors),
        }
    }

    /// The block of a code.
    pub(crate) fn decode(&self, code: u128) -> [u16; SLOTS] {
        match self {
            SelectorCode::Tuned(coder) => coder.decode(code),
            SelectorCode::General(coder) => coder.decode(code),
        }
    }

    /// The ideal length of a selector's code, in bits.
    pub(crate) fn bits(&self, selector: u16) -> f64 {
        match self {
            SelectorCode::Tuned(coder) => coder.alphabet().bits(selector),
            SelectorCode::General(coder) => coder.alphabet().bits(selector),
        }
    }

    /// [`Coder::zeros`].
    pub(crate) fn zeros(&self) -> Option<[u64; SLOTS + 1]> {
        match self {
            SelectorCode::Tuned(coder) => coder.zeros(),
            SelectorCode::General(coder) => coder.zeros(),
        }
    }

    /// Whether the first `count` slots have selector 0.
    #[inline]
    pub(crate) fn starts_with_zeros(&self, code: u128, count: usize) -> bool {
        match self {
            SelectorCode::Tuned(coder) => coder.starts_with_zeros(code, count),
            SelectorCode::General(coder) => coder.starts_with_zeros(code, count),
        }
    }

    /// The selector of one slot.
    pub(crate) fn decode_one(&self, code: u128, slot: usize) -> u16 {
        match self {
            SelectorCode::Tuned(coder) => coder.decode_one(code, slot),
            SelectorCode::General(coder) => coder.decode_one(code, slot),
        }
    }
}

/// The probabilities of appendix C.2, made for 8-bit remainders and 56 bits.
///
/// The paper has no code for selectors from 6 on, and tells nobody: it reports
/// success without a word written. Here they have the rest of the range, as
/// [`Escape`] divides it.
#[derive(Clone, Debug)]
pub(crate) struct Tuned;

impl Tuned {
    /// The first selector without a probability of its own.
    const ESCAPE: u16 = 6;

    /// The probabilities of the selectors below it, as powers of one half.
    const PROBABILITIES: [&[u32]; Self::ESCAPE as usize] =
        [&[1, 2, 5], &[3, 4, 7, 9], &[6, 8], &[10, 11], &[14, 16], &[19, 20, 23]];

    /// The smallest power of one half among them.
    const SCALE: u32 = 23;

    /// The probability of "at least", in units of `2^-SCALE`.
    const AT_LEAST: [u32; Self::ESCAPE as usize + 1] = {
        let mut at_least = [1 << Self::SCALE; Self::ESCAPE as usize + 1];
        let mut selector = 0;
        while selector < Self::PROBABILITIES.len() {
            at_least[selector + 1] = at_least[selector];
            let mut term = 0;
            while term < Self::PROBABILITIES[selector].len() {
                at_least[selector + 1] -= 1 << (Self::SCALE - Self::PROBABILITIES[selector][term]);
                term += 1;
            }
            selector += 1;
        }
        at_least
    };

    /// The top part of `range` for selectors from `selector` (1 to 6) on.
    #[inline(always)]
    fn at_least<W: Word>(range: W, selector: u16) -> W {
        let mut units = Self::AT_LEAST[usize::from(selector)];
        let mut part = W::default();
        while units != 0 {
            part = part + range.part(Self::SCALE - units.trailing_zeros());
            units &= units - 1;
        }
        part
    }
}

impl Alphabet for Tuned {
    type Symbol = u16;

    #[inline(always)]
    fn others<W: Word>(&self, range: W) -> W {
        Self::at_least(range, 1)
    }

    fn encode<W: Word>(&self, selector: u16, interval: &mut Interval<W>) -> Option<()> {
        let range = interval.range();
        if selector < Self::ESCAPE {
            return interval
                .keep(Self::at_least(range, selector), Self::at_least(range, selector + 1));
        }
        interval.keep(Self::at_least(range, Self::ESCAPE), W::default())?;
        Escape::encode(selector - Self::ESCAPE, interval)
    }

    fn decode<W: Word>(&self, point: &mut Point<W>) -> u16 {
        let range = point.range();
        let mut at_least = Self::at_least(range, 1);
        for selector in 1..Self::ESCAPE {
            let more = Self::at_least(range, selector + 1);
            if !point.in_top(more) {
                point.keep(at_least, more);
                return selector;
            }
            at_least = more;
        }
        point.keep(at_least, W::default());
        Self::ESCAPE + Escape::decode(point)
    }

    fn bits(&self, selector: u16) -> f64 {
        let at_least = |row: u16| f64::from(Self::AT_LEAST[usize::from(row)]);
        let (units, escape) = if selector < Self::ESCAPE {
            (at_least(selector) - at_least(selector + 1), 0)
        } else {
            (at_least(Self::ESCAPE), Escape::bits(selector - Self::ESCAPE))
        };
        f64::from(Self::SCALE) - log2(units) + f64::from(escape)
    }
}

/// Numbers that are mostly small, up to that of the largest selector.
///
/// Class `j` of 0 to 4 has numbers of `2^j` bits and half the probability of
/// the class before, so the largest costs 20 bits: an otherwise untouched
/// block of 56 bits has room for any selector in any slot.
struct Escape;

impl Escape {
    const LAST_CLASS: u32 = 4;
    const LAST: u32 = (u16::MAX - Tuned::ESCAPE) as u32;

    /// How many numbers a class has.
    fn size(class: u32) -> u32 {
        1 << (1 << class)
    }

    /// The last number of a class, counted from its first.
    fn last(class: u32, first: u32) -> u32 {
        (Self::size(class) - 1).min(Self::LAST - first)
    }

    /// Walks the classes while `further` says so; the class where it stops,
    /// and the first number of that class.
    fn class(mut further: impl FnMut(u32, u32) -> Option<bool>) -> Option<(u32, u32)> {
        let (mut class, mut first) = (0, 0);
        while class < Self::LAST_CLASS && further(class, first)? {
            first += Self::size(class);
            class += 1;
        }
        Some((class, first))
    }

    fn encode<W: Word>(number: u16, interval: &mut Interval<W>) -> Option<()> {
        let number = u32::from(number);
        let (class, first) = Self::class(|class, first| {
            let further = number - first >= Self::size(class);
            interval.bit(further, 1).map(|()| further)
        })?;
        interval.number(number - first, Self::last(class, first))
    }

    fn decode<W: Word>(point: &mut Point<W>) -> u16 {
        let (class, first) = Self::class(|_, _| Some(point.bit(1))).expect("decoding never fails");
        let number = first + point.number(Self::last(class, first));
        u16::try_from(number).expect("numbers end with the largest selector's")
    }

    /// The length of a number's code; a trifle less where the last class is cut
    /// off.
    fn bits(number: u16) -> u32 {
        let number = u32::from(number);
        let further = |class, first| Some(number - first >= Self::size(class));
        let (class, _) = Self::class(further).expect("nothing fails here");
        (class + 1).min(Self::LAST_CLASS) + (1 << class)
    }
}

/// The probabilities of appendix C.3, for any remainder and budget.
///
/// The paper rounds each part down, by a product with `(2^n - 1)/2^n`. As
/// "at least" parts the same probabilities are single shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct General {
    /// A selector is not 0 with probability `2^-x`.
    pub(crate) x: u32,
    /// A selector that passed a value (but 0) passes the next with probability
    /// `2^-y`.
    pub(crate) y: u32,
}

impl General {
    /// The `x` and `y` whose expected length reaches `budget` last.
    pub(crate) fn best(remainder: u32, budget: u32) -> Self {
        assert!((1..=64).contains(&remainder), "remainders have 1 to 64 bits, not {remainder}");
        let all = (1..=8).flat_map(|x| (1..=8).map(move |y| General { x, y }));
        let all: Vec<_> = all.map(|general| (general, general.costs())).collect();
        last_to_fill(budget, &all, |collisions| Self::steps(remainder, collisions))
    }

    /// What the selector of a key is after so many collisions on average, the
    /// `m` of the module's documentation.
    fn steps(remainder: u32, collisions: f64) -> Steps {
        let epsilon = exp2(-f64::from(remainder));
        Steps { some: -expm1(-collisions), mean: expm1(collisions / (1.0 - epsilon)) }
    }

    fn costs(&self) -> Costs {
        Costs { zero: self.bits(0), first: self.bits(1), step: f64::from(self.y) }
    }

    /// The shift that gives the part of "at least `selector`", from 1 on.
    #[inline(always)]
    fn shift(&self, selector: u32) -> u32 {
        self.x + (selector - 1) * self.y
    }
}

impl Alphabet for General {
    type Symbol = u16;

    #[inline(always)]
    fn others<W: Word>(&self, range: W) -> W {
        range.part(self.x)
    }

    fn encode<W: Word>(&self, selector: u16, interval: &mut Interval<W>) -> Option<()> {
        let shift = self.shift(u32::from(selector));
        let range = interval.range();
        interval.keep(range.part(shift), range.part(shift + self.y))
    }

    fn decode<W: Word>(&self, point: &mut Point<W>) -> u16 {
        let range = point.range();
        let mut selector = 1;
        while point.in_top(range.part(self.shift(selector + 1))) {
            selector += 1;
        }
        point.keep(range.part(self.shift(selector)), range.part(self.shift(selector + 1)));
        u16::try_from(selector).expect("a word has fewer bits than u16 has values")
    }

    fn bits(&self, selector: u16) -> f64 {
        let all_but = |exponent: u32| -log2(1.0 - exp2(-f64::from(exponent)));
        match selector {
            0 => all_but(self.x),
            _ => f64::from(self.shift(selector.into())) + all_but(self.y),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::super::arithmetic::laws;
    use super::*;
    use crate::rng::Rng;

    /// `Pr[v >= k]` for keys, for all `k` that matter, by the sum over Poisson
    /// probabilities.
    fn at_least(remainder: u32, queries_per_key: f64) -> Vec<f64> {
        let mean = Steps::LOAD * queries_per_key;
        let unequal = 1.0 - (-f64::from(remainder)).exp2();
        let mut at_least = vec![0.0; 200];
        let (mut probability, mut equal) = ((-mean).exp(), 1f64);
        for queries in 1..2000 {
            (0..200).for_each(|k| at_least[k] += probability * (1.0 - equal).powi(k as i32));
            probability *= mean / f64::from(queries);
            equal *= unequal;
        }
        at_least
    }

    /// Probabilities of a slot's selectors: of its key's, at this load.
    fn slot(remainder: u32, queries_per_key: f64) -> Vec<f64> {
        let at_least = at_least(remainder, queries_per_key);
        let mut slot: Vec<f64> =
            at_least.windows(2).map(|two| Steps::LOAD * (two[0] - two[1])).collect();
        slot[0] += 1.0 - Steps::LOAD;
        slot
    }

    fn draw_block(draw: &laws::Draw, rng: &mut Rng) -> [u16; SLOTS] {
        core::array::from_fn(|_| draw.next(rng) as u16)
    }

    /// The probabilities a code assumes, for the selectors up to 40.
    fn assumed(alphabet: &impl Alphabet<Symbol = u16>) -> Vec<f64> {
        (0..40).map(|selector| (-alphabet.bits(selector)).exp2()).collect()
    }

    #[test]
    fn tuned_probabilities_are_the_papers() {
        let units = |numerator: u32, shift: u32| numerator << (Tuned::SCALE - shift);
        let expected =
            [1 << 23, units(7, 5), units(11, 9), units(1, 9), units(1, 11), units(27, 16), 3431];
        assert_eq!(Tuned::AT_LEAST, expected);
        assert!((Tuned.bits(0).exp2().recip() - 0.78125).abs() < 1e-12);
        assert!((Tuned.bits(3).exp2().recip() - 0.001_464_843_75).abs() < 1e-12);
        // Even a block that never adapted has an ideal length of 22.8 bits.
        let empty = Coder::new(Tuned, 56, SLOTS).bits(&[0; SLOTS]);
        assert!((22.7..22.9).contains(&empty), "{empty}");
    }

    #[test]
    fn words_written_by_hand() {
        // A 1 leaves 101/512 from 25/32 on; of that a 0 leaves 25/32, and a 2
        // begins 501/512 on.
        let tuned = Coder::new(Tuned, 32, 3);
        let (ones, zeros) = (101u128 << 23, (25 * 101u128) << 18);
        let code = (25u128 << 27) + 501 * (zeros >> 9);
        assert_eq!(ones - 7 * (ones >> 5), zeros);
        assert_eq!(tuned.encode(&[1, 0, 2]), Some(code));
        assert_eq!(tuned.decode(code), [1, 0, 2]);
        assert_eq!(tuned.decode(code - 1), [1, 0, 1]);
        let [largest, ..]: [u16; 3] = tuned.decode((1 << 32) - 1);
        assert_eq!(largest, u16::MAX);
        // From 6 on: 3431/2^23, of which half are 6 and 7.
        let (first, rest) = ((1u128 << 32) - (3431 << 9), 3431u128 << 9);
        for (selector, before) in [(6, 0), (7, rest / 4), (8, rest / 2), (9, rest / 2 + rest / 16)]
        {
            assert_eq!(tuned.encode(&[selector, 0, 0]), Some(first + before), "{selector}");
        }

        // x = 2, y = 3: at least 1, 2, 3 are 1/4, 1/32, 1/256.
        let general = Coder::new(General { x: 2, y: 3 }, 16, 2);
        let code = (1 << 16) - (1 << 11) + ((3 * ((1 << 11) - (1 << 8))) >> 2);
        assert_eq!(general.encode(&[2, 1]), Some(code));
        assert_eq!(general.decode(code), [2, 1]);
    }

    #[test]
    fn every_word_and_block_of_small_codes() {
        let selectors = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 400];
        for budget in [8, 13, 16] {
            for slots in [1, 3] {
                laws::all_words_and_blocks(&Coder::new(Tuned, budget, slots), &selectors);
            }
        }
        for (x, y) in [(1, 1), (2, 2), (3, 2), (4, 3), (1, 4), (8, 8)] {
            for budget in [8, 13] {
                let coder = Coder::new(General { x, y }, budget, 4);
                laws::all_words_and_blocks(&coder, &[0, 1, 2, 3, 5, 6, 9, 400]);
            }
        }
    }

    #[test]
    fn random_words_of_every_budget() {
        for coder in laws::every_budget(Tuned) {
            laws::random_words_decode(&coder, coder.budget().into());
        }
        for (x, y) in [(1, 1), (2, 2), (3, 3), (8, 8)] {
            for coder in laws::every_budget(General { x, y }) {
                laws::random_words_decode(&coder, coder.budget().into());
            }
        }
    }

    #[test]
    fn an_untouched_block_takes_any_selector_anywhere() {
        let code = SelectorCode::tuned(56);
        for selector in 1..=u16::MAX {
            for slot in [0, usize::from(selector) % SLOTS, SLOTS - 1] {
                let mut selectors = [0; SLOTS];
                selectors[slot] = selector;
                let word = code.encode(&selectors).expect("room for one");
                assert_eq!(code.decode_one(word, slot), selector);
                assert_eq!(code.decode(word), selectors);
            }
        }
    }

    /// Blocks as filters have them, and blocks as they never should be.
    #[test]
    fn blocks_come_back_or_are_within_two_bits_of_the_budget() {
        let mut rng = Rng::new(4);
        let mut draws: Vec<_> =
            [5.0, 10.0, 20.0, 60.0].map(|c| laws::Draw::new(slot(8, c))).into_iter().collect();
        let weights: [&[f64]; 5] = [
            &[0.0, 1.0],
            &[0.5, 0.5],
            &[0.9, 0.0, 0.0, 0.0, 0.0, 0.1],
            &[0.97, 0.0, 0.0, 0.0, 0.0, 0.0, 0.01, 0.01, 0.01],
            &[0.7, 0.1, 0.1, 0.05, 0.02, 0.01, 0.01, 0.01],
        ];
        draws.extend(weights.map(|weights| laws::Draw::new(weights.iter().copied())));
        let general = [(1, 1), (2, 2), (3, 3), (2, 4)].map(|(x, y)| General { x, y });
        for draw in &draws {
            for round in 0..1000 {
                let mut block = draw_block(draw, &mut rng);
                // Zeros before and behind, so that heavy blocks come close to
                // the budget from both sides.
                let (from, to) = (rng.below(65) as usize, rng.below(65) as usize);
                if round % 2 == 0 {
                    block[..from].fill(0);
                    block[to..].fill(0);
                }
                if round % 100 == 0 {
                    block[rng.below(64) as usize] = rng.next() as u16;
                }
                laws::comes_back_near_its_length(Tuned, &block);
                laws::comes_back_near_its_length(general[round % general.len()], &block);
                laws::comes_back(&Coder::new(Tuned, 56, SLOTS), &block);
            }
        }
    }

    /// 2,000 blocks from the probabilities that the code assumes. A block's
    /// ideal length has a standard deviation below 13 bits, so the mean is
    /// within 1.5 bits of the entropy but for an error probability below 1e-6.
    #[test]
    fn lengths_are_near_the_entropy() {
        fn check<A: Alphabet<Symbol = u16> + Clone>(alphabet: A) {
            let probabilities = assumed(&alphabet);
            let surprise = |(selector, p): (usize, &f64)| p * alphabet.bits(selector as u16);
            let slot: f64 = probabilities.iter().enumerate().map(surprise).sum();
            let entropy = slot * SLOTS as f64;
            let draw = laws::Draw::new(probabilities);
            let coders = laws::every_budget(alphabet);
            let mut rng = Rng::new(5);
            let mut sum = 0.0;
            for _ in 0..2000 {
                let block = draw_block(&draw, &mut rng);
                let length = laws::length(&coders, &block);
                assert!(length < coders[0].bits(&block).max(6.0) + 3.0, "{block:?}");
                sum += length;
            }
            let difference = sum / 2000.0 - entropy;
            assert!(difference.abs() < 0.02 * entropy + 2.0 + 1.5, "{difference} off {entropy}");
        }
        check(Tuned);
        check(General { x: 2, y: 2 });
        check(General { x: 3, y: 3 });
        check(General { x: 4, y: 3 });
    }

    #[test]
    fn expected_bits_agree_with_the_sum_over_the_distribution() {
        // The checklist's values at 20 queries a key.
        let at_20 = at_least(8, 20.0);
        for (k, expected) in [0.9285, 0.0662, 0.0049].into_iter().enumerate() {
            assert!((at_20[k] - at_20[k + 1] - expected).abs() < 5e-5, "{k}");
        }
        for (remainder, queries) in [(4, 3.0), (8, 20.0), (8, 60.0), (10, 200.0)] {
            let slot = slot(remainder, queries);
            for (x, y) in [(1, 1), (2, 2), (3, 5), (8, 1)] {
                let general = General { x, y };
                let summed: f64 =
                    (0u16..).zip(&slot).map(|(selector, p)| p * general.bits(selector)).sum();
                let collisions = Steps::LOAD * queries * (-f64::from(remainder)).exp2();
                let closed = General::steps(remainder, collisions).expected_bits(&general.costs());
                assert!((summed - closed).abs() < 1e-9, "{remainder} {queries}: {summed} {closed}");
            }
        }
    }

    #[test]
    fn chosen_exponents_fill_the_budget_last() {
        // By a program of its own, with the same distribution.
        for (remainder, budget, expected) in [
            (4, 32, (4, 3)),
            (4, 56, (3, 2)),
            (6, 96, (2, 1)),
            (8, 32, (3, 3)),
            (8, 64, (2, 2)),
            (8, 120, (1, 1)),
            (9, 56, (2, 2)),
            (12, 40, (3, 3)),
        ] {
            let General { x, y } = General::best(remainder, budget);
            assert_eq!((x, y), expected, "{remainder} {budget}");
        }
    }

    /// Shares of blocks that need more than 56 bits, against the table of
    /// expected values (`taf_ovf`).
    ///
    /// Slots are independent, with the exact distribution at load 0.95; 300,000
    /// blocks. Bounds are 5.5 standard deviations wide, so all eight fail with a
    /// probability below 1e-6. The table rounds lengths in a way of its own, and
    /// single compositions of a block have up to 1 % of the probability: its
    /// values are met between limits of 55.5 and 56.5 bits. The coder refuses
    /// fewer blocks, as zeros behind the last other selector are free.
    #[test]
    fn overflow_at_56_bits_is_that_of_the_table() {
        let code = SelectorCode::tuned(56);
        let bits: Vec<_> = (0..200).map(|selector| Tuned.bits(selector)).collect();
        for (queries, expected) in
            [(20.0, 0.000_372_68), (30.0, 0.012_182), (40.0, 0.087_494), (50.0, 0.274_78f64)]
        {
            let slot = slot(8, queries);
            let blocks = 300_000;
            let fits = |block: &[usize; SLOTS], _: &mut Rng| {
                code.encode(&block.map(|selector| selector as u16)).is_some()
            };
            let ([most, least], refused) =
                laws::shares_above(blocks, &slot, &bits, [55.5, 56.5], fits);
            let error = 5.5 * (expected / f64::from(blocks)).sqrt();
            assert!(
                least - error <= expected && expected <= most + error,
                "{queries}: {least} {most}"
            );
            assert!(refused <= expected + error, "{queries}: {refused} refused");
        }
    }

    #[test]
    fn the_papers_product_by_shifts() {
        for n in 1..=8u32 {
            for m in 0..4096u64 {
                let floor = (m * ((1 << n) - 1)) >> n;
                let (zero, others) = (m - m.part(n), m.part(n));
                assert_eq!(zero, floor + u64::from(m % (1 << n) != 0));
                assert_eq!(zero + others, m);
                // As printed, the last term is `m & (mask != 0)`, the low bit.
                let printed = (m >> n) * ((1 << n) - 1) + (m & ((1 << n) - 1)) - (m & 1);
                let wrong = m % 2 == 0 && m % (1 << n) != 0;
                assert_eq!(printed, floor + u64::from(wrong), "{m} {n}");
            }
        }
    }
}
