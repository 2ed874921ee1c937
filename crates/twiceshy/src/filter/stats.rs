//! Counts and sizes of filters.

use std::fmt;

use twiceshy_filters::KeyHasher;

use super::chain::Chain;
use super::layer::Layer;

/// Counts and sizes of a [`Filter`](super::Filter) or a [`Frozen`](super::Frozen).
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// About how many keys are stored; see [`Filter::len`](super::Filter::len).
    pub len: usize,
    /// The capacity of all filters of the chain together.
    pub capacity: usize,
    /// The number of filters in the chain: more than one if it has grown.
    pub layers: usize,
    /// The expected share of absent keys that are answered "maybe" the first time, with the keys
    /// stored now. It is an upper bound for a chain with a rate above 0.1, where keys that
    /// several filters answer "maybe" count several times.
    pub rate: f64,
    /// Exceptions in the table.
    pub exceptions: usize,
    /// Exceptions that the table has room for.
    pub exceptions_room: usize,
    /// All memory, in bytes: the fingerprints, the exceptions and the filter itself.
    pub bytes: usize,
    /// Of these, the fingerprints.
    pub fingerprint_bytes: usize,
    /// Of these, the exceptions.
    pub exception_bytes: usize,
}

impl Stats {
    /// Those of a chain, which is part of something of so many bytes.
    pub(super) fn of(chain: &Chain, own_bytes: usize) -> Self {
        let sum = |of: fn(&Layer) -> usize| chain.layers().map(of).sum();
        Stats {
            len: sum(Layer::len),
            capacity: sum(Layer::capacity),
            layers: chain.layers().count(),
            rate: chain.layers().map(Layer::rate).sum::<f64>().min(1.0),
            exceptions: sum(|layer| layer.exceptions.len()),
            exceptions_room: sum(|layer| layer.exceptions.room()),
            bytes: own_bytes + chain.heap_bytes(),
            fingerprint_bytes: sum(|layer| layer.filter.stats().bits / 8),
            exception_bytes: sum(|layer| layer.exceptions.bytes()),
        }
    }

    /// Memory per stored key, in bits.
    #[must_use]
    pub fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.len as f64
    }
}

/// The main numbers, and never the secret.
pub(super) fn debug(
    name: &str,
    hasher: &KeyHasher,
    stats: &Stats,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    f.debug_struct(name)
        .field("hasher", hasher)
        .field("len", &stats.len)
        .field("capacity", &stats.capacity)
        .field("layers", &stats.layers)
        .field("exceptions", &stats.exceptions)
        .field("bytes", &stats.bytes)
        .finish_non_exhaustive()
}

#[cfg(test)]
mod tests {
    use crate::Filter;

    #[test]
    fn bits_per_key_are_those_of_all_bytes() {
        let mut filter = Filter::builder().capacity(1000).build().expect("a small filter");
        for number in 0..1000_u32 {
            filter.insert(number.to_le_bytes());
        }
        let stats = filter.stats();
        assert_eq!((stats.bits_per_key() * stats.len as f64) as usize, 8 * stats.bytes);
        let text = format!("{filter:?}");
        assert!(text.contains(&format!("bytes: {}", stats.bytes)), "{text}");
    }
}
