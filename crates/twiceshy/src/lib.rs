#![doc = include_str!("../README.md")]
#![deny(missing_docs)]

pub mod guard;
pub mod store;

pub use twiceshy_filters as filters;
pub use twiceshy_filters::{Adapted, Digest, KeyHasher, RemoteError, Spec};

pub use guard::{Guard, Sidecar};
pub use store::{Error, Result};
#[cfg(feature = "redb")]
pub use store::{open, open_sidecar};
