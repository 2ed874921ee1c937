//! Runs the trials of figures' points on all cores, and keeps each row as soon as
//! it is done.
//!
//! A trial's seed is derived from what the trial is, and a row's mean is taken in
//! the order of its trials: rows depend neither on the number of threads nor on
//! which rows were there before.
//!
//! A row of a full run ends before its last trial when its mean is known well enough:
//! [`LEAST_TRIALS`], and a standard error of [`WELL_KNOWN`] of the mean. That is decided in
//! the order of the trials, too.

use std::collections::HashSet;
use std::fs;
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::significance::Estimate;
use super::store::{Error, Ledger, Store};
use super::{Figure, Measured, Point, Row, Setting, Verdict};
use crate::random::mix;
use crate::workload::Recording;

/// Trials of a row of a full run at least, and at most as many as the figure says.
pub const LEAST_TRIALS: usize = 4;

/// The relative standard error with which a row needs no more trials.
pub const WELL_KNOWN: f64 = 0.02;

/// How to run figures.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What the figures run on.
    pub setting: Setting,
    /// What all seeds are derived from.
    pub seed: u64,
    /// Trials of each point, if not as many as the figure says.
    pub trials: Option<NonZero<u32>>,
    /// Trials at the same time.
    pub jobs: NonZero<usize>,
    /// The one panel whose rows are measured, if not all; rows that are there count anyway.
    pub panel: Option<String>,
}

/// What came out of a figure.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What was measured, in the order of the figure's points.
    pub rows: Vec<Row>,
    /// How many rows there are when all is measured.
    pub planned: usize,
    /// Why rows are missing that could not be measured.
    pub failures: Vec<String>,
}

/// How far it is.
#[derive(Clone, Debug)]
pub struct Progress {
    /// The figure whose trial was finished last.
    pub figure: &'static str,
    /// Trials that are done or not needed any more.
    pub done: u64,
    /// All trials of rows that were not there at the start.
    pub total: u64,
    /// A guess from the time that each figure's trials took so far.
    pub remaining: Duration,
}

impl Findings {
    /// What the figure says of the rows; nothing while some are missing, since a
    /// verdict on half of them would be a guess.
    #[must_use]
    pub fn verdict(&self, figure: &Figure) -> Option<Verdict> {
        let complete = self.planned > 0 && self.rows.len() == self.planned;
        complete.then(|| (figure.verdict)(&self.rows))
    }

    /// The verdict, or what is missing, in one line.
    #[must_use]
    pub fn summary(&self, figure: &Figure) -> String {
        match self.verdict(figure) {
            Some(verdict) => verdict.to_string(),
            None => format!("unfinished: {} of {} rows", self.rows.len(), self.planned),
        }
    }
}

impl Plan {
    /// The setting in words, for [`Store`].
    #[must_use]
    pub fn describe(&self) -> String {
        let percent = WELL_KNOWN * 100.0;
        let scale = match self.ends_early() {
            true => format!(
                "the papers' sizes, {LEAST_TRIALS} trials or more until an error of {percent} %"
            ),
            // Another name whenever sizes or columns change: rows of old ones would be taken
            // for these.
            false if self.setting.quick => "quick, small trials, steep flows".to_string(),
            false => "the papers' sizes".to_string(),
        };
        let trials = self.trials.map(|trials| format!("; {trials} trials")).unwrap_or_default();
        let version = env!("CARGO_PKG_VERSION");
        let input = self.setting.recording.as_ref().map(|recording| {
            let Recording { name, distinct, stream, .. } = &**recording;
            let content = stream.iter().fold(0, |hash, &key| mix(hash ^ u64::from(key)));
            format!("; {name}: {} keys, {distinct} distinct, hash {content:016x}", stream.len())
        });
        let input = input.unwrap_or_default();
        format!("twiceshy paper {version}; {scale}; seed {}{trials}{input}", self.seed)
    }

    /// Whether rows end when they are known well: not those of few trials anyway, nor
    /// those that somebody has counted.
    fn ends_early(&self) -> bool {
        !self.setting.quick && self.trials.is_none()
    }

    fn trials_of(&self, point: &Point) -> u32 {
        self.trials.map_or(point.trials, NonZero::get)
    }

    /// The row of a point among those that were read.
    fn find<'r>(&self, point: &Point, rows: &'r [Row]) -> Option<&'r Row> {
        let trials = self.trials_of(point);
        rows.iter().find(|row| {
            row.panel == point.panel
                && row.series == point.series
                && row.x == point.x
                && (row.trials == trials || row.trials < trials && self.is_enough(row))
        })
    }
}

impl Plan {
    /// Whether a row of fewer trials than planned is done.
    fn is_enough(&self, row: &Row) -> bool {
        self.ends_early() && is_known(row.into(), row.trials as usize)
    }

    /// How many of the trials make the row, as far as they are there.
    fn enough(&self, trials: &[Option<Measured>]) -> Option<Vec<Measured>> {
        let there: Vec<Measured> = trials.iter().map_while(|trial| *trial).collect();
        let known = |&count: &usize| self.ends_early() && is_known((&there[..count]).into(), count);
        let count = (1..=there.len()).find(known);
        let count = count.or((there.len() == trials.len()).then_some(trials.len()))?;
        Some(there[..count].to_vec())
    }
}

/// A mean of 0 is never known well: what is rare has not happened yet. Nor are few events
/// that happen to be alike: the error is no less than that of counts.
fn is_known(mean: Estimate, trials: usize) -> bool {
    let Estimate { mean, error, .. } = mean;
    trials >= LEAST_TRIALS && mean != 0.0 && error <= WELL_KNOWN * mean.abs()
}

/// The rows of a figure that are there already.
///
/// # Errors
/// Its file cannot be read, or is of another setting.
pub fn recall(figure: &Figure, plan: &Plan, store: &Store) -> Result<Findings, Error> {
    let points = (figure.points)(&plan.setting);
    let rows = store.read(figure.id)?;
    let found = points.iter().filter_map(|point| plan.find(point, &rows).cloned());
    Ok(Findings { rows: found.collect(), planned: points.len(), failures: Vec::new() })
}

/// Measures the rows of figures that are not there yet. `stop` ends it after the
/// trials that are under way; `watch` is told of every trial that is done.
///
/// # Errors
/// A file of rows cannot be read or written, or is of another setting. A trial
/// that fails is no error here: it is among the [`Findings`].
///
/// # Panics
/// If a figure has two points in the same place, a point without trials, or one
/// whose names do not fit on a line.
pub fn run(
    figures: &[&Figure],
    plan: &Plan,
    store: &Store,
    stop: &AtomicBool,
    watch: &(dyn Fn(&Progress) + Sync),
) -> Result<Vec<Findings>, Error> {
    let points: Vec<Vec<Point>> =
        figures.iter().map(|figure| (figure.points)(&plan.setting)).collect();
    let mut board = Board { plan, queue: Vec::new(), next: 0, sheets: Vec::new(), error: None };
    for (figure, points) in figures.iter().zip(&points) {
        board.enter(figure, points, store)?;
    }
    board.sort();
    let board = Mutex::new(board);
    thread::scope(|scope| {
        for _ in 0..plan.jobs.get() {
            scope.spawn(|| work(&board, stop, watch));
        }
    });
    let board = board.into_inner().unwrap_or_else(PoisonError::into_inner);
    match board.error {
        Some(error) => Err(error),
        None => Ok(board.sheets.into_iter().map(Sheet::findings).collect()),
    }
}

/// One thread's part.
fn work(board: &Mutex<Board<'_>>, stop: &AtomicBool, watch: &(dyn Fn(&Progress) + Sync)) {
    let lock = || -> MutexGuard<'_, Board<'_>> { board.lock().expect("no thread panicked") };
    while !stop.load(Ordering::Relaxed) {
        let Some((job, trial)) = lock().take() else { return };
        let (start, core) = (Instant::now(), core_time());
        let outcome = (job.point.run)(job.seed(trial));
        let took = start.elapsed();
        let on_core = core_time().zip(core).map_or(took, |(end, start)| end.saturating_sub(start));
        let mut board = lock();
        let sheet = &mut board.sheets[job.sheet];
        sheet.took += took;
        sheet.cores[job.place] += on_core;
        board.give(job, trial, outcome.map_err(|error| error.to_string()));
        // Still under the lock: progress never goes backwards.
        watch(&board.progress(job));
    }
}

/// All that the threads share.
struct Board<'a> {
    plan: &'a Plan,
    queue: Vec<(Job<'a>, u32)>,
    next: usize,
    sheets: Vec<Sheet>,
    error: Option<Error>,
}

/// A row to measure.
#[derive(Clone, Copy)]
struct Job<'a> {
    base: u64,
    figure: &'static str,
    point: &'a Point,
    /// Which sheet, and where on it.
    sheet: usize,
    place: usize,
}

/// A figure under way.
struct Sheet {
    ledger: Ledger,
    entries: Vec<Entry>,
    failures: Vec<String>,
    /// Trials that were run, and the time that they took.
    run: u32,
    took: Duration,
    /// What each row's trials took of a core.
    cores: Vec<Duration>,
    /// Trials that are still to do.
    left: u32,
}

enum Entry {
    /// By trial.
    Open(Vec<Option<Measured>>),
    Failed,
    /// Of another panel.
    NotAsked,
    Done(Row),
}

impl<'a> Board<'a> {
    /// Opens a figure's file, and queues what is not in it.
    fn enter(&mut self, figure: &Figure, points: &'a [Point], store: &Store) -> Result<(), Error> {
        let (ledger, rows) = store.open(figure.id)?;
        let mut places = HashSet::new();
        let mut sheet = Sheet {
            ledger,
            entries: Vec::new(),
            failures: Vec::new(),
            run: 0,
            took: Duration::ZERO,
            cores: vec![Duration::ZERO; points.len()],
            left: 0,
        };
        for (place, point) in points.iter().enumerate() {
            assert!(
                places.insert((&point.panel, &point.series, point.x.to_bits())),
                "{} has two points {}",
                figure.id,
                name(point)
            );
            assert!(
                !format!("{}{}", point.panel, point.series).contains(['\r', '\n']),
                "{} has a point whose row is more than a line: {}",
                figure.id,
                name(point)
            );
            let trials = self.plan.trials_of(point);
            assert!(trials > 0, "{} has a point without trials: {}", figure.id, name(point));
            if let Some(row) = self.plan.find(point, &rows) {
                sheet.entries.push(Entry::Done(row.clone()));
                continue;
            }
            if self.plan.panel.as_ref().is_some_and(|panel| point.panel != *panel) {
                sheet.entries.push(Entry::NotAsked);
                continue;
            }
            let job = Job {
                base: self.plan.seed,
                figure: figure.id,
                point,
                sheet: self.sheets.len(),
                place,
            };
            self.queue.extend((0..trials).map(|trial| (job, trial)));
            sheet.entries.push(Entry::Open(vec![None; trials as usize]));
            sheet.left += trials;
        }
        self.sheets.push(sheet);
        Ok(())
    }

    /// Figure after figure, the points of each in an order that has nothing to do
    /// with how long they take: then the ones that are done tell how long the
    /// others will. One point of every figure goes first, to know about them all.
    fn sort(&mut self) {
        self.queue.sort_by_key(|(job, trial)| (job.sheet, job.seed(0), *trial));
        let mut scout = None;
        let mut first = |job: &Job<'_>| {
            if scout.is_none_or(|(sheet, _)| sheet != job.sheet) {
                scout = Some((job.sheet, job.place));
            }
            scout == Some((job.sheet, job.place))
        };
        let (scouts, others): (Vec<_>, Vec<_>) =
            self.queue.drain(..).partition(|(job, _)| first(job));
        self.queue = scouts;
        self.queue.extend(others);
    }

    /// The next trial to run.
    fn take(&mut self) -> Option<(Job<'a>, u32)> {
        while self.error.is_none() {
            let &(job, trial) = self.queue.get(self.next)?;
            self.next += 1;
            // Another trial of it failed, or the row is done without this one.
            if matches!(self.sheets[job.sheet].entries[job.place], Entry::Open(_)) {
                return Some((job, trial));
            }
            self.sheets[job.sheet].left -= 1;
        }
        None
    }

    /// A trial is done.
    fn give(&mut self, job: Job<'_>, trial: u32, outcome: Result<Measured, String>) {
        let sheet = &mut self.sheets[job.sheet];
        sheet.left -= 1;
        sheet.run += 1;
        let Entry::Open(trials) = &mut sheet.entries[job.place] else {
            // Another trial of it failed in the meantime, or it needs no more.
            return;
        };
        let outcome = outcome.and_then(|measured| {
            let (finite, value) = (measured.value.is_finite(), measured.value);
            finite
                .then_some(measured)
                .ok_or_else(|| format!("measured {value}, which is no number"))
        });
        match outcome {
            Ok(measured) => trials[trial as usize] = Some(measured),
            Err(error) => {
                let seed = job.seed(trial);
                sheet.failures.push(format!("{} (seed {seed}): {error}", name(job.point)));
                sheet.entries[job.place] = Entry::Failed;
                return;
            }
        }
        let Some(trials) = self.plan.enough(trials) else { return };
        let row = Row::of(job.figure, job.point, &trials);
        if let Err(error) = sheet.ledger.push(&row, sheet.cores[job.place]) {
            self.error.get_or_insert(error);
        }
        sheet.entries[job.place] = Entry::Done(row);
    }

    fn progress(&self, last: Job<'_>) -> Progress {
        let left: u64 = self.sheets.iter().map(|sheet| u64::from(sheet.left)).sum();
        let total = self.queue.len() as u64;
        let mean = |took: Duration, run: u32| took.checked_div(run);
        let all = mean(
            self.sheets.iter().map(|sheet| sheet.took).sum(),
            self.sheets.iter().map(|sheet| sheet.run).sum(),
        );
        let work = self.sheets.iter().map(|sheet| {
            let each = mean(sheet.took, sheet.run).or(all).unwrap_or_default();
            each.saturating_mul(sheet.left)
        });
        let jobs = u32::try_from(self.plan.jobs.get()).unwrap_or(u32::MAX);
        let remaining = work.sum::<Duration>() / jobs;
        Progress { figure: last.figure, done: total - left, total, remaining }
    }
}

impl Job<'_> {
    /// The seed of a trial: another for each trial of each point.
    fn seed(&self, trial: u32) -> u64 {
        let mut state = mix(self.base);
        let mut absorb = |word: u64| state = mix(state ^ word);
        for text in [self.figure, &self.point.panel, &self.point.series] {
            absorb(text.len() as u64);
            for chunk in text.as_bytes().chunks(8) {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                absorb(u64::from_le_bytes(word));
            }
        }
        absorb(self.point.x.to_bits());
        absorb(u64::from(trial));
        state
    }
}

impl Sheet {
    fn findings(self) -> Findings {
        let planned = self.entries.len();
        let done = self.entries.into_iter().filter_map(|entry| match entry {
            Entry::Done(row) => Some(row),
            Entry::Open(_) | Entry::Failed | Entry::NotAsked => None,
        });
        Findings { rows: done.collect(), planned, failures: self.failures }
    }
}

/// How long this thread has been on a core, where the system says so: Linux does. Other work on
/// the machine does not count.
#[must_use]
pub fn core_time() -> Option<Duration> {
    // The count is kept when the scheduler is asked, or else some milliseconds late.
    thread::yield_now();
    let times = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    times.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn name(point: &Point) -> String {
    format!("{:?}, {:?} at {}", point.panel, point.series, point.x)
}

/// The mean and its standard error; 0 with one value.
pub fn mean_and_error(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 {
        return (mean, 0.0);
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}
