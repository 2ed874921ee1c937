//! Bits in words: packed cells, lanes of a word, rank and select, and the two
//! leaves of intrinsics.

pub(crate) mod lanes;
pub(crate) mod packed;
pub(crate) mod prefetch;
pub(crate) mod word;
