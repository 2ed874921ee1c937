//! Draws from Zipf's distribution, with uniform draws as exponent 0.

use rand_distr::Distribution;

use super::{Key, MAX_ABSENT};
use crate::random::{Rng, rng};

/// Ranks from 0 without end: rank `r` has a probability proportional to
/// `1 / (r + 1)^exponent`. Exponent 0 is uniform.
#[derive(Clone, Debug)]
pub struct Zipf {
    zipf: rand_distr::Zipf<f64>,
    last: u32,
    rng: Rng,
}

impl Zipf {
    /// Ranks below `count`.
    ///
    /// # Panics
    /// For a count that is not in 1 to [`MAX_ABSENT`], and for an exponent that
    /// is negative or no number.
    #[must_use]
    pub fn new(count: u64, exponent: f64, seed: u64) -> Self {
        assert!((1..=MAX_ABSENT).contains(&count), "{count} ranks, expected 1 to {MAX_ABSENT}");
        let last = u32::try_from(count - 1).expect("it was checked");
        let zipf = rand_distr::Zipf::new(f64::from(last) + 1.0, exponent);
        let zipf = zipf.unwrap_or_else(|error| panic!("exponent {exponent}: {error}"));
        Zipf { zipf, last, rng: rng(seed) }
    }

    /// The next rank.
    pub(super) fn draw(&mut self) -> u32 {
        // A whole number from 1 on; rounding may carry it past the last.
        let rank = self.zipf.sample(&mut self.rng) - 1.0;
        (rank as u32).min(self.last)
    }
}

impl Iterator for Zipf {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        Some(self.draw().into())
    }
}
