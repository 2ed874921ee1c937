//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo Filters",
//! Theorem 10: the swapping filter is not adaptive. A query that shares a stored
//! key's fingerprints for all `b` cells of a bin stays a false positive wherever
//! in it the key is swapped to.
//!
//! The proof is that of Theorem 9 with `b` for `2^s`.

use super::persistence::Persistence;

/// The attack on a filter with `slots` cells per bin and fingerprints of `bits` bits.
#[must_use]
pub fn theorem_10(slots: u32, bits: u32) -> Persistence {
    Persistence::new(slots, bits)
}
