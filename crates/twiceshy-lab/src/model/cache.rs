//! A static filter with a cache of refuted keys.
//!
//! Che, Tung, Wang, "Hierarchical Web Caching Systems" (2002): a cache that evicts what was
//! asked longest ago holds the keys of a *window*, the time in which as many keys are asked as fit
//! it. CLOCK is close to that. A false positive is then a query whose key the filter takes for
//! a stored one, and which was not asked in the window before.

use super::popularity::Popularity;

/// False positives for each query.
///
/// `first_pass` is the filter's rate; the cache has room for `entries` keys, and `absent` keys are
/// asked, both for each stored key.
///
/// ```
/// use twiceshy_lab::model::{cache::rate, popularity::Popularity};
/// let tenfold = Popularity::equal(10.0);
/// assert_eq!(rate(0.01, 0.0, 5.0, &tenfold), 0.01, "no cache");
/// assert_eq!(rate(0.01, 0.05, 5.0, &tenfold), 0.001, "all false positives fit");
/// ```
#[must_use]
pub fn rate(first_pass: f64, entries: f64, absent: f64, popularity: &Popularity) -> f64 {
    let held = |window: f64| absent * first_pass * (1.0 - popularity.unasked(window));
    let window = if held(1.0) <= entries { 1.0 } else { reaching(entries, held) };
    let missed = 1.0 - popularity.unasked(window) + popularity.late(window);
    first_pass * missed / popularity.repeats()
}

/// Where in the stream a quantity that grows from 0 reaches a value.
pub(super) fn reaching(value: f64, growing: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1.0);
    // To one query in 10^12.
    for _ in 0..40 {
        let middle = f64::midpoint(low, high);
        if growing(middle) < value { low = middle } else { high = middle }
    }
    low
}
