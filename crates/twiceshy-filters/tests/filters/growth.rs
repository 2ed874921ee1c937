//! When a filter with `full=grow` grows, and what a refusal costs where it cannot.

use crate::harness::Random;
use twiceshy_filters::{AnyFilter, Digest, Error, Spec};

/// Every kind, each as it is used.
const SPECS: [&str; 13] = [
    "plain:f=12",
    "plain-full:f=12",
    "plain-full:f=12,k=2,b=4",
    "simplified:f=8",
    "cyclic:f=12",
    "varying:f=12",
    "swapping:f=12",
    "cuckooing:f=12",
    "rsqf:f=8",
    "telescoping:f=8,spent=reseed",
    "uncompressed:f=8",
    "extension:f=8",
    "broom:f=8",
];

fn growing(text: &str, capacity: usize) -> AnyFilter {
    format!("{text},full=grow").parse::<Spec>().expect("a filter").build(capacity).expect("room")
}

/// A filter is slow before it is quite full: it grows at its capacity, not where the last
/// cell is taken. 1000 random keys fit in any of these filters long before that, so each
/// growth below comes at exactly the capacity.
#[test]
fn a_filter_grows_when_it_has_the_keys_that_it_was_made_for() {
    for text in SPECS.into_iter().chain(["broom:f=8,form=faithful"]) {
        let mut filter = growing(text, 1000);
        let mut random = Random(16);
        for _ in 0..5 {
            let before = filter.stats();
            while filter.stats().capacity == before.capacity {
                assert_eq!(filter.stats().cells, before.cells, "{text}: other cells");
                assert!(filter.insert(random.digest()).expect("it grows"), "{text}");
            }
            let after = filter.stats();
            assert_eq!(after.len, before.capacity + 1, "{text} grew at another number of keys");
            assert_eq!(after.capacity, before.capacity + before.capacity / 2 + 1, "{text}");
            assert!(after.cells > before.cells, "{text}");
            filter.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
        }
    }
}

/// Digests that no set of hash functions can tell apart in their first word: whatever
/// the seed, their first hash is zero. (The second word is the constant that the digest
/// is folded with; only someone who knows the hasher's secret can find such keys.)
fn degenerate(random: &mut Random) -> Digest {
    Digest::new([random.next(), PI_1])
}

/// `digest.rs` folds the two words after an exclusive or with this.
const PI_1: u64 = 0x243f_6a88_85a3_08d3;

/// A key that no size has room for is refused after four attempts at most to build the
/// filter larger, and the next such keys are refused without any: an attempt visits the
/// remote once, which its counted reads show.
#[test]
fn a_refusal_costs_a_few_attempts_and_the_next_ones_none() {
    for text in ["simplified:f=4,stash=64", "simplified:f=8,stash=16", "plain:f=4"] {
        let mut filter = growing(text, 10_000);
        // The first hash functions are the digest itself, which is not degenerate.
        filter.rebuild().expect("no keys");
        let mut random = Random(17);
        let mut pile = Vec::new();
        let refused = loop {
            let reads = filter.accesses().reads;
            let digest = degenerate(&mut random);
            match filter.insert(digest) {
                Ok(_) => pile.push(digest),
                Err(Error::Full { .. }) => break filter.accesses().reads - reads,
                Err(error) => panic!("{text}: {error}"),
            }
        };
        // One more: the look whether the key is stored, if the filter answers "maybe".
        assert!(refused <= 4 + 1, "{text}: {refused} reads for a refusal");
        let reads = filter.accesses().reads;
        let tries = (0..100).map(|_| filter.insert(degenerate(&mut random)));
        let refused = tries.filter(Result::is_err).count();
        assert!(refused > 50, "{text}: {refused} refusals prove little");
        let more = filter.accesses().reads - reads;
        // A look for each, and four attempts again only behind keys that did fit.
        let most = 100 + 4 * (100 - refused as u64);
        assert!(more <= most, "{text}: {more} reads for {refused} more refusals");
        // Other keys find their room all the same, unless they belong where the pile is,
        // and the filter grows with them if the pile fits a larger one.
        for digest in pile.drain(pile.len() / 2..) {
            assert!(filter.remove(digest).expect("in memory"));
        }
        let before = filter.stats();
        let more = random.digests(before.capacity);
        let stored = more.iter().filter(|&&digest| filter.insert(digest).is_ok()).count();
        assert!(stored * 10 > more.len() * 9, "{text}: {stored} of {}", more.len());
        assert!(filter.stats().cells > before.cells, "{text}: did not grow");
        filter.check().unwrap_or_else(|broken| panic!("{text}: {broken}"));
    }
}
