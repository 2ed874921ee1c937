#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod filter;
pub mod guard;
pub mod store;

pub use twiceshy_filters as filters;
pub use twiceshy_filters::{Adapted, Digest, KeyHasher, RemoteError, Spec};

#[doc(inline)]
pub use filter::{Filter, Frozen, Key};
#[doc(inline)]
pub use guard::{Guard, Sidecar};
#[doc(inline)]
pub use store::{Error, Result};
#[cfg(feature = "redb")]
#[doc(inline)]
pub use store::{open, open_sidecar};
