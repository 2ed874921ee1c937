//! Codes for the selectors of a telescoping filter's block.
//!
//! Lee, McCauley, Singh, Stein, "Telescoping Filter", appendix C.2 (the tuned
//! code) and C.3 (the general one). A selector counts the false positives that its slot
//! caused, so most are 0 and each value is rarer than the one before:
//!
//! ```text
//! tuned      0: 25/32   1: 101/512   2: 5/256   3: 3/2048   4, 5: small
//!            6 and more: the 2^-11.26 that the paper leaves over
//! general    at least k: 2^-(x + (k - 1) y)
//! ```
//!
//! # Which x and y
//!
//! After `c` distinct queries per key at load `a`, a quotient has seen
//! `z ~ Poisson(a c)` of them. A key's selector passes a value unless all `z` differ from
//! the key in that remainder. With `e = 2^-r`,
//!
//! ```text
//! Pr[v >= k] = E[(1 - (1 - e)^z)^k]
//! Pr[v >= 1] = 1 - exp(-m)                where m = a c e
//! E[v]       = E[(1 - e)^-z] - 1 = exp(m / (1 - e)) - 1
//! ```
//!
//! (the paper's Lemma 2 and Corollary 3 have other values, which are no bounds).
//! The general code spends `x + y (v - 1)` bits and a constant on a selector, so these two
//! moments give its expected length in closed form. The length grows with `m`, and
//! [`SelectorCode::general`] takes the `x` and `y` that reach the budget last.

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
/// The paper's program has no code for selectors from 6 on: it writes nothing and reports
/// success. Here they share the rest of the range as [`Escape`] divides it.
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
    type SlotState = u16;

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

    /// The length of a number's code in bits, an upper bound in the last class.
    fn bits(number: u16) -> u32 {
        let number = u32::from(number);
        let further = |class, first| Some(number - first >= Self::size(class));
        let (class, _) = Self::class(further).expect("nothing fails here");
        (class + 1).min(Self::LAST_CLASS) + (1 << class)
    }
}

/// The probabilities of appendix C.3, for any remainder and budget.
///
/// The paper multiplies by `(2^n - 1)/2^n` and rounds each part down. As "at least" parts
/// the same probabilities are single shifts.
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

    /// The selector of a key after so many collisions on average, the `m` of the module's
    /// documentation.
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
    type SlotState = u16;

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
mod tests;
