//! A store that tests can watch, delay and break, and the filters that a guard
//! takes.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::ops::RangeInclusive;

use twiceshy::guard::{Change, Header, MemoryStore, Store};
use twiceshy_filters::remote::EVERY_DIGEST;
use twiceshy_filters::{Digest, KeyHasher, RemoteError, Spec};

/// Every filter that a guard takes, with short fingerprints and small budgets, so
/// that false positives, runs of several keys and spent blocks are common.
pub const SPECS: &[&str] = &[
    "telescoping:f=2,budget=24",
    "telescoping:f=3,budget=24,spent=reseed",
    "telescoping:f=4,budget=16,spent=reseed",
    "uncompressed:f=2",
    "extension:f=2,budget=24",
    "broom:f=2",
    "broom:f=4,sweep=16,ghosts=0",
    "rsqf:f=3",
    "plain:f=4,b=4",
    "plain:f=3,b=1",
    "simplified:f=2,b=4,stash=8",
];

/// Whether a filter learns from false positives.
pub fn is_adaptive(spec: &str) -> bool {
    !["rsqf", "plain", "simplified"].iter().any(|kind| spec.starts_with(kind))
}

pub fn spec(text: &str) -> Spec {
    text.parse().expect("a filter")
}

pub fn hasher() -> KeyHasher {
    KeyHasher::fast(2026)
}

/// What a store is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Read,
    Write,
    SetHeader,
}

/// Around a call: an error before it keeps it from happening, an error after it
/// comes from a call that did happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Before,
    After,
}

/// A [`MemoryStore`] with a hook around every call.
pub struct Hooked<H> {
    pub memory: MemoryStore,
    pub hook: H,
}

impl<H> Hooked<H> {
    pub fn new(hook: H) -> Self {
        Hooked { memory: MemoryStore::default(), hook }
    }
}

impl<H: Fn(Call, When) -> Result<(), RemoteError> + Send + Sync> Hooked<H> {
    fn around<T>(
        &self,
        call: Call,
        work: impl FnOnce(&MemoryStore) -> Result<T, RemoteError>,
    ) -> Result<T, RemoteError> {
        (self.hook)(call, When::Before)?;
        let outcome = work(&self.memory)?;
        (self.hook)(call, When::After)?;
        Ok(outcome)
    }
}

impl<H: Fn(Call, When) -> Result<(), RemoteError> + Send + Sync> Store for Hooked<H> {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.around(Call::Read, |memory| memory.read(range, visitor))
    }

    fn read_many(
        &self,
        ranges: &[RangeInclusive<Digest>],
        visitor: &mut dyn FnMut(usize, Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        self.around(Call::Read, |memory| memory.read_many(ranges, visitor))
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        self.around(Call::Write, |memory| memory.write(changes))
    }

    fn count(&self) -> Result<u64, RemoteError> {
        self.memory.count()
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        self.memory.header()
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        self.around(Call::SetHeader, |memory| memory.set_header(header))
    }
}

/// The value that a store in memory has under a key, without asking the guard.
pub fn stored_value(memory: &MemoryStore, key: &[u8]) -> Option<Vec<u8>> {
    let digest = hasher().digest(key);
    let mut value = None;
    let each = &mut |_: Digest, record: &[u8]| {
        // The length of a short key, the key, the value.
        assert_eq!(usize::from(record[0]), key.len());
        assert_eq!(&record[1..1 + key.len()], key);
        // The last four bytes are a checksum.
        value = Some(record[1 + key.len()..record.len() - 4].to_vec());
    };
    memory.read(digest..=digest, each).expect("in memory");
    value
}

/// Records in a store.
pub fn stored_count(memory: &MemoryStore) -> u64 {
    let mut count = 0;
    memory.read(EVERY_DIGEST, &mut |_, _| count += 1).expect("in memory");
    count
}
