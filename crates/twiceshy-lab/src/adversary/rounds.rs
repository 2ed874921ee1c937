//! The round attack of Bender et al., "Bloom Filters, Adaptivity, and the
//! Dictionary Problem", section 6.1: ask `Q`, then only the false positives
//! of the round before, until there are none.
//!
//! The paper uses it to show how much an adaptive filter has to remember. A
//! filter that does not adapt has a rate of 1 in every round after the first.

use twiceshy_filters::Result;

use super::game::{Adversary, Claim, Oracle, Outcome, play};
use super::queries;
use crate::contestant::Contestant;
use crate::random::Rng;

/// The attack.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Queries of the first round.
    pub queries: u64,
}

/// Rounds after which it is over, for filters that never run out of false
/// positives. A filter that keeps its rate is done after
/// `log(|Q|) / log(1/epsilon)`.
pub const MAX_ROUNDS: usize = 30;

impl Adversary for Rounds {
    fn play(&self, oracle: &mut Oracle<'_>, _: &mut Rng) -> Result<Claim> {
        let mut queries: Vec<_> = oracle.fresh(self.queries).collect();
        let mut distinct = 0;
        for _ in 0..MAX_ROUNDS {
            if queries.is_empty() {
                break;
            }
            distinct = queries.len() as u64;
            queries.retain(|&query| oracle.lookup(query));
            oracle.end_round();
        }
        Ok(Claim::Sustained { named: queries.first().copied(), distinct })
    }
}

/// Plays it against an empty filter, with `ratio` queries for each key.
///
/// # Errors
/// [`twiceshy_filters::Error::Full`] where the keys do not fit the filter.
pub fn rounds(filter: &mut Contestant, keys: u64, ratio: f64, seed: u64) -> Result<Outcome> {
    play(filter, &Rounds { queries: queries(keys, ratio) }, keys, seed)
}
