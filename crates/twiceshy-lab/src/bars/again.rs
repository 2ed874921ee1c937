//! The same mistake twice: of the queries that the filter has adapted to, how many are false
//! positives again? At the end, and at any time before: ten passes fix again what came back,
//! so the end alone would say too little.

use std::collections::HashSet;

use twiceshy_filters::Result;

use super::{Trial, ask, digest};

/// Absent keys for each stored one, and how often each is asked for.
const ASKED: [(u64, u64); 2] = [(5, 1), (20, 10)];

/// The largest share that may come back.
const MOST: f64 = 1e-3;

/// Steps of a run for each key.
pub(super) const STEPS: f64 = (ASKED[0].0 * ASKED[0].1 + ASKED[1].0 * ASKED[1].1) as f64;

pub(super) fn run(trial: &mut Trial<'_>) -> Result<()> {
    for (ratio, passes) in ASKED {
        let (mut filter, hasher) = trial.filled()?;
        let (mut adapted, mut returned) = (HashSet::new(), HashSet::new());
        for _ in 0..passes {
            let absent = trial.keys..trial.keys * (1 + ratio);
            for query in ask(&mut filter, &hasher, absent, trial.watch)? {
                if !adapted.insert(query) {
                    returned.insert(query);
                }
            }
        }
        let again = adapted.iter().filter(|&&query| filter.contains(digest(&hasher, query)));
        let share = again.count() as f64 / adapted.len().max(1) as f64;
        let denied = trial.denied(&filter, &hasher);
        let condition = match passes {
            1 => format!("{ratio} n misses once"),
            _ => format!("{ratio} n misses, {passes} times each"),
        };
        if passes > 1 {
            let ever = returned.len() as f64 / adapted.len().max(1) as f64;
            let condition = format!("{condition}, ever");
            trial.emit(&filter, condition, ever).at_most(MOST).done(denied);
        }
        trial.emit(&filter, condition, share).at_most(MOST).done(denied);
    }
    Ok(())
}
