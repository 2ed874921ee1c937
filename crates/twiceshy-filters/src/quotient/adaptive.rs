//! The adaptive quotient filters, over any rule for what a slot learns.
//!
//! Lee, McCauley, Singh, Stein: "Telescoping Filter", sections 3 and 5. A slot
//! holds a remainder of its key and, in its block's state, a *symbol*: what it
//! has learned from false positives (a selector, an extension). A [`Rule`] says
//! what symbols mean and how a block stores its 64 of them; this file moves them
//! with their slots and keeps the promise when a block's budget is spent.
//!
//! ```text
//! slot      ...  62     63  |  64     65     66   ...
//! insert           \      \ |    \      \
//! at 62            63      64     65     66        remainders, and symbols across
//!                                                  blocks: decode, move, encode
//! ```
//!
//! Runs are in digest order, so the remote's digests of a quotient are the owners
//! of its run's slots, in order: no map from slots to keys is needed. (A slot
//! whose owner is gone from the remote, after a crash say, is skipped: owners are
//! found in order, each at the first slot that can be its.)
//!
//! How a change is planned and made is in `adaptive/changes.rs`; how a key that is
//! removed and inserted again keeps what it has learned, in `adaptive/departed.rs`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::ops::{Range, RangeInclusive};

use crate::batch::{Glance, Glances, Probes, glance_at_all, probe_all};
use crate::bits::word::{Words, Work, WorkOn, tuned, tuned_on};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter, Stats, sealed::Sealed};
use crate::format::{Reader, Writer};
use crate::make::{self, Build, Grow, histogram};
use crate::params::{MAX_BINS, Params as _, WhenFull, growth, too_small};
use crate::remote::{EVERY_DIGEST, Ordered, stored, strangers};

use super::append::runs_of;
use super::block::{Layout, SLOTS, Within};
use super::glance::ByteBlocks;
use super::params::Adapting as _;
use super::place::{Place, digests_of};
use super::rule::{Learned, Rule};
use super::runs::{Gap, Runs};

mod changes;
mod departed;
mod growth;

use changes::{blocks_of, number_among, within};
use departed::Departed;

/// A quotient filter that learns from false positives, with an [`Ordered`]
/// remote.
///
/// ```
/// use twiceshy_filters::quotient::Telescoping;
/// use twiceshy_filters::{Adapted, DigestFilter, KeyHasher};
/// use twiceshy_filters::remote::{MemorySet, Ordered};
/// let mut filter = Telescoping::new(&"telescoping:f=8".parse()?, 1000)?;
/// let (mut remote, hasher) = (MemorySet::new(), KeyHasher::random());
/// filter.insert(hasher.digest("stored"), &mut remote)?;
///
/// let missing = hasher.digest("missing");
/// if filter.contains(missing) {
///     // The read that proves it absent fetches all that adapting needs.
///     let mut read = Vec::new();
///     remote.visit(filter.range(missing), &mut |digest| read.push(digest)).expect("in memory");
///     assert_eq!(filter.adapt_with(missing, &read, &mut remote)?, Adapted::Fixed);
///     assert!(!filter.contains(missing));
/// }
/// # Ok::<(), twiceshy_filters::Error>(())
/// ```
#[derive(Clone)]
pub struct Adaptive<R: Rule> {
    rule: R,
    pub(super) runs: Runs,
    departed: Departed,
    params: R::Params,
    counts: Stats,
}

impl<R: Rule> Adaptive<R> {
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
    /// [`Error::Format`] for bytes that are no such filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        make::load(bytes)
    }

    /// [`DigestFilter::adapt`] for a caller who has read the stored digests of the
    /// query's [range](DigestFilter::range), in order, to prove it absent: no
    /// further access, unless a block's budget is spent and its remainders have
    /// to be recomputed, or the list cannot be that of the range. A list that was
    /// right once and is no longer may cost false negatives.
    ///
    /// # Errors
    /// [`Error::Remote`] when the remote failed.
    pub fn adapt_with(
        &mut self,
        query: Digest,
        read: &[Digest],
        remote: &mut dyn Ordered,
    ) -> Result<Adapted> {
        let place = self.place(query);
        let Some(run) = self.runs.run(place.quotient).filter(|run| self.run_holds(run, &place))
        else {
            return Ok(Adapted::Absent);
        };
        if read.contains(&query) {
            return Ok(Adapted::Stored);
        }
        // Slots without an owner are taken out, and that needs certainty.
        let range = self.range(query);
        let in_range = read.iter().all(|digest| range.contains(digest));
        let again = if read.len() == run.len() && in_range && read.is_sorted_by(|a, b| a < b) {
            None
        } else {
            Some(self.digests(place.quotient..=place.quotient, remote)?)
        };
        let stored = again.as_deref().unwrap_or(read);
        if stored.contains(&query) {
            return Ok(Adapted::Stored);
        }
        self.fix(&place, stored, remote)
    }

    /// What each occupied slot has learned, in order: for statistics.
    pub fn symbols(&self) -> impl Iterator<Item = R::Symbol> + '_ {
        let mut last = None;
        self.runs.iter().flat_map(|(_, run)| run).map(move |slot| {
            let block = slot / SLOTS;
            if last.as_ref().is_none_or(|(held, _)| *held != block) {
                last = Some((block, self.learned(block)));
            }
            last.as_ref().expect("just decoded").1.slots[slot % SLOTS]
        })
    }

    #[inline(always)]
    pub(super) fn place(&self, digest: Digest) -> Place {
        Place::new(digest, self.runs.quotients())
    }

    fn holds(&self, place: &Place) -> bool {
        self.contains(place.digest)
    }

    #[inline(always)]
    fn holds_with(&self, words: impl Words, place: &Place) -> bool {
        match self.runs.find_near(words, place.quotient).1 {
            Some(run) => self.holds_in(words, run, place),
            None => words.apart(FarQuery { filter: self }, place.digest.words().into()),
        }
    }

    /// Whether the digest's run, which this is, has a slot that may be its. All
    /// that is not done at once is out of line, behind it, and told bare numbers:
    /// most queries then end without a call, and stay in registers.
    #[inline(always)]
    fn holds_in(&self, words: impl Words, run: Within, place: &Place) -> bool {
        let [first, second] = place.digest.words();
        let at_once = self.rule.may_be_in_at_once(words, &self.runs, run, place);
        let Range { start, end } = run.slots();
        match at_once {
            Some(false) => false,
            Some(true) => self.look_at_match(start, end, first, second),
            None => words.apart(Search { filter: self }, (start..end, [first, second])),
        }
    }

    /// [`Adaptive::look`] at a run of which it was seen at once that it matches.
    #[inline(never)]
    fn look_at_match(&self, start: usize, end: usize, first: u64, second: u64) -> bool {
        self.rule.none_has_learned(&self.runs, Within::of(&(start..end)))
            || self.look(start, end, first, second)
    }

    /// [`Adaptive::run_holds`] for the few queries that have to know.
    #[cold]
    #[inline(never)]
    fn look(&self, start: usize, end: usize, first: u64, second: u64) -> bool {
        self.run_holds(&(start..end), &self.place(Digest::new([first, second])))
    }

    /// Whether a run has a slot that may be the digest's.
    fn run_holds(&self, run: &Range<usize>, place: &Place) -> bool {
        run.clone().any(|slot| self.slot_holds(slot, self.runs.remainder(slot), place))
    }

    /// Whether a slot may be the digest's.
    fn slot_holds(&self, slot: usize, remainder: u64, place: &Place) -> bool {
        let (state, index) = (self.runs.extra(slot / SLOTS), slot % SLOTS);
        self.rule.undecoded(state, index, remainder, place).unwrap_or_else(|| {
            let (epoch, symbol) = self.rule.decode_one(state, index);
            self.rule.holds(remainder, place, epoch, symbol)
        })
    }

    fn learned(&self, block: usize) -> Learned<R::Symbol> {
        // A block that an insertion is about to add.
        if block == self.runs.block_count() {
            return Learned::nothing(0);
        }
        self.rule.decode(self.runs.extra(block))
    }

    /// The hash functions of a block.
    fn epoch(&self, block: usize) -> u8 {
        if self.untouched(block) { 0 } else { self.learned(block).epoch }
    }

    /// Whether a block never learned anything.
    fn untouched(&self, block: usize) -> bool {
        // All bytes, without a branch for each.
        block == self.runs.block_count()
            || self.runs.extra(block).iter().fold(0, |any, &byte| any | byte) == 0
    }

    /// Whether no slot of a run has learned anything. Its remainders are then
    /// in order, and slots with equal ones are as good as each other: also the
    /// slot behind it, where the block has no hash functions of its own.
    ///
    /// A slot without an owner may be out of order whatever it learned.
    fn in_order(&self, run: &Range<usize>) -> bool {
        self.runs.are_sorted(run.clone())
            && blocks_of(&(run.start..run.end + 1)).all(|block| {
                self.untouched(block) || {
                    let learned = self.learned(block);
                    let nothing = |slot: usize| learned.slots[slot % SLOTS] == R::Symbol::default();
                    learned.epoch == 0 && within(run, block).all(nothing)
                }
            })
    }

    /// Whether the next key makes it grow, or is handed back.
    fn is_full(&self) -> bool {
        let (capacity, slots) = (self.counts.capacity, self.runs.quotients());
        self.runs.len() >= self.params.slots().full.most_keys(capacity, slots)
    }

    /// Where a digest's slot comes if that is all there is to do, as it mostly is
    /// where nothing was learned: there is room, no slot may be the digest's, and no
    /// block that it changes has a state.
    fn gap_among_untouched(&self, place: &Place) -> Option<Gap> {
        if self.is_full() {
            return None;
        }
        let gap = self.runs.gap_in_order(place.quotient, place.remainder(self.params.slots().f))?;
        let mut blocks = gap.start / SLOTS..=gap.shift.to / SLOTS;
        blocks.all(|block| self.untouched(block)).then_some(gap)
    }

    /// A filter of all digests of the remote and `extra`, with this many slots;
    /// `None` when they are too many.
    fn renewed(
        &self,
        capacity: usize,
        slots: usize,
        extra: Option<Digest>,
        past: Past,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Self>> {
        let (width, extra_bytes) = (self.params.slots().f, self.params.state_bytes());
        let Some(runs) = runs_of(remote, slots, width, extra_bytes)? else { return Ok(None) };
        let counts = Stats { capacity, ..Stats::default() };
        let (rule, departed) = (self.rule.clone(), Departed::default());
        let mut fresh = Adaptive { rule, runs, departed, params: self.params, counts };
        if let Some(digest) = extra {
            if fresh.runs.len() == slots {
                return Ok(None);
            }
            let place = fresh.place(digest);
            let _ = fresh.runs.insert_in_order(place.quotient, place.remainder(width));
        }
        if past == Past::Kept {
            self.teach(&mut fresh, extra, remote)?;
        }
        let old = self.counts;
        fresh.counts = Stats {
            rebuilds: old.rebuilds + 1,
            kicks: old.kicks,
            adaptations: old.adaptations,
            spent: old.spent,
            ..fresh.counts
        };
        Ok(Some(fresh))
    }

    /// What has to hold without a look at the remote.
    fn check_states(&self) -> Result<(), String> {
        let mut used = vec![false; self.runs.block_count() * SLOTS];
        self.runs.iter().flat_map(|(_, run)| run).for_each(|slot| used[slot] = true);
        for (block, used) in used.chunks(SLOTS).enumerate() {
            let learned = self.learned(block);
            let stray = |&slot: &usize| !used[slot] && learned.slots[slot] != R::Symbol::default();
            if let Some(slot) = (0..SLOTS).find(stray) {
                return Err(format!("slot {slot} of block {block} is empty and has learned"));
            }
            if self.rule.encode(&learned).is_none() {
                return Err(format!("block {block} has learned more than it can"));
            }
        }
        Ok(())
    }
}

/// What becomes of what was learned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Past {
    Kept,
    Forgotten,
}

/// [`DigestFilter::contains`] of a digest's two words.
struct Query<'a, R: Rule> {
    filter: &'a Adaptive<R>,
}

impl<R: Rule> WorkOn<(u64, u64)> for Query<'_, R> {
    type Outcome = bool;

    #[inline(always)]
    fn run_on(self, words: impl Words, (first, second): (u64, u64)) -> bool {
        self.filter.holds_with(words, &self.filter.place(Digest::new([first, second])))
    }
}

/// [`DigestFilter::contains`] of a digest's two words, wherever its run is.
struct FarQuery<'a, R: Rule> {
    filter: &'a Adaptive<R>,
}

impl<R: Rule> WorkOn<(u64, u64)> for FarQuery<'_, R> {
    type Outcome = bool;

    #[inline(always)]
    fn run_on(self, words: impl Words, (first, second): (u64, u64)) -> bool {
        let place = self.filter.place(Digest::new([first, second]));
        let run = self.filter.runs.find_far(words, place.quotient);
        self.filter.holds_in(words, Within::of(&run), &place)
    }
}

/// [`Adaptive::holds_in`] in more than one step: of a run and a digest's words.
struct Search<'a, R: Rule> {
    filter: &'a Adaptive<R>,
}

impl<R: Rule> WorkOn<(Range<usize>, [u64; 2])> for Search<'_, R> {
    type Outcome = bool;

    #[inline(always)]
    fn run_on(self, words: impl Words, (run, digest): (Range<usize>, [u64; 2])) -> bool {
        let Adaptive { rule, runs, .. } = self.filter;
        let place = self.filter.place(Digest::new(digest));
        rule.may_be_in(words, runs, &run, &place)
            && self.filter.look(run.start, run.end, digest[0], digest[1])
    }
}

/// [`DigestFilter::contains_many`].
struct Queries<'a, R: Rule> {
    filter: &'a Adaptive<R>,
    digests: &'a [Digest],
    found: &'a mut [bool],
}

impl<R: Rule> Work for Queries<'_, R> {
    type Outcome = ();

    #[inline(always)]
    fn run(self, words: impl Words) {
        let Queries { filter, digests, found } = self;
        match filter.runs.of_bytes() {
            Some(blocks) => glance_at_all(digests, found, &Glancing { filter, words, blocks }),
            None => probe_all(digests, found, &Probing { filter, words }),
        }
    }
}

/// The steps of many queries.
struct Probing<'a, R: Rule, W> {
    filter: &'a Adaptive<R>,
    words: W,
}

impl<R: Rule, W: Words> Probes for Probing<'_, R, W> {
    type Probe = Place;

    #[inline(always)]
    fn locate(&self, digest: Digest) -> Place {
        self.filter.place(digest)
    }

    #[inline(always)]
    fn prefetch(&self, place: &Place) {
        self.filter.runs.prefetch(place.quotient);
        if R::EVERY_QUERY_READS_STATE {
            self.filter.runs.prefetch_extra(place.quotient);
        }
    }

    #[inline(always)]
    fn test(&self, place: &Place) -> bool {
        self.filter.holds_with(self.words, place)
    }
}

/// The steps of many queries where remainders have a byte.
struct Glancing<'a, R: Rule, W> {
    filter: &'a Adaptive<R>,
    words: W,
    blocks: ByteBlocks<'a>,
}

impl<R: Rule, W: Words> Glances for Glancing<'_, R, W> {
    #[inline(always)]
    fn prefetch(&self, digest: Digest) {
        self.blocks.prefetch(self.filter.place(digest).quotient);
    }

    /// Whatever may be there is left open: what it has learned has to be looked at.
    #[inline(always)]
    fn glance(&self, digest: Digest) -> Glance {
        let place = self.filter.place(digest);
        let seen = self.blocks.glance(self.words, place.quotient);
        let may_be = self.filter.rule.may_be_among(self.words, seen.slots, &place);
        Glance { found: false, open: seen.occupied & (seen.far | may_be) }
    }

    #[inline(always)]
    fn test(&self, digest: Digest) -> bool {
        self.filter.holds_with(self.words, &self.filter.place(digest))
    }
}

impl<R: Rule> Build for Adaptive<R> {
    type Params = R::Params;

    /// A filter's bins are its slots.
    fn empty(params: R::Params, capacity: usize, bins: usize) -> Self {
        let counts = Stats { capacity, ..Stats::default() };
        let runs = Runs::new(bins, params.slots().f, params.state_bytes());
        Adaptive { rule: R::new(&params), runs, departed: Departed::default(), params, counts }
    }

    fn read(params: R::Params, mut reader: Reader<'_>) -> Result<Self> {
        let slots = reader.size("the number of slots")?;
        let len = reader.size("the number of keys")?;
        let counts = Stats {
            capacity: reader.size("the capacity")?,
            rebuilds: reader.counter("the rebuilds")?,
            kicks: reader.counter("the kicks")?,
            adaptations: reader.counter("the adaptations")?,
            spent: reader.counter("the spent blocks")?,
            ..Stats::default()
        };
        let blocks = reader.block("the blocks")?;
        reader.finish()?;
        if !(1..=MAX_BINS).contains(&slots) || !(1..=slots).contains(&counts.capacity) {
            let capacity = counts.capacity;
            return Err(Error::format(format!("{slots} slots have no capacity of {capacity}")));
        }
        let runs = Runs::from_bytes(blocks, slots, params.slots().f, params.state_bytes())
            .map_err(Error::format)?;
        if runs.len() != len || len > slots {
            return Err(Error::format("its number of keys is not that of its remainders"));
        }
        let (rule, departed) = (R::new(&params), Departed::default());
        let filter = Adaptive { rule, runs, departed, params, counts };
        filter.check_states().map_err(Error::format)?;
        Ok(filter)
    }

    fn params(&self) -> R::Params {
        self.params
    }

    fn learned(&self) -> Vec<usize> {
        histogram(self.symbols().map(|symbol| self.rule.depth(symbol).into()))
    }

    fn decodes(&self, digest: Digest) -> usize {
        let place = self.place(digest);
        let Some(mut run) = self.runs.run(place.quotient) else { return 0 };
        let mut decodes = 0;
        let _ = run.any(|slot| {
            let remainder = self.runs.remainder(slot);
            let (state, index) = (self.runs.extra(slot / SLOTS), slot % SLOTS);
            let decodes_here = self.rule.undecoded(state, index, remainder, &place).is_none();
            decodes += usize::from(decodes_here);
            self.slot_holds(slot, remainder, &place)
        });
        decodes
    }
}

impl<R: Rule> Grow for Adaptive<R> {
    fn layout(&self) -> Option<Layout> {
        Some(self.runs.layout())
    }

    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self> {
        let slots = self.params.bins_for(capacity)?;
        let renewed = self.renewed(capacity, slots, None, Past::Kept, remote)?;
        let fits = renewed.filter(|renewed| renewed.runs.len() <= capacity);
        fits.ok_or_else(|| too_small(&self.params, self.runs.len(), capacity))
    }
}

impl<R: Rule> Sealed for Adaptive<R> {}

impl<R: Rule> DigestFilter for Adaptive<R> {
    type Remote = dyn Ordered;

    #[inline]
    fn contains(&self, digest: Digest) -> bool {
        tuned_on(Query { filter: self }, digest.words().into())
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        tuned(Queries { filter: self, digests, found });
    }

    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        let place = self.place(digest);
        // While the block is on its way the remote has time.
        self.runs.prefetch(place.quotient);
        remote.prepare(digest);
        if let Some(gap) = self.gap_among_untouched(&place)
            && self.departed.recall(digest, 0) == 0
        {
            remote.insert(digest).map_err(Error::Remote)?;
            let shift = self.runs.fill(gap, place.remainder(self.params.slots().f));
            self.counts.kicks += (shift.to - shift.from) as u64;
            return Ok(true);
        }
        let index = match self.runs.run(place.quotient) {
            None => 0,
            // Where a key that had learned comes to, equal remainders do not say.
            Some(run) if self.in_order(&run) && self.departed.recall(digest, 0) == 0 => {
                if self.run_holds(&run, &place) && stored(digest, remote)? {
                    return Ok(false);
                }
                self.runs.count_up_to(run, place.remainder(self.params.slots().f))
            }
            Some(run) => {
                let stored = self.digests(place.quotient..=place.quotient, remote)?;
                if stored.contains(&digest) {
                    return Ok(false);
                }
                number_among(&self.owners(&run, &stored)?, digest)
            }
        };
        if !self.is_full() {
            self.put(&place, index, remote)?;
            return Ok(true);
        }
        let (len, capacity, slots) = (self.runs.len(), self.counts.capacity, self.runs.quotients());
        if self.params.slots().full != WhenFull::Grow {
            return Err(Error::Full { digest, len, capacity });
        }
        // Half as many slots again always have room for one more key.
        let size = growth(self.params, capacity.max(len), slots).next();
        let (larger, more_slots) = size.expect("there is a next size")?;
        let renewed = self
            .renewed(larger, more_slots, Some(digest), Past::Kept, remote)?
            .ok_or(Error::Full { digest, len, capacity })?;
        if renewed.runs.len() != len + 1 {
            return Err(Error::Remote(strangers(len, renewed.runs.len() - 1)));
        }
        remote.insert(digest).map_err(Error::Remote)?;
        *self = renewed;
        Ok(true)
    }

    fn remove(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        let place = self.place(digest);
        let Some(run) = self.runs.run(place.quotient).filter(|run| self.run_holds(run, &place))
        else {
            return Ok(false);
        };
        let index = if self.in_order(&run) {
            let remainder = self.rule.remainder(&place, 0, R::Symbol::default());
            run.clone().position(|slot| self.runs.remainder(slot) == remainder)
        } else {
            let owners = self.owners_now(place.quotient, &run, remote)?;
            owners.iter().position(|owner| *owner == Some(digest))
        };
        let Some(mut index) = index else { return Ok(false) };
        let mut removal = self.plan_removal(place.quotient, index, remote)?;
        if removal.1.spent != 0 {
            // With remainders that are recomputed, equal ones are no longer as
            // good as each other.
            let owners = self.owners_now(place.quotient, &run, remote)?;
            let own = owners.iter().position(|owner| *owner == Some(digest));
            let Some(own) = own else { return Ok(false) };
            index = own;
            removal = self.plan_removal(place.quotient, index, remote)?;
        }
        let slot = run.start + index;
        let state = self.runs.extra(slot / SLOTS);
        let (epoch, symbol) = self.rule.decode_one(state, slot % SLOTS);
        if !remote.remove(digest).map_err(Error::Remote)? {
            return Ok(false);
        }
        self.take(removal);
        let (depth, slots) = (self.rule.depth(symbol), self.runs.quotients());
        self.departed.remember(digest, epoch, depth, slots);
        Ok(true)
    }

    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted> {
        let place = self.place(digest);
        if !self.holds(&place) {
            return Ok(Adapted::Absent);
        }
        let stored = self.digests(place.quotient..=place.quotient, remote)?;
        if stored.contains(&digest) {
            return Ok(Adapted::Stored);
        }
        self.fix(&place, &stored, remote)
    }

    /// The digests that share its quotient: all that can make it a false
    /// positive.
    fn range(&self, digest: Digest) -> RangeInclusive<Digest> {
        let quotient = self.place(digest).quotient;
        digests_of(quotient..=quotient, self.runs.quotients())
    }

    fn grow(&mut self, capacity: usize, remote: &mut Self::Remote) -> Result<()> {
        *self = self.grown(capacity, remote)?;
        Ok(())
    }

    fn rebuild(&mut self, remote: &mut Self::Remote) -> Result<()> {
        let capacity = self.counts.capacity;
        let renewed =
            self.renewed(capacity, self.runs.quotients(), None, Past::Forgotten, remote)?;
        *self = renewed.ok_or_else(|| too_small(&self.params, self.runs.len(), capacity))?;
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats {
            len: self.runs.len(),
            cells: self.runs.quotients(),
            bits: self.runs.bits() + self.departed.bits(),
            ..self.counts
        }
    }

    fn description(&self) -> String {
        self.params.to_string()
    }

    fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(&self.params.to_string());
        writer.u64(self.runs.quotients() as u64);
        writer.u64(self.runs.len() as u64);
        writer.u64(self.counts.capacity as u64);
        writer.u64(self.counts.rebuilds);
        writer.u64(self.counts.kicks);
        writer.u64(self.counts.adaptations);
        writer.u64(self.counts.spent);
        writer.block(self.runs.as_bytes());
        writer.finish()
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        self.runs.check()?;
        self.check_states()?;
        self.departed.check()?;
        // In digest order, slots and digests are the same list.
        let mut slots =
            self.runs.iter().flat_map(|(quotient, run)| run.map(move |slot| (quotient, slot)));
        let mut stray = None;
        let mut visitor = |digest| {
            let place = self.place(digest);
            let its_own = slots.next().is_some_and(|(quotient, slot)| {
                let (epoch, symbol) =
                    self.rule.decode_one(self.runs.extra(slot / SLOTS), slot % SLOTS);
                quotient == place.quotient
                    && self.rule.holds(self.runs.remainder(slot), &place, epoch, symbol)
            });
            if stray.is_none() && !(its_own && self.holds(&place)) {
                stray = Some(digest);
            }
        };
        remote.visit(EVERY_DIGEST, &mut visitor).map_err(|error| error.to_string())?;
        if let Some(digest) = stray {
            return Err(format!("{digest:?} is stored and has no slot of its own"));
        }
        match slots.count() {
            0 => Ok(()),
            extra => Err(format!("{extra} slots have no stored digest")),
        }
    }
}

#[cfg(test)]
mod tests;
