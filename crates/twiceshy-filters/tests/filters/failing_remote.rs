//! A remote that fails in the middle of anything: an error comes back, and the
//! filter is as it was.

use std::collections::HashSet;

use crate::harness::failing::{Failing, Fuse};
use crate::harness::{Random, made, parsed};
use twiceshy_filters::broom::{Broom, FaithfulBroom};
use twiceshy_filters::cuckoo::{
    Cuckooing, Cyclic, Plain, PlainFull, Simplified, Swapping, Varying,
};
use twiceshy_filters::line::LineFilter;
use twiceshy_filters::quotient::{Extending, Rsqf, Telescoping, Uncompressed};
use twiceshy_filters::remote::{Indexed, MemoryIndex, MemoryMirror, MemorySet, Mirror, Ordered};
use twiceshy_filters::{Adapted, DigestFilter, Error};

/// Random operations, every third of which meets a failure after a few
/// accesses. Returns how many errors of the remote came back.
fn play<F: DigestFilter>(
    mut filter: F,
    remote: &mut F::Remote,
    fuse: &Fuse,
    random: &mut Random,
) -> u32 {
    let universe = random.digests(300);
    let mut oracle = HashSet::new();
    let mut failures = 0;
    for step in 0..4000 {
        let digest = universe[(random.next() % 300) as usize];
        let answers = |filter: &F| -> Vec<bool> {
            universe.iter().map(|&digest| filter.contains(digest)).collect()
        };
        let before = answers(&filter);
        fuse.set(if step % 3 == 0 { 1 + (random.next() % 9) as u32 } else { 0 });
        let failure = match random.next() % 100 {
            0..=44 => {
                filter.insert(digest, remote).map(|new| assert_eq!(new, oracle.insert(digest)))
            }
            45..=64 => {
                filter.remove(digest, remote).map(|was| assert_eq!(was, oracle.remove(&digest)))
            }
            65..=98 => filter.adapt(digest, remote).map(|outcome| {
                assert_eq!(outcome == Adapted::Stored, oracle.contains(&digest));
            }),
            _ => filter.grow(100 + (random.next() % 100) as usize, remote),
        };
        fuse.set(0);
        match failure {
            Err(Error::Remote(error)) => {
                assert_eq!(error.to_string(), "unplugged");
                failures += 1;
                filter.check(remote).expect("no invariant is broken");
                assert_eq!(answers(&filter), before, "a failed operation changes no answer");
            }
            Err(Error::Full { .. } | Error::Spec { .. }) | Ok(()) => {}
            Err(error) => panic!("{error}"),
        }
        assert_eq!(filter.stats().len, oracle.len());
        if step % 50 == 0 {
            filter.check(remote).expect("no invariant is broken");
            assert!(oracle.iter().all(|&digest| filter.contains(digest)), "a false negative");
        }
    }
    failures
}

fn mirrored<F: DigestFilter<Remote = dyn Mirror>>(filter: F, random: &mut Random) -> u32 {
    let fuse = Fuse::default();
    let memory = MemoryMirror::new(filter.stats().cells);
    play(filter, &mut Failing { memory, fuse: fuse.clone() }, &fuse, random)
}

fn ordered<F: DigestFilter<Remote = dyn Ordered>>(filter: F, random: &mut Random) -> u32 {
    let fuse = Fuse::default();
    play(filter, &mut Failing { memory: MemorySet::new(), fuse: fuse.clone() }, &fuse, random)
}

fn indexed<F: DigestFilter<Remote = dyn Indexed>>(filter: F, random: &mut Random) -> u32 {
    let fuse = Fuse::default();
    play(filter, &mut Failing { memory: MemoryIndex::new(), fuse: fuse.clone() }, &fuse, random)
}

#[test]
fn a_failed_access_changes_nothing() {
    let mut random = Random(5);
    for full in ["rebuild", "grow", "error"] {
        for f in [2, 4, 8] {
            let named = |text: &str| format!("{text}f={f},full={full}");
            let random = &mut random;
            let failures = [
                ordered(made::<Plain>(&named("plain:"), 100), random),
                ordered(made::<Simplified>(&named("simplified:stash=3,"), 9), random),
                mirrored(made::<PlainFull>(&named("plain-full:"), 100), random),
                mirrored(made::<Cyclic>(&named("cyclic:"), 100), random),
                mirrored(made::<Varying>(&named("varying:r=1,"), 100), random),
                mirrored(made::<Swapping>(&named("swapping:"), 100), random),
                mirrored(made::<Cuckooing>(&named("cuckooing:moves=2,"), 100), random),
                ordered(made::<Rsqf>(&named("rsqf:"), 100), random),
                ordered(made::<Telescoping>(&named("telescoping:budget=16,"), 100), random),
                ordered(
                    made::<Telescoping>(&named("telescoping:budget=24,spent=reseed,"), 100),
                    random,
                ),
                ordered(made::<Uncompressed>(&named("uncompressed:"), 100), random),
                ordered(made::<Extending>(&named("extension:budget=16,"), 100), random),
                ordered(made::<Broom>(&named("broom:"), 100), random),
                ordered(made::<LineFilter>(&format!("line:f={},full={full}", 8 + f), 100), random),
                indexed(made::<FaithfulBroom>(&named("broom:form=faithful,"), 100), random),
            ];
            // The test proves nothing where the remote never failed.
            assert!(failures.iter().all(|&count| count > 20), "{full} {f}: {failures:?}");
        }
    }
}

/// The mirror is the truth: a filter that is older than its mirror is found
/// out, and both an old and an empty one are rebuilt from it.
#[test]
fn a_stale_or_lost_filter_is_rebuilt_from_its_remote() {
    let mut random = Random(6);
    let digests = random.digests(80);
    let spec = parsed("cyclic:f=8,s=1");
    let mut filter = Cyclic::new(&spec, 100).expect("a filter");
    let mut mirror = MemoryMirror::new(filter.stats().cells);
    for &digest in &digests[..50] {
        filter.insert(digest, &mut mirror).expect("room");
    }
    let old = filter.save();
    for &digest in &digests[50..] {
        filter.insert(digest, &mut mirror).expect("room");
    }
    filter.remove(digests[0], &mut mirror).expect("in memory");
    let stale = Cyclic::load(&old).expect("its own bytes");
    let lost = Cyclic::new(&spec, 100).expect("a filter");
    for mut filter in [stale, lost] {
        filter.check(&mut mirror).expect_err("it does not match its mirror");
        filter.rebuild(&mut mirror).expect("room");
        filter.check(&mut mirror).expect("it matches");
        assert_eq!(filter.stats().len, 79);
        assert!(digests[1..].iter().all(|&digest| filter.contains(digest)));
    }
}

/// A fingerprint with no key behind it goes when it first shows itself.
#[test]
fn an_orphan_is_dropped_when_it_causes_a_false_positive() {
    let spec = parsed("swapping:f=8");
    let mut random = Random(7);
    let (kept, gone) = (random.digest(), random.digest());
    let mut filter = Swapping::new(&spec, 10).expect("a filter");
    let mut mirror = MemoryMirror::new(filter.stats().cells);
    filter.insert(kept, &mut mirror).expect("room");
    let before = mirror.clone();
    filter.insert(gone, &mut mirror).expect("room");
    // A crash took the mirror's last write back.
    mirror = before;
    assert!(filter.contains(gone));
    assert_eq!(filter.adapt(gone, &mut mirror).expect("in memory"), Adapted::Fixed);
    assert!(!filter.contains(gone) && filter.contains(kept));
    filter.check(&mut mirror).expect("filter and mirror agree again");
}

/// Keys that were added without the remote would be lost by a rebuild: an
/// insertion that needs one refuses instead.
#[test]
fn keys_added_without_a_remote_are_not_lost_by_growth() {
    let mut random = Random(8);
    let (added, inserted) = (random.digests(90), random.digests(60));
    let mut filter = Plain::new(&parsed("plain:f=8,full=grow"), 100).expect("a filter");
    assert!(added.iter().all(|&digest| filter.add(digest)));
    let mut set = MemorySet::new();
    let refused =
        inserted.iter().filter_map(|&digest| filter.insert(digest, &mut set).err()).last();
    let error = refused.expect("150 keys do not fit").to_string();
    assert!(error.contains("without a remote"), "{error}");
    assert!(added.iter().all(|&digest| filter.contains(digest)), "a false negative");
}
