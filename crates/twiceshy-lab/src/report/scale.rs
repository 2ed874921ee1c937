//! A range of numbers on an axis: where a number is, and which ones are labelled.

use super::text::{number, power_of_ten, trim};

/// The share of a logarithmic axis below its smallest number, where zeros are.
const ZERO_STRIP: f64 = 0.07;

/// Below this share of the largest number, an axis starts at 0.
const FAR_FROM_ZERO: f64 = 0.5;

/// Within so many decades, a logarithmic axis labels 2s and 5s too.
const FEW_DECADES: f64 = 2.5;

/// Decimals that still read as a number.
const MANY_DECIMALS: usize = 5;

/// From `low` to `high`, and 0 apart where a logarithm has none.
#[derive(Debug, PartialEq)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    zeros: bool,
}

/// A place on an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    /// From 0 to 1 along the axis.
    pub at: f64,
    /// What it says; nothing between the labelled ones of a logarithmic axis.
    pub label: Option<String>,
}

impl Scale {
    /// A scale that shows all these numbers, of which the finite ones count.
    pub(super) fn new(log: bool, values: impl Iterator<Item = f64>) -> Self {
        let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        let shown = values.iter().copied().filter(|&value| !log || value > 0.0);
        let range = shown.fold(None, |range: Option<(f64, f64)>, value| {
            Some(range.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        let (low, high) = match range {
            None if log => (0.1, 1.0),
            None => (0.0, 1.0),
            Some((low, high)) if log => log_range(low, high),
            Some((low, high)) => linear_range(low, high),
        };
        Scale { log, low, high, zeros: log && values.iter().any(|&value| value <= 0.0) }
    }

    /// Whether that number is shown on the edge because the scale has no place
    /// for it.
    pub(super) fn is_off(&self, value: f64) -> bool {
        self.log && value <= 0.0
    }

    /// Where a number is, from 0 to 1.
    pub(super) fn place(&self, value: f64) -> f64 {
        if !self.log {
            return ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        }
        if value <= 0.0 {
            return 0.0;
        }
        let share = (value.ln() - self.low.ln()) / (self.high.ln() - self.low.ln());
        self.floor() + share.clamp(0.0, 1.0) * (1.0 - self.floor())
    }

    /// Where the smallest number is: above 0 where zeros are below it.
    pub(super) fn floor(&self) -> f64 {
        if self.zeros { ZERO_STRIP } else { 0.0 }
    }

    /// Ticks, at most about `room` of them with labels.
    pub(super) fn ticks(&self, room: usize) -> Vec<Tick> {
        let mut ticks = if self.log { self.log_ticks(room) } else { self.linear_ticks(room) };
        if self.zeros {
            ticks.insert(0, Tick { at: 0.0, label: Some("0".to_string()) });
        }
        ticks
    }

    fn linear_ticks(&self, room: usize) -> Vec<Tick> {
        let (step, decimals) = round_step((self.high - self.low) / count(room));
        // Half a thousandth of a step forgives what rounding took off the ends.
        let first = (self.low / step - 5e-4).ceil();
        let last = (self.high / step + 5e-4).floor();
        let mut ticks = Vec::new();
        let mut index = first;
        while index <= last {
            let value = index * step;
            ticks.push(Tick { at: self.place(value), label: Some(short(value, step, decimals)) });
            index += 1.0;
        }
        ticks
    }

    fn log_ticks(&self, room: usize) -> Vec<Tick> {
        let (low, high) = (exponent(self.low), exponent(self.high));
        let decades = self.high.log10() - self.low.log10();
        let steps: &[u32] = if decades < FEW_DECADES { &[1, 2, 5] } else { &[1] };
        // Whole decades between two labels, when not even every decade has room.
        let (steps, stride) = if decades * count(steps.len()) <= count(room) {
            (steps, 1)
        } else {
            (&[1][..], (f64::from(high - low + 1) / count(room)).ceil().max(1.0) as i32)
        };
        let powers = low < -3 || high > 4;
        let mut ticks = Vec::new();
        for decade in low..=high {
            for digit in 1..=9 {
                let value = f64::from(digit) * 10f64.powi(decade);
                // As wide as rounding of a power may be.
                if value < self.low * (1.0 - 1e-9) || value > self.high * (1.0 + 1e-9) {
                    continue;
                }
                let labelled = steps.contains(&digit) && decade.rem_euclid(stride) == 0;
                let label = labelled.then(|| match (powers, digit) {
                    (false, _) => plain(value, usize::try_from(-decade).unwrap_or(0)),
                    (true, 1) => power_of_ten(decade),
                    (true, _) => format!("{digit}·{}", power_of_ten(decade)),
                });
                ticks.push(Tick { at: self.place(value), label });
            }
        }
        ticks
    }
}

fn count(number: usize) -> f64 {
    f64::from(u32::try_from(number).expect("an axis has few labels"))
}

/// A multiple of a step: "20k" and "1.5M" where zeros would say no more.
fn short(value: f64, step: f64, decimals: usize) -> String {
    if value == 0.0 {
        return "0".to_string();
    }
    let unit =
        [(1e9, "G"), (1e6, "M"), (1e3, "k")].into_iter().find(|(unit, _)| step * 10.0 >= *unit);
    match unit {
        Some((unit, letter)) if step < 1e12 => {
            let decimals = usize::from(step < unit);
            format!("{:.decimals$}{letter}", value / unit)
        }
        None if decimals <= MANY_DECIMALS => format!("{value:.decimals$}"),
        _ => number(value),
    }
}

fn plain(value: f64, decimals: usize) -> String {
    trim(&format!("{value:.decimals$}")).to_string()
}

/// The power of ten that a number starts with.
fn exponent(value: f64) -> i32 {
    // 1000f64.log10() may come out a hair below 3.
    (value.log10() + 1e-9).floor() as i32
}

/// The least of 1, 2 and 5 times a power of ten that is not below a positive
/// number, and the decimals that it takes.
fn round_step(least: f64) -> (f64, usize) {
    let decade = exponent(least);
    let unit = 10f64.powi(decade);
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * unit >= least * (1.0 - 1e-9));
    match digit {
        Some(digit) => (digit * unit, usize::try_from(-decade).unwrap_or(0)),
        None => (10.0 * unit, usize::try_from(-decade - 1).unwrap_or(0)),
    }
}

/// From a round number to a round number.
fn linear_range(low: f64, high: f64) -> (f64, f64) {
    let near_zero = low >= 0.0 && low <= high * FAR_FROM_ZERO;
    let low = if near_zero { 0.0 } else { low };
    if low == high {
        let room = if low == 0.0 { 1.0 } else { low.abs() / 2.0 };
        return (low - if low == 0.0 { 0.0 } else { room }, high + room);
    }
    let (step, _) = round_step((high - low) / 10.0);
    ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step)
}

/// From 1, 2 or 5 times a power of ten to such a number.
fn log_range(low: f64, high: f64) -> (f64, f64) {
    let down = 10f64.powi(exponent(low));
    let first = [5.0, 2.0].into_iter().find(|digit| digit * down <= low * (1.0 + 1e-9));
    let (last, _) = round_step(high);
    let low = first.unwrap_or(1.0) * down;
    if low < last { (low, last) } else { (low / 2.0, last * 2.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(scale: &Scale, room: usize) -> Vec<String> {
        scale.ticks(room).into_iter().filter_map(|tick| tick.label).collect()
    }

    #[test]
    fn linear_labels_are_round_and_no_more_than_there_is_room_for() {
        let scale = Scale::new(false, [0.0, 97.0].into_iter());
        assert_eq!(labels(&scale, 6), ["0", "20", "40", "60", "80", "100"]);
        assert_eq!(labels(&scale, 2), ["0", "50", "100"]);
        let scale = Scale::new(false, [0.013, 0.0471].into_iter());
        assert_eq!(labels(&scale, 5), ["0", "0.01", "0.02", "0.03", "0.04", "0.05"]);
        let far = Scale::new(false, [1000.2, 1000.9].into_iter());
        assert_eq!(labels(&far, 4), ["1000.2", "1000.4", "1000.6", "1000.8"]);
        let stream = Scale::new(false, [0.0, 2e7].into_iter());
        assert_eq!(labels(&stream, 5), ["0", "5M", "10M", "15M", "20M"]);
        let rates = Scale::new(false, [0.0, 0.0034].into_iter());
        assert_eq!(labels(&rates, 4), ["0", "0.001", "0.002", "0.003"]);
        let hundreds = Scale::new(false, [0.0, 4000.0].into_iter());
        assert_eq!(
            labels(&hundreds, 8),
            ["0", "0.5k", "1.0k", "1.5k", "2.0k", "2.5k", "3.0k", "3.5k", "4.0k"]
        );
        let tiny = Scale::new(false, [0.0, 4e-7].into_iter());
        assert_eq!(labels(&tiny, 2), ["0", "2×10⁻⁷", "4×10⁻⁷"]);
        let negative = Scale::new(false, [-1.0, 3.0].into_iter());
        assert_eq!(labels(&negative, 4), ["-1", "0", "1", "2", "3"]);
    }

    #[test]
    fn logarithmic_labels_are_decades_or_few_more() {
        let scale = Scale::new(true, [1.0, 100.0].into_iter());
        assert_eq!(labels(&scale, 8), ["1", "2", "5", "10", "20", "50", "100"]);
        assert_eq!(labels(&scale, 3), ["1", "10", "100"]);
        let rates = Scale::new(true, [3e-7, 0.9].into_iter());
        assert_eq!(labels(&rates, 8), ["10⁻⁶", "10⁻⁵", "10⁻⁴", "10⁻³", "10⁻²", "10⁻¹", "10⁰"]);
        assert_eq!(labels(&rates, 4), ["10⁻⁶", "10⁻⁴", "10⁻²", "10⁰"]);
        let narrow = Scale::new(true, [3e-5, 4e-5].into_iter());
        assert_eq!(labels(&narrow, 8), ["2·10⁻⁵", "5·10⁻⁵"]);
    }

    #[test]
    fn places_follow_the_numbers() {
        let linear = Scale::new(false, [0.0, 10.0].into_iter());
        assert!((linear.place(2.5) - 0.25).abs() < 1e-12);
        let log = Scale::new(true, [1.0, 10_000.0].into_iter());
        assert!((log.place(100.0) - 0.5).abs() < 1e-12);
        assert_eq!((log.place(1.0), log.place(1e4)), (0.0, 1.0));
        assert_eq!(log.floor(), 0.0);
    }

    #[test]
    fn zeros_of_a_logarithmic_axis_have_a_strip_of_their_own() {
        let scale = Scale::new(true, [0.0, 0.001, 1.0].into_iter());
        assert!(scale.is_off(0.0) && !scale.is_off(0.001));
        assert_eq!(scale.place(0.0), 0.0);
        assert_eq!(scale.place(0.001), ZERO_STRIP);
        assert_eq!(scale.place(1.0), 1.0);
        assert_eq!(labels(&scale, 8)[..2], ["0", "0.001"]);
        assert!(!Scale::new(false, [0.0, 1.0].into_iter()).is_off(0.0));
    }

    #[test]
    fn any_numbers_make_an_axis() {
        for log in [false, true] {
            for values in [
                &[][..],
                &[0.0],
                &[1.0],
                &[-1.0],
                &[5.0, 5.0],
                &[f64::NAN, f64::INFINITY],
                &[1e-300, 1e300],
                &[0.0, 1e-12],
                &[7.0, 7.000_001],
            ] {
                let scale = Scale::new(log, values.iter().copied());
                assert!(scale.low < scale.high, "{log} {values:?} {scale:?}");
                let ticks = scale.ticks(6);
                assert!(ticks.iter().any(|tick| tick.label.is_some()), "{log} {values:?}");
                assert!(ticks.iter().all(|tick| (0.0..=1.0).contains(&tick.at)));
                for value in values.iter().filter(|value| value.is_finite()) {
                    assert!((0.0..=1.0).contains(&scale.place(*value)), "{log} {value}");
                }
            }
        }
    }
}
