//! Keys that are removed and inserted again keep their slot states: the false
//! positives that they were adapted to stay fixed.

use crate::harness::failing::{Failing, Fuse};
use crate::harness::{Random, parsed};
use twiceshy_filters::quotient::{Extending, Telescoping, Uncompressed};
use twiceshy_filters::remote::{MemorySet, Ordered};
use twiceshy_filters::{Adapted, AnyFilter, Digest, DigestFilter, Error, Spec};

const KEYS: usize = 10_000;

/// Each adaptive quotient filter, the guard's default first.
const SPECS: [&str; 4] = [
    "telescoping:f=8,spent=reseed",
    "telescoping:f=8,spent=reset",
    "uncompressed:f=8",
    "extension:f=8",
];

/// A full filter, its keys, and the queries that it was adapted to: 10 for each key, of
/// which about 370 are false positives.
fn adapted(text: &str) -> (AnyFilter, Vec<Digest>, Vec<Digest>) {
    let mut random = Random(9);
    let mut filter = text.parse::<Spec>().expect("a filter").build(KEYS).expect("room");
    let keys = random.digests(KEYS);
    for &key in &keys {
        assert!(filter.insert(key).expect("room"));
    }
    let mut fixed = Vec::new();
    for query in random.digests(10 * KEYS) {
        if filter.contains(query) && filter.adapt(query).expect("in memory") == Adapted::Fixed {
            fixed.push(query);
        }
    }
    fixed.retain(|&query| !filter.contains(query));
    assert!((200..600).contains(&fixed.len()), "{text}: {}", fixed.len());
    assert_eq!(filter.stats().spent, 0, "{text}: blocks that forgot prove nothing here");
    (filter, keys, fixed)
}

fn back(filter: &AnyFilter, fixed: &[Digest]) -> usize {
    fixed.iter().filter(|&&query| filter.contains(query)).count()
}

/// Every key is removed and inserted again, 20 at a time. They have a table of 7 buckets to
/// themselves, of 16 entries each, and a twentieth of them or fewer have adapted
/// slots: none is pushed out. All were back before keys were remembered.
#[test]
fn keys_that_return_bring_no_false_positive_back() {
    for text in SPECS {
        let (mut filter, keys, fixed) = adapted(text);
        let (bits, states) = (filter.stats().bits, filter.states());
        for some in keys.chunks(20) {
            for &key in some {
                assert!(filter.remove(key).expect("in memory"), "{text}");
            }
            for &key in some {
                assert!(filter.insert(key).expect("room"), "{text}");
                assert!(filter.contains(key), "{text}: a false negative");
            }
        }
        filter.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
        assert_eq!(filter.states(), states, "{text}: the slot states");
        assert_eq!(back(&filter, &fixed), 0, "{text}: of {}", fixed.len());
        let more = (filter.stats().bits - bits) as f64 / KEYS as f64;
        assert!(more > 0.0 && more < 0.2, "{text}: {more} bits per key");
    }
}

/// More keys than the table has entries, out at once: the latest are remembered, the
/// others begin anew. (7 buckets of 16 have room for 112 keys of 370.)
#[test]
fn of_too_many_keys_at_once_the_latest_are_remembered() {
    for text in SPECS {
        let (mut filter, keys, fixed) = adapted(text);
        for &key in &keys {
            filter.remove(key).expect("in memory");
        }
        for &key in &keys {
            filter.insert(key).expect("room");
        }
        filter.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
        let kept: usize = filter.states()[1..].iter().sum();
        assert!((100..=112).contains(&kept), "{text}: {kept} keys are remembered");
        let back = back(&filter, &fixed);
        assert!(back >= fixed.len() / 2 && back + 90 < fixed.len(), "{text}: {back} are back");
    }
}

/// Short remainders, small budgets and few quotients: keys that return find runs out of
/// order, blocks of other epochs and blocks with no budget left. Nothing is denied, and
/// every slot stays with its key.
#[test]
fn returning_keys_are_never_denied() {
    let specs = [
        "telescoping:f=1,budget=16,spent=reseed",
        "telescoping:f=2,budget=24,spent=reseed",
        "telescoping:f=3,budget=56,spent=reset",
        "telescoping:f=4,budget=128",
        "uncompressed:f=2",
        "extension:f=2,budget=32",
        "extension:f=1,budget=8",
    ];
    let mut random = Random(10);
    for text in specs {
        for keys in [20, 150, 600] {
            let mut filter = text.parse::<Spec>().expect("a filter").build(keys).expect("room");
            // Half of them on few quotients, where runs are long.
            let universe: Vec<Digest> = (0..keys as u64)
                .map(|number| {
                    let word = random.next();
                    let narrow = (number % 5) << 61 | word >> 12;
                    Digest::new([if number % 2 == 0 { word } else { narrow }, random.next()])
                })
                .collect();
            for &key in &universe {
                filter.insert(key).expect("room");
            }
            for _ in 0..30 {
                for _ in 0..keys / 2 {
                    let near = universe[random.next() as usize % keys].words()[0];
                    let query = Digest::new([near ^ random.next() >> 58, random.next()]);
                    filter.adapt(query).expect("in memory");
                }
                let gone: Vec<Digest> =
                    universe.iter().copied().filter(|_| random.next().is_multiple_of(3)).collect();
                for &key in &gone {
                    assert!(filter.remove(key).expect("in memory"));
                }
                filter.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
                for &key in gone.iter().rev() {
                    assert!(filter.insert(key).expect("room"));
                }
                filter.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
                let denied = universe.iter().filter(|&&key| !filter.contains(key)).count();
                assert_eq!(denied, 0, "{text}: false negatives");
            }
        }
    }
}

/// A removal or an insertion that failed is tried again, and nothing was lost: the
/// key's false positive stays fixed, wherever the remote failed.
fn failures_forget_nothing<F: DigestFilter<Remote = dyn Ordered>>(mut filter: F) -> u32 {
    let mut random = Random(11);
    let fuse = Fuse::default();
    let mut remote = Failing { memory: MemorySet::new(), fuse: fuse.clone() };
    let keys = random.digests(1000);
    for &key in &keys {
        filter.insert(key, &mut remote).expect("room");
    }
    let fixed: Vec<Digest> = (0..10_000)
        .map(|_| random.digest())
        .filter(|&query| filter.adapt(query, &mut remote).expect("in memory") == Adapted::Fixed)
        .collect();
    let fixed: Vec<Digest> = fixed.into_iter().filter(|&query| !filter.contains(query)).collect();
    let mut failures = 0;
    for &key in &keys {
        for insertion in [false, true] {
            for access in 1.. {
                fuse.set(access);
                let outcome = if insertion {
                    filter.insert(key, &mut remote)
                } else {
                    filter.remove(key, &mut remote)
                };
                match outcome {
                    Ok(done) => {
                        assert!(done);
                        break;
                    }
                    Err(Error::Remote(error)) if error.to_string() == "unplugged" => failures += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            fuse.set(0);
        }
    }
    filter.check(&mut remote).expect("every invariant holds");
    assert_eq!(filter.stats().spent, 0, "blocks that forgot prove nothing here");
    let back = fixed.iter().filter(|&&query| filter.contains(query)).count();
    assert_eq!(back, 0, "of {}", fixed.len());
    assert!(fixed.len() > 20, "{} prove little", fixed.len());
    failures
}

#[test]
fn a_remote_that_fails_makes_no_key_forget() {
    let failures = [
        failures_forget_nothing(Telescoping::new(&parsed(SPECS[0]), 1000).expect("room")),
        failures_forget_nothing(Uncompressed::new(&parsed(SPECS[2]), 1000).expect("room")),
        failures_forget_nothing(Extending::new(&parsed(SPECS[3]), 1000).expect("room")),
    ];
    assert!(failures.iter().all(|&count| count > 2000), "{failures:?}");
}
