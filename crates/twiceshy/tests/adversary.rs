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
    play_with(spec, per_key, KEYS)
}

fn play_with(spec: &str, per_key: usize, keys: usize) -> Played {
    let spec: Spec = spec.parse().expect("a filter");
    let mut random = Random(per_key as u64);
    let mut filter = spec.build(keys).expect("a capacity");
    random.digests(keys).into_iter().for_each(|key| {
        filter.insert(key).expect("room");
    });
    let mut queries: Vec<(Digest, bool)> =
        random.digests(per_key * keys).into_iter().map(|query| (query, false)).collect();
    let mut rounds = Vec::new();
    while rounds.is_empty() || (queries.len() * 100 > keys && rounds.len() < 30) {
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

/// One pass finds the first-pass rate, nine more find nothing: a tenth of it.
/// 249,036 queries, 918 expected false positives, 5.5 standard deviations.
fn assert_first_round(played: &Played) {
    let first_pass = played.filter.spec().first_pass_rate(0.95);
    let off = (10.0 * played.rounds[0] / first_pass - 1.0) * (first_pass * KEYS as f64).sqrt();
    assert!(off.abs() < 5.5, "{}: {:?}, {off:.1} sigma", played.filter.spec(), played.rounds);
}

/// Figures of the public C implementation (which differ between seeds by a factor
/// of two where counts are small): 0.037 %, 0, 0, 0.23 % for the telescoping
/// filter at 1, 5, 10 and 20 queries a key, 0.035 % at 20 for the uncompressed.
/// Up to 10 the rate stays below epsilon in every round.
#[test]
fn telescoping_filters_withstand_up_to_20_queries_a_key() {
    for spec in ["telescoping:f=8,code=tuned", "telescoping:f=8,spent=reseed", "uncompressed:f=8"] {
        assert_first_round(&play(spec, 1));
        for per_key in [5, 10] {
            let played = play(spec, per_key);
            assert!(played.rounds.iter().all(|&rate| rate < 1.0 / 256.0), "{:?}", played.rounds);
            assert_eq!(played.last(), 0.0, "{spec} at {per_key}");
        }
        let last = play(spec, 20).last();
        assert!(last < 2.0 * 0.0023, "{spec} at 20: {last}");
    }
}

/// The C implementation has 0.037 %, 1.4 %, 6.7 %, 99 %. Ours refuses fewer blocks, as
/// slots behind the last extended one cost nothing, so it is better while there
/// is anything to win.
#[test]
fn the_extending_filter_collapses_at_20_queries_a_key() {
    assert_first_round(&play("extension:f=8", 1));
    for (per_key, most) in [(5, 0.014), (10, 0.067)] {
        let played = play("extension:f=8", per_key);
        assert!(played.last() < 2.0 * most, "{per_key}: {:?}", played.rounds);
    }
    let last = play("extension:f=8", 20).last();
    assert!(last > 0.9, "at 20: {last}");
}

/// The sustained rate: a broom filter's false positives are at most epsilon in
/// every round, within 5.5 standard deviations, at any number of queries.
#[test]
fn broom_filters_keep_epsilon_in_every_round() {
    for spec in ["broom:f=8", "broom:f=8,form=faithful"] {
        for per_key in [1, 10, 50] {
            let played = play_with(spec, per_key, 30_000);
            let (mut asked, keys) = (per_key as f64 * 30_000.0, 30_000.0);
            for rate in &played.rounds {
                let most = 1.0 / 256.0 + 5.5 * (1.0 / 256.0 / (10.0 * asked)).sqrt();
                assert!(*rate < most, "{spec} at {per_key}: {:?}", played.rounds);
                // At least this many are left, or the game is over.
                asked = keys / 100.0;
            }
        }
    }
}

/// The table of `docs/papers.md`.
#[test]
#[ignore = "takes minutes; run it with --release -- --ignored --nocapture"]
fn the_whole_table() {
    let filters = [
        "telescoping:f=8,code=tuned",
        "telescoping:f=8",
        "telescoping:f=8,spent=reseed",
        "uncompressed:f=8",
        "extension:f=8",
        "broom:f=8",
        "broom:f=8,form=faithful",
    ];
    for spec in filters {
        for per_key in [1, 5, 10, 20, 50, 100] {
            let started = std::time::Instant::now();
            let played = play(spec, per_key);
            // Past the cliff, a block that resets loses for good; one that takes
            // other hash functions does not.
            if per_key >= 50 {
                let wins =
                    ["reseed", "uncompressed", "broom"].iter().any(|name| spec.contains(name));
                let last = played.last();
                let most = 1.0 / 256.0;
                assert!(if wins { last < most } else { last > 0.5 }, "{spec} {per_key}: {last}");
            }
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
