//! The telescoping adaptive filter: after a false positive the slot takes the
//! next remainder of its key.
//!
//! Lee, McCauley, Singh, Stein: "Telescoping Filter", sections 3 to 5. Remainder
//! `i` of a digest is the `i`-th piece of `r` bits; a slot's *selector* says which
//! one it holds. The selectors of a block are one arithmetic code:
//!
//! ```text
//! word 0 * slots = quotient . | remainder 0 |        of the fraction
//! word 1         = | remainder 1 | remainder 2 | ... | remainder 64 / r |
//!
//! a block's state = | code of its 64 selectors | epoch: a byte, with reseed only |
//! ```
//!
//! A selector ends where word 1 does: what a slot holds is then either remainder
//! 0 or one of the lanes of one word, which a query compares with all at once;
//! only a match has to know the selector, and decodes. Past that a block counts
//! as spent. (At `r = 8` that is selector 9; a block is spent with a probability
//! of 0.3 before any of its slots gets there with 0.0001.)
//!
//! A spent block forgets its selectors, and its slots go back to remainder 0, as
//! in the paper; or, with `spent=reseed`, to the remainder 0 of other hash
//! functions, so that a false positive of the past returns with probability
//! `2^-r` instead of 1. Its epoch counts how often.

use core::ops::Range;

use crate::bits::bytes::Candidates;
use crate::bits::lanes::Lanes;
use crate::bits::word::{Words, low_bits};
use crate::code::selectors::SelectorCode;
use crate::digest::Digest;
use crate::spec::{Code, Kind, Spec, WhenSpent};

use super::BlockCode;
use super::block::{Bytes, SLOTS, Within};
use super::place::Place;
use super::rule::{Learned, MOST_STATE, Rule, number};
use super::runs::Runs;

/// Selectors in one arithmetic code a block.
#[derive(Clone)]
pub struct Telescoping {
    code: SelectorCode,
    /// Bits of a remainder.
    width: u32,
    /// Bytes of a block's code; an epoch has one more.
    code_bytes: usize,
    /// The remainders from 1 on, as lanes of one word.
    lanes: Lanes,
    reseeds: bool,
    /// Where remainders have a byte and a block's state is in one load.
    at_once: Option<AtOnce>,
}

/// What a query needs of a block's state, as one load has it.
#[derive(Clone)]
struct AtOnce {
    /// Which bits are its code.
    code: u64,
    /// Which are its epoch.
    epoch: u64,
    /// The first code that is not of this many zeros at least, followed by others.
    zeros: [u64; SLOTS + 1],
}

impl AtOnce {
    /// Whether one of these slots, or of those before them in the block, has learned.
    #[inline(always)]
    fn have_learned(&self, slots: Bytes) -> bool {
        slots.extra & self.code >= self.zeros[slots.end]
    }

    /// Whether one of these slots may hold one of the remainders.
    #[inline(always)]
    fn any(&self, words: impl Words, slots: Bytes, first: u64, others: u64) -> bool {
        // Where no slot up to the last of them has learned, all hold remainder 0.
        let learned = self.have_learned(slots);
        let lens = [slots.len, if learned { slots.len } else { 0 }];
        words.any_byte(slots.held, Candidates { first: first as u8, others, lens })
    }
}

impl Telescoping {
    /// What its code spends on each selector.
    pub(crate) fn block_code(&self) -> BlockCode {
        let bits = (0..=self.last()).map(|selector| self.code.bits(selector)).collect();
        BlockCode { budget: 8 * self.code_bytes as u32, bits }
    }

    /// The largest selector.
    fn last(&self) -> u16 {
        (64 / self.width) as u16
    }

    /// A block's epoch and code.
    #[inline(always)]
    fn parts(&self, state: &[u8]) -> (u8, u128) {
        let (code, epoch) = state.split_at(self.code_bytes);
        (epoch.first().copied().unwrap_or(0), number(code))
    }

    /// Whether any remainder of the digest is this one.
    #[inline(always)]
    fn has(&self, remainder: u64, first: u64, digest: Digest) -> bool {
        let Telescoping { lanes, .. } = self;
        remainder == first || lanes.any_zero(self.others(digest) ^ lanes.broadcast(remainder))
    }

    /// A digest's remainders from 1 on.
    #[inline(always)]
    fn others(&self, digest: Digest) -> u64 {
        digest.word(1) >> (64 - self.lanes.bits())
    }
}

/// Remainder number `selector` of a digest whose number 0 is `first`.
#[inline(always)]
pub(super) fn nth_remainder(digest: Digest, first: u64, selector: u16, width: u32) -> u64 {
    match u32::from(selector) {
        0 => first,
        nth => digest.bits(64 + (nth - 1) * width, width),
    }
}

/// The first selector from `selector` to `last` with which a stored digest's
/// remainder is not the query's.
pub(super) fn next_selector(
    selector: u16,
    last: u16,
    remainders: impl Fn(u16) -> [u64; 2],
) -> Option<u16> {
    (selector..=last).find(|&selector| {
        let [query, stored] = remainders(selector);
        query != stored
    })
}

impl Rule for Telescoping {
    const KINDS: &[Kind] = &[Kind::Telescoping];
    const REMAINDERS_CHANGE: bool = true;
    const EVERY_QUERY_READS_STATE: bool = true;

    type Symbol = u16;

    fn new(spec: &Spec) -> Self {
        let reseeds = spec.spent == WhenSpent::Reseed;
        let budget = if reseeds { spec.budget - 8 } else { spec.budget };
        let code = match spec.code {
            Code::Tuned => SelectorCode::tuned(budget),
            Code::General => SelectorCode::general(spec.f, budget),
        };
        let at_once = code.zeros().filter(|_| spec.f == 8 && spec.budget <= 64).map(|zeros| {
            let (code, state) = (low_bits(budget), low_bits(spec.budget));
            AtOnce { code, epoch: state ^ code, zeros }
        });
        Telescoping {
            code,
            width: spec.f,
            code_bytes: budget as usize / 8,
            lanes: Lanes::new(64 / spec.f, spec.f).expect("remainders of 1 to 32 bits"),
            reseeds,
            at_once,
        }
    }

    fn decode(&self, state: &[u8]) -> Learned<u16> {
        let (epoch, code) = self.parts(state);
        Learned { epoch, slots: self.code.decode(code) }
    }

    fn encode(&self, learned: &Learned<u16>) -> Option<[u8; MOST_STATE]> {
        if learned.slots.iter().any(|&selector| selector > self.last()) {
            return None;
        }
        let code = self.code.encode(&learned.slots)?.to_le_bytes();
        let mut state = [0; MOST_STATE];
        state[..self.code_bytes].copy_from_slice(&code[..self.code_bytes]);
        state[self.code_bytes] = learned.epoch;
        Some(state)
    }

    fn next_epoch(&self, epoch: u8) -> u8 {
        if self.reseeds { epoch.wrapping_add(1) } else { epoch }
    }

    fn depth(&self, selector: u16) -> u8 {
        // At most 64, with remainders of one bit.
        selector as u8
    }

    fn at_depth(&self, _: &Place, depth: u8) -> u16 {
        depth.into()
    }

    #[inline(always)]
    fn remainder(&self, place: &Place, epoch: u8, selector: u16) -> u64 {
        let (digest, first) = if epoch == 0 {
            (place.digest, place.remainder(self.width))
        } else {
            let digest = place.digest.rehashed(u64::from(epoch));
            (digest, digest.bits(0, self.width))
        };
        nth_remainder(digest, first, selector, self.width)
    }

    fn apart(&self, query: &Place, stored: &Place, epoch: u8, selector: u16) -> Option<u16> {
        next_selector(selector, self.last(), |selector| {
            [query, stored].map(|place| self.remainder(place, epoch, selector))
        })
    }

    #[inline(always)]
    fn may_be_in(&self, words: impl Words, runs: &Runs, run: &Range<usize>, place: &Place) -> bool {
        let epoch_of = |block: usize| runs.extra(block).get(self.code_bytes).copied().unwrap_or(0);
        let mut epochs = (run.start / SLOTS..run.end.div_ceil(SLOTS)).map(epoch_of);
        // No slots may be behind the last block.
        let Some(epoch) = epochs.next() else { return false };
        // Hardly any run is in blocks of several.
        if epochs.any(|other| other != epoch) {
            return true;
        }
        let digest = place.digest.rehashed(u64::from(epoch));
        let first = self.remainder(place, epoch, 0);
        if self.width == 8
            && let Some(slots) = runs.load_bytes(Within::of(run))
        {
            let others = self.others(digest);
            return match &self.at_once {
                Some(at_once) => at_once.any(words, slots, first, others),
                None => {
                    let lens = [slots.len; 2];
                    words.any_byte(slots.held, Candidates { first: first as u8, others, lens })
                }
            };
        }
        run.clone().any(|slot| self.has(runs.remainder(slot), first, digest))
    }

    /// For remainders of a byte. Whether the run is empty and whether its block has
    /// learned cannot be foreseen: no branch on either.
    #[inline(always)]
    fn may_be_in_at_once(
        &self,
        words: impl Words,
        runs: &Runs,
        run: Within,
        place: &Place,
    ) -> Option<bool> {
        let at_once = self.at_once.as_ref()?;
        let bytes = runs.load_bytes(run)?;
        if bytes.extra & at_once.epoch != 0 {
            return None;
        }
        Some(at_once.any(words, bytes, place.remainder(8), place.digest.word(1)))
    }

    #[inline(always)]
    fn may_be_among(&self, words: impl Words, slots: Bytes, place: &Place) -> bool {
        let Some(at_once) = &self.at_once else { return true };
        let others = place.digest.word(1);
        (slots.extra & at_once.epoch != 0) | at_once.any(words, slots, place.remainder(8), others)
    }

    #[inline(always)]
    fn none_has_learned(&self, runs: &Runs, run: Within) -> bool {
        let at_once = self.at_once.as_ref();
        let bytes = at_once.and_then(|at_once| Some((at_once, runs.load_bytes(run)?)));
        bytes.is_some_and(|(at_once, bytes)| !at_once.have_learned(bytes))
    }

    fn undecoded(&self, state: &[u8], index: usize, remainder: u64, place: &Place) -> Option<bool> {
        let (epoch, code) = self.parts(state);
        let first = self.remainder(place, epoch, 0);
        if self.code.starts_with_zeros(code, index + 1) {
            return Some(remainder == first);
        }
        // The run has a slot that matches some remainder; this may be another.
        let digest = place.digest.rehashed(u64::from(epoch));
        if self.has(remainder, first, digest) { None } else { Some(false) }
    }

    fn decode_one(&self, state: &[u8], index: usize) -> (u8, u16) {
        let (epoch, code) = self.parts(state);
        (epoch, self.code.decode_one(code, index))
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;
    use crate::bits::word::{Work, tuned};
    use crate::filter::{Filter, Stats};
    use crate::remote::MemorySet;
    use crate::rng::Rng;

    const KEYS: usize = 249_036;
    const PER_KEY: usize = 40;

    fn digest(rng: &mut Rng) -> Digest {
        Digest::new([rng.next(), rng.next()])
    }

    fn played(spec: &str) -> Stats {
        let mut rng = Rng::new(1);
        let spec = spec.parse().expect("a filter");
        let mut filter = super::super::Telescoping::new(&spec, KEYS).expect("a capacity");
        let mut remote = MemorySet::new();
        for _ in 0..KEYS {
            filter.insert(digest(&mut rng), &mut remote).expect("room");
        }
        for _ in 0..PER_KEY * KEYS {
            filter.adapt(digest(&mut rng), &mut remote).expect("in memory");
        }
        filter.stats()
    }

    /// How many blocks of so many a code refuses, where a slot is occupied with
    /// probability 0.95 and its key met a Poisson number of collisions, of mean
    /// `0.95 * 40 / 256`, each of which passed one selector, and another with
    /// probability 1/256, and so on.
    fn refused(code: &SelectorCode, blocks: usize) -> usize {
        let mut rng = Rng::new(2);
        let mut uniform = || (rng.next() >> 11) as f64 / (1u64 << 53) as f64;
        let none = (-0.95 * PER_KEY as f64 / 256.0).exp();
        let mut selector = || {
            let mut selector = 0;
            if uniform() < 0.95 {
                let mut product = uniform();
                while product >= none {
                    selector += 1;
                    while uniform() < 1.0 / 256.0 {
                        selector += 1;
                    }
                    product *= uniform();
                }
            }
            selector
        };
        let block = |_: &usize| code.encode(&core::array::from_fn(|_| selector())).is_none();
        (0..blocks).filter(block).count()
    }

    /// One pass of 40 distinct queries a key, so that no reset brings a false
    /// positive back: a block is spent as often as the code refuses blocks of
    /// the same distribution. 4,096 blocks against 100,000; the difference of two
    /// shares near 0.05 (general) and 0.08 (tuned) has a standard deviation of
    /// 0.0035 and 0.0043, and 5.5 of them are allowed. Slots of one quotient
    /// share their queries, which makes that of whole blocks a trifle larger.
    #[test]
    fn blocks_are_spent_as_often_as_their_code_refuses_the_models() {
        for (spec, code) in [
            ("telescoping:f=8,code=tuned", SelectorCode::tuned(56)),
            ("telescoping:f=8,code=general", SelectorCode::general(8, 56)),
        ] {
            let stats = played(spec);
            let blocks = (stats.cells / 64) as f64;
            let (share, model) =
                (stats.spent as f64 / blocks, refused(&code, 100_000) as f64 / 1e5);
            let sigma = (model * (1.0 - model) * (1.0 / blocks + 1e-5)).sqrt();
            let off = (share - model) / sigma;
            assert!(off.abs() < 5.5, "{spec}: {share} where {model} is expected, {off:.1} sigma");
            assert!(model > 0.01, "{spec}: {model} proves little");
        }
    }

    /// What a query compares with, all at once, has every remainder in it.
    #[test]
    fn no_remainder_is_overlooked() {
        let mut rng = Rng::new(3);
        for width in 1..=32 {
            let spec = Spec::new(Kind::Telescoping).with_fingerprint(width).expect("a width");
            let rule = Telescoping::new(&spec);
            for _ in 0..300 {
                let place = Place::new(digest(&mut rng), 1000);
                let first = place.remainder(width);
                for selector in 0..=rule.last() {
                    let remainder = rule.remainder(&place, 0, selector);
                    assert!(rule.has(remainder, first, place.digest), "{width} {selector}");
                }
            }
            // And it is of use: 1 + 64 / r remainders of 2^r.
            let passed = (0..2000u64).filter(|_| {
                let place = Place::new(digest(&mut rng), 1000);
                rule.has(rng.next() & ((1 << width) - 1), place.remainder(width), place.digest)
            });
            let most = (1.0 + 64.0 / f64::from(width)) / f64::from(width).exp2();
            assert!((passed.count() as f64) < 2000.0 * most * 1.5 + 30.0, "{width}");
        }
    }

    /// 250 keys of one quotient are in four blocks or five, which are spent one
    /// after the other: the first and the last often have one epoch, and a block
    /// between them another.
    #[test]
    fn a_run_over_blocks_of_several_epochs_is_found_whole() {
        let spec = "telescoping:f=8,budget=24,spent=reseed".parse().expect("a filter");
        let mut only_between = 0;
        for seed in 0..40 {
            let mut filter = super::super::Telescoping::new(&spec, 400).expect("a capacity");
            let (mut remote, mut rng) = (MemorySet::new(), Rng::new(seed));
            let at = |rng: &mut Rng| Digest::new([(7 << 60) | rng.next() >> 12, rng.next()]);
            let keys: Vec<Digest> = (0..250).map(|_| at(&mut rng)).collect();
            for &key in &keys {
                filter.insert(key, &mut remote).expect("room");
            }
            for _ in 0..20 {
                filter.adapt(at(&mut rng), &mut remote).expect("in memory");
                let run = filter.runs.run(filter.place(keys[0]).quotient).expect("a run");
                let epoch = |slot: usize| filter.runs.extra(slot / SLOTS)[2];
                let (first, last) = (epoch(run.start), epoch(run.end - 1));
                let differs = run.clone().any(|slot| epoch(slot) != first);
                only_between += usize::from(first == last && differs);
                assert!(keys.iter().all(|&key| filter.contains(key)), "a false negative");
            }
        }
        assert!(only_between > 20, "{only_between} prove little");
    }

    struct AtOnce<'a>(&'a Telescoping, &'a Runs, Within, Place);

    impl Work for AtOnce<'_> {
        type Outcome = Option<bool>;

        fn run(self, words: impl Words) -> Option<bool> {
            let AtOnce(rule, runs, run, place) = self;
            rule.may_be_in_at_once(words, runs, run, &place)
        }
    }

    /// What is said at once is right, not only safe: others than remainder 0 count
    /// from the first slot on that has learned, and all that has to go the long way
    /// is a run of several blocks, of more than seven slots, or of another epoch.
    #[test]
    fn runs_of_one_block_and_its_first_epoch_are_looked_through_at_once() {
        // At once: no, yes because of remainder 0, yes because of others; later.
        let mut seen = [0; 4];
        for (policy, budget) in [("reset", 56), ("reseed", 56), ("reseed", 64), ("reseed", 24)] {
            let text = format!("telescoping:f=8,budget={budget},spent={policy}");
            let spec: Spec = text.parse().expect("a filter");
            let rule = Telescoping::new(&spec);
            let mut filter = super::super::Telescoping::new(&spec, 3000).expect("a capacity");
            let (mut remote, mut rng) = (MemorySet::new(), Rng::new(u64::from(spec.budget)));
            for _ in 0..3000 {
                filter.insert(digest(&mut rng), &mut remote).expect("room");
            }
            for _ in 0..30_000 {
                filter.adapt(digest(&mut rng), &mut remote).expect("in memory");
            }
            for _ in 0..20_000 {
                let place = filter.place(digest(&mut rng));
                let run = filter.runs.run(place.quotient).unwrap_or(place.quotient..place.quotient);
                let within = Within::of(&run);
                let Learned { epoch, slots } = rule.decode(filter.runs.extra(within.block));
                let later = within.end > SLOTS || run.len() > 7 || epoch != 0;
                let learned = slots.iter().take(within.end).any(|&selector| selector != 0);
                let first = place.remainder(8);
                let (mut own, mut others) = (false, false);
                for held in run.map(|slot| filter.runs.remainder(slot)) {
                    own |= held == first;
                    others |= learned && rule.has(held, first, place.digest);
                }
                let expected = (!later).then_some(own || others);
                assert_eq!(
                    tuned(AtOnce(&rule, &filter.runs, within, place)),
                    expected,
                    "{text} {within:?}"
                );
                seen[if later { 3 } else { usize::from(own) + 2 * usize::from(others && !own) }] +=
                    1;
            }
        }
        assert!(seen.iter().all(|&count| count > 100), "{seen:?} prove little");
    }
}
