//! What each operation reads and writes.

use std::ops::Range;
use std::sync::Arc;

use twiceshy::Guard;
use twiceshy::guard::MemoryStore;

use crate::stores::{SPECS, hasher, is_adaptive};
use crate::{key, options};

/// What each operation reads. A miss that passes the filter: one range, and
/// adapting nothing more but one range for each block whose budget is spent
/// (quotient filters) or one range that is swept (broom).
#[test]
fn a_miss_that_passes_the_filter_is_one_read_and_adapting_none() {
    for text in ["telescoping:f=8", "telescoping:f=8,spent=reseed"].iter().chain(SPECS) {
        let store = Arc::new(MemoryStore::default());
        let guard = Guard::open(store.clone(), hasher(), &options(text, 2000, 2)).expect("empty");
        for number in 0..2000 {
            guard.put(key(number), "value").expect("in memory");
        }
        let reads = || store.accesses().reads;
        let asked = |key: &[u8]| {
            let (before, stats) = (reads(), guard.stats());
            let found = guard.exists(key).expect("in memory");
            let (extra, now) = (reads() - before, guard.stats());
            assert_eq!(now.store_reads - stats.store_reads, extra, "each read is counted");
            (found, extra, now.adapted - stats.adapted, now.spent - stats.spent)
        };
        let (mut passed, mut free, mut adaptations) = (0, 0, 0);
        for number in 0..20_000 {
            if number < 2000 {
                assert_eq!(asked(&key(number)), (true, 1, 0, 0), "{text}");
            }
            let missing = key(1_000_000 + number);
            let maybe = guard.contains(&missing);
            let (found, made, adapted, spent) = asked(&missing);
            assert!(!found);
            if !maybe {
                assert_eq!((made, adapted, spent), (0, 0, 0), "{text}: a known miss reads nothing");
                continue;
            }
            let most = if text.starts_with("broom") { 1 } else { spent };
            assert!((1..=1 + most).contains(&made), "{text}: {made} reads, {spent} spent");
            passed += 1;
            free += u64::from(made == 1);
            adaptations += adapted;
            if adapted == 1 {
                assert_eq!(asked(&missing), (false, 0, 0, 0), "{text}: the same miss again");
            }
        }
        assert!(passed > 20, "{text}: {passed}");
        match is_adaptive(text) {
            true => assert!(20 * adaptations > 19 * passed, "{text}: {adaptations} of {passed}"),
            false => assert_eq!(adaptations, 0, "{text}"),
        }
        // A broom filter sweeps with every adaptation.
        assert!(free > 20 || text.starts_with("broom"), "{text}: {free} of {passed}");
        assert_eq!(guard.check(), Ok(0));
    }
}

/// A list of keys is one read and one write of the store, however long it is and
/// in how many shards; a removal reads once more, when the records are gone.
#[test]
fn a_list_is_one_read_and_one_write() {
    // Where two keys collide a broom filter sweeps, which reads.
    for text in SPECS.iter().filter(|text| !text.starts_with("broom")) {
        let store = Arc::new(MemoryStore::default());
        let guard = Guard::open(store.clone(), hasher(), &options(text, 4000, 2)).expect("empty");
        let accesses = |work: &dyn Fn() -> usize| {
            let before = store.accesses();
            let count = work();
            let after = store.accesses();
            (count, after.reads - before.reads, after.writes - before.writes)
        };
        let records = |numbers: Range<u64>| -> Vec<_> {
            numbers.map(|number| (key(number), key(number + 7))).collect()
        };
        let put = |numbers: Range<u64>| {
            accesses(&|| guard.put_many(&records(numbers.clone())).expect("in memory"))
        };
        let remove = |numbers: Range<u64>| {
            let keys: Vec<_> = numbers.map(key).collect();
            accesses(&|| guard.remove_many(&keys).expect("in memory"))
        };
        assert_eq!(put(0..1000), (1000, 1, 1), "{text}");
        assert_eq!(put(500..1500), (500, 1, 1), "{text}: half of them are new");
        assert_eq!(put(0..0), (0, 0, 0), "{text}");
        assert_eq!(remove(0..600), (600, 2, 1), "{text}");
        let (gone, reads, writes) = remove(0..600);
        assert!(gone == 0 && reads <= 1 && writes == 0, "{text}: {reads} reads, {writes} writes");
        assert_eq!(guard.stats().store_reads, store.accesses().reads - 4, "{text}: a read a shard");
        assert_eq!(guard.check(), Ok(0), "{text}");
        assert!(
            (0..1500).all(|number| guard.exists(key(number)).expect("read") == (number >= 600))
        );
    }
}

/// Of two values of a key in a list the last counts, and the key counts once.
#[test]
fn a_key_that_is_twice_in_a_list_has_the_last_value() {
    for text in SPECS {
        let guard =
            Guard::open(MemoryStore::default(), hasher(), &options(text, 100, 1)).expect("empty");
        let list = [(key(1), "first"), (key(2), "other"), (key(1), "second"), (key(1), "last")];
        assert_eq!(guard.put_many(&list).expect("in memory"), 2, "{text}");
        assert_eq!(guard.stats().keys, 2, "{text}");
        assert_eq!(guard.get(key(1)).expect("in memory").as_deref(), Some(&b"last"[..]), "{text}");
        assert_eq!(guard.check(), Ok(0), "{text}");
    }
}

/// What is kept of each value, up to the first that `take` refuses.
#[test]
fn values_in_bounded_memory_are_those_before_the_first_refused() {
    for text in SPECS {
        let guard =
            Guard::open(MemoryStore::default(), hasher(), &options(text, 100, 1)).expect("empty");
        for number in 0..10 {
            guard.put(key(number), vec![b'v'; number as usize]).expect("in memory");
        }
        let asked: Vec<_> = [3, 99, 5, 9, 2].map(key).into();
        let lengths = |most: usize| {
            let take = |value: &[u8]| (value.len() <= most).then_some(value.len());
            guard.get_many_while(&asked, take).expect("in memory")
        };
        assert_eq!(lengths(9), [Some(3), None, Some(5), Some(9), Some(2)], "{text}");
        assert_eq!(lengths(8), [Some(3), None, Some(5)], "{text}");
        assert_eq!(lengths(2), [], "{text}");
    }
}

/// A missing key that is there twice in a list is read for once.
#[test]
fn the_same_miss_twice_in_a_list_is_one_read() {
    let store = Arc::new(MemoryStore::default());
    let options = options("telescoping:f=2", 100, 1);
    let guard = Guard::open(store.clone(), hasher(), &options).expect("an empty store");
    for number in 0..100 {
        guard.put(key(number), "value").expect("in memory");
    }
    let missing = (1000..).map(key).find(|key| guard.contains(key)).expect("a false positive");
    let before = store.accesses().reads;
    let found = guard.get_many(&[&missing, &missing, &missing]).expect("in memory");
    assert_eq!(found, [None, None, None]);
    assert_eq!(store.accesses().reads - before, 1);
}
