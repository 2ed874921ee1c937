//! Who is compared with whom, and the bars.

use std::hint::black_box;

use twiceshy_filters::{Digest, KeyHasher};

use crate::contender::Entry;
use crate::measure::{Op, Plan, Series, median, ratio, run, time};
use crate::ours::{self, Ready};
use crate::peers::{self, BLOOM_LIB, BLOOM_LIB_FULL, CUCKOOFILTER};
use crate::report::{Report, Table, number};
use crate::workload::{Keys, Workload};

/// A ratio that a filter of ours is to keep.
pub struct Bar {
    /// The filter of ours.
    pub filter: String,
    /// What it does.
    pub op: Op,
    /// Whom it is compared with: another filter, or itself.
    pub against: String,
    /// What that does.
    pub against_op: Op,
    /// The largest ratio that is good enough, where there is a bar.
    most: Option<f64>,
}

impl Bar {
    /// One operation of two filters.
    pub fn new(filter: &str, op: Op, against: &str, most: impl Into<Option<f64>>) -> Self {
        let most = most.into();
        Bar { filter: filter.into(), op, against: against.into(), against_op: op, most }
    }

    /// Two operations of one filter.
    pub fn within(filter: &str, op: Op, against_op: Op, most: impl Into<Option<f64>>) -> Self {
        Bar { against_op, ..Bar::new(filter, op, filter, most) }
    }

    /// Whom it is compared with, and doing what.
    fn opponent(&self) -> String {
        if self.against == self.filter {
            format!("its {}", self.against_op.name())
        } else {
            self.against.clone()
        }
    }
}

/// The partial-key filters that stand beside the peers.
const PLAIN: [&str; 3] = ["plain:f=8", "plain:f=12", "plain:f=16"];
const SIMPLIFIED: &str = "simplified:f=12";

/// The name of the plain filter that is as large, and as full, as crate
/// `cuckoofilter` makes its own.
const AS_LARGE: &str = "plain:f=8, as large as cuckoofilter";

/// The filters with four tables of one cell a bin, 11 bits a cell. The first
/// is the one that the others are compared with.
const FOUR_TABLES: [&str; 5] = [
    "plain-full:f=11,k=4,b=1",
    "cyclic:f=10,s=1",
    "cyclic:f=8,s=3",
    "varying:f=10,s=1,r=2",
    "cuckooing:f=11,k=4,b=1",
];

/// The quotient filters whose batches stand beside those of cuckoo filters.
const QUOTIENT: [&str; 4] =
    ["rsqf:f=8", "extension:f=8", "telescoping:f=8", "telescoping:f=8,spent=reseed"];

/// Fingerprints at which the filters with two tables of four cells are compared.
const WIDTHS: [u32; 3] = [8, 12, 16];

/// The bars against our own plain filter of the same shape.
const SWAPPING_MOST: f64 = 1.2;
const ADAPTIVE_MOST: f64 = 1.5;
/// The bar of a negative query against `bloom-lib`.
const BLOOM_LIB_MOST: f64 = 1.1;
/// How much faster a batch is to be out of cache.
pub const BATCH_LEAST: f64 = 1.8;

/// The filters beside the peers.
pub fn peer_entries(keys: usize) -> Vec<Entry<Digest>> {
    let ours = PLAIN.into_iter().chain([SIMPLIFIED]).map(|text| ours::entry(text, "", Ready));
    let as_large = ours::entry_as_large(PLAIN[0], AS_LARGE, Ready);
    ours.chain([as_large]).chain(peers::with_ready_hashes(keys)).collect()
}

/// The filters that hash keys themselves.
pub fn key_entries() -> Vec<Entry<u64>> {
    let ours = [
        ours::entry("plain:f=8", ", XXH3", KeyHasher::fast(1)),
        ours::entry("plain:f=8", ", keyed SipHash", KeyHasher::keyed([1; 16])),
        ours::entry("plain:f=16", ", XXH3", KeyHasher::fast(1)),
        ours::entry("plain:f=16", ", keyed SipHash", KeyHasher::keyed([1; 16])),
    ];
    ours.into_iter().chain(peers::with_their_hashers()).collect()
}

/// Adaptive filters and plain ones of the same shape.
pub fn shape_entries() -> Vec<Entry<Digest>> {
    let four = FOUR_TABLES.map(str::to_string);
    let two = WIDTHS.into_iter().flat_map(|f| {
        [
            format!("plain:f={f}"),
            format!("plain-full:f={f},k=2,b=4"),
            format!("swapping:f={f},k=2,b=4"),
            format!("cuckooing:f={f},k=2,b=4"),
        ]
    });
    four.into_iter().chain(two).map(|text| ours::entry(&text, "", Ready)).collect()
}

/// The bars against peers.
pub fn peer_bars() -> Vec<Bar> {
    let mut bars = Vec::new();
    for filter in PLAIN.into_iter().chain([AS_LARGE]) {
        for op in [Op::Insert, Op::Positive, Op::Negative] {
            bars.push(Bar::new(filter, op, CUCKOOFILTER, 1.0));
        }
        for peer in [BLOOM_LIB, BLOOM_LIB_FULL] {
            bars.push(Bar::new(filter, Op::Negative, peer, BLOOM_LIB_MOST));
            bars.push(Bar::new(filter, Op::Positive, peer, None));
            bars.push(Bar::new(filter, Op::Insert, peer, None));
        }
    }
    bars
}

/// The bars against our own plain filters.
pub fn shape_bars() -> Vec<Bar> {
    let [base, adaptive @ ..] = FOUR_TABLES;
    let mut bars: Vec<Bar> = adaptive
        .into_iter()
        .map(|filter| Bar::new(filter, Op::Negative, base, ADAPTIVE_MOST))
        .collect();
    for f in WIDTHS {
        let shape = format!("f={f},k=2,b=4");
        for base in [format!("plain-full:{shape}"), format!("plain:f={f}")] {
            let (swapping, cuckooing) = (format!("swapping:{shape}"), format!("cuckooing:{shape}"));
            bars.push(Bar::new(&swapping, Op::Negative, &base, SWAPPING_MOST));
            bars.push(Bar::new(&cuckooing, Op::Negative, &base, ADAPTIVE_MOST));
        }
    }
    bars
}

/// Our partial-key filters beside the peers.
pub fn peers(digests: &Workload<Digest>, plan: &Plan<'_>, report: &mut Report) {
    let count = digests.stored.len();
    let series = run(&peer_entries(count), digests, plan);
    report.table(&times(&format!("Beside peers, {count} keys, ready digests"), &series));
    report.table(&ratios("Ratios to peers, ready digests", &series, &peer_bars()));
}

/// Adaptive filters beside plain ones of the same shape.
pub fn shapes(digests: &Workload<Digest>, plan: &Plan<'_>, report: &mut Report) {
    let count = digests.stored.len();
    let series = run(&shape_entries(), digests, plan);
    report.table(&times(&format!("Same shapes, {count} keys, ready digests"), &series));
    report.table(&ratios("Ratios to the plain filter of the same shape", &series, &shape_bars()));
}

/// From keys, with their hashing.
pub fn hashed(keys: &Keys, plan: &Plan<'_>, report: &mut Report) {
    let series = run(&key_entries(), keys, plan);
    let title = format!("From keys, hashing included, {} keys", keys.stored.len());
    report.table(&times(&title, &series));
    report.table(&hashing(keys, plan));
}

/// Batches against single queries.
pub fn batch(digests: &Workload<Digest>, plan: &Plan<'_>, report: &mut Report) {
    let texts = PLAIN.into_iter().chain([SIMPLIFIED, "plain-full:f=12,k=2,b=4"]);
    let adaptive = ["swapping:f=12,k=2,b=4", "cuckooing:f=12,k=2,b=4"].into_iter();
    let texts = texts.chain(adaptive).chain(FOUR_TABLES).chain(QUOTIENT);
    let entries: Vec<Entry<Digest>> = texts.map(|text| ours::entry(text, "", Ready)).collect();
    let series = run(&entries, digests, plan);
    let head = ["filter", "MiB", "one by one ns", "in batches ns", "times faster", "least..most"];
    let mut table =
        Table::new(format!("Negative queries in batches, {} keys", digests.stored.len()), &head);
    for of in &series {
        let [least, middle, most] =
            ratio(of, Op::Negative, of, Op::Batch).expect("ours have both in every round");
        table.row([
            of.name.clone(),
            format!("{:.1}", of.bits_per_key * of.stored as f64 / 8.0 / 1024.0 / 1024.0),
            number(of.min(Op::Negative), 1),
            number(of.min(Op::Batch), 1),
            format!("{middle:.2}"),
            format!("{least:.2}..{most:.2}"),
        ]);
    }
    table.note(format!("The bar is {BATCH_LEAST} where the filter is larger than the cache."));
    report.table(&table);
}

/// The times of all contenders, without the operations that none of them has.
pub fn times(title: &str, series: &[Series]) -> Table {
    let mut head = vec!["ns per key: filter", "bits/key", "load", "rate %"];
    let mut ops = Op::ALL.to_vec();
    ops.retain(|&op| series.iter().any(|of| of.min(op).is_some()));
    head.extend(ops.iter().map(|op| op.name()));
    head.push("noise");
    let mut table = Table::new(title, &head);
    for of in series {
        let facts = [
            of.name.clone(),
            format!("{:.2}", of.bits_per_key),
            number(of.load, 3),
            format!("{:.4}", of.rate * 100.0),
        ];
        let noise = median(ops.iter().filter_map(|&op| of.noise(op)).collect());
        let minima = ops.iter().map(|&op| number(of.min(op), 1));
        table.row(facts.into_iter().chain(minima).chain([number(noise, 2)]));
        if of.refused != 0 {
            table.note(format!("{}: no room for the last {} keys.", of.name, of.refused));
        }
        if of.denied != 0 {
            table.note(format!("{}: denies {} of its {} keys.", of.name, of.denied, of.stored));
        }
    }
    table.note(
        "Minima of the rounds; noise: the median time over the minimum, the median of all columns.",
    );
    table
}

/// What telling a filter of a false positive takes, and how often its queries
/// have to decode.
pub fn adaptations(title: &str, series: &[Series]) -> Table {
    let mut table = Table::new(title, &["filter", "adapt, median ns", "codes decoded a query"]);
    for of in series {
        if let Some(adaptations) = of.adaptations {
            let (adapt, decodes) = (adaptations.adapt_median, adaptations.decodes);
            table.row([of.name.clone(), format!("{adapt:.0}"), format!("{decodes:.4}")]);
        }
    }
    table
}

/// The ratios that bars are set for.
pub fn ratios(title: &str, series: &[Series], bars: &[Bar]) -> Table {
    let head =
        ["filter", "time of", "against", "ratio", "least..most", "of minima", "bar", "verdict"];
    let mut table = Table::new(title, &head);
    for bar in bars {
        let find = |name: &str| series.iter().find(|of| of.name == name);
        // A contender that was not asked for, or that has no such row.
        let (Some(filter), Some(against)) = (find(&bar.filter), find(&bar.against)) else {
            continue;
        };
        let Some([least, middle, most]) = ratio(filter, bar.op, against, bar.against_op) else {
            continue;
        };
        let verdict = bar.most.map_or("-", |most| if middle <= most { "met" } else { "MISSED" });
        table.row([
            bar.filter.clone(),
            bar.op.name().to_string(),
            bar.opponent(),
            format!("{middle:.2}"),
            format!("{least:.2}..{most:.2}"),
            number(filter.min(bar.op).zip(against.min(bar.against_op)).map(|(a, b)| a / b), 2),
            number(bar.most, 2),
            verdict.to_string(),
        ]);
    }
    table.note("Ratios are taken within a round: the median of the rounds, and their range.");
    table
}

/// What a digest costs.
fn hashing(keys: &Keys, plan: &Plan<'_>) -> Table {
    let mut table = Table::new("Hashing a u64 key", &["hasher", "ns", "noise"]);
    let hashers = [
        ("fast (XXH3-128)", KeyHasher::fast(1)),
        ("keyed (SipHash-1-3-128)", KeyHasher::keyed([1; 16])),
    ];
    for (name, hasher) in hashers {
        let all: Vec<f64> = (0..plan.rounds).map(|_| digesting(&hasher, keys)).collect();
        let least = all.iter().copied().min_by(f64::total_cmp);
        let noise = median(all).zip(least).map(|(middle, least)| middle / least);
        table.row([name.to_string(), number(least, 2), number(noise, 2)]);
    }
    table
}

fn digesting(hasher: &KeyHasher, keys: &Workload<u64>) -> f64 {
    let hasher = black_box(hasher);
    let fold = || {
        keys.stored.iter().fold(0, |sum: u64, key| {
            let [first, second] = hasher.digest(key.to_le_bytes()).words();
            sum.wrapping_add(first ^ second)
        })
    };
    time(keys.stored.len(), fold).0
}
