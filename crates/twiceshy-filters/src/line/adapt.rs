//! Adapting to a false positive, and what a removal does to a selector.
//!
//! ```text
//! group          selector of the run     after a false positive
//! not adapted    none                    adapted: the next selector that tells the query apart
//! adapted        s                       the next selector above s that tells it apart
//! adapted        none left above s       the line is redrawn: a new epoch, no group adapted
//! ```
//!
//! A run of `c` slots has a selector of `c` bits. A removal that would lose the highest bit redraws
//! the line too: any lower selector is one that a false positive was found under.

use super::cells::{Line, Writing};
use super::drift::selected;
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

/// A line under new hash functions.
pub(super) struct Redrawn {
    line: Line,
    len: usize,
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
        let shape = self.shape;
        let run = self.lines[bucket.line].run(Portable, bucket.index, &shape);
        let len = run.count_ones() as usize;
        if stored.len() > len {
            return Err(Error::Remote(strangers(len, stored.len())));
        }
        let Some(next) = self.next_selector(bucket, self.selector(bucket, run), stored, query)
        else {
            let redrawn = self.redraw(bucket.line, query, None, remote)?;
            self.counts.spent += 1;
            self.counts.adaptations += u64::from(redrawn.avoids);
            let outcome = if redrawn.avoids { Adapted::Fixed } else { Adapted::Unfixed };
            self.replace(bucket.line, redrawn);
            return Ok(outcome);
        };
        // Slots without a stored key go first: the query may be theirs.
        for _ in stored.len()..len {
            let run = self.lines[bucket.line].run(Portable, bucket.index, &shape);
            self.remove_slot(bucket, run.trailing_zeros() as usize);
        }
        if !stored.is_empty() {
            let first = self.first_bucket(bucket.line);
            let run = self.lines[bucket.line].run(Portable, bucket.index, &shape);
            let new = selected(stored, self.lines[bucket.line].epoch(), next, &shape);
            self.change(bucket.line, |line| {
                line.adapt_group(bucket.group, first, &shape);
                line.overwrite(run, &new, &shape);
            });
        }
        self.counts.adaptations += 1;
        Ok(Adapted::Fixed)
    }

    /// The next selector of a run with these keys under which none looks like the query.
    fn next_selector(
        &self,
        bucket: Found,
        selector: u32,
        stored: &[Digest],
        query: Digest,
    ) -> Option<u32> {
        if stored.is_empty() {
            return Some(0);
        }
        let shape = &self.shape;
        let epoch = self.lines[bucket.line].epoch();
        let selectors = shape.selectors().min(1 << stored.len().min(16));
        (selector + 1..selectors).find(|&next| {
            let fingerprint = |digest| Hash::of(digest, epoch).select(next, shape);
            let query = fingerprint(query);
            !stored.iter().any(|&digest| fingerprint(digest).equals(query, 1, shape))
        })
    }

    /// A line under new hash functions that tell a query apart, perhaps without one of its keys.
    fn redraw(
        &self,
        at: usize,
        query: Digest,
        without: Option<Digest>,
        remote: &mut dyn Ordered,
    ) -> Result<Redrawn> {
        let (shape, old) = (&self.shape, &self.lines[at]);
        let first = self.first_bucket(at);
        let mut digests = self.digests(self.buckets(at), remote)?;
        digests.retain(|&digest| Some(digest) != without);
        if digests.len() > old.used(shape) {
            return Err(Error::Remote(strangers(old.used(shape), digests.len())));
        }
        let index = |digest: Digest| self.home(digest).number(shape) - first;
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
            Redrawn { line: writing.finish(shape), len: digests.len(), avoids }
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
        self.counts.len -= self.lines[at].used(&self.shape) - redrawn.len;
        self.change(at, |line| *line = redrawn.line);
    }

    /// The line that a removal leaves behind, where the run's selector would lose a bit.
    pub(super) fn plan_removal(
        &self,
        bucket: Found,
        digest: Digest,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Redrawn>> {
        if !self.is_adapted(bucket) {
            return Ok(None);
        }
        let run = self.lines[bucket.line].run(Portable, bucket.index, &self.shape);
        let left = run.count_ones() - 1;
        if left == 0 || u64::from(self.selector(bucket, run)) < 1 << left {
            return Ok(None);
        }
        self.redraw(bucket.line, digest, Some(digest), remote).map(Some)
    }

    /// Removes a digest from its bucket, which has a slot like its own and whose group has adapted.
    pub(super) fn take(&mut self, bucket: Found, digest: Digest, redrawn: Option<Redrawn>) {
        if let Some(redrawn) = redrawn {
            self.replace(bucket.line, redrawn);
        } else {
            let slot = self.matches(bucket, digest).trailing_zeros();
            let line = &self.lines[bucket.line];
            let epoch = line.epoch().byte();
            let selector = self.selector(bucket, line.run(Portable, bucket.index, &self.shape));
            self.remove_slot(bucket, slot as usize);
            let slots = self.lines.len() * self.shape.slots;
            self.departed.remember(digest, epoch, selector as u8, slots);
        }
        self.pull_home(bucket.line);
    }
}
