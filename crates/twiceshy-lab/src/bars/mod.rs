//! Bars: what an adaptive filter has to keep, measured with any filter by name.
//!
//! ```text
//! Experiment, entrant, Setting ─▶ run ─▶ Row, Row, ... ─▶ Verdicts
//!                                        one a seed       met or missed
//! ```
//!
//! The bars are those of the line filter with one bit per slot, `n` stored keys. `A` is the
//! number of distinct absent keys per stored key. `twiceshy bars` prints them.
//!
//! | experiment | file |
//! | --- | --- |
//! | memory and rate; both after replacements | `size.rs` |
//! | recorded streams at equal memory | `streams.rs` |
//! | every absent key a hundred times | `repeats.rs` |
//! | the telescoping paper's adversary, the recall adversary | `attacks.rs` |
//! | deletion and reinsertion of own keys | `renewal.rs` |
//! | the same mistake twice | `again.rs` |

mod again;
mod attacks;
mod renewal;
mod repeats;
mod row;
mod size;
mod streams;

use std::ops::Range;

use twiceshy_filters::{Digest, KeyHasher, Result};

use crate::contestant::Contestant;
use crate::entrants::Entrant;
use crate::race::Watch;
use crate::random::hasher;

pub use row::{Row, Verdict, Verdicts};
pub use streams::{OPPONENTS, Trace};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Experiment {
    /// Bits per key, and the first-pass rate.
    Size,
    /// Wasted reads on recorded streams, beside other filters of the same memory.
    Streams,
    /// Every absent key a hundred times in random order: the rate of the whole stream.
    Repeats,
    /// The telescoping paper's adversary: the rate of the last round.
    Telescoping,
    /// The adversary that keeps every false positive: the rate of known ones.
    Recall,
    /// Known false positives after keys were deleted and inserted again.
    Renewal,
    /// Queries that the filter has adapted to and that are false positives again.
    Again,
    /// Memory and rate after replacements at full load.
    Churn,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Experiment; 8] = [
        Experiment::Size,
        Experiment::Streams,
        Experiment::Repeats,
        Experiment::Telescoping,
        Experiment::Recall,
        Experiment::Renewal,
        Experiment::Again,
        Experiment::Churn,
    ];

    /// The name on the command line and in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Experiment::Size => "size",
            Experiment::Streams => "streams",
            Experiment::Repeats => "repeats",
            Experiment::Telescoping => "telescoping",
            Experiment::Recall => "recall",
            Experiment::Renewal => "renewal",
            Experiment::Again => "again",
            Experiment::Churn => "churn",
        }
    }

    /// What it measures, in one sentence.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Experiment::Size => "bits per key and first-pass rate",
            Experiment::Streams => {
                "wasted reads per million misses on recorded streams, a tenth of the keys stored, \
                 geometric mean, beside others with the same memory"
            }
            Experiment::Repeats => "each of A n absent keys 100 times in random order: total rate",
            Experiment::Telescoping => "the telescoping paper's adversary: rate of its last round",
            Experiment::Recall => {
                "asks all known false positives ten times a round: their rate in the last 5 of 20 \
                 rounds"
            }
            Experiment::Renewal => {
                "deletes and inserts every key: known false positives against new ones"
            }
            Experiment::Again => "share of queries adapted to that are false positives again",
            Experiment::Churn => "memory, rate and rebuilds after 5 n replacements at full load",
        }
    }

    /// Seeds that its bars are measured with.
    #[must_use]
    pub const fn seeds(self) -> u64 {
        match self {
            Experiment::Telescoping => 8,
            Experiment::Streams => 5,
            Experiment::Recall | Experiment::Renewal => 2,
            // A million keys, or a thousand million queries, are enough by themselves.
            Experiment::Size | Experiment::Repeats | Experiment::Again | Experiment::Churn => 1,
        }
    }

    /// Numbers of keys that its bars are measured with.
    #[must_use]
    pub const fn keys(self) -> &'static [u64] {
        match self {
            Experiment::Size | Experiment::Again | Experiment::Churn => &[1_000_000],
            Experiment::Repeats | Experiment::Recall | Experiment::Renewal => &[62_259],
            Experiment::Telescoping => &[62_259, 249_036],
            // As the streams have it.
            Experiment::Streams => &[],
        }
    }

    /// Steps of a run, for a progress bar: queries, or nearly so.
    #[must_use]
    pub fn steps(self, setting: &Setting) -> u64 {
        if self == Experiment::Streams {
            return setting.seeds(self) * streams::steps(&setting.traces);
        }
        let for_a_key: f64 = match self {
            Experiment::Size => 11.0,
            Experiment::Repeats => repeats::RATIOS.iter().sum::<f64>() * repeats::TIMES as f64,
            Experiment::Telescoping => attacks::telescoping_steps(),
            Experiment::Recall => attacks::recall_steps(),
            Experiment::Renewal => renewal::STEPS,
            Experiment::Again => again::STEPS,
            Experiment::Churn => size::CHURN_STEPS,
            Experiment::Streams => unreachable!("they are counted above"),
        };
        let keys: u64 = setting.keys(self).iter().sum();
        setting.seeds(self) * (keys as f64 * for_a_key) as u64
    }

    /// Measures a filter and hands out a row for each condition and seed.
    ///
    /// # Errors
    /// The keys do not fit the filter, or the filter cannot be built.
    pub fn run(
        self,
        entrant: &Entrant,
        setting: &Setting,
        watch: &dyn Watch,
        emit: &mut dyn FnMut(Row),
    ) -> Result<()> {
        if self == Experiment::Streams {
            return streams::run(entrant, setting, watch, emit);
        }
        for &keys in setting.keys(self) {
            for seed in setting.seed_range(self) {
                watch.phase(format!("{}: {}, seed {seed}", entrant.name, self.name()));
                let trial = &mut Trial { experiment: self, entrant, keys, seed, watch, emit };
                match self {
                    Experiment::Size => size::fresh(trial)?,
                    Experiment::Repeats => repeats::run(trial)?,
                    Experiment::Telescoping => attacks::telescoping(trial)?,
                    Experiment::Recall => attacks::recall(trial)?,
                    Experiment::Renewal => renewal::run(trial)?,
                    Experiment::Again => again::run(trial)?,
                    Experiment::Churn => size::churn(trial)?,
                    Experiment::Streams => unreachable!("they have keys of their own"),
                }
            }
        }
        Ok(())
    }
}

/// With which keys and seeds to measure.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Stored keys instead of [`Experiment::keys`], for quick runs.
    pub keys: Option<[u64; 1]>,
    /// Seeds instead of [`Experiment::seeds`].
    pub seeds: Option<u64>,
    /// The first seed.
    pub seed: u64,
    /// Bits per key on recorded streams, instead of those that the filter takes.
    pub bits: Option<f64>,
    /// The recorded streams.
    pub traces: Vec<Trace>,
}

impl Setting {
    fn keys(&self, experiment: Experiment) -> &[u64] {
        self.keys.as_ref().map_or(experiment.keys(), |keys| keys)
    }

    fn seeds(&self, experiment: Experiment) -> u64 {
        self.seeds.unwrap_or(experiment.seeds())
    }

    fn seed_range(&self, experiment: Experiment) -> Range<u64> {
        self.seed..self.seed + self.seeds(experiment)
    }
}

/// One filter, one number of keys, one seed.
struct Trial<'a> {
    experiment: Experiment,
    entrant: &'a Entrant,
    keys: u64,
    seed: u64,
    watch: &'a dyn Watch,
    emit: &'a mut dyn FnMut(Row),
}

impl Trial<'_> {
    /// An empty filter for the keys, as its spec says.
    fn build(&self) -> Result<Contestant> {
        let keys = usize::try_from(self.keys).expect("keys that fit the memory");
        self.entrant.at_paper_size()?.build(keys)
    }

    /// The filter with its keys in it: those of the numbers below [`Trial::keys`].
    fn filled(&self) -> Result<(Contestant, KeyHasher)> {
        let (mut filter, hasher) = (self.build()?, hasher(self.seed));
        for key in 0..self.keys {
            filter.insert(digest(&hasher, key))?;
        }
        Ok((filter, hasher))
    }

    /// Stored keys that the filter denies.
    fn denied(&self, filter: &Contestant, hasher: &KeyHasher) -> u64 {
        (0..self.keys).filter(|&key| !filter.contains(digest(hasher, key))).count() as u64
    }

    /// Hands out a row: what was measured of the filter as it is now, and its bar.
    fn emit(&mut self, filter: &Contestant, condition: impl Into<String>, value: f64) -> RowOf<'_> {
        let mut row = Row::new(self.experiment, &self.entrant.name, filter);
        row.condition = condition.into();
        row.keys = self.keys;
        row.seed = Some(self.seed);
        row.value = value;
        RowOf { row, emit: self.emit }
    }
}

/// A row that is handed out when it is complete.
struct RowOf<'a> {
    row: Row,
    emit: &'a mut dyn FnMut(Row),
}

impl RowOf<'_> {
    /// At most this much is good enough.
    fn at_most(mut self, most: f64) -> Self {
        self.row.most = Some(most);
        self.row.met = Some(self.row.value <= most);
        self
    }

    /// Whether the bar is met, where a comparison of numbers does not say.
    fn met(mut self, met: bool) -> Self {
        self.row.met = Some(met);
        self
    }

    /// With so many stored keys denied.
    fn done(mut self, false_negatives: u64) {
        self.row.false_negatives = false_negatives;
        (self.emit)(self.row);
    }
}

fn digest(hasher: &KeyHasher, key: u64) -> Digest {
    hasher.digest(key.to_le_bytes())
}

/// Queries between two calls of [`Watch::advance`].
const STRIDE: u64 = 1 << 16;

/// Asks the queries in order and tells the filter of its false positives, which it returns.
fn ask(
    filter: &mut Contestant,
    hasher: &KeyHasher,
    queries: impl Iterator<Item = u64>,
    watch: &dyn Watch,
) -> Result<Vec<u64>> {
    let mut positive = Vec::new();
    let mut asked = 0;
    for query in queries {
        let digest = digest(hasher, query);
        if filter.contains(digest) {
            positive.push(query);
            filter.adapt(digest)?;
        }
        asked += 1;
        if asked % STRIDE == 0 {
            watch.advance(STRIDE as usize);
        }
    }
    Ok(positive)
}
