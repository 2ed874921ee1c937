//! `twiceshy serve` as a process: its flags, its end, bad days, and a soak.

#[path = "../../../twiceshy-server/tests/client/mod.rs"]
mod client;
mod crash;
mod demo;
mod faults;
mod flags;
mod process;
mod soak;
