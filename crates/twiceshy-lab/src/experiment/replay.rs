//! A cyclic or varying filter, as far as its answers to some absent keys go.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 3.1 (algorithm 2) and
//! 3.2: adapting changes a stored key's selector and nothing else. So what an absent key and the
//! key of a cell have in common is known beforehand, for each selector, and a query needs no hash
//! function and no remote: it looks up the selectors of the cells whose keys it may collide with,
//! mostly one.

use std::array;

use twiceshy_filters::Digest;
use twiceshy_filters::internals::Outlook;

/// Queries that wait for memory at the same time.
const BATCH: usize = 64;

/// The filter.
pub struct Replay {
    /// Of each cell's key.
    selectors: Vec<u8>,
    functions: u8,
    /// Whether adapting avoids a function under which the query still collides.
    retry: bool,
    /// The collisions of all absent keys that have any, in their order.
    collisions: Vec<Collision>,
    /// Where those of each of these keys start, and the end.
    starts: Vec<u32>,
}

/// An absent key and the key of a cell have the same fingerprint.
#[derive(Clone, Copy)]
struct Collision {
    cell: u32,
    /// Under the functions whose bits are set.
    under: u32,
}

impl Replay {
    /// A filter that never adapted, and the absent keys that it will be asked for.
    pub fn new(outlook: &Outlook, retry: bool, absent: impl Iterator<Item = Digest>) -> Self {
        let (mut collisions, mut starts) = (Vec::new(), vec![0]);
        let mut cells = 0;
        for digest in absent {
            outlook.collisions(digest, &mut |cell, under| {
                cells = cells.max(cell + 1);
                let cell = u32::try_from(cell).expect("2^32 cells do not fit the lab");
                collisions.push(Collision { cell, under });
            });
            let end = u32::try_from(collisions.len()).expect("2^32 collisions do not fit the lab");
            if starts.last() != Some(&end) {
                starts.push(end);
            }
        }
        let functions = u8::try_from(outlook.variants).expect("32 at most");
        Replay { selectors: vec![0; cells], functions, retry, collisions, starts }
    }

    /// How many absent keys it may ever be wrong about.
    pub fn keys(&self) -> usize {
        self.starts.len() - 1
    }

    /// Asks for these keys, by their places among those that it may be wrong about, adapts to each
    /// false positive, and counts them.
    pub fn play(&mut self, mut places: impl Iterator<Item = usize>) -> u64 {
        let mut false_positives = 0;
        loop {
            // Each pass only waits for what the one before it asked for, 64 times at once.
            let batch: [Option<usize>; BATCH] = array::from_fn(|_| places.next());
            let batch = batch.map(|place| place.map_or(0..0, |place| self.range(place)));
            let firsts = batch.clone().map(|range| self.collisions.get(range.start).copied());
            for (range, first) in batch.into_iter().zip(firsts) {
                if range.is_empty() {
                    return false_positives;
                }
                let mut wrong = first.is_some_and(|first| self.meet(first));
                for place in range.skip(1) {
                    wrong |= self.meet(self.collisions[place]);
                }
                false_positives += u64::from(wrong);
            }
        }
    }

    #[inline]
    fn range(&self, place: usize) -> std::ops::Range<usize> {
        self.starts[place] as usize..self.starts[place + 1] as usize
    }

    /// Whether a query collides with a cell's key, which then moves on to another function.
    #[inline]
    fn meet(&mut self, Collision { cell, under }: Collision) -> bool {
        let selector = self.selectors[cell as usize];
        let hit = under >> selector & 1 == 1;
        if hit {
            self.selectors[cell as usize] = self.next(selector, under);
        }
        hit
    }

    /// The function after `selector`; with `retry`, the next one under which query and key differ,
    /// if there is one.
    fn next(&self, selector: u8, under: u32) -> u8 {
        let following = |step| (selector + step) % self.functions;
        let differs = |&next: &u8| under >> next & 1 == 0;
        let steps = if self.retry { self.functions } else { 2 };
        (1..steps).map(following).find(differs).unwrap_or(following(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Curve, filled};
    use super::*;
    use crate::random::hasher;
    use crate::workload::{Size, Source};

    /// The same answers as the filter, one by one. Short fingerprints have a query collide with
    /// several keys at once, and with one key under several functions; many repeats take keys
    /// through all functions and back to the first.
    #[test]
    fn a_replay_answers_as_the_filter_does() {
        for text in [
            "cyclic:f=7,s=1,k=4,b=1,retry=0",
            "cyclic:f=4,s=2,k=4,b=1,retry=0",
            "cyclic:f=2,s=3,k=4,b=1,retry=1",
            "cyclic:f=3,s=2,k=2,b=4,retry=1",
            "cyclic:f=2,s=5,k=3,b=2,retry=0",
            "varying:f=5,s=2,r=2,k=4,b=1,retry=0",
            "varying:f=4,s=1,r=1,k=4,b=1,retry=1",
        ] {
            let size = Size { keys: Some(950), ratio: 6.0, queries: Some(1), ..Size::default() };
            let workload = Source::Uniform.workload(&size, 1).expect("a workload");
            let hasher = hasher(2);
            let curve = Curve::new(text);
            let mut filter = filled(&curve.design, &workload.stored, &hasher).expect("room");
            let digest = |key: u64| hasher.digest(key.to_le_bytes());
            let outlook = filter.unselected().expect("in memory").expect("it never adapted");
            let retry = text.ends_with("retry=1");
            let mut replay = Replay::new(&outlook, retry, workload.absent().map(digest));
            let asked: Vec<_> =
                workload.absent().map(digest).filter(|&key| outlook.may(key)).collect();
            assert_eq!(asked.len(), replay.keys(), "{text}");
            let (mut wrong, mut several) = (0, 0);
            for draw in 0..100_000_u64 {
                let place = crate::random::mix(draw) as usize % asked.len();
                let maybe = filter.contains(asked[place]);
                if maybe {
                    filter.adapt(asked[place]).expect("in memory");
                }
                several += usize::from(replay.range(place).len() > 1);
                assert_eq!(replay.play([place].into_iter()), u64::from(maybe), "{text}: {draw}");
                wrong += u64::from(maybe);
            }
            assert!(wrong > 5_000 && several > 500, "{text}: {wrong}, {several}");
            let Ok(None) = filter.unselected() else { panic!("{text}: it did adapt") };
        }
    }

    /// A stream that is longer than a batch, or as long, is played to its end.
    #[test]
    fn batches_have_no_borders() {
        let of_one = || Replay {
            selectors: vec![0],
            functions: 1,
            retry: false,
            collisions: vec![Collision { cell: 0, under: 1 }],
            starts: vec![0, 1],
        };
        for queries in [0, 1, 63, 64, 65, 128, 1000] {
            let played = of_one().play((0..queries).map(|_| 0));
            assert_eq!(played, queries, "of one key that cannot be told apart");
        }
    }
}
