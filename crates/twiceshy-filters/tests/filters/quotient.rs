//! What quotient filters promise beyond what every filter does: piles of keys
//! on one quotient, growth and union without the remote, digest order.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::harness::Random;
use twiceshy_filters::quotient::Rsqf;
use twiceshy_filters::quotient::rsqf::Params;
use twiceshy_filters::remote::{Accesses, MemorySet, Ordered};
use twiceshy_filters::{AnyFilter, Digest, DigestFilter, Error, RemoteError, Spec};

fn rsqf(text: &str, capacity: usize) -> Rsqf {
    Rsqf::new(&text.parse().expect("a filter"), capacity).expect("a capacity")
}

/// `count` digests whose first word is within `2^spread` of `at`.
fn pile(at: u64, spread: u32, count: usize, random: &mut Random) -> Vec<Digest> {
    (0..count)
        .map(|_| Digest::new([at ^ random.next() & ((1 << spread) - 1), random.next()]))
        .collect()
}

/// 5,000 keys on one quotient (at the first slot, in the middle, at the last:
/// the run then leaves the slots behind the quotients), with one remainder for
/// all and with many. Every answer is right, also after half are gone.
#[test]
fn thousands_of_keys_on_one_quotient_are_kept_and_removed() {
    let mut random = Random(1);
    for (text, at, spread) in [
        ("rsqf:f=4", 0, 0),
        ("rsqf:f=8", 0, 50),
        ("rsqf:f=8", 0x7abc_0000_0000_0000, 50),
        ("rsqf:f=7", u64::MAX, 0),
        ("rsqf:f=12", u64::MAX, 50),
    ] {
        let mut filter = text.parse::<Spec>().expect("a filter").build(6000).expect("room");
        let others = random.digests(500);
        let digests = pile(at, spread, 5000, &mut random);
        let quiet = filter.stats().bits;
        for &digest in others.iter().chain(&digests) {
            assert!(filter.insert(digest).expect("room"), "{text}");
        }
        filter.check().expect("every invariant holds");
        assert!(filter.stats().bits > quiet, "{text}: long offsets are counted");
        filter = AnyFilter::load(&filter.save()).expect("its own bytes");
        for &digest in digests.iter().step_by(2) {
            assert!(filter.remove(digest).expect("in memory"), "{text}");
        }
        filter.check().expect("every invariant holds");
        let kept = digests.iter().skip(1).step_by(2).chain(&others);
        assert!(kept.clone().all(|&digest| filter.contains(digest)), "{text}");
        for &digest in kept {
            assert!(filter.remove(digest).expect("in memory"), "{text}");
        }
        filter.check().expect("nothing is left");
        assert_eq!(filter.stats().len, 0);
    }
}

/// Past the last slot a key is handed back, or the filter grows, as it says.
#[test]
fn piles_past_the_last_slot_are_refused_or_make_the_filter_grow() {
    let mut random = Random(2);
    for full in ["error", "rebuild", "grow"] {
        let spec: Spec = format!("rsqf:f=5,full={full}").parse().expect("a filter");
        let mut filter = spec.build(95).expect("room");
        assert_eq!(filter.stats().cells, 100);
        let mut refused = 0;
        for digest in pile(u64::MAX, 40, 1000, &mut random) {
            match filter.insert(digest) {
                Ok(new) => assert!(new && filter.contains(digest)),
                Err(Error::Full { digest: back, len, capacity }) => {
                    assert_eq!((back, len, capacity), (digest, 100, 95));
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
        filter.check().expect("every invariant holds");
        assert_eq!(refused, if full == "grow" { 0 } else { 900 }, "{full}");
        assert_eq!(filter.stats().rebuilds > 0, full == "grow");
    }
}

/// In order of their fingerprints, keys are in order of their digests: the j-th
/// remainder of a quotient is that of its j-th digest. In whatever order they
/// came, the same keys give the same bytes.
#[test]
fn runs_are_in_digest_order_whatever_the_number_of_slots() {
    let mut random = Random(3);
    for capacity in [1, 5, 61, 100, 950, 1000, 1217, 5000] {
        let digests: BTreeSet<Digest> = random.digests(capacity).into_iter().collect();
        let mut in_order = rsqf("rsqf:f=6", capacity);
        assert!(digests.iter().all(|&digest| in_order.add(digest)));
        let slots = in_order.stats().cells as u128;
        let expected: Vec<(usize, u64)> = digests
            .iter()
            .map(|digest| {
                // floor(word * slots * 2^6 / 2^64), cut into quotient and remainder.
                let whole = (u128::from(digest.words()[0]) * slots) >> 58;
                ((whole >> 6) as usize, whole as u64 & 63)
            })
            .collect();
        assert_eq!(in_order.fingerprints().collect::<Vec<_>>(), expected);

        let mut shuffled: Vec<Digest> = digests.into_iter().collect();
        shuffled.sort_by_key(|digest| digest.words()[1]);
        let (mut filter, mut remote) = (rsqf("rsqf:f=6", capacity), MemorySet::new());
        for digest in shuffled {
            filter.insert(digest, &mut remote).expect("room");
        }
        assert_eq!(filter.fingerprints().collect::<Vec<_>>(), expected);
        filter.check(&mut remote).expect("every invariant holds");
    }
}

/// Doubled without its remote, a filter is bit for bit the one that the remote
/// would have given: down to a remainder of one bit, which cannot be split.
#[test]
fn a_filter_doubles_without_its_remote() {
    let mut random = Random(4);
    for capacity in [1, 3, 64, 100, 1217] {
        let (mut filter, mut remote) = (rsqf("rsqf:f=9", capacity), MemorySet::new());
        for digest in random.digests(capacity) {
            filter.insert(digest, &mut remote).expect("room");
        }
        for f in (1..9).rev() {
            filter = filter.doubled().expect("a bit to spare");
            filter.check(&mut remote).expect("it is the remote's filter");
            assert_eq!(filter.description(), format!("rsqf:f={f},full=rebuild"));
            // From the remote, with the same slots: the same fingerprints.
            let mut rebuilt = filter.clone();
            rebuilt.rebuild(&mut remote).expect("they fit");
            assert!(rebuilt.fingerprints().eq(filter.fingerprints()), "f={f}");
            let again = Rsqf::load(&filter.save()).expect("its own bytes");
            assert_eq!(again.stats().capacity, capacity << (9 - f));
        }
        assert!(filter.doubled().is_none(), "one bit is left");
        // And there is room for the keys that it was doubled for.
        let room = filter.stats().capacity - capacity;
        for digest in random.digests(room.min(5000)) {
            filter.insert(digest, &mut remote).expect("room");
        }
        filter.check(&mut remote).expect("every invariant holds");
    }
}

/// Two filters of one shape make one of both sets.
#[test]
fn filters_of_one_shape_merge() {
    let mut random = Random(5);
    let (mut one, mut other) = (rsqf("rsqf:f=7", 1000), rsqf("rsqf:f=7", 1000));
    let mut remote = MemorySet::new();
    for (index, digest) in random.digests(1000).into_iter().enumerate() {
        let half = if index % 3 == 0 { &mut one } else { &mut other };
        half.insert(digest, &mut remote).expect("room");
    }
    for union in [one.merged(&other), other.merged(&one)] {
        union.expect("they fit").check(&mut remote).expect("both sets, and nothing else");
    }

    // 1053 slots hold 666 and 334, not 666 twice.
    let error = other.merged(&other).err().expect("too many").to_string();
    assert!(error.contains("1332 stored keys do not fit"), "{error}");
    for different in [rsqf("rsqf:f=6", 1000), rsqf("rsqf:f=7", 999)] {
        let error = one.merged(&different).err().expect("another shape").to_string();
        assert!(error.contains("do not merge with"), "{error}");
    }
}

/// A multiset, as far as there are slots: two copies, two deletions.
#[test]
fn digests_added_twice_are_deleted_twice() {
    let mut filter = rsqf("rsqf:f=8", 19);
    let digest = Random(6).digest();
    assert!((0..20).all(|_| filter.add(digest)) && !filter.add(digest), "20 slots");
    for left in (0..20).rev() {
        assert!(filter.contains(digest) && filter.delete(digest));
        assert_eq!(filter.stats().len, left);
    }
    assert!(!filter.contains(digest) && !filter.delete(digest));
}

/// Two keys with one fingerprint keep two slots, so removing one never denies
/// the other: with the remote's word or without it, built one by one or in order.
#[test]
fn removing_a_key_never_denies_another_with_its_fingerprint() {
    let mut random = Random(7);
    for f in [1, 8, 13] {
        // The last bits of the first word, and the second word, are in no
        // fingerprint.
        let firsts = random.digests(300);
        let twins: Vec<[Digest; 2]> = firsts
            .into_iter()
            .map(|first| {
                let [high, low] = first.words();
                [Digest::new([high & !1, low]), Digest::new([high | 1, !low])]
            })
            .collect();
        let text = format!("rsqf:f={f}");
        let (mut checked, mut remote) = (rsqf(&text, 600), MemorySet::new());
        let mut alone = rsqf(&text, 600);
        for &digest in twins.iter().flatten() {
            assert!(checked.insert(digest, &mut remote).expect("room") && alone.add(digest));
        }
        let mut sorted: Vec<Digest> = twins.iter().flatten().copied().collect();
        sorted.sort_unstable();
        let spec = text.parse().expect("a filter");
        let mut in_order = Rsqf::from_sorted(&spec, 600, sorted).expect("room");
        assert_eq!(alone.fingerprints().count(), 600, "two slots for two keys");
        for &[kept, gone] in &twins {
            assert!(checked.remove(gone, &mut remote).expect("in memory"));
            assert!(alone.delete(gone) && in_order.delete(gone));
            assert!(checked.contains(kept) && alone.contains(kept) && in_order.contains(kept));
        }
        assert!(twins.iter().all(|&[kept, _]| alone.contains(kept) && in_order.contains(kept)));
        checked.check(&mut remote).expect("every invariant holds");
        assert!(alone.fingerprints().eq(in_order.fingerprints()));
    }
}

/// Built from digests in order, a filter is the one built in any order, to the
/// byte; what is not in order, or too much, is refused.
#[test]
fn a_filter_from_sorted_digests_is_the_filter_of_its_keys() {
    let mut random = Random(8);
    for (f, capacity) in [(1, 1), (8, 5), (8, 64), (12, 1217), (32, 3000)] {
        let spec: Params = format!("rsqf:f={f}").parse().expect("a filter");
        let digests = random.digests(capacity);
        let (mut filter, mut remote) = (rsqf(&spec.to_string(), capacity), MemorySet::new());
        for &digest in &digests {
            filter.insert(digest, &mut remote).expect("room");
        }
        // Moves on the way are counted, and in order there are none.
        filter.rebuild(&mut remote).expect("they fit");
        let mut sorted = digests;
        sorted.sort_unstable();
        let in_order = Rsqf::from_sorted(&spec, capacity, sorted.iter().copied()).expect("room");
        in_order.check(&mut remote).expect("every invariant holds");
        assert!(in_order.fingerprints().eq(filter.fingerprints()));
        assert_eq!(in_order.stats().bits, filter.stats().bits);
        assert_eq!((in_order.stats().kicks, in_order.stats().capacity), (0, capacity));
    }

    let spec: Params = "rsqf:f=8".parse().expect("a filter");
    let same = Digest::new([9, 9]);
    let twenty = Rsqf::from_sorted(&spec, 19, [same; 20]).expect("20 slots");
    assert_eq!(twenty.stats().len, 20);
    match Rsqf::from_sorted(&spec, 19, [same; 21]) {
        Err(Error::Full { digest, len, capacity }) => {
            assert_eq!((digest, len, capacity), (same, 20, 19));
        }
        other => panic!("one too many: {:?}", other.map(|filter| filter.stats())),
    }
    let back = [same, Digest::new([9, 8])];
    let error = Rsqf::from_sorted(&spec, 19, back).err().expect("not in order").to_string();
    assert!(error.contains("sort the digests"), "{error}");
    assert!(Rsqf::from_sorted(&spec, 0, []).is_err());
}

/// A remote that does not keep its promise of order is told so.
#[test]
fn a_remote_out_of_order_fails_the_rebuild() {
    struct Backwards(MemorySet);

    impl Ordered for Backwards {
        fn insert(&mut self, digest: Digest) -> Result<(), RemoteError> {
            self.0.insert(digest)
        }

        fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError> {
            self.0.remove(digest)
        }

        fn visit(
            &mut self,
            range: RangeInclusive<Digest>,
            visitor: &mut dyn FnMut(Digest),
        ) -> Result<(), RemoteError> {
            let mut all = Vec::new();
            self.0.visit(range, &mut |digest| all.push(digest))?;
            all.into_iter().rev().for_each(visitor);
            Ok(())
        }

        fn accesses(&self) -> Accesses {
            self.0.accesses()
        }
    }

    let (mut filter, mut remote) = (rsqf("rsqf:f=8", 100), Backwards(MemorySet::new()));
    for digest in Random(9).digests(50) {
        filter.insert(digest, &mut remote).expect("room");
    }
    let before = filter.save();
    let error = filter.rebuild(&mut remote).expect_err("out of order").to_string();
    assert!(error.contains("visited in order"), "{error}");
    assert_eq!(filter.save(), before, "all is as before");
}

/// 2.125 bits a slot beside the remainders, with one block to spare.
#[test]
fn metadata_is_2_125_bits_a_slot() {
    for f in [1, 8, 32] {
        let filter = rsqf(&format!("rsqf:f={f}"), 950_000);
        let stats = filter.stats();
        assert_eq!(stats.cells, 1_000_000);
        let blocks = 1_000_000 / 64 + 1;
        assert_eq!(stats.bits, (blocks * (17 + 8 * f) + 8) * 8);
        let per_slot = stats.bits as f64 / 1e6;
        assert!((per_slot - (2.125 + f as f64)).abs() < 0.005, "{per_slot}");
    }
}

/// A file written by hand, and the same with what only this filter can notice.
#[test]
fn files_with_a_wrong_count_or_order_do_not_load() {
    let file = |keys: u64, capacity: u64, remainders: [u8; 3]| {
        let kind = "rsqf:f=8,full=error";
        let mut bytes = b"twiceshy\x01\0\0\0".to_vec();
        bytes.extend((kind.len() as u32).to_le_bytes());
        bytes.extend(kind.as_bytes());
        for number in [20, keys, capacity, 0, 0, 17 + 64] {
            bytes.extend(u64::to_le_bytes(number));
        }
        // Quotient 0 owns slots 0 and 1, quotient 1 slot 2.
        for word in [0b011, 0b110] {
            bytes.extend(u64::to_le_bytes(word));
        }
        bytes.push(0);
        bytes.extend(remainders);
        bytes.extend([0; 61 + 8]);
        twiceshy_filters::format::seal(&mut bytes);
        bytes
    };
    let good = file(3, 19, [7, 200, 9]);
    let filter = Rsqf::load(&good).expect("a good file");
    assert_eq!(filter.fingerprints().collect::<Vec<_>>(), [(0, 7), (0, 200), (1, 9)]);
    assert_eq!(filter.save(), good);
    // 200 / 256 of the way through the first of 20 slots, and no further.
    let at = |remainder: u64| Digest::new([(remainder << 56) / 20 + 1, 0]);
    assert!(filter.contains(at(200)) && filter.contains(at(7)) && !filter.contains(at(9)));

    for (bytes, hint) in [
        (file(2, 19, [7, 200, 9]), "number of keys"),
        (file(3, 19, [200, 7, 9]), "out of order"),
        (file(3, 21, [7, 200, 9]), "no capacity of 21"),
        (file(3, 0, [7, 200, 9]), "no capacity of 0"),
    ] {
        let error = Rsqf::load(&bytes).err().expect("a bad file").to_string();
        assert!(error.contains(hint), "{error}");
    }
}
