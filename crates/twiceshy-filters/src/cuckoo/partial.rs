//! Partial-key cuckoo filters: a fingerprint and its bin determine the other bin, so moving it
//! needs no remote.
//!
//! A [`Pairing`] says which two bins a fingerprint has: the original filter is [`super::plain`],
//! the simplified one [`super::simplified`]. Two keys with the same fingerprint in the same bin
//! take two cells, so that removing one never denies the other.
//!
//! The remote is the bare set of stored digests. It is read before a removal, because removing
//! the fingerprint of an absent key would deny another, and when the filter is rebuilt.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter, Stats, sealed::Sealed};
use crate::format::{FIRST_VERSION, Reader};
use crate::make::{self, Build, Grow};
use crate::params::{
    MAX_BINS, MAX_REBUILDS, Params as _, REBUILDS_PER_GROWTH, WhenFull, growth, too_small,
};
use crate::remote::{EVERY_DIGEST, Ordered, stored};
use crate::rng::Rng;
use crate::steps;

use super::futile::Futile;
use super::header::{Header, save};
use super::params::Cuckoo;
use super::stash::Stash;
use super::table::{EMPTY, Form, Shape, Table};
use crate::batch::{Probes, probe_in_ring};

mod moves;

/// Which two bins a digest's fingerprint may sit in.
pub trait Pairing: Copy {
    /// Whether fingerprints that find no cell may go to a stash.
    const STASHES: bool;

    /// What a filter with this pairing is made from.
    type Params: Cuckoo;

    /// The pairing of these parameters and a number of bins.
    fn new(params: &Self::Params, bins: usize) -> Self;

    /// Entries of a subtable's stash.
    fn stash(_: &Self::Params) -> u32 {
        0
    }

    /// A digest's first bin and its fingerprint, which is never zero.
    fn home(&self, digest: Digest) -> (usize, u64);

    /// The other bin of a fingerprint; its other bin is `bin` again.
    fn other(&self, bin: usize, fingerprint: u64) -> usize;
}

/// A partial-key cuckoo filter, with an [`Ordered`] remote.
#[derive(Clone)]
pub struct PartialKey<P: Pairing> {
    pairing: P,
    table: Table,
    stash: Stash,
    rng: Rng,
    params: P::Params,
    seed: u64,
    counts: Stats,
    futile: Futile,
}

/// A digest's fingerprint and its two bins.
#[derive(Clone, Copy)]
struct Homes {
    fingerprint: u64,
    bins: [usize; 2],
}

/// A filter that answers a batch, and the form of its table.
struct Asked<'a, P: Pairing> {
    filter: &'a PartialKey<P>,
    form: Form,
}

impl<P: Pairing> Probes for Asked<'_, P> {
    type Probe = Homes;

    #[inline(always)]
    fn locate(&self, digest: Digest) -> Homes {
        self.filter.homes(digest)
    }

    #[inline(always)]
    fn prefetch(&self, homes: &Homes) {
        self.filter.table.prefetch_both(self.form, homes.bins);
    }

    #[inline(always)]
    fn test(&self, homes: &Homes) -> bool {
        self.filter.holds(self.form, homes)
    }
}

impl<P: Pairing> PartialKey<P> {
    /// An empty filter for `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    pub fn new(params: &P::Params, capacity: usize) -> Result<Self> {
        make::new(params, capacity)
    }

    /// The filter that [`DigestFilter::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are not such a filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        make::load(bytes)
    }

    fn with_table(params: P::Params, table: Table, capacity: usize) -> Self {
        let bins = table.shape.bins;
        PartialKey {
            pairing: P::new(&params, bins),
            table,
            stash: Stash::new(P::stash(&params), params.cells().f, bins),
            rng: Rng::new(0),
            params,
            seed: 0,
            counts: Stats { capacity, ..Stats::default() },
            futile: Futile::default(),
        }
    }

    #[inline(always)]
    fn homes(&self, digest: Digest) -> Homes {
        let (bin, fingerprint) = self.pairing.home(digest.rehashed(self.seed));
        Homes { fingerprint, bins: [bin, self.pairing.other(bin, fingerprint)] }
    }

    /// Whether the filter holds such a fingerprint; `form` is the table's.
    #[inline(always)]
    fn holds(&self, form: Form, homes: &Homes) -> bool {
        self.table.either_holds(form, homes.bins, homes.fingerprint)
            || P::STASHES && self.stash.holds(homes.bins, homes.fingerprint)
    }

    /// A query of bins that are not whole bytes. Out of line, and with plain words as arguments,
    /// so that the other forms keep their query in registers.
    #[cold]
    #[inline(never)]
    fn contains_in_odd_bins(&self, first: u64, second: u64) -> bool {
        self.holds(self.table.form(), &self.homes(Digest::new([first, second])))
    }

    /// Answers every digest in a table of that form.
    #[inline(always)]
    fn answer(&self, form: Form, digests: &[Digest], found: &mut [bool]) {
        probe_in_ring(digests, found, &Asked { filter: self, form });
    }

    /// A cell of the two bins that holds the fingerprint.
    fn find(&self, homes: Homes) -> Option<usize> {
        homes.bins.into_iter().find_map(|bin| self.table.find(bin, homes.fingerprint))
    }

    /// Adds a digest's fingerprint without a remote. A digest added twice has to be deleted
    /// twice. `false`, and nothing has changed, when there is no room.
    ///
    /// Use a filter either with a remote or without. [`DigestFilter::grow`] and
    /// [`DigestFilter::rebuild`] know only the remote's keys, and forget those added here.
    #[inline]
    pub fn add(&mut self, digest: Digest) -> bool {
        let Homes { fingerprint, bins } = self.homes(digest);
        // A constant in each arm.
        let filled = match self.table.form() {
            Form::FourU8 => self.table.fill(Form::FourU8, bins, fingerprint),
            Form::FourU16 => self.table.fill(Form::FourU16, bins, fingerprint),
            form => self.table.fill(form, bins, fingerprint),
        };
        let added = filled || self.add_elsewhere(fingerprint, bins[0], bins[1]);
        self.counts.len += usize::from(added);
        added
    }

    /// Adds a digest that is not stored to filter and remote; `false` when there is no
    /// room.
    #[inline]
    fn add_to_both(&mut self, digest: Digest, remote: &mut dyn Ordered) -> Result<bool> {
        if !self.add(digest) {
            return Ok(false);
        }
        if let Err(error) = remote.insert(digest) {
            self.delete(digest);
            return Err(Error::Remote(error));
        }
        Ok(true)
    }

    /// Adds a fingerprint where the emptier of its bins has no room, or the bins are not whole
    /// bytes. With plain words as arguments, so that other insertions stay in registers.
    #[cold]
    #[inline(never)]
    fn add_elsewhere(&mut self, fingerprint: u64, bin: usize, other: usize) -> bool {
        let homes = Homes { fingerprint, bins: [bin, other] };
        let empty = self.table.emptiest_cell(homes.bins.into_iter());
        match empty.or_else(|| self.make_room(homes)) {
            Some(cell) => self.table.set(cell, fingerprint),
            None => return self.stash.push(homes.bins, fingerprint),
        }
        true
    }

    /// Removes one fingerprint equal to the digest's, without a remote. The digest must have
    /// been added: deleting another may deny a stored key. `false` when there is no such
    /// fingerprint.
    pub fn delete(&mut self, digest: Digest) -> bool {
        let homes = self.homes(digest);
        if let Some(cell) = self.find(homes) {
            // A stashed fingerprint that belongs here moves in.
            let waiting = self.stash.pop_for(self.table.shape.bin_of(cell)).unwrap_or(EMPTY);
            self.table.set(cell, waiting);
        } else if !self.stash.remove(homes.bins, homes.fingerprint) {
            return false;
        }
        self.counts.len -= 1;
        true
    }

    /// A filter of all digests of the remote and `extra`, with other hash
    /// functions and this many bins; `None` when they do not fit after so many attempts.
    fn renewed(
        &self,
        capacity: usize,
        bins: usize,
        extra: Option<Digest>,
        attempts: u64,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Self>> {
        for attempt in 1..=attempts {
            let mut fresh = Self::empty(self.params, capacity, bins);
            fresh.seed = self.seed.wrapping_add(attempt);
            fresh.rng = self.rng.clone();
            let mut all_added = extra.is_none_or(|digest| fresh.add(digest));
            remote
                .visit(EVERY_DIGEST, &mut |digest| all_added = all_added && fresh.add(digest))
                .map_err(Error::Remote)?;
            if all_added {
                fresh.counts.adaptations = self.counts.adaptations;
                fresh.counts.rebuilds = self.counts.rebuilds + 1;
                fresh.counts.kicks += self.counts.kicks;
                return Ok(Some(fresh));
            }
        }
        Ok(None)
    }
}

impl<P: Pairing> Build for PartialKey<P> {
    type Params = P::Params;

    fn empty(params: P::Params, capacity: usize, bins: usize) -> Self {
        let shape = Shape { tables: 1, bins, slots: params.cells().b };
        Self::with_table(params, Table::new(shape, params.cell_bits()), capacity)
    }

    fn read(params: P::Params, mut reader: Reader<'_>) -> Result<Self> {
        let header = Header::read(&mut reader)?;
        let bytes = reader.block("the cells")?;
        let shape = Shape { tables: 1, bins: header.bins, slots: params.cells().b };
        let possible = 1..=MAX_BINS;
        if !possible.contains(&header.bins) || params.whole_bins(header.bins) != header.bins {
            return Err(Error::format(format!("{} bins are not those of {params}", header.bins)));
        }
        let table = header.table(&params, shape, bytes)?;
        let mut filter = Self::with_table(params, table, 0);
        filter.stash.read(&mut reader)?;
        reader.finish()?;
        filter.seed = header.seed;
        filter.rng = header.rng;
        filter.counts = header.counts;
        let held = filter.table.occupied().count() + filter.stash.len();
        if held != filter.counts.len {
            return Err(Error::format("its number of keys is not that of its fingerprints"));
        }
        Ok(filter)
    }

    fn params(&self) -> P::Params {
        self.params
    }
}

impl<P: Pairing> Grow for PartialKey<P> {
    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self> {
        let bins = self.params.bins_for(capacity)?;
        let renewed = self.renewed(capacity, bins, None, MAX_REBUILDS, remote)?;
        steps::fitting(self, renewed, capacity)
    }
}

impl<P: Pairing> Sealed for PartialKey<P> {}

impl<P: Pairing> DigestFilter for PartialKey<P> {
    type Remote = dyn Ordered;

    #[inline(always)]
    fn contains(&self, digest: Digest) -> bool {
        // A constant in each arm, so that each has a loop of its own.
        match self.table.form() {
            Form::FourU8 => self.holds(Form::FourU8, &self.homes(digest)),
            Form::FourU16 => self.holds(Form::FourU16, &self.homes(digest)),
            Form::Words(lanes) => self.holds(Form::Words(lanes), &self.homes(digest)),
            Form::OddWords(_) | Form::Cells => {
                let [first, second] = digest.words();
                self.contains_in_odd_bins(first, second)
            }
        }
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        // Likewise.
        match self.table.form() {
            Form::FourU8 => self.answer(Form::FourU8, digests, found),
            Form::FourU16 => self.answer(Form::FourU16, digests, found),
            Form::Words(lanes) => self.answer(Form::Words(lanes), digests, found),
            Form::OddWords(lanes) => self.answer(Form::OddWords(lanes), digests, found),
            Form::Cells => self.answer(Form::Cells, digests, found),
        }
    }

    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        if self.contains(digest) && stored(digest, remote)? {
            return Ok(false);
        }
        let Stats { len, capacity, .. } = self.counts;
        let full = self.params.cells().full;
        let futile = self.futile.applies(len, full);
        let grows_now = !futile && len >= full.most_keys(capacity, usize::MAX);
        if !grows_now && self.add_to_both(digest, remote)? {
            return Ok(true);
        }
        let bins = self.table.shape.bins;
        let renewed = match full {
            WhenFull::Error => None,
            _ if futile => None,
            WhenFull::Rebuild if len >= capacity => None,
            WhenFull::Rebuild => {
                self.renewed(capacity, bins, Some(digest), MAX_REBUILDS, remote)?
            }
            WhenFull::Grow => {
                let mut sizes = growth(self.params, capacity.max(len), bins);
                sizes.try_fold(None, |renewed, size| {
                    if renewed.is_some() {
                        return Ok(renewed);
                    }
                    let ((larger, more_bins), attempts) = (size?, REBUILDS_PER_GROWTH);
                    self.renewed(larger, more_bins, Some(digest), attempts, remote)
                })?
            }
        };
        let Some(renewed) = renewed else {
            if !futile {
                self.futile.note(len);
            }
            // A filter that cannot grow may still have a free cell.
            if grows_now && self.add_to_both(digest, remote)? {
                return Ok(true);
            }
            return Err(Error::Full { digest, len, capacity });
        };
        steps::insert_renewed(self, renewed, digest, remote)
    }

    fn remove(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        steps::remove(self, digest, remote, Self::delete)
    }

    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted> {
        steps::adapt(self, digest, remote)
    }

    fn grow(&mut self, capacity: usize, remote: &mut Self::Remote) -> Result<()> {
        *self = self.grown(capacity, remote)?;
        Ok(())
    }

    fn rebuild(&mut self, remote: &mut Self::Remote) -> Result<()> {
        let Stats { len, capacity, .. } = self.counts;
        let renewed = self.renewed(capacity, self.table.shape.bins, None, MAX_REBUILDS, remote)?;
        *self = renewed.ok_or_else(|| too_small(&self.params, len, capacity))?;
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats {
            cells: self.table.shape.cells(),
            stashed: self.stash.len(),
            bits: self.table.bits() + self.stash.bits(),
            ..self.counts
        }
    }

    fn description(&self) -> String {
        self.params.to_string()
    }

    fn save(&self) -> Vec<u8> {
        let (params, table) = (&self.params, &self.table);
        let mut writer = save(params, FIRST_VERSION, table, self.seed, &self.rng, &self.counts);
        self.stash.write(&mut writer);
        writer.finish()
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        let held = self.table.occupied().count() + self.stash.len();
        if held != self.counts.len {
            return Err(format!("{held} fingerprints for {} keys", self.counts.len));
        }
        // Deleting every stored digest from a copy must leave it empty.
        let mut copy = self.clone();
        let mut stray = None;
        remote
            .visit(EVERY_DIGEST, &mut |digest| {
                if !self.contains(digest) || !copy.delete(digest) {
                    stray.get_or_insert(digest);
                }
            })
            .map_err(|error| error.to_string())?;
        if let Some(digest) = stray {
            return Err(format!("{digest:?} is stored and has no fingerprint of its own"));
        }
        if copy.counts.len != 0 {
            return Err(format!("{} fingerprints belong to no stored key", copy.counts.len));
        }
        self.stash.check()
    }
}
