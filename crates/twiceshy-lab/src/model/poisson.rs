//! Poisson numbers: their probabilities, their tails, and draws of them.

use rand::RngExt as _;
use rand_distr::Distribution as _;

use crate::random::Rng;

/// Probabilities below this one, relative to the largest, are left out.
const NEGLIGIBLE: f64 = 1e-17;

/// The probabilities of a Poisson number, as far as they matter.
#[derive(Clone, Debug)]
pub struct Poisson {
    first: u32,
    probabilities: Vec<f64>,
}

impl Poisson {
    /// The number of this mean.
    ///
    /// Probabilities are built outwards from the most likely value by their
    /// ratios, which needs no factorial and overflows nowhere.
    ///
    /// # Panics
    /// If the mean is negative or no number.
    #[must_use]
    pub fn new(mean: f64) -> Self {
        assert!(mean >= 0.0 && mean.is_finite(), "a Poisson number has no mean of {mean}");
        let mode = mean.floor();
        let mut below = Vec::new();
        let (mut value, mut weight) = (mode, 1.0);
        while value > 0.0 {
            weight *= value / mean;
            value -= 1.0;
            if weight < NEGLIGIBLE {
                break;
            }
            below.push(weight);
        }
        let first = mode as u32 - below.len() as u32;
        let mut probabilities: Vec<f64> = below.into_iter().rev().chain([1.0]).collect();
        let (mut value, mut weight) = (mode, 1.0);
        loop {
            value += 1.0;
            weight *= mean / value;
            if weight < NEGLIGIBLE {
                break;
            }
            probabilities.push(weight);
        }
        let sum: f64 = probabilities.iter().sum();
        probabilities.iter_mut().for_each(|weight| *weight /= sum);
        Poisson { first, probabilities }
    }

    /// Values and their probabilities.
    pub fn iter(&self) -> impl Iterator<Item = (u32, f64)> {
        (self.first..).zip(self.probabilities.iter().copied())
    }

    /// The mean of a function of the number.
    pub fn mean_of(&self, mut function: impl FnMut(u32) -> f64) -> f64 {
        self.iter().map(|(value, probability)| probability * function(value)).sum()
    }

    /// The probability of `least` or more.
    #[must_use]
    pub fn at_least(&self, least: u32) -> f64 {
        self.iter().filter(|(value, _)| *value >= least).map(|(_, probability)| probability).sum()
    }
}

/// A Poisson number.
pub fn draw(mean: f64, rng: &mut Rng) -> u64 {
    // Below it a product of uniform numbers is faster.
    const SMALL: f64 = 16.0;
    if mean < SMALL {
        return draw_small(mean, rng);
    }
    let large = rand_distr::Poisson::new(mean).expect("a mean of 16 or more");
    let number: f64 = large.sample(rng);
    number as u64
}

/// A Poisson number that is at least 1.
pub fn draw_some(mean: f64, rng: &mut Rng) -> u64 {
    const PLAIN: f64 = 1.0;
    if mean > PLAIN {
        loop {
            let number = draw(mean, rng);
            if number > 0 {
                return number;
            }
        }
    }
    // The first event is the first before time 1, given that there is one.
    let first = -(rng.random::<f64>() * (-mean).exp_m1()).ln_1p();
    1 + draw_small(mean - first, rng)
}

/// Knuth's product of uniform numbers, for small means.
fn draw_small(mean: f64, rng: &mut Rng) -> u64 {
    let (limit, mut product, mut number) = ((-mean).exp(), 1.0, 0);
    loop {
        product *= rng.random::<f64>();
        if product <= limit {
            return number;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::rng;

    #[test]
    fn probabilities_have_the_mean_and_the_variance() {
        for mean in [0.0, 1e-6, 0.3, 1.0, 7.5, 380.0, 5000.0] {
            let poisson = Poisson::new(mean);
            let first = poisson.mean_of(f64::from);
            let square = poisson.mean_of(|value| (f64::from(value) - mean).powi(2));
            assert!((first - mean).abs() <= 1e-11 * mean, "{mean}: {first}");
            assert!((square - mean).abs() <= 1e-10 * mean, "{mean}: {square}");
            let none = poisson.iter().find(|(value, _)| *value == 0).map_or(0.0, |(_, p)| p);
            assert!((none - (-mean).exp()).abs() < 1e-12, "{mean}: {none}");
            assert!((poisson.at_least(1) - (1.0 - none)).abs() < 1e-12);
        }
    }

    /// 10^5 draws each: the sample mean is normal with standard error
    /// sqrt(variance / 10^5). Six of them are left with probability 2e-9.
    #[test]
    fn draws_have_the_mean() {
        const DRAWS: u32 = 100_000;
        let mut rng = rng(1);
        for mean in [0.01, 0.9, 1.5, 15.0, 40.0] {
            let mut total = |draw: fn(f64, &mut Rng) -> u64| -> f64 {
                (0..DRAWS).map(|_| draw(mean, &mut rng) as f64).sum::<f64>() / f64::from(DRAWS)
            };
            let error = 6.0 * (mean / f64::from(DRAWS)).sqrt();
            let all = total(draw);
            assert!((all - mean).abs() < error, "{mean}: {all}");
            // Given that it is not 0: mean m / p, variance below m / p + (m / p)^2.
            let some = total(draw_some);
            let expected = mean / -(-mean).exp_m1();
            let error = 6.0 * ((expected + expected * expected) / f64::from(DRAWS)).sqrt();
            assert!((some - expected).abs() < error, "{mean}: {some}, not {expected}");
        }
    }
}
