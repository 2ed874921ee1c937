//! Insertions as filters grow, and the two ways to search for room.

use std::hint::black_box;

use crate::contender::Entry;
use crate::measure::{Op, Plan, median, run, time};
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
        ["filter", "keys", "MiB", "insert ns", "noise", "kicks/key", "touch ns", "insert/touch"];
    let mut table = Table::new("Insertions, ready digests, mirror included", &head);
    for keys in SIZES.into_iter().filter(|&keys| keys <= most) {
        let plan = plan(keys);
        let mut work = Keys::random(keys).digests();
        // Queries are not what is measured here.
        work.absent.truncate(1);
        let entries: Vec<Entry<_>> =
            GROWING.iter().map(|(text, _)| ours::entry(text, "", Ready)).collect();
        for of in run(&entries, &work, &plan) {
            let remote = GROWING.iter().find(|(text, _)| *text == of.name).map_or(0, |of| of.1);
            let bytes = keys * remote + (of.bits_per_key * keys as f64) as usize / 8;
            let touch = touch(bytes, &plan);
            table.row([
                of.name.clone(),
                keys.to_string(),
                format!("{:.1}", bytes as f64 / 1024.0 / 1024.0),
                number(of.min(Op::Insert), 1),
                number(of.noise(Op::Insert), 2),
                number(of.kicks_per_key, 3),
                format!("{touch:.1}"),
                number(of.min(Op::Insert).map(|insert| insert / touch), 1),
            ]);
        }
    }
    table.note("Touch: one random read and write in fresh memory of filter and mirror together.");
    report.table(&table);
}

/// What changing one random word costs in this much memory, with the first
/// touch of each page, as an insertion has it.
fn touch(bytes: usize, plan: &Plan<'_>) -> f64 {
    const TOUCHES: usize = 2_000_000;
    let once = || {
        let mut memory = vec![0u64; (bytes / size_of::<u64>()).max(1)];
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
    for (of, entry) in run(&entries, &work, &plan).iter().zip(&entries) {
        let mut filter = (entry.make)(keys);
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
