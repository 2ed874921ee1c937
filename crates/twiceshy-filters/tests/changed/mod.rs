//! Files whose bytes were changed: the same code runs in `changed_files.rs` and in the
//! fuzzers (`fuzz/`). Its users have a module `harness` beside it.

#![allow(dead_code, reason = "each fuzzer uses its own part")]

pub mod allocations;
pub mod mutation;
pub mod saved;
