//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo Filters",
//! Theorem 9: the cyclic filter is not adaptive. A query that shares all `2^s`
//! fingerprints of a stored key, and a bin, stays a false positive for good.
//!
//! *Corrected:* the proof prints `1/epsilon^(2^s)` for a probability that is
//! `epsilon^(2^s)`, where `epsilon` is that of one cell, `2^-f`. At a load of 0.95
//! a cell of 8 bits needs 4.3e3 candidates on average with `s = 1`, 4.4e6 with
//! 2, 2.9e11 with 3.

use super::persistence::Persistence;

/// The attack on a filter with `selectors` fingerprints of `bits` bits for a key:
/// `2^s` of them.
#[must_use]
pub fn theorem_9(selectors: u32, bits: u32) -> Persistence {
    Persistence::new(selectors, bits)
}
