//! Adversaries that ask again what was a false positive before.

use twiceshy_filters::Result;

use super::Trial;
use crate::adversary::game::{Adversary, Outcome, Round, play_watched};
use crate::adversary::queries;
use crate::adversary::recall::{self, Recall};
use crate::adversary::telescoping::{self, Telescoping};
use crate::contestant::Contestant;

/// Queries for each key of the telescoping paper's adversary, and the bar of its last round.
const RATIOS: [f64; 4] = [5.0, 20.0, 50.0, 100.0];
const LAST_ROUND: f64 = 1e-4;

/// Fresh queries for each key in a round of the recall adversary, and the bars.
const FRESH: [f64; 2] = [10.0, 100.0];
const KNOWN: [f64; 2] = [2e-4, 2e-3];

/// Rounds at the end whose known queries are counted.
const LAST_ROUNDS: usize = 5;

pub(super) fn telescoping_steps() -> f64 {
    RATIOS.iter().sum::<f64>() * telescoping::SUB_ROUNDS as f64
}

pub(super) fn recall_steps() -> f64 {
    FRESH.iter().sum::<f64>() * recall::ROUNDS as f64
}

pub(super) fn telescoping(trial: &mut Trial<'_>) -> Result<()> {
    for ratio in RATIOS {
        let queries = queries(trial.keys, ratio);
        let (filter, outcome) = play(trial, &Telescoping { queries }, |rounds| match rounds {
            [first] => first.queries,
            _ => 0,
        })?;
        let rate = outcome.last_round_rate();
        let condition = format!("A = {ratio}, last round");
        trial.emit(&filter, condition, rate).at_most(LAST_ROUND).done(outcome.false_negatives);
    }
    Ok(())
}

pub(super) fn recall(trial: &mut Trial<'_>) -> Result<()> {
    for (ratio, most) in FRESH.into_iter().zip(KNOWN) {
        let fresh = queries(trial.keys, ratio);
        // Only fresh queries are steps: how many others there are is not known beforehand.
        let (filter, outcome) = play(trial, &Recall { fresh }, |rounds| match rounds.len() % 2 {
            1 => fresh,
            _ => 0,
        })?;
        let known = recall::known_rounds(&outcome.rounds).rev().take(LAST_ROUNDS);
        let known = known.fold(Round::default(), |sum, round| Round {
            queries: sum.queries + round.queries,
            false_positives: sum.false_positives + round.false_positives,
        });
        let condition = format!("{ratio} n fresh a round, known ones");
        trial.emit(&filter, condition, known.rate()).at_most(most).done(outcome.false_negatives);
    }
    Ok(())
}

/// A game, and the filter at its end. `steps` of the rounds so far are those of the last one.
fn play(
    trial: &Trial<'_>,
    adversary: &dyn Adversary,
    steps: impl Fn(&[Round]) -> u64,
) -> Result<(Contestant, Outcome)> {
    let mut filter = trial.build()?;
    let mut watch = |rounds: &[Round]| {
        trial.watch.advance(usize::try_from(steps(rounds)).unwrap_or(usize::MAX));
    };
    let outcome = play_watched(&mut filter, adversary, trial.keys, trial.seed, &mut watch)?;
    Ok((filter, outcome))
}
