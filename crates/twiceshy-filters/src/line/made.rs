//! Whole filters: empty, from a file, from digests in order, larger.

use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

use super::cells::{Line, Writing};
use super::fingerprint::{Epoch, Hash};
use super::hot::find;
use super::lanes::{Portable, Twin};
use super::shape::{Home, MOST_SLOTS, Shape};
use super::{LineFilter, Params};
use crate::bits::pages::filled;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::Stats;
use crate::format::Reader;
use crate::make::{Build, Grow};
use crate::params::{MAX_BINS, Params as _, growth, too_small};
use crate::quotient::Layout;
use crate::remote::{EVERY_DIGEST, Ordered, strangers};

impl Build for LineFilter {
    type Params = Params;

    fn empty(params: Params, capacity: usize, bins: usize) -> Self {
        let shape = params.lines();
        LineFilter {
            lines: filled(Line::empty(&shape), bins),
            twin: Twin::for_this_machine(&shape),
            shape,
            params,
            departed: Default::default(),
            counts: Stats { capacity, ..Stats::default() },
            adapted: 0,
        }
    }

    fn read(params: Params, mut reader: Reader<'_>) -> Result<Self> {
        let lines = reader.size("the number of lines")?;
        let counts = Stats {
            len: reader.size("the number of keys")?,
            capacity: reader.size("the capacity")?,
            adaptations: reader.counter("the adaptations")?,
            spent: reader.counter("the spent lines")?,
            rebuilds: reader.counter("the rebuilds")?,
            kicks: reader.counter("the moved keys")?,
            ..Stats::default()
        };
        let bytes = reader.block("the lines")?;
        reader.finish()?;
        let shape = params.lines();
        let (chunks, rest) = bytes.as_chunks::<64>();
        if lines == 0 || lines > MAX_BINS || chunks.len() != lines || !rest.is_empty() {
            return Err(Error::format(format!("{} bytes are not {lines} lines", bytes.len())));
        }
        let most = lines.saturating_mul(shape.slots);
        if !(1..=most).contains(&counts.capacity) {
            let capacity = counts.capacity;
            return Err(Error::format(format!("{lines} lines have no capacity of {capacity}")));
        }
        let mut filter = Self::empty(params, counts.capacity, lines);
        for (line, bytes) in filter.lines.iter_mut().zip(chunks) {
            *line = Line::from_bytes(*bytes);
        }
        filter.counts = counts;
        filter.count_adapted();
        filter.check_lines().map_err(Error::format)?;
        Ok(filter)
    }

    fn params(&self) -> Params {
        self.params
    }

    /// Groups that have not adapted, and those that have.
    fn states(&self) -> Vec<usize> {
        let adapted = self.lines.iter().map(|line| line.states().count_ones() as usize).sum();
        alloc::vec![8 * self.lines.len() - adapted, adapted]
    }
}

impl Grow for LineFilter {
    fn layout(&self) -> Option<Layout> {
        Some(Layout {
            start: self.lines.as_ptr().addr(),
            quotients: 64 * self.lines.len(),
            stride: size_of::<Line>(),
        })
    }

    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self> {
        let lines = self.params.bins_for(capacity)?;
        let grown = self.renewed(capacity, lines, None, remote)?;
        let fits = grown.filter(|grown| grown.counts.len <= capacity);
        fits.ok_or_else(|| too_small(&self.params, self.counts.len, capacity))
    }
}

impl LineFilter {
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
        let left = filter.fill(Epoch::FIRST, None, |push| {
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
            if !filter.add(digest) {
                return Err(Error::Full { digest, len: filter.counts.len, capacity });
            }
        }
        Ok(filter)
    }

    /// Fills the empty filter with digests that come in order; returns those that find no room in
    /// their home line.
    fn fill(
        &mut self,
        epoch: Epoch,
        past: Option<&Self>,
        source: impl FnOnce(&mut dyn FnMut(Digest)) -> Result<()>,
    ) -> Result<Vec<Digest>> {
        match self.shape.planes {
            1 => Filling::<1>::run(self, epoch, past, source),
            2 => Filling::<2>::run(self, epoch, past, source),
            3 => Filling::<3>::run(self, epoch, past, source),
            4 => Filling::<4>::run(self, epoch, past, source),
            _ => Filling::<8>::run(self, epoch, past, source),
        }
    }

    /// Counts the lines that have adapted.
    fn count_adapted(&mut self) {
        self.adapted = self.lines.iter().filter(|line| line.states() != 0).count();
        self.twin.choose(self.adapted, self.lines.len());
    }

    /// The filter of all keys of the remote, and perhaps one more, in so many lines; `None` if
    /// they do not fit. Adaptations are carried over, unless keys would not fit with them.
    fn renewed(
        &self,
        capacity: usize,
        lines: usize,
        newcomer: Option<Digest>,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Self>> {
        let has_adapted =
            self.lines.iter().any(|line| line.states() != 0 || line.epoch() != Epoch::FIRST);
        if has_adapted
            && let Some(filter) =
                self.filled(capacity, lines, newcomer, Epoch::FIRST, Some(self), remote)?
        {
            return Ok(Some(filter));
        }
        self.filled(capacity, lines, newcomer, Epoch::FIRST, None, remote)
    }

    /// [`DigestFilter::rebuild`](crate::DigestFilter::rebuild).
    pub(super) fn rebuilt(&self, remote: &mut dyn Ordered) -> Result<Self> {
        let Stats { len, capacity, rebuilds, .. } = self.counts;
        let epoch = Epoch::FIRST.another(rebuilds);
        let rebuilt = self.filled(capacity, self.lines.len(), None, epoch, None, remote)?;
        rebuilt.ok_or_else(|| too_small(&self.params, len, capacity))
    }

    /// A larger filter with one more key, which the remote does not have yet.
    pub(super) fn grown_for(&self, digest: Digest, remote: &mut dyn Ordered) -> Result<Self> {
        let Stats { len, capacity, .. } = self.counts;
        for size in growth(self.params, capacity.max(len), self.lines.len()) {
            let (larger, lines) = size?;
            if let Some(grown) = self.renewed(larger, lines, Some(digest), remote)? {
                if grown.counts.len != len + 1 {
                    return Err(Error::Remote(strangers(len, grown.counts.len - 1)));
                }
                return Ok(grown);
            }
        }
        Err(Error::Full { digest, len, capacity })
    }

    fn filled(
        &self,
        capacity: usize,
        lines: usize,
        newcomer: Option<Digest>,
        epoch: Epoch,
        past: Option<&Self>,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Self>> {
        let mut filter = Self::empty(self.params, capacity, lines);
        filter.counts =
            Stats { capacity, len: 0, rebuilds: self.counts.rebuilds + 1, ..self.counts };
        let left = filter
            .fill(epoch, past, |push| remote.visit(EVERY_DIGEST, push).map_err(Error::Remote))?;
        let added = left.into_iter().chain(newcomer).all(|digest| filter.add(digest));
        Ok(added.then_some(filter))
    }
}

/// Fills a filter with digests that come in order: each line with those whose home it is, as long
/// as it has room.
struct Filling<'a, const K: usize> {
    lines: &'a mut [Line],
    epoch: Epoch,
    /// Whose adaptations are carried over.
    past: Option<&'a LineFilter>,
    line: usize,
    len: usize,
    writing: Writing,
    /// The digests of the line, where adaptations are carried over.
    digests: Vec<Digest>,
    /// Those that found no room.
    left: Vec<Digest>,
}

impl<const K: usize> Filling<'_, K> {
    const SHAPE: Shape = Shape::with_planes::<K>();

    fn run(
        filter: &mut LineFilter,
        epoch: Epoch,
        past: Option<&LineFilter>,
        source: impl FnOnce(&mut dyn FnMut(Digest)) -> Result<()>,
    ) -> Result<Vec<Digest>> {
        let mut filling = Filling::<K> {
            lines: &mut filter.lines,
            epoch,
            past,
            line: 0,
            len: 0,
            writing: Writing::start(Self::SHAPE.buckets, 0, epoch),
            digests: Vec::with_capacity(MOST_SLOTS),
            left: Vec::new(),
        };
        source(&mut |digest| filling.push(digest))?;
        while filling.line < filling.lines.len() {
            filling.end_line();
        }
        let (len, left) = (filling.len, filling.left);
        filter.counts.len = len;
        filter.count_adapted();
        Ok(left)
    }

    #[inline(always)]
    fn push(&mut self, digest: Digest) {
        let home = Home::of(digest.word(0), self.lines.len(), &Self::SHAPE);
        while self.line < home.line {
            self.end_line();
        }
        if self.writing.used() == Self::SHAPE.slots {
            self.left.push(digest);
            return;
        }
        if self.past.is_some() {
            self.digests.push(digest);
        }
        let fingerprint = Hash::of(digest, self.epoch).select(0, &Self::SHAPE);
        self.writing.push(home.bucket as usize, fingerprint, &Self::SHAPE);
    }

    fn end_line(&mut self) {
        let written = self.past.and_then(|past| self.with_past(past));
        let empty = Writing::start(Self::SHAPE.buckets, 0, self.epoch);
        let writing = core::mem::replace(&mut self.writing, empty);
        self.len += writing.used();
        self.lines[self.line] = written.unwrap_or_else(|| writing.finish(&Self::SHAPE));
        self.line += 1;
        self.digests.clear();
    }

    /// The line with the epoch and the selectors that its keys had before; `None` if they had
    /// adapted to nothing. Keys of other epochs than the latest start anew.
    fn with_past(&self, past: &LineFilter) -> Option<Line> {
        let shape = &Self::SHAPE;
        let lines = self.lines.len();
        let known = |digest: Digest| {
            let bucket = find(Portable, &past.lines, past.home(digest), shape);
            let run = past.lines[bucket.line].run(Portable, bucket.index, shape);
            (past.lines[bucket.line].epoch(), past.selector(bucket, run))
        };
        let epoch = self.digests.iter().map(|&digest| known(digest).0).max()?;
        let home = |digest: &Digest| Home::of(digest.word(0), lines, shape);
        let same = |a: &Digest, b: &Digest| home(a).bucket == home(b).bucket;
        let selector_of = |digests: &[Digest]| {
            let (of_epoch, selector) = known(digests[0]);
            let agree = digests.iter().all(|&digest| known(digest) == (of_epoch, selector));
            let fits = u64::from(selector) < 1 << digests.len();
            if agree && fits && of_epoch == epoch { selector } else { 0 }
        };
        let buckets = self.digests.chunk_by(same);
        if epoch == self.epoch && buckets.clone().all(|digests| selector_of(digests) == 0) {
            return None;
        }
        let mut adapted = 0u8;
        for digests in buckets.clone() {
            let group = home(&digests[0]).number(shape) % 8;
            adapted |= u8::from(selector_of(digests) != 0) << group;
        }
        let mut writing = Writing::start(shape.buckets, 0, epoch);
        for digests in buckets {
            let Home { bucket, .. } = home(&digests[0]);
            let selector = selector_of(digests);
            for &digest in digests {
                let fingerprint = Hash::of(digest, epoch).select(selector, shape);
                writing.push(bucket as usize, fingerprint, shape);
            }
            let group = home(&digests[0]).number(shape) % 8;
            if adapted >> group & 1 == 1 {
                writing.select(digests.len(), selector, group);
            }
        }
        Some(writing.finish(shape))
    }
}
