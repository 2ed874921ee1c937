//! What a guard knows of the reads that adapting has spared.

use twiceshy::Guard;
use twiceshy::guard::{GuardOptions, GuardStats, MemoryStore};
use twiceshy_filters::KeyHasher;

fn guard(keys: u32) -> Guard<MemoryStore> {
    let options = GuardOptions { capacity: 4096, shard_bits: 2, ..GuardOptions::default() };
    let hasher = KeyHasher::keyed([7; 16]);
    let guard = Guard::open(MemoryStore::default(), hasher, &options).expect("a good spec");
    for key in 0..keys {
        guard.put(key.to_le_bytes(), "value").expect("memory does not fail");
    }
    guard
}

/// Misses that were false positives, each asked for once.
fn fixed(guard: &Guard<MemoryStore>, tries: u32) -> Vec<[u8; 4]> {
    let misses = (0..tries).map(|index| (u32::MAX - index).to_le_bytes());
    misses
        .filter(|miss| {
            let before = guard.stats().fixed;
            assert_eq!(guard.get(miss).expect("memory"), None);
            guard.stats().fixed > before
        })
        .collect()
}

#[test]
fn a_fixed_query_that_is_asked_again_is_a_read_spared() {
    let guard = guard(4096);
    let fixed = fixed(&guard, 20_000);
    assert!(fixed.len() > 20, "a rate of 2^-8 makes about 78: {}", fixed.len());
    for miss in &fixed {
        assert!(guard.was_fixed(miss));
        let before = guard.stats();
        guard.get(miss).expect("memory");
        guard.get_many(&[miss, miss]).expect("memory");
        let after = guard.stats();
        assert_eq!(after.spared - before.spared, after.absent - before.absent);
    }
    let spared = guard.stats().spared;
    assert!(spared > 2 * fixed.len() as u64, "most stay fixed: {spared} of {}", 3 * fixed.len());
    // What was no false positive spares nothing, however often it is asked.
    let mut absent = (0..u32::MAX).map(|index| (u32::MAX / 2 + index).to_le_bytes());
    let absent = absent.find(|miss| !guard.may_contain(miss)).expect("most are absent");
    let before = guard.stats().spared;
    (0..9).for_each(|_| assert_eq!(guard.get(absent).expect("memory"), None));
    assert!(!guard.was_fixed(absent));
    assert_eq!(guard.stats().spared, before);
}

#[test]
fn a_filter_that_grew_has_other_false_positives() {
    let guard = guard(4096);
    let fixed = fixed(&guard, 20_000);
    let growths = guard.stats().growths;
    for key in 4096..16_384_u32 {
        guard.put(key.to_le_bytes(), "value").expect("memory");
    }
    assert!(guard.stats().growths >= growths + 4, "each of four grows");
    assert!(fixed.iter().all(|miss| !guard.was_fixed(miss)));
}

#[test]
fn shards_add_up() {
    let guard = guard(4096);
    fixed(&guard, 5_000);
    let shards = guard.shard_stats();
    assert_eq!(shards.len(), 4);
    assert!(shards.iter().all(|shard| shard.queries > 1000 && shard.keys > 800));
    let mut sum = GuardStats::default();
    shards.into_iter().for_each(|shard| sum += shard);
    assert_eq!(sum, guard.stats());
    assert_eq!((sum.keys, sum.queries), (4096, 5_000));
}
