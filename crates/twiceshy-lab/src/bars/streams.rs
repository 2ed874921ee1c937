//! Recorded streams at equal memory: a tenth of a stream's keys is stored, drawn by the seed,
//! and the accesses to all others are misses. The filter is built as its spec says; its
//! opponents get as much memory as it takes, with the longest fingerprints that fit.
//!
//! Wasted reads are added up over the seeds, stream by stream, and reported for a million
//! misses as the geometric mean of the streams.

use std::io;
use std::path::Path;

use twiceshy_filters::{Digest, Result};

use super::{Experiment, Row, Setting, digest};
use crate::contestant::Contestant;
use crate::entrants::{self, Entrant};
use crate::race::Watch;
use crate::random::{hasher, mix};
use crate::workload::{self, KeyFile, Recording};

/// A recorded stream.
#[derive(Clone, Debug)]
pub struct Trace {
    /// Its file.
    pub name: String,
    recording: Recording,
}

/// One key in so many is stored.
const STORED: u64 = 10;

/// Who gets the same memory. The filter may waste no more reads than the first, and below
/// `SMALL` bits per key no more than the second.
pub const OPPONENTS: [&str; 4] = ["telescoping-reseed", "swapping", "cuckooing", "rsqf"];
const SMALL: f64 = 13.0;

impl Trace {
    /// A stream of keys.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn open(file: &KeyFile) -> Result<Self, workload::Error> {
        Ok(Trace::of(Recording::of_keys(file)?))
    }

    /// A stream that was recorded. Where it lists stored keys, those are stored.
    #[must_use]
    pub fn of(recording: Recording) -> Self {
        Trace { name: recording.name.clone(), recording }
    }

    /// Every stream in the folders `streams`, `packets` and `queries` of a directory. Lists
    /// of keys (`*.keys.*`) are no streams.
    ///
    /// # Errors
    /// A folder or a file that cannot be read.
    pub fn all(directory: &Path) -> Result<Vec<Self>, Box<dyn std::error::Error>> {
        let mut traces = Vec::new();
        for folder in ["streams", "packets", "queries"] {
            let folder = directory.join(folder);
            let entries = folder.read_dir().and_then(Iterator::collect::<io::Result<Vec<_>>>);
            let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
            let mut paths: Vec<String> = entries
                .iter()
                .map(|entry| entry.path().to_string_lossy().into_owned())
                .filter(|path| !path.contains(".keys."))
                .collect();
            paths.sort();
            for path in paths {
                let Ok(file) = path.parse::<KeyFile>();
                traces.push(Trace::open(&file)?);
            }
        }
        Ok(traces)
    }

    /// Keys to store, and digests of the misses in their order.
    fn split(&self, seed: u64) -> (Vec<Digest>, Vec<Digest>) {
        let hasher = hasher(seed);
        let is_stored = |number: u64| match self.recording.stored {
            Some(stored) => number < stored,
            None => mix(mix(seed) ^ number).is_multiple_of(STORED),
        };
        let digests: Vec<Digest> =
            (0..self.recording.distinct).map(|number| digest(&hasher, number)).collect();
        let stored = (0..self.recording.distinct).filter(|&number| is_stored(number));
        let stored = stored.map(|number| digests[number as usize]).collect();
        let misses = self.recording.stream.iter().filter(|&&number| !is_stored(number.into()));
        (stored, misses.map(|&number| digests[number as usize]).collect())
    }
}

/// Steps of one seed.
pub(super) fn steps(traces: &[Trace]) -> u64 {
    let queries: u64 = traces.iter().map(|trace| trace.recording.stream.len() as u64).sum();
    queries * (1 + OPPONENTS.len() as u64)
}

/// What a filter did on one stream, all seeds together.
#[derive(Clone, Default)]
struct Tally {
    row: Option<Row>,
    keys: u64,
    bits: f64,
    misses: [u64; 2],
    wasted: [u64; 2],
    false_negatives: u64,
}

/// Parts of a stream.
const HALVES: [&str; 2] = ["whole stream", "second half"];

pub(super) fn run(
    entrant: &Entrant,
    setting: &Setting,
    watch: &dyn Watch,
    emit: &mut dyn FnMut(Row),
) -> Result<()> {
    let opponents = OPPONENTS.map(|name| entrants::parse(name).expect("a filter").0.remove(0));
    let names = || [&entrant.name].into_iter().chain(opponents.iter().map(|other| &other.name));
    let filters = 1 + opponents.len();
    // By filter, then by stream.
    let mut tallies = vec![vec![Tally::default(); setting.traces.len()]; filters];
    for (place, trace) in setting.traces.iter().enumerate() {
        watch.phase(format!("{}: streams, {}", entrant.name, trace.name));
        for seed in setting.seed_range(Experiment::Streams) {
            let (stored, misses) = trace.split(seed);
            let own = match setting.bits {
                Some(bits) => entrant.build_within(stored.len(), bits)?,
                None => entrant.at_paper_size()?.build(stored.len())?,
            };
            // Of a filter that is as large empty as full.
            let taken = own.stats().bits as f64 / stored.len() as f64;
            let bits = setting.bits.unwrap_or(taken);
            let others = opponents.iter().map(|other| other.build_within(stored.len(), bits));
            let all: Vec<Contestant> =
                [Ok(own)].into_iter().chain(others).collect::<Result<_>>()?;
            for ((filter, tally), name) in all.into_iter().zip(&mut tallies).zip(names()) {
                tally[place].play(filter, name, &stored, &misses)?;
                watch.advance(trace.recording.stream.len());
            }
        }
    }
    report(setting, &tallies, emit);
    Ok(())
}

impl Tally {
    fn play(
        &mut self,
        mut filter: Contestant,
        name: &str,
        stored: &[Digest],
        misses: &[Digest],
    ) -> Result<()> {
        for &key in stored {
            filter.insert(key)?;
        }
        let half = misses.len() / 2;
        for (index, &query) in misses.iter().enumerate() {
            if filter.contains(query) {
                self.wasted[0] += 1;
                self.wasted[1] += u64::from(index >= half);
                filter.adapt(query)?;
            }
        }
        self.misses[0] += misses.len() as u64;
        self.misses[1] += (misses.len() - half) as u64;
        let denied = stored.iter().filter(|&&key| !filter.contains(key));
        self.false_negatives += denied.count() as u64;
        self.keys += stored.len() as u64;
        self.bits += filter.stats().bits as f64;
        self.row.get_or_insert_with(|| Row::new(Experiment::Streams, name, &filter));
        Ok(())
    }

    /// Wasted reads per million misses; one that made none counts as half a read, so that
    /// there is a geometric mean.
    fn rate(&self, half: usize) -> f64 {
        (self.wasted[half] as f64).max(0.5) * 1e6 / self.misses[half] as f64
    }
}

/// A row for each filter, half and stream, and one for the mean of the streams.
fn report(setting: &Setting, tallies: &[Vec<Tally>], emit: &mut dyn FnMut(Row)) {
    for (half, part) in HALVES.into_iter().enumerate() {
        let means: Vec<f64> = tallies
            .iter()
            .map(|of| {
                let logarithms: f64 = of.iter().map(|tally| tally.rate(half).ln()).sum();
                (logarithms / of.len() as f64).exp()
            })
            .collect();
        for (which, (of, &mean)) in tallies.iter().zip(&means).enumerate() {
            let Some(first) = of.first().and_then(|tally| tally.row.clone()) else { continue };
            for (tally, trace) in of.iter().zip(&setting.traces) {
                let mut row = tally.row.clone().unwrap_or_else(|| first.clone());
                row.condition = format!("{}, {part}", trace.name);
                row.keys = tally.keys / setting.seeds(Experiment::Streams);
                row.bits_per_key = tally.bits / tally.keys as f64;
                row.value = tally.rate(half);
                row.false_negatives = tally.false_negatives;
                row.detail = true;
                emit(row);
            }
            let mut row = first;
            let (keys, bits) = of
                .iter()
                .fold((0, 0.0), |(keys, bits), tally| (keys + tally.keys, bits + tally.bits));
            row.condition = format!("{} traces, {part}", of.len());
            row.keys = keys / setting.seeds(Experiment::Streams);
            row.bits_per_key = bits / keys as f64;
            row.value = mean;
            row.false_negatives = of.iter().map(|tally| tally.false_negatives).sum();
            if which == 0 {
                let others = if row.bits_per_key < SMALL { &means[1..=2] } else { &means[1..=1] };
                let most = others.iter().copied().fold(f64::MAX, f64::min);
                row.most = Some(most);
                row.met = Some(mean <= most);
            }
            emit(row);
        }
    }
}
