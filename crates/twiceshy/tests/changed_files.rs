//! The fuzzers' targets for snapshots and for `Filter`'s files, with a fixed number of cases
//! each: changed bytes behind checksums that are right.

mod changed;
#[path = "../../twiceshy-filters/tests/harness/random.rs"]
mod random;

use changed::filter::{self, FILTERS, load_changed};
use changed::snapshot::{self, open_changed};
use random::Random;

/// Changed snapshots of every filter that a guard can have.
#[test]
fn changed_snapshots_are_refused_or_answer() {
    const CASES: u64 = 400;
    let mut random = Random(17);
    for (which, spec) in (0..).zip(snapshot::SPECS) {
        let mut used = 0;
        for _ in 0..CASES {
            let length = 5 + random.next() as usize % 20;
            let mut bytes = random.bytes(length);
            bytes[0] = which;
            used += u64::from(open_changed(&bytes) == snapshot::Outcome::Used);
        }
        // Else nothing behind the generation was reached, or nothing was changed.
        assert!(0 < used && used < CASES, "{spec}: {used} of {CASES}");
    }
}

/// Without a change it is used, whoever has written it.
#[test]
fn unchanged_snapshots_are_used() {
    for (which, spec) in (0..).zip(snapshot::SPECS) {
        for attacker in [0, 1] {
            assert_eq!(open_changed(&[which, attacker]), snapshot::Outcome::Used, "{spec}");
        }
    }
}

#[test]
fn changed_filters_are_refused_or_work() {
    const CASES: u64 = 3000;
    let mut random = Random(18);
    for which in 0..FILTERS.len() as u8 {
        let mut loaded = 0;
        for _ in 0..CASES {
            let length = 6 + random.next() as usize % 20;
            let mut bytes = random.bytes(length);
            bytes[0] = which;
            loaded += u64::from(load_changed(&bytes) == filter::Outcome::Loaded);
        }
        // Else nothing behind the checksums was reached, or nothing was changed.
        assert!(0 < loaded && loaded < CASES, "{which}: {loaded} of {CASES}");
    }
}

#[test]
fn unchanged_filters_load() {
    for which in 0..FILTERS.len() as u8 {
        for frozen in [0, 1] {
            assert_eq!(load_changed(&[which, frozen]), filter::Outcome::Loaded, "{which}");
        }
    }
}
