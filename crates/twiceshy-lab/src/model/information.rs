//! The least memory of any filter.
//!
//! Carter, Floyd, Gill, Markowsky, Wegman, "Exact and Approximate Membership
//! Testers"; Bender et al., section 1: a filter of `n` keys with false-positive
//! rate epsilon takes at least `n log2(1/epsilon)` bits.

use twiceshy_filters::cuckoo::bounds::least_bits_per_key;

/// The least memory for `keys` keys, in bits.
///
/// ```
/// use twiceshy_lab::model::information::least_bits;
/// assert_eq!(least_bits(1000.0, 1.0 / 256.0), 8000.0);
/// ```
#[must_use]
pub fn least_bits(keys: f64, rate: f64) -> f64 {
    keys * least_bits_per_key(rate)
}

/// The least memory a key, in bits, for the rate of a filter whose queries look
/// at `cells` cells of `values` fingerprints at this load.
///
/// ```
/// use twiceshy_lab::model::information::least_bits_at_load;
/// // A quotient filter looks at one slot: 8 bits, and less when it is not full.
/// assert!((least_bits_at_load(256.0, 1, 1.0) - 8.0).abs() < 1e-9);
/// assert!((least_bits_at_load(256.0, 1, 0.5) - 9.0).abs() < 0.01);
/// ```
#[must_use]
pub fn least_bits_at_load(values: f64, cells: u32, load: f64) -> f64 {
    least_bits_per_key(super::threshold::first_pass_rate(values, cells, load))
}

/// The memory of a filter for each bit of the least.
///
/// ```
/// use twiceshy_lab::model::information::overhead;
/// assert_eq!(overhead(12.0, 1.0 / 256.0), 1.5);
/// ```
#[must_use]
pub fn overhead(bits_per_key: f64, rate: f64) -> f64 {
    bits_per_key / least_bits_per_key(rate)
}
