//! What the report must show, claim by claim, on rows of the quick run: the same points and as
//! many trials or half as many more, but only the points that a claim needs, with fixed seeds
//! of their own.
//! Criteria are the papers' claims or a model's numbers; none was fitted to these seeds.
//!
//! Where nothing else is said, a claim is seen by Welch's test of means (`significance.rs`), of
//! all points of a pair of curves together: where the means are the same, it is seen by
//! chance with probability 10^-6, `CHANCE`. A claim of several comparisons needs all of
//! them, and is seen by chance with no more than one of them is: nothing is to be corrected.
//! Other tests say what is random in them, and how likely they fail by chance.
//!
//! A filter that does what it should misses such a claim with a probability that each test
//! states: by how many standard deviations the score that it has on average (the sum of
//! `curves.rs`) is beyond the 4.75 that 10^-6 asks for. Both were found by drawing trials, as
//! skewed as counts are, with the means and the spreads of three quick runs of other seeds (1,
//! 90004, 90011). 5 standard deviations are 3 * 10^-7.
//! Overflow probabilities of blocks are those of `taf_exaf_entropy.csv`.

use std::collections::HashSet;
use std::sync::Arc;

use twiceshy_lab::experiment::curves::Curves;
use twiceshy_lab::experiment::{Figure, Measured, Point, Row, Seen, Setting, Verdict, figures};
use twiceshy_lab::model::cell::Effort;
use twiceshy_lab::model::cyclic;
use twiceshy_lab::model::popularity::Popularity;
use twiceshy_lab::model::swapping::Swapping;
use twiceshy_lab::workload::Recording;

/// epsilon of the quotient filters' 8-bit remainders.
const EPSILON: f64 = 1.0 / 256.0;

/// The first seed: the criteria below were written before any trial had it.
const SEED: u64 = 11_000_000;

fn quick() -> Setting {
    Setting { quick: true, ..Setting::default() }
}

fn figure(id: &str) -> Figure {
    figures().into_iter().find(|figure| figure.id == id).unwrap_or_else(|| panic!("no figure {id}"))
}

/// The points of a figure's quick run.
struct Points {
    figure: Figure,
    points: Vec<Point>,
}

impl Points {
    fn of(id: &str) -> Self {
        let figure = figure(id);
        let points = (figure.points)(&quick());
        Points { figure, points }
    }

    /// The same, with half as many more trials of each.
    fn with_half_as_many_more(mut self) -> Self {
        for point in &mut self.points {
            point.trials += point.trials / 2;
        }
        self
    }

    /// The trials of one point with so many seeds.
    fn trials(&self, panel: &str, series: &str, x: f64, seeds: u64) -> Vec<f64> {
        let wanted =
            |point: &&Point| point.panel == panel && point.series == series && point.x == x;
        let point = self.points.iter().find(wanted);
        let point = point.unwrap_or_else(|| panic!("no point {panel}, {series}, {x}"));
        (SEED..SEED + seeds).map(|seed| (point.run)(seed).expect("a trial").value).collect()
    }

    /// The rows of some curves at some places, with as many trials as the points have: seeds
    /// that no other row has.
    fn rows(&self, panel: &str, series: &[&str], xs: &[f64]) -> Vec<Row> {
        let wanted = |point: &Point| {
            let named = series.contains(&point.series.as_str()) && xs.contains(&point.x);
            point.panel == panel && named
        };
        let found: Vec<(u64, &Point)> =
            (0..).zip(&self.points).filter(|(_, point)| wanted(point)).collect();
        assert_eq!(found.len(), series.len() * xs.len(), "{panel}, {series:?}, {xs:?}");
        let row = |(place, point): (u64, &Point)| {
            let seeds = (0..point.trials).map(|trial| SEED + 1000 * (place + 1) + u64::from(trial));
            let trials: Vec<Measured> =
                seeds.map(|seed| (point.run)(seed).expect("a trial")).collect();
            Row::of(self.figure.id, point, &trials)
        };
        found.into_iter().map(row).collect()
    }

    fn verdict(&self, rows: &[Row]) -> Verdict {
        (self.figure.verdict)(rows)
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
            grain: 0.0,
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
                grain: 0.0,
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
            .map(|point| Row::of(id, &point, &[(point.run)(1).expect("a trial")]))
            .collect();
        assert!(rows.iter().any(|row| row.mean > 0.0), "{id}");
        assert!(!(figure.verdict)(&rows).text.is_empty());
    }
}

/// 8-bit cells, the three traces with packets as on a link, A/S = 1, 5 and 20, 12 trials each.
/// Flows that collide are fixed at once, nearly always: at A/S = 5, 100 of the 6,650 that a
/// trial asks for (cuckooing), 200 (swapping, cyclic s = 1), 400 and 800. Nearest to being
/// missed is cuckooing below swapping, a score of 10.6 ± 0.8: 7 standard deviations.
#[test]
fn on_flow_traces_cuckooing_is_lowest_and_three_selector_bits_are_worst() {
    const PLAIN: f64 = 3.8 / 255.0;
    let best = ["cuckooing", "swapping", "cyclic-1"];
    let filters = [&best[..], &["cyclic-2", "cyclic-3"]].concat();
    let traces =
        [("support-2", "Chicago A"), ("support-3", "Chicago B"), ("support-4", "San Jose")];
    let rows = traces.map(|(id, trace)| {
        let panel = format!("8 bits a cell, {trace}, trains");
        let points = Points::of(id).with_half_as_many_more();
        points.rows(&panel, &filters, &[1.0, 5.0, 20.0])
    });
    let rows = rows.concat();
    // Cuckooing lowest, swapping and s = 1 next, s = 3 worst: of all traces together.
    let verdict = Points::of("support-2").verdict(&rows);
    assert_eq!(verdict.seen, Seen::Yes, "{verdict}");
    // The plain filter's rate is known.
    let against_plain = Curves::new(&rows).standings_against(|_| true, &best, PLAIN);
    assert_eq!(against_plain.is_below(), Seen::Yes, "{}", against_plain.text());
}

/// 16-bit cells, n_e = 10, 36 trials at each of five A/S, of 30,000 absent keys. Of these 3.5
/// collide with the swapping filter, each is hardly ever a false positive twice, and so
/// their number is Poisson, 620 in all: the gain is known to 4 %. The criterion's factor of
/// 1.5 is 10.1 such errors to both sides of n_e/2, which is what the model has, and 5.0 are
/// needed: missed with 2 * 10^-7 on either side. The same number against the chain of section
/// 3.3: 5.5 standard deviations are exceeded with probability 10^-7.
#[test]
fn where_collisions_are_rare_the_gain_is_half_the_repeats() {
    const REPEATS: f64 = 10.0;
    const RATIOS: [f64; 5] = [5.0, 10.0, 20.0, 50.0, 100.0];
    let points = Points::of("acf-3");
    let rows = points.rows("n_e = 10", &["swapping"], &RATIOS);
    let verdict = points.verdict(&rows);
    assert_eq!(verdict.seen, Seen::Yes, "{verdict}");

    let filter = Swapping { tables: 2, slots: 4, values: 65_535.0, retry: false };
    let (mut seen, mut expected) = (0.0, 0.0);
    for row in &rows {
        // 38 keys fill 40 cells.
        let keys = (3e4 / row.x / 38.0).floor() * 38.0;
        let queries = keys * row.x * REPEATS * f64::from(row.trials);
        let popularity = Popularity::zipf(keys * row.x, 0.0, REPEATS);
        seen += row.mean * queries;
        expected += filter.rate(0.95, row.x, &popularity, Effort::USUAL, 1).mean * queries;
    }
    assert!((seen - expected).abs() < 5.5 * expected.sqrt(), "{seen}, not {expected}");
}

/// A/S = 1, 50 and 100, both n_e, 12 trials each of at most 10,000 absent keys: lower than
/// what is expected of the plain filter at 1, higher at both others. The analytic rates
/// (`acf_cyclic_analytic.csv`, `acf_swapping_mc.csv`) are at most 0.87 and at least 1.38 times
/// that. Nearest to being missed is cyclic with s = 1 above it, a score of 12.0 ± 0.4: 19
/// standard deviations.
#[test]
fn eight_bit_cells_lose_to_the_plain_filter_above_forty() {
    let points = Points::of("acf-1");
    let adaptive = ["cyclic-1", "cyclic-2", "cyclic-3", "swapping"];
    let panels = ["n_e = 10", "n_e = 30"];
    let rows = panels.map(|panel| points.rows(panel, &adaptive, &[1.0, 50.0, 100.0])).concat();
    let verdict = points.verdict(&rows);
    assert_eq!(verdict.seen, Seen::Yes, "{verdict}");
}

/// The active set, 54 trials of the cuckoo filters, 108 of cyclic with s = 1, and 72 of the
/// others. A block is spent with probability 0.0004 (telescoping) and 0.165 (extension) at
/// A/S = 20, and 0.985 at 100.
///
/// At 20, before blocks are spent, telescoping is below every cyclic filter: nearest to being
/// missed is s = 2, a score of 8.6 ± 0.6, 6.5 standard deviations. Its own rate at 100 is
/// above that with 8.7 ± 0.5, and the extension filter's at 50, where the two differ most,
/// with 9.9 ± 0.6.
///
/// Of the swapping filter, whose first pass costs as much, it is asserted only that telescoping
/// is not clearly above (10^-3): at 20 it is 2.3 standard errors below (7.3 against 8.1 * 10^-5),
/// so that this has probability 10^-7. The cuckooing filter has no part in this: at 20 few keys
/// that it cannot fix make it worse or not, and at 5 it is better (`papers.md`), for its first
/// pass costs half.
#[test]
fn telescoping_is_below_the_cyclic_filters_on_the_active_set_until_its_blocks_are_spent() {
    const PANEL: &str = "active set";
    let points = Points::of("taf-2").with_half_as_many_more();
    let others = ["swapping", "cyclic-1", "cyclic-2", "cyclic-3"];
    let mut rows = points.rows(PANEL, &others, &[20.0]);
    rows.extend(points.rows(PANEL, &["telescoping"], &[20.0, 50.0, 100.0]));
    rows.extend(points.rows(PANEL, &["extension"], &[50.0]));
    let curves = Curves::new(&rows);
    let against = |other| curves.standing(PANEL, "telescoping", other);
    for other in &others[1..] {
        assert_eq!(against(other).is_below(), Seen::Yes, "{other}: {}", against(other).text());
    }
    assert_ne!(against("swapping").is_below(), Seen::No, "{}", against("swapping").text());

    let at = |series, x| curves.pooled(PANEL, series, x, x).expect("a row");
    let [before, after] = [20.0, 100.0].map(|x| at("telescoping", x));
    assert_eq!(before.below(after), Seen::Yes, "{before:?}, {after:?}");
    // In the same space.
    let [telescoping, extension] = ["telescoping", "extension"].map(|series| at(series, 50.0));
    assert_eq!(telescoping.below(extension), Seen::Yes, "{telescoping:?}, {extension:?}");
}

/// Two tables at a load of 0.45, queries asked 10 and 100 times each, 60 trials, 120 of the cyclic
/// filter, which cannot fix 128 queries in all of those at 100. The cuckooing filter passes the
/// criterion; in its place one that never adapts fails it, and so does the cyclic filter,
/// which is not support optimal, as the paper says.
///
/// Asked 10 times, queries cost the cuckooing filter 1.26 ± 0.04, 19 standard errors below the
/// 2 of the criterion, where 5.3 are needed with 59 degrees of freedom. Asked 100 times, they
/// cost it 1.4 ± 0.3, by the few that it cannot fix at once: both together would be missed
/// once in a hundred times, so it is only asserted that this does not contradict. It would
/// from 2 and 3.5 errors on, 5.4 above the mean. The cyclic filter's 7.5 ± 0.6 are 9 beyond 2:
/// a score of 8.0 ± 0.3, 12 standard deviations (No asks for 3.3 only).
///
/// Under the theorem's own conditions, N = n, with 8-bit cells: epsilon is 0.0039, and about 30 keys
/// are moved per adaptation, so queries cost the cuckooing filter 1 + 30 * 0.0039 = 1.12. A trial has
/// 12 false positives at 10 repeats, 60 trials 714: 1.12 ± 0.04, which is 20 standard errors below 2.
/// At 100 repeats there are 71, 1.12 ± 0.13: together a score above 8, where 4.8 are needed.
///
/// The swapping filter, in bins of two cells of 4 bits, cannot fix about 2/15 of the queries that
/// collide: if the query matches the key in both cells, or both keys in one. A trial has about 67 of
/// them, so it costs 1 + 99 * 2/15 = 14 in epsilon |Q|, with a standard deviation of 5; the mean
/// of 24 trials is 12 standard errors beyond 2, where 6.3 are needed with 23 degrees of freedom.
#[test]
fn only_the_cuckooing_filter_is_bounded_by_the_support() {
    let points = Points::of("support-bound");
    let panel = "two tables, load 0.45";
    let mut rows = points.rows(panel, &["plain", "cyclic-1"], &[10.0, 100.0]);
    let theorem = "as in Theorem 1: two tables of n bins, 8 bits a cell";
    rows.extend(points.rows(theorem, &["plain", "cuckooing"], &[10.0, 100.0]));
    rows.extend(points.rows("bins of two cells", &["swapping"], &[100.0]));
    rows.extend(points.rows(panel, &["cuckooing"], &[10.0]));
    let verdict = points.verdict(&rows);
    assert_eq!(verdict.seen, Seen::Yes, "{verdict}");
    rows.extend(points.rows(panel, &["cuckooing"], &[100.0]));
    let verdict = points.verdict(&rows);
    assert_ne!(verdict.seen, Seen::No, "{verdict}");
    for other in ["plain", "cyclic-1"] {
        let of = |name: &'static str| rows.iter().filter(move |row| row.series == name).cloned();
        let renamed = of(other)
            .filter(|row| row.panel == panel)
            .map(|row| Row { series: "cuckooing".into(), ..row });
        let theorem = rows.iter().filter(|row| row.panel == theorem && row.series != "plain");
        let others = of("plain").chain(of("cyclic-1")).chain(of("swapping"));
        let mistaken: Vec<Row> = others.chain(theorem.cloned()).chain(renamed).collect();
        let verdict = points.verdict(&mistaken);
        assert_eq!(verdict.seen, Seen::No, "{other}: {verdict}");
    }
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
    // An extension filter's block is spent with probability 0.165 at 20: none of 128 with
    // 10^-10.
    let at_twenty = last("extension", 20.0, 2);
    let won = |rate: &f64| *rate > explained(2.0 * EPSILON);
    assert!(at_twenty.iter().any(won), "{at_twenty:?}");
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

/// The largest rate of any round, with the trials of the quick run: below epsilon, which
/// scores of 10.9 ± 0.2 and 11.5 ± 0.1 show: 30 standard deviations. Later rounds have few
/// queries, and what chance explains of epsilon is not exceeded, though it is a tenth of that
/// at most (`papers.md`).
#[test]
fn broom_filters_are_flat() {
    let points = Points::of("broom-adversary");
    let rows = points.rows("adversary", &["broom", "broom-faithful"], &[1.0, 20.0, 100.0]);
    let verdict = points.verdict(&rows);
    assert_eq!(verdict.seen, Seen::Yes, "{verdict}");
    let rounds = Points::of("broom-rounds");
    for round in [2.0, 3.0, 4.0, 5.0] {
        let rate = rounds.trials("|Q| = 20 |S|", "broom", round, 1)[0];
        assert!(rate <= explained(EPSILON), "round {round}: {rate}");
        assert_eq!(rounds.trials("|Q| = 20 |S|", "plain", round, 1), [1.0]);
    }
}
