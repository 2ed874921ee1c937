//! What a guard counts.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::digest::Digest;

/// Counts and sizes of a guard since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GuardStats {
    /// Keys stored, as far as the filters know.
    pub keys: u64,
    /// Keys asked for.
    pub queries: u64,
    /// Queries that were answered "absent" from memory.
    pub absent: u64,
    /// Reads of the store, for whatever reason.
    pub store_reads: u64,
    /// Queries that were answered "maybe" and were not stored.
    pub false_positives: u64,
    /// False positives that were fixed.
    pub fixed: u64,
    /// Those of them that were fixed before, as far as the last 64 fixed of each
    /// shard are remembered.
    pub fixed_again: u64,
    /// False positives that were not fixed, since the shard was being changed.
    pub postponed: u64,
    /// Blocks of the filters that had spent their budget and forgot what they
    /// had learned.
    pub spent: u64,
    /// Times a shard's filter was replaced by a larger one.
    pub growths: u64,
    /// Memory of the filters, in bytes.
    pub bytes: u64,
}

/// A count that threads share; nobody synchronises by it.
#[derive(Default)]
pub(super) struct Counter(AtomicU64);

impl Counter {
    pub(super) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Fixed false positives that a shard remembers.
const REMEMBERED: usize = 64;

/// The counts of one shard.
pub(super) struct Counters {
    pub(super) absent: Counter,
    pub(super) maybe: Counter,
    pub(super) store_reads: Counter,
    pub(super) false_positives: Counter,
    pub(super) fixed: Counter,
    pub(super) fixed_again: Counter,
    pub(super) postponed: Counter,
    pub(super) growths: Counter,
    last_fixed: [AtomicU64; REMEMBERED],
}

impl Default for Counters {
    fn default() -> Self {
        Counters {
            absent: Counter::default(),
            maybe: Counter::default(),
            store_reads: Counter::default(),
            false_positives: Counter::default(),
            fixed: Counter::default(),
            fixed_again: Counter::default(),
            postponed: Counter::default(),
            growths: Counter::default(),
            last_fixed: [const { AtomicU64::new(0) }; REMEMBERED],
        }
    }
}

impl Counters {
    /// A false positive was fixed.
    pub(super) fn fix(&self, digest: Digest) {
        self.fixed.add(1);
        let word = digest.word(1);
        let place = &self.last_fixed[word as usize % REMEMBERED];
        if place.swap(word, Ordering::Relaxed) == word {
            self.fixed_again.add(1);
        }
    }

    /// Adds these counts to those of other shards.
    pub(super) fn add_to(&self, sum: &mut GuardStats) {
        sum.queries += self.absent.get() + self.maybe.get();
        sum.absent += self.absent.get();
        sum.store_reads += self.store_reads.get();
        sum.false_positives += self.false_positives.get();
        sum.fixed += self.fixed.get();
        sum.fixed_again += self.fixed_again.get();
        sum.postponed += self.postponed.get();
        sum.growths += self.growths.get();
    }
}
