//! How a query searches a run: all remainders of the digest against all slots at once.

use core::ops::Range;

use super::super::block::{Bytes, SLOTS, Within};
use super::super::place::Place;
use super::super::rule::Rule as _;
use super::super::runs::Runs;
use super::super::search::Search;
use super::Telescoping;
use crate::bits::bytes::Candidates;
use crate::bits::word::Words;

/// What a query needs to know of a block's state, which it has in one load.
#[derive(Clone)]
pub(super) struct AtOnce {
    /// The bits of its code.
    pub(super) code: u64,
    /// The bits of its epoch.
    pub(super) epoch: u64,
    /// Entry `n`: the first code whose first `n` selectors are not all 0.
    pub(super) zeros: [u64; SLOTS + 1],
}

impl AtOnce {
    /// Whether one of these slots, or of those before them in the block, has adapted.
    #[inline(always)]
    fn any_adapted(&self, slots: Bytes) -> bool {
        slots.state & self.code >= self.zeros[slots.end]
    }

    /// Whether one of these slots may hold one of the remainders.
    #[inline(always)]
    fn any(&self, words: impl Words, slots: Bytes, first: u64, others: u64) -> bool {
        // If no slot up to the last of them has adapted, all hold remainder 0.
        let lens = [slots.len, if self.any_adapted(slots) { slots.len } else { 0 }];
        words.any_byte(slots.held, Candidates { first: first as u8, others, lens })
    }
}

impl Search for Telescoping {
    #[inline(always)]
    fn may_be_in(&self, words: impl Words, runs: &Runs, run: &Range<usize>, place: &Place) -> bool {
        let epoch_of = |block: usize| runs.state(block).get(self.code_bytes).copied().unwrap_or(0);
        let mut epochs = (run.start / SLOTS..run.end.div_ceil(SLOTS)).map(epoch_of);
        // No slots may be behind the last block.
        let Some(epoch) = epochs.next() else { return false };
        // Hardly any run is in blocks of several epochs.
        if epochs.any(|other| other != epoch) {
            return true;
        }
        let digest = place.digest.rehashed(u64::from(epoch));
        let first = self.remainder(place, epoch, 0);
        if self.width == 8
            && let Some(slots) = runs.load_bytes(Within::of(run))
        {
            let others = self.others(digest);
            return match &self.at_once {
                Some(at_once) => at_once.any(words, slots, first, others),
                None => {
                    let lens = [slots.len; 2];
                    words.any_byte(slots.held, Candidates { first: first as u8, others, lens })
                }
            };
        }
        run.clone().any(|slot| self.has(runs.remainder(slot), first, digest))
    }

    /// For remainders of a byte. Whether the run is empty and whether its block has adapted
    /// are unpredictable: there is no branch on either.
    #[inline(always)]
    fn may_be_in_at_once(
        &self,
        words: impl Words,
        runs: &Runs,
        run: Within,
        place: &Place,
    ) -> Option<bool> {
        let at_once = self.at_once.as_ref()?;
        let bytes = runs.load_bytes(run)?;
        if bytes.state & at_once.epoch != 0 {
            return None;
        }
        Some(at_once.any(words, bytes, place.remainder(8), place.digest.word(1)))
    }

    #[inline(always)]
    fn may_be_among(&self, words: impl Words, slots: Bytes, place: &Place) -> bool {
        let Some(at_once) = &self.at_once else { return true };
        let others = place.digest.word(1);
        (slots.state & at_once.epoch != 0) | at_once.any(words, slots, place.remainder(8), others)
    }

    #[inline(always)]
    fn none_adapted(&self, runs: &Runs, run: Within) -> bool {
        let at_once = self.at_once.as_ref();
        let bytes = at_once.and_then(|at_once| Some((at_once, runs.load_bytes(run)?)));
        bytes.is_some_and(|(at_once, bytes)| !at_once.any_adapted(bytes))
    }

    fn undecoded(&self, state: &[u8], index: usize, remainder: u64, place: &Place) -> Option<bool> {
        let (epoch, code) = self.parts(state);
        let first = self.remainder(place, epoch, 0);
        if self.code.starts_with_zeros(code, index + 1) {
            return Some(remainder == first);
        }
        // The run has a slot that matches some remainder; this may be another.
        let digest = place.digest.rehashed(u64::from(epoch));
        if self.has(remainder, first, digest) { None } else { Some(false) }
    }
}
