//! The verbs, one a file: `Args` and `run`.

pub mod race;
pub mod serve;
