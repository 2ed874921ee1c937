//! What Theorems 9 and 10 of Kopelowitz, McCauley, Porat, "Support Optimality and
//! Adaptive Cuckoo Filters", section 5.2, have in common: a filter that can give a
//! stored key only a few fingerprints has queries that collide with all of them.
//! Ask a random key again and again until it is answered "absent" once, then the
//! next; name the first that never is.
//!
//! The proofs ask each key once for each fingerprint. That is enough for a cyclic
//! filter that fixes every colliding key at once, as ours does and as section 2.2
//! has it: what did not collide at first does not collide later. *Corrected:* where
//! only one key is fixed at a time, that many false positives may come from several
//! stored keys, and the named query wins less than half of the games; and swaps are
//! random, so that even a query that a swap can fix may be a false positive as often.
//! Five times as many repetitions make both certain.

use twiceshy_filters::Result;

use super::game::{Adversary, Claim, Oracle};
use crate::random::Rng;

/// The attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Persistence {
    /// How often in a row a query has to be a false positive.
    pub repeats: u64,
    /// Keys that it tries at most.
    pub candidates: u64,
}

/// How many times as often as in the proofs a query is asked.
pub const CAUTION: u64 = 5;

impl Persistence {
    /// The attack on a filter that has `choices` fingerprints of `bits` bits for a
    /// key in a place. One stored key shares all of them with a query in its bins
    /// with probability `2^-(bits * choices)`; four times as many candidates as that
    /// are tried, so that a filter with one key in the query's bins is found out in
    /// 98 % of the games.
    pub(super) fn new(choices: u32, bits: u32) -> Self {
        let four_times = bits.saturating_mul(choices).saturating_add(2);
        let candidates = 1_u64.checked_shl(four_times).unwrap_or(u64::MAX);
        Persistence { repeats: CAUTION * u64::from(choices), candidates }
    }

    /// The same attack with at most that many candidates.
    #[must_use]
    pub fn at_most(self, candidates: u64) -> Self {
        Persistence { candidates: self.candidates.min(candidates), ..self }
    }
}

/// The whole search is one round.
impl Adversary for Persistence {
    fn play(&self, oracle: &mut Oracle<'_>, _: &mut Rng) -> Result<Claim> {
        for query in oracle.fresh(self.candidates) {
            let persists = (0..self.repeats).all(|_| oracle.lookup(query));
            if persists {
                oracle.end_round();
                return Ok(Claim::Named(query));
            }
        }
        oracle.end_round();
        Ok(Claim::Nothing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_four_times_the_mean_and_do_not_overflow() {
        for (choices, bits, candidates) in [
            (1, 8, 1 << 10),
            (2, 7, 1 << 16),
            (2, 30, 1 << 62),
            (2, 31, u64::MAX),
            (1, 63, u64::MAX),
            (256, 32, u64::MAX),
        ] {
            let attack = Persistence::new(choices, bits);
            assert_eq!(attack.candidates, candidates, "{choices} of {bits} bits");
            assert_eq!(attack.repeats, 5 * u64::from(choices));
            assert_eq!(attack.at_most(7).candidates, 7);
        }
    }
}
