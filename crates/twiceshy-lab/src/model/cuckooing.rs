//! The cuckooing adaptive cuckoo filter in a stream of queries: sampled, with a mean
//! field.
//!
//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo Filters",
//! sections 2.3 and 3. Theorem 1 has `epsilon |Q|` false positives and terms that stay
//! below for tables half full. At a load of 0.95 a key that moves on drives others
//! out, and each of those collides anew: with `m` absent keys that collide with a key
//! in a cell, and `g` keys moved by an adaptation, a false positive brings `g m` more,
//! and where that is above 1 the filter never comes to rest.
//!
//! A key has `k` cells, with colliding keys of their own (the fingerprint depends on
//! the table). It leaves a cell for the next when one of those is asked, and for any
//! other when it is driven out. How often that happens follows from the false
//! positives of all keys, which follow from how often it happens: a fixed point, found
//! by iteration from below.

use crate::random::rng;

use super::cell::{Arrivals, Cycle, Effort, Estimate, estimate};
use super::popularity::Popularity;
use super::threshold::orientability;

/// Keys moved by an adaptation, on average over the first `adaptations` per key, in a filter of
/// four tables with bins of one cell.
///
/// Measured, not derived (four runs of 40,000 keys): at a load of 0.95 an adaptation
/// of a filter as it was filled moves 25 keys, after one adaptation for each ten keys
/// 14.8; at 0.94, 18 and 11.2. Both are inverse to the distance from the threshold.
#[must_use]
pub fn moves(load: f64, adaptations: f64) -> f64 {
    /// Keys moved at rest, times the distance of the load from the threshold.
    const AT_REST: f64 = 0.40;
    /// The factor by which more are moved at first, and the adaptations per key until that ends.
    const AT_FIRST: f64 = 1.65;
    const RELAXING: f64 = 0.025;
    let threshold = orientability(4, 1).expect("it has one");
    let at_rest = AT_REST / (threshold - load).max(0.005);
    if adaptations < 1e-9 {
        return AT_FIRST * at_rest;
    }
    let relaxed = -(-adaptations / RELAXING).exp_m1() * RELAXING / adaptations;
    at_rest * (1.0 + (AT_FIRST - 1.0) * relaxed)
}

/// What happens in a stream, for each query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// False positives.
    pub rate: Estimate,
    /// Keys moved by each.
    pub moves: f64,
}

/// False positives in a stream of queries for `absent` keys per stored key, of a filter of four
/// tables with bins of one cell and fingerprints of `values` values.
#[must_use]
pub fn rate(
    values: f64,
    load: f64,
    absent: f64,
    popularity: &Popularity,
    effort: Effort,
    seed: u64,
) -> Outcome {
    const TABLES: usize = 4;
    const ROUNDS: u32 = 40;
    // Further rounds would change less than is sampled.
    const SETTLED: f64 = 0.003;
    let arrivals = Arrivals {
        mean: TABLES as f64 * load * absent,
        matching: vec![1.0 / values; TABLES],
        several: false,
        popularity,
    };
    let mut driven_out = 0.0;
    for round in 1.. {
        // The same seed: rounds differ by what drives keys out alone.
        let a_key = estimate(effort, &mut rng(seed), |rng| {
            arrivals.sample(&mut Cycle::new(TABLES, false), driven_out, rng)
        });
        let moves = moves(load, a_key.mean);
        let next = (moves - 1.0) * a_key.mean;
        if round == ROUNDS || (next - driven_out).abs() <= SETTLED * next {
            let rate = a_key.times(1.0 / (absent * popularity.repeats()));
            return Outcome { rate, moves };
        }
        driven_out = next;
    }
    unreachable!("the rounds end");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_collisions_are_support_optimal() {
        let popularity = Popularity::equal(50.0);
        let outcome = rate(65536.0, 0.95, 5.0, &popularity, Effort::USUAL, 1);
        let optimal = crate::model::support::rate(3.8 / 65536.0, 50.0);
        // g m = 25 * 0.0003: one in 140 brings another. Six standard errors.
        let error = 6.0 * outcome.rate.error + 0.01 * optimal;
        assert!((outcome.rate.mean - optimal).abs() < error, "{outcome:?}, not {optimal}");
    }

    #[test]
    fn many_collisions_never_come_to_rest() {
        let popularity = Popularity::equal(100.0);
        let first_pass = 3.8 / 2048.0;
        let rates = [10.0, 40.0, 100.0].map(|absent| {
            rate(2048.0, 0.95, absent, &popularity, Effort::USUAL, 1).rate.mean / first_pass
        });
        assert!(rates[0] < 0.05 && rates[1] > 0.1 && rates[2] > rates[1], "{rates:?}");
        assert!(rates[2] < 1.0, "{rates:?}");
    }
}
