//! Where the run of a quotient is, and what is in it.

use alloc::vec::Vec;
use core::ops::Range;

use super::{Runs, set_bits};
use crate::bits::word::{Words, Work, WorkOn, low_bits, rank, tuned};
use crate::quotient::block::{Bytes, Head, SLOTS, Within};

impl Runs {
    /// The slots of a quotient's run, if it has one.
    #[inline]
    pub(crate) fn run(&self, quotient: usize) -> Option<Range<usize>> {
        let (occupied, run) = tuned(Lookup { runs: self, quotient });
        occupied.then_some(run)
    }

    /// Whether a quotient has a run, and its slots; without a run an empty range at the slot
    /// where it would start.
    #[inline(always)]
    pub(in crate::quotient) fn find(
        &self,
        words: impl Words,
        quotient: usize,
    ) -> (bool, Range<usize>) {
        let (occupied, near) = self.find_near(words, quotient);
        let far = || words.apart(FarLookup { runs: self }, quotient);
        (occupied, near.map_or_else(far, Within::slots))
    }

    /// [`Runs::find`], with the slots if the run ends in the quotient's own block and
    /// before its last slot, as five of six do at a load of 0.95.
    #[inline(always)]
    pub(in crate::quotient) fn find_near(
        &self,
        words: impl Words,
        quotient: usize,
    ) -> (bool, Option<Within>) {
        let (block, bit) = (quotient / SLOTS, (quotient % SLOTS) as u32);
        // The run is near its quotient's own slot: that memory is loaded beside the
        // metadata.
        self.blocks.prefetch_remainder(quotient);
        let head = self.blocks.head(block);
        let occupied = head.occupieds >> bit & 1 == 1;
        let run = Near::new(head).and_then(|near| {
            let (start, end) = near.run(words, bit);
            let (start, end) = (start.max(bit) as usize, end.max(bit) as usize);
            (end < SLOTS).then_some(Within { block, start, end })
        });
        (occupied, run)
    }

    /// The slots of [`Runs::find`], wherever they are.
    #[inline(always)]
    pub(in crate::quotient) fn find_far(&self, words: impl Words, quotient: usize) -> Range<usize> {
        let (block, bit) = (quotient / SLOTS, (quotient % SLOTS) as u32);
        let occupieds = self.blocks.occupieds(block);
        let reached = block * SLOTS + self.offset(block);
        let (before, own) = (rank(occupieds, bit), occupieds >> bit & 1);
        let used = self.used_from(words, reached, before + own as u32);
        let start = if own == 1 { self.start(used - 1, reached) } else { used };
        start.max(quotient)..used.max(quotient)
    }

    /// Whether a quotient's run has this remainder.
    #[inline(always)]
    pub(crate) fn holds(&self, words: impl Words, quotient: usize, remainder: u64) -> bool {
        match self.find_near(words, quotient).1 {
            Some(run) => self.blocks.any(run, remainder),
            None => words.apart(FarSearch { runs: self }, (quotient, remainder)),
        }
    }

    /// The first slot behind `runs` runs from slot `from` on.
    #[inline(always)]
    pub(super) fn used_from(&self, words: impl Words, from: usize, runs: u32) -> usize {
        if runs == 0 { from } else { self.runend(words, from, runs - 1) + 1 }
    }

    /// The slot of runend number `index` from slot `from` on.
    #[inline(always)]
    pub(super) fn runend(&self, words: impl Words, from: usize, mut index: u32) -> usize {
        let mut block = from / SLOTS;
        let mut ends = self.blocks.runends(block) & !low_bits((from % SLOTS) as u32);
        loop {
            let bit = words.select(ends, index);
            if bit < 64 {
                return block * SLOTS + bit as usize;
            }
            index -= ends.count_ones();
            block += 1;
            ends = self.blocks.runends(block);
        }
    }

    /// Where the run that ends at `last` starts, which is at `least` or behind.
    #[inline(always)]
    pub(super) fn start(&self, last: usize, least: usize) -> usize {
        let mut block = last / SLOTS;
        let mut ends = self.blocks.runends(block) & low_bits((last % SLOTS) as u32);
        while ends == 0 && block * SLOTS > least {
            block -= 1;
            ends = self.blocks.runends(block);
        }
        match ends {
            0 => least,
            ends => least.max(block * SLOTS + SLOTS - ends.leading_zeros() as usize),
        }
    }

    /// The first slot from a block's first on that no run of earlier blocks has.
    #[inline(always)]
    pub(super) fn reached(&self, block: usize) -> usize {
        if block == self.blocks.count() {
            return self.blocks.slots();
        }
        block * SLOTS + self.offset(block)
    }

    /// How many slots of a run in order of remainders hold this one or less.
    pub(crate) fn count_up_to(&self, run: Range<usize>, remainder: u64) -> usize {
        self.blocks.count_up_to(run, remainder)
    }

    /// Whether one of these slots holds the remainder.
    #[inline(always)]
    pub(crate) fn any(&self, slots: Within, remainder: u64) -> bool {
        self.blocks.any(slots, remainder)
    }

    /// [`Blocks::any_at_once`].
    #[inline(always)]
    pub(crate) fn any_at_once(&self, slots: Within, remainder: u64) -> Option<bool> {
        self.blocks.any_at_once(slots, remainder)
    }

    /// [`Blocks::load_bytes`].
    #[inline(always)]
    pub(crate) fn load_bytes(&self, slots: Within) -> Option<Bytes> {
        self.blocks.load_bytes(slots)
    }

    /// Whether the remainders of these slots are in order.
    pub(crate) fn are_sorted(&self, slots: Range<usize>) -> bool {
        self.blocks.are_sorted(slots)
    }

    /// The runs that have any of these slots, in order.
    pub(crate) fn overlapping(&self, slots: Range<usize>) -> Vec<(usize, Range<usize>)> {
        let mut block = slots.start / SLOTS;
        while block > 0 && self.reached(block) > slots.start {
            block -= 1;
        }
        let last = slots.end.min(self.quotients).div_ceil(SLOTS);
        set_bits((block..last).map(|block| self.blocks.occupieds(block)))
            .map(|bit| block * SLOTS + bit)
            .map(|quotient| (quotient, self.run(quotient).expect("an occupied quotient has a run")))
            .skip_while(|(_, run)| run.end <= slots.start)
            .take_while(|(_, run)| run.start < slots.end)
            .collect()
    }
}

/// The runs of a block, in slots of the block; those beyond it are at 64.
#[derive(Clone, Copy)]
pub(super) struct Near {
    pub(super) occupieds: u64,
    /// The slots behind the runs of earlier blocks and behind each of its own.
    pub(super) behinds: u64,
}

impl Near {
    /// `None` where runs of earlier blocks reach past it.
    #[inline(always)]
    pub(super) fn new(head: Head) -> Option<Self> {
        let Head { occupieds, runends, offset } = head;
        (usize::from(offset) < SLOTS)
            .then(|| Near { occupieds, behinds: ((runends >> offset) << 1 | 1) << offset })
    }

    /// The slots behind the runs of quotients below `bit`, and up to it. There is no branch
    /// on whether it has a run: queries of absent keys would mispredict two in five.
    #[inline(always)]
    pub(super) fn run(self, words: impl Words, bit: u32) -> (u32, u32) {
        let own = (self.occupieds >> bit & 1) as u32;
        words.select_two(self.behinds, rank(self.occupieds, bit), own)
    }
}

/// [`Runs::find_far`] of a quotient.
struct FarLookup<'a> {
    runs: &'a Runs,
}

impl WorkOn<usize> for FarLookup<'_> {
    type Outcome = Range<usize>;

    #[inline(always)]
    fn run_on(self, words: impl Words, quotient: usize) -> Range<usize> {
        self.runs.find_far(words, quotient)
    }
}

/// [`Runs::holds`] of a quotient and a remainder, wherever the run is.
struct FarSearch<'a> {
    runs: &'a Runs,
}

impl WorkOn<(usize, u64)> for FarSearch<'_> {
    type Outcome = bool;

    #[inline(always)]
    fn run_on(self, words: impl Words, (quotient, remainder): (usize, u64)) -> bool {
        self.runs.any(Within::of(&self.runs.find_far(words, quotient)), remainder)
    }
}

/// [`Runs::run`].
struct Lookup<'a> {
    runs: &'a Runs,
    quotient: usize,
}

impl Work for Lookup<'_> {
    type Outcome = (bool, Range<usize>);

    #[inline(always)]
    fn run(self, words: impl Words) -> Self::Outcome {
        self.runs.find(words, self.quotient)
    }
}
