//! The cuckoo family.
//!
//! | filter | cells | remote | after a false positive |
//! | --- | --- | --- | --- |
//! | [`Plain`] | two bins, from the fingerprint | [`Ordered`](crate::remote::Ordered) | stays |
//! | [`Simplified`] | two bins, the fingerprint apart, and a stash | [`Ordered`](crate::remote::Ordered) | stays |
//! | [`PlainFull`] | `k` bins, from the key | [`Mirror`](crate::remote::Mirror) | stays |
//! | [`Cyclic`] | `k` bins, selector bits in the cell | [`Mirror`](crate::remote::Mirror) | the next fingerprint |
//! | [`Varying`] | the same, with more values for the first fingerprint | [`Mirror`](crate::remote::Mirror) | the next fingerprint |
//! | [`Swapping`] | `k` bins, fingerprint by position | [`Mirror`](crate::remote::Mirror) | another position |
//! | [`Cuckooing`] | `k` bins, fingerprint by table | [`Mirror`](crate::remote::Mirror) | another table |
//!
//! Each is built from the `Params` of its module, or by a [`Spec`](crate::Spec).

pub mod bounds;
pub mod cuckooing;
pub mod cyclic;
mod draft;
mod futile;
mod hashes;
mod header;
pub(crate) mod mirrored;
mod pairs;
pub(crate) mod params;
pub(crate) mod partial;
pub mod plain;
pub mod plain_full;
pub(crate) mod search;
pub mod simplified;
mod stash;
pub mod swapping;
mod table;
pub mod varying;

#[doc(hidden)]
pub use mirrored::Mirrored;
#[doc(hidden)]
pub use partial::PartialKey;

/// The original, partial-key cuckoo filter ("plain").
pub type Plain = partial::PartialKey<plain::Reflection>;

/// Eppstein's simplified cuckoo filter with a stash ("simplified").
pub type Simplified = partial::PartialKey<simplified::Difference>;

/// The cuckoo filter with real hashes of the key ("plain-full").
pub type PlainFull = mirrored::Mirrored<plain_full::PlainFull>;

/// The cyclic adaptive cuckoo filter ("cyclic").
pub type Cyclic = mirrored::Mirrored<cyclic::Cyclic<cyclic::Params>>;

/// The cyclic adaptive cuckoo filter with varying ranges ("varying").
pub type Varying = mirrored::Mirrored<cyclic::Cyclic<varying::Params>>;

/// The swapping adaptive cuckoo filter ("swapping").
pub type Swapping = mirrored::Mirrored<swapping::Swapping>;

/// The cuckooing adaptive cuckoo filter ("cuckooing").
pub type Cuckooing = mirrored::Mirrored<cuckooing::Cuckooing>;
