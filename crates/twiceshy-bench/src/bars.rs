//! The speed bars of a filter, in one run: every contender is built with and without a
//! remote, asked before and after it has learned, shared by two readers, and emptied.
//!
//! ```text
//! cargo run --release -p twiceshy-bench -- bars --keys 30000000
//! ```
//!
//! Times are processor time of the thread, and ratios are taken within a round.

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;

use twiceshy_filters::internals::{Build, Grow, InMemory, Visitor, visit};
use twiceshy_filters::remote::{Accesses, Ordered};
use twiceshy_filters::{Digest, DigestFilter, KeyHasher, Params as _, RemoteError, Spec, WhenFull};
use twiceshy_lab::entrants::{self, Entrants};

use crate::clock::on_processor;
use crate::measure::{LARGE, Op, Series, Times, median, time};
use crate::ours::{self, Ready};
use crate::report::{Progress, Report};
use crate::tables::{Bar, ratios, times};
use crate::workload::{Keys, Workload};

/// Every speed bar of a filter as a ratio: its times beside those of other filters.
#[derive(clap::Args)]
pub struct Args {
    /// Stored keys, and as many absent ones
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    /// Rounds [default: 7, from 4000000 keys on 3]
    #[arg(long)]
    rounds: Option<usize>,
    /// Filters that have bars to meet, by name or full spec [default: the default filter]
    #[arg(long, value_parser = entrants::parse)]
    filters: Vec<Entrants>,
    /// Filters to compare them with
    #[arg(long, value_parser = entrants::parse, default_value = BESIDE)]
    beside: Entrants,
    /// Misses per key that are learned from, first and in all; 0 0 for none
    #[arg(long, value_delimiter = ',', num_args = 2, default_values_t = MISSES)]
    misses: Vec<u64>,
    /// Print Markdown
    #[arg(long)]
    markdown: bool,
}

const PLAIN: &str = "plain:f=12";
const SMALL: &str = "plain:f=8";
const RSQF: &str = "rsqf:f=8";
/// The filter whose memory a guard has had so far.
pub const TELESCOPING: &str = "telescoping:f=8,spent=reseed";
/// Those that bars name, and a fast filter that adapts.
pub const BESIDE: &str =
    "plain:f=12; plain:f=8; rsqf:f=8; telescoping:f=8,spent=reseed; swapping:f=12,k=2,b=4";
/// Misses for each key that are learned from, first and in all.
pub const MISSES: [u64; 2] = [5, 40];

/// Measures and prints.
pub fn run(args: &Args) {
    let mut report = Report::new(args.markdown);
    let progress = Progress::new();
    // A filter that is named twice takes part once, under the name that bars know it by.
    let mut contenders: Vec<(String, Spec)> = specs(&args.beside).collect();
    let mut subjects = Vec::new();
    let filters = args.filters.iter().flat_map(specs);
    let filters: Vec<_> = if args.filters.is_empty() { vec![usual()] } else { filters.collect() };
    for (name, spec) in filters {
        let known = contenders.iter().find(|(_, other)| *other == spec);
        subjects.push(known.map_or(&name, |(known, _)| known).clone());
        if known.is_none() {
            contenders.insert(subjects.len() - 1, (name, spec));
        }
    }
    let rounds = args.rounds.unwrap_or(if args.keys < LARGE { 7 } else { 3 });
    let run = Run { keys: args.keys, rounds, misses: &args.misses };
    let series = measured(&contenders, &run, &progress);
    let title = format!("Speed, {} keys, ready digests, processor time", args.keys);
    report.table(&times(&title, &series));
    for subject in &subjects {
        let bars = bars(subject, args.keys);
        report.table(&ratios(&format!("Bars of {subject}, {} keys", args.keys), &series, &bars));
    }
}

/// The default filter.
fn usual() -> (String, Spec) {
    let spec = Spec::default().when_full(WhenFull::Rebuild);
    (spec.to_string(), spec)
}

/// Filters of the library by name.
pub fn specs(entrants: &Entrants) -> impl Iterator<Item = (String, Spec)> {
    entrants.0.iter().filter_map(|entrant| {
        let spec = entrant.design.library()?.when_full(WhenFull::Rebuild);
        Some((entrant.name.clone(), spec))
    })
}

/// What a filter is to keep with so many keys.
pub fn bars(subject: &str, keys: usize) -> Vec<Bar> {
    let in_cache = keys < LARGE;
    let negative = if in_cache { 1.10 } else { 1.0 };
    vec![
        Bar::new(subject, Op::Negative, PLAIN, negative),
        Bar::new(subject, Op::Negative, TELESCOPING, 0.5),
        Bar::new(subject, Op::Negative, SMALL, in_cache.then_some(1.5)),
        Bar::within(subject, Op::NegativeLearned, Op::Negative, 1.10),
        Bar::within(subject, Op::NegativeWorn, Op::Negative, 1.35),
        Bar::new(subject, Op::Positive, PLAIN, 1.15),
        Bar::new(subject, Op::Batch, PLAIN, (!in_cache).then_some(1.0)),
        Bar::new(subject, Op::InsertAlone, RSQF, 0.75),
        Bar::new(subject, Op::Insert, TELESCOPING, 1.0),
        Bar::new(subject, Op::Delete, RSQF, 1.0),
        Bar::new(subject, Op::DeleteAlone, RSQF, 1.0),
        Bar::new(subject, Op::Adapt, TELESCOPING, 1.0),
        // Two readers are to be at least 1.9 times as fast as one.
        Bar::within(subject, Op::TwoReaders, Op::OneReader, 2.0 / 1.9),
    ]
}

/// How much is measured.
pub struct Run<'a> {
    /// Stored keys, and as many absent ones.
    pub keys: usize,
    /// Times that every contender is measured.
    pub rounds: usize,
    /// Misses for each key that are learned from, first and in all.
    pub misses: &'a [u64],
}

/// Measures all contenders in turns.
pub fn measured(contenders: &[(String, Spec)], run: &Run<'_>, progress: &Progress) -> Vec<Series> {
    let &Run { keys, rounds, misses } = run;
    progress.step(|| format!("making {keys} stored and {keys} absent keys"));
    let work = Keys::random(keys).digests();
    let mut all: Vec<Series> =
        contenders.iter().map(|(name, _)| Series::new(name.clone())).collect();
    for round in 1..=rounds {
        for ((name, spec), series) in contenders.iter().zip(&mut all) {
            let say = |what: &str| {
                progress.step(|| format!("{keys} keys, round {round} of {rounds}: {name}{what}"));
            };
            say("");
            let mut times = alone(spec, &work);
            // Billions of queries: once is enough.
            let misses = if round > 1 && keys >= LARGE { &[] } else { misses };
            visit(*spec, Whole { work: &work, misses, times: &mut times, series, say: &say });
            series.push(times);
        }
    }
    all
}

/// Insertions and removals without a remote, where the filter can.
fn alone(spec: &Spec, work: &Workload<Digest>) -> Times {
    let mut times = Times::default();
    let keys = work.stored.len();
    if ours::alone(spec, 1, Ready).is_some() {
        let (insert, mut filter) = processor(keys, || {
            let mut filter = ours::alone(spec, keys, Ready).expect("it was made before");
            filter.fill(&work.stored);
            filter
        });
        times[Op::InsertAlone as usize] = Some(insert);
        let (delete, deleted) = processor(keys, || filter.empty(&work.stored));
        times[Op::DeleteAlone as usize] = deleted.map(|_| delete);
    } else {
        times[Op::InsertAlone as usize] = visit(*spec, Unaccompanied { stored: &work.stored });
    }
    times
}

/// Nanoseconds an item that `work` takes this thread, and what it gives.
fn processor<T>(items: usize, work: impl FnOnce() -> T) -> (f64, T) {
    let start = on_processor();
    let (wall, outcome) = time(items, work);
    let spent = on_processor().zip(start).map(|(end, start)| (end - start) as f64 / items as f64);
    (spent.unwrap_or(wall), outcome)
}

/// The fastest of several passes over as many items.
fn fastest(items: usize, mut work: impl FnMut() -> usize) -> f64 {
    let passes = if items < LARGE { 3 } else { 1 };
    let all = (0..passes).map(|_| processor(items, || black_box(work())).0);
    all.min_by(f64::total_cmp).expect("there is a pass")
}

/// Inserts with a remote that keeps nothing.
struct Unaccompanied<'w> {
    stored: &'w [Digest],
}

impl<'a> Visitor<'a> for Unaccompanied<'_> {
    type Output = Option<f64>;

    /// A mirror is part of such a filter: there is no insertion without it.
    fn alone<F, M>(self, _: &'a mut F::Params) -> Option<f64>
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static,
    {
        None
    }

    fn in_front<F>(self, params: &'a mut F::Params) -> Option<f64>
    where
        F: Grow + Send + Sync + 'static,
    {
        let keys = self.stored.len();
        let bins = params.bins_for(keys).ok()?;
        let (insert, refused) = processor(keys, || {
            let mut filter = F::empty(*params, keys, bins);
            let refused =
                self.stored.iter().filter(|&&key| filter.insert(key, &mut Nothing).is_err());
            refused.count()
        });
        (refused == 0).then_some(insert)
    }
}

/// A remote that keeps nothing, for insertions that read nothing.
struct Nothing;

impl Ordered for Nothing {
    fn insert(&mut self, _: Digest) -> Result<(), RemoteError> {
        Ok(())
    }

    fn remove(&mut self, _: Digest) -> Result<bool, RemoteError> {
        Ok(true)
    }

    fn visit(
        &mut self,
        _: std::ops::RangeInclusive<Digest>,
        _: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        Ok(())
    }

    fn accesses(&self) -> Accesses {
        Accesses::default()
    }
}

/// One round of a filter with its remote in memory.
struct Whole<'w> {
    work: &'w Workload<Digest>,
    /// Misses for each key that it learns from, in all.
    misses: &'w [u64],
    times: &'w mut Times,
    series: &'w mut Series,
    say: &'w dyn Fn(&str),
}

/// One key in so many is removed and inserted again.
const REMOVED: usize = 8;

impl<'a> Visitor<'a> for Whole<'_> {
    type Output = ();

    fn alone<F, M>(self, params: &'a mut F::Params)
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static,
    {
        let Whole { work, misses, times, series, say } = self;
        let keys = work.stored.len();
        let bins = params.bins_for(keys).expect("a capacity that our filters can have");
        let (insert, (mut filter, mut memory, stored)) = processor(keys, || {
            let mut filter = F::empty(*params, keys, bins);
            let mut memory = M::behind(&filter.stats());
            let insert = |&&key: &&Digest| filter.insert(key, memory.remote()).is_ok();
            let stored = work.stored.iter().take_while(insert).count();
            (filter, memory, stored)
        });
        times[Op::Insert as usize] = Some(insert);
        let stats = filter.stats();
        let kept = &work.stored[..stored];
        (series.stored, series.refused) = (stored, keys - stored);
        series.bits_per_key = stats.bits as f64 / stored as f64;
        series.load = Some(stats.load());
        let hits =
            |filter: &F, keys: &[Digest]| keys.iter().filter(|&&key| filter.contains(key)).count();
        series.denied = stored - hits(&filter, kept);
        series.rate = hits(&filter, &work.absent) as f64 / work.absent.len() as f64;

        say(", queries");
        let asked = |keys: &[Digest], filter: &F| Some(fastest(keys.len(), || hits(filter, keys)));
        times[Op::Negative as usize] = asked(&work.absent, &filter);
        times[Op::Positive as usize] = asked(kept, &filter);
        let batches = || ours::batches(&filter, &Ready, &work.absent);
        times[Op::Batch as usize] = Some(fastest(work.absent.len(), batches));
        let one = fastest(work.absent.len() / 2, || hits(&filter, &work.absent[..keys / 2]));
        times[Op::OneReader as usize] = Some(one);
        times[Op::TwoReaders as usize] = Some(two_readers(&filter, &work.absent));

        let some = &kept[..kept.len().div_ceil(REMOVED)];
        let (delete, removed) = processor(some.len(), || {
            let mut remove =
                |&&key: &&Digest| filter.remove(key, memory.remote()).is_ok_and(|was| was);
            some.iter().filter(|key| remove(key)).count()
        });
        assert_eq!(removed, some.len(), "{}: removals", series.name);
        times[Op::Delete as usize] = Some(delete);
        for &key in some {
            filter.insert(key, memory.remote()).expect("it was there before");
        }

        if !params.adapts() {
            return;
        }
        let hasher = KeyHasher::fast(5);
        let (mut next, mut adapting) = (0, Vec::new());
        let after =
            [(Op::NegativeLearned, Op::PositiveLearned), (Op::NegativeWorn, Op::PositiveWorn)];
        for (&misses, (negative, positive)) in misses.iter().zip(after) {
            let end = misses * keys as u64;
            for query in next..end {
                let digest = hasher.digest(query.to_le_bytes());
                if filter.contains(digest) {
                    let (took, outcome) = time(1, || filter.adapt(digest, memory.remote()));
                    outcome.expect("memory never fails");
                    adapting.push(took);
                }
                if query % (1 << 20) == 0 {
                    say(", learning");
                }
            }
            next = end;
            if end > 0 {
                times[negative as usize] = asked(&work.absent, &filter);
                times[positive as usize] = asked(kept, &filter);
            }
        }
        times[Op::Adapt as usize] = median(adapting);
    }
}

/// Nanoseconds a query of each of two threads that ask one filter at the same time.
fn two_readers(filter: &(impl DigestFilter + Sync), absent: &[Digest]) -> f64 {
    let half = absent.len() / 2;
    let halves = [&absent[..half], &absent[half..half * 2]];
    let together = Barrier::new(halves.len());
    thread::scope(|scope| {
        let readers = halves.map(|keys| {
            let together = &together;
            scope.spawn(move || {
                fastest(keys.len(), || {
                    together.wait();
                    keys.iter().filter(|&&key| filter.contains(key)).count()
                })
            })
        });
        let times = readers.map(|reader| reader.join().expect("a reader that ends"));
        times.iter().sum::<f64>() / times.len() as f64
    })
}
