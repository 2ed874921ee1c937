//! The server in front of real stores of others: PostgreSQL and Redis.

#[path = "../client/mod.rs"]
mod client;
mod cluster;
mod faults;
mod figures;
mod follow;
mod follow_redis;
mod harness;
mod large;
mod never_denied;
mod passed;
mod postgres;
mod power;
mod redis;
mod tls;
#[path = "../upstreams/mod.rs"]
mod upstreams;
mod vanished;
