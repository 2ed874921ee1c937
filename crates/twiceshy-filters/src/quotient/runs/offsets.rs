//! How many slots at the start of a block belong to runs of earlier blocks.

use alloc::vec::Vec;
use core::ops::Range;

use super::Runs;
use crate::quotient::block::SLOTS;

/// The byte of an offset that is in the list.
pub(super) const LONG: u8 = u8::MAX;

impl Runs {
    /// How many slots from a block's first on belong to runs of earlier blocks.
    #[inline]
    pub(super) fn offset(&self, block: usize) -> usize {
        match self.blocks.offset(block) {
            LONG => self.long_offset(block),
            short => usize::from(short),
        }
    }

    /// An offset of [`LONG`] or more.
    #[cold]
    pub(super) fn long_offset(&self, block: usize) -> usize {
        let at = self.find_long(block).expect("a long offset is in the list");
        self.long_offsets[at].1
    }

    /// Where a block is in the list, or would be.
    pub(super) fn find_long(&self, block: usize) -> Result<usize, usize> {
        self.long_offsets.binary_search_by_key(&block, |&(block, _)| block)
    }

    /// The long offsets of some blocks.
    pub(super) fn long_offsets_of(&mut self, blocks: &Range<usize>) -> &mut [(usize, usize)] {
        let [start, end] = [blocks.start, blocks.end]
            .map(|bound| self.long_offsets.partition_point(|&(block, _)| block < bound));
        &mut self.long_offsets[start..end]
    }

    /// Sets the offset of a block that had none.
    pub(in crate::quotient) fn set_offset(&mut self, block: usize, offset: usize) {
        self.blocks.set_offset(block, offset_byte(offset));
        if offset_byte(offset) == LONG {
            match self.find_long(block) {
                Ok(at) => self.long_offsets[at].1 = offset,
                Err(at) => self.long_offsets.insert(at, (block, offset)),
            }
        }
    }

    /// Adds a block behind the last. Memory for blocks behind the quotients doubles, so a
    /// run of n slots costs log n allocations.
    #[cold]
    pub(in crate::quotient) fn add_block(&mut self) {
        let behind = self.blocks.count() - self.quotients.div_ceil(SLOTS);
        self.blocks.push(behind - 1);
    }

    /// Adds one to the offset of each of these blocks.
    #[inline(always)]
    pub(super) fn raise_offsets(&mut self, blocks: Range<usize>) {
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
    pub(super) fn raise_long_offsets(&mut self, blocks: Range<usize>) {
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
    pub(super) fn lower_offsets(&mut self, blocks: Range<usize>) {
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
    pub(super) fn lower_long_offsets(&mut self, blocks: Range<usize>) {
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

    /// The offset of each block, from the runs themselves.
    pub(super) fn offsets(&self) -> impl Iterator<Item = usize> + '_ {
        let mut runs = self.iter().peekable();
        let mut used = 0;
        (0..self.blocks.count()).map(move |block| {
            while let Some((_, run)) = runs.next_if(|(quotient, _)| *quotient < block * SLOTS) {
                used = run.end;
            }
            used.saturating_sub(block * SLOTS)
        })
    }
}

pub(super) fn offset_byte(offset: usize) -> u8 {
    u8::try_from(offset).unwrap_or(LONG)
}
