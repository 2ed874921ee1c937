//! The line filter: adaptive, and one cache line per query.
//!
//! Our own design; `docs/line-filter.md` has the analysis. Digests are mapped, in order, to
//! buckets; 40 buckets have their home in each line of 64 bytes. A line holds a byte per key, the
//! *remainder*, a bit per key in each of its *planes*, and where the run of each bucket is.
//!
//! ```text
//! query     word 0 of the digest ─▶ line and bucket ─▶ run of the bucket
//!           word 1 ─▶ fingerprint ─▶ compare with all remainders of the line, keep the run's
//! full      a border bucket moves to the next line ([drift](drift)); a query follows it there
//! adapt     the run of the bucket takes its next *selector*: other fingerprints of its keys
//! spent     a run without a further selector: the line takes a new *epoch*
//! ```
//!
//! **Planes.** As long as a *group* (every eighth bucket of a line) has not adapted, all planes
//! hold fingerprint bits. When one of its runs has to adapt, the first plane of the group becomes
//! its selectors: the bits of a run, read as a number, say which fingerprints its slots hold. So
//! memory set aside for adapting serves as fingerprint until then.
//!
//! **Why there is no false negative.** Each write of a run uses the epoch, group state and selector
//! that a query will read. A group that adapts first drops the checks of a plane, and so accepts
//! more. Windows tile the buckets, so a bucket is in one line, which every query finds by the same
//! walk. Slots with equal fingerprints are interchangeable.
//!
//! | file | knows |
//! | --- | --- |
//! | `shape.rs`, `fingerprint.rs` | sizes; where a digest belongs and what it leaves there |
//! | `cells.rs` | the bits of one line; nothing of digests |
//! | `lanes/` | the twins: how a line is searched on each processor (the only `unsafe`) |
//! | `hot.rs` | queries, and insertions that find room |
//! | `drift.rs` | chains of moves to neighbours, and back |
//! | `adapt.rs` | selectors, epochs, removal |
//! | `made.rs` | whole filters: from sorted digests, larger, rebuilt |

mod adapt;
mod cells;
mod check;
mod drift;
mod fingerprint;
mod hot;
mod lanes;
mod made;
mod params;
mod shape;

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::bits::prefetch::prefetch;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter, Stats, sealed::Sealed};
use crate::format::Writer;
use crate::make::{self, Grow as _};
use crate::params::WhenFull;
use crate::quotient::adaptive::departed::Departed;
use crate::remote::{Ordered, stored};

use cells::Line;
use drift::Drift;
use fingerprint::Hash;
use hot::{Found, find, matches};
use lanes::{Lanes as _, Portable, Twin};
use shape::{Home, digests_in};

pub use params::Params;
#[doc(hidden)]
pub use shape::{MOST_BUCKETS, Shape};

/// The line filter ("line"), with an [`Ordered`] remote.
///
/// ```
/// use twiceshy_filters::line::LineFilter;
/// use twiceshy_filters::remote::MemorySet;
/// use twiceshy_filters::{Adapted, DigestFilter, KeyHasher};
///
/// let mut filter = LineFilter::new(&"line".parse()?, 1000)?;
/// let (mut remote, hasher) = (MemorySet::new(), KeyHasher::random());
/// filter.insert(hasher.digest("stored"), &mut remote)?;
/// assert!(filter.contains(hasher.digest("stored")));
///
/// let missing = hasher.digest("missing");
/// if filter.contains(missing) {
///     assert_eq!(filter.adapt(missing, &mut remote)?, Adapted::Fixed);
///     assert!(!filter.contains(missing));
/// }
/// # Ok::<(), twiceshy_filters::Error>(())
/// ```
#[derive(Clone)]
pub struct LineFilter {
    lines: Vec<Line>,
    twin: Twin,
    shape: Shape,
    params: Params,
    departed: Departed,
    counts: Stats,
    /// Lines with a group that has adapted.
    adapted: usize,
}

impl LineFilter {
    /// An empty filter for `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    pub fn new(params: &Params, capacity: usize) -> Result<Self> {
        make::new(params, capacity)
    }

    /// The filter that [`DigestFilter::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are no such filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        make::load(bytes)
    }

    /// Adds a digest without a remote; `false` when there is no room. A digest that is added
    /// twice has to be deleted twice. A filter to which keys were added without a remote cannot
    /// adapt to false positives, grow or be rebuilt.
    #[must_use]
    pub fn add(&mut self, digest: Digest) -> bool {
        if !self.twin.insert(&mut self.lines, digest) {
            let bucket = self.find(digest);
            match self.plan_insertion(bucket, None) {
                Ok(Some(plan)) => self.put(digest, plan),
                _ => return false,
            }
        }
        self.counts.len += 1;
        true
    }

    /// Deletes a digest that was [added](LineFilter::add) without a remote; `false` when none
    /// looks like it. Deleting a digest that was never added may delete another key's
    /// fingerprint.
    pub fn delete(&mut self, digest: Digest) -> bool {
        let Some(line) = self.twin.delete(&mut self.lines, digest) else { return false };
        self.counts.len -= 1;
        self.pull_home(line);
        true
    }

    /// Lines that a query for an absent key reads on average.
    #[must_use]
    pub fn lines_per_query(&self) -> f64 {
        let buckets = self.lines.len() * self.shape.buckets;
        let steps: usize = (0..self.lines.len())
            .map(|line| {
                let first = self.first_bucket(line);
                let window = self.lines[line].window();
                (first..first + window)
                    .map(|bucket| (bucket / self.shape.buckets).abs_diff(line))
                    .sum::<usize>()
            })
            .sum();
        1.0 + steps as f64 / buckets as f64
    }

    /// The number of the first bucket in a line's window.
    fn first_bucket(&self, line: usize) -> usize {
        (line * self.shape.buckets).wrapping_add_signed(-self.lines[line].drift() as isize)
    }

    fn home(&self, digest: Digest) -> Home {
        Home::of(digest.word(0), self.lines.len(), &self.shape)
    }

    fn find(&self, digest: Digest) -> Found {
        find(Portable, &self.lines, self.home(digest), &self.shape)
    }

    /// The slots of a bucket that may be the digest's.
    fn matches(&self, bucket: Found, digest: Digest) -> u64 {
        matches(Portable, &self.lines[bucket.line], bucket, digest, &self.shape)
    }

    fn is_adapted(&self, bucket: Found) -> bool {
        self.lines[bucket.line].states() >> bucket.group & 1 == 1
    }

    /// Removes a slot of a bucket.
    fn remove_slot(&mut self, bucket: Found, slot: usize) {
        let (shape, adapted) = (&self.shape, self.is_adapted(bucket));
        let line = &mut self.lines[bucket.line];
        let run = line.run(Portable, bucket.index, shape);
        line.remove(bucket.index, run, slot, adapted, shape);
        self.counts.len -= 1;
    }

    /// Changes a line, and counts whether it has adapted.
    fn change(&mut self, line: usize, change: impl FnOnce(&mut Line)) {
        let before = self.lines[line].states() != 0;
        change(&mut self.lines[line]);
        let after = self.lines[line].states() != 0;
        if before != after {
            self.adapted = self.adapted + usize::from(after) - usize::from(before);
            self.twin.choose(self.adapted, self.lines.len());
        }
    }

    /// What has to move before a bucket can have one more key; `None` if there is no way.
    fn plan_insertion(
        &self,
        bucket: Found,
        remote: Option<&mut dyn Ordered>,
    ) -> Result<Option<Option<Drift>>> {
        if self.lines[bucket.line].used(&self.shape) < self.shape.slots {
            return Ok(Some(None));
        }
        Ok(self.plan(bucket, remote)?.map(Some))
    }

    /// Makes room as planned, and adds a fingerprint.
    fn put(&mut self, digest: Digest, plan: Option<Drift>) {
        if let Some(plan) = plan {
            self.drift(plan);
        }
        let shape = &self.shape;
        let bucket = find(Portable, &self.lines, self.home(digest), shape);
        let adapted = self.is_adapted(bucket);
        let line = &mut self.lines[bucket.line];
        let mut selector = 0;
        if adapted {
            let run = line.run(Portable, bucket.index, shape);
            selector = Portable.compress(line.plane_and_more(0, shape), run) as u32;
        }
        let fingerprint = Hash::of(digest, line.epoch()).select(selector, shape);
        let rank = (line.occupied() & Portable.below(bucket.index)).count_ones();
        let at = Portable.select(line.starts_and_more(shape), rank) as usize;
        line.insert(bucket.index, at, adapted, fingerprint, shape);
        if adapted && self.departed.recall(digest, self.lines[bucket.line].epoch().byte()) != 0 {
            self.restore(digest);
        }
    }
}

impl Sealed for LineFilter {}

impl DigestFilter for LineFilter {
    type Remote = dyn Ordered;

    #[inline]
    fn contains(&self, digest: Digest) -> bool {
        self.twin.contains(&self.lines, digest)
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        self.twin.contains_many(&self.lines, digests, found);
    }

    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        // While the line is on its way the remote has time.
        prefetch(&self.lines, self.home(digest).line);
        remote.prepare(digest);
        if self.contains(digest) && stored(digest, remote)? {
            return Ok(false);
        }
        let (len, capacity) = (self.counts.len, self.counts.capacity);
        let most = self.lines.len() * self.shape.slots;
        let may_grow = self.params.full == WhenFull::Grow;
        if len < self.params.full.most_keys(capacity, most) {
            let bucket = self.find(digest);
            if let Some(plan) = self.plan_insertion(bucket, Some(remote))? {
                remote.insert(digest).map_err(Error::Remote)?;
                self.put(digest, plan);
                self.counts.len += 1;
                return Ok(true);
            }
        }
        if !may_grow {
            return Err(Error::Full { digest, len, capacity });
        }
        let larger = self.grown_for(digest, remote)?;
        remote.insert(digest).map_err(Error::Remote)?;
        *self = larger;
        Ok(true)
    }

    fn remove(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        if !self.contains(digest) {
            return Ok(false);
        }
        let bucket = self.find(digest);
        let redrawn = self.plan_removal(bucket, digest, remote)?;
        if !remote.remove(digest).map_err(Error::Remote)? {
            return Ok(false);
        }
        if !self.delete(digest) {
            self.take(bucket, digest, redrawn);
        }
        Ok(true)
    }

    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted> {
        let bucket = self.find(digest);
        if self.matches(bucket, digest) == 0 {
            return Ok(Adapted::Absent);
        }
        let range = self.range(digest);
        let read = crate::remote::collected(|visitor| remote.visit(range, visitor))?;
        if read.contains(&digest) {
            return Ok(Adapted::Stored);
        }
        self.fix(bucket, digest, &read, remote)
    }

    /// The digests of its bucket: all that can make it a false positive.
    fn range(&self, digest: Digest) -> RangeInclusive<Digest> {
        let bucket = self.home(digest).number(&self.shape);
        digests_in(bucket..bucket + 1, self.lines.len(), &self.shape)
    }

    fn grow(&mut self, capacity: usize, remote: &mut Self::Remote) -> Result<()> {
        *self = self.grown(capacity, remote)?;
        Ok(())
    }

    fn rebuild(&mut self, remote: &mut Self::Remote) -> Result<()> {
        *self = self.rebuilt(remote)?;
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats {
            cells: self.lines.len() * self.shape.slots,
            bits: 512 * self.lines.capacity() + self.departed.bits(),
            ..self.counts
        }
    }

    fn description(&self) -> String {
        self.params.to_string()
    }

    fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(&self.params.to_string());
        writer.u64(self.lines.len() as u64);
        writer.u64(self.counts.len as u64);
        writer.u64(self.counts.capacity as u64);
        writer.u64(self.counts.adaptations);
        writer.u64(self.counts.spent);
        writer.u64(self.counts.rebuilds);
        writer.u64(self.counts.kicks);
        let bytes: Vec<u8> = self.lines.iter().flat_map(|line| *line.bytes()).collect();
        writer.block(&bytes);
        writer.finish()
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        self.check_lines()?;
        self.check_against(remote)
    }
}
