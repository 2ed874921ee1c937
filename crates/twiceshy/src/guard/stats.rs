//! What a guard counts.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use twiceshy_filters::Digest;

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
    /// Those of them that were fixed before, as far as fixed ones are remembered:
    /// the last 16,384 of all shards together, or 64 of each if that is more.
    pub fixed_again: u64,
    /// Queries that were answered "absent" and are remembered as fixed: reads
    /// that a filter of the same rate which does not adapt would have made, or
    /// fewer, since not all are remembered.
    pub spared: u64,
    /// False positives that were not fixed, because the filter was being changed at that
    /// moment.
    pub postponed: u64,
    /// Blocks of the filters that had spent their budget and forgot what they
    /// had learned.
    pub spent: u64,
    /// Times a shard's filter was replaced by a larger one.
    pub growths: u64,
    /// Memory of the filters, in bytes.
    pub bytes: u64,
}

impl AddAssign for GuardStats {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.queries += other.queries;
        self.absent += other.absent;
        self.store_reads += other.store_reads;
        self.false_positives += other.false_positives;
        self.fixed += other.fixed;
        self.fixed_again += other.fixed_again;
        self.spared += other.spared;
        self.postponed += other.postponed;
        self.spent += other.spent;
        self.growths += other.growths;
        self.bytes += other.bytes;
    }
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

/// Fixed false positives that all shards together remember: 128 KiB.
pub(super) const REMEMBERED: usize = 1 << 14;

/// Those that a shard remembers, however many shards there are.
const FEWEST: usize = 64;

/// The counts of one shard.
pub(super) struct Counters {
    absent: Counter,
    /// Answers "maybe", without those of [`Counters::found`].
    pub(super) maybe: Counter,
    /// Answers "maybe" whose record the store had at once: one count instead of two
    /// for a hit.
    pub(super) found: Counter,
    /// Reads without those of [`Counters::found`].
    pub(super) store_reads: Counter,
    pub(super) false_positives: Counter,
    fixed: Counter,
    fixed_again: Counter,
    spared: Counter,
    pub(super) postponed: Counter,
    growths: Counter,
    /// The last false positive that was fixed of each class of digests: a power
    /// of two of them.
    last_fixed: Box<[AtomicU64]>,
}

impl Counters {
    /// Counts of a shard that remembers so many fixed false positives.
    pub(super) fn new(remembered: usize) -> Self {
        let places = remembered.next_power_of_two().max(FEWEST);
        Counters {
            absent: Counter::default(),
            maybe: Counter::default(),
            found: Counter::default(),
            store_reads: Counter::default(),
            false_positives: Counter::default(),
            fixed: Counter::default(),
            fixed_again: Counter::default(),
            spared: Counter::default(),
            postponed: Counter::default(),
            growths: Counter::default(),
            last_fixed: (0..places).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// The filter answered "absent".
    #[inline]
    pub(super) fn answer_absent(&self, digest: Digest) {
        self.absent.add(1);
        if self.was_fixed(digest) {
            self.spared.add(1);
        }
    }

    /// A false positive was fixed.
    pub(super) fn fix(&self, digest: Digest) {
        self.fixed.add(1);
        let (place, word) = self.place(digest);
        if place.swap(word, Ordering::Relaxed) == word {
            self.fixed_again.add(1);
        }
    }

    /// Whether it is one of the false positives that were fixed last.
    #[inline]
    pub(super) fn was_fixed(&self, digest: Digest) -> bool {
        let (place, word) = self.place(digest);
        place.load(Ordering::Relaxed) == word
    }

    /// The filter was replaced: its false positives are others.
    pub(super) fn grow(&self) {
        self.growths.add(1);
        for place in &self.last_fixed {
            place.store(0, Ordering::Relaxed);
        }
    }

    fn place(&self, digest: Digest) -> (&AtomicU64, u64) {
        let word = digest.word(1);
        (&self.last_fixed[word as usize & (self.last_fixed.len() - 1)], word)
    }

    /// The counts, without what the filter counts itself.
    pub(super) fn stats(&self) -> GuardStats {
        let (absent, found) = (self.absent.get(), self.found.get());
        GuardStats {
            queries: absent + self.maybe.get() + found,
            absent,
            store_reads: self.store_reads.get() + found,
            false_positives: self.false_positives.get(),
            fixed: self.fixed.get(),
            fixed_again: self.fixed_again.get(),
            spared: self.spared.get(),
            postponed: self.postponed.get(),
            growths: self.growths.get(),
            ..GuardStats::default()
        }
    }
}
