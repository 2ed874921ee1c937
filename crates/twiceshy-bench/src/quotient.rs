//! Quotient filters at one load, all with the same slots.
//!
//! Their times depend on the load more than on anything else, and crate
//! `qfilter` has powers of two of slots only: so everyone gets that many, and
//! the keys are chosen for the load.

use twiceshy_filters::Digest;

use crate::contender::Entry;
use crate::measure::{LARGE, Op, Plan, run_with_bulk};
use crate::ours::{self, Ready};
use crate::peers::{self, QFILTER};
use crate::report::Report;
use crate::tables::{self, BATCH_LEAST, Bar};
use crate::workload::{Keys, Workload};

/// Loads, in percent.
const LOADS: [usize; 2] = [90, 95];

/// Ours, with the remainders that `qfilter` takes for its rate.
const RSQF: &str = "rsqf:f=8";

/// How much faster a negative query is to be than `qfilter`'s.
const NEGATIVE_LEAST: f64 = 1.2;
/// How much faster a build from keys in order is to be than one by one.
const BULK_LEAST: f64 = 5.0;

/// The power of two of slots whose capacity, at the highest load, is nearest to
/// this many keys.
fn slots_near(keys: usize) -> usize {
    let above = keys.max(64).next_power_of_two();
    let capacity = |slots: usize| slots / 100 * LOADS[1];
    if capacity(above).abs_diff(keys) <= capacity(above / 2).abs_diff(keys) {
        above
    } else {
        above / 2
    }
}

/// Keys that fill these slots to a load.
fn keys_for(slots: usize, percent: usize) -> usize {
    slots * percent / 100
}

/// Those that adapt, what they may take of the time of [`RSQF`] for a negative
/// query, and what after misses. The others are there for comparison; a broom
/// filter is made for a load of 0.85.
const ADAPTIVE: [(&str, Option<[f64; 2]>); 5] = [
    ("extension:f=8", Some([1.05, 1.10])),
    ("telescoping:f=8", Some([1.20, 1.30])),
    ("telescoping:f=8,spent=reseed", None),
    ("uncompressed:f=8", None),
    ("broom:f=8", None),
];
/// What an insertion of a telescoping filter with its remote may take of [`RSQF`]'s.
const INSERT_MOST: f64 = 2.5;
/// Distinct misses per stored key that they adapt to.
const MISSES: usize = 5;

fn adapted_name(text: &str) -> String {
    format!("{text}, {MISSES} misses a key")
}

/// Everyone with these slots.
pub fn entries(slots: usize) -> Vec<Entry<Digest>> {
    let capacity = keys_for(slots, 95);
    let mut all = vec![ours::entry_for(RSQF, capacity, Ready), peers::qfilter_for(capacity)];
    for (text, _) in ADAPTIVE {
        all.push(ours::entry_for(text, capacity, Ready));
        all.push(ours::entry_adapted(text, &adapted_name(text), capacity, MISSES, Ready));
    }
    all
}

/// What our filter is to keep; of a batch, where it is larger than the cache.
pub fn bars(slots: usize) -> Vec<Bar> {
    let batch = (slots > LARGE).then_some(1.0 / BATCH_LEAST);
    let mut bars = vec![
        Bar::new(RSQF, Op::Insert, QFILTER, 1.0),
        Bar::new(RSQF, Op::Positive, QFILTER, 1.0),
        Bar::new(RSQF, Op::Negative, QFILTER, 1.0 / NEGATIVE_LEAST),
        Bar::new(RSQF, Op::Delete, QFILTER, 1.0),
        Bar::new(RSQF, Op::Bulk, QFILTER, None),
        Bar::within(RSQF, Op::Bulk, Op::Insert, 1.0 / BULK_LEAST),
        Bar::within(RSQF, Op::Batch, Op::Negative, batch),
    ];
    for (text, most) in ADAPTIVE {
        let insert = (text == "telescoping:f=8").then_some(INSERT_MOST);
        bars.push(Bar::new(text, Op::Insert, RSQF, insert));
        bars.push(Bar::new(text, Op::Negative, RSQF, most.map(|[most, _]| most)));
        bars.push(Bar::new(&adapted_name(text), Op::Negative, RSQF, most.map(|[_, most]| most)));
        bars.push(Bar::within(text, Op::Batch, Op::Negative, batch));
    }
    bars
}

/// Times and ratios at each load, with about this many keys.
pub fn tables(keys: usize, plan: &Plan<'_>, report: &mut Report) {
    let slots = slots_near(keys);
    for percent in LOADS {
        let work = digests(keys_for(slots, percent), plan);
        let series = run_with_bulk(&entries(slots), &work, plan);
        let count = work.stored.len();
        let title = format!("Quotient filters, {slots} slots, load {percent} %, {count} keys");
        report.table(&tables::times(&title, &series));
        let title = format!("Ratios at a load of {percent} %");
        report.table(&tables::ratios(&title, &series, &bars(slots)));
        report.table(&tables::adaptations(&format!("Adapting at a load of {percent} %"), &series));
    }
}

fn digests(keys: usize, plan: &Plan<'_>) -> Workload<Digest> {
    plan.progress.step(|| format!("making {keys} stored and {keys} absent keys"));
    Keys::random(keys).digests()
}
