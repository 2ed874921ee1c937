//! What the report must show, on points of the quick run with fixed seeds: each
//! test says what is random in it, and how likely it would fail by chance. Criteria are
//! the papers' claims or a model's numbers; none was fitted to these seeds.
//! Overflow probabilities of blocks are those of `taf_exaf_entropy.csv`.

use std::collections::HashSet;
use std::sync::Arc;

use twiceshy_lab::experiment::{Figure, Point, Row, Seen, Setting, figures};
use twiceshy_lab::model::cell::Effort;
use twiceshy_lab::model::cyclic;
use twiceshy_lab::model::popularity::Popularity;
use twiceshy_lab::model::swapping::Swapping;
use twiceshy_lab::workload::Recording;

/// epsilon of the quotient filters' 8-bit remainders.
const EPSILON: f64 = 1.0 / 256.0;

/// The first seed: the criteria below were written before any trial had it.
const SEED: u64 = 7_000;

fn quick() -> Setting {
    Setting { quick: true, ..Setting::default() }
}

fn figure(id: &str) -> Figure {
    figures().into_iter().find(|figure| figure.id == id).unwrap_or_else(|| panic!("no figure {id}"))
}

/// The points of a figure's quick run.
struct Points(Vec<Point>);

impl Points {
    fn of(id: &str) -> Self {
        Points((figure(id).points)(&quick()))
    }

    /// The trials of one point with so many seeds.
    fn trials(&self, panel: &str, series: &str, x: f64, seeds: u64) -> Vec<f64> {
        let wanted =
            |point: &&Point| point.panel == panel && point.series == series && point.x == x;
        let point = self.0.iter().find(wanted);
        let point = point.unwrap_or_else(|| panic!("no point {panel}, {series}, {x}"));
        (SEED..SEED + seeds).map(|seed| (point.run)(seed).expect("a trial")).collect()
    }

    /// The sum of their trials.
    fn sum(&self, panel: &str, series: &str, xs: &[f64], seeds: u64) -> f64 {
        xs.iter().flat_map(|&x| self.trials(panel, series, x, seeds)).sum()
    }
}

#[test]
fn every_figure_is_there_and_no_two_points_are_in_one_place() {
    let figures = figures();
    let ids: Vec<&str> = figures.iter().map(|figure| figure.id).collect();
    let expected = "acf-1 acf-2 acf-3 acf-4 acf-5 acf-6 acf-7 support-1 support-2 support-3 \
                    support-4 support-bound taf-2 taf-3 taf-4 taf-5 simplified-failures \
                    broom-rounds broom-adversary";
    assert_eq!(ids, expected.split_whitespace().collect::<Vec<_>>());
    let stream: Vec<u32> = (0..10_000).collect();
    let recording = Recording { name: "own".into(), distinct: 10_000, stream, stored: None };
    let recorded = Setting { recording: Some(Arc::new(recording)), ..quick() };
    for setting in [quick(), Setting::default(), recorded] {
        for figure in &figures {
            let points = (figure.points)(&setting);
            let places: HashSet<_> = points
                .iter()
                .map(|point| (&point.panel, &point.series, point.x.to_bits(), point.trials > 0))
                .collect();
            assert!(!points.is_empty() && places.len() == points.len(), "{}", figure.id);
        }
    }
}

/// Rows in which all curves are the same show nothing that any paper shows.
#[test]
fn no_verdict_is_reached_before_the_rows_are() {
    for figure in figures() {
        let row = |point: Point| Row {
            figure: figure.id.into(),
            panel: point.panel,
            series: point.series,
            x: point.x,
            mean: 0.5,
            standard_error: 0.01,
            trials: point.trials,
        };
        let rows: Vec<Row> = (figure.points)(&quick()).into_iter().map(row).collect();
        for rows in [&rows[..], &[]] {
            let verdict = (figure.verdict)(rows);
            assert_ne!(verdict.seen, Seen::Yes, "{} of {} rows: {verdict}", figure.id, rows.len());
        }
    }
}

/// Rows as the models have them, known to a hundredth: 12 bits a cell, n_e = 10. The paper's
/// text says that the adaptive filters are better than the plain one at every A/S; by its own
/// model, and ours, three selector bits are not from some A/S on. The report says so, and why.
#[test]
fn what_contradicts_a_paper_is_said_with_the_reason() {
    const PLAIN: f64 = 3.8 / 4095.0;
    let rows = |worst: bool| -> Vec<Row> {
        let mut rows = Vec::new();
        for x in [1.0, 10.0, 50.0, 100.0] {
            let setting = cyclic::Setting { cells: 4, load: 0.95, absent: x, repeats: 10.0 };
            let popularity = Popularity::equal(10.0);
            let swapping = Swapping { tables: 2, slots: 4, values: 4095.0, retry: false };
            let swapping = swapping.rate(0.95, x, &popularity, Effort::USUAL, 1).mean;
            let cyclic = |s: u32| cyclic::Functions::equal(12 - s, s).table_rate(&setting);
            // Without three selector bits there would be nothing to contradict.
            let third = if worst { cyclic(3) } else { cyclic(2) };
            let series = [
                ("plain", PLAIN),
                ("cyclic-1", cyclic(1)),
                ("cyclic-2", cyclic(2)),
                ("cyclic-3", third),
                ("swapping", swapping),
            ];
            rows.extend(series.map(|(series, mean)| Row {
                figure: "acf-2".into(),
                panel: "n_e = 10".into(),
                series: series.into(),
                x,
                mean,
                standard_error: mean / 100.0,
                trials: 10,
            }));
        }
        rows
    };
    let verdict = |worst| (figure("acf-2").verdict)(&rows(worst));
    let contradicted = verdict(true);
    assert_eq!(contradicted.seen, Seen::No, "{contradicted}");
    let said = contradicted.to_string();
    assert!(said.starts_with("not as in the paper: "), "{said}");
    assert!(said.contains("with s = 3, whose first pass costs eight times"), "{said}");
    assert_ne!(verdict(false).seen, Seen::No, "{}", verdict(false));
}

/// A recording takes the place of the traces, and verdicts can live with that.
#[test]
fn figures_about_traces_run_on_a_recording() {
    let stream: Vec<u32> = (0..3000).chain(0..3000).collect();
    let recording = Recording { name: "own".into(), distinct: 3000, stream, stored: None };
    let setting = Setting { recording: Some(Arc::new(recording)), ..quick() };
    for id in ["acf-5", "support-1", "support-2", "taf-3"] {
        let figure = figure(id);
        let points = (figure.points)(&setting);
        let named = |point: &Point| point.panel.contains("own") || point.series.contains("own");
        assert!(points.iter().all(named), "{id}");
        // A/S = 100 would leave 30 keys to store.
        assert!(points.iter().all(|point| point.x <= 29.0), "{id}");
        let rows: Vec<Row> = points
            .into_iter()
            .map(|point| Row {
                figure: id.into(),
                mean: (point.run)(1).expect("a trial"),
                panel: point.panel,
                series: point.series,
                x: point.x,
                standard_error: 0.0,
                trials: 1,
            })
            .collect();
        assert!(rows.iter().any(|row| row.mean > 0.0), "{id}");
        assert!(!(figure.verdict)(&rows).text.is_empty());
    }
}

/// 8-bit cells, A/S = 1 and 5: of 80,000 distinct absent flows in the three traces
/// those that collide are 1.5 % (cuckooing), 3 % (swapping, cyclic s = 1), 6 % and
/// 12 % (s = 2, 3), each a Poisson number, and nearly all are fixed at once: 1,200,
/// 2,400, 4,800, 9,600. Neighbours are 20 standard deviations apart: by chance the
/// order is another one with probability below 10^-50.
#[test]
fn on_flow_traces_cuckooing_is_lowest_and_three_selector_bits_are_worst() {
    let mut sums = [0.0; 5];
    for (id, trace) in
        [("support-2", "Chicago A"), ("support-3", "Chicago B"), ("support-4", "San Jose")]
    {
        let points = Points::of(id);
        let panel = format!("8 bits a cell, {trace}, trains");
        let filters = ["cuckooing", "swapping", "cyclic-1", "cyclic-2", "cyclic-3"];
        for (sum, filter) in sums.iter_mut().zip(filters) {
            *sum += points.sum(&panel, filter, &[1.0, 5.0], 1);
        }
    }
    let [cuckooing, swapping, one, two, three] = sums;
    assert!(cuckooing < swapping.min(one), "{sums:?}");
    assert!(swapping.max(one) < two && two < three, "{sums:?}");
    // Six rates, beside six times 1.48 % of the plain filter.
    let plain = 6.0 * 0.0148;
    assert!(cuckooing.max(swapping).max(one) < plain, "{sums:?} and plain {plain}");
}

/// 16-bit cells, n_e = 10, A/S = 20, 50 and 100 with four seeds: false positives of the
/// swapping filter against the chain of section 3.3. Nearly each is of another colliding key,
/// so their number is Poisson: 5.5 standard deviations are exceeded with probability 10^-7.
/// By the same chain the gain over the plain filter's 5.8 * 10^-5 is n_e/2, to the 5 % to
/// which the paper reports agreement.
#[test]
fn where_collisions_are_rare_the_gain_is_half_the_repeats() {
    const PLAIN: f64 = 3.8 / 65_535.0;
    const SEEDS: u64 = 4;
    let points = Points::of("acf-3");
    let filter = Swapping { tables: 2, slots: 4, values: 65_535.0, retry: false };
    let (mut seen, mut expected, mut plain) = (0.0, 0.0, 0.0);
    for x in [20.0, 50.0, 100.0] {
        // As many keys as make two million queries at most.
        let keys = (2e6_f64 / (x * 10.0)).min(7_782.0).floor();
        let queries = keys * x * 10.0 * SEEDS as f64;
        let popularity = Popularity::zipf(keys * x, 0.0, 10.0);
        let model = filter.rate(0.95, x, &popularity, Effort::USUAL, 1).mean;
        seen += points.sum("n_e = 10", "swapping", &[x], SEEDS) / SEEDS as f64 * queries;
        expected += model * queries;
        plain += PLAIN * queries;
    }
    assert!((seen - expected).abs() < 5.5 * expected.sqrt(), "{seen}, not {expected}");
    let gain = plain / expected;
    assert!((gain / 5.0 - 1.0).abs() < 0.05, "{gain}, not n_e/2 = 5");
}

/// Rates are means over a thousand keys or more, each of which is in the way of a
/// Poisson number of absent keys: relative standard deviations are below 3 %, and
/// the analytic rates (`acf_cyclic_analytic.csv`, `acf_swapping_mc.csv`) at
/// A/S = 50 are 1.38 times the plain filter's and more, at A/S = 1 at most 0.42:
/// 12 standard deviations.
#[test]
fn eight_bit_cells_lose_to_the_plain_filter_above_forty() {
    let points = Points::of("acf-1");
    let plain = 0.0148;
    for filter in ["cyclic-1", "cyclic-2", "cyclic-3", "swapping"] {
        for x in [50.0, 100.0] {
            let rate = points.sum("n_e = 10", filter, &[x], 1);
            assert!(rate > plain, "{filter} at {x}: {rate}");
        }
    }
    for filter in ["cyclic-1", "cyclic-2", "swapping"] {
        let rate = points.sum("n_e = 10", filter, &[1.0], 1);
        assert!(rate < plain, "{filter} at 1: {rate}");
    }
}

/// A/S = 5 and 20 with three seeds: 470 false positives of the telescoping filter
/// (one for each distinct query that collides), as many of the swapping filter,
/// 940 and 1,880 with two and three selector bits: 12 standard deviations
/// of Poisson numbers. (The cuckooing filter has half as many at first, and a few
/// that it cannot fix, which may cost more than all others together: nothing that a
/// test could count on, see the figure.)
///
/// At A/S = 100 a block is spent with probability 0.985 in every one of 9: below
/// 10^-16 for none of them, and then known false positives come back all the time.
#[test]
fn telescoping_is_best_on_the_active_set_until_its_blocks_are_spent() {
    let points = Points::of("taf-2");
    let moderate = |filter| points.sum("active set", filter, &[5.0, 20.0], 3);
    let telescoping = moderate("telescoping");
    for other in ["cyclic-2", "cyclic-3"] {
        assert!(telescoping < moderate(other), "{telescoping} and {other} {}", moderate(other));
    }
    // Equal means: the difference of two Poisson numbers of 470 is below 5 of its
    // standard deviations but with probability 10^-6.
    let allowed = 5.0 * (2.0 * 470.0_f64).sqrt() / 1e6;
    assert!(telescoping < moderate("swapping") + allowed, "{telescoping}");
    // Three trials beside six: above the mean of those by five standard deviations of Poisson
    // numbers.
    let spent = 2.0 * points.sum("active set", "telescoping", &[100.0], 3);
    let deviation = (1e6 * (2.0 * spent + telescoping)).sqrt() / 1e6;
    assert!(spent > telescoping + 5.0 * deviation, "{telescoping}, {spent} at 100");
}

/// A/S = 20: an extension filter's block is spent with probability 0.165, a
/// telescoping filter's with 0.0004. Of 91 blocks (13 a seed) none or one of the
/// former and as many of the latter: below 10^-7.
#[test]
fn extensions_are_worse_than_selectors_in_the_same_space() {
    let points = Points::of("taf-2");
    let [extension, telescoping] =
        ["extension", "telescoping"].map(|filter| points.sum("active set", filter, &[20.0], 7));
    // Five standard deviations of Poisson numbers of a million queries each.
    let deviation = (1e6 * (extension + telescoping)).sqrt() / 1e6;
    assert!(extension > telescoping + 5.0 * deviation, "{extension}, {telescoping}");
}

/// 3,891 keys are 64 blocks. At |Q|/|S| = 20 a telescoping filter's is spent with
/// probability 0.0004, some one with 0.024, and then the adversary may win: 6 of 11
/// games with probability below 10^-7. At 50 it is 0.27: none with 0.73^64 < 10^-8;
/// an extension filter's 0.89.
///
/// A key of the cyclic filter with s = 1 has queries on both of its fingerprints
/// with probability (1 - e^-0.186)^2 = 0.029 at 50: a Poisson number of keys with
/// mean 112, whose queries are false positives for ever.
#[test]
fn the_adversary_wins_above_twenty_queries_a_key_and_loses_where_nothing_is_spent() {
    let points = Points::of("taf-4");
    let last = |filter, x, seeds| points.trials("adversary", filter, x, seeds);
    let mut at_twenty = last("telescoping", 20.0, 11);
    at_twenty.sort_by(f64::total_cmp);
    assert!(at_twenty[5] <= EPSILON, "{at_twenty:?}");
    // The adversary wins, as the game has it: above twice epsilon by more than chance.
    for x in [50.0, 100.0] {
        for filter in ["telescoping", "extension", "cyclic-1"] {
            let rate = last(filter, x, 1)[0];
            assert!(rate > explained(2.0 * EPSILON), "{filter} at {x}: {rate}");
        }
    }
    // No block is ever spent, or a spent one takes other hash functions.
    for filter in ["uncompressed, 18 bits a slot", "telescoping-reseed"] {
        for x in [5.0, 50.0, 100.0] {
            let rate = last(filter, x, 1)[0];
            assert!(rate <= explained(EPSILON), "{filter} at {x}: {rate}");
        }
    }
}

/// The largest rate that chance explains (10^-6) of a round of at least a hundredth as many
/// distinct queries as keys, 39, each of which is a false positive with this probability:
/// Chernoff's bound, as in `game.rs`. Passes over the same queries do not make it larger.
fn explained(probability: f64) -> f64 {
    let divergence = |rate: f64| {
        let other = (1.0 - rate) * ((1.0 - rate) / (1.0 - probability)).ln();
        rate * (rate / probability).ln() + other
    };
    let rates = (1..1000).map(|thousandths| f64::from(thousandths) / 1000.0);
    let mut above = rates.filter(|&rate| rate > probability);
    above.find(|&rate| 39.0 * divergence(rate) > 1e6_f64.ln()).expect("39 queries tell")
}

/// The largest rate of any round.
#[test]
fn broom_filters_are_flat() {
    let points = Points::of("broom-adversary");
    for filter in ["broom", "broom-faithful"] {
        for x in [1.0, 20.0, 100.0] {
            let rate = points.trials("adversary", filter, x, 1)[0];
            assert!(rate <= explained(EPSILON), "{filter} at {x}: {rate}");
        }
    }
    let rounds = Points::of("broom-rounds");
    for round in [2.0, 3.0, 4.0, 5.0] {
        let rate = rounds.trials("|Q| = 20 |S|", "broom", round, 1)[0];
        assert!(rate <= explained(EPSILON), "round {round}: {rate}");
        assert_eq!(rounds.trials("|Q| = 20 |S|", "plain", round, 1), [1.0]);
    }
}
