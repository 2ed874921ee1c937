//! Operations on any filter against a `HashSet`.
#![no_main]

#[path = "../../crates/twiceshy-filters/tests/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::drive(bytes));
