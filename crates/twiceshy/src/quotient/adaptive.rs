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
//! A change is planned while filter and remote agree, with reads alone; then
//! the remote is written, in one call; then the filter changes. A failure before
//! that has changed nothing.

use std::ops::{Range, RangeInclusive};

use crate::any::{Build, spec_of};
use crate::batch::{Probes, probe_all};
use crate::bits::word::{Words, Work, tuned};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, Filter, Stats};
use crate::format::{Reader, Writer};
use crate::remote::{EVERY_DIGEST, Ordered, collected, stored, strangers};
use crate::spec::{Kind, Spec, WhenFull};

use super::append::runs_of;
use super::block::SLOTS;
use super::place::{Place, digests_of};
use super::runs::{Hole, Runs, Shift};

/// The most bytes of a block's state.
pub(super) const MOST_STATE: usize = SLOTS;

/// What the slots of a block have learned.
#[derive(Clone, PartialEq)]
pub struct Learned<S> {
    /// Which hash functions its remainders come from; 0 at first.
    pub(super) epoch: u8,
    pub(super) slots: [S; SLOTS],
}

impl<S: Copy + Default> Learned<S> {
    fn nothing(epoch: u8) -> Self {
        Learned { epoch, slots: [S::default(); SLOTS] }
    }
}

/// What a variant makes of the general filter. A state of zeros is that of a
/// block that never learned anything.
pub trait Rule: Clone {
    /// The kinds that this rule serves.
    const KINDS: &[Kind];

    /// Whether a slot's remainder depends on what it learned: a block that
    /// forgets must then recompute its remainders.
    const REMAINDERS_CHANGE: bool;

    /// What a slot learns; by default nothing.
    type Symbol: Copy + Default + PartialEq;

    /// The rule of a description.
    fn new(spec: &Spec) -> Self;

    /// What a block's slots have learned.
    fn decode(&self, state: &[u8]) -> Learned<Self::Symbol>;

    /// The state of a block, `None` when the budget does not suffice.
    fn encode(&self, learned: &Learned<Self::Symbol>) -> Option<[u8; MOST_STATE]>;

    /// The epoch of a block that is spent.
    fn next_epoch(&self, epoch: u8) -> u8 {
        epoch
    }

    /// What a stored digest leaves in a slot that has learned this.
    fn remainder(&self, place: &Place, epoch: u8, symbol: Self::Symbol) -> u64;

    /// Whether a slot may be the digest's.
    fn holds(&self, remainder: u64, place: &Place, epoch: u8, symbol: Self::Symbol) -> bool {
        remainder == self.remainder(place, epoch, symbol)
    }

    /// The next thing to learn, from `symbol` on, so that the slot of a stored
    /// digest is not taken for the query's.
    fn apart(
        &self,
        query: &Place,
        stored: &Place,
        epoch: u8,
        symbol: Self::Symbol,
    ) -> Option<Self::Symbol>;

    /// `false` when no slot of a run is the digest's, whatever they have learned:
    /// what most queries end with.
    fn may_be_in(&self, runs: &Runs, run: &Range<usize>, place: &Place) -> bool;

    /// Whether slot `index` of a block may be the digest's, where that can be
    /// said without decoding.
    fn glance(&self, state: &[u8], index: usize, remainder: u64, place: &Place) -> Option<bool>;

    /// Epoch and symbol of slot `index`.
    fn decode_one(&self, state: &[u8], index: usize) -> (u8, Self::Symbol);
}

/// A quotient filter that learns from false positives, with an [`Ordered`]
/// remote.
///
/// ```
/// use twiceshy::quotient::Telescoping;
/// use twiceshy::{Adapted, Filter, KeyHasher, MemorySet, Ordered};
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
/// # Ok::<(), twiceshy::Error>(())
/// ```
#[derive(Clone)]
pub struct Adaptive<R> {
    rule: R,
    runs: Runs,
    spec: Spec,
    counts: Stats,
}

/// What is to become of some blocks.
#[derive(Default)]
struct Change {
    states: Vec<(usize, [u8; MOST_STATE])>,
    remainders: Vec<(usize, u64)>,
    spent: u64,
}

/// How slots move, and who comes.
enum Move {
    Insertion(Shift, Digest),
    Removal(Shift),
}

impl Move {
    /// The digest or the slot of before that will be in this slot.
    fn source(&self, slot: usize) -> Source {
        match *self {
            Move::Insertion(Shift { from, .. }, digest) if slot == from => Source::Digest(digest),
            Move::Insertion(Shift { from, to }, _) if (from + 1..=to).contains(&slot) => {
                Source::Slot(slot - 1)
            }
            Move::Removal(Shift { to, .. }) if slot == to => Source::Nobody,
            Move::Removal(Shift { from, to }) if (from..to).contains(&slot) => {
                Source::Slot(slot + 1)
            }
            _ => Source::Slot(slot),
        }
    }
}

enum Source {
    Digest(Digest),
    Slot(usize),
    Nobody,
}

/// The part of a run that is in a block.
fn within(slots: &Range<usize>, block: usize) -> Range<usize> {
    slots.start.max(block * SLOTS)..slots.end.min((block + 1) * SLOTS)
}

/// The blocks of a range of slots.
fn blocks_of(slots: &Range<usize>) -> Range<usize> {
    slots.start / SLOTS..slots.end.div_ceil(SLOTS)
}

impl<R: Rule> Adaptive<R> {
    /// An empty filter for `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] for another kind's description or an impossible capacity.
    pub fn new(spec: &Spec, capacity: usize) -> Result<Self> {
        spec.expect_kind(R::KINDS)?;
        spec.validate()?;
        Ok(Self::empty(*spec, capacity, spec.bins_for(capacity)?))
    }

    /// The filter that [`Filter::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are no such filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let reader = Reader::open(bytes)?;
        let spec = spec_of(&reader)?;
        spec.expect_kind(R::KINDS)?;
        Self::read(spec, reader)
    }

    /// The range of digests that share a digest's quotient: all that can make it
    /// a false positive, and all that [`Adaptive::adapt_with`] needs.
    #[must_use]
    pub fn range(&self, digest: Digest) -> RangeInclusive<Digest> {
        let quotient = self.place(digest).quotient;
        digests_of(quotient..=quotient, self.runs.quotients())
    }

    /// [`Filter::adapt`] for a caller who has read the stored digests of the
    /// query's [range](Adaptive::range), in order, to prove it absent: no
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

    /// How many codes a query has to decode, which most do not at all.
    #[must_use]
    pub fn decodes(&self, digest: Digest) -> usize {
        let place = self.place(digest);
        let Some(mut run) = self.runs.run(place.quotient) else { return 0 };
        if !self.rule.may_be_in(&self.runs, &run, &place) {
            return 0;
        }
        let mut decodes = 0;
        let _ = run.any(|slot| {
            let remainder = self.runs.remainder(slot);
            let (state, index) = (self.runs.extra(slot / SLOTS), slot % SLOTS);
            let decodes_here = self.rule.glance(state, index, remainder, &place).is_none();
            decodes += usize::from(decodes_here);
            self.slot_holds(slot, remainder, &place)
        });
        decodes
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
    fn place(&self, digest: Digest) -> Place {
        Place::new(digest, self.runs.quotients())
    }

    fn holds(&self, place: &Place) -> bool {
        tuned(Query { filter: self, words: place.digest.words() })
    }

    #[inline(always)]
    fn holds_with(&self, words: impl Words, place: &Place) -> bool {
        let (_, run) = self.runs.find(words, place.quotient);
        self.rule.may_be_in(&self.runs, &run, place)
            && self.look(run.start, run.end, place.digest.words())
    }

    /// [`Adaptive::run_holds`] for the few queries that have to know. Out of line
    /// and of bare numbers, so that the others stay in registers.
    #[cold]
    #[inline(never)]
    fn look(&self, start: usize, end: usize, words: [u64; 2]) -> bool {
        self.run_holds(&(start..end), &self.place(Digest::new(words)))
    }

    /// Whether a run has a slot that may be the digest's.
    fn run_holds(&self, run: &Range<usize>, place: &Place) -> bool {
        run.clone().any(|slot| self.slot_holds(slot, self.runs.remainder(slot), place))
    }

    /// Whether a slot may be the digest's.
    fn slot_holds(&self, slot: usize, remainder: u64, place: &Place) -> bool {
        let (state, index) = (self.runs.extra(slot / SLOTS), slot % SLOTS);
        self.rule.glance(state, index, remainder, place).unwrap_or_else(|| {
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
        let sorted = run.clone().map(|slot| self.runs.remainder(slot)).is_sorted();
        sorted
            && blocks_of(&(run.start..run.end + 1)).all(|block| {
                self.untouched(block) || {
                    let learned = self.learned(block);
                    let nothing = |slot: usize| learned.slots[slot % SLOTS] == R::Symbol::default();
                    learned.epoch == 0 && within(run, block).all(nothing)
                }
            })
    }

    /// The remote's digests of these quotients.
    fn digests(
        &self,
        quotients: RangeInclusive<usize>,
        remote: &mut dyn Ordered,
    ) -> Result<Vec<Digest>> {
        let range = digests_of(quotients, self.runs.quotients());
        collected(|visitor| remote.visit(range, visitor))
    }

    /// The owners of a run's slots, from the remote's digests of its quotient:
    /// in order, each at the first slot that can be its.
    fn owners(&self, run: &Range<usize>, stored: &[Digest]) -> Result<Vec<Option<Digest>>> {
        let mut left = stored.iter().copied().peekable();
        let mut owners = Vec::with_capacity(run.len());
        for block in blocks_of(run) {
            let learned = self.learned(block);
            for slot in within(run, block) {
                let (remainder, symbol) = (self.runs.remainder(slot), learned.slots[slot % SLOTS]);
                owners.push(left.next_if(|&digest| {
                    self.rule.holds(remainder, &self.place(digest), learned.epoch, symbol)
                }));
            }
        }
        match left.next() {
            None => Ok(owners),
            Some(digest) => Err(Error::Remote(
                format!("it has {digest:?}, of which the filter knows nothing; rebuild the filter")
                    .into(),
            )),
        }
    }

    /// The owners of a block's slots, and of one slot before and behind it, by
    /// slot.
    fn owners_around(
        &self,
        block: usize,
        remote: &mut dyn Ordered,
    ) -> Result<Vec<(usize, Digest)>> {
        let slots = (block * SLOTS).saturating_sub(1)..(block + 1) * SLOTS + 1;
        let runs = self.runs.overlapping(slots);
        let (Some((first, _)), Some((last, _))) = (runs.first(), runs.last()) else {
            return Ok(Vec::new());
        };
        let digests = self.digests(*first..=*last, remote)?;
        let mut left = &digests[..];
        let mut owners = Vec::new();
        for (quotient, run) in runs {
            let count = left.partition_point(|&digest| self.place(digest).quotient <= quotient);
            let (stored, others) = left.split_at(count);
            left = others;
            let of_run = self.owners(&run, stored)?;
            owners.extend(run.zip(of_run).filter_map(|(slot, owner)| Some((slot, owner?))));
        }
        Ok(owners)
    }

    /// What blocks have to become when slots move. Blocks and remainders are
    /// still as before.
    fn moved(&self, moving: &Move, remote: &mut dyn Ordered) -> Result<Change> {
        let (Shift { from, to }, up) = match *moving {
            Move::Insertion(shift, _) => (shift, true),
            Move::Removal(shift) => (shift, false),
        };
        let (first, last) = (from / SLOTS, to / SLOTS);
        let mut change = Change::default();
        if (first..=last).all(|block| self.untouched(block)) {
            return Ok(change);
        }
        let mut next = (!self.untouched(first)).then(|| self.learned(first));
        let mut before: Option<Learned<R::Symbol>> = None;
        for block in first..=last {
            let old = next.take();
            next = (block < last && !self.untouched(block + 1)).then(|| self.learned(block + 1));
            // The block from which a slot comes in, if any.
            let neighbour = if up { &before } else { &next };
            if old.is_none() && neighbour.is_none() {
                before = None;
                continue;
            }
            let old = old.unwrap_or_else(|| Learned::nothing(0));
            let mut learned = old.clone();
            let low = if block == first { from % SLOTS } else { 0 };
            let high = if block == last { to % SLOTS } else { SLOTS - 1 };
            let (incoming, crosses) = if up {
                learned.slots.copy_within(low..high, low + 1);
                (low, block > first)
            } else {
                learned.slots.copy_within(low + 1..=high, low);
                (high, block < last)
            };
            learned.slots[incoming] = R::Symbol::default();
            let mut foreign = false;
            if crosses {
                let (epoch, symbol) =
                    neighbour.as_ref().map_or((0, R::Symbol::default()), |other| {
                        (other.epoch, other.slots[if up { SLOTS - 1 } else { 0 }])
                    });
                foreign = epoch != learned.epoch;
                if !foreign {
                    learned.slots[incoming] = symbol;
                }
            }
            before = Some(old);
            if let Some(state) = self.rule.encode(&learned) {
                change.states.push((block, state));
                if foreign {
                    // It brings a remainder of other hash functions.
                    let slot = block * SLOTS + incoming;
                    self.recompute(
                        slot..slot + 1,
                        block,
                        learned.epoch,
                        moving,
                        remote,
                        &mut change,
                    )?;
                }
            } else {
                let epoch = self.rule.next_epoch(learned.epoch);
                change.states.push((block, self.fresh_state(epoch)));
                change.spent += 1;
                if R::REMAINDERS_CHANGE {
                    let slots = block * SLOTS..(block + 1) * SLOTS;
                    self.recompute(slots, block, epoch, moving, remote, &mut change)?;
                }
            }
        }
        Ok(change)
    }

    /// The state of a block that has learned nothing in this epoch.
    fn fresh_state(&self, epoch: u8) -> [u8; MOST_STATE] {
        self.rule.encode(&Learned::nothing(epoch)).expect("to have learned nothing always fits")
    }

    /// Adds the remainders that slots of a block will have when they move there
    /// and have learned nothing.
    fn recompute(
        &self,
        slots: Range<usize>,
        block: usize,
        epoch: u8,
        moving: &Move,
        remote: &mut dyn Ordered,
        change: &mut Change,
    ) -> Result<()> {
        let owners = self.owners_around(block, remote)?;
        for slot in slots {
            let owner = match moving.source(slot) {
                Source::Digest(digest) => Some(digest),
                Source::Nobody => None,
                Source::Slot(source) => owners
                    .binary_search_by_key(&source, |(slot, _)| *slot)
                    .ok()
                    .map(|index| owners[index].1),
            };
            if let Some(digest) = owner {
                let symbol = R::Symbol::default();
                let remainder = self.rule.remainder(&self.place(digest), epoch, symbol);
                change.remainders.push((slot, remainder));
            }
        }
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        for (slot, remainder) in change.remainders {
            self.runs.set_remainder(slot, remainder);
        }
        for (block, state) in change.states {
            let bytes = self.runs.extra_mut(block);
            let len = bytes.len();
            bytes.copy_from_slice(&state[..len]);
        }
        self.counts.spent += change.spent;
    }

    /// The owners of a run's slots, as the remote has them now.
    fn owners_now(
        &self,
        quotient: usize,
        run: &Range<usize>,
        remote: &mut dyn Ordered,
    ) -> Result<Vec<Option<Digest>>> {
        let stored = self.digests(quotient..=quotient, remote)?;
        self.owners(run, &stored)
    }

    /// Puts a digest's slot at number `index` of its run, and the digest into
    /// the remote.
    fn put(&mut self, place: &Place, index: usize, remote: &mut dyn Ordered) -> Result<()> {
        let mut gap = self.runs.gap(place.quotient, index);
        let mut change = self.moved(&Move::Insertion(gap.shift, place.digest), remote)?;
        if change.spent != 0
            && let Some(run) = self.runs.run(place.quotient)
        {
            // With remainders that are recomputed, equal ones are no longer as
            // good as each other.
            let owners = self.owners_now(place.quotient, &run, remote)?;
            gap = self.runs.gap(place.quotient, number_among(&owners, place.digest));
            change = self.moved(&Move::Insertion(gap.shift, place.digest), remote)?;
        }
        let shift = gap.shift;
        let epoch = if self.untouched(shift.from / SLOTS) {
            0
        } else {
            self.learned(shift.from / SLOTS).epoch
        };
        remote.insert(place.digest).map_err(Error::Remote)?;
        let _ = self.runs.fill(gap, self.rule.remainder(place, epoch, R::Symbol::default()));
        self.apply(change);
        self.counts.kicks += (shift.to - shift.from) as u64;
        Ok(())
    }

    /// What taking slot number `index` out of a run takes.
    fn plan_removal(
        &self,
        quotient: usize,
        index: usize,
        remote: &mut dyn Ordered,
    ) -> Result<(Hole, Change)> {
        let hole = self.runs.hole(quotient, index);
        let change = self.moved(&Move::Removal(hole.shift), remote)?;
        Ok((hole, change))
    }

    fn take(&mut self, (hole, change): (Hole, Change)) {
        let shift = self.runs.close(hole);
        self.apply(change);
        self.counts.kicks += (shift.to - shift.from) as u64;
    }

    /// Changes the slots that are taken for the query's, which is not among the
    /// stored digests of its quotient.
    fn fix(
        &mut self,
        query: &Place,
        stored: &[Digest],
        remote: &mut dyn Ordered,
    ) -> Result<Adapted> {
        // Each turn takes out a slot without an owner, or else sets all others
        // apart; a block that forgets may bring one without an owner up.
        while self.holds(query) {
            let run = self.runs.run(query.quotient).expect("a false positive has a run");
            let owners = self.owners(&run, stored)?;
            let orphan = run.clone().zip(&owners).position(|(slot, owner)| {
                owner.is_none() && self.slot_holds(slot, self.runs.remainder(slot), query)
            });
            if let Some(index) = orphan {
                let removal = self.plan_removal(query.quotient, index, remote)?;
                self.take(removal);
                continue;
            }
            match self.plan_apart(query, &run, &owners, remote)? {
                Some(change) => self.apply(change),
                None => return Ok(Adapted::Unfixed),
            }
        }
        self.counts.adaptations += 1;
        Ok(Adapted::Fixed)
    }

    /// What blocks have to become so that no slot with an owner is taken for the
    /// query's; `None` when there is no way.
    fn plan_apart(
        &self,
        query: &Place,
        run: &Range<usize>,
        owners: &[Option<Digest>],
        remote: &mut dyn Ordered,
    ) -> Result<Option<Change>> {
        let mut change = Change::default();
        for block in blocks_of(run) {
            let slots = within(run, block);
            let owners = &owners[slots.start - run.start..slots.end - run.start];
            let old = self.learned(block);
            let mut learned = old.clone();
            let apart = self.set_apart(query, &slots, owners, &mut learned);
            if learned == old && apart.is_some() {
                continue;
            }
            let state = apart.and_then(|()| self.rule.encode(&learned));
            if let Some(state) = state {
                self.note_remainders(&slots, owners, &learned, &mut change);
                change.states.push((block, state));
                continue;
            }
            // Spent: everything is forgotten but the cause.
            let mut learned = Learned::nothing(self.rule.next_epoch(old.epoch));
            let apart = self.set_apart(query, &slots, owners, &mut learned);
            let Some(state) = apart.and_then(|()| self.rule.encode(&learned)) else {
                return Ok(None);
            };
            if R::REMAINDERS_CHANGE {
                for (slot, digest) in self.owners_around(block, remote)? {
                    if slot / SLOTS == block {
                        let symbol = learned.slots[slot % SLOTS];
                        let remainder =
                            self.rule.remainder(&self.place(digest), learned.epoch, symbol);
                        change.remainders.push((slot, remainder));
                    }
                }
            }
            change.states.push((block, state));
            change.spent += 1;
        }
        Ok(Some(change))
    }

    /// Lets slots learn until none is taken for the query's; `None` when one
    /// cannot.
    fn set_apart(
        &self,
        query: &Place,
        slots: &Range<usize>,
        owners: &[Option<Digest>],
        learned: &mut Learned<R::Symbol>,
    ) -> Option<()> {
        let epoch = learned.epoch;
        for (slot, owner) in slots.clone().zip(owners) {
            let Some(digest) = owner else { continue };
            let (owner, symbol) = (self.place(*digest), &mut learned.slots[slot % SLOTS]);
            let remainder = self.rule.remainder(&owner, epoch, *symbol);
            if self.rule.holds(remainder, query, epoch, *symbol) {
                *symbol = self.rule.apart(query, &owner, epoch, *symbol)?;
            }
        }
        Some(())
    }

    /// Adds the remainders that the slots of these owners will have.
    fn note_remainders(
        &self,
        slots: &Range<usize>,
        owners: &[Option<Digest>],
        learned: &Learned<R::Symbol>,
        change: &mut Change,
    ) {
        for (slot, owner) in slots.clone().zip(owners) {
            if let Some(digest) = owner {
                let symbol = learned.slots[slot % SLOTS];
                let remainder = self.rule.remainder(&self.place(*digest), learned.epoch, symbol);
                change.remainders.push((slot, remainder));
            }
        }
    }

    /// A filter of all digests of the remote and `extra`, with this many slots;
    /// `None` when they are too many.
    fn renewed(
        &self,
        capacity: usize,
        slots: usize,
        extra: Option<Digest>,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Self>> {
        let (width, extra_bytes) = (self.spec.f, self.spec.state_bytes());
        let Some(runs) = runs_of(remote, slots, width, extra_bytes)? else { return Ok(None) };
        let counts = Stats { capacity, ..Stats::default() };
        let mut fresh = Adaptive { rule: self.rule.clone(), runs, spec: self.spec, counts };
        if let Some(digest) = extra {
            if fresh.runs.len() == slots {
                return Ok(None);
            }
            let place = fresh.place(digest);
            let _ = fresh.runs.insert_in_order(place.quotient, place.remainder(width));
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

/// The number that a new digest's slot gets in a run with these owners.
fn number_among(owners: &[Option<Digest>], digest: Digest) -> usize {
    let smaller = |owner: &Option<Digest>| owner.is_some_and(|owner| owner < digest);
    owners.iter().rposition(smaller).map_or(0, |last| last + 1)
}

/// [`Filter::contains`].
struct Query<'a, R> {
    filter: &'a Adaptive<R>,
    words: [u64; 2],
}

impl<R: Rule> Work for Query<'_, R> {
    type Outcome = bool;

    #[inline(always)]
    fn run(self, words: impl Words) -> bool {
        self.filter.holds_with(words, &self.filter.place(Digest::new(self.words)))
    }
}

/// [`Filter::contains_many`].
struct Queries<'a, R> {
    filter: &'a Adaptive<R>,
    digests: &'a [Digest],
    found: &'a mut [bool],
}

impl<R: Rule> Work for Queries<'_, R> {
    type Outcome = ();

    #[inline(always)]
    fn run(self, words: impl Words) {
        let Queries { filter, digests, found } = self;
        probe_all(digests, found, &Probing { filter, words });
    }
}

/// The steps of many queries.
struct Probing<'a, R, W> {
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
    }

    #[inline(always)]
    fn test(&self, place: &Place) -> bool {
        self.filter.holds_with(self.words, place)
    }
}

impl<R: Rule> Build for Adaptive<R> {
    /// A filter's bins are its slots.
    fn empty(spec: Spec, capacity: usize, bins: usize) -> Self {
        let counts = Stats { capacity, ..Stats::default() };
        let runs = Runs::new(bins, spec.f, spec.state_bytes());
        Adaptive { rule: R::new(&spec), runs, spec, counts }
    }

    fn read(spec: Spec, mut reader: Reader<'_>) -> Result<Self> {
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
        if !(1..=Spec::MAX_BINS).contains(&slots) || !(1..=slots).contains(&counts.capacity) {
            let capacity = counts.capacity;
            return Err(Error::format(format!("{slots} slots have no capacity of {capacity}")));
        }
        let runs =
            Runs::from_bytes(blocks, slots, spec.f, spec.state_bytes()).map_err(Error::format)?;
        if runs.len() != len || len > slots {
            return Err(Error::format("its number of keys is not that of its remainders"));
        }
        let filter = Adaptive { rule: R::new(&spec), runs, spec, counts };
        filter.check_states().map_err(Error::format)?;
        Ok(filter)
    }
}

impl<R: Rule> Filter for Adaptive<R> {
    type Remote = dyn Ordered;

    #[inline]
    fn contains(&self, digest: Digest) -> bool {
        tuned(Query { filter: self, words: digest.words() })
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        tuned(Queries { filter: self, digests, found });
    }

    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        let place = self.place(digest);
        let index = match self.runs.run(place.quotient) {
            None => 0,
            Some(run) if self.in_order(&run) => {
                if self.run_holds(&run, &place) && stored(digest, remote)? {
                    return Ok(false);
                }
                self.runs.count_up_to(run, place.remainder(self.spec.f))
            }
            Some(run) => {
                let stored = self.digests(place.quotient..=place.quotient, remote)?;
                if stored.contains(&digest) {
                    return Ok(false);
                }
                number_among(&self.owners(&run, &stored)?, digest)
            }
        };
        let (len, capacity, slots) = (self.runs.len(), self.counts.capacity, self.runs.quotients());
        if len < slots {
            self.put(&place, index, remote)?;
            return Ok(true);
        }
        if self.spec.full != WhenFull::Grow {
            return Err(Error::Full { digest, len, capacity });
        }
        // Half as many slots again always have room for one more key.
        let size = self.spec.growth(capacity, slots).next();
        let (larger, more_slots) = size.expect("there is a next size")?;
        let renewed = self
            .renewed(larger, more_slots, Some(digest), remote)?
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
        let Some(index) = index else { return Ok(false) };
        let mut removal = self.plan_removal(place.quotient, index, remote)?;
        if removal.1.spent != 0 {
            // With remainders that are recomputed, equal ones are no longer as
            // good as each other.
            let owners = self.owners_now(place.quotient, &run, remote)?;
            let own = owners.iter().position(|owner| *owner == Some(digest));
            let Some(own) = own else { return Ok(false) };
            removal = self.plan_removal(place.quotient, own, remote)?;
        }
        if !remote.remove(digest).map_err(Error::Remote)? {
            return Ok(false);
        }
        self.take(removal);
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

    fn grow(&mut self, capacity: usize, remote: &mut Self::Remote) -> Result<()> {
        let slots = self.spec.bins_for(capacity)?;
        let renewed = self.renewed(capacity, slots, None, remote)?;
        let fits = renewed.filter(|renewed| renewed.runs.len() <= capacity);
        *self = fits.ok_or_else(|| self.spec.too_small(self.runs.len(), capacity))?;
        Ok(())
    }

    fn rebuild(&mut self, remote: &mut Self::Remote) -> Result<()> {
        let capacity = self.counts.capacity;
        let renewed = self.renewed(capacity, self.runs.quotients(), None, remote)?;
        *self = renewed.ok_or_else(|| self.spec.too_small(self.runs.len(), capacity))?;
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats {
            len: self.runs.len(),
            cells: self.runs.quotients(),
            bits: self.runs.bits(),
            ..self.counts
        }
    }

    fn spec(&self) -> Spec {
        self.spec
    }

    fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(&self.spec.to_string());
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
