//! A broom filter in a stream of queries, as a mean field.
//!
//! Bender et al., "Bloom Filters, Adaptivity, and the Dictionary Problem", section
//! 4.2: each adaptation rehashes some keys at the frontier, which then collide anew
//! with any absent key. A fingerprint that was extended is wrong about an absent key
//! once only, until its key is rehashed.
//!
//! Let `m` absent keys share quotient and remainder with a key on average, and let
//! `u(a)` be the probability that an absent key is not asked within `a` of the
//! stream. A key that was rehashed `a` ago has had `m (1 - u(a))` false positives since
//! then. Keys are swept in turn, so a number of groups of keys with their ages, moved on
//! in small steps, is the whole filter. Where `m` times the keys rehashed by an
//! adaptation exceeds 1, each rehashed key brings more than one rehash with it, and
//! the frontier runs round and round: adapting then gains nothing.

use super::popularity::Popularity;

/// False positives for each query, in a stream of queries for `absent` keys a stored
/// one, of a filter with remainders of collision probability `epsilon`. An adaptation
/// rehashes `swept` keys.
#[must_use]
pub fn rate(epsilon: f64, load: f64, absent: f64, popularity: &Popularity, swept: f64) -> f64 {
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
    let (mut frontier, mut total) = (0.0, 0.0);
    for step in 0..STEPS {
        let (now, then) = (time(step), time(step + 1));
        let new: f64 = rehashed.iter().map(|since| asked(then - since) - asked(now - since)).sum();
        let seen = colliding * new / GROUPS as f64;
        total += seen;
        let moved = frontier + seen * swept * GROUPS as f64;
        for group in (frontier as usize..moved as usize).take(GROUPS) {
            rehashed[group % GROUPS] = then;
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
        let ours = rate(epsilon, load, absent, &popularity, 3.4);
        // m = 0.0004: each is found once, and one in 700 brings another.
        let expected = epsilon * load / 100.0;
        assert!((ours / expected - 1.0).abs() < 0.01, "{ours}, not {expected}");
    }

    #[test]
    fn without_repeats_the_rate_is_that_of_a_first_pass() {
        for absent in [10.0, 100.0] {
            let ours = rate(1.0 / 256.0, 0.85, absent, &Popularity::equal(1.0), 3.4);
            assert!((ours / (0.85 / 256.0) - 1.0).abs() < 0.01, "{absent}: {ours}");
        }
    }

    #[test]
    fn no_sweep_is_worse_than_forgetting_everything() {
        let popularity = Popularity::equal(100.0);
        let first_pass = 0.85 / 16.0;
        let ours = rate(1.0 / 16.0, 0.85, 100.0, &popularity, 3.4);
        assert!(ours < first_pass && ours > 0.5 * first_pass, "{ours}");
    }
}
