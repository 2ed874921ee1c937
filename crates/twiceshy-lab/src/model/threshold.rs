//! How full a cuckoo table can be.
//!
//! Mitzenmacher et al., "Adaptive Cuckoo Filters", section 2.1, cites the values;
//! they follow from the orientability of random hypergraphs (Fountoulakis, Khosla,
//! Panagiotou, "The Multiple-Orientability Thresholds for Random Hypergraphs";
//! Lelarge; Gao and Wormald). A key is an edge of `d` bins, a bin takes `c` keys.
//! Removing bins with at most `c` keys, and the keys in them, again and again
//! leaves a core; all keys can be placed as long as the core has no more keys than
//! cells, and the threshold is where it has as many. With
//! `Q(x, y) = Pr[Poisson(x) >= y]`:
//!
//! ```text
//! d c = x Q(x, c) / Q(x, c + 1)              x: the degrees of the core's bins
//! load = x / (d c Q(x, c)^(d - 1))
//! ```
//!
//! Rates and theorems of Eppstein, "Cuckoo Filter: Simplification and Analysis",
//! are the library's own, which sizes filters by them.

pub use twiceshy_filters::cuckoo::bounds::{
    Guarantee, first_pass_rate, theorem_4_3, theorem_5_1_rate,
};

use super::poisson::Poisson;

/// The load below which all keys can be placed with high probability, `tables`
/// choices of bins of `slots` cells. `None` for less than two tables or no cells.
///
/// ```
/// use twiceshy_lab::model::threshold::orientability;
/// assert!((orientability(4, 1).unwrap() - 0.97677).abs() < 1e-5);
/// ```
#[must_use]
pub fn orientability(tables: u32, slots: u32) -> Option<f64> {
    if tables < 2 || slots == 0 {
        return None;
    }
    if (tables, slots) == (2, 1) {
        // A graph: the core appears at once, as a giant component with a cycle.
        return Some(0.5);
    }
    let cells = f64::from(tables * slots);
    let keys = |x: f64| {
        let degree = Poisson::new(x);
        x * degree.at_least(slots) / degree.at_least(slots + 1)
    };
    // x Q(x, c) / Q(x, c + 1) grows from c + 1 at 0 towards x. Eighty halvings
    // are more than a double has bits.
    let (mut low, mut high) = (1e-3, 2.0 * cells);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        if keys(middle) < cells { low = middle } else { high = middle }
    }
    let full = Poisson::new(low).at_least(slots);
    Some(low / (cells * full.powf(f64::from(tables - 1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `misc_expected_values.csv`: printed to five digits.
    #[test]
    fn thresholds_are_the_known_ones() {
        for (tables, slots, load) in [
            (4, 1, 0.97677),
            (2, 4, 0.98037),
            (3, 1, 0.91794),
            (2, 2, 0.89701),
            (2, 8, 0.99785),
            (2, 1, 0.5),
            (5, 1, 0.99244),
        ] {
            let ours = orientability(tables, slots).expect("a threshold");
            assert!((ours - load).abs() <= 0.5e-5, "{tables}, {slots}: {ours}");
            let library = twiceshy_filters::cuckoo::bounds::load_threshold(tables, slots);
            assert_eq!(library, Some(load), "{tables}, {slots}");
        }
        assert_eq!(orientability(1, 4), None);
        assert_eq!(orientability(4, 0), None);
    }

    /// `misc_expected_values.csv`: printed to four to six digits.
    #[test]
    fn rates_and_theorems_are_the_tables() {
        for (bits, exact, theorem) in [
            (8, 0.0147628, 0.0298039),
            (12, 0.000927417, 0.00185592),
            (16, 5.79822e-5, 0.000115969),
        ] {
            let ours = first_pass_rate(f64::from(1_u32 << bits), 4, 0.95);
            assert!((ours / exact - 1.0).abs() < 1e-5, "{bits}: {ours}");
            let ours = theorem_5_1_rate(bits, 4, 0.95);
            assert!((ours / theorem - 1.0).abs() < 1e-5, "{bits}: {ours}");
        }
        for (slots, delta, load) in
            [(4, 0.3983, 0.4431), (8, 0.1167, 0.8697), (16, 0.0100, 0.9899), (32, 0.0001, 0.9999)]
        {
            let promised = theorem_4_3(1 << 20, slots, 1.0).expect("a load");
            assert!((promised.delta - delta).abs() <= 0.5e-4, "{promised:?}");
            assert!((promised.load - load).abs() <= 0.5e-4, "{promised:?}");
        }
        // Bins of two promise a load of -0.2771: none.
        assert_eq!(theorem_4_3(1 << 20, 2, 1.0), None);
    }
}
