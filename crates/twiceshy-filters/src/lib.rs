#![doc = include_str!("../README.md")]
#![no_std]
#![deny(missing_docs)]

extern crate alloc;
#[cfg(any(feature = "std", test))]
extern crate std;

mod any;
mod batch;
mod bits;
pub mod broom;
mod catalogue;
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
mod keyed;
pub mod line;
mod make;
mod memory;
mod ordered;
mod params;
pub mod quotient;
pub mod remote;
mod rng;
mod spec;
mod steps;

/// What crate `twiceshy` needs beside the public interface; it may change with any release.
#[doc(hidden)]
pub mod internals {
    // What the filters' types are bounded by, so that it can be named.
    pub use crate::bits::word::Words;
    pub use crate::broom::form::Form as BroomForm;
    pub use crate::cuckoo::mirrored::Rule as CellRule;
    pub use crate::cuckoo::params::Cuckoo;
    pub use crate::cuckoo::partial::Pairing;
    pub use crate::quotient::params::Quotient;
    pub use crate::quotient::place::Place;
    pub use crate::quotient::rule::Rule as SlotRule;
    pub use crate::quotient::runs::Runs;
    pub use crate::quotient::search::Search as SlotSearch;

    pub use crate::any::{Outlook, SAVED_KIND as FILTER_AND_REMOTE};
    pub use crate::bits::prefetch::{prefetch, prefetch_address};
    pub use crate::catalogue::Visitor;
    pub use crate::code::BlockCode;
    pub use crate::digest::{mix, reduce64};
    pub use crate::format::{Reader, Writer};
    pub use crate::keyed::{parts_with_secret, with_secret};
    pub use crate::line::{MOST_BUCKETS as LINE_WINDOW, Shape as LineShape};
    pub use crate::make::{Build, Grow};
    pub use crate::memory::InMemory;
    pub use crate::ordered::{OrderedFilter, load_ordered, ordered};
    pub use crate::params::{Kind, Shape};
    pub use crate::quotient::Layout;
    pub use crate::rng::Rng;
    pub use crate::spec::{block_code, visit};
}

pub use any::AnyFilter;
pub use catalogue::Spec;
pub use digest::{Digest, KeyHasher};
pub use error::{Error, RemoteError, Result};
pub use filter::{Adapted, DigestFilter, Stats};
pub use keyed::KeyFilter;
pub use params::{Params, Valid, WhenFull};
