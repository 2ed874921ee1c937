//! A mirror that has a digest in two cells, which no filter writes: it is refused when it is
//! loaded, found by `check`, and mended by whatever builds the filter again; no key is denied.

use crate::harness::{Random, parsed};
use twiceshy_filters::cuckoo::{Cuckooing, Cyclic, PlainFull, Swapping, Varying};
use twiceshy_filters::internals::Build;
use twiceshy_filters::remote::{MemoryMirror, Mirror};
use twiceshy_filters::{Digest, DigestFilter, Error};

const KEYS: usize = 200;

/// A filter with its mirror, in which every fifth key has a second cell, in one of its
/// own bins: filter and mirror agree on what every cell holds.
fn with_twins<F: DigestFilter<Remote = dyn Mirror>>(
    mut filter: F,
    random: &mut Random,
) -> (F, MemoryMirror, Vec<Digest>) {
    let mut mirror = MemoryMirror::new(filter.stats().cells);
    let keys = random.digests(KEYS);
    for &key in &keys {
        filter.insert(key, &mut mirror).expect("room");
    }
    for &twin in keys.iter().step_by(5) {
        let (cell, _) = mirror.iter().find(|&(_, digest)| digest == twin).expect("it is stored");
        // While another digest stands in its cell, the filter does not find it there.
        mirror.put(&[(cell, Some(random.digest()))]).expect("in memory");
        assert!(filter.insert(twin, &mut mirror).expect("room"));
        mirror.put(&[(cell, Some(twin))]).expect("in memory");
    }
    (filter, mirror, keys)
}

fn copies(mirror: &MemoryMirror, digest: Digest) -> usize {
    mirror.iter().filter(|&(_, other)| other == digest).count()
}

fn play<F: Build<Remote = dyn Mirror>>(
    text: &str,
    new: impl Fn(&F::Params, usize) -> twiceshy_filters::Result<F>,
) {
    let mut random = Random(19);
    for round in 0..4 {
        // Half empty, so that a twin moves nobody.
        let filter = new(&parsed(text), 2 * KEYS).expect("a filter");
        let (mut filter, mut mirror, keys) = with_twins(filter, &mut random);
        let twin = keys[0];
        assert_eq!((copies(&mirror, twin), filter.stats().len), (2, KEYS + KEYS / 5), "{text}");
        let broken = filter.check(&mut mirror).expect_err("a digest is there twice");
        assert!(broken.contains("stored twice"), "{text}: {broken}");
        let refused = MemoryMirror::load(&mirror.save()).expect_err("a digest is there twice");
        assert!(matches!(&refused, Error::Format { .. }), "{text}: {refused}");
        assert!(refused.to_string().contains("two cells"), "{text}: {refused}");
        // Everything goes on working, and denies nobody.
        for query in random.digests(5000) {
            filter.adapt(query, &mut mirror).expect("in memory");
        }
        assert!(keys.iter().all(|&key| filter.contains(key)), "{text}: a false negative");
        assert!(!filter.insert(twin, &mut mirror).expect("it is stored"), "{text}");
        if round % 2 == 0 {
            filter.rebuild(&mut mirror).expect("room");
        } else {
            filter.grow(3 * KEYS, &mut mirror).expect("room");
        }
        filter.check(&mut mirror).unwrap_or_else(|broken| panic!("{text}: {broken}"));
        assert_eq!(filter.stats().len, KEYS, "{text}");
        assert!(keys.iter().all(|&key| copies(&mirror, key) == 1), "{text}");
        assert!(keys.iter().all(|&key| filter.contains(key)), "{text}: a false negative");
        assert!(filter.remove(twin, &mut mirror).expect("in memory"), "{text}");
        assert!(!filter.remove(twin, &mut mirror).expect("in memory"), "{text}");
        MemoryMirror::load(&mirror.save()).expect("nothing is there twice");
    }
}

#[test]
fn a_digest_in_two_cells_is_an_error_or_mended_and_never_denied() {
    for options in ["k=2,b=4", "k=4,b=2", "k=3,b=2"] {
        let text = |kind: &str| format!("{kind}:f=8,{options}");
        play(&text("plain-full"), PlainFull::new);
        play(&text("cyclic"), Cyclic::new);
        play(&text("varying"), Varying::new);
        play(&text("swapping"), Swapping::new);
        play(&text("cuckooing"), Cuckooing::new);
    }
}
