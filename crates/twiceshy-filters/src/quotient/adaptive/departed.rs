//! The slot states of removed keys, until they come back.
//!
//! A slot's state goes with its slot when the key is removed. A key that is inserted again
//! would start unadapted, and every false positive that its slot was adapted to would be
//! back. So a filter keeps, for the keys removed last, a tag of the digest and the depth of
//! the slot's state; the rest follows from the digest.
//!
//! ```text
//! entry    | tag: 12 bits | depth: 4 bits |      0: none
//! bucket   16 entries, the latest first; the oldest makes room for a new one
//! table    a bucket for each 1440 slots, and one at least
//! ```
//!
//! That is 0.19 bits per key of a full filter, for as many removed keys as 1.2 % of
//! the stored ones. The memory is allocated when the first such key is removed. Nothing is
//! promised: a key with the tag of another (one insertion in 256, if all entries are taken)
//! gets the state of that one, which is as right as any other. The table is not saved, and
//! a filter that grows or is rebuilt begins with an empty one.

use crate::digest::{Digest, reduce64};
use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

/// Entries of a bucket.
const BUCKET: usize = 16;

/// Slots of the filter for each bucket.
const SLOTS_PER_BUCKET: usize = 1440;

/// Bits of an entry's depth. Deeper states are not remembered.
const DEPTH_BITS: u32 = 4;

/// Which hash functions of the digest give buckets and tags: none that a block uses.
const SEED: u64 = 1 << 32;

/// Half a cache line.
#[derive(Clone, Copy, Default)]
#[repr(align(32))]
struct Bucket([u16; BUCKET]);

/// The keys removed last, with the depth of each one's slot state.
#[derive(Clone, Default)]
pub(crate) struct Departed {
    buckets: Vec<Bucket>,
    /// Entries in all buckets.
    len: usize,
}

impl Departed {
    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>() * 8
    }

    /// The depth of a key's slot state when it was removed in this epoch; 0 if unknown.
    #[inline]
    pub(crate) fn recall(&self, digest: Digest, epoch: u8) -> u8 {
        if self.len == 0 {
            return 0;
        }
        let (bucket, tag) = self.address(digest, epoch);
        let entry = self.buckets[bucket].0.iter().find(|&&entry| is_of(entry, tag));
        entry.map_or(0, |entry| (entry & DEEPEST) as u8)
    }

    /// Remembers a key that is removed from a filter of `slots` slots.
    pub(crate) fn remember(&mut self, digest: Digest, epoch: u8, depth: u8, slots: usize) {
        let depth = u16::from(depth);
        if !(1..=DEEPEST).contains(&depth) {
            return;
        }
        if self.buckets.is_empty() {
            self.buckets = vec![Bucket::default(); (slots / SLOTS_PER_BUCKET).max(1)];
        }
        let (bucket, tag) = self.address(digest, epoch);
        let entries = &mut self.buckets[bucket].0;
        self.len += usize::from(entries[BUCKET - 1] == 0);
        entries.copy_within(..BUCKET - 1, 1);
        entries[0] = tag << DEPTH_BITS | depth;
    }

    /// Forgets a key that is back.
    pub(crate) fn forget(&mut self, digest: Digest, epoch: u8) {
        if self.len == 0 {
            return;
        }
        let (bucket, tag) = self.address(digest, epoch);
        let entries = &mut self.buckets[bucket].0;
        if let Some(at) = entries.iter().position(|&entry| is_of(entry, tag)) {
            entries.copy_within(at + 1.., at);
            entries[BUCKET - 1] = 0;
            self.len -= 1;
        }
    }

    fn address(&self, digest: Digest, epoch: u8) -> (usize, u16) {
        let [first, second] = digest.rehashed(SEED | u64::from(epoch)).words();
        let bucket = reduce64(first, self.buckets.len() as u64);
        (bucket as usize, (second >> (48 + DEPTH_BITS)) as u16)
    }

    /// Every invariant: entries come first in their bucket, and all are counted.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut len = 0;
        for (index, Bucket(entries)) in self.buckets.iter().enumerate() {
            let taken = entries.iter().position(|&entry| entry == 0).unwrap_or(BUCKET);
            if entries[taken..].iter().any(|&entry| entry != 0)
                || entries[..taken].iter().any(|&entry| entry & DEEPEST == 0)
            {
                return Err(format!("bucket {index} of departed keys is out of order"));
            }
            len += taken;
        }
        if len != self.len {
            return Err(format!("{len} departed keys where {} are counted", self.len));
        }
        Ok(())
    }
}

/// The largest depth of an entry, and the bits where it is.
const DEEPEST: u16 = (1 << DEPTH_BITS) - 1;

/// Whether an entry has this tag.
fn is_of(entry: u16, tag: u16) -> bool {
    entry != 0 && entry >> DEPTH_BITS == tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Against a list of everything that left, the latest first. With a single bucket the
    /// last 16 are known, whatever came and went between. No two of these digests have
    /// equal tags, in either epoch.
    #[test]
    fn the_latest_are_known_and_the_oldest_go_first() {
        let mut rng = Rng::new(3);
        let (mut departed, mut oracle) = (Departed::default(), Vec::<(usize, u8, u8)>::new());
        let (mut digests, mut tags) = (Vec::new(), Vec::new());
        while digests.len() < 40 {
            let digest = Digest::new([rng.next(), rng.next()]);
            let of_digest = [0, 1].map(|epoch| departed.address(digest, epoch).1);
            if of_digest[0] != of_digest[1] && !of_digest.iter().any(|tag| tags.contains(tag)) {
                digests.push(digest);
                tags.extend(of_digest);
            }
        }
        for _ in 0..if cfg!(miri) { 500 } else { 20_000 } {
            let (key, epoch) = (rng.below(40) as usize, rng.below(2) as u8);
            let known = oracle.iter().position(|&(other, of, _)| (other, of) == (key, epoch));
            let depth = known.map_or(0, |at| oracle[at].2);
            assert_eq!(departed.recall(digests[key], epoch), depth, "{oracle:?}");
            if let Some(at) = known {
                departed.forget(digests[key], epoch);
                oracle.remove(at);
            } else {
                let depth = rng.below(20) as u8;
                departed.remember(digests[key], epoch, depth, 100);
                if (1..16).contains(&depth) {
                    oracle.insert(0, (key, epoch, depth));
                    oracle.truncate(BUCKET);
                }
            }
            departed.check().expect("every invariant holds");
        }
        assert_eq!(oracle.len(), departed.len);
    }

    #[test]
    fn what_no_filter_writes_is_found() {
        let with = |entries: &[u16], len| {
            let mut bucket = Bucket::default();
            bucket.0[..entries.len()].copy_from_slice(entries);
            Departed { buckets: vec![Bucket::default(), bucket], len }
        };
        let full = [0x15; BUCKET];
        for sound in [with(&[], 0), with(&[0x10 | DEEPEST, 0x01], 2), with(&full, BUCKET)] {
            sound.check().expect("every invariant holds");
        }
        // A gap, a depth of zero, and two wrong counts.
        for entries in [&[0x15, 0, 0x15][..], &[0, 0x15], &[0x15, 0x10]] {
            let broken = with(entries, 2).check().expect_err("it is broken");
            assert_eq!(broken, "bucket 1 of departed keys is out of order");
        }
        for len in [1, 3] {
            assert!(with(&[0x15, 0x25], len).check().is_err(), "{len}");
        }
    }

    #[test]
    fn it_takes_less_than_a_fifth_of_a_bit_per_key() {
        for keys in [2_000, 10_000, 1_000_000] {
            let slots = keys * 1000 / 950;
            let mut departed = Departed::default();
            assert_eq!(departed.bits(), 0);
            departed.remember(Digest::new([1, 2]), 0, 1, slots);
            assert!(departed.bits() as f64 / (keys as f64) < 0.2, "{keys}: {}", departed.bits());
        }
    }
}
