//! Deletion and reinsertion of own keys: a filter that forgets what a key has learned when
//! the key goes brings its known false positives back when it returns.
//!
//! ```text
//! 10 n absent keys, each once                          known false positives
//! 5 times:  every key is deleted and inserted again    some at a time
//!           the known ones, each once                  how many come back?
//!           10 n fresh queries, each once              how many are there anyway?
//! ```

use twiceshy_filters::Result;

use super::{Trial, ask, digest};
use crate::adversary::game::is_above;

/// How many keys are away at once: one, a few, and as a share of all.
const AWAY: [Away; 3] = [Away::Some(1), Away::Some(20), Away::Share(10)];

#[derive(Clone, Copy)]
enum Away {
    Some(u64),
    Share(u64),
}

/// Times that all keys are renewed.
const ROUNDS: u64 = 5;

/// Fresh queries for each key, at first and in a round.
const FRESH: u64 = 10;

/// Steps of a run for each key.
pub(super) const STEPS: f64 = (AWAY.len() as u64 * (ROUNDS + 1) * FRESH) as f64;

pub(super) fn run(trial: &mut Trial<'_>) -> Result<()> {
    for away in AWAY {
        let (away, condition) = match away {
            Away::Some(1) => (1, "one away at a time, known ones".to_string()),
            Away::Some(away) => (away, format!("{away} away at a time, known ones")),
            Away::Share(part) => {
                (trial.keys.div_ceil(part), format!("1/{part} away at a time, known ones"))
            }
        };
        renew(trial, away, condition)?;
    }
    Ok(())
}

fn renew(trial: &mut Trial<'_>, away: u64, condition: String) -> Result<()> {
    let (mut filter, hasher) = trial.filled()?;
    let fresh = FRESH * trial.keys;
    let mut next = trial.keys;
    let mut known = ask(&mut filter, &hasher, next..next + fresh, trial.watch)?;
    let (mut asked, mut back, mut new) = (0, 0, 0);
    for _ in 0..ROUNDS {
        for first in (0..trial.keys).step_by(usize::try_from(away).expect("keys in memory")) {
            let some = first..trial.keys.min(first + away);
            for key in some.clone() {
                assert!(filter.remove(digest(&hasher, key))?, "it was stored");
            }
            for key in some {
                filter.insert(digest(&hasher, key))?;
            }
        }
        asked += known.len() as u64;
        back += ask(&mut filter, &hasher, known.iter().copied(), &())?.len() as u64;
        next += fresh;
        let found = ask(&mut filter, &hasher, next..next + fresh, trial.watch)?;
        new += found.len() as u64;
        known.extend(found);
    }
    let known = back as f64 / asked.max(1) as f64;
    let anyway = new as f64 / (ROUNDS * fresh) as f64;
    let denied = trial.denied(&filter, &hasher);
    let met = !is_above(known, anyway, asked);
    trial.emit(&filter, condition, known).at_most(anyway).met(met).done(denied);
    Ok(())
}
