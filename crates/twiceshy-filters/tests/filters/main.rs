//! The filters through their public names, in one binary: it links once.

mod accesses;
mod bad_input;
mod broom;
mod broom_strangers;
mod catalogue;
mod departed;
mod digests;
mod failing_remote;
mod growth;
#[path = "../harness/mod.rs"]
mod harness;
mod line_failing;
mod mirror_twice;
mod oracle;
mod quotient;
mod saved_files;
mod statistics;
mod telescoping;
