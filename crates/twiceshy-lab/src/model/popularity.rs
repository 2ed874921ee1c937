//! How often an absent key is asked.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 4.1: each
//! key the same number of times, in random order. Beside it a Zipf distribution:
//! the paper's own remark at the end of 3.1 is that uniform queries are the worst
//! case for its filters.
//!
//! A stream is the interval from 0 to 1, and the queries for a key are at
//! independent uniform times in it.

use rand::RngExt as _;
use rand_distr::Distribution as _;

use crate::random::Rng;

use super::poisson;

/// How often a random absent key is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Popularity {
    repeats: f64,
    zipf: Option<Zipf>,
}

/// Ranks 1 to `keys`, rank `r` with probability `r^-exponent / norm`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Zipf {
    keys: f64,
    exponent: f64,
    /// Queries for rank 1.
    most: f64,
}

impl Popularity {
    /// Each key is asked `repeats` times; with a fraction, some once more.
    #[must_use]
    pub fn equal(repeats: f64) -> Self {
        Popularity { repeats, zipf: None }
    }

    /// `keys` keys are asked `repeats` times on average, by independent draws from a
    /// Zipf distribution.
    #[must_use]
    pub fn zipf(keys: f64, exponent: f64, repeats: f64) -> Self {
        let most = repeats * keys / harmonic(keys, exponent);
        Popularity { repeats, zipf: Some(Zipf { keys, exponent, most }) }
    }

    /// Queries for a key, on average.
    #[must_use]
    pub fn repeats(&self) -> f64 {
        self.repeats
    }

    /// Queries for a random key.
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        match &self.zipf {
            None => {
                let more = rng.random::<f64>() < self.repeats.fract();
                self.repeats as u64 + u64::from(more)
            }
            Some(zipf) => {
                let rank = (rng.random::<f64>() * zipf.keys).floor() + 1.0;
                poisson::draw(zipf.most * rank.powf(-zipf.exponent), rng)
            }
        }
    }

    /// The probability that a random key is not asked in a part of the stream.
    #[must_use]
    pub fn unasked(&self, part: f64) -> f64 {
        self.mean_of(|asked| asked.none(part))
    }

    /// Queries for a random key, on average, that come after a part of the stream in which it was
    /// not asked. As many come after the whole of a window of that length in which it was not.
    #[must_use]
    pub fn late(&self, part: f64) -> f64 {
        self.mean_of(|asked| asked.mean() * asked.late(part))
    }

    /// The mean over all keys.
    fn mean_of(&self, function: impl Fn(Asked) -> f64) -> f64 {
        let Some(zipf) = &self.zipf else { return function(Asked::Times(self.repeats)) };
        // Ranks in sections of equal logarithms, each as its middle.
        const SECTIONS: u32 = 400;
        let edge = |section: u32| (zipf.keys + 1.0).powf(f64::from(section) / f64::from(SECTIONS));
        let sections = (0..SECTIONS).map(|section| (edge(section), edge(section + 1)));
        let total: f64 = sections
            .map(|(from, to)| {
                let rank = ((from + to) / 2.0 - 0.5).max(1.0);
                let asked = Asked::Poisson(zipf.most * rank.powf(-zipf.exponent));
                (to - from) * function(asked)
            })
            .sum();
        total / zipf.keys
    }
}

/// The number of queries for a key.
enum Asked {
    /// This many.
    Times(f64),
    /// This many on average.
    Poisson(f64),
}

impl Asked {
    /// The probability of none in a part of the stream.
    fn none(&self, part: f64) -> f64 {
        match self {
            Asked::Times(times) => (1.0 - part).powf(*times),
            Asked::Poisson(mean) => (-mean * part).exp(),
        }
    }

    fn mean(&self) -> f64 {
        match self {
            Asked::Times(mean) | Asked::Poisson(mean) => *mean,
        }
    }

    /// The probability that a query comes after a part of the stream, and no other in it.
    fn late(&self, part: f64) -> f64 {
        match self {
            // The query itself is one of those that are not in it.
            Asked::Times(_) => self.none(part),
            Asked::Poisson(_) => (1.0 - part) * self.none(part),
        }
    }
}

/// The sum of `r^-exponent` for `r` from 1 to `keys`: the first terms as they are,
/// the rest by the integral with its first correction.
fn harmonic(keys: f64, exponent: f64) -> f64 {
    const EXACT: f64 = 1000.0;
    let head = keys.min(EXACT);
    let exact: f64 = (1..=head as u32).map(|rank| f64::from(rank).powf(-exponent)).sum();
    if keys <= EXACT {
        return exact;
    }
    let integral = if (exponent - 1.0).abs() < 1e-9 {
        (keys / head).ln()
    } else {
        (keys.powf(1.0 - exponent) - head.powf(1.0 - exponent)) / (1.0 - exponent)
    };
    exact + integral + (keys.powf(-exponent) - head.powf(-exponent)) / 2.0
}

/// The queries for one key that are still to come.
#[derive(Clone, Copy, Debug)]
pub struct Asks {
    left: u64,
    /// Up to here it is known how many are left.
    since: f64,
}

impl Asks {
    /// All of them.
    #[must_use]
    pub fn new(count: u64) -> Self {
        Asks { left: count, since: 0.0 }
    }

    /// The next one after `now`.
    pub fn next(&mut self, now: f64, rng: &mut Rng) -> Option<f64> {
        if now > self.since && self.left > 0 {
            // Those between `since` and `now` went by unnoticed.
            let stay = ((1.0 - now) / (1.0 - self.since)).clamp(0.0, 1.0);
            let thinned = rand_distr::Binomial::new(self.left, stay).expect("a probability");
            self.left = thinned.sample(rng);
            self.since = now;
        }
        if self.left == 0 {
            return None;
        }
        // The least of `left` uniform times.
        let share = 1.0 - rng.random::<f64>().powf(1.0 / self.left as f64);
        Some(now + (1.0 - now) * share)
    }

    /// There was none up to `now`.
    pub fn none_until(&mut self, now: f64) {
        self.since = now;
    }

    /// There was the first at `now`.
    pub fn one_at(&mut self, now: f64) {
        self.left -= 1;
        self.since = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::rng;

    #[test]
    fn harmonic_sums_are_sums() {
        for (keys, exponent) in [(10_u32, 1.1), (50_000, 0.8), (50_000, 1.0), (50_000, 1.5)] {
            let sum: f64 = (1..=keys).map(|rank| f64::from(rank).powf(-exponent)).sum();
            let ours = harmonic(keys.into(), exponent);
            assert!((ours / sum - 1.0).abs() < 1e-6, "{keys}, {exponent}: {ours}, not {sum}");
        }
    }

    #[test]
    fn means_over_ranks_are_sums() {
        let (keys, exponent, repeats) = (20_000_u32, 1.1, 7.0);
        let popularity = Popularity::zipf(keys.into(), exponent, repeats);
        let norm = harmonic(keys.into(), exponent);
        let mean = |rank: u32| repeats * f64::from(keys) * f64::from(rank).powf(-exponent) / norm;
        for part in [0.01, 0.5, 1.0] {
            let sum: f64 = (1..=keys).map(|rank| (-mean(rank) * part).exp()).sum();
            let ours = popularity.unasked(part);
            let exact = sum / f64::from(keys);
            assert!((ours / exact - 1.0).abs() < 1e-3, "{part}: {ours}, not {exact}");
        }
    }

    /// Four queries all come after 0.3 with probability 0.7^4, and are then all late; by Poisson
    /// draws of mean 4, 2.8 do on average, where none came before.
    #[test]
    fn late_queries_follow_a_part_without_any() {
        let four = Popularity::equal(4.0).late(0.3);
        assert!((four - 4.0 * 0.7_f64.powi(4)).abs() < 1e-12, "{four}");
        let poisson = Popularity::zipf(1000.0, 0.0, 4.0).late(0.3);
        assert!((poisson / (2.8 * (-1.2_f64).exp()) - 1.0).abs() < 1e-3, "{poisson}");
    }

    /// Of 10^5 keys with four queries, the first and the second query after 0.3: by
    /// inspection of four uniform times. Standard error of each mean below 10^-3.
    #[test]
    fn asks_are_uniform_times() {
        const KEYS: u32 = 100_000;
        let mut rng = rng(2);
        let (mut none, mut first, mut second) = (0.0, 0.0, 0.0);
        for _ in 0..KEYS {
            let mut asks = Asks::new(4);
            match asks.next(0.3, &mut rng) {
                None => none += 1.0,
                Some(at) => {
                    first += at;
                    asks.one_at(at);
                    second += asks.next(at, &mut rng).unwrap_or(1.0);
                }
            }
        }
        let keys = f64::from(KEYS);
        // None of four is behind 0.3 with probability 0.3^4.
        assert!((none / keys - 0.0081).abs() < 6.0 * 0.000_29, "{none}");
        // E[max(0, least - 0.3)] = integral of P(no ask in (0.3, t)) over t, and so
        // on: with k of 4 behind 0.3, the least is at 0.3 + 0.7/(k + 1), the second
        // at 0.3 + 1.4/(k + 1), or 1 where k = 1.
        let choose = [1.0, 4.0, 6.0, 4.0, 1.0];
        let (mut least, mut next) = (0.0, 0.0);
        for (k, ways) in choose.into_iter().enumerate().skip(1) {
            let weight = ways * 0.7_f64.powi(k as i32) * 0.3_f64.powi(4 - k as i32);
            least += weight * (0.3 + 0.7 / (k as f64 + 1.0));
            next += weight * if k == 1 { 1.0 } else { 0.3 + 1.4 / (k as f64 + 1.0) };
        }
        assert!((first / keys - least).abs() < 6e-3, "{first}, not {least}");
        assert!((second / keys - next).abs() < 6e-3, "{second}, not {next}");
    }
}
