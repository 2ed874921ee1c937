//! A larger filter with the slot states of the smaller one.
//!
//! A slot's state is defined by bits of its key's digest behind those of quotient and first
//! remainder, so it means the same in a table of another size. Both filters have their slots
//! in digest order: one pass over the remote's digests goes through both.
//!
//! ```text
//! old     |   a   b     |   c   d     e |          slots with their states
//! remote      a   b         c   d     e            pairs up old and fresh slots
//! fresh   | a     |   b     | c     d | e     |
//! ```
//!
//! Where blocks of different epochs become one, it takes the latest, and slots from the
//! others start unadapted. So does a whole block if the states exceed its budget.

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::remote::{EVERY_DIGEST, Ordered};
use alloc::vec::Vec;

use super::super::block::SLOTS;
use super::super::rule::BlockState;
use super::super::search::Search;
use super::Adaptive;
use super::changes::Change;

impl<R: Search> Adaptive<R> {
    /// Copies all slot states to an unadapted filter of the remote's digests and
    /// perhaps `newcomer`.
    pub(super) fn copy_states(
        &self,
        fresh: &mut Self,
        newcomer: Option<Digest>,
        remote: &mut dyn Ordered,
    ) -> Result<()> {
        if (0..self.runs.block_count()).all(|block| self.untouched(block)) {
            return Ok(());
        }
        let mut copying = Copying {
            old: self,
            fresh,
            newcomer,
            slots: fresh.runs.iter().flat_map(|(_, run)| run),
            quotient: 0,
            of_quotient: Vec::new(),
            block: 0,
            of_block: Vec::new(),
            change: Change::default(),
        };
        let mut waiting = newcomer;
        remote
            .visit(EVERY_DIGEST, &mut |digest| {
                if let Some(newcomer) = waiting.take_if(|newcomer| *newcomer < digest) {
                    copying.add(newcomer);
                }
                copying.add(digest);
            })
            .map_err(Error::Remote)?;
        waiting.into_iter().for_each(|newcomer| copying.add(newcomer));
        let change = copying.finish();
        fresh.apply(change);
        Ok(())
    }
}

/// A digest's slot in the fresh filter, with epoch and state of the old one.
struct Copied<S> {
    slot: usize,
    digest: Digest,
    epoch: u8,
    slot_state: S,
}

/// A pass over all digests, in order.
struct Copying<'a, R: Search, I> {
    old: &'a Adaptive<R>,
    fresh: &'a Adaptive<R>,
    /// The digest that the old filter does not have.
    newcomer: Option<Digest>,
    /// The fresh filter's slots that are left.
    slots: I,
    /// The old quotient of the digests that come now, and those that came.
    quotient: usize,
    of_quotient: Vec<Digest>,
    /// The fresh block of the slots that come now, and those that came.
    block: usize,
    of_block: Vec<Copied<R::SlotState>>,
    change: Change,
}

impl<R: Search, I: Iterator<Item = usize>> Copying<'_, R, I> {
    fn add(&mut self, digest: Digest) {
        let quotient = self.old.place(digest).quotient;
        if quotient != self.quotient {
            self.end_quotient();
            self.quotient = quotient;
        }
        self.of_quotient.push(digest);
    }

    /// Gives the states of a quotient's old slots to its fresh slots.
    fn end_quotient(&mut self) {
        let digests = core::mem::take(&mut self.of_quotient);
        let run = self.old.runs.run(self.quotient).unwrap_or(0..0);
        // A filter that is older than its remote has no slots for some digests. Which slot
        // is whose is then uncertain, and no state is copied.
        let stored: Vec<Digest> =
            digests.iter().copied().filter(|digest| Some(*digest) != self.newcomer).collect();
        let owners = self.old.owners(&run, &stored).unwrap_or_default();
        let mut known = run.zip(owners).filter_map(|(slot, owner)| Some((slot, owner?))).peekable();
        for digest in digests {
            let (epoch, slot_state) = match known.next_if(|&(_, owner)| owner == digest) {
                Some((slot, _)) => {
                    self.old.rule.decode_one(self.old.runs.state(slot / SLOTS), slot % SLOTS)
                }
                None => (0, R::SlotState::default()),
            };
            let slot = self.slots.next().expect("the fresh filter has a slot for each digest");
            if slot / SLOTS != self.block {
                self.end_block();
                self.block = slot / SLOTS;
            }
            self.of_block.push(Copied { slot, digest, epoch, slot_state });
        }
    }

    /// Notes the state of a fresh block.
    fn end_block(&mut self) {
        let copied = core::mem::take(&mut self.of_block);
        let epoch = copied.iter().map(|copy| copy.epoch).max().unwrap_or(0);
        let mut block_state = BlockState::unadapted(epoch);
        for copy in copied.iter().filter(|copy| copy.epoch == epoch) {
            block_state.slots[copy.slot % SLOTS] = copy.slot_state;
        }
        if block_state == BlockState::unadapted(0) {
            return;
        }
        let rule = &self.fresh.rule;
        let state = rule.encode(&block_state).or_else(|| {
            block_state = BlockState::unadapted(rule.next_epoch(epoch));
            rule.encode(&block_state)
        });
        let state = state.expect("the state of an unadapted block fits");
        self.change.states.push((self.block, state));
        self.change.remainders.extend(copied.iter().map(|copy| {
            let slot_state = block_state.slots[copy.slot % SLOTS];
            let place = self.fresh.place(copy.digest);
            (copy.slot, rule.remainder(&place, block_state.epoch, slot_state))
        }));
    }

    fn finish(mut self) -> Change {
        self.end_quotient();
        self.end_block();
        self.change
    }
}
