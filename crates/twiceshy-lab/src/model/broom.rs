//! Bounds of the broom filter from its paper.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, "Bloom Filters, Adaptivity, and the
//! Dictionary Problem", sections 4.5, 5.3 and 5.4. Space is `(1 + alpha) n log2(1/epsilon) +
//! O(n)`; alpha tends to 0 slowly: for any practical number of keys it is above 3, so the
//! theorem is asymptotic.

/// `log2 log2 n`.
fn log_log(keys: f64) -> f64 {
    keys.log2().log2()
}

/// Section 5.3: the alpha of short remainders, `sqrt(9 r log log n / log n)`.
///
/// ```
/// use twiceshy_lab::model::broom::alpha_short;
/// assert!((alpha_short(8.0, f64::from(1 << 24)) - 3.709).abs() < 5e-4);
/// ```
#[must_use]
pub fn alpha_short(remainder: f64, keys: f64) -> f64 {
    (9.0 * remainder * log_log(keys) / keys.log2()).sqrt()
}

/// Section 5.4: the alpha of long remainders, `sqrt(18 (log log n)^2 / log n)`.
#[must_use]
pub fn alpha_long(keys: f64) -> f64 {
    (18.0 * log_log(keys).powi(2) / keys.log2()).sqrt()
}

/// Remainders are long above this many bits: `2 log log n`.
#[must_use]
pub fn longest_short_remainder(keys: f64) -> f64 {
    2.0 * log_log(keys)
}

/// The alpha that applies to remainders of this length.
#[must_use]
pub fn alpha(remainder: f64, keys: f64) -> f64 {
    if remainder > longest_short_remainder(keys) {
        alpha_long(keys)
    } else {
        alpha_short(remainder, keys)
    }
}

/// Section 4.5: bits that an EXTEND adds on average. A fingerprint grows until it
/// differs, which each further bit does with probability 1/2.
pub const BITS_OF_AN_EXTENSION: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    /// `misc_expected_values.csv`: printed to three and two digits.
    #[test]
    fn bounds_are_the_tables() {
        for (log, short, long, switch) in
            [(20, 3.944, 4.100, 8.64), (24, 3.709, 3.971, 9.17), (30, 3.432, 3.801, 9.81)]
        {
            let keys = f64::from(1 << log);
            assert!((alpha_short(8.0, keys) - short).abs() <= 5e-4, "2^{log}");
            assert!((alpha_long(keys) - long).abs() <= 5e-4, "2^{log}");
            assert!((longest_short_remainder(keys) - switch).abs() <= 5e-3, "2^{log}");
            assert_eq!(alpha(8.0, keys), alpha_short(8.0, keys));
            assert_eq!(alpha(10.0, keys), alpha_long(keys));
        }
    }
}
