//! Bits in words: packed cells, lanes of a word, rank and select. All `unsafe` code is here, in
//! leaf files.

pub(crate) mod bytes;
pub(crate) mod lanes;
pub(crate) mod packed;
pub(crate) mod padded;
pub(crate) mod pages;
pub(crate) mod pair;
pub(crate) mod prefetch;
pub(crate) mod word;
