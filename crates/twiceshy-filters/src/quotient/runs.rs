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

mod check;
mod edit;
mod lookup;
mod offsets;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use super::block::{Blocks, Layout, SLOTS};
use super::glance::ByteBlocks;
use offsets::{LONG, offset_byte};

pub(crate) use edit::{Gap, Hole, Shift};

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

impl Runs {
    /// No runs yet, of quotients below `quotients`, with remainders of `width`
    /// bits and `state` bytes of state per block.
    pub(crate) fn new(quotients: usize, width: u32, state: usize) -> Self {
        let blocks = Blocks::new(Self::blocks_for(quotients), width, state);
        Runs { blocks, long_offsets: Vec::new(), quotients, len: 0 }
    }

    /// Blocks at first: one more than the quotients need. At a load of 0.95 the
    /// last runs reach further with a probability of about 0.002.
    fn blocks_for(quotients: usize) -> usize {
        quotients.div_ceil(SLOTS) + 1
    }

    /// The most quotients whose blocks fit into `room` bits.
    pub(crate) fn quotients_within(room: usize, width: u32, state: usize) -> Option<usize> {
        let blocks = Blocks::count_within(room, width, state)?.checked_sub(Self::blocks_for(0))?;
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

    /// The state of a block.
    #[inline(always)]
    pub(crate) fn state(&self, block: usize) -> &[u8] {
        self.blocks.state(block)
    }

    pub(crate) fn state_mut(&mut self, block: usize) -> &mut [u8] {
        self.blocks.state_mut(block)
    }

    pub(crate) fn block_count(&self) -> usize {
        self.blocks.count()
    }

    /// Where its blocks are at this moment.
    pub(crate) fn layout(&self) -> Layout {
        self.blocks.layout(self.quotients)
    }

    /// Prefetches what a query of a quotient needs.
    #[inline(always)]
    pub(crate) fn prefetch(&self, quotient: usize) {
        self.blocks.prefetch_run(quotient);
    }

    /// Prefetches the state of a quotient's block.
    #[inline(always)]
    pub(crate) fn prefetch_state(&self, quotient: usize) {
        self.blocks.prefetch_state(quotient);
    }

    /// What many queries see of them at once, where remainders have a byte.
    pub(super) fn of_bytes(&self) -> Option<ByteBlocks<'_>> {
        self.blocks.of_bytes()
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
        state: usize,
    ) -> Result<Self, String> {
        let blocks = Blocks::from_bytes(data, width, state)
            .filter(|blocks| blocks.count() >= quotients.div_ceil(SLOTS).max(1))
            .ok_or_else(|| format!("{} bytes are no blocks of {quotients} slots", data.len()))?;
        let mut runs = Runs { blocks, long_offsets: Vec::new(), quotients, len: 0 };
        runs.len = runs.iter().map(|(_, run)| run.len()).sum();
        runs.long_offsets =
            runs.offsets().enumerate().filter(|&(_, offset)| offset_byte(offset) == LONG).collect();
        runs.check()?;
        Ok(runs)
    }
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
