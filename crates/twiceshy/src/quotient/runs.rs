//! Runs: which slots hold the remainders of which quotient.
//!
//! A quotient's remainders are one *run* of neighbouring slots. Runs lie in the
//! order of their quotients; each starts at its quotient's own slot or, where
//! earlier runs are in the way, right behind them. With the run of 0 holding
//! `a b`, that of 1 `c`, of 3 `d` and of 6 `e`:
//!
//! ```text
//! slot        0     1     2     3     4     5     6     7
//! occupied    1     1     0     1     0     0     1     0
//! remainder   a     b     c     d     -     -     e     -
//! runend      0     1     1     1     0     0     1     0
//! ```
//!
//! The k-th occupied quotient owns the run with the k-th runend: rank, then
//! select. A block's offset says how many slots from its first on belong to
//! runs of earlier blocks, so both can start at the block. Offsets have a byte;
//! one that does not fit is in a map beside the blocks, so a run may be as long
//! as it likes.
//!
//! Nothing wraps around: runs that pass the last quotient's slot go on into
//! blocks behind it, which are added as needed.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::bits::lanes::Lanes;
use crate::bits::word::{Words, Work, low_bits, rank, tuned};

use super::block::{Blocks, Head, SLOTS};

/// The byte of an offset that is in the map.
const LONG: u8 = u8::MAX;

/// Runs of remainders, one for each occupied quotient.
#[derive(Clone, PartialEq, Eq)]
pub struct Runs {
    pub(super) blocks: Blocks,
    /// The offsets of [`LONG`] and more, by block.
    long_offsets: BTreeMap<usize, usize>,
    pub(super) quotients: usize,
    pub(super) len: usize,
}

/// What an insertion or a removal moved. After an insertion the slots
/// `from..to` have gone to `from + 1..=to`, and `from` is new; after a removal
/// `from + 1..=to` have gone to `from..to`, and `to` is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Shift {
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// Where a slot is to be put in.
#[must_use]
pub(crate) struct Gap {
    quotient: usize,
    /// Whether the quotient has a run.
    occupied: bool,
    /// Where its run starts, or would.
    start: usize,
    pub(crate) shift: Shift,
}

/// A slot that is to be taken out.
#[must_use]
pub(crate) struct Hole {
    quotient: usize,
    run: Range<usize>,
    pub(crate) shift: Shift,
}

impl Runs {
    /// No runs yet, of quotients below `quotients`, with remainders of `width`
    /// bits and `extra` bytes a block for a variant's own use.
    pub(crate) fn new(quotients: usize, width: u32, extra: usize) -> Self {
        let blocks = Blocks::new(Self::blocks_for(quotients), width, extra);
        Runs { blocks, long_offsets: BTreeMap::new(), quotients, len: 0 }
    }

    /// Blocks at first: one more than the quotients need. At a load of 0.95 the
    /// last runs reach further with a probability of about 0.002.
    fn blocks_for(quotients: usize) -> usize {
        quotients.div_ceil(SLOTS) + 1
    }

    /// The most quotients whose blocks fit into `room` bits.
    pub(crate) fn quotients_within(room: usize, width: u32, extra: usize) -> Option<usize> {
        let blocks = Blocks::count_within(room, width, extra)?.checked_sub(Self::blocks_for(0))?;
        (blocks > 0).then_some(blocks * SLOTS)
    }

    pub(crate) fn quotients(&self) -> usize {
        self.quotients
    }

    /// Remainders in all runs.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bits of a remainder.
    pub(crate) fn width(&self) -> u32 {
        self.blocks.width()
    }

    /// Memory held, in bits. A node of the map is at least half full.
    pub(crate) fn bits(&self) -> usize {
        let entry = 2 * size_of::<(usize, usize)>() * 8;
        self.blocks.bits() + self.long_offsets.len() * entry
    }

    #[inline]
    pub(crate) fn remainder(&self, slot: usize) -> u64 {
        self.blocks.remainder(slot)
    }

    pub(crate) fn set_remainder(&mut self, slot: usize, remainder: u64) {
        self.blocks.set_remainder(slot, remainder);
    }

    /// A variant's own bytes of a block.
    #[inline(always)]
    pub(crate) fn extra(&self, block: usize) -> &[u8] {
        self.blocks.extra(block)
    }

    pub(crate) fn extra_mut(&mut self, block: usize) -> &mut [u8] {
        self.blocks.extra_mut(block)
    }

    pub(crate) fn block_count(&self) -> usize {
        self.blocks.count()
    }

    /// Asks for the memory of a quotient ahead of its use.
    #[inline(always)]
    pub(crate) fn prefetch(&self, quotient: usize) {
        self.blocks.prefetch(quotient);
    }

    /// The slots of a quotient's run, if it has one.
    #[inline]
    pub(crate) fn run(&self, quotient: usize) -> Option<Range<usize>> {
        let (occupied, run) = tuned(Lookup { runs: self, quotient });
        occupied.then_some(run)
    }

    /// Whether a quotient has a run, and its slots. Of one that has none, no
    /// slots, at the one where it would start.
    #[inline(always)]
    pub(super) fn find(&self, words: impl Words, quotient: usize) -> (bool, Range<usize>) {
        let (block, bit) = (quotient / SLOTS, (quotient % SLOTS) as u32);
        // The run is near its quotient's own slot, whose memory need not wait
        // for what the metadata say.
        self.blocks.prefetch_remainder(quotient);
        let head = self.blocks.head(block);
        let occupied = head.occupieds >> bit & 1 == 1;
        if let Some(near) = Near::new(head) {
            let (start, end) = near.run(words, bit);
            if end < u64::BITS {
                let slot = |bit: u32| block * SLOTS + bit as usize;
                return (occupied, slot(start.max(bit))..slot(end.max(bit)));
            }
        }
        (occupied, self.find_far(quotient))
    }

    /// The slots of [`Runs::find`], wherever they are.
    #[inline(never)]
    fn find_far(&self, quotient: usize) -> Range<usize> {
        tuned(FarLookup { runs: self, quotient })
    }

    /// Whether a quotient's run has this remainder.
    #[inline(always)]
    pub(crate) fn holds(&self, words: impl Words, quotient: usize, remainder: u64) -> bool {
        let (_, run) = self.find(words, quotient);
        self.blocks.any(run, remainder)
    }

    /// The first slot behind `runs` runs from slot `from` on.
    #[inline(always)]
    fn used_from(&self, words: impl Words, from: usize, runs: u32) -> usize {
        if runs == 0 { from } else { self.runend(words, from, runs - 1) + 1 }
    }

    /// The slot of runend number `index` from slot `from` on.
    #[inline(always)]
    fn runend(&self, words: impl Words, from: usize, mut index: u32) -> usize {
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
    fn start(&self, last: usize, least: usize) -> usize {
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
    fn reached(&self, block: usize) -> usize {
        if block == self.blocks.count() {
            return self.blocks.slots();
        }
        block * SLOTS + self.offset(block)
    }

    /// The first empty slot from `slot` on; it may be one behind the last block.
    #[inline(always)]
    fn first_empty(&self, words: impl Words, mut slot: usize) -> usize {
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

    /// The first slot from `end` on, behind a run, that is empty or where a run
    /// starts at its own quotient: what is before it moves when a slot is taken
    /// out of that run.
    #[inline(always)]
    fn first_unmoved(&self, words: impl Words, mut end: usize) -> usize {
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

    /// How many slots of a run in order of remainders hold this one or less.
    pub(crate) fn count_up_to(&self, run: Range<usize>, remainder: u64) -> usize {
        self.blocks.count_up_to(run, remainder)
    }

    /// Whether one of these slots holds the remainder.
    #[inline(always)]
    pub(crate) fn any(&self, slots: Range<usize>, remainder: u64) -> bool {
        self.blocks.any(slots, remainder)
    }

    /// [`Blocks::any_of`].
    #[inline(always)]
    pub(crate) fn any_of(
        &self,
        slots: Range<usize>,
        first: u64,
        others: u64,
        lanes: &Lanes,
    ) -> bool {
        self.blocks.any_of(slots, first, others, lanes)
    }

    /// Takes the first slot with this remainder out of a quotient's run; `None`
    /// where there is none.
    #[inline]
    pub(crate) fn remove_one(&mut self, quotient: usize, remainder: u64) -> Option<Shift> {
        let pick = |runs: &Self, run| runs.blocks.first(run, remainder);
        tuned(Removal { runs: self, quotient, pick })
    }

    /// What putting a slot at number `index` of a quotient's run would move. A run
    /// that is not there has number 0 alone.
    pub(crate) fn gap(&self, quotient: usize, index: usize) -> Gap {
        tuned(GapLookup { runs: self, quotient, index })
    }

    #[inline(always)]
    fn find_gap(
        &self,
        words: impl Words,
        quotient: usize,
        index: impl FnOnce(&Self, Range<usize>) -> usize,
    ) -> Gap {
        assert!(quotient < self.quotients, "quotient {quotient} of {}", self.quotients);
        // What is shifted often ends there.
        self.blocks.prefetch(quotient + SLOTS);
        let (occupied, run) = self.find(words, quotient);
        if !occupied && run.end == quotient {
            // Its own slot is empty, as every other is on the way to full.
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
        // A run that was there ends with the same runend, one slot on: a slot
        // that is none has come in at its start.
        self.blocks.insert_runend(start, to, !occupied);
        self.blocks.insert_remainder(from, to, remainder);
        self.blocks.set_occupied(quotient, true);
        self.raise_offsets(quotient / SLOTS + 1..to / SLOTS + 1);
        gap.shift
    }

    /// What taking slot number `index` out of a quotient's run would move.
    ///
    /// # Panics
    /// If the run has no such slot.
    pub(crate) fn hole(&self, quotient: usize, index: usize) -> Hole {
        tuned(HoleLookup { runs: self, quotient, index }).expect("a slot was picked")
    }

    #[inline(always)]
    fn find_hole(
        &self,
        words: impl Words,
        quotient: usize,
        pick: impl FnOnce(&Self, Range<usize>) -> Option<usize>,
    ) -> Option<Hole> {
        // What is shifted often ends there.
        self.blocks.prefetch(quotient + SLOTS);
        let (_, run) = self.find(words, quotient);
        let from = pick(self, run.clone())?;
        // Alone in its own slot, as every other is on the way to empty?
        let to =
            if run.end == quotient + 1 { from } else { self.first_unmoved(words, run.end) - 1 };
        Some(Hole { quotient, run, shift: Shift { from, to } })
    }

    /// Takes a slot out.
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
        // The runend goes with the last slot of a run. Of another, one that is
        // none goes, and the first is as good as any.
        self.blocks.remove_runend(run.start, to);
        self.blocks.remove_remainder(from, to);
        self.blocks.set_occupied(quotient, run.end - run.start > 1);
        self.lower_offsets(quotient / SLOTS + 1..to / SLOTS + 1);
        hole.shift
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

    /// How many slots from a block's first on belong to runs of earlier blocks.
    #[inline]
    fn offset(&self, block: usize) -> usize {
        match self.blocks.offset(block) {
            LONG => self.long_offsets[&block],
            short => usize::from(short),
        }
    }

    /// The offset of a block that had none.
    pub(super) fn set_offset(&mut self, block: usize, offset: usize) {
        self.blocks.set_offset(block, offset_byte(offset));
        if offset_byte(offset) == LONG {
            self.long_offsets.insert(block, offset);
        }
    }

    /// Adds a block behind the last. There is memory for twice as many as there
    /// are behind the quotients, so that a run of n slots costs log n
    /// allocations.
    #[cold]
    pub(super) fn add_block(&mut self) {
        let behind = self.blocks.count() - self.quotients.div_ceil(SLOTS);
        self.blocks.push(behind - 1);
    }

    /// Adds one to the offset of each of these blocks.
    #[inline(always)]
    fn raise_offsets(&mut self, blocks: Range<usize>) {
        let mut long = false;
        for block in blocks.clone() {
            let byte = self.blocks.offset(block);
            self.blocks.set_offset(block, byte.saturating_add(1));
            long |= byte >= LONG - 1;
        }
        if long {
            self.raise_long_offsets(blocks);
        }
    }

    /// The same in the map, in one pass: a run of n slots has n / 64 of them.
    #[cold]
    fn raise_long_offsets(&mut self, blocks: Range<usize>) {
        self.long_offsets.range_mut(blocks.clone()).for_each(|(_, offset)| *offset += 1);
        for block in blocks {
            if self.blocks.offset(block) == LONG {
                self.long_offsets.entry(block).or_insert(usize::from(LONG));
            }
        }
    }

    /// Takes one from the offset of each of these blocks.
    #[inline(always)]
    fn lower_offsets(&mut self, blocks: Range<usize>) {
        let mut long = false;
        for block in blocks.clone() {
            let byte = self.blocks.offset(block);
            if byte == LONG {
                long = true;
            } else {
                self.blocks.set_offset(block, byte - 1);
            }
        }
        if long {
            self.lower_long_offsets(blocks);
        }
    }

    /// The same in the map.
    #[cold]
    fn lower_long_offsets(&mut self, blocks: Range<usize>) {
        let mut short_again = Vec::new();
        for (&block, offset) in self.long_offsets.range_mut(blocks) {
            *offset -= 1;
            if offset_byte(*offset) != LONG {
                short_again.push(block);
            }
        }
        for block in short_again {
            self.long_offsets.remove(&block);
            self.blocks.set_offset(block, LONG - 1);
        }
    }

    /// Every occupied quotient with its run, in order. Reads no offset, so that
    /// they can be checked against it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, Range<usize>)> + '_ {
        let occupied = set_bits((0..self.blocks.count()).map(|block| self.blocks.occupieds(block)));
        let mut ends = set_bits((0..self.blocks.count()).map(|block| self.blocks.runends(block)));
        let mut used = 0;
        occupied.map_while(move |quotient| {
            let start = used.max(quotient);
            used = ends.next()? + 1;
            Some((quotient, start..used))
        })
    }

    /// The blocks' bytes; the rest follows from them.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.blocks.as_bytes()
    }

    /// Runs from bytes that [`Runs::as_bytes`] gave, checked.
    pub(crate) fn from_bytes(
        data: &[u8],
        quotients: usize,
        width: u32,
        extra: usize,
    ) -> Result<Self, String> {
        let blocks = Blocks::from_bytes(data, width, extra)
            .filter(|blocks| blocks.count() >= quotients.div_ceil(SLOTS).max(1))
            .ok_or_else(|| format!("{} bytes are no blocks of {quotients} slots", data.len()))?;
        let mut runs = Runs { blocks, long_offsets: BTreeMap::new(), quotients, len: 0 };
        runs.len = runs.iter().map(|(_, run)| run.len()).sum();
        runs.long_offsets =
            runs.offsets().enumerate().filter(|&(_, offset)| offset_byte(offset) == LONG).collect();
        runs.check()?;
        Ok(runs)
    }

    /// The offset of each block, from the runs themselves.
    fn offsets(&self) -> impl Iterator<Item = usize> + '_ {
        let mut runs = self.iter().peekable();
        let mut used = 0;
        (0..self.blocks.count()).map(move |block| {
            while let Some((_, run)) = runs.next_if(|(quotient, _)| *quotient < block * SLOTS) {
                used = run.end;
            }
            used.saturating_sub(block * SLOTS)
        })
    }

    /// Verifies every invariant.
    pub(crate) fn check(&self) -> Result<(), String> {
        let count = |word: fn(&Blocks, usize) -> u64| -> u32 {
            (0..self.blocks.count()).map(|block| word(&self.blocks, block).count_ones()).sum()
        };
        let (occupied, ends) = (count(Blocks::occupieds), count(Blocks::runends));
        if occupied != ends {
            return Err(format!("{occupied} occupied quotients have {ends} runends"));
        }
        let (mut used, mut len) = (0, 0);
        for (quotient, run) in self.iter() {
            if quotient >= self.quotients {
                return Err(format!("quotient {quotient} of {} is occupied", self.quotients));
            }
            if run.start >= run.end {
                return Err(format!("the run of {quotient} ends before it starts"));
            }
            self.check_empty(used..run.start)?;
            used = run.end;
            len += run.len();
        }
        self.check_empty(used..self.blocks.slots())?;
        if len != self.len {
            return Err(format!("{len} remainders where {} are counted", self.len));
        }
        let mut long = 0;
        for (block, offset) in self.offsets().enumerate() {
            if self.blocks.offset(block) != offset_byte(offset) {
                let held = self.blocks.offset(block);
                return Err(format!("block {block} has offset {held}, and {offset} is right"));
            }
            if offset_byte(offset) == LONG {
                long += 1;
                if self.long_offsets.get(&block) != Some(&offset) {
                    return Err(format!("block {block} has lost its long offset of {offset}"));
                }
            }
        }
        if long != self.long_offsets.len() {
            return Err(format!("{} long offsets for {long} blocks", self.long_offsets.len()));
        }
        Ok(())
    }

    /// What an empty slot holds is part of the file: it is zero.
    fn check_empty(&self, mut slots: Range<usize>) -> Result<(), String> {
        match slots.find(|&slot| self.remainder(slot) != 0) {
            Some(slot) => Err(format!("slot {slot} is empty and holds a remainder")),
            None => Ok(()),
        }
    }
}

/// The runs of a block, seen from within it: what is not in it is at 64.
#[derive(Clone, Copy)]
struct Near {
    occupieds: u64,
    /// The slots behind the runs of earlier blocks and behind each of its own.
    behinds: u64,
}

impl Near {
    /// `None` where runs of earlier blocks reach past it.
    #[inline(always)]
    fn new(head: Head) -> Option<Self> {
        let Head { occupieds, runends, offset } = head;
        (usize::from(offset) < SLOTS)
            .then(|| Near { occupieds, behinds: ((runends >> offset) << 1 | 1) << offset })
    }

    /// The slots behind the runs of quotients below `bit`, and up to it. There is
    /// no branch on whether it has a run: in a query of an absent key that would
    /// be guessed wrong two times in five.
    #[inline(always)]
    fn run(self, words: impl Words, bit: u32) -> (u32, u32) {
        let own = (self.occupieds >> bit & 1) as u32;
        words.select_two(self.behinds, rank(self.occupieds, bit), own)
    }
}

/// [`Runs::find_far`].
struct FarLookup<'a> {
    runs: &'a Runs,
    quotient: usize,
}

impl Work for FarLookup<'_> {
    type Outcome = Range<usize>;

    #[inline(always)]
    fn run(self, words: impl Words) -> Range<usize> {
        let FarLookup { runs, quotient } = self;
        let (block, bit) = (quotient / SLOTS, (quotient % SLOTS) as u32);
        let occupieds = runs.blocks.occupieds(block);
        let reached = block * SLOTS + runs.offset(block);
        let (before, own) = (rank(occupieds, bit), occupieds >> bit & 1);
        let used = runs.used_from(words, reached, before + own as u32);
        let start = if own == 1 { runs.start(used - 1, reached) } else { used };
        start.max(quotient)..used.max(quotient)
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

/// [`Runs::insert_in_order`]: `index` is told the slots of
/// the quotient's run, of which there may be none.
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

/// [`Runs::remove_one`]: `pick` is told the slots of the
/// quotient's run, of which there may be none, and says which.
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

fn offset_byte(offset: usize) -> u8 {
    u8::try_from(offset).unwrap_or(LONG)
}

/// The positions of all set bits of some words.
fn set_bits(words: impl Iterator<Item = u64>) -> impl Iterator<Item = usize> {
    words.enumerate().flat_map(|(index, word)| {
        let mut rest = word;
        std::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(index * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::packed::mask;
    use crate::rng::Rng;

    impl Runs {
        fn insert(
            &mut self,
            quotient: usize,
            remainder: u64,
            index: impl FnOnce(&Self, Range<usize>) -> usize,
        ) -> Shift {
            let index = self.run(quotient).map_or(0, |run| index(self, run));
            let gap = self.gap(quotient, index);
            self.fill(gap, remainder)
        }

        fn remove(&mut self, quotient: usize, index: usize) -> Shift {
            let hole = self.hole(quotient, index);
            self.close(hole)
        }
    }

    /// The slow obvious version: one list a quotient. Slots follow from it.
    struct Lists(Vec<Vec<u64>>);

    impl Lists {
        fn runs(&self) -> Vec<(usize, Range<usize>)> {
            let mut used = 0;
            let occupied = self.0.iter().enumerate().filter(|(_, list)| !list.is_empty());
            occupied
                .map(|(quotient, list)| {
                    let start = used.max(quotient);
                    used = start + list.len();
                    (quotient, start..used)
                })
                .collect()
        }

        fn compare(&self, runs: &Runs) {
            runs.check().unwrap_or_else(|broken| panic!("{broken}"));
            assert_eq!(runs.iter().collect::<Vec<_>>(), self.runs());
            assert_eq!(runs.len(), self.0.iter().map(Vec::len).sum::<usize>());
            for (quotient, list) in self.0.iter().enumerate() {
                let held = runs.run(quotient).map_or(Vec::new(), |run| {
                    run.map(|slot| runs.remainder(slot)).collect::<Vec<_>>()
                });
                assert_eq!(&held, list, "quotient {quotient}");
                for remainder in list.iter().flat_map(|&held| [held, held ^ 1]).chain([0]) {
                    let holds = tuned(Holds(runs, quotient, remainder));
                    assert_eq!(holds, list.contains(&remainder), "quotient {quotient}");
                }
            }
        }
    }

    struct Holds<'a>(&'a Runs, usize, u64);

    impl Work for Holds<'_> {
        type Outcome = bool;

        fn run(self, words: impl Words) -> bool {
            self.0.holds(words, self.1, self.2)
        }
    }

    /// One value for each slot, moved by the shifts that are reported.
    struct Moved(Vec<u64>);

    impl Moved {
        fn insert(&mut self, shift: Shift, remainder: u64) {
            self.0.resize(self.0.len().max(shift.to + 1), 0);
            self.0.copy_within(shift.from..shift.to, shift.from + 1);
            self.0[shift.from] = remainder;
        }

        fn remove(&mut self, shift: Shift) {
            self.0.copy_within(shift.from + 1..shift.to + 1, shift.from);
            self.0[shift.to] = 0;
        }
    }

    /// Random insertions and removals; `pick` chooses quotients.
    fn play(quotients: usize, width: u32, steps: usize, pick: impl Fn(&mut Rng) -> usize) {
        let mut rng = Rng::new(quotients as u64 * 64 + u64::from(width));
        let mut runs = Runs::new(quotients, width, (width % 4) as usize);
        let mut lists = Lists(vec![Vec::new(); quotients]);
        let mut moved = Moved(Vec::new());
        for step in 0..steps {
            let quotient = pick(&mut rng);
            let list = &mut lists.0[quotient];
            // First mostly insertions, then mostly removals.
            let insert = rng.below(100) < if step < steps / 2 { 75 } else { 30 };
            if insert && runs.len() < 2 * quotients + 600 {
                let index = rng.below(list.len() as u64 + 1) as usize;
                let remainder = rng.next() & mask(width);
                list.insert(index, remainder);
                moved.insert(runs.insert(quotient, remainder, |_, _| index), remainder);
            } else if !list.is_empty() {
                let index = rng.below(list.len() as u64) as usize;
                list.remove(index);
                moved.remove(runs.remove(quotient, index));
            }
            if step % 97 == 0 || steps < 200 {
                lists.compare(&runs);
                let whole = runs.as_bytes();
                let again = Runs::from_bytes(whole, quotients, width, (width % 4) as usize);
                assert!(again.is_ok_and(|again| again == runs));
            }
        }
        lists.compare(&runs);
        let values = moved.0.iter().enumerate();
        assert!(values.clone().all(|(slot, &value)| runs.remainder(slot) == value), "shifts lie");
        while let Some((quotient, run)) = runs.iter().last() {
            moved.remove(runs.remove(quotient, run.len() - 1));
        }
        runs.check().expect("nothing is left");
        assert!(moved.0.iter().all(|&value| value == 0) && runs.len() == 0);
    }

    #[test]
    fn runs_agree_with_lists_at_every_width_and_odd_sizes() {
        let steps = if cfg!(miri) { 60 } else { 1500 };
        for width in 1..=32 {
            let quotients = [1, 2, 63, 64, 65, 128, 200, 517][width as usize % 8];
            play(quotients, width, steps, |rng| rng.below(quotients as u64) as usize);
        }
    }

    #[test]
    fn piles_on_few_quotients_agree_with_lists() {
        let steps = if cfg!(miri) { 60 } else { 6000 };
        for (quotients, pile) in [(300, 0), (300, 299), (300, 63), (300, 64), (65, 3), (1, 0)] {
            play(quotients, 5, steps, |rng| match rng.below(4) {
                0 => rng.below(quotients as u64) as usize,
                _ => pile,
            });
        }
    }

    /// The figure at the top of this file.
    #[test]
    fn runs_drawn_by_hand() {
        let mut runs = Runs::new(8, 8, 0);
        for (quotient, index, letter) in
            [(6, 0, b'e'), (1, 0, b'c'), (0, 0, b'b'), (3, 0, b'd'), (0, 0, b'a')]
        {
            let _ = runs.insert(quotient, u64::from(letter), |_, _| index);
        }
        assert_eq!(&runs.as_bytes()[17..25], b"abcd\0\0e\0");
        assert_eq!(runs.as_bytes()[0], 0b0100_1011);
        assert_eq!(runs.as_bytes()[8], 0b0100_1110);
        // d is at its own slot: what is removed before it does not move it.
        assert_eq!(runs.remove(0, 0), Shift { from: 0, to: 2 });
        assert_eq!(runs.insert(2, u64::from(b'x'), |_, _| 0), Shift { from: 2, to: 2 });
        assert_eq!(&runs.as_bytes()[17..25], b"bcxd\0\0e\0");
    }

    /// 5,000 slots in one run reach over 79 blocks, most of them with an offset
    /// that a byte cannot hold.
    #[test]
    fn a_run_of_thousands_of_slots_has_long_offsets() {
        let count = if cfg!(miri) { 600 } else { 5000 };
        let mut runs = Runs::new(1000, 6, 0);
        for index in 0..count {
            let _ = runs.insert(70, index as u64 & 63, |_, run| run.len());
        }
        let _ = runs.insert(71, 1, |_, _| 0);
        let _ = runs.insert(999, 2, |_, _| 0);
        runs.check().expect("every offset is right");
        assert_eq!(runs.run(70), Some(70..70 + count));
        let behind = 70 + count;
        assert_eq!(runs.run(71), Some(behind..behind + 1));
        assert_eq!(runs.run(999).map(|run| run.start), Some(999.max(behind + 1)));
        let long = runs.long_offsets.len();
        assert!(long > 0 && runs.bits() > runs.blocks.bits(), "{long} long offsets are counted");
        // Exactly at the limit, and back below it.
        while let Some(run) = runs.run(70) {
            let shift = runs.remove(70, run.len() / 2);
            assert_eq!(shift.from, run.start + run.len() / 2);
        }
        runs.check().expect("every offset is right again");
        assert!(runs.long_offsets.is_empty() && runs.len() == 2);
        assert_eq!([runs.run(71), runs.run(999)], [Some(71..72), Some(999..1000)]);
    }

    #[test]
    fn offsets_around_the_limit_of_a_byte() {
        let mut runs = Runs::new(64, 3, 0);
        // Slot 64 is the first of block 1.
        for len in 1..=64 + 260 {
            let _ = runs.insert(0, 5, |_, _| 0);
            runs.check().unwrap_or_else(|broken| panic!("{len}: {broken}"));
            let long = len >= 64 + usize::from(LONG);
            assert_eq!(runs.long_offsets.contains_key(&1), long, "{len}");
        }
    }

    /// A quotient behind them would start behind the last block.
    #[test]
    fn runs_may_take_every_slot_of_every_block() {
        let mut runs = Runs::new(64, 8, 0);
        for remainder in 0..128 {
            let _ = runs.insert_in_order(62, remainder);
        }
        assert_eq!(runs.run(62), Some(62..190));
        let _ = runs.insert_in_order(61, 5);
        let _ = runs.insert_in_order(61, 6);
        assert_eq!(runs.run(62), Some(63..191));
        let _ = runs.insert_in_order(61, 7);
        assert_eq!(runs.run(62), Some(64..192));
        assert_eq!(runs.blocks.slots(), 192, "none is left");
        assert!(runs.run(63).is_none() && runs.remove_one(63, 9).is_none());
        assert!(!tuned(Holds(&runs, 63, 0)) && tuned(Holds(&runs, 62, 127)));
        let shift = runs.insert_in_order(63, 9);
        assert_eq!(shift, Shift { from: 192, to: 192 });
        runs.check().expect("every invariant holds");
    }

    #[test]
    fn damaged_blocks_are_refused() {
        let mut runs = Runs::new(100, 4, 0);
        for quotient in [3, 3, 3, 40, 99, 99] {
            let _ = runs.insert(quotient, 9, |_, _| 0);
        }
        let whole = runs.as_bytes();
        assert!(Runs::from_bytes(&whole[1..], 100, 4, 0).is_err());
        assert!(Runs::from_bytes(&whole[..49], 100, 4, 0).is_err(), "too few blocks");
        assert!(Runs::from_bytes(whole, 99, 4, 0).is_err(), "a quotient too many");
        // A wrong remainder of a slot in use is all that it cannot notice.
        let unnoticed = (0..whole.len() * 8).filter(|bit| {
            let mut flipped = whole.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            Runs::from_bytes(&flipped, 100, 4, 0).is_ok()
        });
        // Beside them, a runend may be elsewhere in a run only in pairs.
        assert_eq!(unnoticed.count(), 6 * 4);
    }
}
