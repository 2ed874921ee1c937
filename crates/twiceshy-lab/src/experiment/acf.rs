//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 4:
//! figures 1 to 4 on uniform queries, 5 to 7 on packet traces.
//!
//! 131,072 cells of 8, 12 or 16 bits at load 0.95, selectors included. Every
//! absent key is as likely to be asked for as any other, n_e times on average.
//! The filters are the literal ones: a change that happens to collide again is
//! not tried again (`retry=0`).

use super::curves::{Curves, Standing, list, percent};
use super::measure::{Curve, LOAD, cyclic, plain, point, rate, swapping};
use super::significance::Estimate;
use super::traces::{Traffic, is_shuffled};
use super::{Axis, Figure, Point, Row, Seen, Setting, Verdict};
use crate::model::cell::Effort;
use crate::model::popularity::Popularity;
use crate::model::swapping::Swapping;
use crate::workload::{Size, Source, Trace};

const X: Axis = Axis { label: "absent keys for each stored one (A/S)", log: false };
const Y: Axis = Axis { label: "false-positive rate", log: true };

/// The ratios of the paper.
const RATIOS: &[f64] =
    &[1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
const QUICK_RATIOS: &[f64] = &[1.0, 5.0, 10.0, 20.0, 50.0, 100.0];

/// Queries for each absent key.
const REPEATS: &[u32] = &[10, 100, 1000];
const QUICK_REPEATS: &[u32] = &[10, 100];

/// 131,072 cells, filled to 0.95.
const KEYS: f64 = 124_518.0;
const QUICK_KEYS: f64 = 7_782.0;

/// Queries of one trial, beyond which it has fewer keys: the rate does not
/// depend on their number, only how well one trial knows it. The paper's largest trial would
/// ask 1.2 * 10^10. [`CAPPED`] says so in the report.
const MOST_QUERIES: f64 = 2e7;
const QUICK_MOST_QUERIES: f64 = 1e6;
/// The same in long cells, whose collisions are rare.
const QUICK_MOST_QUERIES_RARE: f64 = 2e6;

const CAPPED: &str = "; a trial of more than 2 * 10^7 queries (quick: 10^6, with 16 bits 2 * 10^6) has \
                      fewer keys, and as many queries for each";

/// Figures 1 to 7.
pub fn figures() -> Vec<Figure> {
    vec![
        Figure {
            id: "acf-1",
            title: "Uniform queries, 8 bits a cell",
            source: "Mitzenmacher et al., Adaptive Cuckoo Filters, figure 1",
            claim: "With 8 bits a cell the adaptive filters are better than the plain one only \
                    while A/S is small.",
            x: X,
            y: Y,
            points: |setting| uniform(setting, 8),
            verdict: lose_in_the_end,
        },
        Figure {
            id: "acf-2",
            title: "Uniform queries, 12 bits a cell",
            source: "Mitzenmacher et al., Adaptive Cuckoo Filters, figure 2",
            claim: "With 12 bits a cell the adaptive filters are better than the plain one at \
                    every A/S, and the swapping filter is the best of them almost everywhere.",
            x: X,
            y: Y,
            points: |setting| uniform(setting, 12),
            verdict: win_everywhere,
        },
        Figure {
            id: "acf-3",
            title: "Uniform queries, 16 bits a cell",
            source: "Mitzenmacher et al., Adaptive Cuckoo Filters, figure 3",
            claim: "With 16 bits a cell collisions are rare, and the swapping filter has about \
                    2/n_e of the plain one's false positives.",
            x: X,
            y: Y,
            points: |setting| uniform(setting, 16),
            verdict: gain_half_of_the_repeats,
        },
        Figure {
            id: "acf-4",
            title: "Varying fingerprint ranges",
            source: "Mitzenmacher et al., Adaptive Cuckoo Filters, figure 4",
            claim: "Varying ranges (s = 2, r = 2 or 3) are better than the swapping filter with \
                    16 bits a cell, with 12 bits only below A/S = 10, with 8 bits never.",
            x: X,
            y: Y,
            points: varying,
            verdict: better_in_long_cells,
        },
        trace_figure(
            "acf-5",
            "Packet traces, 8 bits a cell",
            "Mitzenmacher et al., Adaptive Cuckoo Filters, figure 5; traffic like its traces'",
            |setting| on_traces(setting, 8),
            |rows| win_on_traces(rows, 8),
        ),
        trace_figure(
            "acf-6",
            "Packet traces, 12 bits a cell",
            "Mitzenmacher et al., Adaptive Cuckoo Filters, figure 6; traffic like its traces'",
            |setting| on_traces(setting, 12),
            |rows| win_on_traces(rows, 12),
        ),
        trace_figure(
            "acf-7",
            "Packet traces, 16 bits a cell",
            "Mitzenmacher et al., Adaptive Cuckoo Filters, figure 7; traffic like its traces'",
            |setting| on_traces(setting, 16),
            |rows| win_on_traces(rows, 16),
        ),
    ]
}

fn trace_figure(
    id: &'static str,
    title: &'static str,
    source: &'static str,
    points: fn(&Setting) -> Vec<Point>,
    verdict: fn(&[Row]) -> Verdict,
) -> Figure {
    let claim = "On traces the swapping and the cyclic filter with s = 1 are the best, and better \
                 than the plain one at every A/S, with 8 bits a cell as well.";
    Figure { id, title, source, claim, x: X, y: Y, points, verdict }
}

/// The filters of the paper, in cells of so many bits.
fn filters(cell_bits: u32) -> Vec<Curve> {
    let cyclic = [1, 2, 3].map(|selector_bits| cyclic(selector_bits, cell_bits));
    [plain(cell_bits)].into_iter().chain(cyclic).chain([swapping(cell_bits)]).collect()
}

fn ratios(setting: &Setting) -> &'static [f64] {
    if setting.quick { QUICK_RATIOS } else { RATIOS }
}

fn repeats(setting: &Setting) -> &'static [u32] {
    if setting.quick { QUICK_REPEATS } else { REPEATS }
}

fn repeats_panel(repeats: u32) -> String {
    format!("n_e = {repeats}")
}

fn uniform(setting: &Setting, cell_bits: u32) -> Vec<Point> {
    let mut points = Vec::new();
    for &repeats in repeats(setting) {
        for curve in filters(cell_bits) {
            for &ratio in ratios(setting) {
                let panel = repeats_panel(repeats);
                points.push(uniform_point(setting, &panel, curve.clone(), ratio, repeats));
            }
        }
    }
    points
}

/// The rate of a filter on uniform queries.
fn uniform_point(setting: &Setting, panel: &str, curve: Curve, ratio: f64, repeats: u32) -> Point {
    let repeats = f64::from(repeats);
    let (keys, most) = match setting.quick {
        true if curve.spec.cell_bits() < 16 => (QUICK_KEYS, QUICK_MOST_QUERIES),
        true => (QUICK_KEYS, QUICK_MOST_QUERIES_RARE),
        false => (KEYS, MOST_QUERIES),
    };
    let keys = keys.min((most / (ratio * repeats)).floor());
    let queries = Some((keys * ratio * repeats) as u64);
    let size = Size { keys: Some(keys as u64), ratio, queries, ..Size::default() };
    point(panel, curve.name, ratio, setting.trials(), move |seed| {
        rate(&curve.spec, &Source::Uniform.workload(&size, seed)?, seed)
    })
}

const CELLS: [u32; 3] = [8, 12, 16];

fn cell_panel(cell_bits: u32) -> String {
    format!("{cell_bits} bits a cell")
}

/// Figure 4 has s = 2 and n_e = 100.
fn varying(setting: &Setting) -> Vec<Point> {
    const SELECTOR_BITS: u32 = 2;
    // So that a quick run sees enough distinct collisions in 16 bits.
    let repeats = if setting.quick { 10 } else { 100 };
    let mut points = Vec::new();
    for cell_bits in CELLS {
        let varying = [1, 2, 3].map(|r| {
            let f = cell_bits - SELECTOR_BITS;
            Curve::new(&format!("varying:f={f},s={SELECTOR_BITS},r={r},k=4,b=1,retry=0"))
                .named(varying_name(r))
        });
        let others = [plain(cell_bits), swapping(cell_bits)];
        for curve in others.into_iter().chain(varying) {
            for &ratio in ratios(setting) {
                let panel = cell_panel(cell_bits);
                points.push(uniform_point(setting, &panel, curve.clone(), ratio, repeats));
            }
        }
    }
    points
}

fn varying_name(r: u32) -> String {
    format!("varying, r = {r}")
}

fn on_traces(setting: &Setting, cell_bits: u32) -> Vec<Point> {
    let mut points = Vec::new();
    for traffic in Traffic::of(setting, &Trace::ALL) {
        for curve in filters(cell_bits) {
            for ratio in traffic.ratios(setting, RATIOS) {
                points.push(traffic.rate(setting, &traffic.name(), &curve, ratio));
            }
        }
    }
    points
}

const AGAINST_PLAIN: [(&str, &str); 4] =
    [("cyclic-1", "plain"), ("cyclic-2", "plain"), ("cyclic-3", "plain"), ("swapping", "plain")];
const SWAPPING_AGAINST_CYCLIC: [(&str, &str); 3] =
    [("swapping", "cyclic-1"), ("swapping", "cyclic-2"), ("swapping", "cyclic-3")];

fn any(_: &str) -> bool {
    true
}

fn lose_in_the_end(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let mut claims = Vec::new();
    let mut crossings: Vec<f64> = Vec::new();
    for panel in curves.panels() {
        for (series, plain) in AGAINST_PLAIN {
            let standing = curves.standing(panel, series, plain);
            let curve = curves.curve(panel, series);
            let (Some(left), Some(right)) = (curve.first(), curve.last()) else { continue };
            let above = standing.above();
            // Not worse at the left end, worse at the right one.
            claims.push(Seen::unless(above.contains(&left.x)));
            claims.push(standing.clone().within(right.x..).is_above());
            crossings.extend(above.first());
        }
    }
    Verdict {
        seen: Seen::all(claims),
        text: format!(
            "the adaptive filters are better than the plain one at small A/S and clearly worse from \
             A/S = {} on, each from its own; swapping against the cyclic filters is {}{CAPPED}",
            list(&crossings),
            curves.standings(any, &SWAPPING_AGAINST_CYCLIC).text()
        ),
    }
}

fn win_everywhere(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let all = curves.standings(any, &AGAINST_PLAIN);
    let without_three =
        curves.standings(any, &[AGAINST_PLAIN[0], AGAINST_PLAIN[1], AGAINST_PLAIN[3]]);
    let swapping = curves.standings(any, &SWAPPING_AGAINST_CYCLIC);
    let but = if all.above().len() > without_three.above().len() {
        ", with s = 3, whose first pass costs eight times the plain filter's, which few repeats \
         hardly pay for"
    } else {
        ""
    };
    Verdict {
        seen: Seen::all([all.is_below(), swapping.is_below()]),
        text: format!(
            "the adaptive filters are {} against the plain one{but}; swapping against the cyclic \
             filters is {}{CAPPED}",
            all.text(),
            swapping.text()
        ),
    }
}

/// The gain of the swapping filter over the plain one, for each n_e: measured, and by the
/// model.
fn gains(rows: &[Row]) -> Vec<(u32, Estimate, f64)> {
    let curves = Curves::new(rows);
    let gain = |&repeats: &u32| {
        let panel = repeats_panel(repeats);
        let plain = curves.level(&panel, "plain")?;
        let measured = plain.over(curves.level(&panel, "swapping")?);
        let ratios = curves.curve(&panel, "swapping").into_iter().map(|row| row.x);
        Some((repeats, measured, modelled_gain(ratios.collect(), repeats)))
    };
    REPEATS.iter().filter_map(gain).collect()
}

/// The same by the chain of section 3.3, with independent draws as in these figures.
fn modelled_gain(ratios: Vec<f64>, repeats: u32) -> f64 {
    const CELL_BITS: u32 = 16;
    let filter =
        Swapping { tables: 2, slots: 4, values: f64::from((1 << CELL_BITS) - 1), retry: false };
    let rate = |&ratio: &f64| {
        let popularity = Popularity::zipf(KEYS * ratio, 0.0, repeats.into());
        filter.rate(LOAD, ratio, &popularity, Effort::USUAL, 1).mean
    };
    let mean = ratios.iter().map(rate).sum::<f64>() / ratios.len() as f64;
    plain(CELL_BITS).spec.first_pass_rate(LOAD) / mean
}

/// How closely simulations agree with the model, as the paper reports.
const AGREEMENT: f64 = 0.05;

fn gain_half_of_the_repeats(rows: &[Row]) -> Verdict {
    let as_modelled = |gain: Estimate, model: f64| {
        let [low, high] = [1.0 - AGREEMENT, 1.0 + AGREEMENT];
        let outside = gain.clearly_below(Estimate::exactly(model * low))
            || Estimate::exactly(model * high).clearly_below(gain);
        Seen::unless(outside)
    };
    let gains = gains(rows);
    let text = |(repeats, gain, model): &(u32, Estimate, f64)| {
        format!("{gain} at n_e = {repeats} (model {model:.1})")
    };
    let texts: Vec<String> = gains.iter().map(text).collect();
    // A gain of 1 is none; that there is one has to be clear.
    let claims = gains.iter().flat_map(|&(_, gain, model)| {
        [Estimate::exactly(1.0).below(gain), as_modelled(gain, model)]
    });
    Verdict {
        seen: Seen::all(claims),
        text: format!(
            "the plain filter's rate over the swapping filter's is {}, where the paper expects \
             n_e/2{CAPPED}",
            texts.join(", ")
        ),
    }
}

fn better_in_long_cells(rows: &[Row]) -> Verdict {
    enum Expected {
        Better,
        NotWorse,
        Worse,
    }
    use Expected::{Better, NotWorse, Worse};
    let end = f64::INFINITY;
    // Cells, a range of A/S, and how the curves compare there by the paper.
    let parts = [
        (8, (0.0, end), "8 bits", Worse),
        (12, (0.0, 10.0), "12 bits up to A/S = 10", NotWorse),
        (12, (11.0, end), "12 bits above A/S = 10", Worse),
        (16, (0.0, end), "16 bits", Better),
    ];
    let curves = Curves::new(rows);
    let mut claims = Vec::new();
    let mut texts = Vec::new();
    for (cell_bits, (from, to), part, expected) in parts {
        for r in [2, 3] {
            let panel = cell_panel(cell_bits);
            let level = |series: &str| curves.pooled(&panel, series, from, to);
            let (Some(varying), Some(swapping)) = (level(&varying_name(r)), level("swapping"))
            else {
                continue;
            };
            claims.push(match expected {
                Better => varying.below(swapping),
                NotWorse => Seen::unless(swapping.clearly_below(varying)),
                Worse => swapping.below(varying),
            });
            texts.push(format!("{} with {part}, r = {r}", varying.over(swapping)));
        }
    }
    Verdict {
        seen: Seen::all(claims),
        text: format!(
            "the rate with varying ranges, in swapping filter's rates: {}{CAPPED}",
            texts.join("; ")
        ),
    }
}

/// What the plain filter is expected to have is known; what it has depends on the
/// few largest flows, as the paper notes.
fn win_on_traces(rows: &[Row], cell_bits: u32) -> Verdict {
    let curves = Curves::new(rows);
    let expected = plain(cell_bits).spec.first_pass_rate(LOAD);
    let against_plain = |shuffled: bool| {
        let panels = curves.panels().into_iter().filter(|panel| is_shuffled(panel) == shuffled);
        let pairs = panels.flat_map(|panel| ["cyclic-1", "swapping"].map(|best| (panel, best)));
        let standings = pairs.map(|(panel, best)| curves.standing_against(panel, best, expected));
        standings.fold(Standing::default(), Standing::and)
    };
    let others = curves.standings(
        |panel| !is_shuffled(panel),
        &[
            ("cyclic-1", "cyclic-2"),
            ("cyclic-1", "cyclic-3"),
            ("swapping", "cyclic-2"),
            ("swapping", "cyclic-3"),
        ],
    );
    let (linked, shuffled) = (against_plain(false), against_plain(true));
    let hard = match (shuffled.points(), shuffled.above().len()) {
        (0, _) => String::new(),
        (_, 0) => format!("; shuffled, {} against the plain filter", shuffled.text()),
        _ => format!(
            "; shuffled, {} against the plain filter: there all large flows are stored, and the \
             others hardly repeat",
            shuffled.text()
        ),
    };
    Verdict {
        seen: Seen::all([linked.is_below(), others.is_below()]),
        text: format!(
            "with packets as on a link, cyclic with s = 1 and swapping are {} against the {} \
             expected of the plain filter, and {} against cyclic with s = 2 and 3{hard}",
            linked.text(),
            percent(expected),
            others.text(),
        ),
    }
}
