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
//! one that does not fit is in a list beside the blocks, so a run may be as long
//! as it likes.
//!
//! Nothing wraps around: runs that pass the last quotient's slot go on into
//! blocks behind it, which are added as needed.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bits::word::{Words, Work, WorkOn, low_bits, rank, tuned};

use super::block::{Blocks, Bytes, Head, Layout, SLOTS, Within};
use super::glance::ByteBlocks;

/// The byte of an offset that is in the list.
const LONG: u8 = u8::MAX;

/// Runs of remainders, one for each occupied quotient.
#[derive(Clone, PartialEq, Eq)]
pub struct Runs {
    pub(super) blocks: Blocks,
    /// The blocks with offsets of [`LONG`] and more, in order, and these offsets: a list,
    /// whose memory can be counted.
    long_offsets: Vec<(usize, usize)>,
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
        Runs { blocks, long_offsets: Vec::new(), quotients, len: 0 }
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

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        let entry = size_of::<(usize, usize)>() * 8;
        self.blocks.bits() + self.long_offsets.capacity() * entry
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

    /// Where its blocks are at this moment.
    pub(crate) fn layout(&self) -> Layout {
        self.blocks.layout(self.quotients)
    }

    /// Asks for the memory of a quotient ahead of its use.
    #[inline(always)]
    pub(crate) fn prefetch(&self, quotient: usize) {
        self.blocks.prefetch_run(quotient);
    }

    /// Asks for a variant's own bytes of a quotient's block.
    #[inline(always)]
    pub(crate) fn prefetch_extra(&self, quotient: usize) {
        self.blocks.prefetch_extra(quotient);
    }

    /// What many queries see of them at once, where remainders have a byte.
    pub(super) fn of_bytes(&self) -> Option<ByteBlocks<'_>> {
        self.blocks.of_bytes()
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
        let (occupied, near) = self.find_near(words, quotient);
        let far = || words.apart(FarLookup { runs: self }, quotient);
        (occupied, near.map_or_else(far, Within::slots))
    }

    /// [`Runs::find`], with the slots if the run ends in the quotient's own block and
    /// before its last slot, as five of six do at a load of 0.95.
    #[inline(always)]
    pub(super) fn find_near(&self, words: impl Words, quotient: usize) -> (bool, Option<Within>) {
        let (block, bit) = (quotient / SLOTS, (quotient % SLOTS) as u32);
        // The run is near its quotient's own slot, whose memory need not wait
        // for what the metadata say.
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
    pub(super) fn find_far(&self, words: impl Words, quotient: usize) -> Range<usize> {
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

    /// The same for a remainder that comes to its place in a run in order of
    /// remainders; `None` where it is there, or the run is not in order.
    #[inline]
    pub(crate) fn gap_in_order(&self, quotient: usize, remainder: u64) -> Option<Gap> {
        tuned(OrderedGapLookup { runs: self, quotient, remainder })
    }

    /// Whether the remainders of these slots are in order.
    pub(crate) fn are_sorted(&self, slots: Range<usize>) -> bool {
        self.blocks.are_sorted(slots)
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
            LONG => self.long_offset(block),
            short => usize::from(short),
        }
    }

    /// An offset of [`LONG`] or more.
    #[cold]
    fn long_offset(&self, block: usize) -> usize {
        let at = self.find_long(block).expect("a long offset is in the list");
        self.long_offsets[at].1
    }

    /// Where a block is in the list, or would be.
    fn find_long(&self, block: usize) -> Result<usize, usize> {
        self.long_offsets.binary_search_by_key(&block, |&(block, _)| block)
    }

    /// The long offsets of some blocks.
    fn long_offsets_of(&mut self, blocks: &Range<usize>) -> &mut [(usize, usize)] {
        let [start, end] = [blocks.start, blocks.end]
            .map(|bound| self.long_offsets.partition_point(|&(block, _)| block < bound));
        &mut self.long_offsets[start..end]
    }

    /// The offset of a block that had none.
    pub(super) fn set_offset(&mut self, block: usize, offset: usize) {
        self.blocks.set_offset(block, offset_byte(offset));
        if offset_byte(offset) == LONG {
            match self.find_long(block) {
                Ok(at) => self.long_offsets[at].1 = offset,
                Err(at) => self.long_offsets.insert(at, (block, offset)),
            }
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

    /// The same in the list, in one pass: a run of n slots has n / 64 of them.
    #[cold]
    fn raise_long_offsets(&mut self, blocks: Range<usize>) {
        self.long_offsets_of(&blocks).iter_mut().for_each(|(_, offset)| *offset += 1);
        for block in blocks {
            if self.blocks.offset(block) == LONG
                && let Err(at) = self.find_long(block)
            {
                self.long_offsets.insert(at, (block, usize::from(LONG)));
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

    /// The same in the list.
    #[cold]
    fn lower_long_offsets(&mut self, blocks: Range<usize>) {
        let mut short_again = Vec::new();
        for (block, offset) in self.long_offsets_of(&blocks) {
            *offset -= 1;
            if offset_byte(*offset) != LONG {
                short_again.push(*block);
            }
        }
        if short_again.is_empty() {
            return;
        }
        self.long_offsets.retain(|&(_, offset)| offset_byte(offset) == LONG);
        for block in short_again {
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
        let mut runs = Runs { blocks, long_offsets: Vec::new(), quotients, len: 0 };
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
                if self.find_long(block).map(|at| self.long_offsets[at].1) != Ok(offset) {
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
            // Both without a branch: runs differ, answers hardly ever do.
            comes = runs.blocks.are_sorted(run.clone()) & !runs.any(Within::of(&run), remainder);
            runs.blocks.count_up_to(run, remainder)
        });
        comes.then_some(gap)
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
        core::iter::from_fn(move || {
            let bit = (rest != 0).then(|| rest.trailing_zeros() as usize)?;
            rest &= rest - 1;
            Some(index * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests;
