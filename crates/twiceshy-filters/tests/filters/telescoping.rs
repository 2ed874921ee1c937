//! What the adaptive quotient filters promise beyond what every filter does, and
//! what the telescoping filter's public implementation gets wrong.

use crate::harness::{Random, parsed};
use twiceshy_filters::quotient::telescoping::{Params, WhenSpent};
use twiceshy_filters::quotient::{Extending, Telescoping, Uncompressed};
use twiceshy_filters::remote::MemorySet;
use twiceshy_filters::{Adapted, AnyFilter, Digest, DigestFilter, Spec};

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

/// Slot states are in the file, and move with their slots.
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
    // All but those of slots that had adapted twice, or take part in the fix.
    assert!(2 * back > fixed, "reset: {back} of {fixed}");
    let (back, fixed) = came_back("telescoping:f=8,spent=reseed");
    assert!(fixed < 2100 && back < 50, "reseed: {back} of {fixed}");
}

/// A slot whose key is gone from the remote goes when it first shows itself.
#[test]
fn an_orphan_is_dropped_when_it_causes_a_false_positive() {
    fn check<F: DigestFilter<Remote = dyn twiceshy_filters::remote::Ordered>>(
        mut filter: F,
        most_left: usize,
    ) {
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
            filter.description()
        );
        for &orphan in &keys[1000..1200] {
            let outcome = filter.adapt(orphan, &mut remote).expect("in memory");
            assert!(matches!(outcome, Adapted::Fixed | Adapted::Absent), "{outcome:?}");
        }
        // A few may sit unseen until the next rebuild: a key took an orphan's
        // slot for its own and left another, or a block forgot.
        let left = filter.stats().len - kept.clone().count();
        assert!(left < most_left, "{}: {left} of 200 orphans are left", filter.description());
        filter.rebuild(&mut remote).expect("room");
        filter.check(&mut remote).expect("filter and remote agree again");
        assert!(
            kept.clone().all(|&key| filter.contains(key)),
            "{}: a false negative",
            filter.description()
        );
    }
    for text in ["telescoping:f=4,budget=32", "telescoping:f=6,budget=56,spent=reseed"] {
        check(Telescoping::new(&parsed(text), 1500).expect("a capacity"), 200);
    }
    check(Uncompressed::new(&parsed("uncompressed:f=4"), 1500).expect("a capacity"), 20);
    check(Extending::new(&parsed("extension:f=4,budget=56"), 1500).expect("a capacity"), 20);
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

/// Slots of one run with equal remainders are as good as each other until their
/// block takes other hash functions: a removal or an insertion that spends a block
/// has to know whose each is. One in 23 of these removals once denied a key.
#[test]
fn changes_that_spend_a_reseeding_block_keep_slots_with_their_keys() {
    let (mut removals, mut insertions) = (0, 0);
    for seed in 0..60 {
        for (f, budget) in [(2, 24), (2, 56), (1, 24), (3, 40)] {
            let text = format!("telescoping:f={f},budget={budget},spent=reseed");
            let spec = text.parse().expect("a filter");
            let mut filter = Telescoping::new(&spec, 280).expect("a capacity");
            let (mut remote, mut random) = (MemorySet::new(), Random(seed));
            let keys = random.digests(280);
            for &key in &keys {
                assert!(filter.insert(key, &mut remote).expect("room"));
            }
            for _ in 0..12 {
                for query in random.digests(6) {
                    filter.adapt(query, &mut remote).expect("in memory");
                }
                let spent = filter.stats().spent;
                for &key in &keys {
                    let (mut filter, mut remote) = (filter.clone(), remote.clone());
                    assert!(filter.remove(key, &mut remote).expect("in memory"));
                    if filter.stats().spent != spent {
                        removals += 1;
                        filter.check(&mut remote).expect("every invariant holds");
                    }
                }
                for key in random.digests(20) {
                    let (mut filter, mut remote) = (filter.clone(), remote.clone());
                    assert!(filter.insert(key, &mut remote).expect("room"));
                    if filter.stats().spent != spent {
                        insertions += 1;
                        filter.check(&mut remote).expect("every invariant holds");
                    }
                }
            }
        }
    }
    assert!(removals > 200 && insertions > 20, "{removals} and {insertions} prove little");
}

/// A list that cannot be what the range has is not believed.
#[test]
fn adapting_with_a_wrong_list_denies_no_key() {
    let spec = "telescoping:f=4".parse().expect("a filter");
    let [a, b, query] = [1, 2, 3].map(|last| Digest::new([7 << 40, last << 60]));
    let far = Digest::new([u64::MAX, 0]);
    for list in [vec![], vec![a], vec![a, a], vec![b, a], vec![a, far], vec![a, b, far]] {
        let mut filter = Telescoping::new(&spec, 100).expect("a capacity");
        let mut remote = MemorySet::new();
        for key in [a, b] {
            assert!(filter.insert(key, &mut remote).expect("room"));
        }
        let outcome = filter.adapt_with(query, &list, &mut remote).expect("in memory");
        assert_eq!(outcome, Adapted::Fixed, "{list:?}");
        assert!(filter.contains(a) && filter.contains(b) && !filter.contains(query), "{list:?}");
        filter.check(&mut remote).expect("every invariant holds");
    }
}

/// Thousands of slots without an owner in one run go one after the other.
#[test]
fn a_run_full_of_orphans_is_emptied() {
    let spec = "telescoping:f=8".parse().expect("a filter");
    let mut filter = Telescoping::new(&spec, 20_000).expect("a capacity");
    let mut remote = MemorySet::new();
    for last in 0..3000 {
        assert!(filter.insert(Digest::new([5 << 40, last]), &mut remote).expect("room"));
    }
    let query = Digest::new([5 << 40, 1 << 50]);
    let outcome = filter.adapt(query, &mut MemorySet::new()).expect("in memory");
    assert_eq!((outcome, filter.contains(query)), (Adapted::Fixed, false));
}

/// Keys that are gone from the remote alone, and then everything: no key is
/// denied, no operation fails, and what is fixed is fixed.
#[test]
fn a_filter_with_orphans_goes_on_working() {
    fn play<F: DigestFilter<Remote = dyn twiceshy_filters::remote::Ordered>>(
        mut filter: F,
        seed: u64,
    ) {
        let (mut remote, mut random) = (MemorySet::new(), Random(seed));
        let mut keys = random.digests(200);
        keys.iter().for_each(|&key| assert!(filter.insert(key, &mut remote).expect("room")));
        for _ in 0..20 {
            let gone = keys.swap_remove(random.next() as usize % keys.len());
            twiceshy_filters::remote::Ordered::remove(&mut remote, gone).expect("in memory");
        }
        for _ in 0..1500 {
            match random.next() % 10 {
                0..=3 if keys.len() < 200 => {
                    let key = random.digest();
                    assert!(filter.insert(key, &mut remote).expect("room"));
                    keys.push(key);
                }
                4 if keys.len() > 150 => {
                    let key = keys.swap_remove(random.next() as usize % keys.len());
                    assert!(filter.remove(key, &mut remote).expect("in memory"));
                }
                _ => {
                    let query = random.digest();
                    let outcome = filter.adapt(query, &mut remote).expect("in memory");
                    assert!(outcome != Adapted::Fixed || !filter.contains(query));
                }
            }
            assert!(keys.iter().all(|&key| filter.contains(key)), "a false negative");
        }
    }
    for seed in 0..8 {
        for text in ["telescoping:f=3,budget=16,spent=reseed", "telescoping:f=3,budget=16"] {
            play(Telescoping::new(&parsed(text), 280).expect("a capacity"), seed);
        }
        play(Uncompressed::new(&parsed("uncompressed:f=1"), 280).expect("a capacity"), seed);
        play(Extending::new(&parsed("extension:f=3,budget=16"), 280).expect("a capacity"), seed);
    }
}

#[test]
fn a_description_cannot_be_changed_to_an_impossible_one() {
    let text = "telescoping:f=8,budget=8";
    let params: Params = parsed(text);
    let errors = [
        params.when_spent(WhenSpent::Reseed).expect_err("no room for an epoch"),
        parsed::<Spec>(text).with("spent", "reseed").expect_err("no room for an epoch"),
        format!("{text},spent=reseed").parse::<Spec>().expect_err("no room for an epoch"),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(error.contains("use 16 to 128"), "{error}");
    }
}

/// A false positive that was fixed stays so when the filter grows, by `grow` or
/// because it has as many keys as it was made for. 10,000 keys and 100,000 queries: about 370
/// false positives. In a filter that forgets, one returns with a probability of
/// half or more; in one that remembers, with `2^-8` for each of the one or two
/// keys of its run whose first remainder is cut elsewhere, say 1/64: more than
/// 37 of 370 have a probability below `C(370, 38) / 64^38 < 10^-15`.
#[test]
fn growth_keeps_slot_states() {
    for text in
        ["telescoping:f=8", "telescoping:f=8,spent=reseed", "uncompressed:f=8", "extension:f=8"]
    {
        for by_insertion in [false, true] {
            let mut random = Random(7);
            let mut filter = filter(&format!("{text},full=grow"), 10_000);
            let filter_is_full = |filter: &AnyFilter| filter.stats().len == filter.stats().capacity;
            insert_all(&mut filter, &random.digests(10_000));
            while by_insertion && !filter_is_full(&filter) {
                insert_all(&mut filter, &random.digests(1));
            }
            let mut fixed = Vec::new();
            for query in random.digests(100_000) {
                if filter.contains(query) {
                    play(&mut filter, query);
                    fixed.push(query);
                }
            }
            fixed.retain(|&query| !filter.contains(query));
            assert!((200..600).contains(&fixed.len()), "{text}: {}", fixed.len());
            let cells = filter.stats().cells;
            if by_insertion {
                insert_all(&mut filter, &random.digests(1));
            } else {
                filter.grow(20_000).expect("room");
            }
            assert!(filter.stats().cells > cells, "{text}");
            filter.check().expect("every invariant holds");
            let back = fixed.iter().filter(|&&query| filter.contains(query)).count();
            assert!(back <= 37, "{text}: {back} of {} are back", fixed.len());
        }
    }
}
