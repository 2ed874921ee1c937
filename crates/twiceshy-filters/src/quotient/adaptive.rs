//! The adaptive quotient filters, over any [`Rule`](super::rule::Rule).
//!
//! Lee, McCauley, Singh, Stein: "Telescoping Filter", sections 3 and 5. A slot
//! holds a remainder of its key, and its block's state holds the slot's selector or
//! extension: the *slot state*, which false positives change. A rule says what slot states
//! mean and how a block encodes its 64 of them. This file moves them with their slots, and
//! handles blocks whose budget is spent.
//!
//! ```text
//! slot      ...  62     63  |  64     65     66   ...
//! insert           \      \ |    \      \
//! at 62            63      64     65     66        remainders, and slot states across
//!                                                  blocks: decode, move, encode
//! ```
//!
//! Runs are in digest order, so the remote's digests of a quotient are the owners
//! of its run's slots, in order: no map from slots to keys is needed. Owners are found in
//! order, each at the first slot that can be its own; a slot whose owner is gone from the
//! remote, after a crash say, is skipped.
//!
//! `adaptive/changes.rs` plans and makes changes; `adaptive/departed.rs` keeps the slot
//! state of a key that is removed and inserted again.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};

use crate::bits::word::{tuned, tuned_on};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter, Stats, sealed::Sealed};
use crate::make::{self, Grow};
use crate::params::{WhenFull, too_small};
use crate::remote::{Ordered, stored};
use crate::steps;

use super::block::SLOTS;
use super::common;
use super::params::Quotient as _;
use super::place::{Place, digests_of};
use super::rule::BlockState;
use super::runs::{Gap, Runs};
use super::search::Search;

mod changes;
pub(crate) mod departed;
mod growth;
mod made;
mod queries;

use changes::{blocks_of, number_among, within};
use departed::Departed;
use made::Past;
use queries::{Queries, Query};

/// A quotient filter that adapts to false positives, with an [`Ordered`] remote.
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
pub struct Adaptive<R: Search> {
    rule: R,
    pub(super) runs: Runs,
    departed: Departed,
    params: R::Params,
    counts: Stats,
}

impl<R: Search> Adaptive<R> {
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

    /// [`DigestFilter::adapt`] for a caller that has read the stored digests of the
    /// query's [range](DigestFilter::range), in order. The remote is read again only if a
    /// block's budget is spent and its remainders have to be recomputed, or if the list
    /// cannot be that of the range. A stale list may cause false negatives.
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
        // Slots without an owner are removed, so the list has to be right.
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

    /// The states of all occupied slots, in order: for statistics.
    pub fn slot_states(&self) -> impl Iterator<Item = R::SlotState> + '_ {
        let mut last = None;
        self.runs.iter().flat_map(|(_, run)| run).map(move |slot| {
            let block = slot / SLOTS;
            if last.as_ref().is_none_or(|(held, _)| *held != block) {
                last = Some((block, self.decoded(block)));
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

    /// Whether a run has a slot that may be the digest's.
    fn run_holds(&self, run: &Range<usize>, place: &Place) -> bool {
        run.clone().any(|slot| self.slot_holds(slot, self.runs.remainder(slot), place))
    }

    /// Whether a slot may be the digest's.
    fn slot_holds(&self, slot: usize, remainder: u64, place: &Place) -> bool {
        let (state, index) = (self.runs.state(slot / SLOTS), slot % SLOTS);
        self.rule.undecoded(state, index, remainder, place).unwrap_or_else(|| {
            let (epoch, slot_state) = self.rule.decode_one(state, index);
            self.rule.holds(remainder, place, epoch, slot_state)
        })
    }

    /// The state of a block.
    fn decoded(&self, block: usize) -> BlockState<R::SlotState> {
        // A block that an insertion is about to add.
        if block == self.runs.block_count() {
            return BlockState::unadapted(0);
        }
        self.rule.decode(self.runs.state(block))
    }

    /// The epoch of a block.
    fn epoch(&self, block: usize) -> u8 {
        if self.untouched(block) { 0 } else { self.decoded(block).epoch }
    }

    /// Whether a block has not adapted.
    fn untouched(&self, block: usize) -> bool {
        // All bytes, without a branch for each.
        block == self.runs.block_count()
            || self.runs.state(block).iter().fold(0, |any, &byte| any | byte) == 0
    }

    /// Whether no slot of a run has adapted. Its remainders are then in order, and slots
    /// with equal ones are interchangeable; so is the slot behind the run, unless its block
    /// has an epoch.
    ///
    /// A slot without an owner may be out of order in any state.
    fn in_order(&self, run: &Range<usize>) -> bool {
        self.runs.are_sorted(run.clone())
            && blocks_of(&(run.start..run.end + 1)).all(|block| {
                self.untouched(block) || {
                    let block_state = self.decoded(block);
                    let nothing =
                        |slot: usize| block_state.slots[slot % SLOTS] == R::SlotState::default();
                    block_state.epoch == 0 && within(run, block).all(nothing)
                }
            })
    }

    /// Whether the next key makes the filter grow, or is handed back.
    fn is_full(&self) -> bool {
        let (capacity, slots) = (self.counts.capacity, self.runs.quotients());
        self.runs.len() >= self.params.slots().full.most_keys(capacity, slots)
    }

    /// Where a digest's slot goes if nothing else changes, as is usual while blocks have
    /// not adapted: there is room, no slot matches the digest, and no block on the way
    /// has adapted.
    fn gap_among_untouched(&self, place: &Place) -> Option<Gap> {
        if self.is_full() {
            return None;
        }
        let gap = self.runs.gap_in_order(place.quotient, place.remainder(self.params.slots().f))?;
        let mut blocks = gap.start / SLOTS..=gap.shift.to / SLOTS;
        blocks.all(|block| self.untouched(block)).then_some(gap)
    }
}

impl<R: Search> Sealed for Adaptive<R> {}

impl<R: Search> DigestFilter for Adaptive<R> {
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
        // The remote prepares while the block is loaded.
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
            // Equal remainders do not say where the slot of a departed key belongs.
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
        let (len, capacity) = (self.runs.len(), self.counts.capacity);
        if self.params.slots().full != WhenFull::Grow {
            return Err(Error::Full { digest, len, capacity });
        }
        let (larger, more_slots) = common::next_size(&self.params, &self.runs, capacity)?;
        let renewed = self
            .renewed(larger, more_slots, Some(digest), Past::Kept, remote)?
            .ok_or(Error::Full { digest, len, capacity })?;
        steps::insert_renewed(self, renewed, digest, remote)
    }

    fn remove(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        let place = self.place(digest);
        let Some(run) = self.runs.run(place.quotient).filter(|run| self.run_holds(run, &place))
        else {
            return Ok(false);
        };
        let index = if self.in_order(&run) {
            let remainder = self.rule.remainder(&place, 0, R::SlotState::default());
            run.clone().position(|slot| self.runs.remainder(slot) == remainder)
        } else {
            let owners = self.owners_now(place.quotient, &run, remote)?;
            owners.iter().position(|owner| *owner == Some(digest))
        };
        let Some(mut index) = index else { return Ok(false) };
        let mut removal = self.plan_removal(place.quotient, index, remote)?;
        if removal.1.spent != 0 {
            // Slots with equal remainders differ once these are recomputed.
            let owners = self.owners_now(place.quotient, &run, remote)?;
            let own = owners.iter().position(|owner| *owner == Some(digest));
            let Some(own) = own else { return Ok(false) };
            index = own;
            removal = self.plan_removal(place.quotient, index, remote)?;
        }
        let slot = run.start + index;
        let state = self.runs.state(slot / SLOTS);
        let (epoch, slot_state) = self.rule.decode_one(state, slot % SLOTS);
        if !remote.remove(digest).map_err(Error::Remote)? {
            return Ok(false);
        }
        self.take(removal);
        let (depth, slots) = (self.rule.depth(slot_state), self.runs.quotients());
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

    /// The digests with its quotient: only these can make it a false positive.
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
        let stats = common::stats(&self.runs, self.counts);
        Stats { bits: stats.bits + self.departed.bits(), ..stats }
    }

    fn description(&self) -> String {
        self.params.to_string()
    }

    fn save(&self) -> Vec<u8> {
        let Stats { adaptations, spent, .. } = self.counts;
        common::save(&self.params, &self.runs, &self.counts, &[adaptations, spent])
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        self.runs.check()?;
        self.check_states()?;
        self.departed.check()?;
        let slots =
            self.runs.iter().flat_map(|(quotient, run)| run.map(move |slot| (quotient, slot)));
        common::check_owners(slots, remote, |digest, (quotient, slot)| {
            let place = self.place(digest);
            let (epoch, slot_state) =
                self.rule.decode_one(self.runs.state(slot / SLOTS), slot % SLOTS);
            quotient == place.quotient
                && self.rule.holds(self.runs.remainder(slot), &place, epoch, slot_state)
                && self.holds(&place)
        })
    }
}

#[cfg(test)]
mod tests;
