//! Lee, McCauley, Singh, Stein, "Telescoping Filter", section 6.2, figure 5:
//! throughput over load, on FireHose's active set, with 2^24 slots.
//!
//! A plain cuckoo filter stands in for the paper's vacuum filter. Times are processor time where
//! the system tells it (Linux). Trials that run at the same time still share caches and memory:
//! times are rough, and best taken with one job.

use std::hint::black_box;
use std::time::{Duration, Instant};

use twiceshy_filters::Digest;

use super::curves::Curves;
use super::measure::{Curve, Failure, empty, point};
use super::runner::core_time;
use super::significance::Estimate;
use super::{Axis, Figure, Point, Row, Seen, Setting, Verdict};
use crate::contestant::Contestant;
use crate::design::Design;
use crate::random::hasher;
use crate::workload::ActiveSet;

/// Figure 5.
pub fn figures() -> Vec<Figure> {
    vec![Figure {
        id: "taf-5",
        title: "Throughput over load",
        source: "Lee et al., Telescoping Filter, figure 5",
        claim: "The telescoping filter inserts about as fast as the others, and its queries \
                    are slower at high loads, as they decode; the uncompressed one is faster.",
        x: Axis { label: "load", log: false },
        y: Axis { label: "million operations a second of processor time", log: false },
        points: throughput,
        verdict: decoding_costs,
    }]
}

const INSERTIONS: &str = "insertions, from empty to the load";
const QUERIES: &str = "queries at the load, adapting included";

const SPECS: [&str; 5] =
    ["telescoping:f=8", "uncompressed:f=8", "extension:f=8", "rsqf:f=8", "plain:f=11"];

/// What a trial has in common with the others of its run.
#[derive(Clone, Copy)]
struct Scale {
    slots: f64,
    loads: &'static [f64],
    queries: u64,
}

const FULL: Scale = Scale {
    slots: 16_777_216.0,
    loads: &[0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95],
    queries: ActiveSet::QUERIES,
};
const QUICK: Scale = Scale { slots: 131_072.0, loads: &[0.1, 0.5, 0.8, 0.95], queries: 100_000 };

fn throughput(setting: &Setting) -> Vec<Point> {
    let scale = if setting.quick { QUICK } else { FULL };
    let mut points = Vec::new();
    for (panel, measure) in [(INSERTIONS, insertions as Measure), (QUERIES, queries)] {
        for curve in SPECS.map(Curve::new) {
            for &load in scale.loads {
                let design = curve.design;
                points.push(point(panel, &curve.name, load, setting.trials(4), move |seed| {
                    measure(&design, scale, load, seed)
                }));
            }
        }
    }
    points
}

type Measure = fn(&Design, Scale, f64, u64) -> Result<f64, Failure>;

fn insertions(design: &Design, scale: Scale, load: f64, seed: u64) -> Result<f64, Failure> {
    fill(design, scale, load, seed).map(|(_, speed)| speed)
}

fn queries(design: &Design, scale: Scale, load: f64, seed: u64) -> Result<f64, Failure> {
    let (mut filter, _) = fill(design, scale, load, seed)?;
    let hasher = hasher(seed);
    let keys = ActiveSet::new(ActiveSet::TELESCOPING, seed).take(scale.queries as usize);
    let digests: Vec<Digest> = keys.map(|key| hasher.digest(key.to_le_bytes())).collect();
    let start = Start::now();
    for &digest in &digests {
        if black_box(filter.contains(digest)) {
            filter.adapt(digest)?;
        }
    }
    Ok(millions_a_second(digests.len(), start))
}

/// A filter with numbered keys, and how fast it took them. The active set's keys
/// are hashes of 64 bits, which small numbers are not.
fn fill(design: &Design, scale: Scale, load: f64, seed: u64) -> Result<(Contestant, f64), Failure> {
    const MOST: f64 = 0.95;
    let hasher = hasher(seed);
    let digests: Vec<Digest> =
        (0..(scale.slots * load) as u64).map(|key| hasher.digest(key.to_le_bytes())).collect();
    let mut filter = empty(design, (scale.slots * MOST) as usize)?;
    let start = Start::now();
    for &digest in &digests {
        filter.insert(digest)?;
    }
    Ok((filter, millions_a_second(digests.len(), start)))
}

fn millions_a_second(operations: usize, start: Start) -> f64 {
    operations as f64 / start.seconds() / 1e6
}

/// When a measurement began: by the clock, and in processor time of this thread.
struct Start {
    clock: Instant,
    core: Option<Duration>,
}

impl Start {
    fn now() -> Self {
        Start { core: core_time(), clock: Instant::now() }
    }

    fn seconds(&self) -> f64 {
        let core = self.core.zip(core_time()).map(|(start, now)| now - start);
        core.unwrap_or_else(|| self.clock.elapsed()).as_secs_f64()
    }
}

fn decoding_costs(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let at_last = |panel: &str, series: &str| {
        curves.curve(panel, series).last().map(|row| Estimate::from(*row))
    };
    let speeds = |panel| {
        let speed = |name: &str| Some(format!("{name} {}", at_last(panel, name)?));
        let texts: Vec<String> =
            SPECS.iter().filter_map(|text| speed(&Curve::new(text).name)).collect();
        texts.join(", ")
    };
    let slower = |other| match (at_last(QUERIES, "telescoping"), at_last(QUERIES, other)) {
        (Some(ours), Some(theirs)) => ours.below(theirs),
        _ => Seen::Open,
    };
    let (uncompressed, rsqf) = (slower("uncompressed"), slower("rsqf"));
    let why = if uncompressed == Seen::Yes {
        ""
    } else {
        "; our telescoping queries compare all remainders at once and decode only on a match, which \
         the paper's do not, so the uncompressed filter gains nothing"
    };
    Verdict {
        seen: Seen::all([uncompressed, rsqf]),
        text: format!(
            "million operations a second at the highest load, rough where trials ran at the same \
             time: insertions {}; queries {}{why}",
            speeds(INSERTIONS),
            speeds(QUERIES)
        ),
    }
}
