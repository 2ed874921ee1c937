//! A stream of keys as numbers, in the order of their first appearance.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};

use super::{Error, Key, reserve};
use crate::random::mix;

/// A stream that was recorded: what traces, captures and files become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Where it comes from.
    pub name: String,
    /// Distinct keys.
    pub distinct: u64,
    /// The keys, each by its number; numbers count first appearances from 0, so
    /// that the first n distinct keys are the numbers below n.
    pub stream: Vec<u32>,
    /// How many of them were listed as stored; `None` where the ratio decides.
    pub stored: Option<u64>,
}

impl Recording {
    /// Records the first `len` keys that a generator makes.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn of_generated(
        name: String,
        len: u64,
        keys: impl Iterator<Item = Key>,
    ) -> Result<Self, Error> {
        let mut numbering = Numbering::<Key, BuildHasherDefault<Mixed>>::default();
        let mut stream = reserve(len, "elements of a stream")?;
        for (_, key) in (0..len).zip(keys) {
            stream.push(numbering.number(&key)?);
        }
        Ok(Recording { name, distinct: numbering.len(), stream, stored: None })
    }
}

/// Numbers for keys, in the order of their first appearance.
pub(super) struct Numbering<K, S = RandomState> {
    numbers: HashMap<K, u32, S>,
}

impl<K, S: Default> Default for Numbering<K, S> {
    fn default() -> Self {
        Numbering { numbers: HashMap::default() }
    }
}

impl<K: Hash + Eq, S: BuildHasher> Numbering<K, S> {
    /// The number of a key, which is copied only when it is new.
    pub(super) fn number<Q>(&mut self, key: &Q) -> Result<u32, Error>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(&number) = self.numbers.get(key) {
            return Ok(number);
        }
        let count = self.len();
        let number = u32::try_from(count);
        let number = number.map_err(|_| Error::Memory { what: "distinct keys", count })?;
        self.numbers.insert(key.to_owned(), number);
        Ok(number)
    }

    /// Distinct keys so far.
    pub(super) fn len(&self) -> u64 {
        self.numbers.len() as u64
    }
}

/// The hash function for numbers that no adversary picks: three times as fast
/// as the standard one, in streams of tens of millions.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(byte.into());
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }
}
