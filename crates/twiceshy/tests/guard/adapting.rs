//! Statistics of adapting: the reads that it avoided.

use twiceshy::Guard;
use twiceshy::guard::{GuardOptions, GuardStats, MemoryStore};
use twiceshy_filters::KeyHasher;

fn guard(keys: u32) -> Guard<MemoryStore> {
    let options = GuardOptions::default().capacity(4096).shard_bits(2);
    let hasher = KeyHasher::keyed([7; 16]);
    let guard = Guard::open(MemoryStore::default(), hasher, &options).expect("a good spec");
    for key in 0..keys {
        guard.put(key.to_le_bytes(), "value").expect("memory does not fail");
    }
    guard
}

/// Misses that were false positives, each looked up once.
fn adapted(guard: &Guard<MemoryStore>, tries: u32) -> Vec<[u8; 4]> {
    let misses = (0..tries).map(|index| (u32::MAX - index).to_le_bytes());
    misses
        .filter(|miss| {
            let before = guard.stats().adapted;
            assert_eq!(guard.get(miss).expect("memory"), None);
            guard.stats().adapted > before
        })
        .collect()
}

#[test]
fn a_repeated_false_positive_is_a_read_avoided_by_adapting() {
    let guard = guard(4096);
    let adapted = adapted(&guard, 20_000);
    assert!(adapted.len() > 20, "a rate of 2^-8 makes about 78: {}", adapted.len());
    for miss in &adapted {
        assert!(guard.was_adapted(miss));
        let before = guard.stats();
        guard.get(miss).expect("memory");
        guard.get_many(&[miss, miss]).expect("memory");
        let after = guard.stats();
        assert_eq!(
            after.reads_avoided_by_adapting - before.reads_avoided_by_adapting,
            after.reads_avoided - before.reads_avoided
        );
    }
    let avoided = guard.stats().reads_avoided_by_adapting;
    assert!(
        avoided > 2 * adapted.len() as u64,
        "most stay adapted to: {avoided} of {}",
        3 * adapted.len()
    );
    // A repeated miss that was never a false positive is not due to adapting.
    let mut absent = (0..u32::MAX).map(|index| (u32::MAX / 2 + index).to_le_bytes());
    let absent = absent.find(|miss| !guard.contains(miss)).expect("most are absent");
    let before = guard.stats().reads_avoided_by_adapting;
    (0..9).for_each(|_| assert_eq!(guard.get(absent).expect("memory"), None));
    assert!(!guard.was_adapted(absent));
    assert_eq!(guard.stats().reads_avoided_by_adapting, before);
}

#[test]
fn a_filter_that_grew_has_other_false_positives() {
    let guard = guard(4096);
    let adapted = adapted(&guard, 20_000);
    let growths = guard.stats().growths;
    for key in 4096..16_384_u32 {
        guard.put(key.to_le_bytes(), "value").expect("memory");
    }
    assert!(guard.stats().growths >= growths + 4, "each of four grows");
    assert!(adapted.iter().all(|miss| !guard.was_adapted(miss)));
}

#[test]
fn shards_add_up() {
    let guard = guard(4096);
    adapted(&guard, 5_000);
    let shards = guard.shard_stats();
    assert_eq!(shards.len(), 4);
    assert!(shards.iter().all(|shard| shard.queries > 1000 && shard.keys > 800));
    let mut sum = GuardStats::default();
    shards.into_iter().for_each(|shard| sum += shard);
    assert_eq!(sum, guard.stats());
    assert_eq!((sum.keys, sum.queries), (4096, 5_000));
}
