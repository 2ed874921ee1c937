//! Batches of queries in blocks with remainders of a byte: one branchless look at a run.
//!
//! At a load of 0.95, 61 of 100 quotients have a run, and every sixth run ends in
//! another block or in the last slot of its own: branches on that would be unpredictable.
//! There are none here. The answer is computed as if the run were near, and a flag says
//! whether it was.
//!
//! A place is a word with all bits below it set, so that the larger of two places is
//! `|`. (The compiler made a branch of `max`.)
//!
//! ```text
//! bit           63 ..                  0
//! below_start   0 0 0 0 0 1 1 1 1 1 1 1      starts at slot 7
//! below_end     0 0 1 1 1 1 1 1 1 1 1 1      ends before slot 10
//! ```

use crate::bits::prefetch::prefetch;
use crate::bits::word::{Words, low_bits};

use super::block::{ByteBlock, Bytes, Head, SLOTS};

/// Blocks with remainders of a byte.
#[derive(Clone, Copy)]
pub(crate) struct ByteBlocks<'a> {
    bytes: &'a [u8],
    /// Bytes of a block.
    stride: usize,
}

/// A quotient's run at one glance.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    /// Whether there is one.
    pub(crate) occupied: bool,
    /// Whether its slots are beyond one glance.
    pub(crate) far: bool,
    /// Its slots, perhaps none; meaningless if it is far.
    pub(crate) slots: Bytes,
}

impl<'a> ByteBlocks<'a> {
    /// The largest block, in bytes: three prefetches reach all of its cache lines. Blocks
    /// with uncompressed selectors are larger, and leave every match open anyway.
    pub(super) const LARGEST: usize = 128;

    pub(super) fn new(bytes: &'a [u8], stride: usize) -> Self {
        ByteBlocks { bytes, stride }
    }

    /// Prefetches all of a quotient's block, and the byte behind it: there the next
    /// block starts, where a run may go on.
    #[inline(always)]
    pub(crate) fn prefetch(self, quotient: usize) {
        // One by one: batches were a quarter slower with an iterator.
        let [first, middle, behind] = self.asked_for(quotient);
        prefetch(self.bytes, first);
        prefetch(self.bytes, middle);
        prefetch(self.bytes, behind);
    }

    /// One byte of each cache line of a quotient's block and of the byte behind it.
    #[inline(always)]
    fn asked_for(self, quotient: usize) -> [usize; 3] {
        let at = quotient / SLOTS * self.stride;
        [at, at + self.stride / 2, at + self.stride]
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
        let past = (usize::from(offset) / SLOTS) | (end / SLOTS) | (len / most);
        Seen {
            occupied: own == 1,
            far: (own == 1) & (past != 0),
            slots: block.slots(start, len % most, end),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::bits::word::{Portable, Work, tuned};
    use crate::quotient::runs::Runs;
    use crate::rng::Rng;

    /// Compares every quotient of some runs with what looking for its run finds.
    struct Compare<'a>(&'a Runs);

    impl Work for Compare<'_> {
        /// How many were empty, near and far.
        type Outcome = [usize; 3];

        fn run(self, words: impl Words) -> [usize; 3] {
            let runs = self.0;
            let blocks = runs.of_bytes().expect("remainders of a byte");
            let mut counts = [0; 3];
            for quotient in 0..runs.quotients() {
                let Seen { occupied, far, slots } = blocks.glance(words, quotient);
                let run = runs.run(quotient);
                assert_eq!(occupied, run.is_some(), "quotient {quotient}");
                let Some(run) = run else {
                    assert!(!far && slots.len == 0, "quotient {quotient} has no run");
                    counts[0] += 1;
                    continue;
                };
                let block = quotient / SLOTS;
                let reached_past = usize::from(runs.blocks.offset(block)) >= SLOTS;
                let ends_here = run.end < (block + 1) * SLOTS;
                let near = ends_here && !reached_past && run.len() <= Bytes::MOST;
                assert_eq!(far, !near, "quotient {quotient}, {run:?}");
                counts[1 + usize::from(far)] += 1;
                if far {
                    continue;
                }
                assert_eq!(slots.len as usize, run.len(), "quotient {quotient}");
                assert_eq!(slots.end, run.end - block * SLOTS, "quotient {quotient}");
                let state = runs.state(block);
                assert_eq!(slots.state.to_le_bytes()[..state.len()], *state);
                let held: Vec<u64> = run.map(|slot| runs.remainder(slot)).collect();
                for remainder in 0..256 {
                    let expected = held.contains(&remainder);
                    assert_eq!(slots.any(remainder), expected, "quotient {quotient}, {held:?}");
                }
            }
            counts
        }
    }

    #[test]
    fn all_lines_of_a_block_are_asked_for_wherever_it_starts() {
        for stride in SLOTS..=ByteBlocks::LARGEST {
            let blocks = ByteBlocks::new(&[], stride);
            for (block, start) in (0..3).flat_map(|block| (0..64).map(move |at| (block, at))) {
                let line = |byte: usize| (start + byte) / 64;
                let asked = blocks.asked_for(block * SLOTS + 63).map(line);
                let needed = block * stride..=(block + 1) * stride;
                for byte in needed.clone() {
                    assert!(asked.contains(&line(byte)), "stride {stride}, block {block}");
                }
                let lines = line(*needed.start())..=line(*needed.end());
                assert!(asked.iter().all(|line| lines.contains(line)), "stride {stride}");
            }
        }
    }

    #[test]
    fn both_twins_see_what_looking_for_each_run_finds() {
        let mut rng = Rng::new(1);
        let quotients = if cfg!(miri) { 130 } else { 2000 };
        let mut counts = [0; 3];
        for state in [0, 7] {
            for percent in [0, 50, 95, 100] {
                let mut runs = Runs::new(quotients, 8, state);
                for _ in 0..quotients * percent / 100 {
                    // Some pile up before a block's end, so that offsets are large; some at
                    // the start of blocks, where runs of eight and more slots end.
                    let quotient = match rng.below(10) {
                        0 => 60 + rng.below(4),
                        1 => 64 * rng.below(20) % quotients as u64,
                        _ => rng.below(quotients as u64),
                    };
                    let _ = runs.insert_in_order(quotient as usize, rng.below(256));
                }
                for block in 0..runs.block_count() {
                    runs.state_mut(block).fill_with(|| rng.next() as u8);
                }
                let seen = tuned(Compare(&runs));
                assert_eq!(Compare(&runs).run(Portable), seen);
                (0..3).for_each(|kind| counts[kind] += seen[kind]);
            }
        }
        let least = quotients / 10;
        assert!(counts.iter().all(|&count| count > least), "{counts:?} prove little");
    }
}
