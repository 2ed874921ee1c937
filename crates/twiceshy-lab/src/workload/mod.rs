//! Keys to store and streams of queries: seed in, keys out.

/// A key of a workload. Files and captures number their keys in the order of
/// their first appearance; [`crate::random::hasher`] makes digests of the
/// numbers.
pub type Key = u64;
