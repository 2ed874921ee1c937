//! What an adaptive filter cannot avoid: every distinct query is a false positive
//! once, with the probability of a first pass.
//!
//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo Filters",
//! section 3, Theorem 1.

/// False positives of a support-optimal filter over any sequence of queries for
/// `distinct` absent keys: `epsilon |Q|`.
///
/// The theorem has terms of `O(epsilon^2 |Q| + log^4 n)` beside it, without their
/// constants.
///
/// ```
/// use twiceshy_lab::model::support::false_positives;
/// assert_eq!(false_positives(0.004, 1_000_000.0), 4000.0);
/// ```
#[must_use]
pub fn false_positives(rate: f64, distinct: f64) -> f64 {
    rate * distinct
}

/// The same for each query, when each key is asked `repeats` times on average:
/// what no adaptive filter with this first-pass rate goes below.
///
/// ```
/// use twiceshy_lab::model::support::rate;
/// assert_eq!(rate(0.004, 100.0), 0.00004);
/// ```
#[must_use]
pub fn rate(first_pass: f64, repeats: f64) -> f64 {
    first_pass / repeats.max(1.0)
}
