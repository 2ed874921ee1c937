//! How slots, their states and their owners change together.
//!
//! A change is planned with reads alone, while filter and remote agree; then one call
//! writes the remote; then the filter changes. A failure before that changes nothing.

use alloc::format;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::Adapted;
use crate::remote::{Ordered, collected};

use super::super::block::SLOTS;
use super::super::place::{Place, digests_of};
use super::super::rule::{BlockState, MOST_STATE};
use super::super::runs::{Hole, Shift};
use super::super::search::Search;
use super::Adaptive;

/// New states and remainders of some blocks.
#[derive(Default)]
pub(super) struct Change {
    pub(super) states: Vec<(usize, [u8; MOST_STATE])>,
    pub(super) remainders: Vec<(usize, u64)>,
    pub(super) spent: u64,
}

/// How slots move. An inserted digest may come with a state that it had before.
enum Move<S> {
    Insertion(Shift, Digest, S),
    Removal(Shift),
}

impl<S> Move<S> {
    /// Where the content of this slot will come from.
    fn source(&self, slot: usize) -> Source {
        match *self {
            Move::Insertion(Shift { from, .. }, digest, _) if slot == from => {
                Source::Digest(digest)
            }
            Move::Insertion(Shift { from, to }, ..) if (from + 1..=to).contains(&slot) => {
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
pub(super) fn within(slots: &Range<usize>, block: usize) -> Range<usize> {
    slots.start.max(block * SLOTS)..slots.end.min((block + 1) * SLOTS)
}

/// The blocks of a range of slots.
pub(super) fn blocks_of(slots: &Range<usize>) -> Range<usize> {
    slots.start / SLOTS..slots.end.div_ceil(SLOTS)
}

impl<R: Search> Adaptive<R> {
    /// The remote's digests of these quotients.
    pub(super) fn digests(
        &self,
        quotients: RangeInclusive<usize>,
        remote: &mut dyn Ordered,
    ) -> Result<Vec<Digest>> {
        let range = digests_of(quotients, self.runs.quotients());
        collected(|visitor| remote.visit(range, visitor))
    }

    /// The owners of a run's slots, from the remote's digests of its quotient:
    /// in order, each at the first slot that can be its own.
    pub(super) fn owners(
        &self,
        run: &Range<usize>,
        stored: &[Digest],
    ) -> Result<Vec<Option<Digest>>> {
        let mut left = stored.iter().copied().peekable();
        let mut owners = Vec::with_capacity(run.len());
        for block in blocks_of(run) {
            let block_state = self.decoded(block);
            for slot in within(run, block) {
                let (remainder, slot_state) =
                    (self.runs.remainder(slot), block_state.slots[slot % SLOTS]);
                owners.push(left.next_if(|&digest| {
                    self.rule.holds(remainder, &self.place(digest), block_state.epoch, slot_state)
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

    /// The change of blocks when slots move. Blocks and remainders are still as before.
    fn moved(&self, moving: &Move<R::SlotState>, remote: &mut dyn Ordered) -> Result<Change> {
        let unadapted = R::SlotState::default();
        let (Shift { from, to }, up, known) = match *moving {
            Move::Insertion(shift, _, known) => (shift, true, known),
            Move::Removal(shift) => (shift, false, unadapted),
        };
        let (first, last) = (from / SLOTS, to / SLOTS);
        let mut change = Change::default();
        if known == unadapted && (first..=last).all(|block| self.untouched(block)) {
            return Ok(change);
        }
        let mut next = (!self.untouched(first)).then(|| self.decoded(first));
        let mut before: Option<BlockState<R::SlotState>> = None;
        for block in first..=last {
            let old = next.take();
            next = (block < last && !self.untouched(block + 1)).then(|| self.decoded(block + 1));
            // The block from which a slot comes in, if any.
            let neighbour = if up { &before } else { &next };
            let arrival = if up && block == first { known } else { unadapted };
            if old.is_none() && neighbour.is_none() && arrival == unadapted {
                before = None;
                continue;
            }
            let old = old.unwrap_or_else(|| BlockState::unadapted(0));
            let mut block_state = old.clone();
            let low = if block == first { from % SLOTS } else { 0 };
            let high = if block == last { to % SLOTS } else { SLOTS - 1 };
            let (incoming, crosses) = if up {
                block_state.slots.copy_within(low..high, low + 1);
                (low, block > first)
            } else {
                block_state.slots.copy_within(low + 1..=high, low);
                (high, block < last)
            };
            block_state.slots[incoming] = arrival;
            let mut foreign = false;
            if crosses {
                let (epoch, slot_state) = neighbour.as_ref().map_or((0, unadapted), |other| {
                    (other.epoch, other.slots[if up { SLOTS - 1 } else { 0 }])
                });
                foreign = epoch != block_state.epoch;
                if !foreign {
                    block_state.slots[incoming] = slot_state;
                }
            }
            before = Some(old);
            if let Some(state) = self.rule.encode(&block_state) {
                change.states.push((block, state));
                if foreign {
                    // Its remainder is of another epoch.
                    let slot = block * SLOTS + incoming;
                    self.recompute(
                        slot..slot + 1,
                        block,
                        block_state.epoch,
                        moving,
                        remote,
                        &mut change,
                    )?;
                }
            } else {
                let epoch = self.rule.next_epoch(block_state.epoch);
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

    /// The state of a block that has not adapted in this epoch.
    fn fresh_state(&self, epoch: u8) -> [u8; MOST_STATE] {
        self.rule
            .encode(&BlockState::unadapted(epoch))
            .expect("the state of an unadapted block fits")
    }

    /// Adds the remainders that slots of a block will have when they move there,
    /// unadapted.
    fn recompute(
        &self,
        slots: Range<usize>,
        block: usize,
        epoch: u8,
        moving: &Move<R::SlotState>,
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
                let slot_state = R::SlotState::default();
                let remainder = self.rule.remainder(&self.place(digest), epoch, slot_state);
                change.remainders.push((slot, remainder));
            }
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, change: Change) {
        for (slot, remainder) in change.remainders {
            self.runs.set_remainder(slot, remainder);
        }
        for (block, state) in change.states {
            let bytes = self.runs.state_mut(block);
            let len = bytes.len();
            bytes.copy_from_slice(&state[..len]);
        }
        self.counts.spent += change.spent;
    }

    /// The owners of a run's slots, as the remote has them now.
    pub(super) fn owners_now(
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
    pub(super) fn put(
        &mut self,
        place: &Place,
        index: usize,
        remote: &mut dyn Ordered,
    ) -> Result<()> {
        let unadapted = R::SlotState::default();
        let mut gap = self.runs.gap(place.quotient, index);
        let mut epoch = self.epoch(gap.shift.from / SLOTS);
        let depth = self.departed.recall(place.digest, epoch);
        let mut known = self.rule.at_depth(place, depth);
        let mut change = self.moved(&Move::Insertion(gap.shift, place.digest, known), remote)?;
        if change.spent != 0 && known != unadapted {
            // The other slots keep their states, not this one.
            known = unadapted;
            change = self.moved(&Move::Insertion(gap.shift, place.digest, known), remote)?;
        }
        if change.spent != 0
            && let Some(run) = self.runs.run(place.quotient)
        {
            // Slots with equal remainders differ once these are recomputed.
            let owners = self.owners_now(place.quotient, &run, remote)?;
            gap = self.runs.gap(place.quotient, number_among(&owners, place.digest));
            epoch = self.epoch(gap.shift.from / SLOTS);
            change = self.moved(&Move::Insertion(gap.shift, place.digest, known), remote)?;
        }
        let shift = gap.shift;
        remote.insert(place.digest).map_err(Error::Remote)?;
        let _ = self.runs.fill(gap, self.rule.remainder(place, epoch, known));
        self.apply(change);
        if known != unadapted {
            self.departed.forget(place.digest, epoch);
        }
        self.counts.kicks += (shift.to - shift.from) as u64;
        Ok(())
    }

    /// Plans to take slot number `index` out of a run.
    pub(super) fn plan_removal(
        &self,
        quotient: usize,
        index: usize,
        remote: &mut dyn Ordered,
    ) -> Result<(Hole, Change)> {
        let hole = self.runs.hole(quotient, index);
        let change = self.moved(&Move::Removal(hole.shift), remote)?;
        Ok((hole, change))
    }

    pub(super) fn take(&mut self, (hole, change): (Hole, Change)) {
        let shift = self.runs.close(hole);
        self.apply(change);
        self.counts.kicks += (shift.to - shift.from) as u64;
    }

    /// Changes the slots that match the query, which is not among the stored digests of
    /// its quotient.
    pub(super) fn fix(
        &mut self,
        query: &Place,
        stored: &[Digest],
        remote: &mut dyn Ordered,
    ) -> Result<Adapted> {
        // Each turn takes out a slot without an owner, or else adapts all others. A block
        // that forgets its state may make another slot without an owner match.
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
            match self.plan_adaptation(query, &run, &owners, remote)? {
                Some(change) => self.apply(change),
                None => return Ok(Adapted::Unfixed),
            }
            if self.rule.adapts_once() {
                break;
            }
        }
        self.counts.adaptations += 1;
        let fixed = !self.rule.adapts_once() || !self.holds(query);
        Ok(if fixed { Adapted::Fixed } else { Adapted::Unfixed })
    }

    /// The change after which no slot with an owner matches the query; `None` if there is
    /// none.
    fn plan_adaptation(
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
            let old = self.decoded(block);
            let mut block_state = old.clone();
            let adapted = self.adapt_slots(query, &slots, owners, &mut block_state);
            if block_state == old && adapted.is_some() {
                continue;
            }
            let state = adapted.and_then(|()| self.rule.encode(&block_state));
            if let Some(state) = state {
                self.note_remainders(&slots, owners, &block_state, &mut change);
                change.states.push((block, state));
                continue;
            }
            // Spent: the block forgets its state and adapts to this query alone.
            let mut block_state = BlockState::unadapted(self.rule.next_epoch(old.epoch));
            let adapted = self.adapt_slots(query, &slots, owners, &mut block_state);
            let Some(state) = adapted.and_then(|()| self.rule.encode(&block_state)) else {
                return Ok(None);
            };
            if R::REMAINDERS_CHANGE {
                for (slot, digest) in self.owners_around(block, remote)? {
                    if slot / SLOTS == block {
                        let slot_state = block_state.slots[slot % SLOTS];
                        let remainder =
                            self.rule.remainder(&self.place(digest), block_state.epoch, slot_state);
                        change.remainders.push((slot, remainder));
                    }
                }
            }
            change.states.push((block, state));
            change.spent += 1;
        }
        Ok(Some(change))
    }

    /// Adapts slots until none matches the query; `None` if one cannot.
    fn adapt_slots(
        &self,
        query: &Place,
        slots: &Range<usize>,
        owners: &[Option<Digest>],
        block_state: &mut BlockState<R::SlotState>,
    ) -> Option<()> {
        let epoch = block_state.epoch;
        for (slot, owner) in slots.clone().zip(owners) {
            let Some(digest) = owner else { continue };
            let (owner, slot_state) = (self.place(*digest), &mut block_state.slots[slot % SLOTS]);
            let remainder = self.rule.remainder(&owner, epoch, *slot_state);
            if self.rule.holds(remainder, query, epoch, *slot_state) {
                *slot_state = self.rule.adapted(query, &owner, epoch, *slot_state)?;
            }
        }
        Some(())
    }

    /// Adds the remainders that the slots of these owners will have.
    fn note_remainders(
        &self,
        slots: &Range<usize>,
        owners: &[Option<Digest>],
        block_state: &BlockState<R::SlotState>,
        change: &mut Change,
    ) {
        for (slot, owner) in slots.clone().zip(owners) {
            if let Some(digest) = owner {
                let slot_state = block_state.slots[slot % SLOTS];
                let remainder =
                    self.rule.remainder(&self.place(*digest), block_state.epoch, slot_state);
                change.remainders.push((slot, remainder));
            }
        }
    }
}

/// The number that a new digest's slot gets in a run with these owners.
pub(super) fn number_among(owners: &[Option<Digest>], digest: Digest) -> usize {
    let smaller = |owner: &Option<Digest>| owner.is_some_and(|owner| owner < digest);
    owners.iter().rposition(smaller).map_or(0, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: usize = 100;
    const NOBODY: usize = 101;

    /// What a slot will have: the number of the slot that has it now, or one of these.
    fn number(source: &Source, digest: Digest) -> usize {
        match *source {
            Source::Digest(new) if new == digest => NEW,
            Source::Digest(other) => panic!("{other:?} is no newcomer"),
            Source::Slot(slot) => slot,
            Source::Nobody => NOBODY,
        }
    }

    /// Every shift among ten slots, as a list shows it.
    #[test]
    fn slots_get_what_a_list_gets_by_an_insertion_or_a_removal() {
        let digest = Digest::new([3, 4]);
        for (from, to) in (0..10).flat_map(|from| (from..10).map(move |to| (from, to))) {
            let mut inserted: Vec<usize> = (0..10).collect();
            inserted.remove(to);
            inserted.insert(from, NEW);
            let mut removed: Vec<usize> = (0..10).collect();
            removed.remove(from);
            removed.insert(to, NOBODY);
            let insertion = Move::Insertion(Shift { from, to }, digest, ());
            let removal = Move::<()>::Removal(Shift { from, to });
            for (moving, wanted) in [(insertion, inserted), (removal, removed)] {
                let sources: Vec<usize> =
                    (0..10).map(|slot| number(&moving.source(slot), digest)).collect();
                assert_eq!(sources, wanted, "{from} to {to}");
            }
        }
    }
}
