//! Broom filters whose remote lost keys that they have, or has keys that they never got:
//! whatever they met, they can be saved and loaded.

use crate::harness::Random;
use twiceshy_filters::broom::{Broom, FaithfulBroom, Params};
use twiceshy_filters::remote::{MemoryIndex, MemorySet};
use twiceshy_filters::{Digest, DigestFilter};

/// Random operations; now and then the remote goes back to an earlier state, as a
/// restored backup does, and the filter does not. Returns how often the two disagreed
/// when the filter was saved.
fn play<F: DigestFilter, M: Clone>(
    mut filter: F,
    mut remote: M,
    as_remote: impl Fn(&mut M) -> &mut F::Remote,
    load: impl Fn(&[u8]) -> twiceshy_filters::Result<F>,
    random: &mut Random,
) -> usize {
    let universe = random.digests(2 * filter.stats().capacity);
    let (mut earlier, mut disagreed) = (remote.clone(), 0);
    for step in 0..1500 {
        let digest = universe[random.next() as usize % universe.len()];
        let outcome = match random.next() % 100 {
            0..=39 => filter.insert(digest, as_remote(&mut remote)).map(drop),
            40..=59 => filter.remove(digest, as_remote(&mut remote)).map(drop),
            60..=96 => filter.adapt(digest, as_remote(&mut remote)).map(drop),
            97..=98 => {
                earlier = remote.clone();
                Ok(())
            }
            _ => {
                remote = earlier.clone();
                Ok(())
            }
        };
        // A full filter, or one whose growth the strangers forbid, is no concern here.
        drop(outcome);
        if step % 10 == 0 {
            disagreed += usize::from(filter.check(as_remote(&mut remote)).is_err());
            filter = reloaded(filter, &load, &universe);
        }
    }
    // A rebuild takes the remote for the truth.
    if filter.rebuild(as_remote(&mut remote)).is_ok() {
        filter.check(as_remote(&mut remote)).expect("every invariant holds again");
    }
    disagreed
}

fn reloaded<F: DigestFilter>(
    filter: F,
    load: &impl Fn(&[u8]) -> twiceshy_filters::Result<F>,
    universe: &[Digest],
) -> F {
    let bytes = filter.save();
    let loaded = load(&bytes).unwrap_or_else(|error| panic!("{}: {error}", filter.description()));
    assert_eq!(loaded.save(), bytes, "{}", filter.description());
    let (stats, again) = (filter.stats(), loaded.stats());
    assert_eq!((stats.len, stats.stashed), (again.len, again.stashed));
    for &digest in universe {
        assert_eq!(filter.contains(digest), loaded.contains(digest), "{digest:?}");
    }
    loaded
}

#[test]
fn what_a_filter_saves_it_loads_whatever_strangers_it_met() {
    let mut random = Random(18);
    for f in [1, 2, 3, 8, 12, 16, 32] {
        for options in ["", ",sweep=1", ",sweep=64", ",ghosts=0", ",sweep=16,full=grow"] {
            for capacity in [5, 40, 200] {
                let spec = |form: &str| -> Params {
                    format!("broom:f={f},form={form}{options}").parse().expect("a filter")
                };
                let practical = Broom::new(&spec("practical"), capacity).expect("room");
                let faithful = FaithfulBroom::new(&spec("faithful"), capacity).expect("room");
                let random = &mut random;
                let disagreed = [
                    play(practical, MemorySet::new(), |set| set, Broom::load, random),
                    play(faithful, MemoryIndex::new(), |index| index, FaithfulBroom::load, random),
                ];
                let met = disagreed.iter().all(|&times| times > 5);
                assert!(met, "f={f}{options}, {capacity}: {disagreed:?} prove little");
            }
        }
    }
}
