//! The quotient family: runs of remainders behind rank-and-select metadata.
//!
//! | filter | metadata a slot | remote | after a false positive |
//! | --- | --- | --- | --- |
//! | [`Rsqf`] | 2.125 bits | [`Ordered`](crate::remote::Ordered) | stays |
//! | [`Telescoping`] | 3 bits | [`Ordered`](crate::remote::Ordered) | another remainder of the key |
//! | [`Uncompressed`] | 10.125 bits | [`Ordered`](crate::remote::Ordered) | another remainder of the key |
//! | [`Extending`] | 3 bits | [`Ordered`](crate::remote::Ordered) | a longer fingerprint |
//!
//! Each is built from a [`Spec`](crate::Spec).

use alloc::vec::Vec;

pub(crate) mod adaptive;
mod append;
mod block;
pub(crate) mod extending;
mod glance;
pub(crate) mod place;
pub(crate) mod rsqf;
pub(crate) mod rule;
pub(crate) mod runs;
pub(crate) mod telescoping;
pub(crate) mod uncompressed;

pub use adaptive::Adaptive;
#[doc(hidden)]
pub use block::Layout;
pub use rsqf::Rsqf;

/// What the code of a block spends on what its slots have learned; for models.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockCode {
    /// Bits that the code of 64 slots may have. Rounding takes up to two of them.
    pub budget: u32,
    /// Bits, ideally, for a slot whose selector is the index, or whose extension has
    /// so many bits. A slot that would have to learn more than the last spends its
    /// block.
    pub bits: Vec<f64>,
}

/// The telescoping adaptive filter ("telescoping").
pub type Telescoping = Adaptive<telescoping::Telescoping>;

/// The telescoping filter with selectors of a byte ("uncompressed").
pub type Uncompressed = Adaptive<uncompressed::Uncompressed>;

/// The extension adaptive filter ("extension").
pub type Extending = Adaptive<extending::Extending>;
