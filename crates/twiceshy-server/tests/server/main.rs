//! The server over TCP: every command, pipelines against an oracle, limits, the page, web pages
//! that attack, and clients that nobody here wrote.

mod beside_writes;
#[path = "../client/mod.rs"]
mod client;
mod clients;
mod commands;
#[cfg(target_os = "linux")]
mod full_disk;
mod harness;
mod limits;
mod page;
mod pipelines;
#[cfg(target_os = "linux")]
#[path = "../../../twiceshy/tests/store/small_disk.rs"]
mod small_disk;
mod web;
