//! The server over TCP: every command, pipelines against an oracle, limits, the page, web pages
//! that attack, and clients that nobody here wrote.

#[path = "../client/mod.rs"]
mod client;
mod clients;
mod commands;
mod harness;
mod limits;
mod page;
mod pipelines;
mod web;
