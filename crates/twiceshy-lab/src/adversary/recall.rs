//! An adversary that forgets nothing: it keeps every false positive that it has ever found,
//! and asks for each of them again in every round.
//!
//! ```text
//! 20 times:   fresh queries, each once            false positives join the known ones
//!             the known ones, in ten passes       how many come back?
//! ```
//!
//! The telescoping paper's adversary drops what was answered "absent". This one does not: a
//! filter that adapts to new false positives may undo what it did for old ones, and here it
//! pays for that. Both halves are rounds of the game, so that the last round is one of known
//! queries only.

use twiceshy_filters::Result;

use super::game::{Adversary, Claim, Oracle, Outcome, Round, play};
use crate::contestant::Contestant;
use crate::random::Rng;
use crate::workload::Key;

/// The attack.
#[derive(Clone, Copy, Debug)]
pub struct Recall {
    /// Fresh queries of a round.
    pub fresh: u64,
}

/// Rounds, each of two halves.
pub const ROUNDS: usize = 20;

/// Passes over the known false positives in a round.
pub const PASSES: usize = 10;

impl Adversary for Recall {
    fn play(&self, oracle: &mut Oracle<'_>, _: &mut Rng) -> Result<Claim> {
        let mut known: Vec<Key> = Vec::new();
        let mut named = None;
        for _ in 0..ROUNDS {
            known.extend(oracle.fresh(self.fresh).filter(|&query| oracle.lookup(query)));
            oracle.end_round();
            named = None;
            for _ in 0..PASSES {
                for &query in &known {
                    if oracle.lookup(query) {
                        named = Some(query);
                    }
                }
            }
            oracle.end_round();
        }
        Ok(Claim::Sustained { named, distinct: known.len() as u64 })
    }
}

/// The rounds of known queries, of the whole game.
pub fn known_rounds(rounds: &[Round]) -> impl DoubleEndedIterator<Item = &Round> {
    rounds.as_chunks().0.iter().map(|[_, known]: &[Round; 2]| known)
}

/// Plays it against an empty filter, with `ratio` fresh queries for each key in a round.
///
/// # Errors
/// [`twiceshy_filters::Error::Full`] where the keys do not fit the filter.
pub fn recall(filter: &mut Contestant, keys: u64, ratio: f64, seed: u64) -> Result<Outcome> {
    play(filter, &Recall { fresh: super::queries(keys, ratio) }, keys, seed)
}
