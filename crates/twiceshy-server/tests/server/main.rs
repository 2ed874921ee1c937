//! The server over TCP: every command, pipelines against an oracle, limits, the page, and
//! clients that nobody here wrote.

#[path = "../client/mod.rs"]
mod client;
mod clients;
mod commands;
mod harness;
mod limits;
mod page;
mod pipelines;
