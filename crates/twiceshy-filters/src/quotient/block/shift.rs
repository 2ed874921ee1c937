//! Moving slots by one, to insert or to remove one.

use super::{Blocks, REMAINDERS, SLOTS, word_at};
use crate::bits::word::low_bits;

impl Blocks {
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
    pub(super) fn one_word(&self, slot: usize, count: usize) -> Option<(usize, u32, u32)> {
        let bits = count as u32 * self.width;
        let (byte, shift) = self.place(slot);
        (shift + bits <= u64::BITS).then_some((byte, shift, bits))
    }
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
/// at `low`. All are written as vectors, without an unpredictable branch on how many move.
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
        // A mask: the compiler would turn a choice of bytes into one of addresses.
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
