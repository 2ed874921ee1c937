//! Requests of HTTP as the page of `twiceshy serve` reads them.
//!
//! The files of the server are included, so that its dependencies need not be built.
#![no_main]
#![allow(dead_code)]

#[path = "../../crates/twiceshy-server/src/http"]
mod http {
    pub mod message;
}

#[path = "../../crates/twiceshy-server/src/fuzzing"]
mod fuzzing {
    pub mod http;
    mod source;
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzzing::http::run(bytes));
