//! Bits in words: packed cells, lanes of a word, and the one leaf of intrinsics.

pub(crate) mod lanes;
pub(crate) mod packed;
pub(crate) mod prefetch;
