//! The two forms of the broom filter: which remote it has, and what a new hash function changes.
//!
//! | form | a new function changes | remote | a known soft collision |
//! | --- | --- | --- | --- |
//! | [`Faithful`] | quotient, remainder, adaptivity bits | [`Indexed`] | is forgotten: epsilon |
//! | [`Practical`] | remainder, adaptivity bits | [`Ordered`] | stays: epsilon for each key of the run |
//!
//! The paper's bound (Lemma 13) is that of the first: a query is a false positive
//! with probability at most epsilon, whatever was asked before. In the second an
//! adversary may know which queries share a quotient with stored keys; each of
//! those, under a new function, collides with each key of that quotient with
//! probability `2^-r`. A run has 1.85 keys on average where it has any (at load
//! 0.85), so that is its factor; in return any store that can be read in digest
//! order will do, and rehashing writes nothing to it.

use alloc::string::ToString;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::quotient::place::Place;
use crate::remote::{EVERY_DIGEST, Ordered, collected};
use crate::remote::{Entry, Indexed};

use super::params::{Form as Name, Params};

/// A range of digests, or of addresses.
type Digests = RangeInclusive<Digest>;

type Found = Result<Vec<Digest>>;

/// What a form of the broom filter needs from its remote.
pub trait Form: Clone {
    /// Its name in a description.
    const NAME: Name;

    /// Whether the digest itself may be its first hash. Not where quotients are
    /// hashed: they would be in the order of the digests, the sweep would empty
    /// the first groups while the others fill, and a quarter of the keys would
    /// overflow.
    const BEGINS_WITH_THE_DIGEST: bool;

    /// What it needs to know of the stored keys.
    type Remote: ?Sized;

    /// The quotient of a digest that is `hashed` under its function.
    fn quotient(digest: Digest, hashed: Digest, quotients: usize) -> usize;

    /// Every stored digest whose quotient has this range, under either function, and
    /// perhaps others.
    fn candidates(remote: &mut Self::Remote, functions: [u64; 2], of: Digests) -> Found;

    /// Every stored digest in a range.
    fn stored(remote: &mut Self::Remote, range: Digests) -> Found;

    /// Adds digests, removes digests and changes the function of digests: all of
    /// it or nothing.
    fn write(remote: &mut Self::Remote, changes: &Changes) -> Result<()>;

    /// Takes all digests under one function in place of what it knew. One of them
    /// may be new.
    fn replace(
        remote: &mut Self::Remote,
        function: u64,
        digests: &[Digest],
        newcomer: Option<Digest>,
    ) -> Result<()>;
}

/// What an operation changes in the remote. A digest comes with its function.
#[derive(Default)]
pub struct Changes {
    pub(crate) added: Option<(Digest, u64)>,
    pub(crate) removed: Option<(Digest, u64)>,
    /// Digests that go from one function to another.
    pub(crate) moved: Vec<(Digest, [u64; 2])>,
}

/// The quotient is the digest's range.
#[derive(Clone)]
pub struct Practical;

impl Form for Practical {
    const NAME: Name = Name::Practical;
    const BEGINS_WITH_THE_DIGEST: bool = true;
    type Remote = dyn Ordered;

    #[inline(always)]
    fn quotient(digest: Digest, _: Digest, quotients: usize) -> usize {
        Place::new(digest, quotients).quotient
    }

    fn candidates(remote: &mut Self::Remote, _: [u64; 2], of: Digests) -> Found {
        Self::stored(remote, of)
    }

    fn stored(remote: &mut Self::Remote, range: Digests) -> Found {
        collected(|visitor| remote.visit(range, visitor))
    }

    fn write(remote: &mut Self::Remote, changes: &Changes) -> Result<()> {
        // An operation adds or removes, never both.
        if let Some((digest, _)) = changes.added {
            remote.insert(digest).map_err(Error::Remote)?;
        }
        if let Some((digest, _)) = changes.removed {
            remote.remove(digest).map_err(Error::Remote)?;
        }
        Ok(())
    }

    fn replace(
        remote: &mut Self::Remote,
        function: u64,
        _: &[Digest],
        newcomer: Option<Digest>,
    ) -> Result<()> {
        let added = newcomer.map(|digest| (digest, function));
        Self::write(remote, &Changes { added, ..Changes::default() })
    }
}

/// The paper's own: every function has quotients of its own.
#[derive(Clone)]
pub struct Faithful;

/// A digest in the index of a function.
fn entry(digest: Digest, function: u64) -> Entry {
    Entry { function, address: digest.rehashed(function), digest }
}

impl Form for Faithful {
    const NAME: Name = Name::Faithful;
    const BEGINS_WITH_THE_DIGEST: bool = false;
    type Remote = dyn Indexed;

    #[inline(always)]
    fn quotient(_: Digest, hashed: Digest, quotients: usize) -> usize {
        Place::new(hashed, quotients).quotient
    }

    fn candidates(remote: &mut Self::Remote, functions: [u64; 2], of: Digests) -> Found {
        collected(|visitor| {
            functions
                .into_iter()
                .try_for_each(|function| remote.visit_index(function, of.clone(), visitor))
        })
    }

    fn stored(remote: &mut Self::Remote, range: Digests) -> Found {
        collected(|visitor| remote.visit(range, visitor))
    }

    fn write(remote: &mut Self::Remote, changes: &Changes) -> Result<()> {
        let old = changes.moved.iter().map(|&(digest, [from, _])| (digest, from));
        let new = changes.moved.iter().map(|&(digest, [_, to])| (digest, to));
        let entries = |pairs: &mut dyn Iterator<Item = (Digest, u64)>| -> Vec<Entry> {
            pairs.map(|(digest, function)| entry(digest, function)).collect()
        };
        let removed = entries(&mut changes.removed.into_iter().chain(old));
        let added = entries(&mut changes.added.into_iter().chain(new));
        if removed.is_empty() && added.is_empty() {
            return Ok(());
        }
        remote.put(&removed, &added).map_err(Error::Remote)
    }

    fn replace(
        remote: &mut Self::Remote,
        function: u64,
        digests: &[Digest],
        _: Option<Digest>,
    ) -> Result<()> {
        let entries: Vec<Entry> = digests.iter().map(|&digest| entry(digest, function)).collect();
        remote.replace(&entries).map_err(Error::Remote)
    }
}

/// Every stored digest.
pub(super) fn all<F: Form>(remote: &mut F::Remote) -> Result<Vec<Digest>> {
    F::stored(remote, EVERY_DIGEST)
}

/// The form of a description.
pub(super) fn expect<F: Form>(params: &Params) -> Result<()> {
    if params.form() == F::NAME {
        return Ok(());
    }
    Err(Error::spec(params.to_string(), "this type is for the other form of the broom filter"))
}
