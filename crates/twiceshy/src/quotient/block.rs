//! Blocks of 64 slots with their metadata.
//!
//! Pandey, Bender, Johnson, Patro: "A General-Purpose Counting Filter: Making
//! Every Bit Count" (the rank-and-select quotient filter); Lee, McCauley, Singh,
//! Stein: "Telescoping Filter", section 5. One block, with remainders of `r` bits:
//!
//! ```text
//! bytes   8            8          1        8 r                         extra
//!         | occupieds  | runends  | offset | 64 remainders, packed      | a variant's |
//!           bit i:       bit i:     how far   slot i at bits i r to
//!           quotient i   slot i     runs of   (i + 1) r, the lowest
//!           has a run    ends a     earlier   bit first
//!                        run        blocks
//!                                   reach
//! ```
//!
//! 17 bytes for 64 slots are 2.125 bits a slot. Blocks follow each other without
//! gaps, so a remainder is one unaligned load of eight bytes; eight bytes of
//! padding let the last be read like any other. This file knows where things
//! are, not what they mean: that is [`super::runs`].

use std::ops::Range;

use crate::bits::packed::mask;
use crate::bits::prefetch::prefetch;
use crate::bits::word::low_bits;

/// Slots of a block.
pub(crate) const SLOTS: usize = 64;

const OCCUPIEDS: usize = 0;
const RUNENDS: usize = OCCUPIEDS + 8;
const OFFSET: usize = RUNENDS + 8;
const REMAINDERS: usize = OFFSET + 1;
const PADDING: usize = 8;

/// Blocks in one piece of memory.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Blocks {
    bytes: Vec<u8>,
    /// Bits of a remainder.
    width: u32,
    /// Bytes of a block.
    stride: usize,
}

impl Blocks {
    /// `count` blocks of empty slots, with remainders of `width` bits (1 to 32)
    /// and `extra` bytes for a variant's own use.
    pub(crate) fn new(count: usize, width: u32, extra: usize) -> Self {
        let stride = Self::stride_for(width, extra);
        let data = count.checked_mul(stride).expect("the blocks fit the address space");
        Blocks { bytes: vec![0; data + PADDING], width, stride }
    }

    /// Bytes of a block.
    fn stride_for(width: u32, extra: usize) -> usize {
        assert!((1..=32).contains(&width), "remainders are 1 to 32 bits wide, not {width}");
        REMAINDERS + 8 * width as usize + extra
    }

    /// The most blocks that fit into `room` bits, padding included.
    pub(crate) fn count_within(room: usize, width: u32, extra: usize) -> Option<usize> {
        Some((room / 8).checked_sub(PADDING)? / Self::stride_for(width, extra))
    }

    /// Blocks there are.
    pub(crate) fn count(&self) -> usize {
        (self.bytes.len() - PADDING) / self.stride
    }

    /// Slots there are.
    pub(crate) fn slots(&self) -> usize {
        self.count() * SLOTS
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
    }

    #[inline(always)]
    pub(crate) fn occupieds(&self, block: usize) -> u64 {
        self.load(block * self.stride + OCCUPIEDS)
    }

    pub(crate) fn set_occupied(&mut self, quotient: usize, occupied: bool) {
        self.set_bit(OCCUPIEDS, quotient, occupied);
    }

    #[inline(always)]
    pub(crate) fn runends(&self, block: usize) -> u64 {
        self.load(block * self.stride + RUNENDS)
    }

    pub(crate) fn is_runend(&self, slot: usize) -> bool {
        self.runends(slot / SLOTS) >> (slot % SLOTS) & 1 == 1
    }

    pub(crate) fn set_runend(&mut self, slot: usize, runend: bool) {
        self.set_bit(RUNENDS, slot, runend);
    }

    #[inline(always)]
    pub(crate) fn offset(&self, block: usize) -> u8 {
        self.bytes[block * self.stride + OFFSET]
    }

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

    pub(crate) fn set_remainder(&mut self, slot: usize, remainder: u64) {
        debug_assert!(remainder & !mask(self.width) == 0, "{remainder}: {} bits", self.width);
        let (byte, shift) = self.place(slot);
        let word = self.load(byte) & !(mask(self.width) << shift) | remainder << shift;
        self.store(byte, word);
    }

    /// A variant's own bytes of a block.
    #[inline(always)]
    pub(crate) fn extra(&self, block: usize) -> &[u8] {
        &self.bytes[self.extra_place(block)]
    }

    pub(crate) fn extra_mut(&mut self, block: usize) -> &mut [u8] {
        let place = self.extra_place(block);
        &mut self.bytes[place]
    }

    #[inline(always)]
    fn extra_place(&self, block: usize) -> Range<usize> {
        block * self.stride + REMAINDERS + 8 * self.width as usize..(block + 1) * self.stride
    }

    /// Moves remainders and runends of slots `from..to` to `from + 1..=to`.
    pub(crate) fn shift_up(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let (first, last) = (from / SLOTS, to / SLOTS);
        for block in (first..=last).rev() {
            let low = if block == first { from % SLOTS } else { 0 };
            let high = if block == last { to % SLOTS } else { SLOTS - 1 };
            let (runends, remainders) = self.cells(block);
            cells_up(runends, 1, low, high);
            cells_up(remainders.0, remainders.1, low, high);
            if block > first {
                self.copy_slot(block * SLOTS - 1, block * SLOTS);
            }
        }
    }

    /// Moves remainders and runends of slots `from + 1..=to` to `from..to`.
    pub(crate) fn shift_down(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let (first, last) = (from / SLOTS, to / SLOTS);
        for block in first..=last {
            let low = if block == first { from % SLOTS } else { 0 };
            let high = if block == last { to % SLOTS } else { SLOTS - 1 };
            let (runends, remainders) = self.cells(block);
            cells_down(runends, 1, low, high);
            cells_down(remainders.0, remainders.1, low, high);
            if block < last {
                self.copy_slot((block + 1) * SLOTS, (block + 1) * SLOTS - 1);
            }
        }
    }

    fn copy_slot(&mut self, from: usize, to: usize) {
        self.set_remainder(to, self.remainder(from));
        self.set_runend(to, self.is_runend(from));
    }

    /// A block's runends, and its remainders with their width.
    fn cells(&mut self, block: usize) -> (&mut [u8], (&mut [u8], u32)) {
        let whole = &mut self.bytes[block * self.stride..(block + 1) * self.stride];
        let (head, tail) = whole.split_at_mut(REMAINDERS);
        let width = self.width;
        (&mut head[RUNENDS..OFFSET], (&mut tail[..8 * width as usize], width))
    }

    fn set_bit(&mut self, field: usize, slot: usize, value: bool) {
        let byte = slot / SLOTS * self.stride + field + slot % SLOTS / 8;
        let bit = 1 << (slot % 8);
        let old = self.bytes[byte];
        self.bytes[byte] = if value { old | bit } else { old & !bit };
    }

    /// Asks for the memory of a slot and its metadata ahead of their use.
    #[inline]
    pub(crate) fn prefetch(&self, slot: usize) {
        prefetch(&self.bytes, slot / SLOTS * self.stride);
        prefetch(&self.bytes, self.place(slot).0);
    }

    /// The blocks' bytes, without the padding.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.bytes.len() - PADDING]
    }

    /// Blocks from bytes that [`Blocks::as_bytes`] gave. `None` when they are no
    /// whole number of blocks.
    pub(crate) fn from_bytes(data: &[u8], width: u32, extra: usize) -> Option<Self> {
        let stride = Self::stride_for(width, extra);
        if !data.len().is_multiple_of(stride) {
            return None;
        }
        let mut bytes = Vec::with_capacity(data.len() + PADDING);
        bytes.extend_from_slice(data);
        bytes.resize(data.len() + PADDING, 0);
        Some(Blocks { bytes, width, stride })
    }

    #[inline(always)]
    fn load(&self, byte: usize) -> u64 {
        let eight = &self.bytes[byte..byte + 8];
        u64::from_le_bytes(eight.try_into().expect("a slice of eight bytes"))
    }

    fn store(&mut self, byte: usize, word: u64) {
        self.bytes[byte..byte + 8].copy_from_slice(&word.to_le_bytes());
    }
}

/// Word `index` of some words' bytes.
fn word_at(bytes: &[u8], index: usize) -> u64 {
    let eight = &bytes[8 * index..8 * index + 8];
    u64::from_le_bytes(eight.try_into().expect("a slice of eight bytes"))
}

/// Replaces the bits of word `index` that are bits `begin..end` of all.
fn blend(bytes: &mut [u8], index: usize, value: u64, begin: usize, end: usize) {
    let below = |bit: usize| low_bits(bit.saturating_sub(64 * index).min(64) as u32);
    let changed = below(end) & !below(begin);
    let word = word_at(bytes, index) & !changed | value & changed;
    bytes[8 * index..8 * index + 8].copy_from_slice(&word.to_le_bytes());
}

/// Moves cells `low..high` of packed cells of `width` bits (1 to 32) to
/// `low + 1..=high`, a word at a time.
fn cells_up(words: &mut [u8], width: u32, low: usize, high: usize) {
    let (begin, end) = ((low + 1) * width as usize, (high + 1) * width as usize);
    for index in (begin / 64..end.div_ceil(64)).rev() {
        let below = if index == 0 { 0 } else { word_at(words, index - 1) };
        let moved = word_at(words, index) << width | below >> (64 - width);
        blend(words, index, moved, begin, end);
    }
}

/// Moves cells `low + 1..=high` of packed cells of `width` bits (1 to 32) to
/// `low..high`, a word at a time.
fn cells_down(words: &mut [u8], width: u32, low: usize, high: usize) {
    let (begin, end) = (low * width as usize, high * width as usize);
    for index in begin / 64..end.div_ceil(64) {
        let above = if 8 * (index + 1) == words.len() { 0 } else { word_at(words, index + 1) };
        let moved = word_at(words, index) >> width | above << (64 - width);
        blend(words, index, moved, begin, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Three blocks with random contents in every field.
    fn random(width: u32, extra: usize, rng: &mut Rng) -> Blocks {
        let mut blocks = Blocks::new(3, width, extra);
        let len = blocks.bytes.len() - PADDING;
        blocks.bytes[..len].iter_mut().for_each(|byte| *byte = rng.next() as u8);
        blocks
    }

    #[test]
    fn a_block_written_by_hand() {
        let mut blocks = Blocks::new(2, 12, 1);
        blocks.set_occupied(64 + 9, true);
        blocks.set_runend(64 + 63, true);
        blocks.set_offset(1, 200);
        blocks.set_remainder(64, 0xabc);
        blocks.set_remainder(65, 0x123);
        let bytes = blocks.as_bytes();
        let stride = 8 + 8 + 1 + 64 * 12 / 8 + 1;
        assert_eq!(bytes.len(), 2 * stride);
        assert!(bytes[..stride].iter().all(|&byte| byte == 0));
        let mut expected = vec![0; stride];
        expected[1] = 0b10; // quotient 9
        expected[15] = 0b1000_0000; // slot 63
        expected[16] = 200;
        expected[17..20].copy_from_slice(&[0xbc, 0x3a, 0x12]);
        assert_eq!(&bytes[stride..], expected);
        assert!(Blocks::from_bytes(bytes, 12, 1) == Some(blocks.clone()));
        assert!(Blocks::from_bytes(&bytes[1..], 12, 1).is_none());
    }

    /// The slow obvious version, slot by slot.
    fn slow_shift(blocks: &mut Blocks, from: usize, to: usize, up: bool) {
        if up {
            (from..to).rev().for_each(|slot| blocks.copy_slot(slot, slot + 1));
        } else {
            (from..to).for_each(|slot| blocks.copy_slot(slot + 1, slot));
        }
    }

    #[test]
    fn shifts_by_words_agree_with_shifts_slot_by_slot() {
        let mut rng = Rng::new(5);
        for width in 1..=32 {
            for _ in 0..if cfg!(miri) { 2 } else { 300 } {
                let mut fast = random(width, (width % 3) as usize, &mut rng);
                let mut slow = fast.clone();
                let from = rng.below(192) as usize;
                let to = from + rng.below(192 - from as u64) as usize;
                for up in [true, false] {
                    slow_shift(&mut slow, from, to, up);
                    if up {
                        fast.shift_up(from, to)
                    } else {
                        fast.shift_down(from, to)
                    }
                    assert!(fast == slow, "width {width}, {from} to {to}, up: {up}");
                }
            }
        }
    }

    #[test]
    fn every_width_agrees_with_a_vector_of_numbers() {
        let mut rng = Rng::new(6);
        for width in 1..=32 {
            let mut blocks = Blocks::new(2, width, 7);
            let mut plain = vec![0; 128];
            for _ in 0..500 {
                let slot = rng.below(128) as usize;
                plain[slot] = rng.next() & mask(width);
                blocks.set_remainder(slot, plain[slot]);
            }
            blocks.push(0);
            let held: Vec<u64> = (0..128).map(|slot| blocks.remainder(slot)).collect();
            assert_eq!(held, plain, "width {width}");
            assert_eq!(blocks.count(), 3);
            assert_eq!(blocks.remainder(191), 0);
            assert_eq!([blocks.runends(1), blocks.occupieds(1)], [0, 0], "nothing else changed");
        }
    }
}
