//! Memory and rate: of a filter that is as full as its capacity, and after all its keys were
//! replaced several times.

use twiceshy_filters::Result;

use super::{Trial, digest};
use crate::contestant::Contestant;
use twiceshy_filters::KeyHasher;

/// The bars of one bit per slot.
const BITS: f64 = 12.5;
const RATE: f64 = 0.0021;

/// Absent keys for each stored one that the rate is measured with.
const SAMPLE: u64 = 10;

/// Replacements for each stored key.
const REPLACEMENTS: u64 = 5;

/// Steps of [`churn`] for each key.
pub(super) const CHURN_STEPS: f64 = (SAMPLE + 2 * REPLACEMENTS) as f64;

/// A filter at the load that its capacity implies.
pub(super) fn fresh(trial: &mut Trial<'_>) -> Result<()> {
    let (filter, hasher) = trial.filled()?;
    let denied = trial.denied(&filter, &hasher);
    let bits = filter.stats().bits_per_key();
    trial.emit(&filter, "bits per key", bits).at_most(BITS).done(denied);
    let rate = rate(trial, &filter, &hasher, trial.keys);
    trial.emit(&filter, "first-pass rate", rate).at_most(RATE).done(denied);
    Ok(())
}

/// The oldest key goes, a new one comes.
pub(super) fn churn(trial: &mut Trial<'_>) -> Result<()> {
    let (mut filter, hasher) = trial.filled()?;
    let replacements = REPLACEMENTS * trial.keys;
    for old in 0..replacements {
        assert!(filter.remove(digest(&hasher, old))?, "it was stored");
        filter.insert(digest(&hasher, old + trial.keys))?;
        if old.is_multiple_of(super::STRIDE) {
            trial.watch.advance(2 * super::STRIDE as usize);
        }
    }
    let stored = replacements..replacements + trial.keys;
    let denied = stored.filter(|&key| !filter.contains(digest(&hasher, key))).count() as u64;
    let stats = filter.stats();
    trial.emit(&filter, "bits per key", stats.bits_per_key()).at_most(BITS).done(denied);
    let rate = rate(trial, &filter, &hasher, replacements + trial.keys);
    trial.emit(&filter, "first-pass rate", rate).at_most(RATE).done(denied);
    trial.emit(&filter, "rebuilds", stats.rebuilds as f64).at_most(0.0).done(denied);
    Ok(())
}

/// The share of absent keys, from this number on, that are answered "maybe".
fn rate(trial: &Trial<'_>, filter: &Contestant, hasher: &KeyHasher, first: u64) -> f64 {
    let queries = SAMPLE * trial.keys;
    let positive = (first..first + queries).filter(|&query| {
        if query.is_multiple_of(super::STRIDE) {
            trial.watch.advance(super::STRIDE as usize);
        }
        filter.contains(digest(hasher, query))
    });
    positive.count() as f64 / queries as f64
}
