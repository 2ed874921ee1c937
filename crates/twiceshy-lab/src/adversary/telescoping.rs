//! The adversary of Lee, McCauley, Singh, Stein, "Telescoping Filter", section
//! 6.1: it asks again what was a false positive before.
//!
//! Random queries, `|Q|/|S|` for each key, are asked in rounds of ten passes
//! (sub-rounds); after a round those that were never a false positive in it are
//! dropped. It ends when a hundredth as many queries as keys are left, or after
//! 30 rounds. The paper's figure is the false-positive rate of the last round.

use twiceshy_filters::Result;

use super::game::{Adversary, Claim, Oracle, Outcome, play};
use super::queries;
use crate::contestant::Contestant;
use crate::random::Rng;

/// The attack.
#[derive(Clone, Copy, Debug)]
pub struct Telescoping {
    /// Queries of the first pass.
    pub queries: u64,
}

/// Passes over the queries in a round.
pub const SUB_ROUNDS: usize = 10;

/// Rounds after which it is over.
pub const MAX_ROUNDS: usize = 30;

/// It is over when there are not as many queries left for each key.
pub const LEFT: f64 = 0.01;

impl Adversary for Telescoping {
    fn play(&self, oracle: &mut Oracle<'_>, _: &mut Rng) -> Result<Claim> {
        let mut queries: Vec<_> = oracle.fresh(self.queries).collect();
        let mut hopeless = oracle.take_out_hopeless(&mut queries);
        let least = LEFT * oracle.keys() as f64;
        let mut distinct = 0;
        for round in 0..MAX_ROUNDS {
            if round > 0 && queries.len() as f64 <= least {
                break;
            }
            distinct = queries.len() as u64 + hopeless;
            oracle.lookups_in_vain(hopeless * SUB_ROUNDS as u64);
            let mut positives = oracle.lookup_absent(&queries, SUB_ROUNDS).into_iter();
            oracle.end_round();
            queries.retain(|_| positives.next() == Some(true));
            hopeless = 0;
        }
        Ok(Claim::Sustained { named: queries.first().copied(), distinct })
    }
}

/// Plays it against an empty filter, with `ratio` queries for each key.
///
/// # Errors
/// [`twiceshy_filters::Error::Full`] where the keys do not fit the filter.
pub fn telescoping(filter: &mut Contestant, keys: u64, ratio: f64, seed: u64) -> Result<Outcome> {
    play(filter, &Telescoping { queries: queries(keys, ratio) }, keys, seed)
}
