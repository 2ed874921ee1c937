//! A race: filters at equal memory on one stream of queries.
//!
//! ```text
//! source, size, seed ─▶ Course ─┬─ trial::run(entrant) ─▶ Row ─┬─▶ Standings
//!                               └─ ...                    ...  ┘   means over seeds
//! ```
//!
//! `twiceshy race` prints them.

mod standings;
pub mod trial;

pub use standings::{Mean, Sizes, Standings};
pub use trial::{Course, Row, Watch};
