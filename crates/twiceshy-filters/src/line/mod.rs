//! The line filter: adaptive, and one cache line per query.
//!
//! Our own design; `docs/line-filter.md` has the analysis. Digests are mapped, in order, to
//! buckets; 40 buckets have their home in each line of 64 bytes. A line holds a byte per key, the
//! *remainder*, a bit per key in each of its *planes*, and where the run of each bucket is.
//!
//! ```text
//! query     word 0 of the digest ─▶ line and bucket ─▶ run of the bucket
//!           word 1 ─▶ fingerprint ─▶ compare with all remainders of the line, keep the run's
//! full      a border bucket moves to the next line (*drift*); a query follows it there
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
//! | `table.rs` | lines and their keys: one table, or two while a filter grows |
//! | `growing.rs` | growth without a stop |
//! | `check.rs` | every invariant |
//! | `made.rs` | whole filters: from sorted digests, from files, larger, rebuilt |

mod adapt;
mod cells;
mod check;
mod drift;
mod fingerprint;
mod growing;
mod hot;
mod lanes;
mod made;
mod params;
mod shape;
mod table;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter, Stats, sealed::Sealed};
use crate::format::Writer;
use crate::make::{self, Grow as _};
use crate::params::{WhenFull, growth};
use crate::remote::{Ordered, stored};

use growing::{Growing, Retired};
use table::Table;

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
    table: Table,
    /// The larger table that keys are moving to.
    growing: Option<Box<Growing>>,
    retired: Retired,
    params: Params,
    capacity: usize,
    rebuilds: u64,
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
    #[inline]
    pub fn add(&mut self, digest: Digest) -> bool {
        self.table_of_mut(digest).add(digest)
    }

    /// Deletes a digest that was [added](LineFilter::add) without a remote; `false` when none
    /// looks like it. Deleting a digest that was never added may delete another key's
    /// fingerprint.
    #[inline]
    pub fn delete(&mut self, digest: Digest) -> bool {
        self.table_of_mut(digest).delete(digest)
    }

    /// Lines that a query for an absent key reads on average.
    #[must_use]
    pub fn lines_per_query(&self) -> f64 {
        let (mut buckets, mut steps) = (0, 0);
        for table in self.tables() {
            for line in table.first..table.lines.len() {
                let home = |bucket: usize| bucket / table.shape.buckets;
                buckets += table.buckets(line).len();
                steps +=
                    table.buckets(line).map(|bucket| home(bucket).abs_diff(line)).sum::<usize>();
            }
        }
        1.0 + steps as f64 / buckets as f64
    }

    /// Keys stored.
    fn len(&self) -> usize {
        self.tables().map(|table| table.counts.len).sum()
    }

    /// The table, or both while the filter grows.
    fn tables(&self) -> impl Iterator<Item = &Table> {
        core::iter::once(&self.table).chain(self.growing.as_ref().map(|growing| &growing.table))
    }

    /// Keys, and what happened to them, in all tables.
    fn totals(&self) -> Stats {
        self.tables().fold(Stats::default(), |sum, table| Stats {
            len: sum.len + table.counts.len,
            adaptations: sum.adaptations + table.counts.adaptations,
            spent: sum.spent + table.counts.spent,
            kicks: sum.kicks + table.counts.kicks,
            ..sum
        })
    }

    /// The table that has a digest, if it is stored.
    #[inline(always)]
    fn table_of(&self, digest: Digest) -> &Table {
        match &self.growing {
            Some(growing) if digest < growing.frontier => &growing.table,
            _ => &self.table,
        }
    }

    #[inline(always)]
    fn table_of_mut(&mut self, digest: Digest) -> &mut Table {
        match &mut self.growing {
            Some(growing) if digest < growing.frontier => &mut growing.table,
            _ => &mut self.table,
        }
    }

    /// Moves some keys to the larger table, if there is one, or begins one where the filter has
    /// the keys it was made for. What fails is done by a later insertion.
    fn grow_on(&mut self, remote: &mut dyn Ordered) {
        self.retired.release_some();
        if self.params.full != WhenFull::Grow {
            return;
        }
        if self.growing.is_none() {
            if self.len() < self.capacity {
                return;
            }
            let size = growth(self.params, self.capacity, self.table.count).next();
            let Some(Ok((capacity, lines))) = size else { return };
            let epoch = self.next_epoch();
            let growing = Growing::new(lines, capacity, epoch, &self.table);
            self.growing = Some(Box::new(growing));
            self.rebuilds += 1;
        }
        let Some(growing) = &mut self.growing else { return };
        let moved = growing.step(&mut self.table, remote);
        if matches!(moved, Ok(true)) && growing.is_done(&self.table) {
            let totals = self.totals();
            let growing = self.growing.take().expect("it was just there");
            let old = core::mem::replace(&mut self.table, growing.table);
            self.table.counts = Stats { len: self.table.counts.len, ..totals };
            self.capacity = growing.capacity;
            self.retired = Retired::new(old.lines);
        }
    }
}

impl Sealed for LineFilter {}

impl DigestFilter for LineFilter {
    type Remote = dyn Ordered;

    #[inline]
    fn contains(&self, digest: Digest) -> bool {
        self.table_of(digest).contains(digest)
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        self.table.contains_many(digests, found);
        if let Some(growing) = &self.growing {
            for (found, &digest) in found.iter_mut().zip(digests) {
                if digest < growing.frontier {
                    *found = growing.table.contains(digest);
                }
            }
        }
    }

    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        // While the line is on its way the remote has time.
        self.table_of(digest).prefetch(digest);
        remote.prepare(digest);
        if self.contains(digest) && stored(digest, remote)? {
            return Ok(false);
        }
        let table = self.table_of_mut(digest);
        let mut plan = table.plan_insertion(digest, Some(remote))?;
        if plan.is_none() && table.drop_copies(digest, remote)? {
            plan = table.plan_insertion(digest, Some(remote))?;
        }
        if let Some(plan) = plan {
            remote.insert(digest).map_err(Error::Remote)?;
            table.put(digest, plan);
            table.counts.len += 1;
            self.grow_on(remote);
            return Ok(true);
        }
        if self.params.full != WhenFull::Grow {
            return Err(Error::Full { digest, len: self.len(), capacity: self.capacity });
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
        let table = self.table_of_mut(digest);
        let bucket = table.find(digest);
        let of_bucket = table.plan_removal(bucket, digest, remote)?;
        if !remote.remove(digest).map_err(Error::Remote)? {
            return Ok(false);
        }
        match of_bucket {
            Some(digests) => table.take(bucket, digest, digests),
            None => {
                table.delete(digest);
            }
        }
        Ok(true)
    }

    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted> {
        if !self.contains(digest) {
            return Ok(Adapted::Absent);
        }
        let table = self.table_of_mut(digest);
        let number = table.home(digest).number(&table.shape);
        let read = table.digests(number..number + 1, remote)?;
        if read.contains(&digest) {
            return Ok(Adapted::Stored);
        }
        table.fix(table.find(digest), digest, &read, remote)
    }

    /// The digests of its bucket: all that can make it a false positive.
    fn range(&self, digest: Digest) -> RangeInclusive<Digest> {
        let table = self.table_of(digest);
        let bucket = table.home(digest).number(&table.shape);
        table.range(bucket..bucket + 1)
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
        let slots = |table: &Table| (table.lines.len() - table.first) * table.shape.slots;
        Stats {
            capacity: self.growing.as_ref().map_or(self.capacity, |growing| growing.capacity),
            cells: self.tables().map(slots).sum(),
            bits: self.tables().map(Table::bits).sum::<usize>()
                + self.retired.bits()
                + self.growing.as_ref().map_or(0, |_| 8 * size_of::<Growing>()),
            rebuilds: self.rebuilds,
            ..self.totals()
        }
    }

    fn description(&self) -> String {
        self.params.to_string()
    }

    fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(&self.params.to_string());
        writer.u64(self.capacity as u64);
        writer.u64(self.rebuilds);
        self.table.write(&mut writer);
        match &self.growing {
            None => writer.u64(0),
            Some(growing) => {
                writer.u64(growing.capacity as u64);
                growing.table.write(&mut writer);
                writer.u64(growing.frontier.word(0));
            }
        }
        writer.finish()
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        self.check_tables()?;
        self.check_against(remote)
    }
}
