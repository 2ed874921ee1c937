//! A larger filter that knows what the smaller one learned.
//!
//! What a slot has learned is said in terms of its key's digest, behind the bits
//! that quotient and first remainder come from, so it means the same in a table
//! of another size. Both filters have their slots in digest order: one pass over
//! the remote's digests goes through both.
//!
//! ```text
//! old     |   a   b     |   c   d     e |          slots, and what they learned
//! remote      a   b         c   d     e            by which slots find each other
//! fresh   | a     |   b     | c     d | e     |
//! ```
//!
//! Where blocks with different hash functions become one, it takes the latest,
//! and who came from another has learned nothing. So does a block whose budget
//! does not suffice.

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::remote::{EVERY_DIGEST, Ordered};
use alloc::vec::Vec;

use super::super::block::SLOTS;
use super::super::rule::{Learned, Rule};
use super::Adaptive;
use super::changes::Change;

impl<R: Rule> Adaptive<R> {
    /// Lets a filter of the remote's digests, and `extra` perhaps, that has
    /// learned nothing yet know what this one has.
    pub(super) fn teach(
        &self,
        fresh: &mut Self,
        extra: Option<Digest>,
        remote: &mut dyn Ordered,
    ) -> Result<()> {
        if (0..self.runs.block_count()).all(|block| self.untouched(block)) {
            return Ok(());
        }
        let mut lessons = Lessons {
            old: self,
            fresh,
            newcomer: extra,
            slots: fresh.runs.iter().flat_map(|(_, run)| run),
            quotient: 0,
            of_quotient: Vec::new(),
            block: 0,
            of_block: Vec::new(),
            change: Change::default(),
        };
        let mut extra = extra;
        remote
            .visit(EVERY_DIGEST, &mut |digest| {
                if let Some(newcomer) = extra.take_if(|newcomer| *newcomer < digest) {
                    lessons.come(newcomer);
                }
                lessons.come(digest);
            })
            .map_err(Error::Remote)?;
        extra.into_iter().for_each(|newcomer| lessons.come(newcomer));
        let change = lessons.finish();
        fresh.apply(change);
        Ok(())
    }
}

/// A digest's slot in the fresh filter, and what its old one knew.
struct Pupil<S> {
    slot: usize,
    digest: Digest,
    epoch: u8,
    symbol: S,
}

/// A pass over all digests, in order.
struct Lessons<'a, R: Rule, I> {
    old: &'a Adaptive<R>,
    fresh: &'a Adaptive<R>,
    /// Who the old filter does not know.
    newcomer: Option<Digest>,
    /// The fresh filter's slots that are left.
    slots: I,
    /// The old quotient that digests come of, and those that came.
    quotient: usize,
    of_quotient: Vec<Digest>,
    /// The fresh block that slots come of, and those that came.
    block: usize,
    of_block: Vec<Pupil<R::Symbol>>,
    change: Change,
}

impl<R: Rule, I: Iterator<Item = usize>> Lessons<'_, R, I> {
    fn come(&mut self, digest: Digest) {
        let quotient = self.old.place(digest).quotient;
        if quotient != self.quotient {
            self.end_quotient();
            self.quotient = quotient;
        }
        self.of_quotient.push(digest);
    }

    /// What the old slots of a quotient knew goes to the fresh slots.
    fn end_quotient(&mut self) {
        let digests = core::mem::take(&mut self.of_quotient);
        let run = self.old.runs.run(self.quotient).unwrap_or(0..0);
        // A filter that is older than its remote has no slots for some digests;
        // which it has for whom is then not certain, and nothing is learned.
        let stored: Vec<Digest> =
            digests.iter().copied().filter(|digest| Some(*digest) != self.newcomer).collect();
        let owners = self.old.owners(&run, &stored).unwrap_or_default();
        let mut known = run.zip(owners).filter_map(|(slot, owner)| Some((slot, owner?))).peekable();
        for digest in digests {
            let (epoch, symbol) = match known.next_if(|&(_, owner)| owner == digest) {
                Some((slot, _)) => {
                    self.old.rule.decode_one(self.old.runs.extra(slot / SLOTS), slot % SLOTS)
                }
                None => (0, R::Symbol::default()),
            };
            let slot = self.slots.next().expect("the fresh filter has a slot for each digest");
            if slot / SLOTS != self.block {
                self.end_block();
                self.block = slot / SLOTS;
            }
            self.of_block.push(Pupil { slot, digest, epoch, symbol });
        }
    }

    /// Notes what a fresh block has learned.
    fn end_block(&mut self) {
        let pupils = core::mem::take(&mut self.of_block);
        let epoch = pupils.iter().map(|pupil| pupil.epoch).max().unwrap_or(0);
        let mut learned = Learned::nothing(epoch);
        for pupil in pupils.iter().filter(|pupil| pupil.epoch == epoch) {
            learned.slots[pupil.slot % SLOTS] = pupil.symbol;
        }
        if learned == Learned::nothing(0) {
            return;
        }
        let rule = &self.fresh.rule;
        let state = rule.encode(&learned).or_else(|| {
            learned = Learned::nothing(rule.next_epoch(epoch));
            rule.encode(&learned)
        });
        let state = state.expect("a block that has learned nothing is within any budget");
        self.change.states.push((self.block, state));
        self.change.remainders.extend(pupils.iter().map(|pupil| {
            let symbol = learned.slots[pupil.slot % SLOTS];
            let place = self.fresh.place(pupil.digest);
            (pupil.slot, rule.remainder(&place, learned.epoch, symbol))
        }));
    }

    fn finish(mut self) -> Change {
        self.end_quotient();
        self.end_block();
        self.change
    }
}
