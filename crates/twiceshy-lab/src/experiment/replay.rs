//! A cyclic, varying or swapping filter, as far as its answers to some absent keys go.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", sections 3.1 to 3.3 (algorithms
//! 2 and 4): adapting changes a stored key's selector, or its cell within its bin, and nothing
//! else. So what an absent key and a stored one have in common is known beforehand, for each
//! selector or cell, and a query needs no hash function and no remote: it looks up where the keys
//! are that it may collide with.

use twiceshy_filters::Digest;
use twiceshy_filters::internals::{Outlook, prefetch};

use crate::design::Design;

mod selectors;
mod swaps;

use selectors::Selectors;
use swaps::Swaps;

/// Queries that wait for memory at the same time.
const BATCH: usize = 64;

/// The filter.
pub struct Replay {
    rows: Rows,
    filter: Filter,
}

enum Filter {
    Selectors(Selectors),
    Swaps(Swaps),
}

/// The collisions of the absent keys that have any, key by key. Each key has as many rows as the
/// one with the most needs.
struct Rows {
    rows: Vec<Row>,
    per_key: usize,
    /// Of the keys, if the filter wants to know which one was a false positive.
    digests: Vec<Digest>,
}

/// An absent key and a stored one have the same fingerprint.
#[derive(Clone, Copy, Default)]
struct Collision {
    /// The cell in which the stored key was at first.
    cell: u32,
    /// With the selectors, or in the cells of the bin, whose bits are set.
    under: u32,
}

/// Of one absent key; those that it has no need for never collide. A row does not reach into a
/// second cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Row([Collision; IN_ROW]);

/// A key of four tables with one cell a bin needs one row.
const IN_ROW: usize = 4;

impl Replay {
    /// A filter that never adapted, and the absent keys that it will be asked for.
    pub fn new(outlook: &Outlook, design: &Design, absent: impl Iterator<Item = Digest>) -> Self {
        let set = |parameter| design.number(parameter) == Some(1);
        let (rows, cells) = Rows::new(outlook, absent);
        let filter = match outlook.coins.clone() {
            Some(coins) => Filter::Swaps(Swaps {
                slots: (0..cells).map(|cell| (cell % outlook.variants as usize) as u8).collect(),
                in_bin: outlook.variants as usize,
                retry: set("retry"),
                once: set("literal"),
                coins,
            }),
            None => Filter::Selectors(Selectors::new(cells, outlook.variants, set("retry"))),
        };
        Replay { rows, filter }
    }

    /// How many absent keys it may ever be wrong about.
    pub fn keys(&self) -> usize {
        self.rows.keys()
    }

    /// Asks for these keys, by their places among those that it may be wrong about, adapts to each
    /// false positive, and counts them.
    pub fn play(&mut self, places: impl Iterator<Item = usize>) -> u64 {
        match &mut self.filter {
            Filter::Selectors(filter) => self.rows.play(places, |rows, _| filter.ask(rows)),
            Filter::Swaps(filter) => {
                self.rows.play(places, |rows, key| filter.ask(rows, self.rows.digests[key]))
            }
        }
    }
}

impl Rows {
    /// Of all absent keys that have collisions; and how many cells these are in, whole bins of them.
    fn new(outlook: &Outlook, absent: impl Iterator<Item = Digest>) -> (Self, usize) {
        let (mut cells, mut most, mut digests) = (0, 0, Vec::new());
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
                if outlook.coins.is_some() {
                    digests.push(digest);
                }
            }
        }
        let per_key = most.div_ceil(IN_ROW).max(1);
        let mut rows = vec![Row::default(); per_key * (ends.len() - 1)];
        for (rows, ends) in rows.chunks_exact_mut(per_key).zip(ends.windows(2)) {
            let of_key = collisions[ends[0]..ends[1]].chunks(IN_ROW);
            rows.iter_mut().zip(of_key).for_each(|(row, of)| row.0[..of.len()].copy_from_slice(of));
        }
        (Rows { rows, per_key, digests }, cells.next_multiple_of(outlook.variants as usize))
    }

    fn keys(&self) -> usize {
        self.rows.len() / self.per_key
    }

    /// Counts the keys for which `ask`, with the rows and the place of each, says that they were
    /// false positives.
    #[inline]
    fn play(
        &self,
        mut places: impl Iterator<Item = usize>,
        mut ask: impl FnMut(&[Row], usize) -> bool,
    ) -> u64 {
        let mut false_positives = 0;
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            batch.clear();
            batch.extend(places.by_ref().take(BATCH));
            if batch.is_empty() {
                return false_positives;
            }
            for &place in &batch {
                prefetch(&self.rows, place * self.per_key);
                if !self.digests.is_empty() {
                    prefetch(&self.digests, place);
                }
            }
            for &place in &batch {
                let rows = &self.rows[place * self.per_key..][..self.per_key];
                false_positives += u64::from(ask(rows, place));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Curve, filled};
    use super::*;
    use crate::random::hasher;
    use crate::workload::{Size, Source};

    /// The same answers as the filter, one by one, and the same draws. Short fingerprints have a
    /// query collide with several keys at once, and with one key under several functions; many
    /// repeats take keys through all functions and back to the first.
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
            "swapping:f=5,k=2,b=4,retry=0",
            "swapping:f=3,k=2,b=2,retry=1",
            "swapping:f=4,k=3,b=4,retry=1",
            "swapping:f=4,k=2,b=4,retry=0,literal=1",
        ] {
            let size = Size { keys: Some(950), ratio: 6.0, queries: Some(1), ..Size::default() };
            let workload = Source::Uniform.workload(&size, 1).expect("a workload");
            let hasher = hasher(2);
            let curve = Curve::new(text);
            let mut filter = filled(&curve.design, &workload.stored, &hasher).expect("room");
            let digest = |key: u64| hasher.digest(key.to_le_bytes());
            let outlook =
                filter.replayable().expect("in memory").expect("all that changes is known");
            let absent = workload.absent().map(digest);
            let mut replay = Replay::new(&outlook, &curve.design, absent);
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
                let rows = &replay.rows;
                several += usize::from(rows.rows[place * rows.per_key].0[1].under != 0);
                assert_eq!(replay.play([place].into_iter()), u64::from(maybe), "{text}: {draw}");
                wrong += u64::from(maybe);
            }
            assert!(wrong > 5_000 && several > 500, "{text}: {wrong}, {several}");
            let again = filter.replayable().expect("in memory");
            assert_eq!(again.is_some(), text.starts_with("swapping"), "{text}: it did adapt");
        }
    }

    /// A stream that is longer than a batch, or as long, is played to its end.
    #[test]
    fn batches_have_no_borders() {
        let of_one = || Replay {
            rows: Rows {
                rows: vec![Row([Collision { cell: 0, under: 1 }; IN_ROW])],
                per_key: 1,
                digests: Vec::new(),
            },
            filter: Filter::Selectors(Selectors::new(1, 1, false)),
        };
        for queries in [0, 1, 63, 64, 65, 128, 1000] {
            let played = of_one().play((0..queries).map(|_| 0));
            assert_eq!(played, queries, "of one key that cannot be told apart");
        }
    }
}
