//! Long random interleavings of every operation, for every filter, against a
//! `HashSet`: no false negative, ever.

use crate::harness::{Random, SPECS};

/// 40 plays for each filter, each of 1,500 operations on up to 250 keys.
#[test]
fn every_filter_agrees_with_a_set() {
    let mut random = Random(2026);
    for spec in SPECS {
        for play in 0..40 {
            let capacity = [1, 2, 5, 17, 60, 250][play % 6];
            let operations = random.bytes(3 * 1500);
            crate::harness::drive_spec(spec, capacity, play % 4 == 3, &operations);
        }
    }
}

/// Fewer operations on more keys, with full tables: mostly insertions, then
/// mostly queries that adapt.
#[test]
fn full_tables_agree_with_a_set() {
    let mut random = Random(77);
    for spec in SPECS {
        for capacity in [100, 400] {
            let mut operations = Vec::new();
            for kind in [0, 100, 0, 190, 0, 100] {
                for _ in 0..2 * capacity {
                    let argument = random.next() as u16;
                    operations.push(kind + (random.next() % 40) as u8);
                    operations.extend(argument.to_le_bytes());
                }
            }
            crate::harness::drive_spec(spec, capacity, false, &operations);
        }
    }
}

/// The fuzzers' harness on random bytes for a few seconds.
#[test]
fn a_few_seconds_of_fuzzing() {
    let mut random = Random(11);
    let until = std::time::Instant::now() + std::time::Duration::from_secs(3);
    while std::time::Instant::now() < until {
        let length = 3 + random.next() as usize % 2000;
        crate::harness::drive(&random.bytes(length));
    }
}
