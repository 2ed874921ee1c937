//! The fuzzers' targets for files, with a fixed number of cases each: changed bytes behind
//! checksums that are right.

mod changed;
mod harness;

use changed::saved::{Outcome, load_changed};
use harness::{Random, SPECS};

/// Every filter of the list, with a few changes to its file at a time. Some files are still
/// whole: a seed or a count that was changed makes another filter, or an equal one.
#[test]
fn changed_filters_are_refused_or_right() {
    const CASES: u64 = 3000;
    let mut random = Random(16);
    for (which, spec) in (0..).zip(SPECS) {
        let mut loaded = 0;
        for _ in 0..CASES {
            // One change, or two or three.
            let length = 6 + random.next() as usize % 20;
            let mut bytes = random.bytes(length);
            bytes[0] = which;
            loaded += u64::from(load_changed(&bytes) == Outcome::Loaded);
        }
        // Else nothing behind the checksums was reached, or nothing was changed.
        assert!(0 < loaded && loaded < CASES, "{spec}: {loaded} of {CASES}");
    }
}

#[test]
fn unchanged_filters_load() {
    for (which, spec) in (0..).zip(SPECS) {
        assert_eq!(load_changed(&[which, 1, 1]), Outcome::Loaded, "{spec}");
    }
}
