//! Which filter to choose: ranks all that fit the memory by the models' predictions.
//!
//! ```
//! use twiceshy_lab::model::popularity::Popularity;
//! use twiceshy_lab::plan::{Question, plan, predict::Stream};
//! let stream = Stream { absent: 5.0, popularity: Popularity::equal(50.0) };
//! let answer = plan(&Question { keys: 100_000, bits: 11.6, stream, hostile: false });
//! assert!(answer.choices[0].adapts);
//! ```

pub mod hostile;
pub mod place;
pub mod predict;

use std::cmp::Ordering;

use crate::design::Design;
use crate::entrants::{self, Entrant};
use serde::Serialize;

use predict::{Built, Stream};

/// What to plan for.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Keys to store.
    pub keys: usize,
    /// Bits of memory per key.
    pub bits: f64,
    /// Queries for absent keys.
    pub stream: Stream,
    /// Whether the queries come from an adversary, who makes `stream.absent` queries per key.
    pub hostile: bool,
}

/// How far a prediction of a filter, by its label, may be off, as a share of it;
/// `tests/lab/models.rs` holds the filters to it.
///
/// Most are within 5 %, telescoping and extension filters within 20 % where blocks begin to
/// be spent. A cuckooing filter whose adaptations each bring about one further false
/// positive has avalanches that no mean field knows.
#[must_use]
pub fn model_error(filter: &str) -> f64 {
    match filter {
        "cuckooing" => 0.5,
        _ => 0.25,
    }
}

/// A filter that fits. The names of the fields are those of the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// From 1.
    pub rank: usize,
    /// Its label.
    pub filter: String,
    /// The description to paste into code.
    pub spec: String,
    /// Memory that it takes when it is built.
    pub bits_per_key: f64,
    /// The share of its cells that are occupied.
    pub load: f64,
    /// The false-positive rate of keys that were never queried.
    pub first_pass_rate: f64,
    /// False positives per query of the stream.
    pub rate: f64,
    /// Remote reads per query of the stream.
    pub reads_per_query: f64,
    /// Whether it adapts.
    pub adapts: bool,
    /// Whether it is a filter of the library; others are there to compare them with.
    pub library: bool,
    /// Distinct queries per key with which an adversary breaks it; `None` for more than
    /// 8192 or never, or if there is no adversary.
    pub breaks_at: Option<f64>,
}

/// The filters that fit, the best first, and a sentence.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The best first.
    pub choices: Vec<Choice>,
    /// The filters that do not fit, and why.
    pub left_out: Vec<(String, String)>,
    /// The recommendation.
    pub advice: String,
}

/// Filters of more keys are sized as one of this many, to less than a thousandth (a
/// simplified filter comes in whole subtables: to a twentieth).
const SIZED_KEYS: usize = 1 << 20;

/// Predicts every filter that fits, but for the whitelist, which has no model.
#[must_use]
pub fn plan(question: &Question) -> Plan {
    let entrants: Vec<Entrant> = entrants::all().into_iter().filter(is_modelled).collect();
    // Each has its own seed: the order in which they finish changes nothing.
    let predicted: Vec<Result<Choice, twiceshy_filters::Error>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            entrants.iter().map(|entrant| scope.spawn(move || choice(question, entrant))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no prediction panics")).collect()
    });
    let (mut choices, mut left_out) = (Vec::new(), Vec::new());
    for (entrant, predicted) in entrants.into_iter().zip(predicted) {
        match predicted {
            Ok(choice) => choices.push(choice),
            Err(error) => left_out.push((entrant.name, error.to_string())),
        }
    }
    // The others are only there to compare with.
    if !choices.iter().any(|choice| choice.library) {
        choices.clear();
    }
    choices.sort_by(|a, b| fewer_reads(question, a, b));
    for (index, choice) in choices.iter_mut().enumerate() {
        choice.rank = index + 1;
    }
    let advice = advice(question, &choices);
    Plan { choices, left_out, advice }
}

/// Which of two comes first, if the memory is given.
fn fewer_reads(question: &Question, a: &Choice, b: &Choice) -> Ordering {
    let reads = a.reads_per_query.total_cmp(&b.reads_per_query);
    // Of the broken, and of equals, the last to break; then the smaller.
    let later = b.breaks_at.unwrap_or(f64::MAX).total_cmp(&a.breaks_at.unwrap_or(f64::MAX));
    let smaller = a.bits_per_key.total_cmp(&b.bits_per_key);
    match (a.survives(question), b.survives(question)) {
        (true, true) => reads.then(later).then(smaller),
        (false, false) => later.then(smaller),
        (a, b) => b.cmp(&a),
    }
}

fn is_modelled(entrant: &Entrant) -> bool {
    !matches!(entrant.design, Design::Whitelist(_))
}

impl Choice {
    /// Whether it holds against an adversary with so many queries.
    #[must_use]
    pub fn survives(&self, question: &Question) -> bool {
        self.breaks_at.is_none_or(|at| question.stream.absent < at)
    }
}

fn choice(question: &Question, entrant: &Entrant) -> twiceshy_filters::Result<Choice> {
    let keys = question.keys.min(SIZED_KEYS);
    let filter = entrant.build_within(keys, question.bits)?;
    let (design, stats) = (filter.design(), filter.stats());
    let load = keys as f64 / stats.cells as f64;
    let built = Built { design, load, cached: filter.cached_keys() as f64 / keys as f64 };
    drop(filter);
    // It was sized for fewer keys than there will be.
    design.base().map_or(Ok(()), |spec| spec.check_capacity(question.keys))?;
    Ok(predicted(question, &built, stats.bits as f64 / keys as f64))
}

/// What the models say of a filter that takes so many bits per key.
fn predicted(question: &Question, built: &Built, bits_per_key: f64) -> Choice {
    let Built { design, load, .. } = *built;
    let first_pass_rate = design.first_pass_rate(load);
    let mut choice = Choice {
        rank: 0,
        filter: design.label(),
        spec: design.to_string(),
        bits_per_key,
        load,
        first_pass_rate,
        rate: 0.0,
        reads_per_query: 0.0,
        adapts: design.adapts(),
        library: design.library().is_some(),
        breaks_at: None,
    };
    let prediction = built.predict(&question.stream);
    choice.rate = prediction.rate;
    choice.reads_per_query = prediction.reads;
    if question.hostile {
        choice.breaks_at = hostile::breaks_at(built, question.keys as f64);
        let survives = choice.survives(question);
        let sustained = if survives { hostile::sustained(built) } else { 1.0 };
        choice.reads_per_query = prediction.reads / prediction.rate * sustained;
        choice.rate = sustained;
    }
    choice
}

/// The recommendation for a ranking.
fn advice(question: &Question, choices: &[Choice]) -> String {
    let Some(best) = choices.first() else {
        let Question { keys, bits, .. } = question;
        return format!(
            "No filter of {keys} keys fits {bits} bits per key; allow more bits, or cut the keys \
             into several filters."
        );
    };
    if question.hostile {
        return hostile_advice(question, best, choices);
    }
    let rival = choices.iter().find(|choice| choice.adapts != best.adapts);
    let repeats = question.stream.popularity.repeats();
    let mut advice = match rival {
        None => format!("Take {}.", best.filter),
        Some(rival) => {
            let times = rival.reads_per_query / best.reads_per_query;
            if best.adapts {
                format!(
                    "Take {}: it reads the store {times:.1} times less often than {}, the best \
                     filter that does not adapt.",
                    best.filter, rival.filter
                )
            } else {
                format!(
                    "Adapting does not pay: with {repeats} queries for an absent key, {} reads the \
                     store {times:.1} times less often than {}, the best filter that adapts.",
                    best.filter, rival.filter
                )
            }
        }
    };
    let error = model_error(&best.filter);
    let close: Vec<&str> = choices[1..]
        .iter()
        .take_while(|choice| choice.reads_per_query < best.reads_per_query * (1.0 + error))
        .map(|choice| choice.filter.as_str())
        .collect();
    if !close.is_empty() {
        let (percent, close) = (error * 100.0, close.join(", "));
        advice += &format!(" Within the error of the models ({percent:.0} %): {close}.");
    }
    advice
}

fn hostile_advice(question: &Question, best: &Choice, choices: &[Choice]) -> String {
    let absent = question.stream.absent;
    if !best.survives(question) {
        return format!(
            "No filter that fits {} bits per key holds against an adversary that asks for {absent} \
             keys a stored one; {} holds longest. Allow more memory.",
            question.bits, best.filter
        );
    }
    let fallen = choices.iter().filter(|choice| !choice.survives(question)).count();
    let beyond = match best.breaks_at {
        None => "whatever it asks".to_string(),
        Some(at) => format!("up to {at:.1} absent keys for each stored one"),
    };
    format!(
        "Take {}: {:.1} reads in a million queries, against an adversary, {beyond}. {fallen} of \
         the {} filters that fit would answer \"maybe\" to all that it asks in the end.",
        best.filter,
        best.reads_per_query * 1e6,
        choices.len()
    )
}

#[cfg(test)]
mod tests {
    use twiceshy::Guard;
    use twiceshy::guard::{GuardOptions, MemoryStore};
    use twiceshy_filters::KeyHasher;

    use super::*;
    use crate::model::popularity::Popularity;

    fn question(bits: f64, absent: f64, repeats: f64, hostile: bool) -> Question {
        let stream = Stream { absent, popularity: Popularity::equal(repeats) };
        Question { keys: 100_000, bits, stream, hostile }
    }

    #[test]
    fn without_repeats_adapting_does_not_pay() {
        let plan = plan(&question(11.6, 10.0, 1.0, false));
        assert!(!plan.choices[0].adapts, "{plan:?}");
        assert!(
            plan.advice.starts_with("Adapting does not pay: with 1 queries"),
            "{}",
            plan.advice
        );
    }

    #[test]
    fn with_repeats_it_does() {
        let plan = plan(&question(11.6, 10.0, 100.0, false));
        assert!(plan.choices[0].adapts, "{plan:?}");
        assert!(plan.advice.contains("times less often than plain-full"), "{}", plan.advice);
        let ranks: Vec<usize> = plan.choices.iter().map(|choice| choice.rank).collect();
        assert_eq!(ranks, (1..=plan.choices.len()).collect::<Vec<_>>());
        assert!(plan.choices.iter().all(|choice| choice.bits_per_key <= 11.6));
        assert!(plan.left_out.iter().any(|(name, _)| name == "broom"), "{:?}", plan.left_out);
    }

    #[test]
    fn against_an_adversary_reseeding_holds() {
        let plan = plan(&question(11.6, 50.0, 10.0, true));
        assert_eq!(plan.choices[0].filter, "telescoping-reseed", "{}", plan.advice);
        assert_eq!(plan.choices[0].breaks_at, None);
        // What does not hold is wrong about all that the adversary keeps.
        for choice in plan.choices.iter().filter(|choice| choice.breaks_at.is_some()) {
            assert_eq!(choice.rate, 1.0, "{choice:?}");
        }
        let fallen = |name: &str| plan.choices.iter().any(|c| c.filter == name && c.rate == 1.0);
        for name in ["telescoping", "plain-full", "cyclic-1", "cached", "aqf"] {
            assert!(fallen(name), "{name}: {plan:?}");
        }
    }

    /// A guard's default has to hold against all queries.
    #[test]
    fn the_guard_takes_what_ranks_first_for_an_unknown_workload() {
        let (keys, spec) = (100_000, GuardOptions::default().spec);
        let stats = spec.build(keys).expect("a filter").stats();
        let bits = stats.bits as f64 / keys as f64;
        for absent in [1.0, 10.0, 100.0, 1000.0] {
            let plan = plan(&question(bits, absent, 10.0, true));
            let guards = |choice: &&Choice| {
                if !choice.library {
                    return false;
                }
                let spec = choice.spec.parse().expect("what it printed itself");
                let options = GuardOptions::default().spec(spec);
                Guard::open(MemoryStore::default(), KeyHasher::random(), &options).is_ok()
            };
            let best = plan.choices.iter().find(guards).expect("it fits itself");
            assert_eq!(best.filter, spec.label(), "{absent} absent keys: {}", plan.advice);
        }
    }

    #[test]
    fn where_nothing_fits_it_says_so() {
        let plan = plan(&question(2.0, 10.0, 10.0, false));
        assert!(plan.choices.is_empty() && !plan.left_out.is_empty());
        assert!(plan.advice.starts_with("No filter of 100000 keys fits 2 bits"), "{}", plan.advice);
    }
}
