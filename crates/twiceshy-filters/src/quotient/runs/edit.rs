//! Inserting and removing slots: the slots behind move, up to the next empty one.

use core::ops::Range;

use super::Runs;
use super::lookup::Near;
use crate::bits::word::{Words, Work, tuned};
use crate::quotient::block::{SLOTS, Within};

/// What an insertion or a removal moved. After an insertion the slots
/// `from..to` have gone to `from + 1..=to`, and `from` is new; after a removal
/// `from + 1..=to` have gone to `from..to`, and `to` is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Shift {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// A place for a new slot.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Gap {
    quotient: usize,
    /// Whether the quotient has a run.
    occupied: bool,
    /// Where its run starts, or would.
    pub(crate) start: usize,
    pub(crate) shift: Shift,
}

/// A slot to remove.
#[must_use]
pub(crate) struct Hole {
    quotient: usize,
    run: Range<usize>,
    pub(crate) shift: Shift,
}

impl Runs {
    /// The first empty slot from `slot` on; it may be one behind the last block.
    #[inline(always)]
    pub(super) fn first_empty(&self, words: impl Words, mut slot: usize) -> usize {
        while slot < self.blocks.slots() {
            let block = slot / SLOTS;
            if let Some(near) = Near::new(self.blocks.head(block)) {
                let mut bit = (slot % SLOTS) as u32;
                while bit < u64::BITS {
                    let (_, used) = near.run(words, bit);
                    if used <= bit {
                        return block * SLOTS + bit as usize;
                    }
                    bit = used;
                }
            }
            // Everything up to the next block is in use.
            slot = self.reached(block + 1);
        }
        slot
    }

    /// The first slot from `end` on, behind a run, that is empty or starts a run at its own
    /// quotient: the slots before it move when that run loses a slot.
    #[inline(always)]
    pub(super) fn first_unmoved(&self, words: impl Words, mut end: usize) -> usize {
        loop {
            let block = (end - 1) / SLOTS;
            if let Some(near) = Near::new(self.blocks.head(block)) {
                let mut last = ((end - 1) % SLOTS) as u32;
                while last < u64::BITS - 1 {
                    let (_, used) = near.run(words, last);
                    if used <= last + 1 {
                        return block * SLOTS + last as usize + 1;
                    }
                    last = used - 1;
                }
            }
            let reached = self.reached(block + 1);
            if reached <= end {
                return end;
            }
            end = reached;
        }
    }

    /// Puts a remainder into a quotient's run, which is in order of remainders,
    /// behind the last that is not larger.
    #[inline]
    pub(crate) fn insert_in_order(&mut self, quotient: usize, remainder: u64) -> Shift {
        let index = |runs: &Self, run| runs.blocks.count_up_to(run, remainder);
        tuned(Insertion { runs: self, quotient, remainder, index })
    }

    /// Takes the first slot with this remainder out of a quotient's run; `None`
    /// where there is none.
    #[inline]
    pub(crate) fn remove_one(&mut self, quotient: usize, remainder: u64) -> Option<Shift> {
        let pick = |runs: &Self, run| runs.blocks.first(run, remainder);
        tuned(Removal { runs: self, quotient, pick })
    }

    /// The gap for slot number `index` of a quotient's run; 0 if it has no run yet.
    pub(crate) fn gap(&self, quotient: usize, index: usize) -> Gap {
        tuned(GapLookup { runs: self, quotient, index })
    }

    /// The gap for a remainder in a run that is in order of remainders; `None` if the run
    /// has it already, or is not in order.
    #[inline]
    pub(crate) fn gap_in_order(&self, quotient: usize, remainder: u64) -> Option<Gap> {
        tuned(OrderedGapLookup { runs: self, quotient, remainder })
    }

    #[inline(always)]
    pub(super) fn find_gap(
        &self,
        words: impl Words,
        quotient: usize,
        index: impl FnOnce(&Self, Range<usize>) -> usize,
    ) -> Gap {
        assert!(quotient < self.quotients, "quotient {quotient} of {}", self.quotients);
        // The shift often ends in that block.
        self.blocks.prefetch(quotient + SLOTS);
        let (occupied, run) = self.find(words, quotient);
        if !occupied && run.end == quotient {
            // Its own slot is empty, as for every other insertion while a filter fills.
            let shift = Shift { from: quotient, to: quotient };
            return Gap { quotient, occupied, start: quotient, shift };
        }
        let from = run.start + index(self, run.clone());
        assert!(from <= run.end, "slot {from} in the run {run:?}");
        let to = self.first_empty(words, run.end);
        Gap { quotient, occupied, start: run.start, shift: Shift { from, to } }
    }

    /// Opens a gap, and puts a remainder into it.
    #[inline(always)]
    pub(crate) fn fill(&mut self, gap: Gap, remainder: u64) -> Shift {
        let Gap { quotient, occupied, start, shift: Shift { from, to } } = gap;
        self.len += 1;
        if !occupied && to == quotient {
            self.blocks.set_occupied(quotient, true);
            self.blocks.set_runend(quotient, true);
            self.blocks.set_remainder(quotient, remainder);
            return gap.shift;
        }
        if to == self.blocks.slots() {
            self.add_block();
        }
        // An existing run keeps its runend, one slot further: the new slot, without a
        // runend, comes in at its start.
        self.blocks.insert_runend(start, to, !occupied);
        self.blocks.insert_remainder(from, to, remainder);
        self.blocks.set_occupied(quotient, true);
        self.raise_offsets(quotient / SLOTS + 1..to / SLOTS + 1);
        gap.shift
    }

    /// The hole that removing slot number `index` of a quotient's run would leave.
    ///
    /// # Panics
    /// If the run has no such slot.
    pub(crate) fn hole(&self, quotient: usize, index: usize) -> Hole {
        tuned(HoleLookup { runs: self, quotient, index }).expect("a slot was picked")
    }

    #[inline(always)]
    pub(super) fn find_hole(
        &self,
        words: impl Words,
        quotient: usize,
        pick: impl FnOnce(&Self, Range<usize>) -> Option<usize>,
    ) -> Option<Hole> {
        // The shift often ends in that block.
        self.blocks.prefetch(quotient + SLOTS);
        let (_, run) = self.find(words, quotient);
        let from = pick(self, run.clone())?;
        // Alone in its own slot, as for every other removal while a filter empties?
        let to =
            if run.end == quotient + 1 { from } else { self.first_unmoved(words, run.end) - 1 };
        Some(Hole { quotient, run, shift: Shift { from, to } })
    }

    /// Removes a slot.
    #[inline(always)]
    pub(crate) fn close(&mut self, hole: Hole) -> Shift {
        let Hole { quotient, run, shift: Shift { from, to } } = hole;
        self.len -= 1;
        if run.end == quotient + 1 {
            self.blocks.set_occupied(quotient, false);
            self.blocks.set_runend(quotient, false);
            self.blocks.set_remainder(quotient, 0);
            return hole.shift;
        }
        // A run of one slot loses its runend. A longer one loses a slot without a runend, of
        // which the first is as good as any.
        self.blocks.remove_runend(run.start, to);
        self.blocks.remove_remainder(from, to);
        self.blocks.set_occupied(quotient, run.end - run.start > 1);
        self.lower_offsets(quotient / SLOTS + 1..to / SLOTS + 1);
        hole.shift
    }
}

/// [`Runs::insert_in_order`]: `index` gets the slots of the quotient's run, perhaps none.
struct Insertion<'a, I> {
    runs: &'a mut Runs,
    quotient: usize,
    remainder: u64,
    index: I,
}

impl<I: FnOnce(&Runs, Range<usize>) -> usize> Work for Insertion<'_, I> {
    type Outcome = Shift;

    #[inline(always)]
    fn run(self, words: impl Words) -> Shift {
        let gap = self.runs.find_gap(words, self.quotient, self.index);
        self.runs.fill(gap, self.remainder)
    }
}

/// [`Runs::gap`].
struct GapLookup<'a> {
    runs: &'a Runs,
    quotient: usize,
    index: usize,
}

impl Work for GapLookup<'_> {
    type Outcome = Gap;

    #[inline(always)]
    fn run(self, words: impl Words) -> Gap {
        self.runs.find_gap(words, self.quotient, |_, _| self.index)
    }
}

/// [`Runs::gap_in_order`].
struct OrderedGapLookup<'a> {
    runs: &'a Runs,
    quotient: usize,
    remainder: u64,
}

impl Work for OrderedGapLookup<'_> {
    type Outcome = Option<Gap>;

    #[inline(always)]
    fn run(self, words: impl Words) -> Option<Gap> {
        let OrderedGapLookup { runs, quotient, remainder } = self;
        let mut comes = true;
        let gap = runs.find_gap(words, quotient, |runs, run| {
            // Both are computed without a branch: the runs are unpredictable, the answer
            // is nearly always the same.
            comes = runs.blocks.are_sorted(run.clone()) & !runs.any(Within::of(&run), remainder);
            runs.blocks.count_up_to(run, remainder)
        });
        comes.then_some(gap)
    }
}

/// [`Runs::remove_one`]: `pick` gets the slots of the quotient's run, perhaps none, and
/// picks one.
struct Removal<'a, P> {
    runs: &'a mut Runs,
    quotient: usize,
    pick: P,
}

impl<P: FnOnce(&Runs, Range<usize>) -> Option<usize>> Work for Removal<'_, P> {
    type Outcome = Option<Shift>;

    #[inline(always)]
    fn run(self, words: impl Words) -> Option<Shift> {
        let hole = self.runs.find_hole(words, self.quotient, self.pick)?;
        Some(self.runs.close(hole))
    }
}

/// [`Runs::hole`].
struct HoleLookup<'a> {
    runs: &'a Runs,
    quotient: usize,
    index: usize,
}

impl Work for HoleLookup<'_> {
    type Outcome = Option<Hole>;

    #[inline(always)]
    fn run(self, words: impl Words) -> Option<Hole> {
        self.runs.find_hole(words, self.quotient, nth(self.index))
    }
}

/// Picks slot number `index` of a run.
fn nth(index: usize) -> impl FnOnce(&Runs, Range<usize>) -> Option<usize> {
    move |_, run| {
        assert!(index < run.len(), "slot {index} of a run of {}", run.len());
        Some(run.start + index)
    }
}
