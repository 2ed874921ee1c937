//! The swapping adaptive cuckoo filter: the chain of a bin's arrangements, sampled.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 3.3. A bin
//! of 4 cells has 24 arrangements of its keys; a key in a position has a fingerprint
//! of its own, so there are 16 numbers of absent keys that match. The paper finds the
//! sum over all of them impractical, and samples; so do we. Empty cells are null keys
//! that nothing matches, each cell with probability `1 - load`.

use rand::RngExt as _;

use crate::random::{Rng, rng};

use super::cell::{Arrivals, Effort, Estimate, State, estimate};
use super::cyclic::Setting;
use super::popularity::Popularity;

/// The keys of a bin, by position.
#[derive(Clone, Debug)]
struct Arrangement {
    /// The key in each position; `None` for an empty one.
    keys: Vec<Option<usize>>,
    retry: bool,
}

impl Arrangement {
    fn pair(&self, key: usize, position: usize) -> u64 {
        1 << (key * self.keys.len() + position)
    }

    fn collides(&self, key: Option<usize>, position: usize, matched: u64) -> bool {
        key.is_some_and(|key| self.pair(key, position) & matched != 0)
    }

    /// Swaps the key in a position with a random other one; with `retry`, with one
    /// after which neither collides, if there is one.
    fn swap(&mut self, position: usize, matched: u64, rng: &mut Rng) {
        let mut partners: Vec<usize> =
            (0..self.keys.len()).filter(|other| *other != position).collect();
        loop {
            let partner = partners.swap_remove(rng.random_range(0..partners.len()));
            let still = self.collides(self.keys[position], partner, matched)
                || self.collides(self.keys[partner], position, matched);
            if still && self.retry && !partners.is_empty() {
                continue;
            }
            return self.keys.swap(position, partner);
        }
    }
}

impl State for Arrangement {
    fn active(&self) -> u64 {
        let occupied = self.keys.iter().enumerate();
        occupied.filter_map(|(at, key)| key.map(|key| self.pair(key, at))).sum()
    }

    /// One swap, as in the paper: a query that collides twice comes again.
    fn collide(&mut self, matched: u64, rng: &mut Rng) {
        let colliding = (0..self.keys.len()).find(|&at| self.collides(self.keys[at], at, matched));
        self.swap(colliding.expect("a false positive collides"), matched, rng);
    }

    fn disturb(&mut self, _: &mut Rng) {
        unreachable!("nothing disturbs a bin");
    }
}

/// Shape and rule of a swapping filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Swapping {
    /// Tables, the paper's `d`.
    pub tables: u32,
    /// Cells of a bin, up to 8; the paper's `c`.
    pub slots: u32,
    /// Values of a fingerprint.
    pub values: f64,
    /// Whether a partner is looked for after which the query does not collide; the
    /// paper's filter takes any.
    pub retry: bool,
}

impl Swapping {
    /// False positives for each query, in a stream of queries for `absent` keys a
    /// stored one. A query that collides in two bins counts twice.
    ///
    /// # Panics
    /// For bins of more than 8 cells.
    #[must_use]
    pub fn rate(
        &self,
        load: f64,
        absent: f64,
        popularity: &Popularity,
        effort: Effort,
        seed: u64,
    ) -> Estimate {
        assert!(self.slots <= 8, "bins of up to 8 cells can be sampled, not of {}", self.slots);
        let slots = self.slots as usize;
        let arrivals = Arrivals {
            mean: f64::from(self.tables * self.slots) * load * absent,
            matching: vec![1.0 / self.values; slots * slots],
            several: true,
            popularity,
        };
        let per_bin = estimate(effort, &mut rng(seed), |rng| {
            let keys = (0..slots).map(|key| (rng.random::<f64>() < load).then_some(key)).collect();
            let mut bin = Arrangement { keys, retry: self.retry };
            arrivals.sample(&mut bin, 0.0, rng)
        });
        per_bin.times(1.0 / (f64::from(self.slots) * load * absent * popularity.repeats()))
    }

    /// The same for the paper's uniform queries.
    #[must_use]
    pub fn table_rate(&self, setting: &Setting, effort: Effort, seed: u64) -> Estimate {
        let popularity = Popularity::equal(setting.repeats);
        self.rate(setting.load, setting.absent, &popularity, effort, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `acf_swapping_mc.csv`: bits, A/S, n_e, trials, mean, standard deviation of a
    /// trial. The table simulates the whole filter; the model takes bins as
    /// independent, empty cells as random, and counts a query that collides in two
    /// bins twice (a relative 1.3 % where the rate is 2.5 %): 3 %, as much as the
    /// paper reports, and six standard errors of both.
    #[test]
    fn rates_are_the_tables() {
        for (bits, absent, repeats, trials, mean, deviation) in [
            (8, 1, 10, 8, 0.00321595, 0.00013),
            (8, 10, 10, 8, 0.00611139, 0.00013),
            (8, 20, 10, 8, 0.0110882, 0.00011),
            (8, 100, 10, 6, 0.0253772, 0.00014),
            (8, 5, 100, 6, 0.000603401, 9.2e-05),
            (8, 10, 100, 6, 0.00189653, 0.00017),
            (12, 20, 10, 8, 0.000202859, 9.7e-06),
            (12, 100, 10, 6, 0.000289943, 6.2e-06),
            (12, 10, 100, 6, 1.73691e-05, 2.5e-06),
        ] {
            let filter =
                Swapping { tables: 2, slots: 4, values: f64::from(1 << bits), retry: false };
            let setting = Setting {
                cells: 8,
                load: 0.95,
                absent: f64::from(absent),
                repeats: f64::from(repeats),
            };
            let ours = filter.table_rate(&setting, Effort::USUAL, 1);
            let error = f64::hypot(ours.error, deviation / f64::from(trials).sqrt());
            assert!(
                (ours.mean - mean).abs() < 0.03 * mean + 6.0 * error,
                "{bits} bits, {absent}, {repeats}: {ours:?}, not {mean}"
            );
        }
    }
}
