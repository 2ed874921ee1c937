//! What a guard counts.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

use twiceshy_filters::Digest;

/// A guard's counts since it was opened, and its sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GuardStats {
    /// Stored keys, by the fingerprints in the filters.
    pub keys: u64,
    /// Keys that were looked up.
    pub queries: u64,
    /// Lookups that the filters answered "absent", without a read of the store.
    pub reads_avoided: u64,
    /// The part of [`GuardStats::reads_avoided`] that is due to adapting: lookups of earlier
    /// false positives. A filter of the same rate that does not adapt would have read the store.
    /// This is a lower bound, because the guard remembers only the last 16,384 adaptations, or
    /// 64 per shard if that is more.
    pub reads_avoided_by_adapting: u64,
    /// Reads of the store, for any reason. Of a [`Sidecar`](super::Sidecar): keys that the
    /// caller's store was asked for.
    pub store_reads: u64,
    /// Reads of a sidecar's own digests; 0 for a guard in front of its own store.
    pub sidecar_reads: u64,
    /// Lookups that the filters answered "maybe" and the store answered "absent".
    pub false_positives: u64,
    /// Keys of a sidecar that the caller's store had lost, and that the sidecar forgot after a
    /// lookup had shown it.
    pub vanished: u64,
    /// False positives that a filter adapted to.
    pub adapted: u64,
    /// The part of [`GuardStats::adapted`] that repeats an earlier false positive, as far as the
    /// guard remembers it.
    pub adapted_again: u64,
    /// False positives that the filter did not adapt to, because it was being modified.
    pub postponed: u64,
    /// Blocks of the filters that had spent their budget and forgot their adaptations.
    pub spent: u64,
    /// Filters that were replaced by larger ones.
    pub growths: u64,
    /// Memory of the filters, in bytes.
    pub bytes: u64,
}

impl AddAssign for GuardStats {
    fn add_assign(&mut self, other: Self) {
        self.keys += other.keys;
        self.queries += other.queries;
        self.reads_avoided += other.reads_avoided;
        self.reads_avoided_by_adapting += other.reads_avoided_by_adapting;
        self.store_reads += other.store_reads;
        self.sidecar_reads += other.sidecar_reads;
        self.false_positives += other.false_positives;
        self.vanished += other.vanished;
        self.adapted += other.adapted;
        self.adapted_again += other.adapted_again;
        self.postponed += other.postponed;
        self.spent += other.spent;
        self.growths += other.growths;
        self.bytes += other.bytes;
    }
}

/// A count that threads share. No synchronisation depends on it.
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

/// Adaptations that all shards together remember: 128 KiB.
pub(super) const REMEMBERED: usize = 1 << 14;

/// The fewest adaptations that a shard remembers.
const FEWEST: usize = 64;

/// The counts of one shard.
pub(super) struct Counters {
    reads_avoided: Counter,
    reads_avoided_by_adapting: Counter,
    /// Answers "maybe", without those of [`Counters::found`].
    pub(super) maybe: Counter,
    /// Answers "maybe" whose record the store's fast path found: one count per hit instead of
    /// two.
    pub(super) found: Counter,
    /// Reads, without those of [`Counters::found`].
    pub(super) store_reads: Counter,
    /// Reads of the store beside a sidecar that no lookup led to.
    pub(super) further_reads: Counter,
    pub(super) false_positives: Counter,
    pub(super) vanished: Counter,
    adapted: Counter,
    adapted_again: Counter,
    pub(super) postponed: Counter,
    growths: Counter,
    /// The last adaptation of each class of digests. The number of classes is a power of two.
    last_adapted: Box<[AtomicU64]>,
}

impl Counters {
    /// The counts of a shard that remembers so many adaptations.
    pub(super) fn new(remembered: usize) -> Self {
        let places = remembered.next_power_of_two().max(FEWEST);
        Counters {
            reads_avoided: Counter::default(),
            reads_avoided_by_adapting: Counter::default(),
            maybe: Counter::default(),
            found: Counter::default(),
            store_reads: Counter::default(),
            further_reads: Counter::default(),
            false_positives: Counter::default(),
            vanished: Counter::default(),
            adapted: Counter::default(),
            adapted_again: Counter::default(),
            postponed: Counter::default(),
            growths: Counter::default(),
            last_adapted: (0..places).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Counts an answer "absent".
    #[inline]
    pub(super) fn avoid_read(&self, digest: Digest) {
        self.reads_avoided.add(1);
        if self.was_adapted(digest) {
            self.reads_avoided_by_adapting.add(1);
        }
    }

    /// Counts and remembers an adaptation.
    pub(super) fn adapt(&self, digest: Digest) {
        self.adapted.add(1);
        let (place, word) = self.place(digest);
        if place.swap(word, Ordering::Relaxed) == word {
            self.adapted_again.add(1);
        }
    }

    /// Whether the filter has adapted to a digest, as far as that is remembered.
    #[inline]
    pub(super) fn was_adapted(&self, digest: Digest) -> bool {
        let (place, word) = self.place(digest);
        place.load(Ordering::Relaxed) == word
    }

    /// Counts a growth, and forgets the adaptations: the new filter has other false positives.
    pub(super) fn grow(&self) {
        self.growths.add(1);
        for place in &self.last_adapted {
            place.store(0, Ordering::Relaxed);
        }
    }

    fn place(&self, digest: Digest) -> (&AtomicU64, u64) {
        let word = digest.word(1);
        (&self.last_adapted[word as usize & (self.last_adapted.len() - 1)], word)
    }

    /// The counts, without those of the filter. A sidecar's own reads are not those of the store,
    /// which is read for each "maybe".
    pub(super) fn stats(&self, is_sidecar: bool) -> GuardStats {
        let (reads_avoided, found) = (self.reads_avoided.get(), self.found.get());
        let (maybe, own_reads) = (self.maybe.get(), self.store_reads.get() + found);
        let (store_reads, sidecar_reads) =
            if is_sidecar { (maybe + self.further_reads.get(), own_reads) } else { (own_reads, 0) };
        GuardStats {
            queries: reads_avoided + maybe + found,
            reads_avoided,
            reads_avoided_by_adapting: self.reads_avoided_by_adapting.get(),
            store_reads,
            sidecar_reads,
            false_positives: self.false_positives.get(),
            vanished: self.vanished.get(),
            adapted: self.adapted.get(),
            adapted_again: self.adapted_again.get(),
            postponed: self.postponed.get(),
            growths: self.growths.get(),
            ..GuardStats::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_each_count() {
        let times = |factor: u64| GuardStats {
            keys: factor,
            queries: 2 * factor,
            reads_avoided: 3 * factor,
            reads_avoided_by_adapting: 4 * factor,
            store_reads: 5 * factor,
            sidecar_reads: 6 * factor,
            false_positives: 7 * factor,
            vanished: 8 * factor,
            adapted: 9 * factor,
            adapted_again: 10 * factor,
            postponed: 11 * factor,
            spent: 12 * factor,
            growths: 13 * factor,
            bytes: 14 * factor,
        };
        let mut sum = times(100);
        sum += times(1);
        assert_eq!(sum, times(101));
    }

    /// Of 64 places, a digest has the one of its second word's last bits.
    #[test]
    fn a_place_is_shared_by_digests_that_end_alike() {
        let counters = Counters::new(1);
        let [one, same_place, other_place] = [5, 64 + 5, 6].map(|word| Digest::new([1, word]));
        for digest in [one, other_place, one] {
            counters.adapt(digest);
        }
        assert!(counters.was_adapted(one) && counters.was_adapted(other_place));
        assert!(!counters.was_adapted(same_place));
        counters.adapt(same_place);
        assert!(counters.was_adapted(same_place) && !counters.was_adapted(one));
        for digest in [one, same_place] {
            counters.avoid_read(digest);
        }
        let stats = counters.stats(false);
        assert_eq!((stats.adapted, stats.adapted_again), (4, 1));
        assert_eq!((stats.reads_avoided, stats.reads_avoided_by_adapting), (2, 1));
        counters.grow();
        assert!(!counters.was_adapted(same_place) && counters.stats(false).growths == 1);
    }
}
