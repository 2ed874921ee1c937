//! Whole filters: empty, from a file, from digests in order, larger.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::cells::{Line, Writing};
use super::fingerprint::{Epoch, Hash};
use super::growing::{Growing, Retired};
use super::lanes::Twin;
use super::shape::{Home, Shape};
use super::table::Table;
use super::{LineFilter, Params};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{DigestFilter as _, Stats};
use crate::format::{Reader, Writer};
use crate::make::{Build, Grow};
use crate::params::{MAX_BINS, Params as _, growth, too_small};
use crate::quotient::Layout;
use crate::remote::{EVERY_DIGEST, Ordered, strangers};

impl Build for LineFilter {
    type Params = Params;

    fn empty(params: Params, capacity: usize, bins: usize) -> Self {
        Self::of(Table::new(bins, Epoch::FIRST, params.lines()), params, capacity)
    }

    fn read(params: Params, mut reader: Reader<'_>) -> Result<Self> {
        let capacity = reader.size("the capacity")?;
        let rebuilds = reader.counter("the rebuilds")?;
        let table = Table::read(params.lines(), &mut reader)?;
        let mut filter = LineFilter { rebuilds, ..Self::of(table, params, capacity) };
        let larger = reader.size("the larger capacity")?;
        if larger > 0 {
            let table = Table::read(params.lines(), &mut reader)?;
            let frontier = Digest::new([reader.u64("the frontier")?, 0]);
            filter.growing = Some(Box::new(Growing::at(frontier, table, larger)));
        }
        reader.finish()?;
        filter.check_tables().map_err(Error::format)?;
        Ok(filter)
    }

    fn params(&self) -> Params {
        self.params
    }

    /// Groups that have not adapted, and those that have.
    fn states(&self) -> Vec<usize> {
        let groups = |table: &Table| {
            let states = table.lines.iter().map(|line| line.states().count_ones() as usize);
            (8 * (table.lines.len() - table.first), states.sum::<usize>())
        };
        let (all, adapted) = self
            .tables()
            .map(groups)
            .fold((0, 0), |sum, (all, adapted)| (sum.0 + all, sum.1 + adapted));
        alloc::vec![all - adapted, adapted]
    }
}

impl Grow for LineFilter {
    /// As if each line were a block of 64 slots.
    fn layout(&self) -> Option<Layout> {
        Some(Layout {
            start: self.table.lines.as_ptr().addr(),
            quotients: 64 * self.table.count,
            stride: size_of::<Line>(),
            slots: 0,
        })
    }

    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self> {
        let lines = self.params.bins_for(capacity)?;
        let grown = self.renewed(capacity, lines, None, remote)?;
        let fits = grown.filter(|grown| grown.len() <= capacity);
        fits.ok_or_else(|| too_small(&self.params, self.len(), capacity))
    }
}

impl Table {
    /// The numbers and the lines.
    pub(super) fn write(&self, writer: &mut Writer) {
        let Stats { len, adaptations, spent, kicks, .. } = self.counts;
        writer.u64(self.count as u64);
        writer.u64(self.first as u64);
        writer.u64(u64::from(self.epoch.byte()));
        writer.u64(len as u64);
        [adaptations, spent, kicks].into_iter().for_each(|count| writer.u64(count));
        let bytes: Vec<u8> = self.lines.iter().flat_map(|line| line.to_file(&self.shape)).collect();
        writer.block(&bytes);
    }

    /// What [`Table::write`] wrote.
    fn read(shape: Shape, reader: &mut Reader<'_>) -> Result<Self> {
        let count = reader.size("the number of lines")?;
        let first = reader.size("the number of emptied lines")?;
        let epoch = reader.u64("the epoch")?;
        let counts = Stats {
            len: reader.size("the number of keys")?,
            adaptations: reader.counter("the adaptations")?,
            spent: reader.counter("the spent lines")?,
            kicks: reader.counter("the moved keys")?,
            ..Stats::default()
        };
        let (chunks, rest) = reader.block("the lines")?.as_chunks::<64>();
        if count == 0 || count > MAX_BINS || chunks.len() > count || !rest.is_empty() {
            return Err(Error::format(format!("{} lines of {count}", chunks.len())));
        }
        let epoch = u8::try_from(epoch).ok().filter(|byte| byte % 2 == 0);
        let epoch = epoch.ok_or_else(|| Error::format("its epoch is none that there is"))?;
        let mut table =
            Table::unmade(count, Epoch::of(epoch), shape, Twin::for_this_machine(&shape));
        table.lines = chunks.iter().map(|bytes| Line::from_file(*bytes, &shape)).collect();
        table.first = first;
        table.counts = counts;
        table.count_adapted();
        Ok(table)
    }
}

impl LineFilter {
    fn of(table: Table, params: Params, capacity: usize) -> Self {
        LineFilter {
            table,
            growing: None,
            retired: Retired::default(),
            params,
            capacity,
            rebuilds: 0,
        }
    }

    /// A filter of digests that come in order, made several times as fast as by
    /// [`LineFilter::add`]. A digest that comes twice has to be deleted twice.
    ///
    /// ```
    /// use twiceshy_filters::line::LineFilter;
    /// use twiceshy_filters::{DigestFilter, KeyHasher};
    ///
    /// let hasher = KeyHasher::random();
    /// let mut digests: Vec<_> = (0..1000).map(|n| hasher.digest(format!("key {n}"))).collect();
    /// digests.sort_unstable();
    /// let filter = LineFilter::from_sorted(&"line".parse()?, 1000, digests)?;
    /// assert!(filter.contains(hasher.digest("key 7")));
    /// # Ok::<(), twiceshy_filters::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Spec`] as for [`LineFilter::new`], and when a digest comes before a smaller one;
    /// [`Error::Full`] hands back one that finds no room.
    pub fn from_sorted(
        params: &Params,
        capacity: usize,
        digests: impl IntoIterator<Item = Digest>,
    ) -> Result<Self> {
        let mut filter = Self::new(params, capacity)?;
        let mut last = Digest::new([0, 0]);
        let left = filter.table.fill(|push| {
            for digest in digests {
                if digest < last {
                    let reason = format!("{digest:?} comes behind {last:?}; sort the digests");
                    return Err(Error::spec(params.to_string(), reason));
                }
                push(digest);
                last = digest;
            }
            Ok(())
        })?;
        for digest in left {
            if !filter.table.add(digest) {
                return Err(Error::Full { digest, len: filter.len(), capacity });
            }
        }
        Ok(filter)
    }

    /// The filter of all keys of the remote, and perhaps one more, in so many lines with other
    /// hash functions; `None` if they do not fit.
    fn renewed(
        &self,
        capacity: usize,
        lines: usize,
        newcomer: Option<Digest>,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Self>> {
        let mut table = Table::new(lines, self.next_epoch(), self.table.shape);
        let left = table.fill(|push| remote.visit(EVERY_DIGEST, push).map_err(Error::Remote))?;
        let added = left.into_iter().chain(newcomer).all(|digest| table.add(digest));
        table.counts = Stats { len: table.counts.len, ..self.totals() };
        let rebuilds = self.rebuilds + 1;
        let filter = LineFilter { rebuilds, ..Self::of(table, self.params, capacity) };
        Ok(added.then_some(filter))
    }

    /// The hash functions of the next table.
    pub(super) fn next_epoch(&self) -> Epoch {
        self.table.epoch.another(self.rebuilds)
    }

    /// [`DigestFilter::rebuild`](crate::DigestFilter::rebuild).
    pub(super) fn rebuilt(&self, remote: &mut dyn Ordered) -> Result<Self> {
        let (lines, capacity) = match &self.growing {
            Some(growing) => (growing.table.count, growing.capacity),
            None => (self.table.count, self.capacity),
        };
        let rebuilt = self.renewed(capacity, lines, None, remote)?;
        rebuilt.ok_or_else(|| too_small(&self.params, self.len(), capacity))
    }

    /// A larger filter with one more key, which the remote does not have yet.
    pub(super) fn grown_for(&self, digest: Digest, remote: &mut dyn Ordered) -> Result<Self> {
        let Stats { len, capacity, .. } = self.stats();
        for size in growth(self.params, capacity.max(len), self.table.count) {
            let (larger, lines) = size?;
            if let Some(grown) = self.renewed(larger, lines, Some(digest), remote)? {
                if grown.len() > len + 1 {
                    return Err(Error::Remote(strangers(len, grown.len() - 1)));
                }
                return Ok(grown);
            }
        }
        Err(Error::Full { digest, len, capacity })
    }
}

impl Table {
    /// Fills the empty table with digests that come in order; returns those that find no room in
    /// their home line.
    fn fill(
        &mut self,
        source: impl FnOnce(&mut dyn FnMut(Digest)) -> Result<()>,
    ) -> Result<Vec<Digest>> {
        match self.shape.planes {
            1 => Filling::<1>::run(self, source),
            2 => Filling::<2>::run(self, source),
            3 => Filling::<3>::run(self, source),
            4 => Filling::<4>::run(self, source),
            _ => Filling::<8>::run(self, source),
        }
    }
}

/// Fills a table with digests that come in order: each line with those whose home it is, as long
/// as it has room.
struct Filling<'a, const K: usize> {
    lines: &'a mut [Line],
    epoch: Epoch,
    line: usize,
    len: usize,
    writing: Writing,
    /// Digests that found no room.
    left: Vec<Digest>,
}

impl<const K: usize> Filling<'_, K> {
    const SHAPE: Shape = Shape::with_planes::<K>();

    fn run(
        table: &mut Table,
        source: impl FnOnce(&mut dyn FnMut(Digest)) -> Result<()>,
    ) -> Result<Vec<Digest>> {
        let epoch = table.epoch;
        let mut filling = Filling::<K> {
            lines: &mut table.lines,
            epoch,
            line: 0,
            len: 0,
            writing: Writing::start(Self::SHAPE.buckets, 0, epoch),
            left: Vec::new(),
        };
        source(&mut |digest| filling.push(digest))?;
        filling.end_line();
        let (len, left) = (filling.len, filling.left);
        table.counts.len = len;
        Ok(left)
    }

    #[inline(always)]
    fn push(&mut self, digest: Digest) {
        let home = Home::of(digest.word(0), self.lines.len(), &Self::SHAPE);
        if self.line < home.line {
            self.end_line();
            self.line = home.line;
        }
        if self.writing.used() == Self::SHAPE.slots {
            self.left.push(digest);
            return;
        }
        let fingerprint = Hash::of(digest, self.epoch).select(0, &Self::SHAPE);
        self.writing.push(home.bucket as usize, fingerprint, &Self::SHAPE);
    }

    fn end_line(&mut self) {
        let empty = Writing::start(Self::SHAPE.buckets, 0, self.epoch);
        let writing = core::mem::replace(&mut self.writing, empty);
        self.len += writing.used();
        self.lines[self.line] = writing.finish(&Self::SHAPE);
    }
}
