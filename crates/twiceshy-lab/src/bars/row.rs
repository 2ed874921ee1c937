//! What was measured, and whether it is good enough.

use serde::Serialize;

use super::Experiment;
use crate::contestant::Contestant;
use crate::experiment::runner::mean_and_error;

/// The version of [`Row`] as scripts know it.
const SCHEMA: &str = "twiceshy.bars.v1";

/// One number. The names of the fields are those of the JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    schema: &'static str,
    /// The experiment's name.
    pub experiment: &'static str,
    /// What was measured in it.
    pub condition: String,
    /// The filter, as the user wrote it.
    pub filter: String,
    /// Its full description.
    pub spec: String,
    /// Memory that it takes when it is full.
    pub bits_per_key: f64,
    /// Stored keys; of several streams, of all together.
    pub keys: u64,
    /// What the keys were drawn by; `None` for a number of all seeds together.
    pub seed: Option<u64>,
    /// The number.
    pub value: f64,
    /// The largest number that is good enough, where there is a bar.
    pub most: Option<f64>,
    /// Whether it is.
    pub met: Option<bool>,
    /// Stored keys that the filter denied.
    pub false_negatives: u64,
    /// Whether it is one of those that another row is the mean of.
    #[serde(skip)]
    pub detail: bool,
}

impl Row {
    pub(super) fn new(experiment: Experiment, name: &str, filter: &Contestant) -> Self {
        Row {
            schema: SCHEMA,
            experiment: experiment.name(),
            condition: String::new(),
            filter: name.to_string(),
            spec: filter.spec(),
            bits_per_key: filter.stats().bits_per_key(),
            keys: 0,
            seed: None,
            value: 0.0,
            most: None,
            met: None,
            false_negatives: 0,
            detail: false,
        }
    }

    /// The same but for its seed.
    fn is_like(&self, other: &Row) -> bool {
        let same = |of: fn(&Row) -> &str| of(self) == of(other);
        self.experiment == other.experiment
            && self.keys == other.keys
            && same(|row| &row.condition)
            && same(|row| &row.filter)
            // Opponents of two filters may have the same name and different sizes.
            && same(|row| &row.spec)
    }
}

/// A bar over all seeds.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The row of the first seed.
    pub row: Row,
    /// The mean over seeds.
    pub mean: f64,
    /// The largest of any seed.
    pub worst: f64,
    /// Seeds.
    pub seeds: usize,
    /// The bar, on average where it is not the same for all seeds.
    pub most: Option<f64>,
    /// Whether it is met: on average, or by every seed where the experiment has it so.
    pub met: Option<bool>,
    /// Stored keys that the filter denied with any seed.
    pub false_negatives: u64,
}

/// The rows of several seeds, as verdicts in the order of their first rows.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    groups: Vec<Vec<Row>>,
}

impl Verdicts {
    /// Adds a row.
    pub fn push(&mut self, row: Row) {
        match self.groups.iter_mut().find(|group| group[0].is_like(&row)) {
            Some(group) => group.push(row),
            None => self.groups.push(vec![row]),
        }
    }

    /// The verdicts.
    pub fn iter(&self) -> impl Iterator<Item = Verdict> {
        self.groups.iter().map(|rows| verdict(rows))
    }
}

fn verdict(rows: &[Row]) -> Verdict {
    let row = rows[0].clone();
    let values: Vec<f64> = rows.iter().map(|row| row.value).collect();
    let bars: Vec<f64> = rows.iter().filter_map(|row| row.most).collect();
    let mean = mean_and_error(&values).0;
    let most = (!bars.is_empty()).then(|| mean_and_error(&bars).0);
    // "In the last round of every seed"; and known against new ones, each with its own chance.
    let every = [Experiment::Telescoping, Experiment::Renewal]
        .map(Experiment::name)
        .contains(&row.experiment);
    let met = match most {
        Some(most) if !every => Some(mean <= most),
        _ => rows.iter().map(|row| row.met).reduce(|all, met| Some(all? && met?)).flatten(),
    };
    Verdict {
        mean,
        worst: values.into_iter().fold(f64::MIN, f64::max),
        seeds: rows.len(),
        most,
        met,
        false_negatives: rows.iter().map(|row| row.false_negatives).sum(),
        row,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(spec: &str, seed: u64, value: f64) -> Row {
        Row {
            schema: SCHEMA,
            experiment: Experiment::Streams.name(),
            condition: String::new(),
            filter: "rsqf".to_string(),
            spec: spec.to_string(),
            bits_per_key: 0.0,
            keys: 1,
            seed: Some(seed),
            value,
            most: None,
            met: None,
            false_negatives: 0,
            detail: false,
        }
    }

    #[test]
    fn only_seeds_are_joined() {
        let mut verdicts = Verdicts::default();
        for (spec, seed, value) in [("f=8", 1, 2.0), ("f=9", 1, 1.0), ("f=8", 2, 4.0)] {
            verdicts.push(row(spec, seed, value));
        }
        let means: Vec<(f64, usize)> = verdicts.iter().map(|all| (all.mean, all.seeds)).collect();
        assert_eq!(means, [(3.0, 2), (1.0, 1)]);
    }
}
