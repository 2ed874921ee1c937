//! The safe twin, for every processor.

use super::{Lanes, Line, Twin};
use crate::bits::word::{Portable as Words, Words as _, low_bits};
use crate::digest::Digest;
use crate::line::hot;

#[derive(Clone, Copy)]
pub(in super::super) struct Portable;

impl Lanes for Portable {
    #[inline]
    fn below(self, index: u32) -> u64 {
        low_bits(index & 0xff)
    }

    #[inline]
    fn run(self, below: u64, occupied: u64, starts: u64) -> u64 {
        if occupied & (below + 1) == 0 {
            return 0;
        }
        let start = Words.select(starts, (occupied & below).count_ones());
        let next = (starts & !low_bits(start + 1)).trailing_zeros();
        low_bits(next) & !low_bits(start)
    }

    #[inline]
    fn select(self, word: u64, index: u32) -> u32 {
        Words.select(word, index)
    }

    /// A run has a slot or two: one after the other.
    #[inline]
    fn matches(self, line: &[u8; 64], remainder: u8, slots: u64) -> u64 {
        let (mut left, mut found) = (slots, 0);
        while left != 0 {
            let slot = left.trailing_zeros();
            found |= u64::from(line[slot as usize] == remainder) << slot;
            left &= left - 1;
        }
        found
    }

    #[inline]
    fn compress(self, word: u64, mask: u64) -> u64 {
        // A run is one piece.
        if mask == 0 { 0 } else { (word & mask) >> mask.trailing_zeros() }
    }

    #[inline(never)]
    fn contains_anywhere<const K: usize>(
        self,
        lines: &[Line],
        count: usize,
        first: u64,
        second: u64,
    ) -> bool {
        hot::contains_anywhere_with::<K>(self, lines, count, Digest::new([first, second]))
    }
}

/// The hot operations with this twin.
pub(super) fn twin<const K: usize>() -> Twin {
    fn contains<const K: usize>(lines: &[Line], count: usize, first: u64, second: u64) -> bool {
        hot::contains_with::<K>(Portable, lines, count, Digest::new([first, second]))
    }
    fn adapted<const K: usize>(lines: &[Line], count: usize, first: u64, second: u64) -> bool {
        hot::contains_adapted_with::<K>(Portable, lines, count, Digest::new([first, second]))
    }
    Twin {
        contains: contains::<K>,
        forms: [contains::<K>, adapted::<K>],
        contains_many: |lines, count, digests, found| {
            hot::contains_many_with::<K>(Portable, lines, count, digests, found);
        },
        insert: |lines, count, digest| hot::insert_with::<K>(Portable, lines, count, digest),
        delete: |lines, count, digest| hot::delete_with::<K>(Portable, lines, count, digest),
    }
}
