//! Keys to store and streams of queries: seed in, keys out.
//!
//! ```text
//! Source ──parse── "zipf:1.1", "firehose:active", "flows:chicago-a", ...
//!    │ workload(size, seed)
//!    ▼
//! Workload ── stored: 0 .. n          keys are numbers behind `random::mix`,
//!          ── absent: n .. n + A      a bijection: no absent key is stored
//!          ── queries(): a stream of absent keys, the same each time
//! ```
//!
//! Synthetic sources ([`Zipf`], [`Repeats`]) generate the stream on demand. Traces
//! ([`ActiveSet`], [`PowerLaw`], [`Flows`], packet captures and key files) become a
//! [`Recording`] first: in the papers' protocol, the number of distinct keys of a trace decides
//! which of them are stored.

mod active_set;
mod capture;
mod error;
mod flows;
mod input;
mod key_file;
mod permutation;
mod power_law;
mod recording;
mod repeats;
mod source;
mod stream;
mod zipf;

pub use active_set::ActiveSet;
pub use error::{Error, reserve};
pub use flows::{Flows, Order, Trace};
pub use key_file::{Format, KeyFile};
pub use permutation::Permutation;
pub use power_law::PowerLaw;
pub use recording::Recording;
pub use repeats::Repeats;
pub use source::Source;
pub use stream::{MAX_ABSENT, Ranks, Size, Workload};
pub use zipf::Zipf;

/// A key of a workload. Files and captures number their keys in the order of
/// their first appearance; [`crate::random::hasher`] makes digests of the
/// numbers.
pub type Key = u64;
