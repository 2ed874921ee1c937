//! One shard of a guard: a filter with many readers and one writer.
//!
//! ```text
//! writers   held while keys are stored or removed, from the first read of the store to
//!           the last change: one such operation at a time
//! pending   digests whose records are on their way into the store or out of it; held
//!           while the filter changes, and never while the store writes
//! filter    locked for moments: to look, or to make a planned change
//! version   counts the digests that left `pending`: while it stays the same, a list
//!           that was read from the store, with `pending`, matches the fingerprints
//! ```
//!
//! While nobody holds `pending`, the filter has a fingerprint of each record of the store and
//! of each pending digest, and (orphans aside) no other. Adapting needs to know no more than
//! that, so it does not wait for the store's writes.

mod adapt;
mod lock;
mod lookup;
mod prefetch;
mod range;
mod staged;
mod write;

pub(super) use lookup::{Evidence, Shard};
pub(super) use range::ShardRange;
pub(super) use staged::Staged;
pub(super) use write::Writer;
