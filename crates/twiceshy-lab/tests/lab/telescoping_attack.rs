//! The adversary of Lee, McCauley, Singh, Stein, "Telescoping Filter", section
//! 6.1, against the filters of that paper and the broom filter: the false-positive
//! rate of the last round.

use twiceshy_filters::{Digest, Result, Spec, Stats};
use twiceshy_lab::adversary::game::{self, Defender, Outcome, Round};
use twiceshy_lab::adversary::telescoping::{Telescoping, telescoping};
use twiceshy_lab::contestant::Contestant;
use twiceshy_lab::entrants;

/// 2^18 slots, filled to 0.95.
const KEYS: u64 = 249_036;

struct Played {
    spec: String,
    outcome: Outcome,
    stats: Stats,
}

impl Played {
    fn rates(&self) -> Vec<f64> {
        self.outcome.rounds.iter().map(Round::rate).collect()
    }

    fn last(&self) -> f64 {
        self.outcome.last_round_rate()
    }
}

fn play(spec: &str, per_key: u32) -> Played {
    play_with(spec, per_key, KEYS)
}

fn play_with(spec: &str, per_key: u32, keys: u64) -> Played {
    let spec: Spec = spec.parse().expect("a filter");
    let mut filter = Contestant::new(spec.build(keys as usize).expect("a capacity"));
    let outcome = telescoping(&mut filter, keys, f64::from(per_key), u64::from(per_key));
    let outcome = outcome.expect("room");
    assert_eq!(outcome.false_negatives, 0, "{spec}");
    Played { spec: filter.spec(), outcome, stats: filter.stats() }
}

/// One pass finds the first-pass rate, nine more find nothing: a tenth of it.
/// 249,036 queries, 918 expected false positives, 5.5 standard deviations.
fn assert_first_round(played: &Played) {
    let (first_pass, rates) = (played.outcome.epsilon, played.rates());
    let off = (10.0 * rates[0] / first_pass - 1.0) * (first_pass * KEYS as f64).sqrt();
    assert!(off.abs() < 5.5, "{}: {rates:?}, {off:.1} sigma", played.spec);
    assert!(!played.outcome.won, "{}: a first round proves nothing", played.spec);
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
            let rates = played.rates();
            assert!(rates.iter().all(|&rate| rate < 1.0 / 256.0), "{rates:?}");
            assert_eq!(played.last(), 0.0, "{spec} at {per_key}");
        }
        let played = play(spec, 20);
        assert!(played.last() < 2.0 * 0.0023, "{spec} at 20: {}", played.last());
        assert!(!played.outcome.won, "{spec} at 20: {:?}", played.rates());
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
        assert!(played.last() < 2.0 * most, "{per_key}: {:?}", played.rates());
    }
    let played = play("extension:f=8", 20);
    assert!(played.last() > 0.9, "at 20: {}", played.last());
    assert!(played.outcome.won, "at 20: {:?}", played.rates());
}

/// The sustained rate: a broom filter's false positives are at most epsilon in
/// every round, within 5.5 standard deviations, at any number of queries.
#[test]
fn broom_filters_keep_epsilon_in_every_round() {
    for spec in ["broom:f=8", "broom:f=8,form=faithful"] {
        for per_key in [1, 10, 50, 100] {
            let played = play_with(spec, per_key, 30_000);
            for round in &played.outcome.rounds {
                let most = 1.0 / 256.0 + 5.5 * (1.0 / 256.0 / round.queries as f64).sqrt();
                assert!(round.rate() < most, "{spec} at {per_key}: {:?}", played.rates());
            }
            assert!(!played.outcome.won, "{spec} at {per_key}: {:?}", played.rates());
        }
    }
}

/// The tables of `docs/papers.md`: the rate of the last round, and the largest of any.
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
                assert_eq!(played.outcome.won, !wins, "{spec} {per_key}: {last}");
                assert!(wins || last > 0.5, "{spec} {per_key}: {last}");
            }
            println!(
                "| {spec} | {per_key} | {:.4} % | {:.4} % | {} rounds | {} spent | {:.1?} |",
                100.0 * played.last(),
                100.0 * played.rates().into_iter().fold(0.0, f64::max),
                played.outcome.rounds.len(),
                played.stats.spent,
                started.elapsed()
            );
        }
    }
}

/// A filter that does not say which queries are hopeless.
struct Silent(Contestant);

impl Defender for Silent {
    fn contains(&self, digest: Digest) -> bool {
        self.0.contains(digest)
    }

    fn insert(&mut self, digest: Digest) -> Result<bool> {
        self.0.insert(digest)
    }

    fn remove(&mut self, digest: Digest) -> Result<bool> {
        self.0.remove(digest)
    }

    fn adapt(&mut self, digest: Digest) -> Result<bool> {
        self.0.adapt(digest).map(|_| true)
    }

    fn first_pass_rate(&self) -> f64 {
        self.0.first_pass_rate()
    }
}

/// Queries that are counted without being asked change nothing of the game, whether the filter
/// knows which these are or not.
#[test]
fn a_game_without_hopeless_queries_is_the_same() {
    const FEW: u64 = 3_891;
    for text in [
        "plain:f=8",
        "cyclic:f=6,s=2,k=4,b=1",
        "swapping:f=8",
        "cuckooing:f=8",
        "extension:f=5",
        "telescoping:f=5",
        "cached:f=8",
        "aqf:f=6",
        "line:f=9",
    ] {
        let design = entrants::parse(text).expect("a filter").0[0].design;
        let contestant = || design.build(FEW as usize).expect("a capacity");
        let told = telescoping(&mut contestant(), FEW, 30.0, 5).expect("room");
        let adversary = Telescoping { queries: 30 * FEW };
        let all = game::play(&mut Silent(contestant()), &adversary, FEW, 5).expect("room");
        assert!(all.rounds[0].false_positives > 100, "{text}: {:?}", all.rounds);
        assert_eq!(told, all, "{text}");
    }
}
