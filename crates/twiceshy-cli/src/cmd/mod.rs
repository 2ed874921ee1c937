//! The verbs, one a file: `Args` and `run`.

pub mod adapt;
pub mod build;
pub mod completions;
pub mod inspect;
pub mod query;
pub mod race;
