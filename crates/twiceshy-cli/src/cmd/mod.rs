//! The verbs, one a file: `Args` and `run`.

pub mod paper;
pub mod plan;
pub mod race;
