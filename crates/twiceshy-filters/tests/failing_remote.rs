//! A remote that fails in the middle of anything: an error comes back, and the
//! filter is as it was.

mod harness;

use std::cell::Cell;
use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::rc::Rc;

use harness::{Random, parsed};
use twiceshy_filters::broom::{Broom, FaithfulBroom};
use twiceshy_filters::cuckoo::{
    Cuckooing, Cyclic, Plain, PlainFull, Simplified, Swapping, Varying,
};
use twiceshy_filters::quotient::{Extending, Rsqf, Telescoping, Uncompressed};
use twiceshy_filters::remote::{
    Accesses, Entry, Indexed, MemoryIndex, MemoryMirror, MemorySet, Mirror, Ordered,
};
use twiceshy_filters::{Adapted, Digest, DigestFilter, Error, RemoteError};

/// Accesses until the remote fails once; zero: it does not.
type Fuse = Rc<Cell<u32>>;

struct Failing<M> {
    memory: M,
    fuse: Fuse,
}

impl<M> Failing<M> {
    fn burn(&self) -> Result<(), RemoteError> {
        match self.fuse.get() {
            0 => Ok(()),
            1 => {
                self.fuse.set(0);
                Err("unplugged".into())
            }
            left => {
                self.fuse.set(left - 1);
                Ok(())
            }
        }
    }
}

impl Mirror for Failing<MemoryMirror> {
    fn get(&mut self, cell: usize) -> Result<Option<Digest>, RemoteError> {
        self.burn()?;
        self.memory.get(cell)
    }

    fn put(&mut self, writes: &[(usize, Option<Digest>)]) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.put(writes)
    }

    fn replace(&mut self, layout: MemoryMirror) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.replace(layout)
    }

    fn visit(&mut self, visitor: &mut dyn FnMut(Digest)) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.visit(visitor)
    }

    fn accesses(&self) -> Accesses {
        Mirror::accesses(&self.memory)
    }
}

impl Indexed for Failing<MemoryIndex> {
    fn put(&mut self, removed: &[Entry], added: &[Entry]) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.put(removed, added)
    }

    fn replace(&mut self, entries: &[Entry]) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.replace(entries)
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.visit(range, visitor)
    }

    fn visit_index(
        &mut self,
        function: u64,
        addresses: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.visit_index(function, addresses, visitor)
    }

    fn accesses(&self) -> Accesses {
        Indexed::accesses(&self.memory)
    }
}

impl Ordered for Failing<MemorySet> {
    fn insert(&mut self, digest: Digest) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.insert(digest)
    }

    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError> {
        self.burn()?;
        self.memory.remove(digest)
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        self.burn()?;
        self.memory.visit(range, visitor)
    }

    fn accesses(&self) -> Accesses {
        Ordered::accesses(&self.memory)
    }
}

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
                ordered(Plain::new(&parsed(&named("plain:")), 100).expect("a filter"), random),
                ordered(
                    Simplified::new(&parsed(&named("simplified:stash=3,")), 9).expect("a filter"),
                    random,
                ),
                mirrored(
                    PlainFull::new(&parsed(&named("plain-full:")), 100).expect("a filter"),
                    random,
                ),
                mirrored(Cyclic::new(&parsed(&named("cyclic:")), 100).expect("a filter"), random),
                mirrored(
                    Varying::new(&parsed(&named("varying:r=1,")), 100).expect("a filter"),
                    random,
                ),
                mirrored(
                    Swapping::new(&parsed(&named("swapping:")), 100).expect("a filter"),
                    random,
                ),
                mirrored(
                    Cuckooing::new(&parsed(&named("cuckooing:moves=2,")), 100).expect("a filter"),
                    random,
                ),
                ordered(Rsqf::new(&parsed(&named("rsqf:")), 100).expect("a filter"), random),
                ordered(
                    Telescoping::new(&parsed(&named("telescoping:budget=16,")), 100)
                        .expect("a filter"),
                    random,
                ),
                ordered(
                    Telescoping::new(&parsed(&named("telescoping:budget=24,spent=reseed,")), 100)
                        .expect("a filter"),
                    random,
                ),
                ordered(
                    Uncompressed::new(&parsed(&named("uncompressed:")), 100).expect("a filter"),
                    random,
                ),
                ordered(
                    Extending::new(&parsed(&named("extension:budget=16,")), 100).expect("a filter"),
                    random,
                ),
                ordered(Broom::new(&parsed(&named("broom:")), 100).expect("a filter"), random),
                indexed(
                    FaithfulBroom::new(&parsed(&named("broom:form=faithful,")), 100)
                        .expect("a filter"),
                    random,
                ),
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
