//! Which filter to take.
pub mod predict;
