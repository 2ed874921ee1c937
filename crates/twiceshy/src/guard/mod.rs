//! A filter in front of a store: known misses never reach the store.
//!
//! ```text
//!                       ┌──────────── Guard ────────────┐
//!  get(key) ─ digest ──▶│ filter.contains(d)?           │
//!                       │   no  ─────────────────────────┼──▶ absent (no read)
//!                       │   yes ─▶ store.read(range(d))  │──▶ found: value
//!                       │            none of them is key │
//!                       │            ─▶ filter.adapt(d)  │──▶ absent (one read)
//!                       └────────────────────────────────┘
//!  put(key)    filter first, then store      (a crash leaves a harmless extra
//!  remove(key) store first, then filter       fingerprint, or nothing at all)
//! ```
//!
//! The store keeps its records in digest order. The one read that proves a key absent
//! therefore shows every key that could have caused the false positive, and adapting reads
//! nothing more. (A block whose budget is spent reads its keys once.)
//!
//! Digests are divided into shards, each with a filter of its own. Lookups never wait for
//! writes, and resizing touches one small filter.
//!
//! # The way of a query
//!
//! | step | file |
//! | --- | --- |
//! | key to digest | `digest.rs` of `twiceshy-filters` |
//! | [`Guard::get`] | `guard/read.rs` |
//! | digest to shard, `filter.contains` | `guard/shard/lookup.rs` |
//! | the filter itself | one file of `twiceshy-filters` |
//! | [`Store::read`] | `guard/store.rs` |
//! | not there: `filter.adapt` | `guard/shard/adapt.rs` |

mod error;
mod generation;
mod open;
mod options;
mod read;
mod record;
mod role;
mod shard;
mod sidecar;
mod snapshot;
mod stats;
mod store;
mod sync;
mod write;

pub use error::{Error, Result};
pub use open::{Guard, Opened};
pub use options::GuardOptions;
pub use record::{read_record, record};
pub use sidecar::{AsyncLookup, Lookup, Sidecar};
pub use snapshot::snapshot_options;
pub use stats::GuardStats;
pub use store::{Change, Header, Mark, MemoryStore, Store};
