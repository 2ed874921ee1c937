//! How a filter is made: empty, from a file, or anew from its remote.

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};

use super::super::append::runs_of;
use super::super::block::{Layout, SLOTS};
use super::super::common;
use super::super::params::Quotient as _;
use super::super::runs::Runs;
use super::super::search::Search;
use super::Adaptive;
use super::departed::Departed;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::Stats;
use crate::format::Reader;
use crate::make::{Build, Grow, histogram};
use crate::params::Params as _;
use crate::remote::Ordered;
use crate::steps;

/// What becomes of the slot states.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    Kept,
    Forgotten,
}

impl<R: Search> Adaptive<R> {
    /// A filter of all digests of the remote and `newcomer`, with this many slots;
    /// `None` if there are more digests than slots.
    pub(super) fn renewed(
        &self,
        capacity: usize,
        slots: usize,
        newcomer: Option<Digest>,
        past: Past,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Self>> {
        let (width, state_bytes) = (self.params.slots().f, self.params.state_bytes());
        let Some(runs) = runs_of(remote, slots, width, state_bytes)? else { return Ok(None) };
        let counts = Stats { capacity, ..Stats::default() };
        let (rule, departed) = (self.rule.clone(), Departed::default());
        let mut fresh = Adaptive { rule, runs, departed, params: self.params, counts };
        if let Some(digest) = newcomer {
            if fresh.runs.len() == slots {
                return Ok(None);
            }
            let place = fresh.place(digest);
            let _ = fresh.runs.insert_in_order(place.quotient, place.remainder(width));
        }
        if past == Past::Kept {
            self.copy_states(&mut fresh, newcomer, remote)?;
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

    /// The invariants that need no remote.
    pub(super) fn check_states(&self) -> Result<(), String> {
        let mut used = vec![false; self.runs.block_count() * SLOTS];
        self.runs.iter().flat_map(|(_, run)| run).for_each(|slot| used[slot] = true);
        for (block, used) in used.chunks(SLOTS).enumerate() {
            let block_state = self.decoded(block);
            let stray =
                |&slot: &usize| !used[slot] && block_state.slots[slot] != R::SlotState::default();
            if let Some(slot) = (0..SLOTS).find(stray) {
                return Err(format!("slot {slot} of block {block} is empty and has a state"));
            }
            if self.rule.encode(&block_state).is_none() {
                return Err(format!("block {block} has a state that exceeds its budget"));
            }
        }
        Ok(())
    }
}

impl<R: Search> Build for Adaptive<R> {
    type Params = R::Params;

    /// A filter's bins are its slots.
    fn empty(params: R::Params, capacity: usize, bins: usize) -> Self {
        let counts = Stats { capacity, ..Stats::default() };
        let runs = Runs::new(bins, params.slots().f, params.state_bytes());
        Adaptive { rule: R::new(&params), runs, departed: Departed::default(), params, counts }
    }

    fn read(params: R::Params, reader: Reader<'_>) -> Result<Self> {
        let (runs, counts) = common::read(&params, reader, |reader, counts| {
            counts.adaptations = reader.counter("the adaptations")?;
            counts.spent = reader.counter("the spent blocks")?;
            Ok(())
        })?;
        let (rule, departed) = (R::new(&params), Departed::default());
        let filter = Adaptive { rule, runs, departed, params, counts };
        filter.check_states().map_err(Error::format)?;
        Ok(filter)
    }

    fn params(&self) -> R::Params {
        self.params
    }

    fn states(&self) -> Vec<usize> {
        histogram(self.slot_states().map(|slot_state| self.rule.depth(slot_state).into()))
    }

    fn decodes(&self, digest: Digest) -> usize {
        let place = self.place(digest);
        let Some(mut run) = self.runs.run(place.quotient) else { return 0 };
        let mut decodes = 0;
        let _ = run.any(|slot| {
            let remainder = self.runs.remainder(slot);
            let (state, index) = (self.runs.state(slot / SLOTS), slot % SLOTS);
            let decodes_here = self.rule.undecoded(state, index, remainder, &place).is_none();
            decodes += usize::from(decodes_here);
            self.slot_holds(slot, remainder, &place)
        });
        decodes
    }
}

impl<R: Search> Grow for Adaptive<R> {
    fn layout(&self) -> Option<Layout> {
        Some(self.runs.layout())
    }

    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self> {
        let slots = self.params.bins_for(capacity)?;
        let renewed = self.renewed(capacity, slots, None, Past::Kept, remote)?;
        steps::fitting(self, renewed, capacity)
    }
}
