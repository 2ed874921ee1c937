//! The fuzzers' targets for snapshots and for `Filter`'s files, with a fixed number of cases
//! each: changed bytes behind checksums that are right.

mod changed;
#[path = "../../twiceshy-filters/tests/harness/random.rs"]
mod random;

use changed::filter::{self, FILTERS, load_changed};
use changed::snapshot::{self, open_changed};
use random::Random;

/// Changes each of `count` files so many times, by at least `shortest` random bytes. Some are
/// accepted and some refused: else nothing behind the checksums was reached, or nothing was
/// changed.
fn some_are_accepted(
    (count, cases): (usize, u64),
    mut random: Random,
    shortest: usize,
    accepts: impl Fn(&[u8]) -> bool,
) {
    for which in 0..count as u8 {
        let mut accepted = 0;
        for _ in 0..cases {
            let length = shortest + random.next() as usize % 20;
            let mut bytes = random.bytes(length);
            bytes[0] = which;
            accepted += u64::from(accepts(&bytes));
        }
        assert!(0 < accepted && accepted < cases, "{which}: {accepted} of {cases}");
    }
}

/// Changed snapshots of every filter that a guard can have.
#[test]
fn changed_snapshots_are_refused_or_answer() {
    some_are_accepted((snapshot::SPECS.len(), 400), Random(17), 5, |bytes| {
        open_changed(bytes) == snapshot::Outcome::Used
    });
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
    some_are_accepted((FILTERS.len(), 3000), Random(18), 6, |bytes| {
        load_changed(bytes) == filter::Outcome::Loaded
    });
}

#[test]
fn unchanged_filters_load() {
    for which in 0..FILTERS.len() as u8 {
        for frozen in [0, 1] {
            assert_eq!(load_changed(&[which, frozen]), filter::Outcome::Loaded, "{which}");
        }
    }
}
