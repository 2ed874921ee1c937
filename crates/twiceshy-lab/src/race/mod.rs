//! A race: filters at equal memory on one stream of queries.
//!
//! ```text
//! source, size, seed ─▶ Course ─┬─ trial::run(entrant) ─▶ Row ─┬─▶ Standings
//!                               └─ ...                    ...  ┘   means over seeds
//!                                                                     └─▶ verdict
//! ```
//!
//! `twiceshy race` prints them.

mod standings;
pub mod trial;
mod verdict;

pub use standings::{Mean, Sizes, Standings};
pub use trial::{Checkpoint, Course, Row, Watch};
pub use verdict::verdict;
