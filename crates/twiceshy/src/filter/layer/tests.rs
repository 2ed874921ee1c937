use std::collections::HashSet;

use twiceshy_filters::internals::Rng;

use super::super::fingerprints::Kind;
use super::*;

fn layer<const WIDTH: u32>(capacity: usize, sets: usize) -> Layer<WIDTH> {
    let fingerprints = Fingerprints { kind: Kind::Plain, bits: 8 };
    let layer = Layer::new(fingerprints, capacity, sets as f64 * 511.0 / capacity as f64);
    layer.expect("a small filter")
}

fn random_digest(rng: &mut Rng) -> Digest {
    Digest::new([rng.next(), rng.next()])
}

/// The formula of `exceptions.rs`, with entries so short that keys are hidden.
///
/// Each of A adaptations hides each of N stored keys with probability 1 / (sets * 2^12), nearly
/// independently: the number of hidden keys is Poisson with mean N A / (sets * 2^12), here 122.
/// Six standard deviations, 66, are exceeded with probability below 10^-7. If entries had bits of
/// the fingerprint, the key whose fingerprint made the false positive would agree in 8 of 12
/// bits wherever both have one first bin: about 125 more would be hidden.
#[test]
fn exceptions_hide_other_keys_as_rarely_as_computed() {
    const SETS: usize = 4;
    const ADAPTATIONS: usize = 4000;
    let mut rng = Rng::new(11);
    let mut layer = layer::<12>(500, SETS);
    let mut stored = Vec::new();
    while layer.len() < layer.capacity() {
        let digest = random_digest(&mut rng);
        if layer.known(digest) == Known::Absent {
            assert!(layer.add(digest), "there is room");
            stored.push(digest);
        }
    }
    let (mut hidden, mut events, mut adapted) = (HashSet::new(), 0, 0);
    while adapted < ADAPTATIONS {
        let digest = random_digest(&mut rng);
        if layer.known(digest) != Known::Maybe {
            continue;
        }
        assert!(layer.exceptions.insert(digest));
        adapted += 1;
        let now: HashSet<Digest> = stored
            .iter()
            .copied()
            .filter(|digest| layer.known(*digest) == Known::Excepted)
            .collect();
        events += now.difference(&hidden).count();
        hidden = now;
    }
    let mean = (stored.len() * ADAPTATIONS) as f64 / (SETS as f64 * f64::from(12).exp2());
    let deviations = (events as f64 - mean) / mean.sqrt();
    assert!(deviations.abs() < 6.0, "{events} keys were hidden, {mean:.0} expected");
}

/// With entries of four bits most insertions meet an exception of another key.
#[test]
fn an_inserted_key_is_never_hidden_by_an_earlier_exception() {
    let mut rng = Rng::new(12);
    let mut layer = layer::<4>(600, 2);
    let mut met = 0;
    while layer.len() < layer.capacity() {
        let digest = random_digest(&mut rng);
        match layer.known(digest) {
            Known::Maybe => assert!(layer.exceptions.insert(digest)),
            Known::Excepted => assert!(layer.exceptions.remove(digest)),
            // Seldom, so that there are false positives in between.
            Known::Absent if rng.below(10) != 0 => (),
            Known::Absent => {
                met += usize::from(layer.exceptions.holds(digest));
                assert!(layer.add(digest), "there is room");
                assert_eq!(layer.known(digest), Known::Maybe, "{digest:?}");
            }
        }
        layer.check().expect("all in order");
    }
    assert!(met > 20, "{met} insertions met an exception of another key");
}

/// As long as nobody inserts, an adapted key stays absent until five others push it out.
#[test]
fn an_adapted_key_is_absent() {
    let mut rng = Rng::new(13);
    let mut layer = layer::<ENTRY_BITS>(300, 100);
    while layer.len() < layer.capacity() {
        layer.add(random_digest(&mut rng));
    }
    let wrong: Vec<Digest> = std::iter::repeat_with(|| random_digest(&mut rng))
        .filter(|digest| layer.contains(*digest))
        .take(100)
        .collect();
    for digest in wrong {
        assert!(layer.exceptions.insert(digest));
        assert!(!layer.contains(digest) && layer.known(digest) == Known::Excepted);
    }
}
