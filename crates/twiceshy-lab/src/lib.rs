//! Experiments with adaptive filters: they check the claims of the papers, and of this library,
//! on generated data or your own.
//!
//! ```text
//! workload/    keys to store and streams of queries: seed in, keys out
//! adversary/   players that see answers only, and the game they play
//! model/       the papers' formulas: numbers in, numbers out
//! bars/        what an adaptive filter has to keep: seed in, rows out
//! race/        filters at equal memory on one stream: seed in, rows out
//! scale/       a cluster of filters on a virtual clock: seed in, rows out
//! experiment/  the papers' figures as lists of points: seed in, rows out
//! report/      rows as plots, and plots as one page
//! ```
//!
//! An [`entrants::Entrant`] names a [`design::Design`], which builds a [`contestant::Contestant`]:
//! a filter of the library, or one that is here to compare it with ([`cache`],
//! [`adaptive_quotient`]).
//! [`compression`] reads compressed files, for workloads and for the command line.

#![deny(missing_docs)]

pub mod adaptive_quotient;
pub mod adversary;
pub mod bars;
pub mod cache;
pub mod compression;
pub mod contestant;
pub mod design;
pub mod entrants;
pub mod experiment;
pub mod model;
pub mod plan;
pub mod race;
pub mod random;
pub mod report;
pub mod scale;
pub mod workload;
