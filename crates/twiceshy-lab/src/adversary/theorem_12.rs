//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo Filters",
//! Theorem 12 with its proof in section 5.3: mutually unfixable sets. A filter that
//! gives a stored key one of `k` hashes in turn cannot fix `k` queries of which one
//! collides with the key under each.
//!
//! ```text
//! |Q| = (1 + 1/k) N / (epsilon n^(1/k)) random queries
//! k preliminary rounds    all of Q in random order: fixes what can be fixed
//! k testing rounds        again; Q_d is what was still a false positive
//! permutation rounds      k random queries of Q_d in random order, twice: if
//!                         each was a false positive both times, name the first
//! ```
//!
//! *Corrected:* `|Q|` is printed with "e n^(1/k)"; `epsilon` is that of one cell,
//! `2^-f`, and `N` the bins of one table.
//!
//! The theorem asks for `k < log n / (6 log log n)`, which no `n` below `2^75`
//! satisfies even for `k = 2`, and its Lemma 17 does not count stored keys
//! that others drive out: `|Q_d|` grows with `n`. The proof's adversary gives up where
//! `|Q_d|` is above `c k` for "a sufficiently large constant c" (footnote 11), which no
//! constant is: against `k = 2`, 4 bits, load 0.5, `|Q_d|` is 23, 34 and 52 on average
//! with 2^10, 2^12 and 2^14 keys. [`Theorem12::giving_up`] is that one. By default the
//! adversary does not give up, and wins most games: more suspects are more unfixable sets.

use rand::seq::SliceRandom;
use twiceshy_filters::Result;

use super::game::{Adversary, Claim, Oracle};
use crate::random::Rng;
use crate::workload::Key;

/// The attack.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Theorem12 {
    /// Hashes that the filter has for a key, `k`.
    pub hashes: u32,
    /// `|Q|`.
    pub queries: u64,
    /// The proof's constant `c`: with more than `c k` suspects the adversary gives up.
    pub patience: Option<u32>,
}

impl Theorem12 {
    /// The attack on a filter of `keys` keys that has `hashes` tables of
    /// `bins` bins and fingerprints of `bits` bits.
    #[must_use]
    pub fn new(hashes: u32, bins: u64, bits: u32, keys: u64) -> Self {
        let k = f64::from(hashes);
        let cell_rate = (-f64::from(bits)).exp2();
        let queries = (1.0 + 1.0 / k) * bins as f64 / (cell_rate * (keys as f64).powf(1.0 / k));
        Theorem12 { hashes, queries: queries.round() as u64, patience: None }
    }

    /// The same attack with at most that many queries.
    #[must_use]
    pub fn at_most(self, queries: u64) -> Self {
        Theorem12 { queries: self.queries.min(queries), ..self }
    }

    /// The proof's attack, which gives up above `c k` suspects.
    #[must_use]
    pub fn giving_up(self, c: u32) -> Self {
        Theorem12 { patience: Some(c), ..self }
    }

    /// Permutation rounds: at most as many as there are ordered choices of `k`
    /// suspects, and as there are keys, for the theorem allows `O(n)` queries.
    fn permutation_rounds(&self, suspects: usize, keys: u64) -> u64 {
        let left = |taken: u32| (suspects as u64).saturating_sub(u64::from(taken));
        let choices = (0..self.hashes).map(left).fold(1, u64::saturating_mul);
        choices.min(keys)
    }
}

impl Theorem12 {
    /// The preliminary and the testing rounds: `Q_d`, without repetition.
    pub fn suspects(&self, oracle: &mut Oracle<'_>, coins: &mut Rng) -> Vec<Key> {
        let mut queries: Vec<Key> = oracle.fresh(self.queries).collect();
        for _ in 0..self.hashes {
            queries.shuffle(coins);
            for &query in &queries {
                oracle.lookup(query);
            }
            oracle.end_round();
        }
        let mut suspects: Vec<Key> = Vec::new();
        for _ in 0..self.hashes {
            queries.shuffle(coins);
            suspects.extend(queries.iter().filter(|&&query| oracle.lookup(query)));
            oracle.end_round();
        }
        suspects.sort_unstable();
        suspects.dedup();
        suspects
    }

    /// The permutation rounds over `Q_d`, as one round of the game.
    pub fn permute(
        &self,
        mut suspects: Vec<Key>,
        oracle: &mut Oracle<'_>,
        coins: &mut Rng,
    ) -> Claim {
        let mut claim = Claim::Nothing;
        for _ in 0..self.permutation_rounds(suspects.len(), oracle.keys()) {
            let (chosen, _) = suspects.partial_shuffle(coins, self.hashes as usize);
            // Each is asked, whatever the others were.
            let twice = chosen.iter().chain(chosen.iter());
            if twice.filter(|&&query| oracle.lookup(query)).count() == 2 * chosen.len() {
                claim = chosen.first().map_or(Claim::Nothing, |&query| Claim::Named(query));
                break;
            }
        }
        oracle.end_round();
        claim
    }
}

impl Adversary for Theorem12 {
    fn play(&self, oracle: &mut Oracle<'_>, coins: &mut Rng) -> Result<Claim> {
        let suspects = self.suspects(oracle, coins);
        let most = self.patience.map(|c| u64::from(c) * u64::from(self.hashes));
        if most.is_some_and(|most| suspects.len() as u64 > most) {
            return Ok(Claim::Nothing);
        }
        Ok(self.permute(suspects, oracle, coins))
    }
}
