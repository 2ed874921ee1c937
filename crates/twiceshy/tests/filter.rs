//! `Filter` and `Frozen` against an exact set.

#[path = "../../twiceshy-filters/tests/harness/random.rs"]
mod random;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::sync::Arc;
use std::thread;

use random::Random;
use twiceshy::filter::{DEFAULT_RATE, Kind};
use twiceshy::{Filter, Frozen, KeyHasher};

const KINDS: [Kind; 3] = [Kind::Line, Kind::Plain, Kind::Rsqf];

fn hasher(seed: u8) -> KeyHasher {
    KeyHasher::keyed([seed; 16])
}

/// Tiny and crowded, with short fingerprints, no exceptions, or one set of them.
fn filters() -> Vec<(String, Filter)> {
    let mut filters = Vec::new();
    for capacity in [1, 3, 20, 150] {
        for rate in [0.9, 0.2, 0.01, DEFAULT_RATE] {
            for exceptions in [0.0, 0.01, 8.0, 200.0] {
                let builder = Filter::builder().capacity(capacity).rate(rate);
                let builder = builder.exceptions(exceptions).hasher(hasher(3));
                for kind in KINDS {
                    let filter = builder.clone().kind(kind).build().expect("good numbers");
                    let sizes = format!("capacity {capacity}, rate {rate}");
                    filters.push((format!("{kind:?}, {sizes}, exceptions {exceptions}"), filter));
                }
            }
        }
    }
    filters
}

/// The laws of a filter: a stored key is never absent, a reported one is not "maybe" until its
/// set has taken five others or it is inserted, and nothing else changes an answer. Runs of
/// insertions past the capacity make chains; saving and loading in between changes nothing.
#[test]
fn a_stored_key_is_never_denied() {
    for (name, mut filter) in filters() {
        let mut random = Random(5);
        let mut stored: HashSet<u64> = HashSet::new();
        let mut fixed = 0;
        for step in 0..3000 {
            let key = random.next() % 4000;
            match random.next() % 8 {
                0 => {
                    let before = filter.contains(key);
                    assert_eq!(filter.insert(key), !before, "{name}, step {step}: {key}");
                    stored.insert(key);
                    assert!(filter.contains(key), "{name}, step {step}: {key}");
                }
                1..6 => {
                    if filter.contains(key) && !stored.contains(&key) {
                        let adapted = filter.adapt(key);
                        assert_eq!(adapted, filter.stats().exceptions_room != 0, "{name}");
                        assert_eq!(filter.contains(key), !adapted, "{name}, step {step}: {key}");
                        fixed += usize::from(adapted);
                    } else if !stored.contains(&key) {
                        assert!(!filter.adapt(key), "{name}: absent already");
                    }
                }
                6 if step % 16 == 0 => {
                    let bytes = filter.to_bytes();
                    filter = Filter::from_bytes(&bytes).expect("its own bytes");
                    assert!(filter.to_bytes() == bytes, "{name}: saved otherwise than loaded");
                }
                _ if step % 1500 == 0 => {
                    filter.clear();
                    stored.clear();
                    assert!(filter.is_empty() && filter.stats().layers == 1, "{name}");
                }
                _ => (),
            }
            if step % 50 == 0 {
                filter.check().unwrap_or_else(|broken| panic!("{name}: {broken}"));
                for key in &stored {
                    assert!(filter.contains(key), "{name}, step {step}: {key}");
                }
                assert!(filter.len() <= stored.len() && filter.is_empty() == stored.is_empty());
            }
        }
        let stats = filter.stats();
        // Of 1,800 queries at a rate of 0.01, 18 are wrong once it is full, and fewer at less.
        assert!(fixed > 0 || stats.exceptions_room == 0 || name.contains("rate 0.0"), "{name}");
        assert!(stats.exceptions <= stats.exceptions_room, "{name}");
        // Frozen, it answers the same.
        let keys: Vec<u64> = (0..4000).collect();
        let answers: Vec<bool> = keys.iter().map(|key| filter.contains(key)).collect();
        assert_eq!(filter.contains_many(&keys), answers, "{name}");
        let frozen = filter.clone().freeze();
        let thawed = Frozen::from_bytes(&frozen.to_bytes()).expect("its own bytes");
        for frozen in [frozen, thawed] {
            frozen.check().unwrap_or_else(|broken| panic!("{name}: {broken}"));
            assert!(keys.iter().zip(&answers).all(|(key, found)| frozen.contains(key) == *found));
            assert_eq!(frozen.contains_many(&keys), answers, "{name}");
        }
    }
}

/// Joined filters answer "maybe" where one of them did, exceptions included, and go on as any
/// other: they take more keys, and can be saved.
#[test]
fn joined_filters_answer_as_either_did() {
    for kind in KINDS {
        let make = |capacity| {
            let builder = Filter::builder().capacity(capacity).rate(0.2).exceptions(60.0);
            builder.kind(kind).hasher(hasher(7)).build().expect("good numbers")
        };
        for (ours, theirs) in [(20, 300), (300, 20), (50, 50), (1, 0), (0, 1), (0, 0)] {
            let (mut first, mut second) = (make(20), make(40));
            first.extend(0..ours);
            second.extend(1000..1000 + theirs);
            for key in 2000..2100 {
                first.adapt(key);
            }
            for key in 2050..2150 {
                second.adapt(key);
            }
            let before: Vec<bool> =
                (0..4000).map(|key| first.contains(key) || second.contains(key)).collect();
            let mut both = first.clone();
            both.absorb(second.clone()).expect("one hasher");
            both.check().expect("all in order");
            let after: Vec<bool> = (0..4000).map(|key| both.contains(key)).collect();
            assert_eq!(before, after, "{kind:?}, {ours} and {theirs}");
            assert_eq!(both.len(), first.len() + second.len());
            let mut both = Filter::from_bytes(&both.to_bytes()).expect("as saved");
            both.extend(5000..5500);
            assert!((5000..5500).chain(0..ours).all(|key| both.contains(key)));
        }
    }
    let mut filter = Filter::new(10).expect("a small filter");
    let error = filter.absorb(Filter::new(10).expect("another secret")).expect_err("two secrets");
    assert!(error.to_string().contains("same hasher"), "{error}");
}

/// Looking keys up changes no filter, and each change of an answer does.
#[test]
fn equal_filters_answer_alike() {
    for kind in KINDS {
        let builder = Filter::builder().capacity(100).rate(0.2).exceptions(60.0).kind(kind);
        let mut filter = builder.clone().hasher(hasher(7)).build().expect("good numbers");
        filter.extend(0..80);
        let wrong: Vec<u32> = (1000..2000).filter(|key| filter.contains(*key)).take(12).collect();
        wrong.iter().for_each(|key| assert!(filter.adapt(*key)));
        let copy = filter.clone();
        assert!((0..2000).filter(|key| copy.contains(*key)).count() > 80);
        assert!(filter == copy && filter == Filter::from_bytes(&copy.to_bytes()).expect("saved"));
        let mut more = copy.clone();
        assert!(more.insert((0..).find(|key| !more.contains(*key)).expect("one in five")));
        assert!(more != filter);
        let mut fewer = copy.clone();
        fewer.insert(wrong[3]);
        assert!(fewer != filter);
        let mut other = builder.hasher(hasher(8)).build().expect("good numbers");
        assert!(other != filter);
        other.clear();
        filter.clear();
        assert!(other != filter, "another secret");
    }
}

/// Without its exceptions a filter is wrong where it was before, and has room for as many as the
/// new table holds: none where it has none. A size that no table has changes nothing.
#[test]
fn a_reset_of_exceptions_forgets_them_and_resizes_their_table() {
    for kind in KINDS {
        let builder = Filter::builder().capacity(300).rate(0.2).exceptions(60.0).kind(kind);
        let mut filter = builder.hasher(hasher(7)).build().expect("good numbers");
        filter.extend(0..300);
        let wrong: Vec<u32> = (1000..2000).filter(|key| filter.contains(*key)).take(20).collect();
        assert!(wrong.iter().all(|key| filter.adapt(*key)), "{kind:?}");
        for bits in [-1.0, 1e9, f64::NAN] {
            let before = filter.clone();
            assert!(filter.reset_exceptions(bits).is_err() && filter == before, "{kind:?}, {bits}");
        }
        let large = filter.stats();
        assert_eq!((wrong.len(), large.exceptions), (20, 20), "{kind:?}");
        for bits in [20.0, 0.0] {
            assert!(!wrong.iter().any(|key| filter.contains(*key)), "{kind:?}: fixed");
            filter.reset_exceptions(bits).expect("a size that there is");
            assert_eq!(filter.stats().exceptions, 0, "{kind:?}, {bits}");
            assert!(filter.stats().bytes < large.bytes, "{kind:?}, {bits}");
            assert!(wrong.iter().all(|key| filter.contains(*key)), "{kind:?}, {bits}: forgotten");
            assert!((0..300).all(|key| filter.contains(key)), "{kind:?}: a false negative");
            let adapted = wrong.iter().filter(|key| filter.adapt(**key)).count();
            assert_eq!(adapted, if bits == 0.0 { 0 } else { 20 }, "{kind:?}, {bits}");
        }
    }
}

/// The number of false positives among fresh keys is binomial. Its mean is at most `rate *
/// asked`; six standard deviations above are exceeded with probability below 10^-8. Also for
/// a chain, with 33 times as many keys as it was made for. It is no better than it need be:
/// a filter within its capacity has at least a fourth of the rate.
#[test]
fn the_rate_is_kept_also_by_a_chain() {
    const ASKED: u64 = 200_000;
    let rates = [0.9, 0.5, 0.25, 0.1, 0.01, 0.007, DEFAULT_RATE, 0.001, 0.0005];
    for (kind, rate) in KINDS.into_iter().flat_map(|kind| rates.map(|rate| (kind, rate))) {
        for (times, capacity) in [(1, 30_000), (33, 1000)] {
            let builder = Filter::builder().capacity(capacity).rate(rate).hasher(hasher(1));
            let mut filter = builder.kind(kind).build().expect("good numbers");
            filter.extend(0..times * capacity);
            let asked = (0..ASKED).filter(|number| filter.contains(number + (1 << 40)));
            let (wrong, mean) = (asked.count() as f64, rate * ASKED as f64);
            assert!(wrong < mean + 6.0 * mean.sqrt(), "{rate}, {times} times: {wrong}");
            assert!(times != 1 || wrong > mean / 4.0, "{rate}: {wrong}");
            let stats = filter.stats();
            assert_eq!(stats.layers == 1, times == 1, "{stats:?}");
            assert!(stats.rate <= rate, "{stats:?}");
            // What it predicts is what was seen, with the same bound; where several filters
            // take one key for stored, which is common at high rates only, it is more.
            let predicted = stats.rate * ASKED as f64;
            assert!(wrong < predicted + 6.0 * predicted.sqrt(), "{wrong}: {stats:?}");
            let alone = rate <= 0.1 || stats.layers == 1;
            assert!(!alone || wrong > predicted - 6.0 * predicted.sqrt(), "{wrong}: {stats:?}");
            // Keys that were false positives are not counted: a share of at most `rate`.
            let keys = (times * capacity) as f64;
            let uncounted = keys - stats.len as f64;
            assert!(uncounted <= keys * rate + 6.0 * (keys * rate).sqrt(), "{stats:?}");
        }
    }
}

/// The default table of a full filter of 20,000 keys holds 95 exceptions. When it is full, a
/// key that is asked for all the time is read once, whatever else comes by.
#[test]
fn exceptions_in_use_survive_a_scan() {
    let mut filter = Filter::builder().capacity(20_000).hasher(hasher(2)).build().expect("good");
    filter.extend(0..20_000);
    let ask = |filter: &mut Filter, key: u64| filter.contains(key) && filter.adapt(key);
    for scanned in 1 << 40..(1 << 40) + 500_000 {
        ask(&mut filter, scanned);
    }
    let stats = filter.stats();
    assert!(stats.exceptions > 85 && stats.exceptions_room == 95, "{stats:?}");
    let hot = (1 << 32..).find(|key: &u64| filter.contains(key)).expect("one in 500");
    let mut reads = 0;
    for scanned in 1 << 50..(1 << 50) + 500_000 {
        reads += usize::from(ask(&mut filter, hot));
        ask(&mut filter, scanned);
    }
    assert_eq!(reads, 1);
}

#[test]
fn keys_of_every_kind() {
    let mut filter = Filter::new(100).expect("a capacity");
    assert!(filter.insert("text") && !filter.insert(String::from("text")));
    assert!(filter.contains(b"text") && filter.contains(b"text".to_vec()));
    assert!(filter.insert(-5i16) && filter.contains(-5i128) && !filter.insert(-5isize));
    assert!(filter.insert(("a", 1u8)) && filter.contains((String::from("a"), 1u64)));
    assert!(!filter.contains(("a", 2)) && !filter.contains(("b", 1)));
    assert!(filter.insert((1, 2, "x", b"y", 5, -6)) && filter.contains((1, 2, "x", b"y", 5, -6)));
    assert_eq!(filter.len(), 4);
    filter.extend(["one", "two"]);
    let all: Vec<bool> = filter.contains_many(&["one", "two", "three"]);
    assert_eq!(all, [true, true, false]);
}

#[test]
fn a_collected_filter_is_as_large_as_its_keys() {
    let filter: Filter = (0..10_000).collect();
    let stats = filter.stats();
    assert_eq!((stats.layers, stats.capacity), (1, 10_000));
    assert!((0..10_000).all(|key| filter.contains(key)));
    let empty: Filter = std::iter::empty::<&str>().collect();
    assert!(empty.is_empty() && !empty.contains("a"));
}

#[test]
fn files_are_replaced_whole_and_keep_their_permissions() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("seen");
    let mut filter: Filter = ["ada"].into_iter().collect();
    filter.save(&path).expect("saved");
    assert!(Filter::load(&path).expect("whole").contains("ada"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let mode = || fs::metadata(&path).expect("a file").permissions().mode() & 0o777;
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a file of ours");
        filter.insert("bob");
        // Through a link, which stays one.
        let link = directory.path().join("link");
        symlink(&path, &link).expect("a link");
        filter.save(&link).expect("saved");
        assert_eq!(mode(), 0o640);
        assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
        assert!(Filter::load(&path).expect("whole").contains("bob"));
        fs::remove_file(&link).expect("a link");
        filter.clone().freeze().save(directory.path().join("frozen")).expect("saved");
        let frozen = fs::metadata(directory.path().join("frozen")).expect("a file");
        assert_ne!(frozen.permissions().mode() & 0o777, 0o600, "as the umask says");
        fs::remove_file(directory.path().join("frozen")).expect("a file");
    }
    let names: Vec<_> = fs::read_dir(directory.path()).expect("a directory").collect();
    assert_eq!(names.len(), 1, "nothing is left beside it: {names:?}");

    let error = Filter::load(directory.path().join("none")).expect_err("no such file");
    assert!(error.kind() == io::ErrorKind::NotFound && error.to_string().contains("none"));
    let error = filter.save(directory.path().join("no/such/file")).expect_err("no such place");
    assert!(error.to_string().contains("no/such/file"), "{error}");
    let error = Frozen::load(&path).expect_err("not frozen");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("\"frozen filter\" is expected"), "{error}");
}

#[test]
fn the_secret_stays_at_home_if_it_is_asked_to() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("seen");
    let filter: Filter = ["ada", "bob"].into_iter().collect();
    filter.save_without_secret(&path).expect("saved");
    let secret = &filter.hasher().to_bytes()[1..];
    let has_secret = |bytes: &[u8]| bytes.windows(secret.len()).any(|window| window == secret);
    assert!(!has_secret(&fs::read(&path).expect("a file")) && has_secret(&filter.to_bytes()));
    let error = Filter::load(&path).expect_err("no secret").to_string();
    assert!(error.contains("without its secret"), "{error}");
    let error = Filter::load_with_hasher(&path, hasher(1)).expect_err("another").to_string();
    assert!(error.contains("another hasher"), "{error}");
    let loaded = Filter::load_with_hasher(&path, filter.hasher().clone()).expect("its own");
    assert!(loaded.contains("ada") && loaded.to_bytes() == filter.to_bytes());
    assert!(!format!("{filter:?}").contains(&format!("{:?}", filter.hasher().to_bytes())));
}

/// A file has the fingerprints, 12 bytes for each exception, and little else.
#[test]
fn a_frozen_file_is_as_large_as_its_filter() {
    let mut filter = Filter::builder().capacity(93_516).hasher(hasher(4)).build().expect("good");
    filter.extend(0..93_516);
    let fingerprints = filter.stats().fingerprint_bytes;
    assert!(fingerprints < 93_516 * 128 / 80 + 100);
    let besides = filter.clone().freeze().to_bytes().len() - fingerprints;
    assert!(besides < 300, "{besides}");
    let wrong = (1 << 32..).filter(|key: &u64| filter.contains(key)).take(50);
    for key in wrong.collect::<Vec<_>>() {
        filter.adapt(key);
    }
    let sets = filter.stats().exceptions_room / 5;
    assert!(filter.freeze().to_bytes().len() < fingerprints + 300 + 50 * 12 + sets);
}

/// Readers in many threads, of which each hits exceptions all the time.
#[test]
fn threads_share_a_filter() {
    let mut filter =
        Filter::builder().capacity(5000).rate(0.2).hasher(hasher(6)).build().expect("");
    filter.extend(0..5000);
    let wrong: Vec<u64> = (1 << 32..).filter(|key| filter.contains(key)).take(12).collect();
    let mut fixed = HashMap::new();
    for key in wrong {
        filter.adapt(key);
    }
    for key in 1 << 32..(1 << 32) + 200u64 {
        fixed.insert(key, filter.contains(key));
    }
    let (filter, fixed) = (Arc::new(filter), Arc::new(fixed));
    let readers = (0..4).map(|seed| {
        let (filter, fixed) = (Arc::clone(&filter), Arc::clone(&fixed));
        thread::spawn(move || {
            let mut random = Random(seed);
            for _ in 0..100_000 {
                assert!(filter.contains(random.next() % 5000));
                let key = (1 << 32) + random.next() % 200;
                assert_eq!(filter.contains(key), fixed[&key]);
            }
        })
    });
    for reader in readers.collect::<Vec<_>>() {
        reader.join().expect("a reader");
    }
    filter.check().expect("all in order");
}

#[cfg(feature = "serde")]
#[test]
fn serde_has_the_bytes() {
    let filter: Filter = ["ada", "bob"].into_iter().collect();
    let text = serde_json::to_string(&filter).expect("an array");
    let again: Filter = serde_json::from_str(&text).expect("its own bytes");
    assert!(again.to_bytes() == filter.to_bytes());
    let text = serde_json::to_string(&filter.clone().freeze()).expect("an array");
    let frozen: Frozen = serde_json::from_str(&text).expect("its own bytes");
    assert!(frozen.contains("ada") && frozen.to_bytes() == filter.freeze().to_bytes());
    assert!(serde_json::from_str::<Filter>(&text).is_err(), "a frozen filter is no filter");
    assert!(serde_json::from_str::<Filter>("[1, 2]").is_err());
}
