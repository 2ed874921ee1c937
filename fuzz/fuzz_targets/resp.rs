//! Requests of RESP, lines and HTTP as `twiceshy serve` reads them.
//!
//! The files of the server are included, so that its dependencies need not be built.
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/twiceshy-server/src/inline.rs"]
mod inline;
#[path = "../../crates/twiceshy-server/src/limits.rs"]
mod limits;
#[path = "../../crates/twiceshy-server/src/memory.rs"]
mod memory;
#[path = "../../crates/twiceshy-server/src/request/mod.rs"]
mod request;

#[path = "../../crates/twiceshy-server/src/fuzzing"]
mod fuzzing {
    pub mod resp;
    mod source;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::resp::run(bytes));
