//! Rounds, minima and ratios.

use std::hint::black_box;
use std::time::Instant;

use crate::contender::{Adaptations, Contender, Entry};
use crate::report::Progress;
use crate::workload::{Item, Workload};

/// From this many keys on a pass over them takes long enough to be timed once.
pub const LARGE: usize = 4_000_000;

/// Passes over fewer keys; the fastest counts.
const SMALL_PASSES: usize = 3;

/// How to measure.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    /// Times every contender is measured.
    pub rounds: usize,
    /// Only contenders whose name contains one of these, or all if there are none.
    pub only: &'a [String],
    /// Where to say what is going on.
    pub progress: &'a Progress,
}

impl Plan<'_> {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| name.contains(part))
    }
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Building from empty, allocation included.
    Insert,
    /// Asking for absent keys.
    Negative,
    /// Asking for stored keys.
    Positive,
    /// Asking for absent keys in batches.
    Batch,
    /// Taking every stored key out.
    Delete,
    /// Building from keys in order, allocation included.
    Bulk,
    /// Building from empty without a remote.
    InsertAlone,
    /// Taking every stored key out without a remote.
    DeleteAlone,
    /// Telling the filter of one false positive; the median.
    Adapt,
    /// Asking for absent keys after a few misses per key were learned from.
    NegativeLearned,
    /// Asking for stored keys after as many.
    PositiveLearned,
    /// Asking for absent keys after many misses per key.
    NegativeWorn,
    /// Asking for stored keys after as many.
    PositiveWorn,
    /// Asking for absent keys, one reader.
    OneReader,
    /// Each of two readers asking at the same time.
    TwoReaders,
}

impl Op {
    /// All of them, in the order of the columns.
    pub const ALL: [Op; 15] = [
        Op::Insert,
        Op::Negative,
        Op::Positive,
        Op::Batch,
        Op::Delete,
        Op::Bulk,
        Op::InsertAlone,
        Op::DeleteAlone,
        Op::Adapt,
        Op::NegativeLearned,
        Op::PositiveLearned,
        Op::NegativeWorn,
        Op::PositiveWorn,
        Op::OneReader,
        Op::TwoReaders,
    ];

    /// Its name in the tables.
    pub const fn name(self) -> &'static str {
        match self {
            Op::Insert => "insert",
            Op::Negative => "negative",
            Op::Positive => "positive",
            Op::Batch => "batch neg.",
            Op::Delete => "delete",
            Op::Bulk => "bulk build",
            Op::InsertAlone => "insert alone",
            Op::DeleteAlone => "delete alone",
            Op::Adapt => "adapt",
            Op::NegativeLearned => "neg. after few misses",
            Op::PositiveLearned => "pos. after few",
            Op::NegativeWorn => "neg. after many",
            Op::PositiveWorn => "pos. after many",
            Op::OneReader => "1 reader",
            Op::TwoReaders => "2 readers",
        }
    }
}

/// What one contender is and took, round by round.
#[derive(Default)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Keys that went in before one found no room.
    pub stored: usize,
    /// Keys that did not go in.
    pub refused: usize,
    /// Stored keys that it denied.
    pub denied: usize,
    /// Absent keys answered "maybe", as a share.
    pub rate: f64,
    /// Memory a stored key.
    pub bits_per_key: f64,
    /// The share of cells that are occupied.
    pub load: Option<f64>,
    /// Keys moved, a stored key.
    pub kicks_per_key: Option<f64>,
    /// How it adapted before it was asked.
    pub adaptations: Option<Adaptations>,
    /// Times, round by round.
    rounds: Vec<Times>,
}

/// Nanoseconds an item, by operation.
pub type Times = [Option<f64>; Op::ALL.len()];

impl Series {
    /// Of a contender that was not measured yet.
    pub fn new(name: String) -> Self {
        Series { name, ..Series::default() }
    }

    /// Adds the times of a round.
    pub fn push(&mut self, times: Times) {
        self.rounds.push(times);
    }

    /// The times of an operation, in the order of the rounds.
    pub fn times(&self, op: Op) -> Vec<f64> {
        self.rounds.iter().filter_map(|round| round[op as usize]).collect()
    }

    /// The shortest time of an operation.
    pub fn min(&self, op: Op) -> Option<f64> {
        self.times(op).into_iter().min_by(f64::total_cmp)
    }

    /// How much longer the median time is than the shortest.
    pub fn noise(&self, op: Op) -> Option<f64> {
        Some(median(self.times(op))? / self.min(op)?)
    }
}

/// How much longer `op` took `series` than `other_op` took `other`, in each
/// round; the smallest, the median and the largest.
pub fn ratio(series: &Series, op: Op, other: &Series, other_op: Op) -> Option<[f64; 3]> {
    let (times, others) = (series.times(op), other.times(other_op));
    let mut ratios: Vec<f64> = times.iter().zip(&others).map(|(a, b)| a / b).collect();
    ratios.sort_by(f64::total_cmp);
    Some([*ratios.first()?, median(ratios.clone())?, *ratios.last()?])
}

/// The middle value.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Nanoseconds an item that `work` takes, and what it gives.
pub fn time<T>(items: usize, work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let outcome = black_box(work());
    (start.elapsed().as_nanos() as f64 / items as f64, outcome)
}

/// The fastest of several passes over as many items.
fn fastest<T>(items: usize, mut work: impl FnMut() -> T) -> (f64, T) {
    let (mut best, mut outcome) = time(items, &mut work);
    for _ in 1..if items < LARGE { SMALL_PASSES } else { 1 } {
        let (again, repeated) = time(items, &mut work);
        best = best.min(again);
        outcome = repeated;
    }
    (best, outcome)
}

/// Builds, asks and empties every entry once a round.
pub fn run<I: Item>(entries: &[Entry<I>], work: &Workload<I>, plan: &Plan<'_>) -> Vec<Series> {
    rounds(entries, work.stored.len(), plan, |entry, series| {
        let (insert, mut filter) = build(entry, &work.stored, series);
        let mut times = ask(&mut *filter, work, series);
        times[Op::Insert as usize] = Some(insert);
        series.rounds.push(times);
    })
}

/// The same, and builds every entry from keys in order as well.
pub fn run_with_bulk<I: Item>(
    entries: &[Entry<I>],
    work: &Workload<I>,
    plan: &Plan<'_>,
) -> Vec<Series> {
    rounds(entries, work.stored.len(), plan, |entry, series| {
        let (insert, mut filter) = build(entry, &work.stored, series);
        let mut times = ask(&mut *filter, work, series);
        times[Op::Insert as usize] = Some(insert);
        times[Op::Bulk as usize] = build_sorted(&mut *filter, work, series);
        series.rounds.push(times);
    })
}

/// Builds every entry once a round, and asks nothing.
pub fn run_builds<I: Item>(entries: &[Entry<I>], stored: &[I], plan: &Plan<'_>) -> Vec<Series> {
    rounds(entries, stored.len(), plan, |entry, series| {
        let mut times = Times::default();
        times[Op::Insert as usize] = Some(build(entry, stored, series).0);
        series.rounds.push(times);
    })
}

fn rounds<I: Item>(
    entries: &[Entry<I>],
    keys: usize,
    plan: &Plan<'_>,
    measure: impl Fn(&Entry<I>, &mut Series),
) -> Vec<Series> {
    let wanted = || entries.iter().filter(|entry| plan.wants(&entry.name));
    let mut all: Vec<Series> = wanted().map(|entry| Series::new(entry.name.clone())).collect();
    for round in 1..=plan.rounds {
        for (entry, series) in wanted().zip(&mut all) {
            let Plan { rounds, progress, .. } = plan;
            progress.step(|| format!("{keys} keys, round {round} of {rounds}: {}", entry.name));
            measure(entry, series);
        }
    }
    all
}

/// Builds an entry: nanoseconds a key, and the filter.
fn build<I: Item>(
    entry: &Entry<I>,
    stored: &[I],
    series: &mut Series,
) -> (f64, Box<dyn Contender<I>>) {
    let (insert, (mut filter, taken)) = time(stored.len(), || {
        let mut filter = (entry.make)(stored.len());
        let taken = filter.fill(stored);
        (filter, taken)
    });
    series.stored = taken;
    series.refused = stored.len() - taken;
    series.adaptations = filter.adapt_first();
    series.bits_per_key = filter.bits() as f64 / taken as f64;
    series.load = filter.load();
    series.kicks_per_key = filter.kicks().map(|kicks| kicks as f64 / taken as f64);
    (insert, filter)
}

/// Asks a filter in every way it has, and empties it.
fn ask<I: Item>(filter: &mut dyn Contender<I>, work: &Workload<I>, series: &mut Series) -> Times {
    let (kept, absent) = (&work.stored[..series.stored], work.absent.as_slice());
    let (negative, false_positives) = fastest(absent.len(), || filter.hits(absent));
    let (positive, found) = fastest(kept.len(), || filter.hits(kept));
    series.rate = false_positives as f64 / absent.len() as f64;
    series.denied = kept.len() - found;

    let (batch, in_batches) = fastest(absent.len(), || filter.hits_in_batches(absent));
    if let Some(in_batches) = in_batches {
        assert_eq!(in_batches, false_positives, "{}: a batch answers as one by one", series.name);
    }
    let (delete, deleted) = time(kept.len(), || filter.empty(kept));
    let mut times = Times::default();
    times[Op::Negative as usize] = Some(negative);
    times[Op::Positive as usize] = Some(positive);
    times[Op::Batch as usize] = in_batches.map(|_| batch);
    times[Op::Delete as usize] = deleted.map(|_| delete);
    times
}

/// Builds a filter from the stored items in order, where it can.
fn build_sorted<I: Item>(
    filter: &mut dyn Contender<I>,
    work: &Workload<I>,
    series: &Series,
) -> Option<f64> {
    let kept = &work.stored[..series.stored];
    let sorted = filter.sorted(kept)?;
    let (bulk, taken) = fastest(sorted.len(), || filter.fill_sorted(&sorted));
    assert_eq!(taken, kept.len(), "{}: in order they fit as well", series.name);
    let denied = kept.len() - filter.hits(kept);
    assert_eq!(denied, series.denied, "{}: in order they are the same keys", series.name);
    Some(bulk)
}
