//! Every absent key a hundred times, in random order: the false positives of the whole stream
//! for each query. A filter that adapts once and for all has a hundredth of its first-pass rate.

use twiceshy_filters::{Digest, Result};

use super::{Trial, digest};
use crate::contestant::Contestant;
use crate::workload::Repeats;

/// Absent keys for each stored one, and the bars.
pub(super) const RATIOS: [f64; 3] = [20.0, 40.0, 100.0];
const BARS: [f64; 3] = [2.5e-5, 3.5e-5, 4e-4];

/// How often each is asked for.
pub(super) const TIMES: u64 = 100;

/// Digests that are fetched at once, so that they are waited for together: the absent keys do
/// not fit the cache.
const FETCHED: usize = 64;

pub(super) fn run(trial: &mut Trial<'_>) -> Result<()> {
    for (ratio, most) in RATIOS.into_iter().zip(BARS) {
        let (mut filter, hasher) = trial.filled()?;
        let count = crate::adversary::queries(trial.keys, ratio);
        let absent: Vec<Digest> =
            (trial.keys..trial.keys + count).map(|key| digest(&hasher, key)).collect();
        let wasted = play(trial, &mut filter, &absent)?;
        let rate = wasted as f64 / (count * TIMES) as f64;
        let denied = trial.denied(&filter, &hasher);
        trial.emit(&filter, format!("A = {ratio}"), rate).at_most(most).done(denied);
    }
    Ok(())
}

/// False positives of the stream.
fn play(trial: &Trial<'_>, filter: &mut Contestant, absent: &[Digest]) -> Result<u64> {
    let mut stream = Repeats::new(absent.len() as u64, TIMES, trial.seed);
    let mut fetched = Vec::with_capacity(FETCHED);
    let (mut wasted, mut asked) = (0, 0);
    loop {
        fetched.clear();
        fetched.extend(stream.by_ref().take(FETCHED).map(|rank| absent[rank as usize]));
        if fetched.is_empty() {
            return Ok(wasted);
        }
        for &query in &fetched {
            if filter.contains(query) {
                wasted += 1;
                filter.adapt(query)?;
            }
        }
        asked += fetched.len() as u64;
        if asked.is_multiple_of(super::STRIDE) {
            trial.watch.advance(super::STRIDE as usize);
        }
    }
}
