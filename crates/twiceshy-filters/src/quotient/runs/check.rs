//! The invariants of runs.

use alloc::format;
use alloc::string::String;
use core::ops::Range;

use super::Runs;
use super::offsets::{LONG, offset_byte};
use crate::quotient::block::Blocks;

impl Runs {
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

    /// Empty slots are part of the file, and zero.
    pub(super) fn check_empty(&self, mut slots: Range<usize>) -> Result<(), String> {
        match slots.find(|&slot| self.remainder(slot) != 0) {
            Some(slot) => Err(format!("slot {slot} is empty and holds a remainder")),
            None => Ok(()),
        }
    }
}
