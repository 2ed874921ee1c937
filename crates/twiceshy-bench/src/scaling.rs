//! Insertions as filters grow, and the two ways to search for room.

use std::hint::black_box;

use crate::contender::Entry;
use crate::measure::{Op, Plan, median, run_builds, time};
use crate::ours::{self, Ready};
use crate::report::{Report, Table, number};
use crate::workload::{Keys, scramble};

/// The most keys, unless told otherwise.
pub const MOST_KEYS: usize = 30_000_000;

/// Numbers of keys.
const SIZES: [usize; 4] = [100_000, 1_000_000, 10_000_000, MOST_KEYS];

/// Bytes of a record of the mirror.
const RECORD: usize = 16;

/// Filters whose insertions are followed, and bytes a key of their remote.
const GROWING: [(&str, usize); 4] = [
    ("plain:f=12", 0),
    ("plain-full:f=12,k=2,b=4", RECORD),
    ("plain-full:f=12,k=4,b=1", RECORD),
    ("cuckooing:f=12,k=4,b=1", RECORD),
];

/// Insertion times from 10^5 keys up to `most`.
pub fn sizes<'a>(most: usize, plan: impl Fn(usize) -> Plan<'a>, report: &mut Report) {
    let head =
        ["filter", "keys", "MiB", "insert ns", "noise", "to the first", "kicks/key", "touch ns"];
    let mut table = Table::new("Insertions, ready digests, mirror included", &head);
    let mut first: Vec<(String, f64)> = Vec::new();
    for keys in SIZES.into_iter().filter(|&keys| keys <= most) {
        let plan = plan(keys);
        let work = Keys::random(keys).digests();
        let entries: Vec<Entry<_>> =
            GROWING.iter().map(|(text, _)| ours::entry(text, "", Ready)).collect();
        for of in run_builds(&entries, &work.stored, &plan) {
            let remote = GROWING.iter().find(|(text, _)| *text == of.name).map_or(0, |of| of.1);
            let bytes = keys * remote + (of.bits_per_key * keys as f64) as usize / 8;
            let insert = of.min(Op::Insert).expect("there is a round");
            let smallest = first.iter().find(|(name, _)| *name == of.name).map(|of| of.1);
            if smallest.is_none() {
                first.push((of.name.clone(), insert));
            }
            table.row([
                of.name.clone(),
                keys.to_string(),
                format!("{:.1}", bytes as f64 / 1024.0 / 1024.0),
                format!("{insert:.1}"),
                number(of.noise(Op::Insert), 2),
                format!("{:.2}", insert / smallest.unwrap_or(insert)),
                number(of.kicks_per_key, 3),
                format!("{:.1}", touch(bytes, &plan)),
            ]);
        }
    }
    table.note("To the first: the time over that of the fewest keys; the bar is 2, caches apart.");
    table.note("Touch: one random read and write in as much memory as filter and mirror take.");
    report.table(&table);
}

/// What changing one random word costs in this much memory: the effect of the
/// caches, without any filter.
fn touch(bytes: usize, plan: &Plan<'_>) -> f64 {
    const TOUCHES: usize = 2_000_000;
    let once = || {
        let mut memory = vec![1u64; (bytes / size_of::<u64>()).max(1)];
        let words = memory.len() as u128;
        let (nanoseconds, ()) = time(TOUCHES, || {
            for number in 0..TOUCHES as u64 {
                let at = (u128::from(scramble(number)) * words) >> 64;
                memory[at as usize] ^= number;
            }
            black_box(&memory);
        });
        nanoseconds
    };
    median((0..plan.rounds).map(|_| once()).collect()).expect("there is a round")
}

/// Breadth-first search against the random walk: what an insertion costs up to
/// the capacity, and how far the filter could be filled.
pub fn searches<'a>(keys: usize, plan: impl Fn(usize) -> Plan<'a>, report: &mut Report) {
    let head = ["filter", "insert ns", "noise", "kicks/key", "load when one finds no room"];
    let mut table = Table::new(format!("Searching for room, {keys} keys"), &head);
    let plan = plan(keys);
    let work = Keys::random(keys).digests();
    let entries: Vec<Entry<_>> = ["plain-full:k=4,b=1", "plain-full:k=2,b=4", "plain:b=4"]
        .iter()
        .flat_map(|shape| ["bfs", "walk"].map(|search| format!("{shape},search={search}")))
        .map(|text| ours::entry(&format!("{text},full=error"), "", Ready))
        .collect();
    for of in run_builds(&entries, &work.stored, &plan) {
        let entry = entries.iter().find(|entry| entry.name == of.name);
        let mut filter = (entry.expect("a series of an entry").make)(keys);
        if filter.fill(&work.stored) == keys {
            filter.fill(&work.absent);
        }
        table.row([
            of.name.clone(),
            number(of.min(Op::Insert), 1),
            number(of.noise(Op::Insert), 2),
            number(of.kicks_per_key, 3),
            number(filter.load(), 4),
        ]);
    }
    report.table(&table);
}
