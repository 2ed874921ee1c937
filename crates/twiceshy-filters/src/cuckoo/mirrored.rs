//! The general adaptive cuckoo filter, over any rule for what a cell stores.
//!
//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo
//! Filters", sections 2.1 and 2.2. A key has one bin in each of `k` tables,
//! from real hashes of the key (not from its fingerprint), so moving it needs
//! the remote: a [`Mirror`] that knows which digest sits in which cell.
//!
//! A [`Rule`] decides which value a digest leaves in a cell and what changes after a false
//! positive. The variants are its implementations: [`super::plain_full::PlainFull`] (never
//! adapts), [`super::cyclic::Cyclic`], [`super::swapping::Swapping`] and
//! [`super::cuckooing::Cuckooing`].
//!
//! Every change is planned with reads alone, then written to the mirror in one call, then made
//! in the filter: a failure at any point changes nothing.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::any::Outlook;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter, Stats, sealed::Sealed};
use crate::format::Reader;
use crate::make::{self, Build};
use crate::params::{MAX_REBUILDS, Params as _, REBUILDS_PER_GROWTH, WhenFull, growth, too_small};
use crate::remote::{MemoryMirror, Mirror, Write};
use crate::rng::Rng;

use super::futile::Futile;
use super::hashes::Hashes;
use super::header::{Header, save};
use super::params::{Cells, Cuckoo};
use super::table::{EMPTY, Shape, Table};
use crate::batch::{Probes, in_batches, probe_in_ring};

mod moves;
mod outlook;
mod rule;
#[cfg(test)]
mod tests;

pub use rule::Rule;

/// A cuckoo filter with real hashes of the key and a [`Mirror`] as its remote.
#[derive(Clone)]
pub struct Mirrored<R: Rule> {
    pub(crate) rule: R,
    pub(crate) table: Table,
    pub(crate) rng: Rng,
    params: R::Params,
    pub(super) seed: u64,
    counts: Stats,
    futile: Futile,
}

/// A digest's bin in every table.
#[derive(Clone, Copy)]
pub(super) struct Probe<const TABLES: usize> {
    pub(super) hashes: Hashes,
    pub(super) bins: [usize; TABLES],
}

/// Queries for a number of tables known at compile time.
struct Located<'a, R: Rule, const TABLES: usize>(&'a Mirrored<R>);

impl<R: Rule, const TABLES: usize> Probes for Located<'_, R, TABLES> {
    type Probe = Probe<TABLES>;

    #[inline(always)]
    fn locate(&self, digest: Digest) -> Probe<TABLES> {
        self.0.locate(digest)
    }

    #[inline(always)]
    fn prefetch(&self, probe: &Probe<TABLES>) {
        probe.bins.iter().for_each(|&bin| self.0.table.prefetch(bin));
    }

    #[inline(always)]
    fn test(&self, probe: &Probe<TABLES>) -> bool {
        self.0.test(probe)
    }
}

impl<R: Rule> Mirrored<R> {
    /// An empty filter for `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    pub fn new(params: &R::Params, capacity: usize) -> Result<Self> {
        make::new(params, capacity)
    }

    /// The filter that [`DigestFilter::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are not such a filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        make::load(bytes)
    }

    fn with_table(params: R::Params, table: Table, capacity: usize) -> Self {
        let counts = Stats { capacity, ..Stats::default() };
        let rule = R::new(&params);
        let (rng, futile) = (Rng::new(0), Futile::default());
        Mirrored { rule, table, rng, params, seed: 0, counts, futile }
    }

    #[inline]
    pub(crate) fn hashes(&self, digest: Digest) -> Hashes {
        Hashes::new(digest, self.seed, self.table.shape.tables)
    }

    /// A digest's bin in a table.
    #[inline]
    pub(crate) fn bin(&self, hashes: Hashes, table: u32) -> usize {
        hashes.bin(table, &self.table.shape)
    }

    /// A digest's bins in all tables.
    fn bins(&self, hashes: Hashes) -> impl Iterator<Item = usize> {
        (0..self.table.shape.tables).map(move |table| self.bin(hashes, table))
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len
    }

    /// Whether a cell's value may be what the digest left there.
    pub(crate) fn holds(&self, cell: usize, hashes: Hashes) -> bool {
        self.rule.holds(self.table.get(cell), hashes, self.table.shape.place(cell))
    }

    /// Where a digest would be. The number of tables is known at compile time, so that each bin
    /// takes constant shifts.
    #[inline(always)]
    pub(super) fn locate<const TABLES: usize>(&self, digest: Digest) -> Probe<TABLES> {
        let hashes = Hashes::new(digest, self.seed, TABLES as u32);
        let bins = core::array::from_fn(|table| hashes.bin(table as u32, &self.table.shape));
        Probe { hashes, bins }
    }

    #[inline(always)]
    pub(super) fn test<const TABLES: usize>(&self, probe: &Probe<TABLES>) -> bool {
        // Out of line, so that a query of bins that are words is short enough to be inlined into
        // its caller's loop.
        let Some(lanes) = self.table.lanes() else { return self.test_any(probe.hashes) };
        let patterns = self.rule.patterns::<TABLES>(probe.hashes, lanes);
        let mut hit = false;
        for (table, (&bin, pattern)) in probe.bins.iter().zip(patterns).enumerate() {
            hit |= self.rule.in_bin(&self.table, probe.hashes, table as u32, bin, pattern);
        }
        hit
    }

    #[inline(always)]
    pub(super) fn test_many<const TABLES: usize>(&self, digests: &[Digest], found: &mut [bool]) {
        probe_in_ring(digests, found, &Located::<R, TABLES>(self));
    }

    /// The query for any number of tables and any bins.
    #[inline(never)]
    pub(super) fn test_any(&self, hashes: Hashes) -> bool {
        (0..self.table.shape.tables).any(|table| {
            let pattern =
                self.table.lanes().map_or(0, |lanes| self.rule.pattern(hashes, table, lanes));
            self.rule.in_bin(&self.table, hashes, table, self.bin(hashes, table), pattern)
        })
    }

    /// The cells that answer "maybe" for this digest.
    fn matching(&self, digest: Digest) -> Vec<usize> {
        if !self.contains(digest) {
            return Vec::new();
        }
        let hashes = self.hashes(digest);
        self.bins(hashes)
            .flat_map(|bin| self.table.shape.cells_of(bin))
            .filter(|&cell| self.holds(cell, hashes))
            .collect()
    }

    /// The cell that holds exactly this digest.
    fn find(&self, digest: Digest, remote: &mut dyn Mirror) -> Result<Option<usize>> {
        for cell in self.matching(digest) {
            if remote.get(cell).map_err(Error::Remote)? == Some(digest) {
                return Ok(Some(cell));
            }
        }
        Ok(None)
    }

    /// Puts digests into cells or empties cells, in the mirror and then here,
    /// and counts `kicks`.
    #[inline]
    pub(crate) fn write(
        &mut self,
        writes: &[Write],
        kicks: usize,
        remote: &mut dyn Mirror,
    ) -> Result<()> {
        remote.put(writes).map_err(Error::Remote)?;
        for &(cell, content) in writes {
            let value = content.map_or(EMPTY, |digest| {
                self.rule.arrival(self.hashes(digest), self.table.shape.place(cell))
            });
            self.table.set(cell, value);
        }
        self.counts.kicks += kicks as u64;
        Ok(())
    }

    /// An empty cell of the emptiest of a digest's bins. Common numbers of tables are known at
    /// compile time.
    #[inline(always)]
    fn empty_for(&self, digest: Digest) -> Option<usize> {
        match self.table.shape.tables {
            2 => self.table.emptiest_cell(self.locate::<2>(digest).bins.into_iter()),
            4 => self.table.emptiest_cell(self.locate::<4>(digest).bins.into_iter()),
            _ => self.table.emptiest_cell(self.bins(self.hashes(digest))),
        }
    }

    /// Puts a digest that is not stored into a cell, moving others out of its
    /// way; `false` when no way was found.
    fn place(&mut self, digest: Digest, remote: &mut dyn Mirror) -> Result<bool> {
        if let Some(cell) = self.empty_for(digest) {
            self.write(&[(cell, Some(digest))], 0, remote)?;
        } else {
            let Some(writes) = self.make_room(digest, remote)? else {
                return Ok(false);
            };
            self.write(&writes, writes.len() - 1, remote)?;
        }
        self.counts.len += 1;
        Ok(true)
    }

    /// Rebuilds the filter from its remote, with `extra` as one more key, other hash functions
    /// and this many bins per table. `false`, and nothing has changed, when the keys do not fit
    /// after so many attempts.
    ///
    /// A mirror that has a digest twice, which no filter writes, has it once afterwards.
    fn renew(
        &mut self,
        capacity: usize,
        bins: usize,
        extra: Option<Digest>,
        attempts: u64,
        remote: &mut dyn Mirror,
    ) -> Result<bool> {
        let mut digests = Vec::with_capacity(self.counts.len + 1);
        digests.extend(extra);
        remote.visit(&mut |digest| digests.push(digest)).map_err(Error::Remote)?;
        for attempt in 1..=attempts {
            let mut fresh = Self::empty(self.params, capacity, bins);
            if fresh.table.shape.cells() < digests.len() {
                return Ok(false);
            }
            fresh.seed = self.seed.wrapping_add(attempt);
            fresh.rng = self.rng.clone();
            let mut layout = MemoryMirror::new(fresh.table.shape.cells());
            let mut all_placed = true;
            for &digest in &digests {
                if all_placed && fresh.find(digest, &mut layout)?.is_none() {
                    all_placed = fresh.place(digest, &mut layout)?;
                }
            }
            if all_placed {
                remote.replace(layout).map_err(Error::Remote)?;
                fresh.counts.adaptations = self.counts.adaptations;
                fresh.counts.rebuilds = self.counts.rebuilds + 1;
                fresh.counts.kicks += self.counts.kicks;
                *self = fresh;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Rebuilds the filter at its size. `false`, and nothing has changed, when the keys do not
    /// fit with any of the hash functions tried.
    pub(crate) fn rehash(&mut self, remote: &mut dyn Mirror) -> Result<bool> {
        let (capacity, bins) = (self.counts.capacity, self.table.shape.bins);
        self.renew(capacity, bins, None, MAX_REBUILDS, remote)
    }
}

impl<R: Rule> Build for Mirrored<R> {
    type Params = R::Params;

    fn empty(params: R::Params, capacity: usize, bins: usize) -> Self {
        let Cells { k, b, .. } = *params.cells();
        let table = Table::new(Shape { tables: k, bins, slots: b }, params.cell_bits());
        Self::with_table(params, table, capacity)
    }

    fn read(params: R::Params, mut reader: Reader<'_>) -> Result<Self> {
        let (version, header) = (reader.version(), Header::read(&mut reader)?);
        let bytes = reader.block("the cells")?;
        reader.finish()?;
        let Cells { k, b, .. } = *params.cells();
        let shape = Shape { tables: k, bins: header.bins, slots: b };
        let table = header.table(&params, shape, bytes)?;
        let mut filter = Self::with_table(params, table, 0);
        filter.rule = R::of_version(&params, version);
        filter.seed = header.seed;
        filter.rng = header.rng;
        filter.counts = header.counts;
        if filter.table.occupied().count() != filter.counts.len {
            return Err(Error::format("its number of keys is not that of its occupied cells"));
        }
        Ok(filter)
    }

    fn params(&self) -> R::Params {
        self.params
    }

    fn states(&self) -> Vec<usize> {
        R::states(self)
    }

    fn outlook(&self, remote: &mut Self::Remote) -> Result<Option<Outlook>> {
        self.look_ahead(remote)
    }
}

impl<R: Rule> Sealed for Mirrored<R> {}

impl<R: Rule> DigestFilter for Mirrored<R> {
    type Remote = dyn Mirror;

    #[inline(always)]
    fn contains(&self, digest: Digest) -> bool {
        match self.table.shape.tables {
            2 => self.test_two(&self.locate(digest)),
            4 => self.test(&self.locate::<4>(digest)),
            _ => self.test_any(self.hashes(digest)),
        }
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        match self.table.shape.tables {
            2 => self.test_two_many(digests, found),
            4 => self.test_many::<4>(digests, found),
            _ => in_batches(
                digests,
                found,
                |digest| digest,
                |&digest| self.bins(self.hashes(digest)).for_each(|bin| self.table.prefetch(bin)),
                |&digest| self.test_any(self.hashes(digest)),
            ),
        }
    }

    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        // Its record will be in one of two places. The mirror prefetches them before the filter
        // is read, so that the two waits overlap. With four places the wasted prefetches cost as
        // much as they save.
        if self.table.shape.tables == 2 {
            for bin in self.locate::<2>(digest).bins {
                remote.prefetch(self.table.shape.cells_of(bin).start);
            }
        }
        if self.find(digest, remote)?.is_some() {
            return Ok(false);
        }
        let Stats { len, capacity, .. } = self.counts;
        let full = self.params.cells().full;
        let futile = self.futile.applies(len, full);
        let grows_now = !futile && len >= full.most_keys(capacity, usize::MAX);
        if !grows_now && self.place(digest, remote)? {
            return Ok(true);
        }
        let bins = self.table.shape.bins;
        let renewed = match full {
            WhenFull::Error => false,
            _ if futile => false,
            WhenFull::Rebuild if len >= capacity => false,
            WhenFull::Rebuild => self.renew(capacity, bins, Some(digest), MAX_REBUILDS, remote)?,
            WhenFull::Grow => {
                let mut sizes = growth(self.params, capacity.max(len), bins);
                sizes.try_fold(false, |renewed, size| {
                    if renewed {
                        return Ok(renewed);
                    }
                    let ((larger, more_bins), attempts) = (size?, REBUILDS_PER_GROWTH);
                    self.renew(larger, more_bins, Some(digest), attempts, remote)
                })?
            }
        };
        if renewed {
            return Ok(true);
        }
        if !futile {
            self.futile.note(len);
        }
        // A filter that cannot grow may still have a free cell.
        if grows_now && self.place(digest, remote)? {
            return Ok(true);
        }
        Err(Error::Full { digest, len, capacity })
    }

    fn remove(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        let Some(cell) = self.find(digest, remote)? else { return Ok(false) };
        self.write(&[(cell, None)], 0, remote)?;
        self.counts.len -= 1;
        Ok(true)
    }

    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted> {
        let (mut colliding, mut orphans) = (Vec::new(), Vec::new());
        for cell in self.matching(digest) {
            match remote.get(cell).map_err(Error::Remote)? {
                Some(occupant) if occupant == digest => return Ok(Adapted::Stored),
                Some(occupant) => colliding.push((cell, occupant)),
                None => orphans.push(cell),
            }
        }
        if colliding.is_empty() && orphans.is_empty() {
            return Ok(Adapted::Absent);
        }
        // These belong to no key: a crash between filter and remote left them.
        for &cell in &orphans {
            self.table.set(cell, EMPTY);
        }
        self.counts.len -= orphans.len();
        if !colliding.is_empty() {
            R::fix(self, digest, &colliding, remote)?;
        }
        if self.contains(digest) {
            return Ok(Adapted::Unfixed);
        }
        self.counts.adaptations += 1;
        Ok(Adapted::Fixed)
    }

    fn grow(&mut self, capacity: usize, remote: &mut Self::Remote) -> Result<()> {
        let bins = self.params.bins_for(capacity)?;
        if capacity >= self.counts.len && self.renew(capacity, bins, None, MAX_REBUILDS, remote)? {
            return Ok(());
        }
        Err(too_small(&self.params, self.counts.len, capacity))
    }

    fn rebuild(&mut self, remote: &mut Self::Remote) -> Result<()> {
        if self.rehash(remote)? {
            return Ok(());
        }
        Err(too_small(&self.params, self.counts.len, self.counts.capacity))
    }

    fn stats(&self) -> Stats {
        Stats { cells: self.table.shape.cells(), bits: self.table.bits(), ..self.counts }
    }

    fn description(&self) -> String {
        self.params.to_string()
    }

    fn save(&self) -> Vec<u8> {
        let (params, version) = (&self.params, self.rule.version());
        save(params, version, &self.table, self.seed, &self.rng, &self.counts).finish()
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        let mut seen = BTreeSet::new();
        for cell in 0..self.table.shape.cells() {
            let content = remote.get(cell).map_err(|error| error.to_string())?;
            if content.is_some() == self.table.is_empty(cell) {
                return Err(format!("cell {cell} is empty in one of filter and mirror"));
            }
            let Some(digest) = content else { continue };
            let hashes = self.hashes(digest);
            let place = self.table.shape.place(cell);
            if self.bin(hashes, place.table) != self.table.shape.bin_of(cell) {
                return Err(format!("{digest:?} does not belong in cell {cell}"));
            }
            if !self.holds(cell, hashes) {
                return Err(format!("cell {cell} does not hold what {digest:?} left there"));
            }
            if !self.contains(digest) {
                return Err(format!("{digest:?} in cell {cell} is answered \"absent\""));
            }
            if !seen.insert(digest) {
                return Err(format!("{digest:?} is stored twice"));
            }
        }
        if seen.len() != self.counts.len {
            return Err(format!("{} cells are occupied by {} keys", seen.len(), self.counts.len));
        }
        Ok(())
    }
}
