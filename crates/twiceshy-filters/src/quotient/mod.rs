//! The quotient family: runs of remainders behind rank-and-select metadata.
//!
//! | filter | metadata per slot | remote | after a false positive |
//! | --- | --- | --- | --- |
//! | [`Rsqf`] | 2.125 bits | [`Ordered`](crate::remote::Ordered) | stays |
//! | [`Telescoping`] | 3 bits | [`Ordered`](crate::remote::Ordered) | another remainder of the key |
//! | [`Uncompressed`] | 10.125 bits | [`Ordered`](crate::remote::Ordered) | another remainder of the key |
//! | [`Extending`] | 3 bits | [`Ordered`](crate::remote::Ordered) | a longer fingerprint |
//!
//! Each is built from the `Params` of its module, or by a [`Spec`](crate::Spec).

pub(crate) mod adaptive;
mod append;
mod block;
mod common;
pub mod extending;
mod glance;
pub(crate) mod params;
pub(crate) mod place;
pub mod rsqf;
pub(crate) mod rule;
pub(crate) mod runs;
pub(crate) mod search;
pub mod telescoping;
pub mod uncompressed;

pub use adaptive::Adaptive;
#[doc(hidden)]
pub use block::Layout;
pub use rsqf::Rsqf;

/// The telescoping adaptive filter ("telescoping").
pub type Telescoping = Adaptive<telescoping::Telescoping>;

/// The telescoping filter with selectors of a byte ("uncompressed").
pub type Uncompressed = Adaptive<uncompressed::Uncompressed>;

/// The extension adaptive filter ("extension").
pub type Extending = Adaptive<extending::Extending>;
