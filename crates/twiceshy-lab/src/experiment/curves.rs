//! Rows read as curves: what verdicts are made of.

use std::ops::RangeBounds;

use super::significance::{CHANCE, Estimate, normal_tail, stouffer};
use super::{Row, Seen};

/// The probability with which a verdict may find by chance a point that contradicts a
/// comparison, of all the points that the comparison is about. A claim of several comparisons
/// is contradicted by any of them.
const CONTRADICTION: f64 = 1e-3;

/// The rows of a figure.
pub struct Curves<'a>(&'a [Row]);

/// Where curves lie against others, pair by pair, at the points that both have: how far
/// below, as a [score](Estimate::score_below).
///
/// A claim that one is below the other is true if all points of each pair together say
/// so, which they do by chance with probability [`CHANCE`], and none contradicts it, which
/// one does by chance with 10^-3.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Standing {
    /// Of each pair: where, and how far below.
    pairs: Vec<Vec<(f64, f64)>>,
}

impl Standing {
    /// How many points both have.
    pub fn points(&self) -> usize {
        self.pairs.iter().map(Vec::len).sum()
    }

    fn where_clear(&self, sign: f64) -> Vec<f64> {
        let each = CONTRADICTION / self.points() as f64;
        let points = self.pairs.iter().flatten();
        let clear = points.filter(|(_, score)| normal_tail(sign * score) < each);
        clear.map(|(x, _)| *x).collect()
    }

    /// Points at which it is clearly below.
    pub fn below(&self) -> Vec<f64> {
        self.where_clear(1.0)
    }

    /// Points at which it is clearly above.
    pub fn above(&self) -> Vec<f64> {
        self.where_clear(-1.0)
    }

    /// The smallest place at which it is clearly above.
    pub fn above_from(&self) -> Option<f64> {
        self.above().into_iter().min_by(f64::total_cmp)
    }

    /// Whether all points of each pair, together, are clearly below (or above).
    fn together(&self, sign: f64) -> bool {
        let chance = |pair: &Vec<(f64, f64)>| {
            let scores: Vec<f64> = pair.iter().map(|(_, score)| sign * score).collect();
            normal_tail(stouffer(&scores))
        };
        !self.pairs.is_empty() && self.pairs.iter().all(|pair| chance(pair) < CHANCE)
    }

    /// Whether it is below: all points together, and clearly above at none.
    pub fn is_below(&self) -> Seen {
        self.claim(1.0)
    }

    /// Whether it is below at every point. Each has to show it by itself, so that one which
    /// is not below is taken for one by chance with probability [`CHANCE`], however many are.
    pub fn is_below_everywhere(&self) -> Seen {
        let each = self.pairs.iter().flatten().all(|&(_, score)| normal_tail(score) < CHANCE);
        self.is_below().max(if each { Seen::Yes } else { Seen::Open })
    }

    /// The same as [`is_below`](Self::is_below) the other way round.
    pub fn is_above(&self) -> Seen {
        self.claim(-1.0)
    }

    fn claim(&self, sign: f64) -> Seen {
        match () {
            () if !self.where_clear(-sign).is_empty() || self.together(-sign) => Seen::No,
            () if self.together(sign) => Seen::Yes,
            () => Seen::Open,
        }
    }

    /// Of it, the points in a range.
    pub fn within(mut self, range: impl RangeBounds<f64>) -> Standing {
        for pair in &mut self.pairs {
            pair.retain(|(x, _)| range.contains(x));
        }
        self
    }

    /// The points of both, pair by pair.
    pub fn and(mut self, other: Standing) -> Standing {
        if self.pairs.len() < other.pairs.len() {
            self.pairs.resize(other.pairs.len(), Vec::new());
        }
        for (pair, more) in self.pairs.iter_mut().zip(other.pairs) {
            pair.extend(more);
        }
        self
    }

    /// "below at 7 of 9 points, above at 1 (A/S = 100)": clearly, that is, and the
    /// place of those that are fewer.
    pub fn text(&self) -> String {
        self.text_at("A/S")
    }

    /// The same with another name for a place.
    pub fn text_at(&self, place: &str) -> String {
        let (below, above) = (self.below(), self.above());
        let at = |xs: &[f64], others: usize| match xs.len() {
            0 => String::new(),
            few if few <= others => format!(" ({place} = {})", list(xs)),
            _ => String::new(),
        };
        let (at_below, at_above) = (at(&below, above.len()), at(&above, below.len()));
        let (below, points, above) = (below.len(), self.points(), above.len());
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
        let points = self.curve(panel, series).into_iter();
        let scores = points.filter_map(|row| {
            let there = other(row.x)?;
            Some((row.x, Estimate::from(row).score_below(there)))
        });
        Standing { pairs: vec![scores.collect()] }
    }

    /// Where the first curve of each pair lies against the second, in the panels
    /// that are picked.
    pub fn standings(&self, pick: impl Fn(&str) -> bool, pairs: &[(&str, &str)]) -> Standing {
        let of_pair = |&(series, other): &(&str, &str)| {
            self.in_panels(&pick, |panel| self.standing(panel, series, other))
        };
        Standing { pairs: pairs.iter().map(of_pair).collect() }
    }

    /// Where each curve lies against a number, in the panels that are picked.
    pub fn standings_against(
        &self,
        pick: impl Fn(&str) -> bool,
        series: &[&str],
        number: f64,
    ) -> Standing {
        let of_series = |series: &&str| {
            self.in_panels(&pick, |panel| self.standing_against(panel, series, number))
        };
        Standing { pairs: series.iter().map(of_series).collect() }
    }

    /// All points of panels as those of one pair.
    fn in_panels(
        &self,
        pick: impl Fn(&str) -> bool,
        standing: impl Fn(&str) -> Standing,
    ) -> Vec<(f64, f64)> {
        let panels = self.panels().into_iter().filter(|panel| pick(panel));
        panels.flat_map(|panel| standing(panel).pairs.into_iter().flatten()).collect()
    }

    /// The mean over a curve's points from `from` on up to `to`.
    pub fn pooled(&self, panel: &str, series: &str, from: f64, to: f64) -> Option<Estimate> {
        let inside = |row: &&Row| (from..=to).contains(&row.x);
        let rows = self.curve(panel, series).into_iter().filter(inside);
        Estimate::mean_of(&rows.map(Estimate::from).collect::<Vec<_>>())
    }

    /// Where a whole curve lies, in one number.
    pub fn level(&self, panel: &str, series: &str) -> Option<Estimate> {
        self.pooled(panel, series, f64::NEG_INFINITY, f64::INFINITY)
    }

    fn panel(&self, panel: &str) -> impl Iterator<Item = &'a Row> {
        self.0.iter().filter(move |row| row.panel == panel)
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
        Row { figure: "f".into(), panel, series, x, mean, standard_error, trials: 3, grain: 0.0 }
    }

    /// Errors of 1 and of 1 with 2 degrees of freedom each make 1.41 with 4. Three points, and
    /// 10^-3 for all of them: 3.3e-4 each, a t of 8.9, a difference of 12.6.
    #[test]
    fn curves_are_apart_where_their_errors_do_not_explain_it() {
        let rows = [
            row("p", "a", 10.0, 100.0, 1.0),
            row("p", "a", 1.0, 100.0, 1.0),
            row("p", "a", 5.0, 100.0, 1.0),
            row("p", "b", 1.0, 114.0, 1.0),
            row("p", "b", 5.0, 111.0, 1.0),
            row("p", "b", 10.0, 86.0, 1.0),
            row("q", "b", 1.0, 1.0, 0.0),
        ];
        let curves = Curves::new(&rows);
        let standing = curves.standing("p", "a", "b");
        assert_eq!((standing.below(), standing.above()), (vec![1.0], vec![10.0]));
        let text = "below at 1 (A/S = 1) of 3 points, above at 1 (A/S = 10)";
        assert_eq!(standing.text(), text);
        assert_eq!((standing.is_below(), standing.is_above()), (Seen::No, Seen::No));
        assert_eq!(curves.standings(|panel| panel == "q", &[("a", "b")]).points(), 0);
        assert_eq!(Standing::default().is_below(), Seen::Open);
    }

    /// A score of 2.5 is nothing, four of them are one of 5, two are one of 3.5; a score of
    /// -4 among them is below 10^-3 / 5 and contradicts.
    #[test]
    fn points_are_judged_together() {
        let pair = |scores: &[f64]| scores.iter().map(|score| (1.0, *score)).collect();
        let standing = |scores: &[f64]| Standing { pairs: vec![pair(scores)] };
        assert_eq!(standing(&[2.5; 4]).is_below(), Seen::Yes);
        assert_eq!(standing(&[2.5; 4]).is_above(), Seen::No);
        assert_eq!(standing(&[-2.5; 4]).is_above(), Seen::Yes);
        assert_eq!(standing(&[2.5; 2]).is_below(), Seen::Open);
        assert_eq!(standing(&[5.0, 5.0, 5.0, 5.0, -4.0]).is_below(), Seen::No);
        assert_eq!(standing(&[5.0, 5.0, 5.0, 5.0, -2.0]).is_below(), Seen::Yes);
        // Everywhere.
        assert_eq!(standing(&[5.0, 5.0, 5.0, 5.0, -2.0]).is_below_everywhere(), Seen::Open);
        assert_eq!(standing(&[9.0, 9.0, 9.0, 9.0, 4.7]).is_below_everywhere(), Seen::Open);
        assert_eq!(standing(&[4.8; 5]).is_below_everywhere(), Seen::Yes);
        assert_eq!(Standing::default().is_below_everywhere(), Seen::Open);
        assert_eq!(standing(&[5.0, 5.0, 5.0, 5.0, -4.0]).is_below_everywhere(), Seen::No);
        // Pair by pair.
        let one_open = Standing { pairs: vec![pair(&[2.5; 4]), pair(&[2.5; 2])] };
        assert_eq!(one_open.is_below(), Seen::Open);
        let both = Standing { pairs: vec![pair(&[2.5; 4]), pair(&[7.0; 2])] };
        assert_eq!(both.is_below(), Seen::Yes);
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
