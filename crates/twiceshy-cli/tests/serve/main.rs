//! `twiceshy serve` as a process: its flags, its end, bad days, and a soak.

mod backup;
#[path = "../../../twiceshy-server/tests/client/mod.rs"]
mod client;
mod crash;
mod demo;
mod faults;
mod flags;
mod follow;
mod greedy;
mod hangup;
mod health;
mod interrupted;
mod json_logs;
mod packaging;
mod process;
mod settings;
mod soak;
mod upstream;
#[path = "../../../twiceshy-server/tests/upstreams/mod.rs"]
#[expect(dead_code, reason = "other tests need more of them")]
mod upstreams;
