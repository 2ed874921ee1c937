//! The fuzzer's target for `Filter`'s files, with a fixed number of cases: changed bytes
//! behind checksums that are right.

mod changed;
#[path = "../../twiceshy-filters/tests/harness/random.rs"]
mod random;

use changed::filter::{FILTERS, Outcome, load_changed};
use random::Random;

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
            loaded += u64::from(load_changed(&bytes) == Outcome::Loaded);
        }
        // Else nothing behind the checksums was reached, or nothing was changed.
        assert!(0 < loaded && loaded < CASES, "{which}: {loaded} of {CASES}");
    }
}

#[test]
fn unchanged_filters_load() {
    for which in 0..FILTERS.len() as u8 {
        for frozen in [0, 1] {
            assert_eq!(load_changed(&[which, frozen]), Outcome::Loaded, "{which}");
        }
    }
}
