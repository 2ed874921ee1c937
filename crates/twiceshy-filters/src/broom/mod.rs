//! The broom filter: a sustained false-positive rate against any adversary, with
//! deletions.
//!
//! | filter | remote | a new hash function changes |
//! | --- | --- | --- |
//! | [`Broom`] | [`Ordered`](crate::remote::Ordered) | remainder and adaptivity bits |
//! | [`FaithfulBroom`] | [`Indexed`](crate::remote::Indexed) | the quotient as well, as published |
//!
//! Each is built from [`Params`], or by a [`Spec`](crate::Spec).

mod cells;
pub(crate) mod filter;
pub(crate) mod form;
mod group;
mod level;
pub(crate) mod params;
pub(crate) mod sizing;
mod strings;

#[doc(hidden)]
pub use filter::BroomFilter;
pub use params::{Form, Params};

/// The broom filter with quotients that stay ("broom").
pub type Broom = filter::BroomFilter<form::Practical>;

/// The broom filter as published ("broom:form=faithful").
pub type FaithfulBroom = filter::BroomFilter<form::Faithful>;
