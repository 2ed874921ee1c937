//! Repeat one false positive: the simplest attack there is. Ask random keys until
//! one is a false positive, ask it again and again, and name it.
//!
//! It ruins every filter that does not adapt (each repetition is a false
//! positive), and no filter that does: those answer "absent" from the second time
//! on. What it wins against them is the chance that the one fix failed.

use twiceshy_filters::Result;

use super::game::{Adversary, Claim, Oracle};
use crate::random::Rng;

/// The attack.
#[derive(Clone, Copy, Debug)]
pub struct Repeat {
    /// Keys that it tries at most to find a false positive.
    pub queries: u64,
}

/// How often it asks the false positive again.
pub const REPEATS: usize = 100;

impl Adversary for Repeat {
    fn play(&self, oracle: &mut Oracle<'_>, _: &mut Rng) -> Result<Claim> {
        let found = oracle.fresh(self.queries).find(|&query| oracle.lookup(query));
        oracle.end_round();
        let Some(query) = found else { return Ok(Claim::Nothing) };
        for _ in 0..REPEATS {
            oracle.lookup(query);
        }
        oracle.end_round();
        Ok(Claim::Named(query))
    }
}
