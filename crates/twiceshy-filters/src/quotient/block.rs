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

use alloc::vec::Vec;
use core::ops::Range;

use crate::bits::bytes::any_equal;
use crate::bits::lanes::Lanes;
use crate::bits::packed::mask;
use crate::bits::pages::filled;
use crate::bits::prefetch::prefetch;
use crate::bits::word::low_bits;

use super::glance::ByteBlocks;

/// Slots of a block.
pub(crate) const SLOTS: usize = 64;

const OCCUPIEDS: usize = 0;
const RUNENDS: usize = OCCUPIEDS + 8;
const OFFSET: usize = RUNENDS + 8;
const REMAINDERS: usize = OFFSET + 1;
const PADDING: usize = 8;

/// Where a variant's own bytes are in a block with remainders of a byte, and the
/// bytes up to their eighth, which is a neighbour's where there are fewer.
const BYTES_EXTRA: usize = REMAINDERS + SLOTS;
const BYTES_BLOCK: usize = BYTES_EXTRA + 8;

/// Blocks in one piece of memory.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Blocks {
    bytes: Vec<u8>,
    /// Blocks there are: a division is a noticeable part of an insertion.
    count: usize,
    /// Bits of a remainder.
    width: u32,
    /// Bytes of a block.
    stride: usize,
    /// As many remainders as one load is sure to have whole.
    lanes: Lanes,
}

/// A block's metadata.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) occupieds: u64,
    pub(crate) runends: u64,
    pub(crate) offset: u8,
}

/// Where blocks are in memory: for who asks for one ahead, and reads nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The address of the first.
    pub start: usize,
    /// Slots by home, before those that overflow.
    pub quotients: usize,
    /// Bytes of a block.
    pub stride: usize,
}

impl Layout {
    /// Where a quotient's metadata are, and where its run is as long as none before
    /// it is in the way; with remainders of a byte, that is, as most have.
    #[inline(always)]
    pub fn addresses(self, quotient: usize) -> [usize; 2] {
        let block = self.start.wrapping_add((quotient / SLOTS).wrapping_mul(self.stride));
        [block, block.wrapping_add(REMAINDERS + quotient % SLOTS)]
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

/// Some neighbouring slots with remainders of a byte.
#[derive(Clone, Copy)]
pub struct Bytes {
    /// Their remainders, from the lowest bits up; above them are others.
    pub(crate) held: u64,
    /// How many they are.
    pub(crate) len: u32,
    /// The slot behind the last, counted from the block's first: at most 64.
    pub(crate) end: usize,
    /// Eight bytes from the first of a variant's own on: a neighbour's above its.
    pub(crate) extra: u64,
}

impl Bytes {
    /// The most that are taken at once: one less than a load has, so that a mask
    /// of them is one shift.
    pub(super) const MOST: usize = 7;

    /// Whether one of them is this remainder.
    #[inline(always)]
    pub(crate) fn any(self, remainder: u64) -> bool {
        any_equal(self.held, self.len, remainder as u8)
    }
}

/// A block with remainders of a byte: with distances that are known, one comparison
/// shows that all of it is there.
#[derive(Clone, Copy)]
pub(super) struct ByteBlock<'a>(&'a [u8; BYTES_BLOCK]);

impl<'a> ByteBlock<'a> {
    /// The block from byte `at` on, if it is there.
    #[inline(always)]
    pub(super) fn get(bytes: &'a [u8], at: usize) -> Option<Self> {
        Some(ByteBlock(bytes.get(at..at + BYTES_BLOCK)?.try_into().ok()?))
    }

    #[inline(always)]
    pub(super) fn head(self) -> Head {
        Head {
            occupieds: word_from(self.0, OCCUPIEDS),
            runends: word_from(self.0, RUNENDS),
            offset: self.0[OFFSET],
        }
    }

    /// The `len` slots (0 to 7) from `start` to before `end` (0 to 64).
    #[inline(always)]
    pub(super) fn slots(self, start: usize, len: usize, end: usize) -> Bytes {
        Bytes {
            held: word_from(self.0, REMAINDERS + start % SLOTS),
            len: len as u32,
            end,
            extra: word_from(self.0, BYTES_EXTRA),
        }
    }
}

impl Blocks {
    /// `count` blocks of empty slots, with remainders of `width` bits (1 to 32)
    /// and `extra` bytes for a variant's own use.
    pub(crate) fn new(count: usize, width: u32, extra: usize) -> Self {
        let stride = Self::stride_for(width, extra);
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
    fn stride_for(width: u32, extra: usize) -> usize {
        assert!((1..=32).contains(&width), "remainders are 1 to 32 bits wide, not {width}");
        REMAINDERS + 8 * width as usize + extra
    }

    /// A load starts at a byte, up to seven bits before the remainder.
    fn lanes_for(width: u32) -> Lanes {
        let whole = if width.is_multiple_of(8) { 64 } else { 57 };
        Lanes::new(whole / width, width).expect("a remainder fits a word")
    }

    /// The most blocks that fit into `room` bits, padding included.
    pub(crate) fn count_within(room: usize, width: u32, extra: usize) -> Option<usize> {
        Some((room / 8).checked_sub(PADDING)? / Self::stride_for(width, extra))
    }

    /// Blocks there are.
    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Slots there are.
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

    /// What many queries see of them at once, where remainders have a byte and blocks
    /// are not larger than one glance is good for.
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

    /// The remainders of these slots, from the lowest bits up, and how many bits
    /// they are; above them are others. `None` where one load does not have all.
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

    /// These slots, of remainders of a byte; `None` where one load does not have
    /// all.
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
            // From the end, because what comes in order belongs there.
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

    #[inline(always)]
    pub(crate) fn set_remainder(&mut self, slot: usize, remainder: u64) {
        debug_assert!(remainder & !mask(self.width) == 0, "{remainder}: {} bits", self.width);
        let (byte, shift) = self.place(slot);
        let word = self.load(byte) & !(mask(self.width) << shift) | remainder << shift;
        self.store(byte, word);
    }

    /// Puts a runend, or none, before slot `at`, and moves those of `at..to` to
    /// `at + 1..=to`.
    #[inline(always)]
    pub(crate) fn insert_runend(&mut self, at: usize, to: usize, runend: bool) {
        let mut carry = u64::from(runend);
        for (block, low, high) in parts(at, to) {
            let old = self.runends(block);
            let moved = (old & !low_bits(low as u32)) << 1 | carry << low;
            self.set_runends(block, blend(old, moved, low as u32, high as u32 + 1));
            carry = old >> 63;
        }
    }

    /// Takes the runend of slot `at`, if it is one, and moves those of
    /// `at + 1..=to` to `at..to`; `to` has none then.
    #[inline(always)]
    pub(crate) fn remove_runend(&mut self, at: usize, to: usize) {
        for (block, low, high) in parts(at, to) {
            let old = self.runends(block);
            let next = if block == to / SLOTS { 0 } else { self.runends(block + 1) & 1 };
            let moved = (old & low_bits(high as u32 + 1)) >> 1 | next << 63;
            self.set_runends(block, blend(old, moved, low as u32, high as u32 + 1));
        }
    }

    /// Puts a remainder into slot `at`, and moves those of `at..to` to
    /// `at + 1..=to`.
    #[inline(always)]
    pub(crate) fn insert_remainder(&mut self, at: usize, to: usize, remainder: u64) {
        let width = self.width;
        let mut carry = remainder;
        for (block, low, high) in parts(at, to) {
            let slot = block * SLOTS + low;
            let next = if high + 1 == SLOTS { self.remainder(slot - low + high) } else { 0 };
            if let Some((byte, shift, bits)) = self.one_word(slot, high - low + 1) {
                let old = self.load(byte);
                let moved = (old >> shift << width | carry) << shift;
                self.store(byte, blend(old, moved, shift, shift + bits));
            } else if width == 8 {
                let begin = block * self.stride + REMAINDERS;
                let bytes = &mut self.bytes[begin - 1..begin + SLOTS];
                insert_byte(bytes.try_into().expect("65 bytes"), low, high, carry as u8);
            } else {
                cells_up(self.remainders(block), width, low, high);
                self.set_remainder(slot, carry);
            }
            carry = next;
        }
    }

    /// Moves the remainders of slots `at + 1..=to` to `at..to`; `to` has zero
    /// then.
    #[inline(always)]
    pub(crate) fn remove_remainder(&mut self, at: usize, to: usize) {
        let width = self.width;
        for (block, low, high) in parts(at, to) {
            let slot = block * SLOTS + low;
            let next = if block == to / SLOTS { 0 } else { self.remainder((block + 1) * SLOTS) };
            if let Some((byte, shift, bits)) = self.one_word(slot, high - low + 1) {
                let old = self.load(byte);
                let kept = old >> shift & low_bits(bits);
                let moved = (kept >> width | next << (bits - width)) << shift;
                self.store(byte, blend(old, moved, shift, shift + bits));
            } else if width == 8 {
                let begin = block * self.stride + REMAINDERS;
                let bytes = &mut self.bytes[begin..begin + SLOTS + 1];
                remove_byte(bytes.try_into().expect("65 bytes"), low, high, next as u8);
            } else {
                cells_down(self.remainders(block), width, low, high);
                self.set_remainder(slot - low + high, next);
            }
        }
    }

    /// The byte, the bit and the number of bits of `count` remainders from `slot`
    /// on, where one load has them all.
    #[inline(always)]
    fn one_word(&self, slot: usize, count: usize) -> Option<(usize, u32, u32)> {
        let bits = count as u32 * self.width;
        let (byte, shift) = self.place(slot);
        (shift + bits <= u64::BITS).then_some((byte, shift, bits))
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

    /// Where they are at this moment, with so many quotients.
    pub(crate) fn layout(&self, quotients: usize) -> Layout {
        Layout { start: self.bytes.as_ptr().addr(), quotients, stride: self.stride }
    }

    /// Asks for the memory of a slot and its metadata ahead of their use.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: usize) {
        prefetch(&self.bytes, slot / SLOTS * self.stride);
        self.prefetch_remainder(slot);
    }

    /// Asks for all that a query of a quotient is likely to need: the metadata, and
    /// the slots up to 32 further, as few runs are moved by more at a load of 0.95.
    /// Behind a block's last slot are the metadata of the next, which a run that goes
    /// on there needs as well.
    #[inline(always)]
    pub(crate) fn prefetch_run(&self, quotient: usize) {
        let (byte, _) = self.place(quotient);
        prefetch(&self.bytes, quotient / SLOTS * self.stride);
        prefetch(&self.bytes, byte);
        prefetch(&self.bytes, byte + 4 * self.width as usize);
    }

    /// Asks for a variant's own bytes of a quotient's block.
    #[inline(always)]
    pub(crate) fn prefetch_extra(&self, quotient: usize) {
        prefetch(&self.bytes, (quotient / SLOTS + 1) * self.stride - 1);
    }

    /// Asks for the memory of a slot.
    #[inline(always)]
    pub(crate) fn prefetch_remainder(&self, slot: usize) {
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

/// The eight bytes from `at` on.
#[inline(always)]
fn word_from(block: &[u8; BYTES_BLOCK], at: usize) -> u64 {
    u64::from_le_bytes(block[at..at + 8].try_into().expect("a slice of eight bytes"))
}

/// Word `index` of some words' bytes.
#[inline(always)]
fn word_at(bytes: &[u8], index: usize) -> u64 {
    let eight = &bytes[8 * index..8 * index + 8];
    u64::from_le_bytes(eight.try_into().expect("a slice of eight bytes"))
}

/// The blocks of slots `from..=to`, in order, with their first and last slot of
/// these, counted from the block's own first.
#[inline(always)]
fn parts(from: usize, to: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let (first, last) = (from / SLOTS, to / SLOTS);
    (first..last + 1).map(move |block| {
        let low = if block == first { from % SLOTS } else { 0 };
        let high = if block == last { to % SLOTS } else { SLOTS - 1 };
        (block, low, high)
    })
}

/// `old` with bits `begin..end` of `new`.
#[inline(always)]
fn blend(old: u64, new: u64, begin: u32, end: u32) -> u64 {
    let changed = low_bits(end) & !low_bits(begin);
    old & !changed | new & changed
}

/// Bytes that are moved at a time.
const CHUNK: usize = 16;

/// Moves bytes `low..high` of the last 64 to `low + 1..=high` and puts another
/// at `low`. All are written, by vectors and without a branch on how many move:
/// that would be guessed wrong too often.
#[inline(always)]
fn insert_byte(bytes: &mut [u8; 1 + SLOTS], low: usize, high: usize, byte: u8) {
    for at in (0..SLOTS).step_by(CHUNK).rev() {
        let below = chunk(bytes, at);
        choose(bytes, 1 + at, below, low + 2, high - low);
    }
    bytes[1 + low] = byte;
}

/// Moves bytes `low + 1..=high` of the first 64 to `low..high` and puts another
/// at `high`, as [`insert_byte`] does.
#[inline(always)]
fn remove_byte(bytes: &mut [u8; SLOTS + 1], low: usize, high: usize, byte: u8) {
    for at in (0..SLOTS).step_by(CHUNK) {
        let above = chunk(bytes, at + 1);
        choose(bytes, at, above, low, high - low);
    }
    bytes[high] = byte;
}

#[inline(always)]
fn chunk(bytes: &[u8; SLOTS + 1], at: usize) -> [u8; CHUNK] {
    bytes[at..at + CHUNK].try_into().expect("a chunk")
}

/// Replaces those bytes of the chunk at `at` that are among `count` from byte
/// `begin` on.
#[inline(always)]
fn choose(bytes: &mut [u8; SLOTS + 1], at: usize, others: [u8; CHUNK], begin: usize, count: usize) {
    let mut chosen = chunk(bytes, at);
    for index in 0..CHUNK {
        // A mask, because a choice would become a choice of addresses.
        let moves = ((at + index) as u8).wrapping_sub(begin as u8) < count as u8;
        let mask = u8::from(moves).wrapping_neg();
        chosen[index] = chosen[index] & !mask | others[index] & mask;
    }
    bytes[at..at + CHUNK].copy_from_slice(&chosen);
}

/// Replaces the bits of word `index` that are bits `begin..end` of all.
fn blend_at(bytes: &mut [u8], index: usize, new: u64, begin: usize, end: usize) {
    let within = |bit: usize| bit.saturating_sub(64 * index).min(64) as u32;
    let word = blend(word_at(bytes, index), new, within(begin), within(end));
    bytes[8 * index..8 * index + 8].copy_from_slice(&word.to_le_bytes());
}

/// Moves cells `low..high` of packed cells of `width` bits (1 to 32) to
/// `low + 1..=high`, a word at a time.
fn cells_up(words: &mut [u8], width: u32, low: usize, high: usize) {
    let (begin, end) = ((low + 1) * width as usize, (high + 1) * width as usize);
    for index in (begin / 64..end.div_ceil(64)).rev() {
        let below = if index == 0 { 0 } else { word_at(words, index - 1) };
        let moved = word_at(words, index) << width | below >> (64 - width);
        blend_at(words, index, moved, begin, end);
    }
}

/// Moves cells `low + 1..=high` of packed cells of `width` bits (1 to 32) to
/// `low..high`, a word at a time.
fn cells_down(words: &mut [u8], width: u32, low: usize, high: usize) {
    let (begin, end) = (low * width as usize, high * width as usize);
    for index in begin / 64..end.div_ceil(64) {
        let above = if 8 * (index + 1) == words.len() { 0 } else { word_at(words, index + 1) };
        let moved = word_at(words, index) >> width | above << (64 - width);
        blend_at(words, index, moved, begin, end);
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

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

    /// The slow obvious version: all slots as lists.
    fn slots(blocks: &Blocks) -> (Vec<bool>, Vec<u64>) {
        let is_runend = |slot| blocks.runends(slot / SLOTS) >> (slot % SLOTS) & 1 == 1;
        (0..blocks.slots()).map(|slot| (is_runend(slot), blocks.remainder(slot))).unzip()
    }

    #[test]
    fn insertions_and_removals_by_words_agree_with_lists() {
        let mut rng = Rng::new(5);
        for width in 1..=32 {
            for _ in 0..if cfg!(miri) { 2 } else { 300 } {
                let extra = (width % 3) as usize;
                let mut blocks = random(width, extra, &mut rng);
                let (mut runends, mut remainders) = slots(&blocks);
                let at = rng.below(192) as usize;
                let to = at + rng.below(192 - at as u64) as usize;
                let (runend, remainder) = (rng.below(2) == 1, rng.next() & mask(width));
                // The fields that nothing has touched.
                let rest = |blocks: &Blocks| -> Vec<(u64, u8, Vec<u8>)> {
                    let all = blocks.as_bytes().chunks(blocks.stride).enumerate();
                    all.map(|(block, bytes)| {
                        let own = bytes[blocks.stride - extra..].to_vec();
                        (blocks.occupieds(block), blocks.offset(block), own)
                    })
                    .collect()
                };
                let untouched = rest(&blocks);

                runends.remove(to);
                runends.insert(at, runend);
                blocks.insert_runend(at, to, runend);
                remainders.remove(to);
                remainders.insert(at, remainder);
                blocks.insert_remainder(at, to, remainder);
                let expected = (runends.clone(), remainders.clone());
                assert!(slots(&blocks) == expected, "width {width}, {at} to {to}");

                runends.remove(at);
                runends.insert(to, false);
                blocks.remove_runend(at, to);
                remainders.remove(at);
                remainders.insert(to, 0);
                blocks.remove_remainder(at, to);
                assert!(slots(&blocks) == (runends, remainders), "width {width}, {at} to {to}");
                assert_eq!(rest(&blocks), untouched, "width {width}, {at} to {to}");
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
