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
    for which in 0..SPECS.len() {
        let mut loaded = 0;
        for _ in 0..CASES {
            // One change, or two or three.
            let length = 6 + random.next() as usize % 20;
            let mut bytes = random.bytes(length);
            bytes[0] = u8::try_from(which).expect("a short list");
            loaded += u64::from(load_changed(&bytes) == Outcome::Loaded);
        }
        assert!(loaded < CASES, "{}: nothing is ever refused", SPECS[which]);
        println!("{}: {loaded} of {CASES} loaded", SPECS[which]);
    }
}

/// Without a change, all load.
#[test]
fn unchanged_filters_load() {
    for which in 0..SPECS.len() {
        let which_byte = u8::try_from(which).expect("a short list");
        assert_eq!(load_changed(&[which_byte, 1, 1]), Outcome::Loaded, "{}", SPECS[which]);
    }
}
