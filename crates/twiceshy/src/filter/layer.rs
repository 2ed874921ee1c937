//! One filter of a chain, and the exceptions to what it says.

use twiceshy_filters::internals::{Reader, Writer};
use twiceshy_filters::{Digest, Result};

use super::base::Base;
use super::exceptions::{ENTRY_BITS, Exceptions};
use super::fingerprints::Fingerprints;

/// A filter without a remote, and a table of its reported false positives.
///
/// Fingerprints are never removed. So a key whose fingerprint is already there, even if
/// another key left it, needs no second one.
#[derive(Clone)]
pub(crate) struct Layer<const WIDTH: u32 = ENTRY_BITS> {
    pub(crate) filter: Base,
    pub(crate) exceptions: Exceptions<WIDTH>,
}

/// What a layer has of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Nothing.
    Absent,
    /// Its fingerprint, and an exception.
    Excepted,
    /// Its fingerprint.
    Maybe,
}

/// Equal layers have the same cells and exceptions.
impl<const WIDTH: u32> PartialEq for Layer<WIDTH> {
    fn eq(&self, other: &Self) -> bool {
        self.exceptions == other.exceptions && self.filter.save() == other.filter.save()
    }
}

impl<const WIDTH: u32> Layer<WIDTH> {
    /// An empty layer with `exception_bits` bits of exceptions per key.
    ///
    /// # Errors
    /// Those of [`Base::new`].
    pub(crate) fn new(
        fingerprints: Fingerprints,
        capacity: usize,
        exception_bits: f64,
    ) -> Result<Self> {
        let filter = Base::new(fingerprints, capacity)?;
        Ok(Layer { filter, exceptions: Exceptions::new(capacity, exception_bits) })
    }

    /// The answer to a query; a hit among the exceptions is noted there.
    #[inline]
    pub(crate) fn contains(&self, digest: Digest) -> bool {
        self.filter.contains(digest) && !self.exceptions.hit(digest)
    }

    /// The same without a note.
    #[inline]
    pub(crate) fn known(&self, digest: Digest) -> Known {
        match self.filter.contains(digest) {
            false => Known::Absent,
            true if self.exceptions.holds(digest) => Known::Excepted,
            true => Known::Maybe,
        }
    }

    /// Adds a digest that the layer has nothing of; `false`, and nothing has changed, when it
    /// has no room.
    #[inline]
    pub(crate) fn add(&mut self, digest: Digest) -> bool {
        let stats = self.filter.stats();
        if stats.len >= stats.capacity || !self.filter.add(digest) {
            return false;
        }
        // Nobody can have reported this key, but another key's entry may be like its own.
        self.exceptions.remove(digest);
        true
    }

    /// Keys that have a fingerprint of their own here.
    pub(crate) fn len(&self) -> usize {
        self.filter.stats().len
    }

    /// Keys that it was made for.
    pub(crate) fn capacity(&self) -> usize {
        self.filter.stats().capacity
    }

    /// The share of absent keys that it takes for stored, exceptions apart.
    pub(crate) fn rate(&self) -> f64 {
        let stats = self.filter.stats();
        self.rate_at(stats.load())
    }

    /// The same when it is full.
    pub(crate) fn full_rate(&self) -> f64 {
        let stats = self.filter.stats();
        self.rate_at(stats.capacity as f64 / stats.cells as f64)
    }

    fn rate_at(&self, load: f64) -> f64 {
        self.filter.fingerprints().rate(load)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.filter.stats().bits / 8 + self.exceptions.bytes()
    }

    /// Without any keys.
    pub(crate) fn clear(&mut self) {
        self.filter.clear();
        self.exceptions.clear();
    }

    /// The filter's file in a block, and the exceptions.
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.block(&self.filter.save());
        self.exceptions.write(writer);
    }

    /// What [`Layer::write`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let filter = Base::load(reader.block("a filter")?)?;
        Ok(Layer { filter, exceptions: Exceptions::read(reader)? })
    }

    /// Verifies every invariant.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.exceptions.check()
    }
}

#[cfg(test)]
mod tests;
