#![doc = include_str!("../../../README.md")]
#![deny(missing_docs)]

mod any;
mod batch;
mod bits;
pub mod broom;
mod code;
pub mod cuckoo;
mod digest;
mod digest_set;
mod digest_table;
mod digest_trie;
mod error;
mod filter;
#[doc(hidden)]
pub mod format;
mod guard;
mod indexed;
mod keyed;
pub mod quotient;
mod remote;
mod rng;
mod spec;

pub use any::AnyFilter;
pub use digest::{Digest, KeyHasher};
pub use error::{Error, RemoteError, Result};
pub use filter::{Adapted, Filter, Stats};
pub use guard::{
    AsyncLookup, Change, Guard, GuardOptions, GuardStats, Header, Lookup, MemoryStore, Opened,
    Sidecar, Store, read_record, record, snapshot_options,
};
pub use indexed::{Entry, Indexed, MemoryIndex};
pub use keyed::KeyFilter;
pub use remote::{Accesses, EVERY_DIGEST, MemoryMirror, MemorySet, Mirror, Ordered, Write};
pub use spec::{Form, Kind, Spec, WhenFull, WhenSpent};
