//! The cost of operations behind a filter.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 3.

/// How often each operation occurs: the paper's `p1`, `p2`, `p3` and `q1`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// The share of lookups, `p1`.
    pub lookups: f64,
    /// The share of insertions, `p2`.
    pub insertions: f64,
    /// The share of deletions, `p3`.
    pub deletions: f64,
    /// Of the lookups, the share for stored keys, `q1`.
    pub present: f64,
}

/// What each operation costs: the paper's `c_P`, `c_F`, `c_I` and `c_D`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A lookup that goes to the store, `c_P`.
    pub positive: f64,
    /// A lookup that the filter answers, `c_F`.
    pub negative: f64,
    /// An insertion, `c_I`.
    pub insertion: f64,
    /// A deletion, `c_D`.
    pub deletion: f64,
}

impl Mix {
    /// The mean cost of an operation when a share `rate` of the lookups for absent keys are
    /// false positives (`q2`):
    ///
    /// ```text
    /// p1 ((q1 + (1 - q1) q2) c_P + (1 - q1) (1 - q2) c_F) + p2 c_I + p3 c_D
    /// ```
    #[must_use]
    pub fn cost(&self, rate: f64, costs: &Costs) -> f64 {
        let absent = 1.0 - self.present;
        let lookup = (self.present + absent * rate) * costs.positive
            + absent * (1.0 - rate) * costs.negative;
        self.lookups * lookup + self.insertions * costs.insertion + self.deletions * costs.deletion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_costs_its_share() {
        let costs = Costs { positive: 100.0, negative: 1.0, insertion: 1000.0, deletion: 2000.0 };
        let mix = Mix { lookups: 0.9, insertions: 0.06, deletions: 0.04, present: 0.2 };
        // 0.9 * ((0.2 + 0.8 * 0.1) * 100 + 0.8 * 0.9 * 1) + 60 + 80
        assert!((mix.cost(0.1, &costs) - (0.9 * 28.72 + 140.0)).abs() < 1e-9);
        // Each false positive more costs a look-up in the store instead of one
        // in the filter.
        let slope = mix.cost(1.0, &costs) - mix.cost(0.0, &costs);
        assert!((slope - 0.9 * 0.8 * 99.0).abs() < 1e-9);
    }
}
