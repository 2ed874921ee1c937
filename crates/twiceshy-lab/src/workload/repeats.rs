//! Every element equally often, in random order: the simulations of
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 4.1.

use super::{Key, Permutation};

/// Ranks from 0, each exactly `times` times, in an order that the seed draws.
#[derive(Clone, Debug)]
pub struct Repeats {
    order: Permutation,
    times: u64,
    position: u64,
}

impl Repeats {
    /// Ranks below `count`, each `times` times.
    ///
    /// # Panics
    /// If these are more than 2^63 in all.
    #[must_use]
    pub fn new(count: u64, times: u64, seed: u64) -> Self {
        let len = count.checked_mul(times);
        let len = len.unwrap_or_else(|| panic!("{count} * {times} are beyond 2^63"));
        Repeats { order: Permutation::new(len, seed), times, position: 0 }
    }
}

impl Iterator for Repeats {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        if self.position == self.order.len() {
            return None;
        }
        let place = self.order.get(self.position);
        self.position += 1;
        Some(place / self.times)
    }
}
