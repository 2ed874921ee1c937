use alloc::format;
use alloc::vec::Vec;

use super::super::block::{SLOTS, Within};
use super::super::runs::Runs;
use super::super::search::Search as _;
use super::*;
use crate::bits::word::{Words, Work, tuned};
use crate::filter::{DigestFilter, Stats};
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
    let mut filter = crate::quotient::Telescoping::new(&spec, KEYS).expect("a capacity");
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
        let (share, model) = (stats.spent as f64 / blocks, refused(&code, 100_000) as f64 / 1e5);
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
        let spec = Params::default().with("f", width).expect("a width");
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
        let mut filter = crate::quotient::Telescoping::new(&spec, 400).expect("a capacity");
        let (mut remote, mut rng) = (MemorySet::new(), Rng::new(seed));
        let at = |rng: &mut Rng| Digest::new([(7 << 60) | rng.next() >> 12, rng.next()]);
        let keys: Vec<Digest> = (0..250).map(|_| at(&mut rng)).collect();
        for &key in &keys {
            filter.insert(key, &mut remote).expect("room");
        }
        for _ in 0..20 {
            filter.adapt(at(&mut rng), &mut remote).expect("in memory");
            let run = filter.runs.run(filter.place(keys[0]).quotient).expect("a run");
            let epoch = |slot: usize| filter.runs.state(slot / SLOTS)[2];
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
        let spec: Params = text.parse().expect("a filter");
        let rule = Telescoping::new(&spec);
        let mut filter = crate::quotient::Telescoping::new(&spec, 3000).expect("a capacity");
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
            let BlockState { epoch, slots } = rule.decode(filter.runs.state(within.block));
            let later = within.end > SLOTS || run.len() > 7 || epoch != 0;
            let any_adapted = slots.iter().take(within.end).any(|&selector| selector != 0);
            let first = place.remainder(8);
            let (mut own, mut others) = (false, false);
            for held in run.map(|slot| filter.runs.remainder(slot)) {
                own |= held == first;
                others |= any_adapted && rule.has(held, first, place.digest);
            }
            let expected = (!later).then_some(own || others);
            assert_eq!(
                tuned(AtOnce(&rule, &filter.runs, within, place)),
                expected,
                "{text} {within:?}"
            );
            seen[if later { 3 } else { usize::from(own) + 2 * usize::from(others && !own) }] += 1;
        }
    }
    assert!(seen.iter().all(|&count| count > 100), "{seen:?} prove little");
}

/// The selector that an adaptation takes tells the key from the query, and is the first that does.
/// One that does not would be taken again and again.
#[test]
fn the_next_selector_is_the_first_that_tells_two_keys_apart() {
    let query = [7, 3, 3, 5, 5, 9];
    let stored = [7, 3, 4, 5, 5, 9];
    let remainders = |selector: u16| [query, stored].map(|keys| keys[usize::from(selector)]);
    let next = |selector| next_selector(selector, 5, remainders);
    assert_eq!([0, 1, 2, 3, 5].map(next), [Some(2), Some(2), Some(2), None, None]);

    // The whole rule: two keys that have the first three of their remainders in common.
    let keys = [0x1111_1111_2222_2222_u64, 0x1111_1111_2222_3333];
    let [query, stored] = keys.map(|word| Place::new(Digest::new([1 << 40, word]), 1000));
    for (text, expected) in [
        ("telescoping:f=16", [Some(4), Some(4), Some(4), Some(4), Some(4)]),
        ("telescoping:f=16,literal=1", [Some(1), Some(2), Some(3), Some(4), None]),
    ] {
        let rule = Telescoping::new(&text.parse().expect("a filter"));
        assert_eq!(rule.last(), 4);
        let adapted = |selector| rule.adapted(&query, &stored, 0, selector);
        assert_eq!([0, 1, 2, 3, 4].map(adapted), expected, "{text}");
    }
}
