//! A filter of any kind, loaded from a file.

use twiceshy::filter::kind_of;
use twiceshy::{Filter, Frozen};
use twiceshy_filters::{AnyFilter, Digest, KeyHasher};

/// A filter from a file.
pub enum Loaded {
    /// One with the digests of its keys, whose secret is beside the file.
    Keyed(KeyHasher, Box<AnyFilter>),
    /// The same, with its secret in the file: a dump of `AF.SCANDUMP`.
    KeyedWithSecret(KeyHasher, Box<AnyFilter>),
    /// One without, whose secret is in the file.
    Filter(Box<Filter>),
    /// The same, for queries only.
    Frozen(Box<Frozen>),
}

/// Which of them a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    Keyed,
    KeyedWithSecret,
    Filter,
    Frozen,
}

impl Contents {
    /// What the bytes of a file are. A damaged one counts as the first kind, whose loading says
    /// what is wrong with it.
    pub fn of(bytes: &[u8]) -> Self {
        match kind_of(bytes) {
            Ok("filter over keys with its secret") => Contents::KeyedWithSecret,
            Ok("filter") => Contents::Filter,
            Ok("frozen filter") => Contents::Frozen,
            _ => Contents::Keyed,
        }
    }
}

impl Loaded {
    /// What turns keys into digests.
    pub fn hasher(&self) -> &KeyHasher {
        match self {
            Loaded::Keyed(hasher, _) | Loaded::KeyedWithSecret(hasher, _) => hasher,
            Loaded::Filter(filter) => filter.hasher(),
            Loaded::Frozen(filter) => filter.hasher(),
        }
    }

    /// The answers for many digests.
    pub fn contains_many(&self, digests: &[Digest]) -> Vec<bool> {
        match self {
            Loaded::Keyed(_, filter) | Loaded::KeyedWithSecret(_, filter) => {
                let mut found = vec![false; digests.len()];
                filter.contains_many(digests, &mut found);
                found
            }
            Loaded::Filter(filter) => filter.contains_digests(digests),
            Loaded::Frozen(filter) => filter.contains_digests(digests),
        }
    }
}
