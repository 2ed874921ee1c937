//! Rows read as curves: what verdicts are made of.

use std::fmt;
use std::ops::RangeBounds;

use super::Row;

/// Standard errors by which two means differ clearly. Means are of few trials,
/// so their standard errors are rough: two would be crossed too often.
const CLEARLY: f64 = 3.0;

/// The rows of a figure.
pub struct Curves<'a>(&'a [Row]);

/// Where a curve lies against another, at the points that both have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Points at which it is clearly below.
    pub below: Vec<f64>,
    /// Points at which it is clearly above.
    pub above: Vec<f64>,
    /// Points at which the standard errors leave it open.
    pub level: Vec<f64>,
}

impl Standing {
    /// How many points both have.
    pub fn points(&self) -> usize {
        self.below.len() + self.above.len() + self.level.len()
    }

    /// Clearly below somewhere, and clearly above at a tenth as many points at
    /// most: so many come about by chance where means are of few trials.
    pub fn is_below(&self) -> bool {
        !self.below.is_empty() && self.above.len() * 10 <= self.below.len()
    }

    /// The same the other way round.
    pub fn is_above(&self) -> bool {
        !self.above.is_empty() && self.below.len() * 10 <= self.above.len()
    }

    /// Of it, the points in a range.
    pub fn within(mut self, range: impl RangeBounds<f64>) -> Standing {
        for points in [&mut self.below, &mut self.above, &mut self.level] {
            points.retain(|x| range.contains(x));
        }
        self
    }

    /// Both standings at once.
    pub fn and(mut self, other: Standing) -> Standing {
        self.below.extend(other.below);
        self.above.extend(other.above);
        self.level.extend(other.level);
        self
    }

    /// "below at 7 of 9 points, above at 1 (A/S = 100)": clearly, that is, and the
    /// place of those that are fewer.
    pub fn text(&self) -> String {
        let (below, points, above) = (self.below.len(), self.points(), self.above.len());
        let at = |xs: &[f64], others: usize| match xs.len() {
            0 => String::new(),
            few if few <= others => format!(" (A/S = {})", list(xs)),
            _ => String::new(),
        };
        let (at_below, at_above) = (at(&self.below, above), at(&self.above, below));
        format!("below at {below}{at_below} of {points} points, above at {above}{at_above}")
    }
}

impl<'a> Curves<'a> {
    /// The rows of one figure.
    pub fn new(rows: &'a [Row]) -> Self {
        Curves(rows)
    }

    /// The panels, in the order of the rows.
    pub fn panels(&self) -> Vec<&'a str> {
        distinct(self.0.iter().map(|row| row.panel.as_str()))
    }

    /// The curves of a panel, in the order of the rows.
    pub fn series(&self, panel: &str) -> Vec<&'a str> {
        distinct(self.panel(panel).map(|row| row.series.as_str()))
    }

    /// The points of a curve, from left to right.
    pub fn curve(&self, panel: &str, series: &str) -> Vec<&'a Row> {
        let mut rows: Vec<&Row> = self.panel(panel).filter(|row| row.series == series).collect();
        rows.sort_by(|a, b| a.x.total_cmp(&b.x));
        rows
    }

    /// One point of a curve.
    pub fn at(&self, panel: &str, series: &str, x: f64) -> Option<&'a Row> {
        self.panel(panel).find(|row| row.series == series && row.x == x)
    }

    /// Where `series` lies against `other`.
    pub fn standing(&self, panel: &str, series: &str, other: &str) -> Standing {
        self.place(panel, series, |x| self.at(panel, other, x).map(Estimate::from))
    }

    /// Where `series` lies against a number.
    pub fn standing_against(&self, panel: &str, series: &str, number: f64) -> Standing {
        self.place(panel, series, |_| Some(Estimate::exactly(number)))
    }

    fn place(
        &self,
        panel: &str,
        series: &str,
        other: impl Fn(f64) -> Option<Estimate>,
    ) -> Standing {
        let mut standing = Standing::default();
        for row in self.curve(panel, series) {
            let Some(there) = other(row.x) else { continue };
            let here = Estimate::from(row);
            if here.clearly_below(there) {
                standing.below.push(row.x);
            } else if there.clearly_below(here) {
                standing.above.push(row.x);
            } else {
                standing.level.push(row.x);
            }
        }
        standing
    }

    /// Where the first curve of each pair lies against the second, in the panels
    /// that are picked.
    pub fn standings(&self, pick: impl Fn(&str) -> bool, pairs: &[(&str, &str)]) -> Standing {
        let panels = self.panels().into_iter().filter(|panel| pick(panel));
        let standings = panels.flat_map(|panel| {
            pairs.iter().map(move |(series, other)| self.standing(panel, series, other))
        });
        standings.fold(Standing::default(), Standing::and)
    }

    /// The mean over a curve's points from `from` on up to `to`.
    pub fn pooled(&self, panel: &str, series: &str, from: f64, to: f64) -> Option<Estimate> {
        let inside = |row: &&Row| (from..=to).contains(&row.x);
        let rows: Vec<&Row> = self.curve(panel, series).into_iter().filter(inside).collect();
        let count = rows.len() as f64;
        let mean = rows.iter().map(|row| row.mean).sum::<f64>() / count;
        let square = rows.iter().map(|row| row.standard_error.powi(2)).sum::<f64>();
        (!rows.is_empty()).then_some(Estimate { mean, error: square.sqrt() / count })
    }

    /// Where a whole curve lies, in one number.
    pub fn level(&self, panel: &str, series: &str) -> Option<Estimate> {
        self.pooled(panel, series, f64::NEG_INFINITY, f64::INFINITY)
    }

    fn panel(&self, panel: &str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.panel == panel)
    }
}

/// A mean and its standard error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub error: f64,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} ± {:.2}", self.mean, self.error)
    }
}

impl From<&Row> for Estimate {
    fn from(row: &Row) -> Self {
        Estimate { mean: row.mean, error: row.standard_error }
    }
}

impl Estimate {
    /// A number that is known.
    pub const fn exactly(mean: f64) -> Self {
        Estimate { mean, error: 0.0 }
    }

    /// Below `other` by more than the standard errors explain.
    pub fn clearly_below(self, other: Estimate) -> bool {
        other.mean - self.mean > CLEARLY * self.error.hypot(other.error)
    }

    /// How many times `other` it is.
    pub fn over(self, other: Estimate) -> Estimate {
        let mean = self.mean / other.mean;
        let relative = (self.error / self.mean).hypot(other.error / other.mean);
        Estimate { mean, error: mean * relative }
    }
}

fn distinct<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = Vec::new();
    names.for_each(|name| {
        if !seen.contains(&name) {
            seen.push(name);
        }
    });
    seen
}

/// "1, 5, 10": each once, in order.
pub fn list(numbers: &[f64]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let texts: Vec<String> = numbers.iter().map(f64::to_string).collect();
    texts.join(", ")
}

/// A share as people write it: "0.37 %".
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0".into(),
        percent if percent >= 10.0 => format!("{percent:.0} %"),
        percent if percent >= 0.1 => format!("{percent:.2} %"),
        percent => format!("{percent:.1e} %"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(panel: &str, series: &str, x: f64, mean: f64, standard_error: f64) -> Row {
        let (panel, series) = (panel.into(), series.into());
        Row { figure: "f".into(), panel, series, x, mean, standard_error, trials: 3 }
    }

    /// By hand: the spread of 3 and 4 is 5, so differences are clear above 15.
    #[test]
    fn curves_are_apart_where_their_errors_do_not_explain_it() {
        let rows = [
            row("p", "a", 10.0, 100.0, 3.0),
            row("p", "a", 1.0, 100.0, 3.0),
            row("p", "a", 5.0, 100.0, 3.0),
            row("p", "b", 1.0, 116.0, 4.0),
            row("p", "b", 5.0, 114.0, 4.0),
            row("p", "b", 10.0, 84.0, 4.0),
            row("q", "b", 1.0, 1.0, 0.0),
        ];
        let curves = Curves::new(&rows);
        let standing = curves.standing("p", "a", "b");
        let expected = Standing { below: vec![1.0], above: vec![10.0], level: vec![5.0] };
        assert_eq!(standing, expected);
        let text = "below at 1 (A/S = 1) of 3 points, above at 1 (A/S = 10)";
        assert_eq!(standing.text(), text);
        assert!(!standing.is_below() && !standing.is_above());
        assert!(standing.clone().within(..=5.0).is_below());
        assert_eq!(curves.standings(|panel| panel == "q", &[("a", "b")]), Standing::default());
        // Against a number, above 9.
        assert_eq!(curves.standing_against("p", "a", 91.1).above, []);
        assert_eq!(curves.standing_against("p", "a", 90.0).above, [1.0, 5.0, 10.0]);
    }

    #[test]
    fn levels_are_means_and_ratios_carry_their_errors() {
        let rows = [row("p", "a", 1.0, 1.0, 0.3), row("p", "a", 2.0, 3.0, 0.4)];
        let curves = Curves::new(&rows);
        let level = curves.level("p", "a").expect("two points");
        assert_eq!((level.mean, level.error), (2.0, 0.25));
        let ratio = level.over(Estimate { mean: 4.0, error: 0.5 });
        assert!((ratio.mean - 0.5).abs() < 1e-12, "{ratio}");
        // Relative errors of an eighth each.
        assert!((ratio.error - 0.5 * 0.125 * 2.0_f64.sqrt()).abs() < 1e-12, "{ratio}");
        assert_eq!(curves.pooled("p", "a", 3.0, 4.0), None);
    }

    #[test]
    fn shares_and_lists_as_people_write_them() {
        let shares = [(0.0, "0"), (0.0037, "0.37 %"), (0.88, "88 %"), (5.8e-5, "5.8e-3 %")];
        for (share, text) in shares {
            assert_eq!(percent(share), text);
        }
        assert_eq!(list(&[5.0, 1.0, 5.0, 0.5]), "0.5, 1, 5");
    }
}
