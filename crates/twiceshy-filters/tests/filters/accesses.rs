//! What each operation costs at the remote.

use crate::harness::Random;
use twiceshy_filters::quotient::Telescoping;
use twiceshy_filters::remote::{Accesses, MemorySet, Ordered};
use twiceshy_filters::{Adapted, AnyFilter, DigestFilter, Spec};

fn filled(spec: &str, keys: usize, random: &mut Random) -> AnyFilter {
    let spec: Spec = spec.parse().expect("a filter");
    let mut filter = spec.build(keys).expect("a capacity");
    for digest in random.digests(keys) {
        assert!(filter.insert(digest).expect("room up to the capacity"));
    }
    filter
}

fn difference(after: Accesses, before: Accesses) -> (u64, u64) {
    (after.reads - before.reads, after.writes - before.writes)
}

/// Insertion to a load of 0.95 moves and reads a constant number of keys, at
/// any size. The counts per key at 20,000 and 200,000 keys are compared with
/// one bound; no constant of it depends on the number of keys.
#[test]
fn an_insertion_makes_a_constant_number_of_accesses() {
    let mut random = Random(1);
    let mirrored = [
        "plain-full:f=12",
        "cyclic:f=11,s=1",
        "varying:f=11,s=1",
        "swapping:f=12",
        "cuckooing:f=12",
    ];
    for spec in mirrored {
        for keys in [20_000, 200_000] {
            let filter = filled(spec, keys, &mut random);
            let reads = filter.accesses().reads as f64 / keys as f64;
            let writes = filter.accesses().writes as f64 / keys as f64;
            assert!(reads < 2.0, "{spec}: {reads} reads a key");
            assert!((1.0..1.5).contains(&writes), "{spec}: {writes} writes a key");
        }
    }
    for spec in [
        "plain:f=12",
        "simplified:f=12",
        "rsqf:f=10",
        "telescoping:f=10",
        "uncompressed:f=10",
        "extension:f=10",
    ] {
        let filter = filled(spec, 20_000, &mut random);
        assert_eq!(filter.accesses().writes, 20_000, "{spec}: the set takes each key once");
        // Only a key that the filter takes for stored is looked up first:
        // fewer than 0.2 % of 20,000, or 40; 100 are 9 standard deviations.
        assert!(filter.accesses().reads < 100, "{spec}: {:?}", filter.accesses());
    }
}

/// Adapting reads the cells that collide and those it moves, and writes what
/// it moves.
#[test]
fn an_adaptation_reads_only_what_collides_and_what_it_moves() {
    for spec in
        ["cyclic:f=6,s=1", "cyclic:f=6,s=3", "varying:f=6,s=2", "swapping:f=6", "cuckooing:f=6"]
    {
        let mut random = Random(2);
        let mut filter = filled(spec, 10_000, &mut random);
        let mut fixed = 0;
        for query in random.digests(30_000) {
            let before = (filter.accesses(), filter.stats());
            if !filter.contains(query) {
                assert_eq!(filter.adapt(query).expect("in memory"), Adapted::Absent);
                assert_eq!(filter.accesses(), before.0, "nothing to fix, nothing read");
                continue;
            }
            let outcome = filter.adapt(query).expect("in memory");
            if outcome != Adapted::Fixed || filter.stats().rebuilds != before.1.rebuilds {
                continue;
            }
            fixed += 1;
            let (reads, writes) = difference(filter.accesses(), before.0);
            let moved = filter.stats().kicks - before.1.kicks;
            // At least one cell collides; at 6 bits more than 4 of the 4 or 8
            // cells do with probability below 1e-6 a query.
            match spec.split(':').next() {
                Some("cyclic" | "varying") => {
                    assert!((1..=4).contains(&reads), "{spec}: {reads} reads");
                    assert_eq!((writes, moved), (0, 0), "{spec}");
                }
                Some("swapping") => {
                    // A retry reads one more partner.
                    assert!(reads <= 4 + 3 * moved, "{spec}: {reads} reads, {moved} moves");
                    // Two cells a swap; a swap with an empty cell moves one key.
                    assert!((2..=2 * moved).contains(&writes), "{spec}: {writes} writes");
                }
                _ => {
                    assert!(reads <= 4 + moved, "{spec}: {reads} reads, {moved} moves");
                    // A cell for each move, and the one that was left.
                    assert!(writes <= 4 + moved, "{spec}: {writes} writes, {moved} moves");
                }
            }
        }
        assert!(fixed > 500, "{spec}: {fixed} fixed queries prove little");
    }
}

/// Adapting scans the colliding quotient, and for each block that is spent the
/// block's quotients: nothing else. An extending filter recomputes nothing.
#[test]
fn an_adapting_quotient_filter_scans_the_colliding_quotient_and_spent_blocks() {
    for spec in [
        "telescoping:f=4,budget=32",
        "telescoping:f=4,budget=32,spent=reseed",
        "telescoping:f=3,budget=56",
        "uncompressed:f=4",
        "extension:f=4,budget=56",
    ] {
        let mut random = Random(4);
        let mut filter = filled(spec, 10_000, &mut random);
        let (mut fixed, mut spent) = (0, 0);
        for query in random.digests(60_000) {
            let (accesses, stats) = (filter.accesses(), filter.stats());
            match filter.adapt(query).expect("in memory") {
                Adapted::Absent => assert_eq!(filter.accesses(), accesses),
                Adapted::Fixed => {
                    fixed += 1;
                    let blocks = filter.stats().spent - stats.spent;
                    spent += blocks;
                    let rescans = if spec.starts_with("extension") { 0 } else { blocks };
                    let reads = difference(filter.accesses(), accesses);
                    assert_eq!(reads, (1 + rescans, 0), "{spec}: {blocks} spent");
                }
                outcome => panic!("{spec}: {outcome:?}"),
            }
        }
        assert!(fixed > 500, "{spec}: {fixed} fixed queries prove little");
        assert_eq!(spent > 100, !spec.starts_with("uncompressed"), "{spec}: {spent} blocks");
    }
}

/// Who hands over what the verifying read returned pays nothing more, unless a
/// block is spent.
#[test]
fn adapting_with_what_was_read_makes_no_access() {
    let mut random = Random(5);
    let spec = "telescoping:f=4,budget=32".parse().expect("a filter");
    let mut filter = Telescoping::new(&spec, 10_000).expect("a capacity");
    let mut remote = MemorySet::new();
    let keys = random.digests(10_000);
    keys.iter().for_each(|&key| assert!(filter.insert(key, &mut remote).expect("room")));
    let (mut fixed, mut spent) = (0, 0);
    for query in random.digests(30_000) {
        let mut read = Vec::new();
        remote.visit(filter.range(query), &mut |digest| read.push(digest)).expect("in memory");
        let (before, stats) = (remote.accesses(), filter.stats());
        let positive = filter.contains(query);
        let outcome = filter.adapt_with(query, &read, &mut remote).expect("in memory");
        assert_eq!(outcome, if positive { Adapted::Fixed } else { Adapted::Absent });
        assert!(!filter.contains(query));
        let blocks = filter.stats().spent - stats.spent;
        assert_eq!(difference(remote.accesses(), before), (blocks, 0));
        fixed += u32::from(positive);
        spent += blocks;
    }
    assert!(fixed > 1000 && spent > 100, "{fixed} fixed, {spent} blocks spent");
    filter.check(&mut remote).expect("every invariant holds");
    for &key in &keys[..100] {
        let mut read = Vec::new();
        remote.visit(filter.range(key), &mut |digest| read.push(digest)).expect("in memory");
        assert!(read.contains(&key));
        let outcome = filter.adapt_with(key, &read, &mut remote).expect("in memory");
        assert_eq!(outcome, Adapted::Stored);
        // What is not what the filter holds is not believed.
        let outcome = filter.adapt_with(key, &[], &mut remote).expect("in memory");
        assert_eq!(outcome, Adapted::Stored);
    }
    filter.check(&mut remote).expect("every invariant holds");
}

/// A static filter asks once whether the answer was right.
#[test]
fn a_static_filter_asks_once() {
    let mut random = Random(3);
    for spec in ["plain:f=6", "simplified:f=6", "rsqf:f=4"] {
        let mut filter = filled(spec, 10_000, &mut random);
        let query = std::iter::repeat_with(|| random.digest())
            .find(|&query| filter.contains(query))
            .expect("an endless supply");
        let before = filter.accesses();
        assert_eq!(filter.adapt(query).expect("in memory"), Adapted::Unfixed);
        assert_eq!(difference(filter.accesses(), before), (1, 0), "{spec}");
    }
}
