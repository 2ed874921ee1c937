//! Bounds from the theory of cuckoo filters: loads, false-positive rates, and the sizes that
//! follow from them.

use libm::{ceil, exp, exp2, expm1, floor, log, log1p, log2, pow, sqrt};
/// The load below which `n` keys with `k` bins of `b` cells can be placed with
/// high probability as `n` grows, where it is known.
///
/// ```
/// use twiceshy_filters::cuckoo::bounds::load_threshold;
/// assert_eq!(load_threshold(2, 4), Some(0.98037));
/// ```
#[must_use]
pub fn load_threshold(tables: u32, slots: u32) -> Option<f64> {
    Some(match (tables, slots) {
        (2, 1) => 0.5,
        (2, 2) => 0.89701,
        (2, 3) => 0.95915,
        (2, 4) => 0.98037,
        (2, 8) => 0.99785,
        (3, 1) => 0.91794,
        (4, 1) => 0.97677,
        (5, 1) => 0.99244,
        _ => return None,
    })
}

/// The target load of a table, in thousandths: 950 where the threshold is far enough above it.
#[must_use]
pub const fn target_load_permille(tables: u32, slots: u32) -> u32 {
    match (tables, slots) {
        (2, 1) => 450,
        (2, 2) => 850,
        (2, 3) => 920,
        (3, 1) => 870,
        _ => 950,
    }
}

/// The probability that an absent key that was never queried is answered "maybe": `1 - (1 -
/// 1/values)^(cells * load)`, where a query looks at `cells` cells and a fingerprint has
/// `values` values (`2^f - 1`: zero marks an empty cell).
///
/// ```
/// use twiceshy_filters::cuckoo::bounds::first_pass_rate;
/// // k = 4, b = 1, 8 bits, 95 % full
/// assert!((first_pass_rate(255.0, 4, 0.95) - 0.01482).abs() < 1e-5);
/// ```
#[must_use]
pub fn first_pass_rate(values: f64, cells: u32, load: f64) -> f64 {
    -expm1(f64::from(cells) * load * log1p(-1.0 / values))
}

/// Eppstein, Theorem 5.1: the false-positive rate of a cuckoo filter with two
/// bins of `slots` cells, with or without a stash, is at most
/// `2 b load / (2^f - 1)`.
///
/// ```
/// use twiceshy_filters::cuckoo::bounds::theorem_5_1_rate;
/// assert!((theorem_5_1_rate(8, 4, 0.95) - 0.0298039).abs() < 1e-7);
/// ```
#[must_use]
pub fn theorem_5_1_rate(fingerprint_bits: u32, slots: u32, load: f64) -> f64 {
    2.0 * f64::from(slots) * load / (exp2(f64::from(fingerprint_bits)) - 1.0)
}

/// The parameters and the load of Theorem 4.3.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guarantee {
    /// `b >= 1 + ln(1/delta) / (1 - ln 2)`, with equality.
    pub delta: f64,
    /// The load that is safe: `1 - delta - delta^2`.
    pub load: f64,
    /// The least fingerprint length.
    pub fingerprint_bits: u32,
    /// Bins for all keys at that load.
    pub bins: usize,
}

/// Eppstein, Theorem 4.3 and Lemma 4.1: parameters with which a simplified cuckoo filter of
/// `keys` keys and `slots` cells per bin fails with probability `O(keys^-exponent)`. `None`
/// where the bins are too small for the theorem to guarantee any load. The theorem is loose:
/// with 4 cells per bin it guarantees a load of 0.443, and 0.95 works.
///
/// ```
/// use twiceshy_filters::cuckoo::bounds::theorem_4_3;
/// let promised = theorem_4_3(1 << 20, 16, 1.0).unwrap();
/// assert!((promised.load - 0.9899).abs() < 1e-4);
/// assert!(theorem_4_3(1 << 20, 2, 1.0).is_none());
/// ```
#[must_use]
pub fn theorem_4_3(keys: usize, slots: u32, exponent: f64) -> Option<Guarantee> {
    let (keys, slots) = (keys as f64, f64::from(slots));
    let delta = exp(-(slots - 1.0) * (1.0 - core::f64::consts::LN_2));
    let load = 1.0 - delta - delta * delta;
    if load <= 0.0 || keys < 1.0 || !exponent.is_finite() || exponent < 0.0 {
        return None;
    }
    let placeable = (exponent + 1.0) * log2(keys) / slots;
    let even = log2(3.0 * (exponent + 1.0) * log(keys) / (pow(delta, 4.0) * slots));
    let fingerprint_bits = (floor(placeable) + 1.0).max(ceil(even)) as u32;
    Some(Guarantee { delta, load, fingerprint_bits, bins: ceil(keys / slots / load) as usize })
}

/// The number of keys that do not fit a subtable with `mean` keys on average, `(X - placeable)+`
/// for a Poisson number X of keys, approximated as normal: its mean, and the mean of its square.
pub(crate) fn surplus(mean: f64, placeable: f64) -> (f64, f64) {
    const STEP: f64 = 0.01;
    let sigma = sqrt(mean);
    let z = (placeable - mean) / sigma;
    let density = |x: f64| exp(-x * x / 2.0) / sqrt(core::f64::consts::TAU);
    // Integrals over the tail, up to twelve standard deviations.
    let (mut first, mut second) = (0.0, 0.0);
    for over in (0..1200).map(|step| f64::from(step) * STEP) {
        let weight = density(z + over) * STEP;
        first += over * weight;
        second += over * over * weight;
    }
    (sigma * first, mean * second)
}

/// The least memory per key, in bits, of any filter with this false-positive rate:
/// `log2(1/rate)`.
#[must_use]
pub fn least_bits_per_key(rate: f64) -> f64 {
    -log2(rate)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn each_halving_of_the_rate_costs_a_bit_per_key() {
        for bits in 0..60 {
            let rate = libm::exp2(-f64::from(bits));
            assert!((least_bits_per_key(rate) - f64::from(bits)).abs() < 1e-9, "{rate}");
        }
    }

    #[test]
    fn theorem_4_3_agrees_with_computed_values() {
        // Rows of the closed-form table that we check reproductions against.
        for (slots, delta, load) in [(4, 0.3983, 0.4431), (8, 0.1167, 0.8697), (16, 0.0100, 0.9899)]
        {
            let promised = theorem_4_3(1 << 20, slots, 1.0).expect("a load");
            assert!((promised.delta - delta).abs() < 1e-4, "{promised:?}");
            assert!((promised.load - load).abs() < 1e-4, "{promised:?}");
        }
        // "f > 10" and "f > 12"; the even distribution asks for less here.
        assert_eq!(theorem_4_3(1 << 20, 4, 1.0).map(|g| g.fingerprint_bits), Some(11));
        assert_eq!(theorem_4_3(1 << 24, 4, 1.0).map(|g| g.fingerprint_bits), Some(13));
    }

    /// 2^20 / 16 = 65,536 bins would hold the keys with every cell taken.
    #[test]
    fn theorem_4_3_gives_bins_for_its_load() {
        let promised = theorem_4_3(1 << 20, 16, 1.0).expect("a load");
        assert!((66_198..66_208).contains(&promised.bins), "{promised:?}");
        assert!(theorem_4_3(0, 16, 1.0).is_none() && theorem_4_3(1, 16, 0.0).is_some());
        assert!([-1.0, f64::INFINITY].iter().all(|&c| theorem_4_3(1 << 20, 16, c).is_none()));
    }

    /// More tables or slots have a higher threshold, and every target is below its threshold.
    #[test]
    fn thresholds_grow_with_tables_and_slots() {
        for shapes in
            [&[(2, 1), (2, 2), (2, 3), (2, 4), (2, 8)][..], &[(2, 1), (3, 1), (4, 1), (5, 1)]]
        {
            let known: Option<Vec<f64>> =
                shapes.iter().map(|&(tables, slots)| load_threshold(tables, slots)).collect();
            assert!(known.expect("all are known").is_sorted_by(|one, next| one < next));
            for &(tables, slots) in shapes {
                let target = f64::from(target_load_permille(tables, slots)) / 1000.0;
                let threshold = load_threshold(tables, slots).expect("known");
                assert!((0.02..0.06).contains(&(threshold - target)), "{tables}, {slots}");
            }
        }
        assert_eq!(load_threshold(6, 1), None);
    }

    #[test]
    fn the_surplus_is_that_of_a_normal_number() {
        // sigma * (phi(z) - z Q(z)): 0.39894 at z = 0, 0.08332 at z = 1, 0.00849
        // at z = 2, and everything above at z = -5.
        for (z, share) in [(0.0, 0.39894), (1.0, 0.08332), (2.0, 0.00849), (-5.0, 5.0)] {
            let (surplus, _) = surplus(10_000.0, 10_000.0 + 100.0 * z);
            assert!((surplus / 100.0 - share).abs() < 2e-4, "{z}: {surplus}");
        }
        // Half the variance at z = 0.
        assert!((surplus(10_000.0, 10_000.0).1 - 5_000.0).abs() < 1.0);
    }

    #[test]
    fn first_pass_rates_agree_with_computed_values() {
        // Without a reserved value, 2^f values.
        for (bits, rate) in [(8, 0.0147628), (12, 0.000927417), (16, 5.79822e-05)] {
            let ours = first_pass_rate(f64::from(1 << bits), 4, 0.95);
            assert!((ours / rate - 1.0).abs() < 1e-5, "{bits} bits: {ours}");
        }
    }
}
