//! The contract of every filter.
//!
//! ```text
//!            contains(d)            no remote in sight: answered from memory
//!                │
//!        no ─────┴───── maybe ──▶ the store is asked
//!        │                        │
//!     absent              found ──┴── not found: a false positive
//!                                     └─▶ adapt(d, remote): absent
//! ```
//!
//! Four laws hold for every filter here. Lookup never touches the remote: it is
//! not in the signature (Definition 1 of Bender et al., "Bloom Filters,
//! Adaptivity, and the Dictionary Problem"). No stored key is ever answered
//! "absent". The filter can always be rebuilt from the remote. And after an
//! operation that failed, filter and remote answer as before.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::digest::Digest;
use crate::error::Result;

/// Implemented by this crate's filters alone.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// An approximate set of digests in front of a remote that has the exact one.
///
/// The trait is sealed: guards rely on laws that its signatures cannot express (after any error,
/// filter and remote answer as before), and sealing lets it gain methods without a breaking
/// change. This does not compile:
///
/// ```compile_fail,E0277
/// use twiceshy_filters::remote::Ordered;
/// use twiceshy_filters::{Adapted, Digest, DigestFilter, Result, Stats};
///
/// struct Everything;
///
/// impl DigestFilter for Everything {
///     type Remote = dyn Ordered;
///     fn contains(&self, _: Digest) -> bool { true }
///     fn contains_many(&self, _: &[Digest], found: &mut [bool]) { found.fill(true) }
///     fn insert(&mut self, _: Digest, _: &mut Self::Remote) -> Result<bool> { Ok(true) }
///     fn remove(&mut self, _: Digest, _: &mut Self::Remote) -> Result<bool> { Ok(true) }
///     fn adapt(&mut self, _: Digest, _: &mut Self::Remote) -> Result<Adapted> {
///         Ok(Adapted::Unfixed)
///     }
///     fn grow(&mut self, _: usize, _: &mut Self::Remote) -> Result<()> { Ok(()) }
///     fn rebuild(&mut self, _: &mut Self::Remote) -> Result<()> { Ok(()) }
///     fn stats(&self) -> Stats { Stats::default() }
///     fn description(&self) -> String { "everything".into() }
///     fn save(&self) -> Vec<u8> { Vec::new() }
///     fn check(&self, _: &mut Self::Remote) -> Result<(), String> { Ok(()) }
/// }
/// ```
pub trait DigestFilter: sealed::Sealed {
    /// What the filter needs to know of the stored keys:
    /// `dyn `[`Mirror`](crate::remote::Mirror) or `dyn `[`Ordered`](crate::remote::Ordered).
    type Remote: ?Sized;

    /// `false`: definitely absent. `true`: maybe present.
    #[must_use]
    fn contains(&self, digest: Digest) -> bool;

    /// [`DigestFilter::contains`] for many digests. It prefetches, so it is faster where the
    /// filter is larger than the cache.
    ///
    /// # Panics
    /// If `found` is not as long as `digests`.
    fn contains_many(&self, digests: &[Digest], found: &mut [bool]);

    /// Adds a digest to the filter and its remote. `false`, and nothing changes, when it was
    /// already stored.
    ///
    /// # Errors
    /// [`Error::Full`](crate::Error::Full) hands the digest back;
    /// [`Error::Remote`](crate::Error::Remote) when the remote failed.
    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool>;

    /// Removes a digest from the filter and its remote. `false`, and nothing changes, when it
    /// was not stored.
    ///
    /// # Errors
    /// [`Error::Remote`](crate::Error::Remote) when the remote failed.
    fn remove(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool>;

    /// Reports a positive answer that may have been false. If the remote confirms that it was,
    /// the filter changes so that it answers "absent".
    ///
    /// # Errors
    /// [`Error::Remote`](crate::Error::Remote) when the remote failed.
    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted>;

    /// The range of stored digests to read after a "maybe". It decides whether the query is
    /// stored; if not, [`DigestFilter::adapt`] reads the same range from its remote, and rarely
    /// more.
    fn range(&self, digest: Digest) -> RangeInclusive<Digest> {
        digest..=digest
    }

    /// Rebuilds the filter from its remote for `capacity` keys. Adaptive quotient filters keep
    /// their adaptations; others take new hash functions and forget them.
    ///
    /// # Errors
    /// [`Error::Spec`](crate::Error::Spec) when the stored keys do not fit that
    /// capacity; [`Error::Remote`](crate::Error::Remote).
    fn grow(&mut self, capacity: usize, remote: &mut Self::Remote) -> Result<()>;

    /// Rebuilds the filter from its remote at its current size, with new hash functions and
    /// without its adaptations. Use it also for a filter that was lost or is older than its
    /// remote.
    ///
    /// # Errors
    /// [`Error::Spec`](crate::Error::Spec) when the stored keys do not fit with any of the hash
    /// functions tried; [`Error::Remote`](crate::Error::Remote).
    fn rebuild(&mut self, remote: &mut Self::Remote) -> Result<()>;

    /// Counts and sizes.
    fn stats(&self) -> Stats;

    /// The description that builds a filter like this: the text of a
    /// [`Spec`](crate::Spec).
    #[must_use]
    fn description(&self) -> String;

    /// The filter's bytes, in the format of `docs/format.md`.
    #[must_use]
    fn save(&self) -> Vec<u8>;

    /// Verifies every invariant, and that each digest of the remote is answered "maybe". For
    /// tests and fuzzers: it reads the whole remote.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn check(&self, remote: &mut Self::Remote) -> Result<(), String>;
}

/// What became of a reported positive answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adapted {
    /// The filter already answers "absent".
    Absent,
    /// The digest is stored: the answer was right, nothing changed.
    Stored,
    /// It was a false positive, and is now answered "absent". Later adaptations, insertions and
    /// rebuilds may bring it back, with the same probability as any other query.
    Fixed,
    /// It was a false positive and still is one: the filter does not adapt, or its new
    /// fingerprint collides too. Adapting again tries again.
    Unfixed,
}

/// Counts and sizes of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys stored.
    pub len: usize,
    /// Keys that the filter was sized for.
    pub capacity: usize,
    /// Cells, occupied or not.
    pub cells: usize,
    /// Keys, counted in `len`, that found no cell and are in the stash.
    pub stashed: usize,
    /// Memory on the heap, in bits: everything that grows with the keys.
    pub bits: usize,
    /// False positives that it has adapted to.
    pub adaptations: u64,
    /// Times that a block or line was spent, and its state reset or its hash functions renewed.
    pub spent: u64,
    /// Times that it was rebuilt, with new hash functions or larger.
    pub rebuilds: u64,
    /// Keys moved to another cell.
    pub kicks: u64,
}

impl Stats {
    /// Keys per cell: the share of cells that are occupied, or would be if nothing were stashed.
    #[must_use]
    pub fn load(&self) -> f64 {
        self.len as f64 / self.cells as f64
    }

    /// Memory per stored key, in bits.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.bits as f64 / self.len as f64
    }
}
