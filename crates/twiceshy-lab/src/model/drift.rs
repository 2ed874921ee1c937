//! How far the windows of a line filter drift: a random walk with a reflecting border.
//!
//! Number the lines from left to right, and let `D` be the keys that cross the border between two
//! lines to the right (negative: to the left). A line with `N` keys at home has room for `S` of
//! them, and its window can be longer than its home by so many buckets, of `lambda` keys each. So
//!
//! ```text
//! D[j+1] - D[j]  >=  Y[j],    Y = max(N - S, -(longest window - Q) lambda)
//! ```
//!
//! Spilling to the right only, `D` is the walk `R[j+1] = max(0, R[j] + Y[j])`; spilling to the
//! left only, it is `-L`, the same walk from the other end. The condition is linear, so half of
//! each is a way too, and it is the one that this model takes:
//!
//! ```text
//! D = (R - L) / 2,    R and L independent: they are of the lines on either side of the border
//! ```
//!
//! The filter takes the shorter chain of moves instead. That is the same for a cluster of full
//! lines, which spills at both of its ends, but it moves a single key to one side only, and not
//! half of it to each: the model is too high for small drifts, and right for large ones.

use super::poisson::Poisson;

/// Keys that may have crossed a border. More do not happen: a filter refuses far fewer.
const MOST: usize = 1200;

/// The walk of the keys that are without room from line to line.
#[derive(Clone, Debug)]
pub struct Walk {
    /// Probabilities of steps, from `least` on.
    steps: Vec<f64>,
    least: i64,
    /// Buckets whose home is one line.
    buckets: f64,
    /// Keys in a bucket, on average.
    keys: f64,
}

/// How far the border between two lines is from where it was.
#[derive(Clone, Debug)]
pub struct Drift {
    /// Probabilities of `|R - L|`, in keys.
    differences: Vec<f64>,
    buckets: f64,
    keys: f64,
}

impl Walk {
    /// Lines of so many slots, buckets, and buckets in the longest window, with so many keys each
    /// on average.
    #[must_use]
    pub fn new(slots: u32, buckets: u32, window: u32, keys_per_line: f64) -> Self {
        let keys = keys_per_line / f64::from(buckets);
        let room = f64::from(window - buckets) * keys;
        let least = -(room.ceil() as i64);
        // Between two whole numbers of keys, each as often as it is near.
        let nearer = room - (room.ceil() - 1.0);
        let home = Poisson::new(keys_per_line);
        let most = home.iter().map(|(keys, _)| i64::from(keys)).max().unwrap_or(0);
        let mut steps = vec![0.0; (most - i64::from(slots) - least).max(1) as usize + 1];
        for (keys, probability) in home.iter() {
            for (least_here, share) in [(least, nearer), (least + 1, 1.0 - nearer)] {
                let step = (i64::from(keys) - i64::from(slots)).max(least_here);
                steps[(step - least) as usize] += share * probability;
            }
        }
        Walk { steps, least, buckets: buckets.into(), keys }
    }

    /// Calls back with each step and its probability.
    fn steps(&self) -> impl Iterator<Item = (i64, f64)> {
        (self.least..).zip(self.steps.iter().copied())
    }

    /// The mean of a step: negative, or the lines fill up.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.steps().map(|(step, probability)| step as f64 * probability).sum()
    }

    /// How fast probabilities fall: `P(R >= x)` as `e^(-decay x)`. The decay is the positive root
    /// of `E[e^(decay Y)] = 1`; 0 for lines that fill up.
    #[must_use]
    pub fn decay(&self) -> f64 {
        let excess = |decay: f64| -> f64 {
            let terms = self.steps().map(|(step, p)| p * (decay * step as f64).exp());
            terms.sum::<f64>() - 1.0
        };
        let (mut low, mut high) = (1e-4, 4.0);
        if excess(low) >= 0.0 {
            return 0.0;
        }
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if excess(middle) < 0.0 { low = middle } else { high = middle }
        }
        low
    }

    /// The probabilities of `R` far from the ends of the filter.
    fn stationary(&self) -> Vec<f64> {
        const ROUNDS: usize = 3000;
        let mut now = vec![0.0; MOST];
        now[0] = 1.0;
        for _ in 0..ROUNDS {
            let next = self.step(&now, 0);
            let change: f64 = now.iter().zip(&next).map(|(a, b)| (a - b).abs()).sum();
            now = next;
            if change < 1e-12 {
                break;
            }
        }
        now
    }

    /// A step of the walk. It goes on at 0 from below, or is lost there with a `least` of 1.
    fn step(&self, now: &[f64], least: i64) -> Vec<f64> {
        let mut next = vec![0.0; MOST];
        for (at, &weight) in now.iter().enumerate().filter(|(_, weight)| **weight > 1e-30) {
            for (step, probability) in self.steps() {
                let to = at as i64 + step;
                let to = if least == 0 { to.max(0) } else { to };
                if (least..MOST as i64).contains(&to) {
                    next[to as usize] += weight * probability;
                }
            }
        }
        next
    }

    /// How far borders drift.
    #[must_use]
    pub fn drift(&self) -> Drift {
        let one = self.stationary();
        let mut differences = vec![0.0; MOST];
        for (right, p) in one.iter().enumerate().filter(|(_, p)| **p > 1e-15) {
            for (left, q) in one.iter().enumerate() {
                differences[right.abs_diff(left)] += p * q;
            }
        }
        Drift { differences, buckets: self.buckets, keys: self.keys }
    }

    /// Clusters of at least so many full lines side by side, for each line of a filter: stretches
    /// in which the walk does not come back to 0.
    #[must_use]
    pub fn clusters(&self, lines: u32) -> f64 {
        let mut now = vec![0.0; MOST];
        now[0] = self.stationary()[0];
        for _ in 0..lines {
            now = self.step(&now, 1);
        }
        now.iter().sum()
    }
}

impl Drift {
    /// `P(|F| >= buckets)`: how far a window starts from its line's home.
    #[must_use]
    pub fn at_least(&self, buckets: u32) -> f64 {
        let keys = 2.0 * self.keys * f64::from(buckets);
        let far = self.differences.iter().enumerate().filter(|(two, _)| *two as f64 >= keys - 1e-9);
        far.map(|(_, probability)| probability).sum()
    }

    /// `E|F|`, in buckets.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let keys: f64 = self.differences.iter().enumerate().map(|(two, p)| two as f64 * p).sum();
        keys / 2.0 / self.keys
    }

    /// Lines that a query for an absent key reads: a bucket that is some lines from home has
    /// crossed as many borders, so that all of them together are `|F|` summed over all borders.
    #[must_use]
    pub fn lines_per_query(&self) -> f64 {
        1.0 + self.mean() / self.buckets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps of +1 and -1: the walk is geometric with ratio `p / q`, and everything is known.
    #[test]
    fn a_walk_of_single_steps_is_geometric() {
        let (p, q) = (0.4_f64, 0.6_f64);
        let walk = Walk { steps: vec![q, 0.0, p], least: -1, buckets: 10.0, keys: 1.0 };
        assert!((walk.mean() + 0.2).abs() < 1e-12);
        assert!((walk.decay() - (q / p).ln()).abs() < 1e-9, "{}", walk.decay());
        let one = walk.stationary();
        for (at, found) in one.iter().enumerate().take(20) {
            let expected = (1.0 - p / q) * (p / q).powi(at as i32);
            assert!((found - expected).abs() < 1e-9, "{at}: {found}, not {expected}");
        }
        // From 0 up in the first step, and of the next two not down to 0.
        assert!((walk.clusters(3) - one[0] * p * (p * p + p * q)).abs() < 1e-9);
        // |R - L| of two geometric numbers of ratio r: P(0) = (1 - r) / (1 + r), then
        // 2 P(0) r^d. Half of its mean is r / (1 - r^2).
        let (r, drift) = (p / q, walk.drift());
        assert!((drift.mean() - r / (1.0 - r * r)).abs() < 1e-6, "{}", drift.mean());
        let zero = (1.0 - r) / (1.0 + r);
        assert!((drift.at_least(1) - (1.0 - zero - 2.0 * zero * r)).abs() < 1e-6);
        assert!((drift.lines_per_query() - 1.0 - drift.mean() / 10.0).abs() < 1e-12);
    }

    #[test]
    fn steps_are_probabilities_and_end_where_the_window_does() {
        let walk = Walk::new(44, 40, 47, 41.0);
        assert!((walk.steps.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Seven buckets of 1.025 keys are 7.175: between 7 and 8.
        assert_eq!(walk.least, -8);
        assert!(walk.mean() < 0.0 && walk.decay() > 0.0);
        // As many keys as slots: no walk comes back for good.
        assert_eq!(Walk::new(44, 40, 47, 46.0).decay(), 0.0);
    }
}
