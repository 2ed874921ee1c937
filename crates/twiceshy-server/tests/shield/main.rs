//! The server in front of real stores of others: PostgreSQL and Redis.

#[path = "../client/mod.rs"]
mod client;
mod faults;
mod figures;
mod follow;
mod harness;
mod large;
mod passed;
mod postgres;
mod power;
mod redis;
mod tls;
#[path = "../upstreams/mod.rs"]
mod upstreams;
mod vanished;
