//! A cyclic or varying filter, as far as its answers to some absent keys go.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 3.1 (algorithm 2) and
//! 3.2: adapting changes a stored key's selector and nothing else. So what an absent key and the
//! key of a cell have in common is known beforehand, for each selector, and a query needs no hash
//! function and no remote: it looks up the selectors of the cells whose keys it may collide with.

use twiceshy_filters::Digest;
use twiceshy_filters::internals::{Outlook, prefetch};

/// Queries that wait for memory at the same time.
const BATCH: usize = 64;

/// The filter.
pub struct Replay {
    /// Of each cell's key.
    selectors: Vec<u8>,
    functions: u8,
    /// Whether adapting avoids a function under which the query still collides.
    retry: bool,
    /// The collisions of the absent keys that have any, key by key. Each key has as many rows as
    /// the one with the most needs.
    rows: Vec<Row>,
    rows_per_key: usize,
}

/// An absent key and the key of a cell have the same fingerprint.
#[derive(Clone, Copy, Default)]
struct Collision {
    cell: u32,
    /// Under the functions whose bits are set.
    under: u32,
}

/// Of one absent key; those that it has no need for are under no function. A row does not reach
/// into a second cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Row([Collision; IN_ROW]);

/// A key of four tables with one cell a bin needs one row.
const IN_ROW: usize = 4;

impl Replay {
    /// A filter that never adapted, and the absent keys that it will be asked for.
    pub fn new(outlook: &Outlook, retry: bool, absent: impl Iterator<Item = Digest>) -> Self {
        let (mut cells, mut most) = (0, 0);
        let (mut collisions, mut ends) = (Vec::new(), vec![0]);
        for digest in absent {
            let first = collisions.len();
            outlook.collisions(digest, &mut |cell, under| {
                cells = cells.max(cell + 1);
                let cell = u32::try_from(cell).expect("2^32 cells do not fit the lab");
                collisions.push(Collision { cell, under });
            });
            if collisions.len() > first {
                most = most.max(collisions.len() - first);
                ends.push(collisions.len());
            }
        }
        let rows_per_key = most.div_ceil(IN_ROW).max(1);
        let mut rows = vec![Row::default(); rows_per_key * (ends.len() - 1)];
        for (rows, ends) in rows.chunks_exact_mut(rows_per_key).zip(ends.windows(2)) {
            let of_key = collisions[ends[0]..ends[1]].chunks(IN_ROW);
            rows.iter_mut().zip(of_key).for_each(|(row, of)| row.0[..of.len()].copy_from_slice(of));
        }
        let functions = u8::try_from(outlook.variants).expect("32 at most");
        Replay { selectors: vec![0; cells], functions, retry, rows, rows_per_key }
    }

    /// How many absent keys it may ever be wrong about.
    pub fn keys(&self) -> usize {
        self.rows.len() / self.rows_per_key
    }

    /// Asks for these keys, by their places among those that it may be wrong about, adapts to each
    /// false positive, and counts them.
    pub fn play(&mut self, mut places: impl Iterator<Item = usize>) -> u64 {
        let mut false_positives = 0;
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            batch.extend(places.by_ref().take(BATCH).map(|place| place * self.rows_per_key));
            if batch.is_empty() {
                return false_positives;
            }
            batch.iter().for_each(|&first| prefetch(&self.rows, first));
            for &first in &batch {
                let mut wrong = false;
                for row in first..first + self.rows_per_key {
                    wrong |= self.meet(self.rows[row]);
                }
                false_positives += u64::from(wrong);
            }
        }
    }

    /// Whether a query collides with the keys of any of these cells, which then move on to another
    /// function.
    #[inline]
    fn meet(&mut self, Row(collisions): Row) -> bool {
        let mut wrong = false;
        for Collision { cell, under } in collisions {
            let selector = self.selectors[cell as usize];
            if under >> selector & 1 == 1 {
                self.selectors[cell as usize] = self.next(selector, under);
                wrong = true;
            }
        }
        wrong
    }

    /// The function after `selector`; with `retry`, the next one under which query and key differ,
    /// if there is one.
    fn next(&self, selector: u8, under: u32) -> u8 {
        let after = |selector| if selector + 1 == self.functions { 0 } else { selector + 1 };
        let mut next = after(selector);
        while self.retry && next != selector && under >> next & 1 == 1 {
            next = after(next);
        }
        // They differ under none of them.
        if next == selector { after(selector) } else { next }
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
                several += usize::from(replay.rows[place * replay.rows_per_key].0[1].under != 0);
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
            rows: vec![Row([Collision { cell: 0, under: 1 }; IN_ROW])],
            rows_per_key: 1,
        };
        for queries in [0, 1, 63, 64, 65, 128, 1000] {
            let played = of_one().play((0..queries).map(|_| 0));
            assert_eq!(played, queries, "of one key that cannot be told apart");
        }
    }
}
