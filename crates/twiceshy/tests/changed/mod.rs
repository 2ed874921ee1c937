//! Files whose bytes were changed: the same code runs in `changed_snapshots.rs` and
//! `changed_filters.rs`, and in the fuzzers.

#![allow(dead_code, reason = "each test and each fuzzer uses its own part")]

#[path = "../../../twiceshy-filters/tests/changed/allocations.rs"]
pub mod allocations;
pub mod filter;
#[path = "../../../twiceshy-filters/tests/changed/mutation.rs"]
pub mod mutation;
pub mod snapshot;
