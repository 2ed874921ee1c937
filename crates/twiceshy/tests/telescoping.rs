//! What the adaptive quotient filters promise beyond what every filter does, and
//! what the telescoping filter's public implementation gets wrong.

mod harness;

use harness::Random;
use twiceshy::quotient::{Extending, Telescoping, Uncompressed};
use twiceshy::{Adapted, AnyFilter, Digest, Filter, MemorySet, Spec};

fn filter(text: &str, capacity: usize) -> AnyFilter {
    text.parse::<Spec>().expect("a filter").build(capacity).expect("a capacity")
}

fn insert_all(filter: &mut AnyFilter, digests: &[Digest]) {
    for &digest in digests {
        assert!(filter.insert(digest).expect("room"));
    }
}

/// Asks, and tells of every false positive until it is fixed.
fn play(filter: &mut AnyFilter, query: Digest) {
    while filter.contains(query) {
        if filter.adapt(query).expect("in memory") == Adapted::Unfixed {
            break;
        }
    }
}

const ALL: [&str; 7] = [
    "telescoping:f=8",
    "telescoping:f=8,code=tuned",
    "telescoping:f=4,budget=32",
    "telescoping:f=4,budget=32,spent=reseed",
    "telescoping:f=8,budget=16,spent=reseed",
    "uncompressed:f=4",
    "extension:f=4,budget=32",
];

/// The public C implementation sets the selectors of a block to zero when their
/// code overflows while slots are shifted, and leaves the remainders as they
/// are: it denied 10 of 3,686 keys in this test. Ours recomputes them.
#[test]
fn codes_that_overflow_while_an_insertion_shifts_slots_deny_no_key() {
    for text in
        ["telescoping:f=4,budget=24", "telescoping:f=8,budget=32", "extension:f=4,budget=24"]
    {
        let mut random = Random(1);
        let mut filter = filter(text, 3686);
        let keys = random.digests(3686);
        for (count, &key) in keys.iter().enumerate() {
            let before = filter.stats().spent;
            assert!(filter.insert(key).expect("room"));
            assert!(filter.contains(key));
            let during = filter.stats().spent - before;
            // The known failure shows at once in the keys of the spent block.
            if during > 0 {
                let denied = keys[..=count].iter().find(|&&key| !filter.contains(key));
                assert_eq!(denied, None, "{text}: after {count} insertions");
            }
            random.digests(200).into_iter().for_each(|query| play(&mut filter, query));
        }
        assert!(keys.iter().all(|&key| filter.contains(key)), "{text}: a false negative");
        filter.check().expect("every invariant holds");
        assert!(filter.stats().spent > 100, "{text}: {:?}", filter.stats());
    }
}

/// Half the keys, 100 false-positive queries a key, the other half, and half of
/// all out again: in the C implementation 0.9 % of the keys were denied.
#[test]
fn keys_inserted_and_removed_after_heavy_traffic_are_answered_right() {
    for text in ALL {
        let mut random = Random(2);
        let mut filter = filter(text, 4000);
        let keys = random.digests(4000);
        insert_all(&mut filter, &keys[..2000]);
        for query in random.digests(200_000) {
            play(&mut filter, query);
        }
        insert_all(&mut filter, &keys[2000..]);
        assert!(keys.iter().all(|&key| filter.contains(key)), "{text}: a false negative");
        filter.check().expect("every invariant holds");
        for &key in keys.iter().step_by(2) {
            assert!(filter.remove(key).expect("in memory"), "{text}");
        }
        filter.check().expect("every invariant holds");
        let mut kept = keys.iter().skip(1).step_by(2);
        assert!(kept.all(|&key| filter.contains(key)), "{text}: a false negative");
    }
}

/// What was learned is in the file, and moves with its slots.
#[test]
fn fixed_queries_stay_fixed_over_saving_and_shifting() {
    for text in ["telescoping:f=8", "uncompressed:f=6", "extension:f=8,budget=128"] {
        let mut random = Random(3);
        let mut filter = filter(text, 20_000);
        let keys = random.digests(20_000);
        insert_all(&mut filter, &keys[..18_000]);
        let mut fixed = Vec::new();
        for query in random.digests(40_000) {
            if filter.contains(query) {
                assert_eq!(filter.adapt(query).expect("in memory"), Adapted::Fixed, "{text}");
                fixed.push(query);
            }
        }
        assert!(fixed.len() > 100, "{text}: {} prove little", fixed.len());
        assert_eq!(filter.stats().spent, 0, "{text}");
        filter = AnyFilter::load(&filter.save()).expect("its own bytes");
        assert_eq!(filter.stats().adaptations, fixed.len() as u64);
        // Keys that come and go shift the slots. A query is a false positive
        // again only by a new key, or by a slot that had to learn more since
        // (at 6 bits fewer than 1 in 64 of 2,000 keys' slots; those are told of
        // at once and not counted below).
        insert_all(&mut filter, &keys[18_000..]);
        for &key in &keys[18_000..] {
            assert!(filter.remove(key).expect("in memory"));
        }
        let back = fixed.iter().filter(|&&query| filter.contains(query)).count();
        assert_eq!(back, 0, "{text}: {back} of {} came back", fixed.len());
    }
}

/// A spent block that resets brings its old false positives back; one that
/// reseeds does not, but for chance: each of 60 keys on 64 slots takes an old
/// query for its own with a probability of 1/64/256 under other hash functions,
/// so 1 in 273 comes back; of 2,000 that is 7, and 50 or more with less than
/// 1e-20.
#[test]
fn reseeding_does_not_bring_old_false_positives_back() {
    let came_back = |text: &str| {
        let mut random = Random(4);
        let (mut fixed, mut back) = (0, 0);
        while fixed < 2000 {
            let mut filter = filter(text, 60);
            insert_all(&mut filter, &random.digests(60));
            let mut before = Vec::new();
            while filter.stats().spent == 0 {
                let query = random.digest();
                if filter.contains(query) {
                    assert_eq!(filter.adapt(query).expect("in memory"), Adapted::Fixed, "{text}");
                    before.push(query);
                }
            }
            let cause = before.pop().expect("something spent the block");
            assert!(!filter.contains(cause), "{text}: the cause is fixed again");
            fixed += before.len();
            back += before.iter().filter(|&&query| filter.contains(query)).count();
        }
        (back, fixed)
    };
    let (back, fixed) = came_back("telescoping:f=8");
    // All but those of slots that had learned twice, or take part in the fix.
    assert!(2 * back > fixed, "reset: {back} of {fixed}");
    let (back, fixed) = came_back("telescoping:f=8,spent=reseed");
    assert!(fixed < 2100 && back < 50, "reseed: {back} of {fixed}");
}

/// A slot whose key is gone from the remote goes when it first shows itself.
#[test]
fn an_orphan_is_dropped_when_it_causes_a_false_positive() {
    fn check<F: Filter<Remote = dyn twiceshy::Ordered>>(mut filter: F, most_left: usize) {
        let mut random = Random(5);
        let keys = random.digests(2000);
        let mut remote = MemorySet::new();
        for &key in &keys[..1000] {
            filter.insert(key, &mut remote).expect("room");
        }
        let before = remote.clone();
        for &key in &keys[1000..1200] {
            filter.insert(key, &mut remote).expect("room");
        }
        for query in random.digests(20_000) {
            filter.adapt(query, &mut remote).expect("in memory");
        }
        // A crash took the remote's last writes back.
        remote = before;
        filter.check(&mut remote).expect_err("there are orphans");
        // Nothing else suffers from them.
        for &key in &keys[1200..1400] {
            assert!(filter.insert(key, &mut remote).expect("room"));
        }
        for &key in &keys[..200] {
            assert!(filter.remove(key, &mut remote).expect("in memory"));
        }
        for query in random.digests(20_000) {
            filter.adapt(query, &mut remote).expect("in memory");
        }
        let kept = keys[200..1000].iter().chain(&keys[1200..1400]);
        assert!(
            kept.clone().all(|&key| filter.contains(key)),
            "{}: a false negative",
            filter.spec()
        );
        for &orphan in &keys[1000..1200] {
            let outcome = filter.adapt(orphan, &mut remote).expect("in memory");
            assert!(matches!(outcome, Adapted::Fixed | Adapted::Absent), "{outcome:?}");
        }
        // A few may sit unseen until the next rebuild: a key took an orphan's
        // slot for its own and left another, or a block forgot.
        let left = filter.stats().len - kept.clone().count();
        assert!(left < most_left, "{}: {left} of 200 orphans are left", filter.spec());
        filter.rebuild(&mut remote).expect("room");
        filter.check(&mut remote).expect("filter and remote agree again");
        assert!(
            kept.clone().all(|&key| filter.contains(key)),
            "{}: a false negative",
            filter.spec()
        );
    }
    let spec = |text: &str| text.parse::<Spec>().expect("a filter");
    for text in ["telescoping:f=4,budget=32", "telescoping:f=6,budget=56,spent=reseed"] {
        check(Telescoping::new(&spec(text), 1500).expect("a capacity"), 200);
    }
    check(Uncompressed::new(&spec("uncompressed:f=4"), 1500).expect("a capacity"), 20);
    check(Extending::new(&spec("extension:f=4,budget=56"), 1500).expect("a capacity"), 20);
}

/// 11 bits a slot at `f = 8`, as in the paper: 2.125 of metadata, 0.875 of code.
#[test]
fn space_is_that_of_the_paper() {
    for (text, per_slot) in [
        ("telescoping:f=8", 11.0),
        ("telescoping:f=8,spent=reseed", 11.0),
        ("extension:f=8", 11.0),
        ("uncompressed:f=8", 18.125),
        ("telescoping:f=12,budget=128", 16.125),
    ] {
        let filter = filter(text, 950_000);
        let held = filter.stats().bits as f64 / filter.stats().cells as f64;
        assert!((held - per_slot).abs() < 0.005, "{text}: {held}");
    }
}

/// Thousands of keys on one quotient, queries that all collide there: answers
/// stay right, whatever cannot be fixed.
#[test]
fn piles_on_one_quotient_are_kept_while_queries_collide_with_all() {
    for text in ALL {
        let mut random = Random(6);
        let mut filter = filter(text, 3000);
        let at =
            |random: &mut Random| Digest::new([(7 << 60) | random.next() >> 12, random.next()]);
        let keys: Vec<Digest> = (0..1500).map(|_| at(&mut random)).collect();
        insert_all(&mut filter, &keys);
        for _ in 0..300 {
            let query = at(&mut random);
            filter.adapt(query).expect("in memory");
        }
        filter.check().expect("every invariant holds");
        for &key in &keys[..750] {
            assert!(filter.remove(key).expect("in memory"), "{text}");
        }
        filter.check().expect("every invariant holds");
        assert!(keys[750..].iter().all(|&key| filter.contains(key)), "{text}: a false negative");
    }
}
