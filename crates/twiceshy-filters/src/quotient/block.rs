//! Blocks of 64 slots with their metadata.
//!
//! Pandey, Bender, Johnson, Patro: "A General-Purpose Counting Filter: Making
//! Every Bit Count" (the rank-and-select quotient filter); Lee, McCauley, Singh,
//! Stein: "Telescoping Filter", section 5. One block, with remainders of `r` bits:
//!
//! ```text
//! bytes   8            8          1        8 r                         up to 64
//!         | occupieds  | runends  | offset | 64 remainders, packed      | state |
//!           bit i:       bit i:     how far   slot i at bits i r to
//!           quotient i   slot i     runs of   (i + 1) r, the lowest
//!           has a run    ends a     earlier   bit first
//!                        run        blocks
//!                                   reach
//! ```
//!
//! 17 bytes for 64 slots are 2.125 bits per slot. Blocks follow each other without
//! gaps, so a remainder is one unaligned load of eight bytes; eight bytes of
//! padding let the last be read like any other. This file knows where things
//! are; [`super::runs`] knows what they mean, and a variant what its state means.

mod bytes;
mod shift;

use alloc::vec::Vec;
use core::ops::Range;

use crate::bits::lanes::Lanes;
use crate::bits::packed::mask;
use crate::bits::pages::filled;
use crate::bits::prefetch::prefetch;
use crate::bits::word::low_bits;

use super::glance::ByteBlocks;

pub(super) use bytes::ByteBlock;
pub use bytes::Bytes;

/// Slots of a block.
pub(crate) const SLOTS: usize = 64;

const OCCUPIEDS: usize = 0;
const RUNENDS: usize = OCCUPIEDS + 8;
const OFFSET: usize = RUNENDS + 8;
const REMAINDERS: usize = OFFSET + 1;
const PADDING: usize = 8;

/// Where the state begins in a block with remainders of a byte, and the bytes up to the
/// state's eighth, which belongs to the next block if the state is shorter.
const BYTES_STATE: usize = REMAINDERS + SLOTS;
const BYTES_BLOCK: usize = BYTES_STATE + 8;

/// Blocks in one piece of memory.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Blocks {
    bytes: Vec<u8>,
    /// The number of blocks, stored: a division is a noticeable part of an insertion.
    count: usize,
    /// Bits of a remainder.
    width: u32,
    /// Bytes of a block.
    stride: usize,
    /// As many remainders as one load always has whole.
    lanes: Lanes,
}

/// A block's metadata.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) occupieds: u64,
    pub(crate) runends: u64,
    pub(crate) offset: u8,
}

/// Where blocks are in memory: for callers that prefetch one and read nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The address of the first.
    pub start: usize,
    /// Slots by home, before those that overflow.
    pub quotients: usize,
    /// Bytes of a block.
    pub stride: usize,
    /// Where the slots begin in a block; 0 for blocks of one cache line, which have all in one
    /// place.
    pub slots: usize,
}

impl Layout {
    /// The addresses of a quotient's metadata and of its own slot, where its run is if no
    /// earlier one is in the way; just the first for blocks of one cache line. The second is
    /// right for remainders of a byte only.
    #[inline(always)]
    pub fn addresses(self, quotient: usize) -> impl Iterator<Item = usize> {
        let block = self.start.wrapping_add((quotient / SLOTS).wrapping_mul(self.stride));
        let slot = block.wrapping_add(self.slots + quotient % SLOTS);
        core::iter::once(block).chain((self.slots != 0).then_some(slot))
    }
}

/// Neighbouring slots, counted from the first of the block where they start.
#[derive(Clone, Copy, Debug)]
pub struct Within {
    pub(crate) block: usize,
    /// The first, below 64.
    pub(crate) start: usize,
    /// The one behind the last, past 64 where that is in another block.
    pub(crate) end: usize,
}

impl Within {
    #[inline(always)]
    pub(crate) fn of(slots: &Range<usize>) -> Self {
        let block = slots.start / SLOTS;
        Within { block, start: slots.start % SLOTS, end: slots.end - block * SLOTS }
    }

    #[inline(always)]
    pub(crate) fn slots(self) -> Range<usize> {
        self.block * SLOTS + self.start..self.block * SLOTS + self.end
    }

    #[inline(always)]
    fn len(self) -> usize {
        self.end - self.start
    }
}

impl Blocks {
    /// `count` blocks of empty slots, with remainders of `width` bits (1 to 32)
    /// and `state` bytes of state.
    pub(crate) fn new(count: usize, width: u32, state: usize) -> Self {
        let stride = Self::stride_for(width, state);
        let data = count.checked_mul(stride).expect("the blocks fit the address space");
        Blocks {
            bytes: filled(0, data + PADDING),
            count,
            width,
            stride,
            lanes: Self::lanes_for(width),
        }
    }

    /// Bytes of a block.
    fn stride_for(width: u32, state: usize) -> usize {
        assert!((1..=32).contains(&width), "remainders are 1 to 32 bits wide, not {width}");
        REMAINDERS + 8 * width as usize + state
    }

    /// A load starts at a byte, up to seven bits before the remainder.
    fn lanes_for(width: u32) -> Lanes {
        let whole = if width.is_multiple_of(8) { 64 } else { 57 };
        Lanes::new(whole / width, width).expect("a remainder fits a word")
    }

    /// The most blocks that fit into `room` bits, padding included.
    pub(crate) fn count_within(room: usize, width: u32, state: usize) -> Option<usize> {
        Some((room / 8).checked_sub(PADDING)? / Self::stride_for(width, state))
    }

    /// The number of blocks.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// The number of slots.
    #[inline(always)]
    pub(crate) fn slots(&self) -> usize {
        self.count * SLOTS
    }

    /// Bits of a remainder.
    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        self.bytes.capacity() * 8
    }

    /// Adds a block of empty slots, with memory for `ahead` more.
    pub(crate) fn push(&mut self, ahead: usize) {
        let len = self.bytes.len();
        if self.bytes.capacity() < len + self.stride {
            self.bytes.reserve_exact((1 + ahead) * self.stride);
        }
        self.bytes.resize(len + self.stride, 0);
        self.count += 1;
    }

    /// The blocks for batches of queries; `None` unless remainders have a byte and blocks
    /// are small enough.
    pub(crate) fn of_bytes(&self) -> Option<ByteBlocks<'_>> {
        let few = self.width == 8 && self.stride <= ByteBlocks::LARGEST;
        few.then(|| ByteBlocks::new(&self.bytes, self.stride))
    }

    #[inline(always)]
    pub(crate) fn head(&self, block: usize) -> Head {
        let at = block * self.stride;
        let bytes = &self.bytes[at..at + REMAINDERS];
        Head {
            occupieds: word_at(bytes, OCCUPIEDS / 8),
            runends: word_at(bytes, RUNENDS / 8),
            offset: bytes[OFFSET],
        }
    }

    #[inline(always)]
    pub(crate) fn occupieds(&self, block: usize) -> u64 {
        self.load(block * self.stride + OCCUPIEDS)
    }

    #[inline(always)]
    pub(crate) fn set_occupied(&mut self, quotient: usize, occupied: bool) {
        self.set_bit(OCCUPIEDS, quotient, occupied);
    }

    #[inline(always)]
    pub(crate) fn runends(&self, block: usize) -> u64 {
        self.load(block * self.stride + RUNENDS)
    }

    #[inline(always)]
    pub(crate) fn set_runend(&mut self, slot: usize, runend: bool) {
        self.set_bit(RUNENDS, slot, runend);
    }

    #[inline(always)]
    pub(crate) fn offset(&self, block: usize) -> u8 {
        self.bytes[block * self.stride + OFFSET]
    }

    #[inline(always)]
    pub(crate) fn set_offset(&mut self, block: usize, offset: u8) {
        self.bytes[block * self.stride + OFFSET] = offset;
    }

    /// Byte and bit of a slot's remainder.
    #[inline(always)]
    fn place(&self, slot: usize) -> (usize, u32) {
        let at = slot % SLOTS * self.width as usize;
        (slot / SLOTS * self.stride + REMAINDERS + at / 8, (at % 8) as u32)
    }

    #[inline(always)]
    pub(crate) fn remainder(&self, slot: usize) -> u64 {
        let (byte, shift) = self.place(slot);
        self.load(byte) >> shift & mask(self.width)
    }

    /// The remainders of these slots, from the lowest bits up, and the number of their bits;
    /// other bits are above. `None` if one load does not have all.
    #[inline(always)]
    fn load_slots(&self, slots: Within) -> Option<(u64, u32)> {
        if self.width == 8 {
            let bytes = self.load_bytes(slots)?;
            return Some((bytes.held, 8 * bytes.len));
        }
        let bits = slots.len() * self.width as usize;
        if bits > self.lanes.bits() as usize || slots.end > SLOTS {
            return None;
        }
        let at = slots.start * self.width as usize;
        let byte = slots.block * self.stride + REMAINDERS + at / 8;
        // No slots may be behind the last block.
        let eight = self.bytes.get(byte..byte + 8)?;
        Some((word_at(eight, 0) >> (at % 8), bits as u32))
    }

    /// These slots, with remainders of a byte; `None` if one load does not have all.
    #[inline(always)]
    pub(crate) fn load_bytes(&self, slots: Within) -> Option<Bytes> {
        debug_assert!(self.width == 8, "remainders of {} bits", self.width);
        if slots.len() > Bytes::MOST || slots.end > SLOTS {
            return None;
        }
        // No slots may be behind the last block.
        let block = ByteBlock::get(&self.bytes, slots.block * self.stride)?;
        Some(block.slots(slots.start, slots.len(), slots.end))
    }

    /// Whether one of these slots holds the remainder.
    #[inline(always)]
    pub(crate) fn any(&self, slots: Within, remainder: u64) -> bool {
        self.any_at_once(slots, remainder)
            .unwrap_or_else(|| slots.slots().any(|slot| self.remainder(slot) == remainder))
    }

    /// [`Blocks::any`] where one load has all slots.
    #[inline(always)]
    pub(crate) fn any_at_once(&self, slots: Within, remainder: u64) -> Option<bool> {
        let (word, bits) = self.load_slots(slots)?;
        Some(self.lanes.any_zero_below(word ^ self.lanes.broadcast(remainder), bits))
    }

    /// The first of these slots that holds the remainder.
    #[inline(always)]
    pub(crate) fn first(&self, mut slots: Range<usize>, remainder: u64) -> Option<usize> {
        match self.load_slots(Within::of(&slots)) {
            Some((word, bits)) => {
                let found = self.lanes.zeros(word ^ self.lanes.broadcast(remainder));
                let found = found & low_bits(bits);
                (found != 0).then(|| slots.start + self.lanes.first(found) as usize)
            }
            None => slots.find(|&slot| self.remainder(slot) == remainder),
        }
    }

    /// How many of these slots, in order, hold the remainder or less.
    #[inline(always)]
    pub(crate) fn count_up_to(&self, slots: Range<usize>, remainder: u64) -> usize {
        match self.load_slots(Within::of(&slots)) {
            Some((word, bits)) => self.lanes.count_up_to(word, remainder, bits) as usize,
            // From the end: digests inserted in order belong there.
            None => {
                let more = slots.clone().rev().take_while(|&slot| self.remainder(slot) > remainder);
                slots.len() - more.count()
            }
        }
    }

    /// Whether these slots are in order of remainders, equal ones allowed.
    #[inline(always)]
    pub(crate) fn are_sorted(&self, slots: Range<usize>) -> bool {
        match self.load_slots(Within::of(&slots)) {
            Some((word, bits)) => self.lanes.are_sorted(word, bits),
            None => slots.map(|slot| self.remainder(slot)).is_sorted(),
        }
    }

    /// The state of a block.
    #[inline(always)]
    pub(crate) fn state(&self, block: usize) -> &[u8] {
        &self.bytes[self.state_place(block)]
    }

    pub(crate) fn state_mut(&mut self, block: usize) -> &mut [u8] {
        let place = self.state_place(block);
        &mut self.bytes[place]
    }

    #[inline(always)]
    fn state_place(&self, block: usize) -> Range<usize> {
        block * self.stride + REMAINDERS + 8 * self.width as usize..(block + 1) * self.stride
    }

    #[inline(always)]
    pub(crate) fn set_remainder(&mut self, slot: usize, remainder: u64) {
        debug_assert!(remainder & !mask(self.width) == 0, "{remainder}: {} bits", self.width);
        let (byte, shift) = self.place(slot);
        let word = self.load(byte) & !(mask(self.width) << shift) | remainder << shift;
        self.store(byte, word);
    }

    #[inline(always)]
    pub(crate) fn set_occupieds(&mut self, block: usize, occupieds: u64) {
        self.store(block * self.stride + OCCUPIEDS, occupieds);
    }

    #[inline(always)]
    pub(crate) fn set_runends(&mut self, block: usize, runends: u64) {
        self.store(block * self.stride + RUNENDS, runends);
    }

    /// Writes one of the `width` words of a block's remainders.
    #[inline(always)]
    pub(crate) fn set_word(&mut self, block: usize, index: usize, word: u64) {
        debug_assert!(index < self.width as usize, "word {index} of {} bits", self.width);
        self.store(block * self.stride + REMAINDERS + 8 * index, word);
    }

    /// A block's remainders.
    #[inline(always)]
    fn remainders(&mut self, block: usize) -> &mut [u8] {
        let at = block * self.stride + REMAINDERS;
        &mut self.bytes[at..at + 8 * self.width as usize]
    }

    #[inline(always)]
    fn set_bit(&mut self, field: usize, slot: usize, value: bool) {
        let byte = slot / SLOTS * self.stride + field + slot % SLOTS / 8;
        let bit = 1 << (slot % 8);
        let old = self.bytes[byte];
        self.bytes[byte] = if value { old | bit } else { old & !bit };
    }

    /// Where the blocks are now, with so many quotients.
    pub(crate) fn layout(&self, quotients: usize) -> Layout {
        Layout {
            start: self.bytes.as_ptr().addr(),
            quotients,
            stride: self.stride,
            slots: REMAINDERS,
        }
    }

    /// Prefetches a slot and its metadata.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: usize) {
        prefetch(&self.bytes, slot / SLOTS * self.stride);
        self.prefetch_remainder(slot);
    }

    /// Prefetches all that a query of a quotient is likely to need: the metadata, and
    /// the slots up to 32 further, since few runs are moved by more at a load of 0.95.
    /// Behind a block's last slot are the metadata of the next block, which a run that
    /// continues there needs as well.
    #[inline(always)]
    pub(crate) fn prefetch_run(&self, quotient: usize) {
        let (byte, _) = self.place(quotient);
        prefetch(&self.bytes, quotient / SLOTS * self.stride);
        prefetch(&self.bytes, byte);
        prefetch(&self.bytes, byte + 4 * self.width as usize);
    }

    /// Prefetches the state of a quotient's block.
    #[inline(always)]
    pub(crate) fn prefetch_state(&self, quotient: usize) {
        prefetch(&self.bytes, (quotient / SLOTS + 1) * self.stride - 1);
    }

    /// Prefetches a slot.
    #[inline(always)]
    pub(crate) fn prefetch_remainder(&self, slot: usize) {
        prefetch(&self.bytes, self.place(slot).0);
    }

    /// The blocks' bytes, without the padding.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - PADDING]
    }

    /// Blocks from the bytes of [`Blocks::as_bytes`]; `None` if they are no whole number
    /// of blocks.
    pub(crate) fn from_bytes(data: &[u8], width: u32, state: usize) -> Option<Self> {
        let stride = Self::stride_for(width, state);
        if !data.len().is_multiple_of(stride) {
            return None;
        }
        let mut bytes = filled(0, data.len() + PADDING);
        bytes[..data.len()].copy_from_slice(data);
        let count = data.len() / stride;
        Some(Blocks { bytes, count, width, stride, lanes: Self::lanes_for(width) })
    }

    #[inline(always)]
    fn load(&self, byte: usize) -> u64 {
        let eight = &self.bytes[byte..byte + 8];
        u64::from_le_bytes(eight.try_into().expect("a slice of eight bytes"))
    }

    #[inline(always)]
    fn store(&mut self, byte: usize, word: u64) {
        self.bytes[byte..byte + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// Word `index` of some words' bytes.
#[inline(always)]
fn word_at(bytes: &[u8], index: usize) -> u64 {
    let eight = &bytes[8 * index..8 * index + 8];
    u64::from_le_bytes(eight.try_into().expect("a slice of eight bytes"))
}

#[cfg(test)]
mod tests;
