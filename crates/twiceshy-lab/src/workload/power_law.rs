//! FireHose's power law: independent draws of a fixed range of keys, a few of
//! which take nearly all. The generator of Sandia's FireHose benchmark, from its
//! description; used in Lee, McCauley, Singh, Stein, "Telescoping Filter",
//! section 6.1.

use rand::RngExt;

use super::Key;
use crate::random::{Rng, rng};

/// Keys without end: `1,000,000,000 + i` with the probability of `i` in the
/// Yule-Simon distribution with rho = 0.5, given that `i` is below the range.
#[derive(Clone, Debug)]
pub struct PowerLaw {
    /// The probability of an index up to this one.
    cumulative: Vec<f64>,
    rng: Rng,
}

impl PowerLaw {
    /// How many keys there are.
    pub const RANGE: u64 = 100_000;

    /// Queries in the telescoping filter's paper.
    pub const QUERIES: u64 = 50_000_000;

    /// The key of index 0.
    pub const FIRST: Key = 1_000_000_000;

    const RHO: f64 = 0.5;

    /// Draws of the full range.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::within(Self::RANGE, seed)
    }

    /// Draws of the indices below `range`.
    ///
    /// # Panics
    /// For fewer than two: index 0 has no probability.
    #[must_use]
    pub fn within(range: u64, seed: u64) -> Self {
        assert!(range >= 2, "a range of {range}");
        // 1 - i B(i, rho + 1), by the recursion of the Beta function.
        let mut beyond = 1.0;
        let cumulative = (0..range).map(|index| {
            if index > 0 {
                let i = index as f64;
                beyond *= i / (i + Self::RHO);
            }
            1.0 - beyond
        });
        PowerLaw { cumulative: cumulative.collect(), rng: rng(seed) }
    }
}

impl Iterator for PowerLaw {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        loop {
            let draw: f64 = self.rng.random();
            let index = self.cumulative.partition_point(|&cumulative| cumulative < draw);
            if index < self.cumulative.len() {
                return Some(Self::FIRST + index as u64);
            }
        }
    }
}
