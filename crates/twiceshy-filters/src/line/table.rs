//! Lines, and the keys whose buckets they hold.

use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use super::cells::Line;
use super::drift::Drift;
use super::fingerprint::Epoch;
use super::hot::{Found, find, matches};
use super::lanes::{Portable, Twin};
use super::shape::{Home, Shape};
use crate::bits::pages::{filled, zeroed};
use crate::bits::prefetch::prefetch;
use crate::digest::Digest;
use crate::error::Result;
use crate::filter::Stats;
use crate::quotient::adaptive::departed::Departed;
use crate::quotient::place::digests_of;
use crate::remote::{Ordered, collected};

/// Lines, and how much they have been through.
#[derive(Clone)]
pub(super) struct Table {
    pub(super) lines: Vec<Line>,
    /// The number of lines that digests are mapped to. While a larger table is filled, the last
    /// of them are not there yet.
    pub(super) count: usize,
    /// The first line that is in use: while a larger table is filled, those before it have moved.
    pub(super) first: usize,
    /// The last digest whose keys are here: while this table is filled, those behind it are still
    /// in the smaller one.
    pub(super) last: Digest,
    /// Hash functions of lines that are new.
    pub(super) epoch: Epoch,
    pub(super) shape: Shape,
    /// Only some of the counts: keys and what happened to them.
    pub(super) counts: Stats,
    pub(super) departed: Departed,
    /// Lines with a group that has adapted.
    pub(super) adapted: usize,
    pub(super) twin: Twin,
}

/// The selector of a run that begins in a group that has adapted: that of most runs that had to.
const USUAL_SELECTOR: u32 = 1;

/// The last digest of all.
pub(super) const LAST: Digest = Digest::new([u64::MAX, u64::MAX]);

impl Table {
    /// Lines without a key.
    pub(super) fn new(count: usize, epoch: Epoch, shape: Shape) -> Self {
        let empty = Line::empty(epoch, &shape);
        let lines = if empty == Line::ZEROS { zeroed(count) } else { filled(empty, count) };
        Table { lines, ..Self::unmade(count, epoch, shape, Twin::for_this_machine(&shape)) }
    }

    /// A table whose lines are still to be made.
    pub(super) fn unmade(count: usize, epoch: Epoch, shape: Shape, mut twin: Twin) -> Self {
        twin.choose(0, count);
        Table {
            lines: Vec::new(),
            count,
            first: 0,
            last: LAST,
            epoch,
            shape,
            counts: Stats::default(),
            departed: Departed::default(),
            adapted: 0,
            twin,
        }
    }

    /// Memory on the heap, in bits.
    pub(super) fn bits(&self) -> usize {
        512 * self.lines.capacity() + self.departed.bits()
    }

    #[inline(always)]
    pub(super) fn contains(&self, digest: Digest) -> bool {
        self.twin.contains(&self.lines, self.count, digest)
    }

    pub(super) fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        self.twin.contains_many(&self.lines, self.count, digests, found);
    }

    pub(super) fn prefetch(&self, digest: Digest) {
        prefetch(&self.lines, self.home(digest).line);
    }

    /// Adds a digest without a remote; `false` when there is no room.
    #[inline]
    pub(super) fn add(&mut self, digest: Digest) -> bool {
        if !self.twin.insert(&mut self.lines, self.count, digest) {
            let Ok(Some(plan)) = self.plan_insertion(digest, None) else { return false };
            if !self.put_in_run(digest, plan) {
                // One slot and no copies: growth may have to take it back.
                self.rewrite(self.find(digest), &[digest], USUAL_SELECTOR);
            }
        }
        self.counts.len += 1;
        true
    }

    /// Deletes a digest without a remote; `false` when none looks like it, or its group has
    /// adapted.
    #[inline]
    pub(super) fn delete(&mut self, digest: Digest) -> bool {
        let deleted = self.twin.delete(&mut self.lines, self.count, digest);
        let Some(line) = deleted else { return false };
        self.counts.len = self.counts.len.saturating_sub(1);
        self.pull_home(line);
        true
    }

    /// The number of the first bucket in a line's window.
    pub(super) fn first_bucket(&self, line: usize) -> usize {
        (line * self.shape.buckets).wrapping_add_signed(-self.lines[line].drift() as isize)
    }

    /// The buckets in a line's window.
    pub(super) fn buckets(&self, line: usize) -> Range<usize> {
        let first = self.first_bucket(line);
        first..first + self.lines[line].window()
    }

    /// The first digest of the lines in use; `None` if they have no bucket.
    pub(super) fn first_digest(&self) -> Option<Digest> {
        let bucket = (self.first < self.lines.len()).then(|| self.first_bucket(self.first))?;
        let is_one = bucket < self.count * self.shape.buckets;
        is_one.then(|| *self.range(bucket..bucket + 1).start())
    }

    #[inline(always)]
    pub(super) fn home(&self, digest: Digest) -> Home {
        Home::of(digest.word(0), self.count, &self.shape)
    }

    pub(super) fn find(&self, digest: Digest) -> Found {
        find(Portable, &self.lines, self.home(digest), &self.shape)
    }

    /// The slots of a bucket that may be the digest's.
    pub(super) fn matches(&self, bucket: Found, digest: Digest) -> u64 {
        matches(Portable, &self.lines[bucket.line], bucket, digest, &self.shape)
    }

    pub(super) fn is_adapted(&self, bucket: Found) -> bool {
        self.lines[bucket.line].states() >> bucket.group & 1 == 1
    }

    /// The digests of some buckets, as far as their keys are here; there must be one bucket at
    /// least.
    pub(super) fn range(&self, buckets: Range<usize>) -> RangeInclusive<Digest> {
        let slots = self.count * self.shape.buckets;
        let (first, last) = digests_of(buckets.start..=buckets.end - 1, slots).into_inner();
        first..=last.min(self.last)
    }

    /// The stored digests of some buckets.
    pub(super) fn digests(
        &self,
        buckets: Range<usize>,
        remote: &mut dyn Ordered,
    ) -> Result<Vec<Digest>> {
        if buckets.is_empty() {
            return Ok(Vec::new());
        }
        let range = self.range(buckets);
        // Buckets behind the frontier have no keys here yet.
        if range.start() > range.end() {
            return Ok(Vec::new());
        }
        collected(|visitor| remote.visit(range, visitor))
    }

    /// Removes a slot of a bucket.
    pub(super) fn remove_slot(&mut self, bucket: Found, slot: usize) {
        let (shape, adapted) = (&self.shape, self.is_adapted(bucket));
        let line = &mut self.lines[bucket.line];
        let run = line.run(Portable, bucket.index, shape);
        line.remove(bucket.index, run, slot, adapted, shape);
        self.counts.len = self.counts.len.saturating_sub(1);
    }

    /// Changes a line, and counts whether it has adapted.
    pub(super) fn change(&mut self, line: usize, change: impl FnOnce(&mut Line)) {
        let before = self.lines[line].states() != 0;
        change(&mut self.lines[line]);
        let after = self.lines[line].states() != 0;
        if before != after {
            self.adapted = self.adapted + usize::from(after) - usize::from(before);
            self.twin.choose(self.adapted, self.lines.len());
        }
    }

    /// Counts the lines that have adapted.
    pub(super) fn count_adapted(&mut self) {
        self.adapted = self.lines.iter().filter(|line| line.states() != 0).count();
        self.twin.choose(self.adapted, self.lines.len());
    }

    /// What has to move before a digest's bucket can have one more key; `None` if there is no way.
    pub(super) fn plan_insertion(
        &self,
        digest: Digest,
        remote: Option<&mut dyn Ordered>,
    ) -> Result<Option<Option<Drift>>> {
        let bucket = self.find(digest);
        if self.lines[bucket.line].used(&self.shape) < self.shape.slots {
            return Ok(Some(None));
        }
        Ok(self.plan(bucket, remote)?.map(Some))
    }

    /// Makes room as planned, and adds a fingerprint.
    pub(super) fn put(&mut self, digest: Digest, plan: Option<Drift>) {
        if self.put_in_run(digest, plan) {
            return;
        }
        // The new run gets the selector that it had, as far as that is known.
        let bucket = self.find(digest);
        let (shape, line) = (&self.shape, &self.lines[bucket.line]);
        let (epoch, free) = (line.epoch().byte(), shape.slots - line.used(shape));
        let selector = u32::from(self.departed.recall(digest, epoch));
        self.departed.forget(digest, epoch);
        let fits = (1..shape.selectors().min(1 << free.min(16))).contains(&selector);
        self.rewrite(bucket, &[digest], if fits { selector } else { USUAL_SELECTOR });
    }

    /// Makes room as planned, and adds a fingerprint to the run of its bucket. `false`, with room
    /// made, where a run has to begin in a group that has adapted.
    fn put_in_run(&mut self, digest: Digest, plan: Option<Drift>) -> bool {
        if let Some(plan) = plan {
            self.drift(plan);
        }
        self.twin.insert(&mut self.lines, self.count, digest)
    }
}
