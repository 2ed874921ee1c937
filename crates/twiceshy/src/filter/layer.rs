//! One filter of a chain, and the exceptions to what it says.

use twiceshy_filters::cuckoo::Plain;
use twiceshy_filters::internals::{Build as _, Reader, Writer};
use twiceshy_filters::{Digest, DigestFilter as _, Result, Spec};

use super::chain::layer_rate;
use super::exceptions::{ENTRY_BITS, Exceptions};

/// A plain cuckoo filter without a remote, and a table of its reported false positives.
///
/// Fingerprints are never removed. So a key whose fingerprint is there already, be it
/// another key's, needs no second one.
#[derive(Clone)]
pub(crate) struct Layer<const WIDTH: u32 = ENTRY_BITS> {
    pub(crate) filter: Plain,
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

impl<const WIDTH: u32> Layer<WIDTH> {
    /// An empty layer; `bits_per_key` are those of its exceptions.
    pub(crate) fn new(spec: &Spec, capacity: usize, bits_per_key: f64) -> Result<Self> {
        let Spec::Plain(params) = spec else { unreachable!("a layer is a plain filter") };
        let filter = Plain::new(params, capacity)?;
        Ok(Layer { filter, exceptions: Exceptions::new(capacity, bits_per_key) })
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

    /// Bits of a fingerprint.
    pub(crate) fn fingerprint_bits(&self) -> u32 {
        Spec::Plain(self.filter.params()).cell_bits()
    }

    /// The share of absent keys that it takes for stored, exceptions apart.
    pub(crate) fn rate(&self) -> f64 {
        let stats = self.filter.stats();
        layer_rate(self.fingerprint_bits(), stats.load())
    }

    /// The same when it is full.
    pub(crate) fn full_rate(&self) -> f64 {
        let stats = self.filter.stats();
        layer_rate(self.fingerprint_bits(), stats.capacity as f64 / stats.cells as f64)
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.filter.stats().bits / 8 + self.exceptions.bytes()
    }

    /// Without any keys.
    pub(crate) fn clear(&mut self) {
        let (params, capacity) = (self.filter.params(), self.capacity());
        // The old table goes before the new one comes.
        self.filter = Plain::new(&params, 1).expect("a small filter");
        self.filter = Plain::new(&params, capacity).expect("there was one like it");
        self.exceptions.clear();
    }

    /// The filter's file in a block, and the exceptions.
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.block(&self.filter.save());
        self.exceptions.write(writer);
    }

    /// What [`Layer::write`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let filter = Plain::load(reader.block("a filter")?)?;
        Ok(Layer { filter, exceptions: Exceptions::read(reader)? })
    }

    /// Verifies every invariant.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.exceptions.check()
    }
}

#[cfg(test)]
mod tests;
