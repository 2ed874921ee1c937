//! Bad input gives an error that says what to change.

use twiceshy_filters::cuckoo::{Cyclic, plain};
use twiceshy_filters::{AnyFilter, Error, KeyFilter, KeyHasher, Spec};

fn refused(text: &str) -> String {
    match text.parse::<Spec>() {
        Ok(spec) => panic!("{text} became {spec}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn descriptions_that_make_no_filter() {
    for (text, hint) in [
        ("", "no filter is called \"\""),
        ("blom:f=8", "there are plain, plain-full, simplified, cyclic"),
        ("plain:f=0", "f=0 is out of range: use 2 to 32"),
        ("plain:f=33", "use 2 to 32"),
        ("cyclic:f=31,s=2", "f=31 is out of range: use 2 to 30"),
        ("cyclic:s=0", "s=0 is out of range: use 1 to 8"),
        ("swapping:b=1", "b=1 is out of range: use 2 to 64"),
        ("cuckooing:k=1", "k=1 is out of range: use 2 to 16"),
        ("simplified:f=25", "use 2 to 24"),
        ("varying:f=3,r=3", "f=3 is out of range: use 4 to 31"),
        ("cuckooing:moves=0", "use 1 to"),
        ("rsqf:f=0", "f=0 is out of range: use 1 to 32"),
        ("rsqf:f=33", "use 1 to 32"),
        ("rsqf:b=4", "rsqf has no parameter \"b\"; it has f, full"),
        ("plain:s=1", "plain has no parameter \"s\"; it has f, b, literal, search, full"),
        ("plain:f", "\"f\": parameter=value is expected"),
        ("plain:f=eight", "f=eight: a number is expected"),
        ("plain:f=-1", "a number is expected"),
        ("plain:search=dfs", "one of bfs, walk, next is expected"),
        ("plain:full=shrug", "one of error, rebuild, grow is expected"),
        ("cyclic:retry=2", "0 or 1 is expected"),
    ] {
        let error = refused(text);
        assert!(error.contains(hint), "{text}: {error}");
    }
}

#[test]
fn every_description_reads_back() {
    for text in [
        "plain",
        "plain-full:k=3",
        "simplified:stash=0",
        "cyclic:s=3",
        "varying:s=0",
        "swapping",
        "cuckooing:tags=common",
        "rsqf:f=1",
    ] {
        let spec: Spec = text.parse().expect("a filter");
        assert_eq!(spec.to_string().parse::<Spec>().expect("its own words"), spec);
    }
}

#[test]
fn capacities_that_make_no_filter() {
    let spec: Spec = "plain:f=8".parse().expect("a filter");
    let error = spec.build(0).expect_err("no capacity").to_string();
    assert!(error.contains("at least 1"), "{error}");
    let error = spec.build(usize::MAX).expect_err("too much").to_string();
    assert!(error.contains("too large"), "{error}");
    let error = spec.build_within(1000, 1.5).expect_err("too few bits").to_string();
    assert!(error.contains("too few"), "{error}");
    let error = spec.for_rate(1e-12).expect_err("too low").to_string();
    assert!(error.contains("ask for a larger one"), "{error}");
    let mut filter = spec.build(10).expect("a filter");
    assert!(matches!(filter.grow(0), Err(Error::Spec { .. })));
}

#[test]
fn every_capacity_from_one_up_holds_its_keys() {
    let hasher = KeyHasher::fast(1);
    for text in [
        "plain:f=8",
        "plain-full:f=8",
        "simplified:f=4",
        "cyclic:f=8",
        "varying:f=8",
        "swapping:f=8",
        "cuckooing:f=8",
        "cuckooing:f=8,k=2,b=1",
        "rsqf:f=1",
        "rsqf:f=8",
    ] {
        let spec: Spec = text.parse().expect("a filter");
        for capacity in (1..80).chain([100, 127, 128, 129, 1000, 4097]) {
            let mut filter = spec.build(capacity).expect("a capacity");
            for key in 0..capacity as u64 {
                let digest = hasher.digest(key.to_le_bytes());
                let inserted = filter.insert(digest);
                assert!(
                    matches!(inserted, Ok(true)),
                    "{text}: key {key} of {capacity}: {inserted:?}"
                );
            }
            assert_eq!(filter.stats().len, capacity);
        }
    }
}

#[test]
fn sizes_follow_from_bits_and_from_rates() {
    for (text, cell_bits) in [
        ("plain", 11),
        ("plain-full", 11),
        ("simplified", 11),
        ("cyclic:s=2", 11),
        ("varying", 11),
        ("swapping", 11),
        ("cuckooing", 11),
        // 2.125 + 9 bits a slot, at a load of 0.959.
        ("rsqf", 9),
    ] {
        let spec: Spec = text.parse().expect("a filter");
        let filter = spec.build_within(250_000, 11.6).expect("it fits");
        assert_eq!(filter.spec().cell_bits(), cell_bits, "{text}");
        let stats = filter.stats();
        assert!(stats.bits as f64 <= 11.6 * 250_000.0, "{text}: {} bits", stats.bits);
        assert!((250_000.0 / stats.cells as f64) < 0.96, "{text}: {} cells", stats.cells);
    }
    let spec: Spec = "plain-full".parse().expect("a filter");
    assert_eq!(spec.for_rate(0.015).expect("a length").cell_bits(), 8);
    assert_eq!(spec.for_rate(0.001).expect("a length").cell_bits(), 12);
    let spec: Spec = "rsqf".parse().expect("a filter");
    assert_eq!(spec.for_rate(0.5).expect("a length").cell_bits(), 1);
    assert_eq!(spec.for_rate(0.004).expect("a length").cell_bits(), 8);
}

/// Whatever the number of keys and bits: an empty filter is within its memory,
/// and so is a full one (a stash grows with chance; it is counted with three
/// standard deviations, and seeds are fixed).
#[test]
fn no_filter_leaves_its_memory() {
    let hasher = KeyHasher::fast(2);
    for text in
        ["plain", "plain-full:k=3", "simplified", "cyclic:s=2", "varying", "swapping", "cuckooing"]
    {
        let spec: Spec = text.parse().expect("a filter");
        for keys in [20, 129, 1000, 30_011] {
            for bits in [7.5, 8.6, 9.4, 11.6, 13.034, 16.0, 21.3] {
                let Ok(mut filter) = spec.build_within(keys, bits) else { continue };
                let most = bits * keys as f64;
                assert!(
                    filter.stats().bits as f64 <= most,
                    "{text}: {keys} keys, {bits} bits, empty"
                );
                for key in 0..keys as u64 {
                    // A tiny filter may be full before its last key.
                    let _ = filter.insert(hasher.digest(key.to_le_bytes()));
                }
                assert!(
                    filter.stats().bits as f64 <= most,
                    "{text}: {keys} keys, {bits} bits, full"
                );
            }
        }
    }
}

/// A rebuild that failed is not tried again with every further key.
#[test]
fn a_hopeless_rebuild_is_not_repeated() {
    let hasher = KeyHasher::fast(5);
    let mut filter = "plain:f=2,b=1".parse::<Spec>().expect("a filter").build(300).expect("room");
    let mut costs = Vec::new();
    for key in 0..300u64 {
        let before = filter.accesses().reads;
        if filter.insert(hasher.digest(key.to_le_bytes())).is_err() {
            costs.push(filter.accesses().reads - before);
        }
    }
    // Eight visits of the whole set the first time, at most a look-up later.
    assert!(costs.len() > 10 && costs[0] >= 8, "{costs:?}");
    assert!(costs[1..].iter().all(|&reads| reads <= 1), "{costs:?}");
    let gone = hasher.digest(0u64.to_le_bytes());
    assert!(filter.remove(gone).expect("in memory"));
    assert!(filter.insert(gone).expect("its own place is free again"));
}

#[test]
fn a_hasher_is_kept_and_restored() {
    for hasher in [KeyHasher::random(), KeyHasher::fast(u64::MAX)] {
        let again = KeyHasher::from_bytes(&hasher.to_bytes()).expect("its own bytes");
        assert_eq!(again, hasher);
    }
    for bytes in [&[][..], &[1; 16], &[1; 18], &[9; 17], &[2; 17]] {
        assert!(KeyHasher::from_bytes(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn files_that_are_none() {
    let mut filter = "cyclic:f=7,s=1".parse::<Spec>().expect("a filter").build(100).expect("room");
    let hasher = KeyHasher::fast(1);
    for key in 0..100u64 {
        filter.insert(hasher.digest(key.to_le_bytes())).expect("room");
    }
    let whole = filter.save();
    AnyFilter::load(&whole).expect("its own bytes");
    for length in 0..whole.len() {
        let error = AnyFilter::load(&whole[..length]).expect_err("cut short").to_string();
        assert!(error.contains("not a usable saved filter"), "{error}");
    }
    for bit in 0..whole.len() * 8 {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(AnyFilter::load(&flipped).is_err(), "bit {bit}");
    }
    let mut newer = whole.clone();
    newer[8] = 9;
    let error = AnyFilter::load(&newer).expect_err("newer").to_string();
    assert!(error.contains("format version 9") && error.contains("up to 2"), "{error}");
    let error = AnyFilter::load(b"GIF89a").expect_err("a picture").to_string();
    assert!(error.contains("does not start with"), "{error}");
}

#[test]
fn a_filter_and_the_remote_of_another_do_not_load() {
    let build = |seed: u64| {
        let mut filter = "plain:f=8".parse::<Spec>().expect("a filter").build(50).expect("room");
        let hasher = KeyHasher::fast(seed);
        for key in 0..50u64 {
            filter.insert(hasher.digest(key.to_le_bytes())).expect("room");
        }
        filter.save()
    };
    let (one, other) = (build(1), build(2));
    // Both files have the same layout: take the second half of one, that is
    // its remote, and the first of the other.
    let split = one.len() - 8 - (8 + 16 + 3 + 8 + 50 * 16 + 8);
    let mut mixed = [&one[..split], &other[split..]].concat();
    twiceshy_filters::format::seal(&mut mixed);
    let error = AnyFilter::load(&mixed).expect_err("they do not belong together").to_string();
    assert!(error.contains("has no fingerprint of its own"), "{error}");
}

#[test]
fn a_saved_filter_wants_its_own_hasher_and_type() {
    let spec: Spec = "swapping:f=8".parse().expect("a filter");
    let secret = KeyHasher::keyed([7; 16]);
    let mut filter = KeyFilter::with_hasher(&spec, 10, secret.clone()).expect("room");
    filter.insert("stored").expect("room");
    let bytes = filter.save();
    let loaded = KeyFilter::load(&bytes, secret).expect("the same secret");
    assert!(loaded.contains("stored"));
    let error =
        KeyFilter::load(&bytes, KeyHasher::random()).expect_err("another secret").to_string();
    assert!(error.contains("another hasher or secret"), "{error}");
    assert!(
        AnyFilter::load(&bytes).expect_err("it has a hasher").to_string().contains("is expected")
    );
    let error = "swapping:f=8".parse::<plain::Params>().expect_err("another kind").to_string();
    assert!(error.contains("this type is for plain"), "{error}");
    assert!(Cyclic::load(&bytes).is_err());
}

/// A set: the second insertion of a key changes nothing, one removal removes
/// it, and the removal of an absent key, a false positive included, changes
/// nothing.
#[test]
fn keys_are_stored_once_and_only_stored_keys_are_removed() {
    let hasher = KeyHasher::fast(3);
    for text in [
        "plain:f=3",
        "plain-full:f=3",
        "simplified:f=3",
        "cyclic:f=3",
        "varying:f=3",
        "swapping:f=3",
        "cuckooing:f=3",
        "rsqf:f=3",
    ] {
        let mut filter = text.parse::<Spec>().expect("a filter").build(200).expect("room");
        for key in 0..200u64 {
            let digest = hasher.digest(key.to_le_bytes());
            assert!(filter.insert(digest).expect("room"), "{text}: new");
            assert!(!filter.insert(digest).expect("no room needed"), "{text}: stored already");
        }
        assert_eq!(filter.stats().len, 200);
        let bytes = filter.save();
        let mut positives = 0;
        for key in 1000..3000u64 {
            let absent = hasher.digest(key.to_le_bytes());
            positives += u32::from(filter.contains(absent));
            assert!(!filter.remove(absent).expect("in memory"), "{text}: never stored");
        }
        assert!(positives > 100, "{text}: {positives} false positives prove nothing");
        assert_eq!(filter.save(), bytes, "{text}: nothing has changed");
        for key in 0..200u64 {
            let digest = hasher.digest(key.to_le_bytes());
            assert!(filter.remove(digest).expect("in memory"), "{text}: stored");
            assert!(!filter.remove(digest).expect("in memory"), "{text}: removed already");
        }
        assert_eq!(filter.stats().len, 0);
    }
}

/// Two keys with one fingerprint keep two cells: removing one never denies the
/// other. (A filter that lets them share a cell fails here.)
#[test]
fn removing_a_key_never_denies_another_with_the_same_fingerprint() {
    let hasher = KeyHasher::fast(4);
    for text in [
        "plain:f=2,full=grow",
        "plain-full:f=2",
        "simplified:f=2",
        "swapping:f=2",
        "cuckooing:f=2",
        "rsqf:f=2",
    ] {
        let mut filter = text.parse::<Spec>().expect("a filter").build(500).expect("room");
        let digests: Vec<_> = (0..500u64).map(|key| hasher.digest(key.to_le_bytes())).collect();
        for &digest in &digests {
            filter.insert(digest).expect("room");
        }
        for (removed, &digest) in digests.iter().enumerate() {
            assert!(filter.remove(digest).expect("in memory"));
            let denied =
                digests[removed + 1..].iter().filter(|&&kept| !filter.contains(kept)).count();
            assert_eq!(denied, 0, "{text}: after {} removals", removed + 1);
        }
    }
}
