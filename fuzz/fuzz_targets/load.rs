//! Arbitrary bytes as a saved filter.
#![no_main]

#[path = "../../crates/twiceshy-filters/tests/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| harness::load(bytes));
