//! An adaptive filter in front of a store, for any Redis client.
//!
//! ```text
//! client ──▶ request ──▶ command ──▶ Backend ──▶ guard ──▶ store
//!        ◀── reply   ◀──────────────────┘
//! ```
//!
//! [`serve`] answers the connections of a listener with a [`Server`], which has a
//! [`Backend`], [`Limits`], perhaps a [`Password`], and counters. Requests that arrive
//! together are answered together: their lookups are one call of the guard, their writes
//! one write of the store.
//!
//! [`Watch`] reads the counters every second, and [`serve_page`] shows them to people and
//! to Prometheus. [`demo`] produces traffic to look at.

#![deny(missing_docs)]

mod backend;
mod backups;
mod blocking;
mod command;
mod connection;
pub mod demo;
mod embedded;
#[cfg(test)]
mod fuzzing;
mod guesses;
mod health;
mod http;
mod info;
mod inline;
mod latency;
mod limits;
mod memory;
mod page;
mod passed;
mod password;
mod postgres;
mod prometheus;
mod quiet;
mod redis;
mod replies;
mod reply;
mod request;
mod server;
mod session;
mod shield;
mod tls;
mod turns;
mod upstream;
mod watch;

pub use backend::{Backend, Failure, Fetched};
pub use backups::backup;
pub use embedded::Embedded;
pub use health::Health;
pub use latency::{Latencies, Latency, Timed};
pub use limits::Limits;
pub use page::serve_page;
pub use password::{Password, may_listen};
pub use postgres::{
    FollowMode, FollowOptions, FollowStats, Forgotten, Postgres, PostgresOptions, Table, forget,
};
pub use redis::{Following, Redis, RedisServer};
pub use server::{Server, Traffic, serve};
pub use shield::{Resynced, Shield, ShieldOptions};
pub use tls::Authorities;
pub use upstream::Upstream;
pub use watch::{Group, Quantiles, Rates, Report, Second, Totals, Watch};
