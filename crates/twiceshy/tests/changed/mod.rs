//! Snapshots whose bytes were changed: the same code runs in `changed_snapshots.rs` and in
//! the fuzzer.

#[path = "../../../twiceshy-filters/tests/changed/allocations.rs"]
pub mod allocations;
#[path = "../../../twiceshy-filters/tests/changed/mutation.rs"]
pub mod mutation;
pub mod snapshot;
