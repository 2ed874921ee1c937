//! Unaligned loads and stores: bytes with padding behind them, so that a whole word can be read
//! or written at each of them.
//!
//! ```text
//! |  data  ...             | 8 bytes of padding |
//!    └ load and store: eight bytes from here on, or from the padding's first byte
//! ```
//!
//! Slicing needs two bounds checks (does the end overflow, is it past the end): 12 of the 62
//! instructions of a plain cuckoo filter's query. Here one check takes 5. Under Miri the safe
//! twin runs; a test drives both.

use super::pages::filled;
use alloc::vec::Vec;

/// Bytes of a word.
const WORD: usize = size_of::<u64>();

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Padded {
    /// Always `WORD` more than `data`: no other module can reach them.
    bytes: Vec<u8>,
    data: usize,
}

impl Padded {
    /// Bytes held beside the data.
    pub(crate) const PADDING: usize = WORD;

    /// `data` bytes, all zero.
    pub(crate) fn new(data: usize) -> Self {
        Padded { bytes: filled(0, data + Self::PADDING), data }
    }

    pub(crate) fn from_data(data: &[u8]) -> Self {
        let mut padded = Self::new(data.len());
        padded.bytes[..data.len()].copy_from_slice(data);
        padded
    }

    /// The bytes without the padding.
    pub(crate) fn data(&self) -> &[u8] {
        &self.bytes[..self.data]
    }

    /// All bytes.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline(always)]
    pub(crate) fn byte_mut(&mut self, at: usize) -> &mut u8 {
        &mut self.bytes[at]
    }

    /// Memory held, in bits.
    pub(crate) fn bits(&self) -> usize {
        self.bytes.capacity() * 8
    }

    /// The word that starts at byte `at`, lowest byte first.
    #[inline(always)]
    pub(crate) fn load(&self, at: usize) -> u64 {
        assert!(at <= self.data, "a word starts in the data");
        // SAFETY: `at + WORD <= data + WORD`, which is how many bytes there are.
        unsafe { access::load(&self.bytes, at) }
    }

    /// Bytes `N * index` to `N * (index + 1)`. With `N` known there is no offset to multiply,
    /// and one bounds check needs no `unsafe`.
    #[inline(always)]
    pub(crate) fn chunk<const N: usize>(&self, index: usize) -> [u8; N] {
        self.bytes.as_chunks().0[index]
    }

    /// Writes what [`Padded::chunk`] reads.
    #[inline(always)]
    pub(crate) fn set_chunk<const N: usize>(&mut self, index: usize, chunk: [u8; N]) {
        self.bytes.as_chunks_mut().0[index] = chunk;
    }

    /// Writes the word that starts at byte `at`, lowest byte first.
    #[inline(always)]
    pub(crate) fn store(&mut self, at: usize, word: u64) {
        assert!(at <= self.data, "a word starts in the data");
        // SAFETY: `at + WORD <= data + WORD`, which is how many bytes there are.
        unsafe { access::store(&mut self.bytes, at, word) }
    }
}

#[cfg(miri)]
use safe as access;
#[cfg(not(miri))]
use unchecked as access;

#[cfg(not(miri))]
mod unchecked {
    use super::WORD;

    /// # Safety
    /// `at + WORD <= bytes.len()`.
    #[inline(always)]
    pub(super) unsafe fn load(bytes: &[u8], at: usize) -> u64 {
        debug_assert!(at + WORD <= bytes.len());
        // SAFETY: the caller's promise; an unaligned read needs no more.
        u64::from_le(unsafe { bytes.as_ptr().add(at).cast::<u64>().read_unaligned() })
    }

    /// # Safety
    /// `at + WORD <= bytes.len()`.
    #[inline(always)]
    pub(super) unsafe fn store(bytes: &mut [u8], at: usize, word: u64) {
        debug_assert!(at + WORD <= bytes.len());
        // SAFETY: the caller's promise; an unaligned write needs no more.
        unsafe { bytes.as_mut_ptr().add(at).cast::<u64>().write_unaligned(word.to_le()) }
    }
}

#[cfg(any(miri, test))]
mod safe {
    use super::WORD;

    /// # Safety
    /// None needed: unsafe only to be called like its twin.
    pub(super) unsafe fn load(bytes: &[u8], at: usize) -> u64 {
        let eight = &bytes[at..at + WORD];
        u64::from_le_bytes(eight.try_into().expect("a slice of eight bytes"))
    }

    /// # Safety
    /// None needed: unsafe only to be called like its twin.
    pub(super) unsafe fn store(bytes: &mut [u8], at: usize, word: u64) {
        bytes[at..at + WORD].copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn both_twins_read_and_write_the_same() {
        let mut padded = Padded::from_data(&(1..=20).collect::<Vec<u8>>());
        let mut plain = padded.bytes.clone();
        for at in 0..=20 {
            // SAFETY: the safe twin needs nothing.
            let word = unsafe { safe::load(&plain, at) };
            assert_eq!(padded.load(at), word, "byte {at}");
            padded.store(at, !word.rotate_left(4));
            // SAFETY: the safe twin needs nothing.
            unsafe { safe::store(&mut plain, at, !word.rotate_left(4)) };
            assert_eq!(padded.bytes, plain, "byte {at}");
        }
    }

    #[test]
    fn words_are_little_endian_and_the_padding_is_zero() {
        let padded = Padded::from_data(&[1, 2, 3]);
        assert_eq!([0, 1, 3].map(|at| padded.load(at)), [0x03_0201, 0x0302, 0]);
        assert_eq!(padded.data(), [1, 2, 3]);
    }

    #[test]
    fn chunks_lie_side_by_side() {
        let padded = Padded::from_data(&(1..=8).collect::<Vec<u8>>());
        assert_eq!([0, 1].map(|index| padded.chunk(index)), [[1, 2, 3, 4], [5, 6, 7, 8]]);
        assert_eq!(padded.chunk(1), [4, 5, 6]);
        assert!(catch_unwind(|| padded.chunk::<8>(2)).is_err(), "past the padding");
    }

    #[test]
    fn a_word_past_the_data_is_refused() {
        let mut padded = Padded::new(5);
        for at in [6, 13, usize::MAX - 7, usize::MAX] {
            assert!(catch_unwind(|| padded.load(at)).is_err(), "load {at}");
            let store = AssertUnwindSafe(|| padded.store(at, 1));
            assert!(catch_unwind(store).is_err(), "store {at}");
        }
    }
}
