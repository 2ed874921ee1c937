//! The line filter with a remote each of whose accesses fails once: insertions that drift between
//! lines of other hash functions, removals that write a run anew, adaptations that redraw a line,
//! growth.

use crate::harness::failing::{Failing, Fuse};
use crate::harness::{Random, made};
use twiceshy_filters::line::LineFilter;
use twiceshy_filters::remote::{EVERY_DIGEST, MemorySet, Ordered};
use twiceshy_filters::{Adapted, Digest, DigestFilter, Error};

#[derive(Clone, Copy, Debug)]
enum Operation {
    Insert(Digest),
    Remove(Digest),
    Adapt(Digest),
    Grow(usize),
    Rebuild,
}

impl Operation {
    /// Whether it did something.
    fn run(
        self,
        filter: &mut LineFilter,
        remote: &mut (dyn Ordered + 'static),
    ) -> Result<bool, Error> {
        match self {
            Operation::Insert(digest) => filter.insert(digest, remote),
            Operation::Remove(digest) => filter.remove(digest, remote),
            Operation::Adapt(digest) => {
                filter.adapt(digest, remote).map(|outcome| outcome == Adapted::Fixed)
            }
            Operation::Grow(capacity) => filter.grow(capacity, remote).map(|()| true),
            Operation::Rebuild => filter.rebuild(remote).map(|()| true),
        }
    }
}

fn stored(set: &mut MemorySet) -> Vec<Digest> {
    let mut digests = Vec::new();
    set.visit(EVERY_DIGEST, &mut |digest| digests.push(digest)).expect("in memory");
    digests
}

struct Play {
    filter: LineFilter,
    set: MemorySet,
    keys: Vec<Digest>,
    /// The most accesses of an operation that failed: insertions, removals, adaptations.
    most: [u32; 3],
    /// Insertions that went well although the growth behind them failed.
    forgiven: u32,
}

impl Play {
    /// Runs an operation once for each of its accesses, which fails, and then as it should be.
    fn run(&mut self, operation: Operation) -> Result<bool, Error> {
        let saved = self.filter.save();
        for accesses in 1.. {
            let fuse = Fuse::default();
            fuse.set(accesses);
            let mut filter = self.filter.clone();
            let mut remote = Failing { memory: self.set.clone(), fuse: fuse.clone() };
            let outcome = operation.run(&mut filter, &mut remote);
            let has_failed = fuse.replace(0) == 0;
            match &outcome {
                Err(Error::Remote(error)) if has_failed => {
                    assert_eq!(error.to_string(), "unplugged", "{operation:?}");
                    // Copies that had to make room are gone all the same, and the line is redrawn.
                    let is_redrawn = filter.stats().spent > self.filter.stats().spent;
                    let has_dropped_copies =
                        is_redrawn && matches!(operation, Operation::Insert(_));
                    let is_same = filter.save() == saved;
                    assert!(is_same || has_dropped_copies, "{operation:?}: access {accesses}");
                    assert_eq!(stored(&mut remote.memory), stored(&mut self.set));
                    self.note(operation, accesses);
                }
                Ok(_) if has_failed => {
                    // Only growth, which goes on with the next insertion.
                    assert!(matches!(operation, Operation::Insert(_)), "{operation:?}");
                    self.forgiven += 1;
                    let Operation::Insert(key) = operation else { unreachable!() };
                    assert!(filter.contains(key), "{operation:?}: a false negative");
                }
                _ => {
                    self.filter = filter;
                    self.set = remote.memory;
                    return outcome;
                }
            }
            filter.check(&mut remote).unwrap_or_else(|broken| panic!("{operation:?}: {broken}"));
            let denied = self.keys.iter().filter(|&&key| !filter.contains(key)).count();
            assert_eq!(denied, 0, "{operation:?}: false negatives");
        }
        unreachable!("an operation has few accesses")
    }

    fn note(&mut self, operation: Operation, accesses: u32) {
        let kind = match operation {
            Operation::Insert(_) => 0,
            Operation::Remove(_) => 1,
            Operation::Adapt(_) => 2,
            _ => return,
        };
        self.most[kind] = self.most[kind].max(accesses);
    }

    fn check(&mut self) {
        self.filter.check(&mut self.set).expect("every invariant holds");
        assert_eq!(self.filter.stats().len, self.keys.len());
        let denied = self.keys.iter().filter(|&&key| !self.filter.contains(key)).count();
        assert_eq!(denied, 0, "false negatives");
    }
}

/// A false positive beside a stored key.
fn false_positive(filter: &LineFilter, key: Digest, random: &mut Random) -> Option<Digest> {
    let range = filter.range(key);
    let width = range.end().word(0) - range.start().word(0);
    let mut query = || Digest::new([range.start().word(0) + random.next() % width, random.next()]);
    (0..8000).map(|_| query()).find(|&query| filter.contains(query))
}

fn play(text: &str, random: &mut Random) -> Play {
    let filter = made::<LineFilter>(text, 150);
    let keys = Vec::new();
    let mut play = Play { filter, set: MemorySet::new(), keys, most: [0; 3], forgiven: 0 };
    let grows = text.contains("grow");
    for step in 0..1200 {
        let key = play.keys.get(random.next() as usize % play.keys.len().max(1)).copied();
        // Half of the keys are in a third of the filter: buckets drift. (One that may grow would do
        // so at once, before it has the keys it was made for.)
        let word = random.next();
        let is_crowded = step % 2 == 1 && !grows;
        let new = Digest::new([if is_crowded { word / 3 } else { word }, random.next()]);
        let operation = match (key, random.next() % 100) {
            // A filter that grows has to get more keys than it was made for.
            (Some(key), 0..=24) if step > 150 && (!grows || step % 3 == 0) => {
                Operation::Remove(key)
            }
            (Some(_), 25..=59) => {
                // Few buckets have all of them: they run out of selectors.
                let key = play.keys[random.next() as usize % play.keys.len().min(5)];
                let Some(query) = false_positive(&play.filter, key, random) else { continue };
                Operation::Adapt(query)
            }
            (_, 60) => Operation::Grow(150 + random.next() as usize % 10),
            (_, 61) => Operation::Rebuild,
            _ if play.keys.len() < if grows { 500 } else { 150 } => Operation::Insert(new),
            (Some(key), _) => Operation::Remove(key),
            _ => continue,
        };
        // A rebuilt filter has one epoch again, and a large one no reason to drift.
        if matches!(operation, Operation::Grow(_) | Operation::Rebuild) && step % 8 != 0 {
            continue;
        }
        match play.run(operation) {
            Ok(_) => match operation {
                Operation::Insert(key) => play.keys.push(key),
                Operation::Remove(gone) => play.keys.retain(|&key| key != gone),
                _ => {}
            },
            Err(Error::Full { .. } | Error::Spec { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        play.check();
    }
    play
}

/// An insertion writes once, and reads before that where it cannot tell whether the key is there,
/// or where a bucket gets other hash functions: with three accesses it was such a bucket. A removal
/// reads where the group has adapted, and an adaptation that reads twice redraws a line.
#[test]
fn every_access_fails_once() {
    let mut random = Random(1);
    for text in ["line:f=9", "line:f=10,full=error", "line:f=9,full=grow", "line:f=11,full=grow"] {
        let play = play(text, &mut random);
        let [insertion, removal, adaptation] = play.most;
        let (stats, grows) = (play.filter.stats(), text.contains("grow"));
        assert!(removal >= 2 && adaptation >= 2 && stats.spent > 5, "{text}: {:?}", play.most);
        if grows {
            assert!(play.forgiven > 10, "{text}: {}", play.forgiven);
        } else {
            assert!(insertion >= 3 && stats.kicks > 20, "{text}: {insertion}, {stats:?}");
        }
    }
}
