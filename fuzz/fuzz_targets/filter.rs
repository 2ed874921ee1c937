//! A `Filter`'s file whose bytes were changed, with checksums that are right.
#![no_main]

#[path = "../../crates/twiceshy/tests/changed/mod.rs"]
mod changed;
#[path = "../../crates/twiceshy-filters/tests/harness/mod.rs"]
mod harness;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    changed::filter::load_changed(bytes);
});
