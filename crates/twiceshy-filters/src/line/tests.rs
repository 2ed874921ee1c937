//! Tests of whole filters that need to see inside.

mod adapting;
mod drift;
mod growth;
mod histories;
mod strangers;

use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use super::LineFilter;
use super::shape::{MOST_PLANES, Shape};
use super::table::Table;
use crate::digest::Digest;
use crate::error::{Error, RemoteError};
use crate::filter::DigestFilter as _;
use crate::remote::{Accesses, MemorySet, Ordered};
use crate::rng::Rng;

pub(super) fn shapes() -> Vec<Shape> {
    (0..=MOST_PLANES).filter_map(Shape::of).collect()
}

/// A filter of each shape.
pub(super) const FILTERS: [&str; 5] =
    ["line:f=9", "line:f=10", "line:f=11", "line:f=12", "line:f=16"];

pub(super) fn filter(text: &str, capacity: usize) -> LineFilter {
    LineFilter::new(&text.parse().expect("parameters"), capacity).expect("a filter")
}

fn random_digests(count: usize, rng: &mut Rng) -> Vec<Digest> {
    (0..count).map(|_| Digest::new([rng.next(), rng.next()])).collect()
}

/// A random digest of a bucket.
fn digest_in(table: &Table, bucket: usize, rng: &mut Rng) -> Digest {
    let (first, last) = table.range(bucket..bucket + 1).into_inner();
    let width = last.word(0) - first.word(0);
    Digest::new([first.word(0) + rng.below(width.max(1)), rng.next()])
}

fn bucket_of(table: &Table, digest: Digest) -> usize {
    table.home(digest).number(&table.shape)
}

/// A false positive in the bucket of a stored key; `None` where few tries find none.
pub(super) fn false_positive(filter: &LineFilter, key: Digest, rng: &mut Rng) -> Option<Digest> {
    let table = filter.table_of(key);
    let tries = 4 << table.shape.fingerprint_bits();
    let bucket = bucket_of(table, key);
    (0..tries).map(|_| digest_in(table, bucket, rng)).find(|&query| filter.contains(query))
}

/// A set that refuses ranges that end before they start, which other stores may panic at. It fails
/// where a range starts at a digest of choice, and once when its fuse has burnt down.
#[derive(Clone, Default)]
struct Strict {
    set: MemorySet,
    fails_at: Option<Digest>,
    /// Accesses until it fails, that one included; 0: it does not.
    fuse: u64,
}

impl Strict {
    fn burn(&mut self) -> Result<(), RemoteError> {
        let fails = self.fuse == 1;
        self.fuse = self.fuse.saturating_sub(1);
        if fails { Err("unplugged".into()) } else { Ok(()) }
    }
}

impl Ordered for Strict {
    fn insert(&mut self, digest: Digest) -> Result<(), RemoteError> {
        self.burn()?;
        self.set.insert(digest)
    }

    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError> {
        self.burn()?;
        self.set.remove(digest)
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        assert!(range.start() <= range.end(), "{range:?} ends before it starts");
        self.burn()?;
        if self.fails_at == Some(*range.start()) {
            return Err("unplugged".into());
        }
        self.set.visit(range, visitor)
    }

    fn accesses(&self) -> Accesses {
        self.set.accesses()
    }
}

/// The remote failed, and did not have digests that the filter has no fingerprints for.
fn assert_unplugged(error: &Error) {
    assert_eq!(error.to_string(), Error::Remote("unplugged".into()).to_string());
}

/// What a Poisson variable of this mean exceeds with probability 10^-6 at most.
fn poisson_bound(mean: f64) -> usize {
    let (mut term, mut below, mut count) = (libm::exp(-mean), 0.0, 0);
    loop {
        below += term;
        if 1.0 - below < 1e-6 {
            return count;
        }
        count += 1;
        term *= mean / count as f64;
    }
}

/// Filled with random keys up to its capacity, through a remote.
fn filled(text: &str, capacity: usize, keys: usize, rng: &mut Rng) -> Filled {
    let (mut filter, mut remote) = (filter(text, capacity), Strict::default());
    let keys = random_digests(keys, rng);
    for &key in &keys {
        assert!(filter.insert(key, &mut remote).expect("room"), "{text}");
    }
    Filled { filter, remote, keys }
}

struct Filled {
    filter: LineFilter,
    remote: Strict,
    keys: Vec<Digest>,
}

impl Filled {
    /// Every invariant, and no false negative.
    fn check(&mut self, what: &str) {
        self.filter.check(&mut self.remote).unwrap_or_else(|broken| panic!("{what}: {broken}"));
        assert_eq!(self.filter.stats().len, self.keys.len(), "{what}");
        let denied = self.keys.iter().filter(|&&key| !self.filter.contains(key)).count();
        assert_eq!(denied, 0, "{what}: false negatives");
    }
}
