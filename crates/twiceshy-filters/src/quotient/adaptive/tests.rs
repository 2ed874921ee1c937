//! Queries, with all their shortcuts, against what the slots say one by one.

use super::*;
use crate::bits::word::{Portable, Work as _, WorkOn as _};
use crate::make::Build as _;
use crate::quotient::rule::{MOST_STATE, Rule};
use crate::quotient::{extending, telescoping, uncompressed};
use crate::remote::MemorySet;
use crate::rng::Rng;
use alloc::format;
use alloc::vec::Vec;

/// Slots of the filters here: a few blocks, the last of them not full.
const SLOTS_IN_ALL: usize = 620;

/// What a query is by definition: some slot of the quotient's run, wherever it is,
/// holds what the digest would leave there. No offset, no shortcut, whole blocks
/// decoded.
struct Slow<'a, R: Search> {
    filter: &'a Adaptive<R>,
    runs: Vec<(usize, Range<usize>)>,
    states: Vec<BlockState<R::SlotState>>,
}

impl<'a, R: Search> Slow<'a, R> {
    fn new(filter: &'a Adaptive<R>) -> Self {
        let states = (0..filter.runs.block_count()).map(|block| filter.decoded(block));
        Slow { filter, runs: filter.runs.iter().collect(), states: states.collect() }
    }

    fn contains(&self, digest: Digest) -> bool {
        let place = self.filter.place(digest);
        let own = self.runs.binary_search_by_key(&place.quotient, |(quotient, _)| *quotient);
        own.is_ok_and(|own| {
            self.runs[own].1.clone().any(|slot| {
                let BlockState { epoch, slots } = &self.states[slot / SLOTS];
                let remainder = self.filter.runs.remainder(slot);
                self.filter.rule.holds(remainder, &place, *epoch, slots[slot % SLOTS])
            })
        })
    }
}

/// Digests that share few quotients, the last ones among them, so that runs are
/// long, cross blocks and go on behind the last quotient; and few bits behind the
/// quotient, so that false positives are common with any remainder.
fn digest(rng: &mut Rng) -> Digest {
    let quotient = match rng.below(4) {
        0 => SLOTS_IN_ALL as u64 - 1 - rng.below(4),
        1 => 60 + rng.below(3),
        _ => rng.below(SLOTS_IN_ALL as u64),
    };
    let start = ((u128::from(quotient) << 64).div_ceil(SLOTS_IN_ALL as u128)) as u64;
    // 2^50 is less than a twentieth of a quotient's range.
    let few = rng.below(20) << 50 | rng.below(3);
    Digest::new([start + few, sparse(rng)])
}

/// A word with few different pieces of any width.
fn sparse(rng: &mut Rng) -> u64 {
    let word = rng.next() & rng.next() & rng.next();
    if rng.below(2) == 0 { word } else { word & rng.next() }
}

/// What the queries and the filters were.
#[derive(Default, Debug)]
struct Seen {
    maybe: usize,
    absent: usize,
    untouched_blocks: usize,
    other_blocks: usize,
    spent: u64,
}

/// Asks for all at once and in pieces around the size of a group; and so for those
/// alone whose quotients are all occupied, or none is.
fn compare_batches<R: Search>(
    filter: &Adaptive<R>,
    asked: &[Digest],
    answers: &[bool],
    context: &str,
) {
    let all = asked.iter().copied().zip(answers.iter().copied());
    let occupied =
        |(query, _): &(Digest, bool)| filter.runs.run(filter.place(*query).quotient).is_some();
    let (with_runs, without): (Vec<_>, Vec<_>) = all.clone().partition(occupied);
    for batch in [all.collect(), with_runs, without] {
        for size in [1, 63, 64, 65, usize::MAX] {
            for piece in batch.chunks(size) {
                let (digests, expected): (Vec<Digest>, Vec<bool>) = piece.iter().copied().unzip();
                // What was there before is no answer.
                let before: Vec<bool> = expected.iter().map(|&expected| !expected).collect();
                let mut found = before.clone();
                filter.contains_many(&digests, &mut found);
                assert_eq!(found, expected, "{context}, {size} at a time");
                found = before;
                Queries { filter, digests: &digests, found: &mut found }.run(Portable);
                assert_eq!(found, expected, "the safe twin: {context}, {size} at a time");
            }
        }
    }
}

fn compare<R: Search>(text: &str, seed: u64, seen: &mut Seen) {
    let params: R::Params = text.parse().expect("a filter");
    let mut filter = Adaptive::<R>::empty(params, SLOTS_IN_ALL, SLOTS_IN_ALL);
    let (mut remote, mut rng) = (MemorySet::new(), Rng::new(seed));
    let mut keys = Vec::new();
    while keys.len() < SLOTS_IN_ALL * 9 / 10 {
        let key = digest(&mut rng);
        if filter.insert(key, &mut remote).expect("room") {
            keys.push(key);
        }
    }
    for round in 0..3 {
        let slow = Slow::new(&filter);
        let mut asked: Vec<Digest> = (0..400).map(|_| digest(&mut rng)).collect();
        asked.extend(keys.iter().copied());
        let answers: Vec<bool> = asked.iter().map(|&query| slow.contains(query)).collect();
        for (&query, &expected) in asked.iter().zip(&answers) {
            assert_eq!(filter.contains(query), expected, "{text} {seed} {round} {query:?}");
            let safe = Query { filter: &filter }.run_on(Portable, query.words().into());
            assert_eq!(safe, expected, "the safe twin: {text} {seed} {round} {query:?}");
            seen.maybe += usize::from(expected);
            seen.absent += usize::from(!expected);
        }
        compare_batches(&filter, &asked, &answers, &format!("{text} {seed} {round}"));
        assert!(keys.iter().all(|&key| slow.contains(key)), "{text} {seed}: a false negative");
        for _ in 0..60 {
            filter.adapt(digest(&mut rng), &mut remote).expect("in memory");
        }
    }
    filter.check(&mut remote).unwrap_or_else(|broken| panic!("{text} {seed}: {broken}"));
    let blocks = filter.runs.block_count();
    let untouched = (0..blocks).filter(|&block| filter.untouched(block)).count();
    seen.untouched_blocks += untouched;
    seen.other_blocks += blocks - untouched;
    seen.spent += filter.stats().spent;
}

#[test]
fn queries_answer_what_the_slots_say_with_every_remainder_and_budget() {
    let (mut telescoping, mut reseeding) = (Seen::default(), Seen::default());
    let (mut extension, mut uncompressed) = (Seen::default(), Seen::default());
    for f in 1..=32u64 {
        for budget in [24, 56, 64, 72, 128] {
            let seed = f * 1000 + budget;
            let text = format!("telescoping:f={f},budget={budget}");
            compare::<telescoping::Telescoping>(&text, seed, &mut telescoping);
            let text = format!("{text},spent=reseed");
            compare::<telescoping::Telescoping>(&text, seed, &mut reseeding);
        }
        let (text, seed) = (format!("extension:f={f},budget=24"), f);
        compare::<extending::Extending>(&text, seed, &mut extension);
        let text = format!("uncompressed:f={f}");
        compare::<uncompressed::Uncompressed>(&text, seed, &mut uncompressed);
    }
    for seed in 0..20 {
        for text in ["telescoping:f=8,code=tuned", "telescoping:f=8,budget=32,code=tuned"] {
            compare::<telescoping::Telescoping>(text, seed, &mut telescoping);
            let text = format!("{text},spent=reseed");
            compare::<telescoping::Telescoping>(&text, seed, &mut reseeding);
        }
    }
    for seen in [&telescoping, &reseeding, &extension, &uncompressed] {
        assert!(seen.maybe > 1000 && seen.absent > 1000, "{seen:?} prove little");
    }
    // Selectors of a byte are never spent here.
    for seen in [&telescoping, &reseeding, &extension] {
        let enough = seen.spent > 100;
        let mixed = seen.untouched_blocks > 100 && seen.other_blocks > 100;
        assert!(enough && mixed, "{seen:?} prove little");
    }
}

/// A rule without a search of its own: all that a new variant has to write.
#[derive(Clone)]
struct Bare<R>(R);

impl<R: Rule> Rule for Bare<R> {
    const REMAINDERS_CHANGE: bool = R::REMAINDERS_CHANGE;

    type SlotState = R::SlotState;
    type Params = R::Params;

    fn new(params: &R::Params) -> Self {
        Bare(R::new(params))
    }

    fn decode(&self, state: &[u8]) -> BlockState<R::SlotState> {
        self.0.decode(state)
    }

    fn encode(&self, state: &BlockState<R::SlotState>) -> Option<[u8; MOST_STATE]> {
        self.0.encode(state)
    }

    fn next_epoch(&self, epoch: u8) -> u8 {
        self.0.next_epoch(epoch)
    }

    fn depth(&self, state: R::SlotState) -> u8 {
        self.0.depth(state)
    }

    fn at_depth(&self, place: &Place, depth: u8) -> R::SlotState {
        self.0.at_depth(place, depth)
    }

    fn remainder(&self, place: &Place, epoch: u8, state: R::SlotState) -> u64 {
        self.0.remainder(place, epoch, state)
    }

    fn holds(&self, remainder: u64, place: &Place, epoch: u8, state: R::SlotState) -> bool {
        self.0.holds(remainder, place, epoch, state)
    }

    fn adapted(
        &self,
        query: &Place,
        stored: &Place,
        epoch: u8,
        state: R::SlotState,
    ) -> Option<R::SlotState> {
        self.0.adapted(query, stored, epoch, state)
    }
}

impl<R: Rule> Search for Bare<R> {}

#[test]
fn a_rule_without_a_search_of_its_own_answers_what_the_slots_say() {
    let mut seen = Seen::default();
    for (f, seed) in [1, 5, 8, 12, 32].into_iter().zip(0..) {
        let text = format!("telescoping:f={f},budget=24,spent=reseed");
        compare::<Bare<telescoping::Telescoping>>(&text, seed, &mut seen);
        let text = format!("extension:f={f},budget=24");
        compare::<Bare<extending::Extending>>(&text, seed, &mut seen);
        let text = format!("uncompressed:f={f}");
        compare::<Bare<uncompressed::Uncompressed>>(&text, seed, &mut seen);
    }
    assert!(seen.maybe > 1000 && seen.absent > 1000 && seen.spent > 10, "{seen:?} prove little");
}
