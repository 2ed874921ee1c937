//! How likely a difference of means is by chance: Welch's test of two means of few
//! trials, and Stouffer's sum of several of them.

use std::fmt;

use super::{Measured, Row, Seen};

/// The probability with which a verdict may say by chance that a paper's claim is seen.
pub const CHANCE: f64 = 1e-6;

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of that: one less than the trials; infinite where the mean is
    /// known.
    pub freedom: f64,
    /// By how much one event more would raise the mean; 0 where it is not of events, or not
    /// a mean of them alone.
    pub grain: f64,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ± {:.2}", self.mean, self.error)
    }
}

impl From<&Row> for Estimate {
    fn from(row: &Row) -> Self {
        let freedom = f64::from(row.trials.saturating_sub(1));
        let Row { mean, standard_error, grain, .. } = *row;
        let measured = Estimate { mean, error: standard_error, freedom, grain };
        Estimate { error: measured.error_at(mean), ..measured }
    }
}

impl From<&[Measured]> for Estimate {
    /// The mean of trials.
    fn from(trials: &[Measured]) -> Self {
        (&Row::of_trials(trials)).into()
    }
}

impl Estimate {
    /// A number that is known.
    pub const fn exactly(mean: f64) -> Self {
        Estimate { mean, error: 0.0, freedom: f64::INFINITY, grain: 0.0 }
    }

    /// Its standard error, but no less than counts have if `mean` is what they have on
    /// average, or one event if that is more.
    ///
    /// Rare events spread as Poisson's, or more where they come in clusters: where a few trials
    /// of few events differ by less than that, it is by chance.
    fn error_at(self, mean: f64) -> f64 {
        self.error.max((mean.max(self.grain) * self.grain).sqrt())
    }

    /// The mean of independent estimates; nothing of none.
    pub fn mean_of(estimates: &[Estimate]) -> Option<Estimate> {
        let count = estimates.len() as f64;
        let mean = estimates.iter().map(|estimate| estimate.mean).sum::<f64>() / count;
        let (error, freedom) = sum_of_errors(estimates.iter().map(|e| (e.error, e.freedom)));
        let grain = estimates.iter().map(|e| e.grain).sum::<f64>() / (count * count);
        (!estimates.is_empty()).then_some(Estimate { mean, error: error / count, freedom, grain })
    }

    /// How many times `other` it is.
    pub fn over(self, other: Estimate) -> Estimate {
        let mean = self.mean / other.mean;
        let relative = [self, other].map(|e| (e.error / e.mean, e.freedom));
        let (relative, freedom) = sum_of_errors(relative.into_iter());
        Estimate { mean, error: mean * relative, freedom, grain: 0.0 }
    }

    /// By how many standard deviations of a normal distribution it is below `other`: as
    /// unlikely as that is Welch's t where both means are the same. 0 where there is
    /// nothing to tell from: a mean of one trial has no standard error, nor have trials that
    /// are all alike, unless they are counts.
    pub fn score_below(self, other: Estimate) -> f64 {
        // If both means are the same, it may as well be the larger: no events where 20 are
        // expected are 4.5 standard errors, of counts of 20.
        let larger = self.mean.max(other.mean);
        let errors = [self, other].map(|e| (e.error_at(larger), e.freedom));
        let (error, freedom) = sum_of_errors(errors.into_iter());
        if freedom < 1.0 || error == 0.0 || self.mean == other.mean {
            return 0.0;
        }
        let difference = other.mean - self.mean;
        normal_quantile(student_tail(difference.abs() / error, freedom)).copysign(difference)
    }

    /// Whether it is shown to be below `other`.
    pub fn below(self, other: Estimate) -> Seen {
        match () {
            () if self.clearly_below(other) => Seen::Yes,
            () if other.clearly_below(self) => Seen::No,
            () => Seen::Open,
        }
    }

    /// Whether it is shown to be within a factor of a number, less and more. Both sides have
    /// to be clear, so that either's chance is the claim's. Taken of logarithms, whose errors
    /// are nearly alike to both sides where a mean is of few rare events.
    pub fn about(self, number: f64, factor: f64) -> Seen {
        if self.mean <= 0.0 {
            return Seen::Open;
        }
        let (mean, error) = (self.mean.ln(), self.error / self.mean);
        let log = Estimate { mean, error, grain: 0.0, ..self };
        let [low, high] = [number / factor, number * factor].map(|at| Estimate::exactly(at.ln()));
        Seen::all([low.below(log), log.below(high)])
    }

    /// Below `other` by more than [`CHANCE`] explains.
    pub fn clearly_below(self, other: Estimate) -> bool {
        normal_tail(self.score_below(other)) < CHANCE
    }
}

/// The standard error of a sum, and its degrees of freedom by Welch and Satterthwaite.
fn sum_of_errors(errors: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut squares, mut parts, mut least) = (0.0, 0.0, f64::INFINITY);
    for (error, freedom) in errors {
        let square = error * error;
        squares += square;
        parts += square * square / freedom;
        least = freedom.min(least);
    }
    // Without trials there is no error to speak of; without errors the fewest trials count.
    let freedom = match least {
        least if least < 1.0 => 0.0,
        least if squares == 0.0 => least,
        _ => squares * squares / parts,
    };
    (squares.sqrt(), freedom)
}

/// Several independent scores in one.
pub fn stouffer(scores: &[f64]) -> f64 {
    scores.iter().sum::<f64>() / (scores.len().max(1) as f64).sqrt()
}

/// The probability that a standard normal number is above this.
pub fn normal_tail(score: f64) -> f64 {
    libm::erfc(score / std::f64::consts::SQRT_2) / 2.0
}

/// The most that one comparison counts in a sum: 10^-15.
const MOST: f64 = 8.0;

/// The number above which a standard normal one is with this probability, of at most a
/// half; at most [`MOST`].
fn normal_quantile(tail: f64) -> f64 {
    let (mut low, mut high) = (0.0, MOST);
    // 50 halvings of 8 are as exact as the tail is.
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        if normal_tail(middle) > tail { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}

/// The probability that Student's t with so many degrees of freedom is above a positive
/// number: half of the regularised incomplete beta function at `freedom / (freedom + t^2)`.
fn student_tail(t: f64, freedom: f64) -> f64 {
    if freedom.is_infinite() {
        return normal_tail(t);
    }
    beta(freedom / (freedom + t * t), freedom / 2.0, 0.5) / 2.0
}

/// The regularised incomplete beta function `I_x(a, b)`, by Lentz's continued fraction
/// (Press et al., "Numerical Recipes", 6.4).
fn beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on this side.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(1.0 - x, b, a);
    }
    let ln_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let front = (a * x.ln() + b * (-x).ln_1p() - ln_beta).exp() / a;
    let nonzero = |number: f64| if number.abs() < 1e-300 { 1e-300 } else { number };
    let mut c = 1.0;
    let mut d = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / nonzero(1.0 + term * d);
            c = nonzero(1.0 + term / c);
            change = c * d;
            fraction *= change;
        }
        if (change - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Printed tables: 2.776 with 4 degrees of freedom and 5.959 with 6 are 2.5 % and
    /// 0.05 %; with 1 the tail is 1/2 - atan(t)/pi, with 2 it is (1 - t/sqrt(2 + t^2))/2.
    #[test]
    fn tails_are_students() {
        for (t, freedom, tail) in [
            (2.776, 4.0, 0.025),
            (5.959, 6.0, 0.0005),
            (1.812, 10.0, 0.05),
            (2.0, 1.0, 0.5 - 2.0_f64.atan() / std::f64::consts::PI),
            (9.0, 2.0, (1.0 - 9.0 / 83.0_f64.sqrt()) / 2.0),
            (5.0, f64::INFINITY, 2.866_515_7e-7),
            (5.0, 1e7, 2.866_6e-7),
        ] {
            let ours = student_tail(t, freedom);
            assert!((ours / tail - 1.0).abs() < 1e-3, "{t}, {freedom}: {ours}, not {tail}");
        }
    }

    #[test]
    fn quantiles_are_the_inverse_of_tails() {
        for score in [0.0, 0.5, 3.0, 5.0, 7.5] {
            assert!((normal_quantile(normal_tail(score)) - score).abs() < 1e-6, "{score}");
        }
        assert!((normal_quantile(0.0) - MOST).abs() < 1e-9);
    }

    const fn estimate(mean: f64, error: f64, freedom: f64) -> Estimate {
        Estimate { mean, error, freedom, grain: 0.0 }
    }

    /// Errors of 3 and 4 make 5; with 3 degrees of freedom each, (9 + 16)^2 over
    /// (81 + 256)/3 are 5.56. A difference of 5.959 * 5 is 0.05 % with 6, a score of 3.29, and
    /// a little less here.
    #[test]
    fn few_trials_count_less() {
        let of =
            |freedom| estimate(100.0, 3.0, freedom).score_below(estimate(129.795, 4.0, freedom));
        let few = of(3.0);
        assert!((3.1..3.29).contains(&few), "{few}");
        assert!((of(f64::INFINITY) - 5.959).abs() < 1e-3);
        assert_eq!(estimate(129.795, 4.0, 3.0).score_below(estimate(100.0, 3.0, 3.0)), -few);
        // Nothing is known of one trial, of the same mean, or of trials that are all alike.
        assert_eq!(estimate(1.0, 0.0, 0.0).score_below(estimate(2.0, 0.1, 9.0)), 0.0);
        assert_eq!(estimate(1.0, 0.0, 3.0).score_below(estimate(1.0, 0.0, 3.0)), 0.0);
        assert_eq!(estimate(1.0, 0.0, 3.0).score_below(estimate(2.0, 0.0, 3.0)), 0.0);
    }

    /// How likely a Poisson number is this one.
    fn poisson(events: f64, expected: f64) -> f64 {
        (events * expected.ln() - expected - libm::lgamma(events + 1.0)).exp()
    }

    /// Trials of Poisson counts that have on average what they are compared with: how often
    /// they are said to be clearly below it, or above, summed over what all trials may have
    /// together. They are as alike as can be, which makes the most of every count.
    #[test]
    fn small_counts_are_not_clear_by_chance() {
        for (trials, expected) in [(24, 0.9), (24, 3.5), (40, 0.45), (60, 14.4), (24, 40.0)] {
            let all = f64::from(trials) * expected;
            let grain = 1.0 / f64::from(trials);
            let clear = |events: f64, sign: f64| {
                let mean = events * grain;
                // Not 0, which would tell nothing anyway.
                let row = Estimate { mean, error: 1e-12, freedom: f64::from(trials - 1), grain };
                normal_tail(sign * row.score_below(Estimate::exactly(expected))) < CHANCE
            };
            for sign in [1.0, -1.0] {
                let counts = (0..2000).map(f64::from).filter(|&events| clear(events, sign));
                let chance: f64 = counts.map(|events| poisson(events, all)).sum();
                assert!(chance < CHANCE, "{trials} trials of {expected}: {chance}");
            }
        }
    }

    /// The same of two sides that have the same on average, one with as many trials as the
    /// other or with ten times as many.
    #[test]
    fn small_counts_are_not_clear_by_chance_on_two_sides() {
        for (more, expected) in [(1, 5.0), (1, 20.0), (10, 2.0), (10, 10.0)] {
            let side = |trials: u32, events: f64| {
                let grain = 1.0 / f64::from(trials);
                let mean = events * grain;
                Estimate::from(&Row { mean, grain, trials, standard_error: 1e-12, ..row() })
            };
            let [mut below, mut above] = [0.0; 2];
            for a in (0..70).map(f64::from) {
                for b in (0..220).map(f64::from) {
                    let score = side(8, a).score_below(side(8 * more, b));
                    let chance = poisson(a, expected) * poisson(b, expected * f64::from(more));
                    below += if normal_tail(score) < CHANCE { chance } else { 0.0 };
                    above += if normal_tail(-score) < CHANCE { chance } else { 0.0 };
                }
            }
            assert!(below < CHANCE && above < CHANCE, "{more}, {expected}: {below}, {above}");
        }
    }

    fn row() -> Row {
        Row {
            figure: String::new(),
            panel: String::new(),
            series: String::new(),
            x: 0.0,
            mean: 0.0,
            standard_error: 0.0,
            trials: 8,
            grain: 0.0,
        }
    }

    /// By hand: 8 trials of 100 queries, 2 events in all. Their mean is 0.0025, one event
    /// raises it by 0.00125, and 2 have an error of sqrt 2 of that; against 0.02, that is 16
    /// events, the error is of 16.
    #[test]
    fn counts_have_an_error_where_trials_are_alike() {
        let row = Row { mean: 0.0025, grain: 0.00125, ..row() };
        let counts = Estimate::from(&row);
        assert!((counts.error / 0.00125 - 2.0_f64.sqrt()).abs() < 1e-12, "{counts:?}");
        // 14 events are 3.5 errors of 4, with 7 degrees of freedom 0.5 %.
        let tail = normal_tail(counts.score_below(Estimate::exactly(0.02)));
        assert!((0.0049..0.0051).contains(&tail), "{tail}");
        let none = Estimate::from(&Row { mean: 0.0, ..row });
        assert_eq!(none.error, 0.00125);
    }

    /// By hand: 5.0 standard errors of a known distribution are 2.9e-7, 4.7 are 1.3e-6.
    #[test]
    fn what_is_clear_is_below_the_stated_chance() {
        let below =
            |distance| estimate(0.0, 1.0, f64::INFINITY).clearly_below(Estimate::exactly(distance));
        assert!(below(5.0) && !below(4.7) && !below(-5.0));
        // With four trials, 5 standard errors are nothing special.
        assert!(!estimate(0.0, 1.0, 3.0).clearly_below(Estimate::exactly(5.0)));
    }

    #[test]
    fn means_and_ratios_carry_their_errors() {
        let mean = Estimate::mean_of(&[estimate(1.0, 0.3, 3.0), estimate(3.0, 0.4, 3.0)]);
        let mean = mean.expect("two");
        assert_eq!((mean.mean, mean.error), (2.0, 0.25));
        // (0.09 + 0.16)^2 over (0.0081 + 0.0256)/3.
        assert!((mean.freedom - 5.564).abs() < 1e-3, "{mean:?}");
        let ratio = mean.over(estimate(4.0, 0.5, 3.0));
        assert!((ratio.mean - 0.5).abs() < 1e-12, "{ratio}");
        // Relative errors of an eighth each.
        assert!((ratio.error - 0.5 * 0.125 * 2.0_f64.sqrt()).abs() < 1e-12, "{ratio}");
        assert_eq!(Estimate::mean_of(&[]), None);
    }

    /// Within a factor of 2 of 8, with an error of a tenth: ln 2 is 6.9 of them. At 6 it is
    /// 4.05 to the lower end, at 3 the lower end is 2.9 and the number outside, at 1.5 9.8.
    #[test]
    fn about_is_clear_on_both_sides() {
        let about = |mean: f64, freedom| estimate(mean, mean / 10.0, freedom).about(8.0, 2.0);
        assert_eq!(about(8.0, f64::INFINITY), Seen::Yes);
        assert_eq!(about(8.0, 3.0), Seen::Open);
        assert_eq!(about(6.0, f64::INFINITY), Seen::Open);
        assert_eq!(about(3.0, f64::INFINITY), Seen::Open);
        assert_eq!(about(1.5, f64::INFINITY), Seen::No);
        assert_eq!(about(40.0, f64::INFINITY), Seen::No);
        assert_eq!(about(0.0, f64::INFINITY), Seen::Open);
    }

    /// Four scores of 3 are one of 6.
    #[test]
    fn scores_add_up() {
        assert!((stouffer(&[3.0; 4]) - 6.0).abs() < 1e-12);
        assert_eq!(stouffer(&[]), 0.0);
    }
}
