//! The quotient family: runs of remainders behind rank-and-select metadata.
//!
//! | filter | metadata a slot | remote | after a false positive |
//! | --- | --- | --- | --- |
//! | [`Rsqf`] | 2.125 bits | [`Ordered`](crate::Ordered) | stays |
//!
//! Each is built from a [`Spec`](crate::Spec).

mod append;
mod block;
mod plain;
pub(crate) mod runs;

pub use plain::Rsqf;
