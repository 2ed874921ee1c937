//! The timing attack of Bender et al., "Bloom Filters, Adaptivity, and the
//! Dictionary Problem", section 4.3: look up `x`, delete `y`, insert `y`, again
//! and again.
//!
//! First find a false positive `x`, then the stored `y` with which it collides:
//! the one after whose deletion and insertion `x` is a false positive once more. A
//! filter that forgets the adaptations of a removed key repeats the mistake forever.
//! The broom filter's ghosts prevent that.

use twiceshy_filters::Result;

use super::game::{Adversary, Claim, Oracle};
use crate::random::Rng;
use crate::workload::Key;

/// The attack.
#[derive(Clone, Copy, Debug)]
pub struct DeletionTiming {
    /// Keys that it tries at most to find a false positive.
    pub queries: u64,
}

/// How often it deletes and inserts the key that it found.
pub const REPEATS: usize = 60;

/// Three rounds: the search for `x`, the search for `y`, and the attack.
impl Adversary for DeletionTiming {
    fn play(&self, oracle: &mut Oracle<'_>, _: &mut Rng) -> Result<Claim> {
        let x = oracle.fresh(self.queries).find(|&query| oracle.lookup(query));
        oracle.end_round();
        let Some(x) = x else { return Ok(Claim::Nothing) };

        let y = who_brings_back(oracle, x)?;
        oracle.end_round();
        let Some(y) = y else { return Ok(Claim::Nothing) };

        for _ in 0..REPEATS {
            renew(oracle, y)?;
            oracle.lookup(x);
        }
        oracle.end_round();
        renew(oracle, y)?;
        Ok(Claim::Named(x))
    }
}

/// A stored key whose deletion and insertion makes `x` a false positive.
fn who_brings_back(oracle: &mut Oracle<'_>, x: Key) -> Result<Option<Key>> {
    for y in 0..oracle.keys() {
        renew(oracle, y)?;
        if oracle.lookup(x) {
            return Ok(Some(y));
        }
    }
    Ok(None)
}

fn renew(oracle: &mut Oracle<'_>, key: Key) -> Result<()> {
    oracle.delete(key)?;
    oracle.insert(key)
}
