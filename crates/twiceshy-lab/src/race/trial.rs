//! One filter's part of a race:
//!
//! ```text
//! insert all keys ─▶ check ─▶ first pass ─▶ stream, adapting ─▶ check
//!    insert_ns         │    first_pass_rate  false_positives      │
//!                      │        query_ns     remote_reads         │
//!                      └───────────────────  adapt_ns  ───────────┴─▶ false_negatives
//! ```

use std::time::{Duration, Instant};

use serde::Serialize;
use twiceshy_filters::{Adapted, Digest, Error, Spec};

use crate::contestant::Contestant;
use crate::entrants::Entrant;
use crate::random::hasher;
use crate::workload::{self, Size, Source, reserve};

/// The version of [`Row`] as scripts know it.
const SCHEMA: &str = "twiceshy.race.v1";

/// Steps between two calls of [`Watch::advance`]: often enough for a bar that moves smoothly,
/// rarely enough to cost nothing.
const STRIDE: usize = 1 << 14;

/// Follows a trial, such as a progress bar.
pub trait Watch {
    /// Says what is going on now.
    fn phase(&self, name: String);

    /// Some steps are done. There are [`Course::steps`] in all.
    fn advance(&self, steps: usize);
}

/// Nobody follows it.
impl Watch for () {
    fn phase(&self, _: String) {}

    fn advance(&self, _: usize) {}
}

/// What a filter did. The names of the fields are those of the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    schema: &'static str,
    /// As the user wrote it.
    #[serde(skip)]
    pub name: String,
    /// Its label: the kind, with the selector bits of a cyclic filter.
    pub filter: String,
    /// The full description, with the fingerprint length that fits.
    pub spec: String,
    workload: String,
    keys: u64,
    /// Absent keys for each stored one, rounded.
    distinct: u64,
    /// The stream's exponent, if it has one.
    zipf: Option<f64>,
    seed: u64,
    /// Memory that it was given.
    bits: f64,
    /// Memory that it takes.
    pub bits_per_key: f64,
    /// The share of its cells that are occupied.
    pub load: f64,
    /// The share of the absent keys that were answered "maybe" at first.
    pub first_pass_rate: f64,
    /// Queries in the stream.
    pub queries: u64,
    /// Queries of the stream that were answered "maybe".
    pub false_positives: u64,
    /// Stored keys answered "absent", after the insertions or at the end.
    pub false_negatives: u64,
    /// Reads of the remote in the stream.
    pub remote_reads: u64,
    /// False positives that it adapted to.
    adaptations: u64,
    rebuilds: u64,
    /// False positives that it had no room to adapt to, where it counts them.
    pub refused: u64,
    /// Mean time of an insertion, its remote's included.
    pub insert_ns: f64,
    /// Mean time of a query in the first pass.
    pub query_ns: f64,
    /// Mean time of an adaptation; `None` where there was none.
    pub adapt_ns: Option<f64>,
    /// What had happened after each of 200 equal parts of the stream.
    #[serde(skip)]
    pub curve: Vec<Checkpoint>,
    /// Whether it adapts.
    #[serde(skip)]
    pub adapts: bool,
}

/// What has happened up to a point of the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Queries.
    pub queries: u64,
    /// Queries that were answered "maybe".
    pub false_positives: u64,
    /// Reads of the remote.
    pub reads: u64,
}

/// Points of a curve.
const CHECKPOINTS: usize = 200;

impl Row {
    /// A broom filter's space as its theorem has it, with the constant measured:
    /// `(1 + alpha) n log2(1/epsilon) + O(n)`. `None` for other filters.
    #[must_use]
    pub fn space_beside_the_fingerprints(&self) -> Option<String> {
        let Ok(spec @ Spec::Broom(_)) = self.spec.parse() else { return None };
        let (per_bit, remainder) = (1.0 / self.load, f64::from(spec.cell_bits()));
        let constant = self.bits_per_key - per_bit * remainder;
        Some(format!(
            "{per_bit:.2} n log2(1/epsilon) + {constant:.2} n bits, epsilon = 2^-{remainder}"
        ))
    }
}

/// What all filters face with one seed: made once, and shared.
pub struct Course {
    /// The workload's name.
    pub workload: String,
    zipf: Option<f64>,
    /// What it was drawn by.
    pub seed: u64,
    /// The stored keys.
    pub stored: Vec<Digest>,
    /// The absent keys.
    pub absent: Vec<Digest>,
    /// The queries: places in `absent`.
    pub stream: Vec<u32>,
}

impl Course {
    /// Makes keys and queries.
    ///
    /// # Errors
    /// There is no such workload, or no memory for it.
    pub fn new(source: &Source, size: &Size, seed: u64) -> Result<Self, workload::Error> {
        let workload = source.workload(size, seed)?;
        let hasher = hasher(seed);
        let digest = |key: u64| hasher.digest(key.to_le_bytes());
        let mut stored = reserve(workload.stored.len() as u64, "stored keys")?;
        stored.extend(workload.stored.iter().copied().map(digest));
        let mut absent = reserve(workload.absent().len() as u64, "absent keys")?;
        absent.extend(workload.absent().map(digest));
        let mut stream = reserve(workload.len(), "queries")?;
        stream.extend(workload.ranks());
        let zipf = match source {
            Source::Uniform => Some(0.0),
            Source::Zipf(exponent) => Some(*exponent),
            _ => None,
        };
        Ok(Course { workload: workload.name, zipf, seed, stored, absent, stream })
    }

    /// Steps of a trial.
    #[must_use]
    pub fn steps(&self) -> u64 {
        const PASSES_OVER_THE_STORED: u64 = 3;
        PASSES_OVER_THE_STORED * self.keys() + self.negatives() + self.queries()
    }

    fn keys(&self) -> u64 {
        self.stored.len() as u64
    }

    fn negatives(&self) -> u64 {
        self.absent.len() as u64
    }

    fn queries(&self) -> u64 {
        self.stream.len() as u64
    }
}

/// Sends a filter over the course.
///
/// # Errors
/// The filter does not fit the memory, or the keys do not fit the filter.
pub fn run(entrant: &Entrant, bits: f64, course: &Course, watch: &dyn Watch) -> Result<Row, Error> {
    let Course { stored, absent, .. } = course;
    let phase = |name: &str| watch.phase(format!("{}: {name}", entrant.name));
    let mut filter = entrant.build_within(stored.len(), bits)?;

    phase("insertions");
    let inserting = time(stored, watch, |key| filter.insert(key).map(drop))?;
    phase("check");
    let denied_at_first = denied(&filter, stored, watch);

    phase("first pass");
    let mut first_positives = 0_u64;
    let querying = time(absent, watch, |key| {
        first_positives += u64::from(filter.contains(key));
        Ok(())
    })?;

    phase("stream");
    let reads_before = filter.accesses().reads;
    let stream = play(&mut filter, course, watch)?;
    let remote_reads = filter.accesses().reads - reads_before;
    phase("check");
    let denied_at_last = denied(&filter, stored, watch);

    let stats = filter.stats();
    Ok(Row {
        schema: SCHEMA,
        name: entrant.name.clone(),
        filter: filter.label(),
        spec: filter.spec(),
        workload: course.workload.clone(),
        keys: course.keys(),
        distinct: (course.negatives() as f64 / course.keys() as f64).round() as u64,
        zipf: course.zipf,
        seed: course.seed,
        bits,
        bits_per_key: stats.bits_per_key(),
        load: stats.load(),
        first_pass_rate: first_positives as f64 / course.negatives() as f64,
        queries: course.queries(),
        false_positives: stream.false_positives,
        false_negatives: denied_at_first + denied_at_last,
        remote_reads,
        adaptations: stats.adaptations,
        rebuilds: stats.rebuilds,
        refused: filter.refused(),
        insert_ns: mean_ns(inserting, course.keys()),
        query_ns: mean_ns(querying, course.negatives()),
        adapt_ns: (stream.false_positives != 0)
            .then(|| mean_ns(stream.adapting, stream.false_positives)),
        curve: stream.curve,
        adapts: entrant.design.adapts(),
    })
}

/// What the stream brought.
struct Stream {
    false_positives: u64,
    adapting: Duration,
    curve: Vec<Checkpoint>,
}

/// Asks every query of the stream, and tells the filter of its false positives.
fn play(filter: &mut Contestant, course: &Course, watch: &dyn Watch) -> Result<Stream, Error> {
    let mut stream = Stream { false_positives: 0, adapting: Duration::ZERO, curve: Vec::new() };
    let before = filter.accesses().reads;
    let mut ranks = watched(course.stream.iter(), watch);
    let (all, mut asked) = (course.stream.len(), 0);
    for part in 1..=CHECKPOINTS {
        // all * part / CHECKPOINTS, without a product that may be too large.
        let end = all / CHECKPOINTS * part + all % CHECKPOINTS * part / CHECKPOINTS;
        for &rank in ranks.by_ref().take(end - asked) {
            let key = course.absent[rank as usize];
            if filter.contains(key) {
                stream.false_positives += 1;
                let start = Instant::now();
                let outcome = filter.adapt(key)?;
                stream.adapting += start.elapsed();
                assert!(
                    matches!(outcome, Adapted::Fixed | Adapted::Unfixed),
                    "{key:?} is not stored and was answered \"maybe\", yet adapt says {outcome:?}"
                );
            }
        }
        asked = end;
        stream.curve.push(Checkpoint {
            queries: asked as u64,
            false_positives: stream.false_positives,
            reads: filter.accesses().reads - before,
        });
    }
    Ok(stream)
}

/// Stored keys that the filter answers "absent".
fn denied(filter: &Contestant, stored: &[Digest], watch: &dyn Watch) -> u64 {
    watched(stored.iter(), watch).filter(|&&key| !filter.contains(key)).count() as u64
}

/// Time of an operation on all keys, without that of [`Watch::advance`].
fn time(
    keys: &[Digest],
    watch: &dyn Watch,
    mut operation: impl FnMut(Digest) -> Result<(), Error>,
) -> Result<Duration, Error> {
    let mut spent = Duration::ZERO;
    for chunk in keys.chunks(STRIDE) {
        let start = Instant::now();
        chunk.iter().try_for_each(|&key| operation(key))?;
        spent += start.elapsed();
        watch.advance(chunk.len());
    }
    Ok(spent)
}

/// Passes items through, each one step.
fn watched<T>(items: impl Iterator<Item = T>, watch: &dyn Watch) -> impl Iterator<Item = T> {
    items.enumerate().map(|(index, item)| {
        if (index + 1).is_multiple_of(STRIDE) {
            watch.advance(STRIDE);
        }
        item
    })
}

fn mean_ns(total: Duration, operations: u64) -> f64 {
    total.as_nanos() as f64 / operations as f64
}

#[cfg(test)]
mod tests {
    use twiceshy_filters::KeyHasher;

    use super::*;

    /// A swapping filter reads more than its false positives.
    #[test]
    fn a_curve_ends_with_what_the_row_says() {
        let source: Source = "repeats:5".parse().expect("a workload");
        let size = Size { keys: Some(10_000), ratio: 5.0, queries: None, scale: 1.0 };
        let course = Course::new(&source, &size, 1).expect("small");
        let entrant = &crate::entrants::parse("swapping").expect("a filter").0[0];
        let row = run(entrant, 11.6, &course, &()).expect("it fits");
        let Row { queries, false_positives, remote_reads: reads, .. } = row;
        assert_eq!(row.curve.last(), Some(&Checkpoint { queries, false_positives, reads }));
        assert!(reads > false_positives && false_positives > 0 && row.curve.len() == CHECKPOINTS);
    }

    /// Of 1000 keys that are not stored, a filter with 12-bit fingerprints and 8
    /// cells a query calls each "maybe" with probability below 0.002: more than
    /// 20 of them with probability below C(1000, 21) * 0.002^21 < 10^-13.
    #[test]
    fn keys_that_the_filter_denies_are_counted() {
        let hasher = KeyHasher::keyed([7; 16]);
        let keys: Vec<Digest> = (0..2000_u32).map(|key| hasher.digest(key.to_le_bytes())).collect();
        let mut filter =
            Contestant::new("plain:f=12".parse::<Spec>().unwrap().build(1000).unwrap());
        for &key in &keys[..1000] {
            filter.insert(key).unwrap();
        }
        assert_eq!(denied(&filter, &keys[..1000], &()), 0);
        assert!(denied(&filter, &keys, &()) > 980);
    }
}
