//! The verbs, one a file: `Args` and `run`.

pub mod plan;
pub mod race;
