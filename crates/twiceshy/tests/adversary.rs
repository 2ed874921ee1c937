//! The adversary of Lee, McCauley, Singh, Stein, "Telescoping Filter", section
//! 6.1: it asks again what was a false positive before.
//!
//! Random queries, `|Q|/|S|` for each key, are asked in rounds of ten passes; after
//! a round those that were never a false positive in it are dropped. It ends
//! when a hundredth as many queries as keys are left, or after 30 rounds. The
//! figure is the false-positive rate of the last round.

mod harness;

use harness::Random;
use twiceshy::{AnyFilter, Digest, Spec};

/// 2^18 slots, filled to 0.95.
const KEYS: usize = 249_036;

struct Played {
    /// False positives for each query of each round.
    rounds: Vec<f64>,
    filter: AnyFilter,
}

impl Played {
    fn last(&self) -> f64 {
        *self.rounds.last().expect("at least one round")
    }
}

fn play(spec: &str, per_key: usize) -> Played {
    let spec: Spec = spec.parse().expect("a filter");
    let mut random = Random(per_key as u64);
    let mut filter = spec.build(KEYS).expect("a capacity");
    random.digests(KEYS).into_iter().for_each(|key| {
        filter.insert(key).expect("room");
    });
    let mut queries: Vec<(Digest, bool)> =
        random.digests(per_key * KEYS).into_iter().map(|query| (query, false)).collect();
    let mut rounds = Vec::new();
    while rounds.is_empty() || (queries.len() * 100 > KEYS && rounds.len() < 30) {
        let mut positives = 0;
        for _ in 0..10 {
            for (query, was_positive) in &mut queries {
                if filter.contains(*query) {
                    positives += 1;
                    *was_positive = true;
                    filter.adapt(*query).expect("in memory");
                }
            }
        }
        rounds.push(f64::from(positives) / (10 * queries.len()) as f64);
        queries.retain(|(_, was_positive)| *was_positive);
        queries.iter_mut().for_each(|(_, was_positive)| *was_positive = false);
    }
    Played { rounds, filter }
}

/// The table of `docs/papers.md`.
#[test]
#[ignore = "takes minutes; run it with --release -- --ignored --nocapture"]
fn the_whole_table() {
    let filters = std::env::var("ONLY").unwrap_or_else(|_| {
        "telescoping:f=8,code=tuned telescoping:f=8 telescoping:f=8,spent=reseed uncompressed:f=8 \
         extension:f=8"
            .into()
    });
    for spec in filters.split_whitespace() {
        for per_key in [1, 5, 10, 20, 50, 100] {
            let started = std::time::Instant::now();
            let played = play(spec, per_key);
            println!(
                "| {spec} | {per_key} | {:.4} % | {} rounds | {} spent | {:.1?} |",
                100.0 * played.last(),
                played.rounds.len(),
                played.filter.stats().spent,
                started.elapsed()
            );
        }
    }
}
