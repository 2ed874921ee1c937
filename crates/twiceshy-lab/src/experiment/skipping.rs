//! A workload's queries, less those that change nothing.
//!
//! Nearly every query of a figure is a true negative, after which the filter is as it was. Of most
//! keys that is known beforehand: they share no fingerprint with any stored key of their bins,
//! whatever the filter does ([`Contestant::outlook`]). Without their queries the others have the
//! same answers, one by one, and with 8 to 16 bits a cell they are 6 to 0.02 % of all with one
//! selector bit.
//!
//! Queries of independent uniform draws are not even drawn: those that are left are binomially
//! many, and uniform again ([`Workload::thinned`]). Of a cyclic or varying filter they do not even
//! ask the filter ([`Replay`]), and a filter that never adapts is wrong about all of them. So the
//! papers' 10^10 queries a trial take seconds to minutes.

use twiceshy_filters::KeyHasher;

use super::measure::{Failure, Played};
use super::replay::Replay;
use crate::contestant::Contestant;
use crate::workload::Workload;

/// Asks a filter for all absent keys of a workload, in its order, and tells it of each false
/// positive.
///
/// # Errors
/// None: the remote is in memory.
pub fn play(
    mut filter: Contestant,
    workload: &Workload,
    hasher: &KeyHasher,
) -> Result<Played, Failure> {
    let queries = workload.len();
    if !workload.is_uniform() {
        let relevant = relevant(&mut filter, workload, hasher)?;
        let ranks = workload.ranks().filter(|&rank| relevant.has(rank));
        let false_positives = ask(filter, workload, hasher, ranks)?;
        return Ok(Played { queries, false_positives });
    }
    let draws = |some: usize| workload.thinned(some as u64).into_iter().flatten();
    let false_positives = if let Some(outlook) = filter.replayable()? {
        let digests = workload.absent().map(|key| hasher.digest(key.to_le_bytes()));
        let mut replay = Replay::new(&outlook, &filter.design(), digests);
        replay.play(draws(replay.keys()))
    } else {
        let asked: Vec<u32> = relevant(&mut filter, workload, hasher)?.places().collect();
        if filter.never_adapts() {
            draws(asked.len()).count() as u64
        } else {
            ask(filter, workload, hasher, draws(asked.len()).map(|place| asked[place]))?
        }
    };
    Ok(Played { queries, false_positives })
}

/// Asks for some absent keys, by their places, and counts the false positives.
fn ask(
    mut filter: Contestant,
    workload: &Workload,
    hasher: &KeyHasher,
    ranks: impl Iterator<Item = u32>,
) -> Result<u64, Failure> {
    let mut false_positives = 0;
    for rank in ranks {
        let digest = hasher.digest(workload.key(rank).to_le_bytes());
        if filter.contains(digest) {
            filter.adapt(digest)?;
            false_positives += 1;
        }
    }
    Ok(false_positives)
}

/// A set of absent keys, by their places.
struct Ranks(Vec<u64>);

impl Ranks {
    #[inline]
    fn has(&self, rank: u32) -> bool {
        self.0[rank as usize / 64] >> (rank % 64) & 1 == 1
    }

    /// Those in the set, in order.
    fn places(&self) -> impl Iterator<Item = u32> + '_ {
        (0..64 * self.0.len() as u64).map(|rank| rank as u32).filter(|&rank| self.has(rank))
    }
}

/// The absent keys whose queries may change the filter.
fn relevant(
    filter: &mut Contestant,
    workload: &Workload,
    hasher: &KeyHasher,
) -> Result<Ranks, Failure> {
    let may = filter.outlook()?;
    let mut words = vec![0; workload.absent().len().div_ceil(64)];
    for (rank, key) in workload.absent().enumerate() {
        words[rank / 64] |= u64::from(may(hasher.digest(key.to_le_bytes()))) << (rank % 64);
    }
    Ok(Ranks(words))
}

#[cfg(test)]
mod tests {
    use super::super::measure::{Curve, filled};
    use super::*;
    use crate::random::hasher;
    use crate::workload::{Size, Source};

    fn workload(source: &Source, ratio: f64, queries: u64, seed: u64) -> Workload {
        let size = Size { keys: Some(1_900), ratio, queries: Some(queries), ..Size::default() };
        source.workload(&size, seed).expect("a workload")
    }

    /// The places of the false positives in the stream, of all queries or of the relevant ones.
    fn false_positives(curve: &Curve, workload: &Workload, skip: bool) -> Vec<usize> {
        let hasher = hasher(7);
        let mut filter = filled(&curve.design, &workload.stored, &hasher).expect("room");
        let relevant = relevant(&mut filter, workload, &hasher).expect("in memory");
        let mut places = Vec::new();
        for (place, rank) in workload.ranks().enumerate() {
            let digest = hasher.digest(workload.key(rank).to_le_bytes());
            if (!skip || relevant.has(rank)) && filter.contains(digest) {
                filter.adapt(digest).expect("in memory");
                places.push(place);
            }
        }
        places
    }

    /// Filters that can be told apart by what they skip, and the share of absent keys that they
    /// may ever be wrong about: of 3.8 stored keys in the bins of a query (7.6 in two bins of four
    /// cells), or of one run, one that shares any of the fingerprints.
    const FILTERS: [(&str, f64); 10] = [
        ("plain-full:f=6,k=4,b=1", 3.8 / 63.0),
        ("cyclic:f=7,s=1,k=4,b=1,retry=0", 3.8 * 2.0 / 128.0),
        ("cyclic:f=6,s=2,k=4,b=1,retry=1", 3.8 * 4.0 / 64.0),
        ("varying:f=6,s=1,r=2,k=4,b=1,retry=0", 3.8 * (1.0 / 95.0 + 2.0 / 16.0)),
        ("swapping:f=7,k=2,b=4,retry=0", 7.6 * 4.0 / 127.0),
        ("swapping:f=7,k=2,b=4,retry=1", 7.6 * 4.0 / 127.0),
        ("cached:f=6", 7.6 / 63.0),
        ("aqf:f=5,load=85", 0.85 / 32.0),
        ("cuckooing:f=7,k=4,b=1", 1.0),
        ("telescoping:f=7", 1.0),
    ];

    /// The same false positives at the same places of the same stream, with and without the queries
    /// that are skipped: in a random order of repeats, in skewed draws, and in uniform ones.
    #[test]
    fn without_the_queries_that_are_skipped_all_others_have_the_same_answers() {
        for (text, _) in FILTERS {
            let curve = Curve::new(text);
            for source in [Source::Repeats(12), Source::Zipf(0.8), Source::Uniform] {
                let workload = workload(&source, 8.0, 180_000, 3);
                let all = false_positives(&curve, &workload, false);
                assert!(all.len() > 80, "{text} on {source}: {}", all.len());
                assert!(all == false_positives(&curve, &workload, true), "{text} on {source}");
            }
        }
    }

    /// 38,000 absent keys: their number is about binomial, as each depends on its own digest and on
    /// few keys of 1,900; six standard deviations of twice its variance have probability 2 * 10^-5
    /// times less than 10^-6. What shares several fingerprints counts once, so the sum is a bound,
    /// which the share is at most a quarter below.
    #[test]
    fn as_many_keys_are_relevant_as_share_a_fingerprint() {
        for (text, bound) in FILTERS {
            let workload = workload(&Source::Repeats(1), 20.0, 1, 5);
            let hasher = hasher(9);
            let design = Curve::new(text).design;
            let mut filter = filled(&design, &workload.stored, &hasher).expect("room");
            let found = relevant(&mut filter, &workload, &hasher).expect("in memory");
            let found: u32 = found.0.iter().map(|word| word.count_ones()).sum();
            let sigma = (2.0 * bound / 38_000.0).sqrt();
            let share = f64::from(found) / 38_000.0;
            let range = 0.75 * bound - 6.0 * sigma..=bound + 6.0 * sigma;
            assert!(range.contains(&share), "{text}: {share}, at most {bound}");
        }
    }

    /// 100 trials of uniform draws each way, with seeds of their own: both means are of the same
    /// distribution. Two-sided, a difference of 5.5 standard errors (198 degrees of freedom) has
    /// probability 10^-7.
    #[test]
    fn draws_that_were_never_made_cost_as_much() {
        for text in ["cyclic:f=5,s=1,k=4,b=1,retry=0", "swapping:f=6,k=2,b=4,retry=0"] {
            let curve = Curve::new(text);
            let counts = [true, false].map(|skip| {
                let trial = |seed: u64| {
                    let seed = 2 * seed + u64::from(skip);
                    let workload = workload(&Source::Uniform, 5.0, 95_000, seed);
                    let hasher = hasher(seed);
                    let mut filter =
                        filled(&curve.design, &workload.stored, &hasher).expect("room");
                    if skip {
                        let played = play(filter, &workload, &hasher).expect("in memory");
                        assert_eq!(played.queries, 95_000);
                        return played.false_positives as f64;
                    }
                    let mut wrong = 0;
                    for key in workload.queries() {
                        let digest = hasher.digest(key.to_le_bytes());
                        if filter.contains(digest) {
                            filter.adapt(digest).expect("in memory");
                            wrong += 1;
                        }
                    }
                    f64::from(wrong)
                };
                let trials: Vec<f64> = (0..100).map(trial).collect();
                super::super::runner::mean_and_error(&trials)
            });
            let [(skipped, a), (plain, b)] = counts;
            assert!(((skipped - plain) / a.hypot(b)).abs() < 5.5, "{text}: {counts:?}");
        }
    }
}
