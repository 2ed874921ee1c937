//! The figures of the papers: lists of points, seed in, rows out.
//!
//! One file per paper, or figure. What they share: `measure` plays a workload, `traces` are
//! the papers' packet traces, `curves` reads rows for a verdict, `significance` says how
//! likely a difference is by chance.

mod acf;
mod broom;
mod measure;
mod replay;
mod simplified;
mod skipping;
mod streams;
mod support;
mod telescoping;
mod throughput;
mod traces;
mod varying;

pub mod curves;
pub mod runner;
pub mod significance;
pub mod store;

use std::fmt;
use std::sync::Arc;

use crate::workload::Recording;

/// Every figure, paper by paper.
#[must_use]
pub fn figures() -> Vec<Figure> {
    let papers = [
        acf::figures(),
        support::figures(),
        telescoping::figures(),
        throughput::figures(),
        simplified::figures(),
        broom::figures(),
    ];
    papers.into_iter().flatten().collect()
}

/// A figure of a paper: what is measured, and what the paper says about it.
pub struct Figure {
    /// Its name on the command line: "acf-1", "taf-2", "broom-rounds".
    pub id: &'static str,
    /// What it is called in the report.
    pub title: &'static str,
    /// Paper and section or figure.
    pub source: &'static str,
    /// One sentence: what the paper shows.
    pub claim: &'static str,
    /// What the horizontal axis says.
    pub x: Axis,
    /// What the vertical axis says.
    pub y: Axis,
    /// What to measure at a scale.
    pub points: fn(&Setting) -> Vec<Point>,
    /// Whether the rows show what the paper shows, in one sentence.
    pub verdict: fn(&[Row]) -> Verdict,
}

/// An axis of a plot.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// Its label, with the unit.
    pub label: &'static str,
    /// Whether its scale is logarithmic.
    pub log: bool,
}

/// The size of an experiment, and its input.
#[derive(Clone, Debug, Default)]
pub struct Setting {
    /// Small enough for all figures to be done in under two minutes.
    pub quick: bool,
    /// The input of the figures about traces, if not generated.
    pub recording: Option<Arc<Recording>>,
}

impl Setting {
    /// Trials of a game that asks for up to a hundred queries per key, ten times: its rates differ
    /// by far more than their errors.
    const fn games(&self, quick: u32) -> u32 {
        if self.quick { quick } else { 4 }
    }

    /// Trials of a point: the papers' ten, or as many as its figure has in a quick run.
    ///
    /// Many small trials are more conclusive than a few large ones that take as long: 10^-6 is
    /// 18 standard errors with the six degrees of freedom that two means of four trials have,
    /// and 6.4 with the 22 of two times twelve. Four are for what cannot be much smaller and
    /// differs by far more than its error (games, tables that are filled), and for curves that
    /// no claim is about. A claim that compares a curve with a number that is known has 8 or
    /// more: there no second mean adds degrees of freedom.
    const fn trials(&self, quick: u32) -> u32 {
        if self.quick { quick } else { 10 }
    }
}

/// One mean to measure.
pub struct Point {
    /// Which plot of the figure it is in ("8 bits a cell").
    pub panel: String,
    /// Which curve it is on, mostly a filter's label.
    pub series: String,
    /// Where it is on the curve.
    pub x: f64,
    /// The number of independent trials.
    pub trials: u32,
    /// One trial: a seed in, a measurement out.
    pub run: Trial,
}

/// One trial of a point.
pub type Trial =
    Box<dyn Fn(u64) -> Result<Measured, Box<dyn std::error::Error + Send + Sync>> + Send + Sync>;

/// What a trial measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// The number.
    pub value: f64,
    /// By how much one more event would raise it: a rate of q queries by 1/q. 0 if it does not
    /// count events.
    pub grain: f64,
}

impl Measured {
    /// Events for each of so many chances.
    pub const fn share(events: u64, of: u64) -> Self {
        Measured { value: events as f64 / of as f64, grain: 1.0 / of as f64 }
    }
}

impl From<f64> for Measured {
    fn from(value: f64) -> Self {
        Measured { value, grain: 0.0 }
    }
}

/// A mean that was measured: one line of the CSV.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Row {
    /// The figure's id.
    pub figure: String,
    /// Which plot of the figure.
    pub panel: String,
    /// Which curve.
    pub series: String,
    /// Where on the curve.
    pub x: f64,
    /// The mean of the trials.
    pub mean: f64,
    /// Its standard error; 0 with one trial.
    pub standard_error: f64,
    /// How many trials.
    pub trials: u32,
    /// By how much one more event, in one of the trials, would raise the mean; 0 if it does not
    /// count events.
    pub grain: f64,
}

impl Row {
    /// The mean of some trials of a point.
    ///
    /// # Panics
    /// If they are more than `u32::MAX`.
    #[must_use]
    pub fn of(figure: &str, point: &Point, trials: &[Measured]) -> Self {
        Row {
            figure: figure.to_string(),
            panel: point.panel.clone(),
            series: point.series.clone(),
            x: point.x,
            ..Row::of_trials(trials)
        }
    }

    /// The same of no point in particular.
    fn of_trials(trials: &[Measured]) -> Self {
        let values: Vec<f64> = trials.iter().map(|trial| trial.value).collect();
        let (mean, standard_error) = runner::mean_and_error(&values);
        let count = trials.len() as f64;
        let grain = trials.iter().map(|trial| trial.grain).sum::<f64>() / count;
        Row {
            figure: String::new(),
            panel: String::new(),
            series: String::new(),
            x: 0.0,
            mean,
            standard_error,
            trials: u32::try_from(trials.len()).expect("few trials"),
            grain: grain / count,
        }
    }
}

/// Whether rows support a claim. Several claims together have the largest verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// They do, except with a stated probability.
    Yes,
    /// The standard errors are too large to tell.
    Open,
    /// They show something else.
    No,
}

impl Seen {
    /// A claim that holds unless something contradicts it.
    const fn unless(contradicted: bool) -> Self {
        if contradicted { Seen::No } else { Seen::Yes }
    }

    /// All claims of a list together.
    fn all(claims: impl IntoIterator<Item = Seen>) -> Self {
        claims.into_iter().max().unwrap_or(Seen::Open)
    }
}

/// Whether we see what the paper shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// Whether we do.
    pub seen: Seen,
    /// What we see, in one sentence; where it differs from the paper, why.
    pub text: String,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = match self.seen {
            Seen::Yes => "as in the paper",
            Seen::Open => "too few trials to say whether it is as in the paper",
            Seen::No => "not as in the paper",
        };
        write!(f, "{seen}: {}", self.text)
    }
}
