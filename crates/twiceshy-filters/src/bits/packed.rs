//! Cells of a fixed width from 1 to 64 bits, packed without gaps.
//!
//! ```text
//! bytes   |   0    |   1    |   2    |   3    | ...         | 8 bytes of padding |
//! cells   |----0-----|----1-----|----2-----|   (width 10)
//! ```
//!
//! A cell starts at any bit, so one unaligned load of eight bytes, shifted by
//! at most seven bits, reads it; only a cell (or a bin of cells read at once)
//! wider than 57 bits may need a ninth byte. The padding lets the last cell be
//! read like any other.

use super::padded::Padded;
use super::prefetch::prefetch;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packed {
    bytes: Padded,
    width: u32,
    len: usize,
}

/// The lowest `count` bits (1 to 64) set.
#[inline]
pub(crate) const fn mask(count: u32) -> u64 {
    u64::MAX >> (64 - count)
}

impl Packed {
    /// Bits that one load has from any bit on.
    pub(crate) const AT_ONCE: u32 = 57;

    /// `len` cells of `width` bits, all zero.
    pub(crate) fn new(len: usize, width: u32) -> Self {
        Packed { bytes: Padded::new(Self::data_bytes(len, width)), width, len }
    }

    /// The bytes that `len` cells fill, without the padding.
    pub(crate) fn data_bytes(len: usize, width: u32) -> usize {
        assert!((1..=64).contains(&width), "cells are 1 to 64 bits wide, not {width}");
        let bits = len.checked_mul(width as usize).expect("the cells fit the address space");
        bits.div_ceil(8)
    }

    /// Memory held for `len` cells, in bits, padding included.
    pub(crate) fn bits_for(len: usize, width: u32) -> usize {
        (Self::data_bytes(len, width) + Padded::PADDING) * 8
    }

    pub(crate) fn width(&self) -> u32 {
        self.width
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        self.bytes.bits()
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> u64 {
        self.window(index, self.width) & mask(self.width)
    }

    /// Window `index` of the cells cut into windows of `bits` bits (up to 64): where a bin is as
    /// wide as a window, a bin at once. Higher bits belong to the following cells.
    #[inline(always)]
    pub(crate) fn window(&self, index: usize, bits: u32) -> u64 {
        debug_assert!((index + 1) * bits as usize <= self.len * self.width as usize);
        if bits.is_multiple_of(8) {
            // No shift: a quarter less work for four cells of an even width, the most common
            // bin.
            return self.byte_aligned(index, bits / 8);
        }
        let at = index * bits as usize;
        let (byte, shift) = (at / 8, (at % 8) as u32);
        let mut window = self.bytes.load(byte) >> shift;
        // The first condition is the same for every bin, and almost always false.
        if bits > 57 && shift + bits > 64 {
            window |= u64::from(self.bytes.bytes()[byte + 8]) << (64 - shift);
        }
        window
    }

    /// The first [`Packed::AT_ONCE`] bits from a cell on. Higher bits are arbitrary.
    #[inline]
    pub(crate) fn load_from(&self, index: usize) -> u64 {
        debug_assert!(index < self.len, "cell {index} of {}", self.len);
        let at = index * self.width as usize;
        self.bytes.load(at / 8) >> (at % 8)
    }

    /// The same for windows of that many whole bytes.
    #[inline(always)]
    pub(crate) fn byte_aligned(&self, index: usize, bytes: u32) -> u64 {
        self.bytes.load(index * bytes as usize)
    }

    /// The same for windows of `N` whole bytes, and nothing behind them.
    #[inline(always)]
    pub(crate) fn byte_window<const N: usize>(&self, index: usize) -> [u8; N] {
        debug_assert!((index + 1) * N * 8 <= self.len * self.width as usize);
        self.bytes.chunk(index)
    }

    /// Writes a window of [`Packed::byte_aligned`], and what is above it.
    #[inline(always)]
    pub(crate) fn set_byte_aligned(&mut self, index: usize, bytes: u32, word: u64) {
        self.bytes.store(index * bytes as usize, word);
    }

    /// Writes a window of [`Packed::byte_window`].
    #[inline(always)]
    pub(crate) fn set_byte_window<const N: usize>(&mut self, index: usize, window: [u8; N]) {
        debug_assert!((index + 1) * N * 8 <= self.len * self.width as usize);
        self.bytes.set_chunk(index, window);
    }

    #[inline]
    pub(crate) fn set(&mut self, index: usize, value: u64) {
        assert!(index < self.len, "cell {index} of {}", self.len);
        debug_assert!(value & !mask(self.width) == 0, "{value} is wider than {} bits", self.width);
        let at = index * self.width as usize;
        let (byte, shift) = (at / 8, (at % 8) as u32);
        let word = self.bytes.load(byte) & !(mask(self.width) << shift) | value << shift;
        self.bytes.store(byte, word);
        if shift + self.width > 64 {
            let spill = 64 - shift;
            let ninth = self.bytes.byte_mut(byte + 8);
            *ninth = *ninth & !((mask(self.width) >> spill) as u8) | (value >> spill) as u8;
        }
    }

    /// Prefetches cell `index`.
    #[inline]
    pub(crate) fn prefetch(&self, index: usize) {
        self.prefetch_byte(index * self.width as usize / 8);
    }

    /// The same for the cells at byte `at`.
    #[inline(always)]
    pub(crate) fn prefetch_byte(&self, at: usize) {
        prefetch(self.bytes.bytes(), at);
    }

    /// The packed bytes, without the padding.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.bytes.data()
    }

    /// Cells from bytes that [`Packed::as_bytes`] gave. `None` when the length
    /// is wrong or bits behind the last cell are set.
    pub(crate) fn from_bytes(data: &[u8], len: usize, width: u32) -> Option<Self> {
        let bits = len.checked_mul(width as usize)?;
        if data.len() != bits.div_ceil(8) {
            return None;
        }
        let used_of_last = bits % 8;
        if used_of_last != 0 && data[data.len() - 1] >> used_of_last != 0 {
            return None;
        }
        Some(Packed { bytes: Padded::from_data(data), width, len })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn every_width_agrees_with_a_vector_of_numbers() {
        let mut rng = Rng::new(1);
        for width in 1..=64 {
            let mut packed = Packed::new(67, width);
            let mut plain = vec![0u64; 67];
            for _ in 0..2000 {
                let index = rng.below(67) as usize;
                let value = rng.next() & mask(width);
                packed.set(index, value);
                plain[index] = value;
            }
            let unpacked: Vec<u64> = (0..67).map(|i| packed.get(i)).collect();
            assert_eq!(unpacked, plain, "width {width}");
            let again = Packed::from_bytes(packed.as_bytes(), 67, width).expect("its own bytes");
            assert!(again == packed, "width {width}");
        }
    }

    #[test]
    fn a_window_is_the_cells_it_covers() {
        let mut rng = Rng::new(2);
        for width in 2..=32 {
            let per_window = (64 / width) as usize;
            let mut packed = Packed::new(50 * per_window, width);
            (0..packed.len()).for_each(|i| packed.set(i, rng.next() & mask(width)));
            for bin in 0..50 {
                let window = packed.window(bin, per_window as u32 * width);
                for slot in 0..per_window {
                    let lane = window >> (slot as u32 * width) & mask(width);
                    assert_eq!(lane, packed.get(bin * per_window + slot), "width {width}");
                }
            }
        }
    }

    #[test]
    fn bytes_of_the_wrong_length_or_with_stray_bits_are_refused() {
        assert!(Packed::from_bytes(&[0; 4], 3, 10).is_some());
        assert!(Packed::from_bytes(&[0; 3], 3, 10).is_none());
        assert!(Packed::from_bytes(&[0; 5], 3, 10).is_none());
        assert!(Packed::from_bytes(&[0, 0, 0, 0b0100_0000], 3, 10).is_none());
    }
}
