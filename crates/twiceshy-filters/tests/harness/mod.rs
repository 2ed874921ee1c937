//! Operations against an oracle, from a string of bytes: the same code runs in
//! the property tests and in the fuzzers (`fuzz/`), which include this file.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod failing;
mod random;

use std::collections::HashSet;
use std::ops::Range;
use std::str::FromStr;

pub use random::Random;
use twiceshy_filters::internals::{Build, InMemory, Reader, Visitor, visit};
use twiceshy_filters::{Adapted, AnyFilter, Digest, Error, Params as _, Spec};

/// Filters with short fingerprints and few cells, so that collisions, full
/// bins, kicks and rebuilds are common. Every variant and every option is here.
pub const SPECS: &[&str] = &[
    "plain:f=4,b=4",
    "plain:f=3,b=1,full=error",
    "plain:f=8,b=2,search=walk,full=grow",
    "plain:f=20,b=4",
    "plain:f=4,b=2,literal=1,full=grow",
    "plain-full:f=4,k=4,b=1",
    "plain-full:f=5,k=2,b=4,full=grow",
    "plain-full:f=21,k=3,b=4,search=walk",
    "plain-full:f=4,k=3,b=2,search=next",
    "simplified:f=2,b=4,stash=8",
    "simplified:f=3,b=2,stash=0,full=grow",
    "simplified:f=4,b=3,stash=1,search=walk",
    "cyclic:f=3,s=1",
    "cyclic:f=2,s=3,retry=0",
    "cyclic:f=3,s=2,k=2,b=4,full=grow",
    "cyclic:f=3,s=1,k=4,b=1,search=next,full=grow",
    "varying:f=4,s=1,r=1",
    "varying:f=5,s=2,r=2,retry=0,search=walk",
    "varying:f=4,s=0,r=3,full=error",
    "swapping:f=3,k=2,b=4",
    "swapping:f=2,k=3,b=2,retry=0,full=grow",
    "swapping:f=20,k=2,b=4,search=walk",
    "swapping:f=2,k=2,b=4,retry=0,literal=1",
    "cuckooing:f=3,k=4,b=1",
    "cuckooing:f=3,k=2,b=1,moves=2",
    "cuckooing:f=3,k=2,b=4,tags=common,full=grow",
    "cuckooing:f=2,k=3,b=2,moves=1,search=walk",
    "rsqf:f=1,full=grow",
    "rsqf:f=2",
    "rsqf:f=3,full=grow",
    "rsqf:f=4,full=error",
    "rsqf:f=32",
    "telescoping:f=1,budget=8,full=grow",
    "telescoping:f=2,budget=32",
    "telescoping:f=1,budget=16,spent=reseed,full=grow",
    "telescoping:f=2,budget=24,spent=reseed",
    "telescoping:f=4,budget=56,spent=reseed",
    "telescoping:f=4,budget=128,full=error",
    "telescoping:f=8,code=tuned",
    "telescoping:f=1,budget=16,literal=1,full=grow",
    "telescoping:f=2,budget=24,spent=reseed,literal=1",
    "uncompressed:f=1,full=grow",
    "uncompressed:f=3",
    "extension:f=1,budget=8,full=grow",
    "extension:f=2,budget=32",
    "extension:f=4,budget=56,full=error",
    "broom:f=1,sweep=1,full=grow",
    "broom:f=3",
    "broom:f=4,sweep=16,ghosts=0,full=error",
    "broom:f=12,sweep=2",
    "broom:f=2,form=faithful",
    "broom:f=3,form=faithful,sweep=2,full=grow",
    "broom:f=14,form=faithful,sweep=7",
    "line:f=9",
    "line:f=9,full=grow",
    "line:f=10,full=error",
    "line:f=11",
    "line:f=12,full=grow",
    "line:f=16",
];

/// The filter, or the parameters, that a text describes.
///
/// # Panics
/// For text that describes none.
pub fn parsed<T: FromStr<Err = Error>>(text: &str) -> T {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// An empty filter.
///
/// # Panics
/// For text that describes none of this type.
pub fn made<F: Build>(text: &str, capacity: usize) -> F {
    let params: F::Params = parsed(text);
    F::empty(params, capacity, params.bins_for(capacity).expect("a capacity"))
}

/// Digests to play with: random ones, or hostile ones that pile on few bins.
fn universe(count: usize, hostile: bool, random: &mut Random) -> Vec<Digest> {
    if !hostile {
        return random.digests(count);
    }
    let edges = [0, 1, u64::MAX, 1 << 63, 0xffff_ffff, 0xffff_ffff_0000_0000];
    (0..count)
        .map(|_| {
            let mut word = || match random.next() % 3 {
                0 => edges[(random.next() % 6) as usize],
                1 => random.next() & 0x8000_0003_8000_0003,
                _ => random.next(),
            };
            Digest::new([word(), word()])
        })
        .collect()
}

/// Interprets `bytes` as a filter, a universe of digests and operations on
/// them, and compares every answer with a `HashSet`.
///
/// # Panics
/// When the filter and the set disagree, or an invariant is broken.
pub fn drive(bytes: &[u8]) {
    let [which, capacity, hostile, ref operations @ ..] = *bytes else { return };
    let spec = SPECS[which as usize % SPECS.len()];
    let capacity = 1 + usize::from(capacity);
    drive_spec(spec, capacity, hostile % 3 == 0, operations);
}

/// As [`drive`], with this filter.
pub fn drive_spec(spec: &str, capacity: usize, hostile: bool, operations: &[u8]) {
    let spec: Spec = spec.parse().expect("the list has good specs");
    let universe = universe(4 * capacity, hostile, &mut Random(capacity as u64));
    let mut play = Play {
        filter: spec.build(capacity).expect("a small capacity"),
        oracle: HashSet::new(),
        universe,
    };
    for (step, operation) in operations.chunks_exact(3).enumerate() {
        play.step(operation[0], usize::from(u16::from_le_bytes([operation[1], operation[2]])));
        if step % 64 == 63 {
            play.check();
        }
    }
    play.check();
}

struct Play {
    filter: AnyFilter,
    oracle: HashSet<Digest>,
    universe: Vec<Digest>,
}

impl Play {
    fn step(&mut self, operation: u8, argument: usize) {
        let digest = self.universe[argument % self.universe.len()];
        match operation {
            0..=99 => self.insert(digest),
            100..=179 => self.query(digest),
            180..=239 => self.remove(digest),
            240..=244 => self.adapt(digest),
            245..=248 => self.reload(),
            249..=251 => self.grow(1 + argument % 600),
            252 => self.rebuild(),
            253.. => self.query_many(),
        }
    }

    fn insert(&mut self, digest: Digest) {
        match self.filter.insert(digest) {
            Ok(new) => assert_eq!(new, self.oracle.insert(digest), "insert {digest:?}"),
            Err(Error::Full { digest: back, len, .. }) => {
                assert_eq!(back, digest);
                assert_eq!(len, self.oracle.len());
                assert!(!self.oracle.contains(&digest), "a stored key needs no room");
            }
            Err(error) => panic!("insert {digest:?}: {error}"),
        }
    }

    /// Asks as a guard would: a positive answer that is wrong is adapted.
    fn query(&mut self, digest: Digest) {
        if self.oracle.contains(&digest) {
            assert!(self.filter.contains(digest), "false negative: {digest:?}");
        } else if self.filter.contains(digest) {
            self.adapt(digest);
        }
    }

    fn adapt(&mut self, digest: Digest) {
        let before = self.filter.contains(digest);
        let outcome = self.filter.adapt(digest).expect("the remote is in memory");
        let after = self.filter.contains(digest);
        match outcome {
            Adapted::Absent => assert!(!before && !after),
            Adapted::Stored => assert!(self.oracle.contains(&digest) && after),
            Adapted::Fixed => assert!(before && !after && !self.oracle.contains(&digest)),
            Adapted::Unfixed => assert!(before && after && !self.oracle.contains(&digest)),
        }
    }

    fn remove(&mut self, digest: Digest) {
        let removed = self.filter.remove(digest).expect("the remote is in memory");
        assert_eq!(removed, self.oracle.remove(&digest), "remove {digest:?}");
    }

    fn reload(&mut self) {
        let bytes = self.filter.save();
        let loaded = AnyFilter::load(&bytes).expect("its own bytes");
        let (stats, again) = (self.filter.stats(), loaded.stats());
        // The stash's lists may hold spare capacity that a loaded one does not.
        assert_eq!(stats.len, again.len);
        assert_eq!(stats.cells, again.cells);
        assert_eq!(loaded.spec(), self.filter.spec());
        assert_eq!(loaded.save(), bytes);
        for &digest in &self.universe {
            assert_eq!(self.filter.contains(digest), loaded.contains(digest), "{digest:?}");
        }
        self.filter = loaded;
    }

    /// Also to a smaller capacity: it fits or says that it does not.
    fn grow(&mut self, capacity: usize) {
        let before = self.filter.stats();
        match self.filter.grow(capacity) {
            Ok(()) => assert_eq!(self.filter.stats().capacity, capacity),
            Err(Error::Spec { .. }) => assert_eq!(self.filter.stats(), before),
            Err(error) => panic!("grow to {capacity}: {error}"),
        }
    }

    fn rebuild(&mut self) {
        let before = self.filter.stats();
        match self.filter.rebuild() {
            Ok(()) => assert_eq!(self.filter.stats().rebuilds, before.rebuilds + 1),
            Err(Error::Spec { .. }) => assert_eq!(self.filter.stats(), before),
            Err(error) => panic!("rebuild: {error}"),
        }
    }

    fn query_many(&mut self) {
        let mut found = vec![false; self.universe.len()];
        self.filter.contains_many(&self.universe, &mut found);
        for (&digest, found) in self.universe.iter().zip(found) {
            assert_eq!(found, self.filter.contains(digest), "{digest:?}");
        }
    }

    fn check(&mut self) {
        self.filter.check().unwrap_or_else(|broken| panic!("{:?}: {broken}", self.filter));
        assert_eq!(self.filter.stats().len, self.oracle.len());
        for &digest in &self.oracle {
            assert!(
                self.filter.contains(digest),
                "false negative: {digest:?} in {:?}",
                self.filter
            );
        }
    }
}

/// Loads arbitrary bytes as a saved filter: as they are, and with checksums
/// that fit, so that the code behind them is reached. What loads must keep its
/// promise and go on working.
///
/// # Panics
/// When a loaded filter breaks an invariant.
pub fn load(bytes: &[u8]) {
    let mut sealed = bytes.to_vec();
    seal_parts(&mut sealed);
    twiceshy_filters::format::seal(&mut sealed);
    for candidate in [bytes, &sealed] {
        if let Ok(mut filter) = AnyFilter::load(candidate) {
            filter.check().expect("load checks it");
            for digest in Random(1).digests(50) {
                if matches!(filter.insert(digest), Ok(true)) {
                    assert!(filter.contains(digest));
                }
            }
            filter.check().expect("it goes on working");
        }
    }
    load_alone(&sealed);
    if let Some((filter, _)) = parts(&sealed) {
        load_alone(&sealed[filter]);
    }
}

/// Loads a filter without its remote, whatever kind it is of.
fn load_alone(bytes: &[u8]) {
    let Ok(reader) = Reader::open(bytes) else { return };
    if let Ok(spec) = reader.kind().parse::<Spec>() {
        visit(spec, Load(reader));
    }
}

/// A file with a filter in it, perhaps.
struct Load<'a>(Reader<'a>);

impl<'p> Visitor<'p> for Load<'_> {
    type Output = ();

    fn alone<F, M>(self, params: &'p mut F::Params)
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static,
    {
        if let Ok(filter) = F::read(*params, self.0) {
            let digests = Random(1).digests(50);
            digests.iter().for_each(|&digest| _ = std::hint::black_box(filter.contains(digest)));
            let stats = filter.stats();
            assert!(stats.len <= stats.cells + stats.stashed);
        }
    }
}

/// Where a file of filter and remote (`docs/format.md`) has its two parts.
fn parts(bytes: &[u8]) -> Option<(Range<usize>, Range<usize>)> {
    let block = |at: usize| {
        let length = u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?);
        let end = usize::try_from(length).ok()?.checked_add(at + 8)?;
        (end <= bytes.len()).then_some(at + 8..end)
    };
    let filter = block(8 + 4 + 4 + "filter and remote".len())?;
    let remote = block(filter.end)?;
    Some((filter, remote))
}

fn seal_parts(bytes: &mut [u8]) {
    let Some((filter, remote)) = parts(bytes) else { return };
    for part in [filter, remote] {
        let mut sealed = bytes[part.clone()].to_vec();
        twiceshy_filters::format::seal(&mut sealed);
        if sealed.len() == part.len() {
            bytes[part].copy_from_slice(&sealed);
        }
    }
}
