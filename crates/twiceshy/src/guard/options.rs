//! [`GuardOptions`]: what a guard is made of.

use twiceshy_filters::Spec;

use super::error::{Error, Result};

/// The most shards, as a power of two.
const MOST_SHARD_BITS: u32 = 16;

/// The filter of a guard, its capacity and its shards.
///
/// ```
/// use twiceshy::guard::GuardOptions;
/// let options = GuardOptions::default().capacity(10_000_000).shard_bits(8);
/// assert_eq!(options.capacity, 10_000_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct GuardOptions {
    /// The filter: one that [guards a store](Spec::guards_a_store).
    pub spec: Spec,
    /// Keys to make room for when the guard is opened. The guard grows with its keys.
    pub capacity: usize,
    /// The number of shards, as a power of two: 6 makes 64 shards.
    ///
    /// While a shard grows, it holds its old filter, its new filter, and 16 bytes per key of
    /// that shard. With 64 shards this is a quarter of a byte per key of the guard; with one
    /// shard it is 16 bytes per key.
    pub shard_bits: u32,
}

impl Default for GuardOptions {
    /// The default filter ([`Spec::default`]): telescoping with 8-bit remainders, whose spent
    /// blocks choose new hash functions. Of the filters with 12 bits per key, it is the one that withstood every
    /// stream of queries in our tests.
    ///
    /// A key that is removed and stored again keeps its adaptations, as long as no more than
    /// about 0.5 % of a shard's keys are removed at once. Beyond 1.2 %, the false positives of
    /// the keys that were removed first come back, once each. They also come back when the
    /// shard grows or the process restarts in between. This takes 0.19 bits per key, or 32
    /// bytes for a shard with fewer than 1440 slots.
    fn default() -> Self {
        GuardOptions { spec: Spec::default(), capacity: 1 << 16, shard_bits: 6 }
    }
}

impl GuardOptions {
    /// Sets [`GuardOptions::spec`].
    #[must_use]
    pub fn spec(mut self, spec: Spec) -> Self {
        self.spec = spec;
        self
    }

    /// Sets [`GuardOptions::capacity`].
    #[must_use]
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// Sets [`GuardOptions::shard_bits`].
    #[must_use]
    pub fn shard_bits(mut self, bits: u32) -> Self {
        self.shard_bits = bits;
        self
    }

    /// Refuses options that no guard can have.
    pub(super) fn validate(&self) -> Result<()> {
        if self.shard_bits > MOST_SHARD_BITS {
            let bits = self.shard_bits;
            let reason =
                format!("2^{bits} shards are too many; shard_bits is 0 to {MOST_SHARD_BITS}");
            return Err(Error::Options { reason });
        }
        Ok(())
    }
}
