//! Blocks with remainders of a byte: a few slots in one word.

use super::{BYTES_BLOCK, BYTES_STATE, Head, OCCUPIEDS, OFFSET, REMAINDERS, RUNENDS, SLOTS};
use crate::bits::bytes::any_equal;

/// Some neighbouring slots with remainders of a byte.
#[derive(Clone, Copy)]
pub struct Bytes {
    /// Their remainders, from the lowest bits up; above them are others.
    pub(crate) held: u64,
    /// How many they are.
    pub(crate) len: u32,
    /// The slot behind the last, counted from the block's first: at most 64.
    pub(crate) end: usize,
    /// The first eight bytes of the state; if it is shorter, the next block's are above.
    pub(crate) state: u64,
}

impl Bytes {
    /// The most that are taken at once: one less than a load has, so that a mask
    /// of them is one shift.
    pub(in crate::quotient) const MOST: usize = 7;

    /// Whether one of them is this remainder.
    #[inline(always)]
    pub(crate) fn any(self, remainder: u64) -> bool {
        any_equal(self.held, self.len, remainder as u8)
    }
}

/// A block with remainders of a byte: with distances that are known, one comparison
/// shows that all of it is there.
#[derive(Clone, Copy)]
pub(in crate::quotient) struct ByteBlock<'a>(&'a [u8; BYTES_BLOCK]);

impl<'a> ByteBlock<'a> {
    /// The block from byte `at` on, if it is there.
    #[inline(always)]
    pub(in crate::quotient) fn get(bytes: &'a [u8], at: usize) -> Option<Self> {
        Some(ByteBlock(bytes.get(at..at + BYTES_BLOCK)?.try_into().ok()?))
    }

    #[inline(always)]
    pub(in crate::quotient) fn head(self) -> Head {
        Head {
            occupieds: word_from(self.0, OCCUPIEDS),
            runends: word_from(self.0, RUNENDS),
            offset: self.0[OFFSET],
        }
    }

    /// The `len` slots (0 to 7) from `start` to before `end` (0 to 64).
    #[inline(always)]
    pub(in crate::quotient) fn slots(self, start: usize, len: usize, end: usize) -> Bytes {
        Bytes {
            held: word_from(self.0, REMAINDERS + start % SLOTS),
            len: len as u32,
            end,
            state: word_from(self.0, BYTES_STATE),
        }
    }
}

/// The eight bytes from `at` on.
#[inline(always)]
fn word_from(block: &[u8; BYTES_BLOCK], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("a slice of eight bytes"))
}
