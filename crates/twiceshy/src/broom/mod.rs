//! The storage of a broom filter.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh: "Bloom Filters,
//! Adaptivity, and the Dictionary Problem", section 5 and appendix A.
//!
//! | file | knows |
//! | --- | --- |
//! | `strings.rs` | bit strings of any length side by side in a word (Lemma 29) |
//! | `group.rs` | 64 quotients: their runs, adaptivity bits and ghosts, in one cache line |
//! | `cells.rs` | remainders, packed, in whole cache lines |
//! | `level.rs` | groups with their remainders; nothing of digests |
#![allow(dead_code)]

mod cells;
mod group;
mod level;
mod strings;
