//! A broom filter in a stream of queries, as a mean field.
//!
//! Bender et al., "Bloom Filters, Adaptivity, and the Dictionary Problem", section
//! 4.2: each adaptation rehashes some keys at the frontier, which then collide anew
//! with any absent key. A fingerprint that was extended is wrong about an absent key
//! once only, until its key is rehashed.
//!
//! Let `m` absent keys share quotient and remainder with a key on average, and let
//! `u(a)` be the probability that an absent key is not asked within `a` of the
//! stream. A key that was rehashed `a` ago has met `m (1 - u(a))` of them since then.
//! Keys are swept in turn, so a number of groups of keys with their ages, moved on
//! in small steps, is the whole filter.
//!
//! Not all that a key meets are false positives. One that shares `k` further bits with
//! it makes the fingerprint so long that only a query that shares more collides. `k` is
//! geometric, and of `mu` met so far (Poisson) the next is a record with probability
//! `sum over k of 2^-(k+1) exp(-mu 2^-k)`.
//!
//! Where a key and the queries of its quotient are one range of digests they change
//! function together. As published they do not: a query has a new hash when the frontier
//! passes the query, and once more a chance to meet every key. So a pair of key and query
//! is new twice a phase, and as old as the younger of both.
//!
//! Where `m` times the keys rehashed by an adaptation exceeds 1, each rehashed key brings
//! more than one rehash with it, and the frontier runs round and round: adapting then
//! gains nothing.

use super::popularity::Popularity;

/// What the frontier changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotients {
    /// A key and its queries at once.
    Stay,
    /// The key and the query each at its own time.
    Change,
}

impl Quotients {
    /// Of the share of an age's pairs that are asked for the first time, in order from
    /// the youngest part on, the mean over all pairs of a key of each age.
    fn met(self, first_asked: &[f64]) -> Vec<f64> {
        let groups = first_asked.len() as f64;
        let mut younger = 0.0;
        let mean = |(rank, &asked): (usize, &f64)| match self {
            Quotients::Stay => asked,
            // Queries of younger groups have their own age, all others the key's.
            Quotients::Change => {
                let met = (younger + (groups - rank as f64) * asked) / groups;
                younger += asked;
                met
            }
        };
        first_asked.iter().enumerate().map(mean).collect()
    }
}

/// The probability that a query which shares quotient and remainder with a key, after `mu`
/// such queries, shares more bits than all of them.
fn record(mu: f64) -> f64 {
    const DEPTH: i32 = 20;
    let mut weight = 0.5_f64.powi(DEPTH);
    let mut none = (-2.0 * mu * weight).exp();
    // Deeper than that none of them came.
    let mut sum = weight;
    for _ in 0..DEPTH {
        sum += weight * none;
        (weight, none) = (2.0 * weight, none * none);
    }
    sum
}

/// False positives for each query, in a stream of queries for `absent` keys a stored
/// one, of a filter with remainders of collision probability `epsilon`. An adaptation
/// rehashes `swept` keys.
#[must_use]
pub fn rate(
    epsilon: f64,
    load: f64,
    absent: f64,
    popularity: &Popularity,
    swept: f64,
    quotients: Quotients,
) -> f64 {
    const GROUPS: usize = 256;
    const STEPS: usize = 4096;
    let colliding = load * absent * epsilon;
    // Times of the steps are denser where a key is asked for the first time.
    let time = |step: usize| (step as f64 / STEPS as f64).powi(3);
    let asked = |age: f64| 1.0 - popularity.unasked(age.clamp(0.0, 1.0));
    // Tabulated: a Zipf distribution's is a sum. By the cube root, as the steps.
    let table: Vec<f64> = (0..=STEPS).map(|step| asked(time(step))).collect();
    let asked = |age: f64| {
        let at = age.cbrt() * STEPS as f64;
        let (below, part) = (at as usize, at.fract());
        let above = table[(below + 1).min(STEPS)];
        table[below] + (above - table[below]) * part
    };
    let mut rehashed = [0.0_f64; GROUPS];
    // What keys of each group met since then.
    let mut before = [0.0_f64; GROUPS];
    let (mut frontier, mut total) = (0.0, 0.0);
    for step in 0..STEPS {
        let (now, then) = (time(step), time(step + 1));
        let youngest = frontier as usize + GROUPS - 1;
        let group = |rank: usize| (youngest - rank) % GROUPS;
        let first_asked: Vec<f64> = (0..GROUPS)
            .map(|rank| rehashed[group(rank)])
            .map(|since| asked(then - since) - asked(now - since))
            .collect();
        let mut seen = 0.0;
        for (rank, met) in quotients.met(&first_asked).into_iter().enumerate() {
            let (before, met) = (&mut before[group(rank)], colliding * met);
            seen += met * record(*before + met / 2.0) / GROUPS as f64;
            *before += met;
        }
        total += seen;
        let moved = frontier + seen * swept * GROUPS as f64;
        for group in (frontier as usize..moved as usize).take(GROUPS) {
            (rehashed[group % GROUPS], before[group % GROUPS]) = (then, 0.0);
        }
        frontier = moved;
    }
    total / (absent * popularity.repeats())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_collisions_are_found_once() {
        let popularity = Popularity::equal(100.0);
        let (epsilon, load, absent) = (1.0 / 4096.0, 0.85, 2.0);
        let ours = rate(epsilon, load, absent, &popularity, 3.4, Quotients::Stay);
        // m = 0.0004: each is found once, and one in 700 brings another.
        let expected = epsilon * load / 100.0;
        assert!((ours / expected - 1.0).abs() < 0.01, "{ours}, not {expected}");
    }

    /// At most, and at least that of keys that have met all they ever meet.
    #[test]
    fn without_repeats_the_rate_is_that_of_a_first_pass() {
        for absent in [1.0, 10.0, 100.0] {
            let first_pass = 0.85 / 256.0;
            let least = record(absent * first_pass) * first_pass;
            for quotients in [Quotients::Stay, Quotients::Change] {
                let once = Popularity::equal(1.0);
                let ours = rate(1.0 / 256.0, 0.85, absent, &once, 3.4, quotients);
                assert!(ours < 1.001 * first_pass && ours > least, "{absent}: {ours}, {least}");
            }
        }
    }

    #[test]
    fn no_sweep_is_worse_than_forgetting_everything() {
        let popularity = Popularity::equal(100.0);
        let first_pass = 0.85 / 16.0;
        for quotients in [Quotients::Stay, Quotients::Change] {
            let ours = rate(1.0 / 16.0, 0.85, 100.0, &popularity, 3.4, quotients);
            assert!(ours < first_pass && ours > 0.5 * first_pass, "{ours}");
        }
    }

    #[test]
    fn pairs_are_as_old_as_their_younger_part() {
        let first_asked = [0.5, 0.25, 0.125, 0.0625];
        for (key, met) in Quotients::Change.met(&first_asked).into_iter().enumerate() {
            let pairs = (0..4).map(|query: usize| first_asked[query.min(key)]);
            assert_eq!(met, pairs.sum::<f64>() / 4.0);
        }
        assert_eq!(Quotients::Stay.met(&first_asked), first_asked);
    }

    /// The second is a record with probability 1/3, the sum of `2^-(k+1) 2^-(k+1)`, and
    /// one that met `mu` met nobody with probability `exp(-mu)`.
    #[test]
    fn records_become_rare() {
        assert!((record(0.0) - 1.0).abs() < 1e-9);
        let slope = (record(0.0) - record(1e-4)) / 1e-4;
        assert!((slope - 2.0 / 3.0).abs() < 1e-3, "{slope}");
        // Each doubling halves the chance when all first bits are taken.
        assert!((record(200.0) / record(100.0) - 0.5).abs() < 1e-3);
    }

    /// Absent keys that are asked often are all found at once. To the first order in `m`,
    /// while they are, `3.4 m` of the keys are rehashed, which on average had met half of
    /// theirs and meet all again; as published so many of the queries are as well. A third
    /// of `m` is no record. Of that, the second order is what it brings back in turn, and
    /// one of the 256 groups may be swept in part.
    #[test]
    fn quotients_that_change_bring_twice_as_much_back() {
        let popularity = Popularity::equal(1000.0);
        let (epsilon, load, absent) = (1.0 / 256.0, 0.85, 8.0);
        let met = epsilon * load * absent;
        for (quotients, times) in [(Quotients::Stay, 1.0), (Quotients::Change, 2.0)] {
            let ours = rate(epsilon, load, absent, &popularity, 3.4, quotients);
            let again = ours / (epsilon * load / 1000.0) - 1.0 + met / 3.0;
            let expected = times * 3.4 * met / 2.0;
            let error = times * 3.4 * met + 1.0 / (256.0 * 3.4 * met);
            assert!((again / expected - 1.0).abs() < error, "{quotients:?}: {again}, {expected}");
        }
    }
}
