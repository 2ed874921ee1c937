//! Adapting to a false positive, and what a removal does to a selector.
//!
//! ```text
//! group          selector of the run     after a false positive
//! not adapted    none                    adapted: the next selector that tells the query apart
//! adapted        s                       the next selector above s that tells it apart
//! adapted        none left above s       the line is redrawn: a new epoch, no group adapted
//! ```
//!
//! A run of `c` slots has a selector of `c` bits. Where its keys are too few for a selector, the
//! run gets *copies*: further slots with the fingerprints of keys that it has already, as long as
//! its line has slots to spare. Only runs of groups that have adapted have copies, and a change of
//! hash functions drops them. A run that is written anew also loses the slots of keys that the
//! remote has lost; they are still counted as keys until the filter is rebuilt or grows.

use alloc::vec::Vec;

use super::cells::{Line, Writing};
use super::drift::{Drift, selected};
use super::fingerprint::{Epoch, Hash};
use super::hot::Found;
use super::lanes::{Lanes as _, Portable};
use super::table::Table;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::Adapted;
use crate::remote::{Ordered, strangers};

/// Epochs that a redrawn line tries, until one tells the query from all stored keys: with 9 bits
/// and two keys all fail with probability 10^-19.
const EPOCHS_TRIED: u64 = 8;

/// Lines on either side of a full one that lose their copies.
const LINES_CLEARED: usize = 32;

/// A line under new hash functions.
pub(super) struct Redrawn {
    line: Line,
    /// Whether the query it is drawn for is told apart.
    avoids: bool,
}

impl Table {
    /// The selector of a run: 0 in a group that has not adapted.
    pub(super) fn selector(&self, bucket: Found, run: u64) -> u32 {
        if !self.is_adapted(bucket) {
            return 0;
        }
        Portable.compress(self.lines[bucket.line].plane_and_more(0, &self.shape), run) as u32
    }

    /// Adapts to a false positive, given the stored digests of its bucket.
    pub(super) fn fix(
        &mut self,
        bucket: Found,
        query: Digest,
        stored: &[Digest],
        remote: &mut dyn Ordered,
    ) -> Result<Adapted> {
        let run = self.lines[bucket.line].run(Portable, bucket.index, &self.shape);
        let len = run.count_ones() as usize;
        if stored.len() > len {
            return Err(Error::Remote(strangers(len, stored.len())));
        }
        let Some(next) = self.next_selector(bucket, run, stored, query) else {
            if let Some(drift) = self.room_for_a_copy(bucket, run, remote)? {
                self.drift(drift);
                return self.fix(self.find(query), query, stored, remote);
            }
            let redrawn = self.redraw(bucket.line, query, remote)?;
            self.counts.adaptations += u64::from(redrawn.avoids);
            let outcome = if redrawn.avoids { Adapted::Fixed } else { Adapted::Unfixed };
            self.replace(bucket.line, redrawn);
            return Ok(outcome);
        };
        self.rewrite(bucket, stored, next);
        self.counts.adaptations += 1;
        Ok(Adapted::Fixed)
    }

    /// How to make room for a copy in a full line: by a short way, or none.
    fn room_for_a_copy(
        &self,
        bucket: Found,
        run: u64,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Drift>> {
        let is_full = self.lines[bucket.line].used(&self.shape) == self.shape.slots;
        if !is_full || self.shape.selectors() <= 1 << run.count_ones().min(16) {
            return Ok(None);
        }
        Ok(self.plan(bucket, Some(remote))?.filter(Drift::is_short))
    }

    /// The next selector of a run under which none of its keys looks like the query, and for which
    /// its line has enough slots.
    fn next_selector(
        &self,
        bucket: Found,
        run: u64,
        stored: &[Digest],
        query: Digest,
    ) -> Option<u32> {
        if stored.is_empty() {
            return Some(0);
        }
        let (shape, line) = (&self.shape, &self.lines[bucket.line]);
        let bits = run.count_ones() as usize + shape.slots - line.used(shape);
        let selectors = shape.selectors().min(1 << bits.min(16));
        (self.selector(bucket, run) + 1..selectors).find(|&next| {
            let fingerprint = |digest| Hash::of(digest, line.epoch()).select(next, shape);
            let query = fingerprint(query);
            !stored.iter().any(|&digest| fingerprint(digest).equals(query, 1, shape))
        })
    }

    /// Writes a run anew: the slots of its keys, copies of them where the selector needs more
    /// bits, and the selector. Without keys there is no run.
    pub(super) fn rewrite(&mut self, bucket: Found, digests: &[Digest], selector: u32) {
        let (shape, first) = (self.shape, self.first_bucket(bucket.line));
        let epoch = self.lines[bucket.line].epoch();
        let bits = (u32::BITS - selector.leading_zeros()) as usize;
        let slots = if digests.is_empty() { 0 } else { digests.len().max(bits) };
        let with_copies: Vec<Digest> = digests.iter().copied().cycle().take(slots).collect();
        let new = selected(&with_copies, epoch, selector, &shape);
        self.change(bucket.line, |line| {
            line.adapt_group(bucket.group, first, &shape);
            line.resize(bucket.index, slots, &shape);
            if slots > 0 {
                line.overwrite(line.run(Portable, bucket.index, &shape), &new, &shape);
            }
        });
    }

    /// A line under new hash functions that tell a query apart.
    fn redraw(&self, at: usize, query: Digest, remote: &mut dyn Ordered) -> Result<Redrawn> {
        let (shape, old) = (&self.shape, &self.lines[at]);
        let first = self.first_bucket(at);
        let digests = self.digests(self.buckets(at), remote)?;
        if digests.len() > old.used(shape) {
            return Err(Error::Remote(strangers(old.used(shape), digests.len())));
        }
        // That of a query from elsewhere is none that there is.
        let index = |digest: Digest| self.home(digest).number(shape).wrapping_sub(first);
        let draw = |epoch: Epoch| {
            let fingerprint = |digest| Hash::of(digest, epoch).select(0, shape);
            let (query_index, query) = (index(query), fingerprint(query));
            let mut writing = Writing::start(old.window(), old.drift(), epoch);
            let mut avoids = true;
            for &digest in &digests {
                let (index, own) = (index(digest), fingerprint(digest));
                avoids &= index != query_index || !own.equals(query, 0, shape);
                writing.push(index, own, shape);
            }
            Redrawn { line: writing.finish(shape), avoids }
        };
        // What only the owner of the secret knows decides, and another number each time: with the
        // same one for the same query, an adversary would lead a line round in a circle.
        let mut drawn = (0..EPOCHS_TRIED).map(|turn| {
            let number = query.derived(2 + (EPOCHS_TRIED * self.counts.spent + turn) as u32);
            draw(old.epoch().another(number))
        });
        let last = drawn.next().expect("one is tried");
        Ok(if last.avoids { last } else { drawn.find(|drawn| drawn.avoids).unwrap_or(last) })
    }

    fn replace(&mut self, at: usize, redrawn: Redrawn) {
        self.counts.spent += 1;
        self.change(at, |line| *line = redrawn.line);
    }

    /// Makes room for a digest where there is none: redraws the lines around its own that have
    /// copies. Whether there were any. They stay redrawn if the insertion fails after all.
    pub(super) fn drop_copies(&mut self, digest: Digest, remote: &mut dyn Ordered) -> Result<bool> {
        let (own, mut dropped) = (self.find(digest).line, false);
        let first = self.first.max(own.saturating_sub(LINES_CLEARED));
        for at in first..self.lines.len().min(own + LINES_CLEARED + 1) {
            if self.lines[at].states() != 0 {
                let redrawn = self.redraw(at, digest, remote)?;
                if redrawn.line.used(&self.shape) < self.lines[at].used(&self.shape) {
                    self.replace(at, redrawn);
                    dropped = true;
                }
            }
        }
        Ok(dropped)
    }

    /// The keys of a bucket whose group has adapted, for a removal; `None` for another bucket.
    pub(super) fn plan_removal(
        &self,
        bucket: Found,
        digest: Digest,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Vec<Digest>>> {
        if !self.is_adapted(bucket) {
            return Ok(None);
        }
        let run = self.lines[bucket.line].run(Portable, bucket.index, &self.shape);
        let number = self.home(digest).number(&self.shape);
        self.digests_of_bucket(number, run.count_ones() as usize, remote).map(Some)
    }

    /// Removes a digest from its bucket, whose group has adapted and whose keys are known.
    pub(super) fn take(&mut self, bucket: Found, digest: Digest, mut digests: Vec<Digest>) {
        let line = &self.lines[bucket.line];
        let (epoch, run) = (line.epoch(), line.run(Portable, bucket.index, &self.shape));
        let selector = self.selector(bucket, run);
        let had_copies = run.count_ones() as usize > digests.len();
        self.counts.len = self.counts.len.saturating_sub(1);
        digests.retain(|&other| other != digest);
        self.rewrite(bucket, &digests, selector);
        let slots = self.lines.len() * self.shape.slots;
        self.departed.remember(digest, epoch.byte(), selector as u8, slots);
        // A key that comes back needs the room of its copies too.
        if !had_copies {
            self.pull_home(bucket.line);
        }
    }
}
