//! The false-positive rate of cyclic adaptive cuckoo filters.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", sections 3.1
//! (equal ranges) and 3.2 (varying ones). The model is that of the literal filter
//! (`retry=0`): a false positive takes the cell to its next function, whatever
//! comes of it.
//!
//! # One cell
//!
//! `zeta` absent keys come to a cell whose functions `j` have `R_j` values. Under
//! function `j` about `Z_j ~ Poisson(zeta / R_j)` of them collide, and the cell
//! moves on when one of those is asked. It stops at the first function without
//! any, after as many false positives as it passed functions; where there is none
//! it cycles for ever, `H` false positives in `sum_j zeta / Z_j` queries:
//!
//! ```text
//! F(zeta, n) = T / n + C
//! T = sum_{i=1}^{H-1} i e^-mu_i prod_{j<i} (1 - e^-mu_j)        mu_j = zeta / R_j
//! C = E[ H / sum_j (zeta / Z_j) ; all Z_j > 0 ]
//! ```
//!
//! (Corrected: the paper's 3.2 has the stopping factor inside the product, and
//! calls `1 / R_j` a fraction of the fingerprints.)
//!
//! # The cycle as an integral
//!
//! The paper sums `C` over all vectors of `Z`, or samples it. But with
//! `1/x = integral over t > 0 of e^-tx dt`, and independent `Z_j`,
//!
//! ```text
//! E[ 1 / sum_j 1/Z_j ; all Z_j > 0 ] = integral over t > 0 of prod_j g_j(t) dt
//! g_j(t) = E[ e^(-t / Z_j) ; Z_j > 0 ] = sum_{z >= 1} Poisson(z; mu_j) e^(-t/z)
//! ```
//!
//! which is one sum for each function instead of one over all vectors. With
//! `t = e^u` the integrand falls exponentially to the left and faster to the
//! right, and is analytic for `|Im u| < pi/2`, so the trapezoidal rule with step
//! `h` errs by about `e^(-pi^2 / h)`: 10^-12 for the step used.
//!
//! # The whole table
//!
//! The keys that come to a cell, and the queries that do, are Poisson. `n` queries
//! of a cell have `n F(zeta, n) = T + n C` false positives if there is one at all
//! (corrected: the paper's sum begins at none, and divides by it), so the sum over
//! `n` is in closed form:
//!
//! ```text
//! F = 1 / (A/S n_e) * E_zeta[ (1 - e^(-zeta n_e)) T + zeta n_e C ],   zeta ~ Poisson(d load A/S)
//! ```
//!
//! # Which order of queries it is about
//!
//! `C` is the rate of a long run of independent draws. The paper's own simulations (4.1)
//! ask for each key exactly `n_e` times in random order, and that is not the same: a key
//! that was just asked is a little less likely to be next, so a cell goes on to its
//! next function a little sooner. For two functions this is exact. Of the `a = Z_0 n_e`
//! queries that collide under the first and the `b = Z_1 n_e` under the second, in random
//! order, each run is one false positive, and the first run does not count if it is
//! of the second:
//!
//! ```text
//! shuffled      2ab/(a+b) + a/(a+b)
//! independent   2ab/(a+b) + a(a-b)/(a+b)^2       a, b: on average
//! this formula  2ab/(a+b)
//! ```
//!
//! With one colliding key each, `n_e = 10`, that is 10.5 instead of 10: 5 % more. So for
//! shuffled queries and small `n_e` take the sampled chain of [`super::cell`], in which
//! each key is asked `n_e` times; the difference is of the order of `1/n_e`.

use super::poisson::Poisson;

/// The fingerprint functions of a cell, in the order in which it takes them.
#[derive(Clone, Debug, PartialEq)]
pub struct Functions {
    ranges: Vec<f64>,
}

/// What a filter is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Cells that a query looks at: `d` tables of bins of `c` cells, together.
    pub cells: u32,
    /// The share of cells that are occupied.
    pub load: f64,
    /// Absent keys for each stored one, `A/S`.
    pub absent: f64,
    /// Queries for each absent key, `n_e`.
    pub repeats: f64,
}

impl Functions {
    /// Functions with these numbers of values.
    ///
    /// # Panics
    /// Without any function.
    #[must_use]
    pub fn new(ranges: Vec<f64>) -> Self {
        assert!(!ranges.is_empty(), "a cell needs a fingerprint function");
        Functions { ranges }
    }

    /// Section 3.1: `2^s` functions of `2^a` values, as the paper counts them (the last of the
    /// library's has one less, which marks an empty cell).
    #[must_use]
    pub fn equal(fingerprint: u32, selector: u32) -> Self {
        Functions::new(vec![f64::from(fingerprint).exp2(); 1 << selector])
    }

    /// Section 3.2: of `2^(a+s)` values one in `2^r` is left to the `2^s` functions
    /// after the first.
    #[must_use]
    pub fn varying(fingerprint: u32, selector: u32, share: u32) -> Self {
        let first = f64::from(fingerprint + selector).exp2() * (1.0 - (-f64::from(share)).exp2());
        let other = f64::from(fingerprint - share).exp2();
        let others = std::iter::repeat_n(other, 1 << selector);
        Functions::new(std::iter::once(first).chain(others).collect())
    }

    /// Values of each function.
    #[must_use]
    pub fn ranges(&self) -> &[f64] {
        &self.ranges
    }

    /// `T`: false positives until a cell stops, which counts 0 where it never does.
    #[must_use]
    pub fn stopping(&self, zeta: f64) -> f64 {
        let (mut passed, mut total) = (1.0, 0.0);
        for (index, range) in self.ranges.iter().enumerate() {
            let none = (-zeta / range).exp();
            total += index as f64 * passed * none;
            passed *= 1.0 - none;
        }
        total
    }

    /// `C`: false positives for each query of a cell that never stops, times the
    /// probability of such a cell.
    #[must_use]
    pub fn cycling(&self, zeta: f64) -> f64 {
        const STEP: f64 = 0.35;
        const START: f64 = -25.0;
        // e^-40 is the end of the integral.
        const END: f64 = 40.0;
        // Functions with one range share their sum.
        let mut groups: Vec<(f64, i32)> = Vec::new();
        for &range in &self.ranges {
            match groups.iter_mut().find(|(known, _)| *known == range) {
                Some((_, count)) => *count += 1,
                None => groups.push((range, 1)),
            }
        }
        let colliding: Vec<(Vec<(f64, f64)>, i32)> = groups
            .into_iter()
            .map(|(range, count)| {
                let some = Poisson::new(zeta / range);
                let some = some.iter().filter(|(value, _)| *value > 0);
                (some.map(|(value, p)| (-1.0 / f64::from(value), p)).collect(), count)
            })
            .collect();
        let most = |(some, _): &(Vec<(f64, f64)>, i32)| some.last().map_or(1.0, |(v, _)| -1.0 / v);
        let largest = colliding.iter().map(most).fold(1.0, f64::max);
        let steps = (((END * largest).ln() - START) / STEP).ceil() as u32;
        let integral: f64 = (0..=steps)
            .map(|step| {
                let t = (START + f64::from(step) * STEP).exp();
                let factor = |(some, count): &(Vec<(f64, f64)>, i32)| {
                    some.iter().map(|(rate, p)| p * (t * rate).exp()).sum::<f64>().powi(*count)
                };
                t * colliding.iter().map(factor).product::<f64>()
            })
            .sum();
        self.ranges.len() as f64 / zeta * STEP * integral
    }

    /// `F(zeta, n)`: the rate of a cell that `zeta` absent keys come to, over `n`
    /// queries.
    #[must_use]
    pub fn cell_rate(&self, zeta: f64, queries: f64) -> f64 {
        self.stopping(zeta) / queries + self.cycling(zeta)
    }

    /// `F`: false positives for each query of the whole table. A query that
    /// collides in two cells counts twice, as in the paper; see [`joint`].
    #[must_use]
    pub fn table_rate(&self, setting: &Setting) -> f64 {
        let Setting { cells, load, absent, repeats } = *setting;
        let arriving = Poisson::new(f64::from(cells) * load * absent);
        let total = arriving.mean_of(|zeta| {
            if zeta == 0 {
                return 0.0;
            }
            let zeta = f64::from(zeta);
            let queries = zeta * repeats;
            -(-queries).exp_m1() * self.stopping(zeta) + queries * self.cycling(zeta)
        });
        total / (absent * repeats)
    }
}

/// The share of queries that collide at all, where each collides in `rate` of
/// `tables` tables on average: `1 - (1 - rate / tables)^tables`.
#[must_use]
pub fn joint(rate: f64, tables: u32) -> f64 {
    let tables = f64::from(tables);
    -f64::exp_m1(tables * f64::ln_1p(-(rate / tables).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tables print six digits, but their quadrature errs by up to 0.3 %, more
    /// the more functions there are: the direct sums over all vectors (below, to
    /// 10^-9) take our side.
    const QUADRATURE: f64 = 5e-3;

    fn setting(absent: u32, repeats: u32) -> Setting {
        Setting { cells: 4, load: 0.95, absent: absent.into(), repeats: repeats.into() }
    }

    /// `acf_cyclic_analytic.csv`.
    #[test]
    fn equal_ranges_are_the_tables() {
        for (cell, s, repeats, absent, rate) in [
            (8, 1, 10, 1, 0.00388892),
            (8, 1, 10, 100, 0.024745),
            (8, 1, 100, 10, 0.00761577),
            (8, 2, 10, 40, 0.0367098),
            (8, 2, 100, 1, 0.000647322),
            (8, 3, 10, 10, 0.0257324),
            (8, 3, 100, 100, 0.109297),
            (12, 1, 100, 40, 0.000148509),
            (12, 2, 10, 100, 0.000512039),
            (12, 3, 100, 40, 8.70482e-05),
            (16, 1, 100, 100, 2.47756e-06),
            (16, 2, 10, 1, 2.31968e-05),
            (16, 3, 100, 100, 4.74824e-06),
        ] {
            let ours = Functions::equal(cell - s, s).table_rate(&setting(absent, repeats));
            let error = (ours / rate - 1.0).abs();
            assert!(
                error < QUADRATURE,
                "{cell} bits, s={s}, {repeats}, {absent}: {ours}, not {rate}"
            );
        }
    }

    /// `acf_varying_analytic.csv`.
    #[test]
    fn varying_ranges_are_the_tables() {
        for (cell, s, r, repeats, absent, rate) in [
            (8, 0, 1, 10, 1, 0.00388892),
            (8, 0, 3, 1000, 20, 0.0195051),
            (8, 1, 2, 10, 20, 0.0226392),
            (8, 2, 1, 1000, 1, 5.54748e-05),
            (8, 3, 3, 10, 100, 0.125142),
            (12, 0, 2, 10, 1, 0.000128808),
            (12, 1, 1, 1000, 20, 1.17768e-05),
            (12, 2, 2, 1000, 20, 7.88907e-06),
            (12, 3, 1, 10, 20, 0.000246137),
        ] {
            let ours = Functions::varying(cell - s, s, r).table_rate(&setting(absent, repeats));
            let error = (ours / rate - 1.0).abs();
            assert!(error < QUADRATURE, "{cell} bits, s={s}, r={r}: {ours}, not {rate}");
        }
    }

    /// The paper's formula summed over all vectors by another program, where the
    /// tables differ most from ours.
    #[test]
    fn the_whole_table_is_the_papers_sum() {
        for (ranges, repeats, absent, rate) in [
            ([224.0, 32.0], 1000, 20, 0.019_511_536_445),
            ([128.0, 128.0], 10, 100, 0.024_750_518_005),
            ([128.0, 128.0], 10, 40, 0.018_900_966_027),
        ] {
            let ours = Functions::new(ranges.to_vec()).table_rate(&setting(absent, repeats));
            assert!((ours / rate - 1.0).abs() < 1e-9, "{ranges:?}: {ours}, not {rate}");
        }
    }

    /// The sum over all vectors of what the functions after some have.
    fn vectors(zeta: f64, ranges: &[f64], probability: f64, inverse: f64) -> f64 {
        let Some((range, rest)) = ranges.split_first() else { return probability / inverse };
        let some = Poisson::new(zeta / range);
        let likely = some.iter().filter(|(value, p)| *value > 0 && *p > 1e-12);
        likely
            .map(|(value, p)| {
                vectors(zeta, rest, probability * p, inverse + zeta / f64::from(value))
            })
            .sum()
    }

    #[test]
    fn the_integral_is_the_sum() {
        for (zeta, ranges) in [
            (3.0, vec![2.0, 4.0]),
            (40.0, vec![16.0, 16.0]),
            (100.0, vec![256.0, 8.0]),
            (152.0, vec![64.0; 4]),
            (76.0, vec![192.0, 32.0, 32.0]),
        ] {
            let sum = ranges.len() as f64 * vectors(zeta, &ranges, 1.0, 0.0);
            let integral = Functions::new(ranges.clone()).cycling(zeta);
            assert!((integral / sum - 1.0).abs() < 1e-9, "{zeta}, {ranges:?}: {integral}, {sum}");
        }
    }

    #[test]
    fn a_cell_with_one_function_never_stops() {
        let cell = Functions::new(vec![256.0]);
        // Static: every query of a colliding key is a false positive.
        assert_eq!(cell.stopping(10.0), 0.0);
        assert!((cell.cycling(10.0) - 1.0 / 256.0).abs() < 1e-9);
        assert!((cell.cell_rate(10.0, 5.0) - 1.0 / 256.0).abs() < 1e-9);
    }

    #[test]
    fn two_collisions_are_one_false_positive() {
        assert!((joint(0.4, 4) - (1.0 - 0.9_f64.powi(4))).abs() < 1e-12);
        assert!((joint(1e-9, 4) - 1e-9).abs() < 1e-17);
    }
}
