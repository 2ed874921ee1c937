//! The rows of a race of several seeds, and their means.

use super::trial::{Course, Row};
use crate::experiment::runner::mean_and_error;

/// The rows of all filters and seeds.
#[derive(Clone, Debug)]
pub struct Standings {
    /// Of each entrant, a row for each seed; none where it was left out.
    entrants: Vec<Vec<Row>>,
    courses: Vec<Sizes>,
}

/// How large a course was.
#[derive(Clone, Debug)]
pub struct Sizes {
    /// The workload's name.
    pub workload: String,
    /// What it was drawn by.
    pub seed: u64,
    /// Stored keys.
    pub keys: u64,
    /// Absent keys.
    pub absent: u64,
    /// Queries in the stream.
    pub queries: u64,
}

/// A mean with its standard error, where it is of several.
#[derive(Clone, Copy, Debug)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Its standard error.
    pub error: Option<f64>,
}

impl Mean {
    /// Of a value of each row.
    pub fn of(rows: &[Row], value: impl Fn(&Row) -> f64) -> Self {
        let values: Vec<f64> = rows.iter().map(value).collect();
        let (mean, error) = mean_and_error(&values);
        Mean { mean, error: (values.len() > 1).then_some(error) }
    }
}

impl Standings {
    /// Of a race of that many filters.
    #[must_use]
    pub fn new(entrants: usize) -> Self {
        Standings { entrants: vec![Vec::new(); entrants], courses: Vec::new() }
    }

    /// Adds what an entrant did with a seed.
    pub fn push(&mut self, entrant: usize, row: Row) {
        self.entrants[entrant].push(row);
    }

    /// Adds what the filters faced with a seed.
    pub fn describe(&mut self, course: &Course) {
        self.courses.push(Sizes {
            workload: course.workload.clone(),
            seed: course.seed,
            keys: course.stored.len() as u64,
            absent: course.absent.len() as u64,
            queries: course.stream.len() as u64,
        });
    }

    /// The rows of each filter that took part.
    pub fn filters(&self) -> impl Iterator<Item = &[Row]> {
        self.entrants.iter().map(Vec::as_slice).filter(|rows| !rows.is_empty())
    }

    /// What the filters faced, seed by seed.
    #[must_use]
    pub fn courses(&self) -> &[Sizes] {
        &self.courses
    }

    /// Whether no filter took part.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.filters().next().is_none()
    }

    /// Whether no filter denied a stored key.
    #[must_use]
    pub fn lossless(&self) -> bool {
        self.filters().flatten().all(|row| row.false_negatives == 0)
    }
}
