//! What many queries see of a block with remainders of a byte: all at one glance.
//!
//! At a load of 0.95, 61 of 100 quotients have a run, and every sixth run ends in
//! another block or in the last slot of its own. Nobody can foresee which, so a query
//! that branches on it is often wrong. Here nothing is a branch: the answer is made
//! as if the run were near, and beside it is said whether it was.
//!
//! Where a run starts and ends is a word with all bits below set, for the larger of
//! two places is then `|`. (Of `max` a compiler may make a branch, and here did.)
//!
//! ```text
//! bit           63 ..                  0
//! below_start   0 0 0 0 0 1 1 1 1 1 1 1      starts at slot 7
//! below_end     0 0 1 1 1 1 1 1 1 1 1 1      ends before slot 10
//! ```

use crate::bits::word::{Words, low_bits};

use super::block::{ByteBlock, Bytes, Head, SLOTS};

/// Blocks with remainders of a byte.
#[derive(Clone, Copy)]
pub(crate) struct ByteBlocks<'a> {
    bytes: &'a [u8],
    /// Bytes of a block.
    stride: usize,
}

/// What is seen of a quotient's run.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// Whether there is one.
    pub(crate) occupied: bool,
    /// Whether its slots cannot be seen from here.
    pub(crate) far: bool,
    /// Its slots, or none. Where it is far they mean nothing.
    pub(crate) slots: Bytes,
}

impl<'a> ByteBlocks<'a> {
    pub(super) fn new(bytes: &'a [u8], stride: usize) -> Self {
        ByteBlocks { bytes, stride }
    }

    /// Looks at a quotient's run.
    #[inline(always)]
    pub(crate) fn glance(self, words: impl Words, quotient: usize) -> Seen {
        let bit = (quotient % SLOTS) as u32;
        let block = ByteBlock::get(self.bytes, quotient / SLOTS * self.stride);
        let block = block.expect("every quotient has a block");
        let Head { occupieds, runends, offset } = block.head();
        let (before, own) = (low_bits(bit), (occupieds >> bit & 1) as u32);
        // The slots behind the runs of earlier blocks and behind each of its own.
        let reached = u32::from(offset) % u64::BITS;
        let behinds = ((runends >> reached) << 1 | 1) << reached;
        let index = (occupieds & before).count_ones();
        let [below_start, below_end] =
            words.pick_two(behinds, index, own).map(|behind| behind.wrapping_sub(1) | before);
        let [start, end] = [below_start, below_end].map(|below| below.count_ones() as usize);
        let (len, most) = (end - start, Bytes::MOST + 1);
        // Each is zero where it is small enough.
        let past = usize::from(offset) / SLOTS | end / SLOTS | len / most;
        Seen {
            occupied: own == 1,
            far: (own == 1) & (past != 0),
            slots: block.slots(start, len % most, end),
        }
    }
}
