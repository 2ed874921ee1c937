//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 4:
//! figures 1 to 4 on uniform queries, 5 to 7 on packet traces.
//!
//! 131,072 cells of 8, 12 or 16 bits at load 0.95, selectors included. Every
//! absent key is as likely to be asked for as any other, n_e times on average.
//! The filters are the literal ones: a change that happens to collide again is
//! not tried again (`retry=0`).

use super::curves::{Curves, list, percent};
use super::measure::{
    Curve, LOAD, adaptive_quotient, cached, cyclic, plain, point, rate, swapping,
};
use super::significance::Estimate;
use super::traces::{Traffic, is_shuffled};
use super::varying;
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

/// Queries for each absent key. A quick run sees more collisions with fewer repeats: what
/// a key costs after its first false positive is little, and the same for all of them.
const REPEATS: &[u32] = &[10, 100, 1000];
const QUICK_REPEATS: &[u32] = &[10, 30];

/// 131,072 cells, filled to 0.95.
const KEYS: f64 = 124_518.0;

/// What a quick trial has at most, in stored keys and in distinct absent ones: at least 76 keys
/// are stored, always a multiple of [`WHOLE_BINS`]. Filters that no claim is about have more: in
/// short remainders an adaptive quotient filter of 76 keys is full before it has them all.
const QUICK_KEYS: f64 = 7_752.0;
const fn quick_absent(cell_bits: u32) -> f64 {
    // In longer cells collisions are rarer.
    match cell_bits {
        ..=8 => 1e4,
        9.. => 3e4,
    }
}

/// So many keys fill whole bins of all filters here to a load of 0.95.
const WHOLE_BINS: f64 = 38.0;

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
            points: varying::points,
            verdict: varying::better_in_long_cells,
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

/// The filters of the paper, in cells of so many bits, and in the same memory later ones.
fn filters(cell_bits: u32) -> Vec<Curve> {
    let cyclic = [1, 2, 3].map(|selector_bits| cyclic(selector_bits, cell_bits));
    let paper = [plain(cell_bits)].into_iter().chain(cyclic).chain([swapping(cell_bits)]);
    paper.chain(later(cell_bits)).collect()
}

/// No claim of the paper is about these.
fn later(cell_bits: u32) -> [Curve; 2] {
    [cached(cell_bits), adaptive_quotient(cell_bits)]
}

fn is_later(curve: &Curve) -> bool {
    matches!(curve.name.as_str(), "cached" | "aqf")
}

pub(super) fn ratios(setting: &Setting) -> &'static [f64] {
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
        // In short cells these are wrong so often that n_e = 1000 takes hours of each.
        let shown = |curve: &Curve| !(is_later(curve) && cell_bits == 8 && repeats > 100);
        for curve in filters(cell_bits).into_iter().filter(shown) {
            let trials = trials(setting, &curve, &["swapping"], 36);
            for &ratio in ratios(setting) {
                let panel = repeats_panel(repeats);
                points.push(uniform_point(setting, &panel, &curve, ratio, repeats, trials));
            }
        }
    }
    points
}

/// Trials of a point. In 16 bits false positives are few: a quick run has more trials of the
/// curves that a claim is about, and few of the others.
pub(super) fn trials(setting: &Setting, curve: &Curve, claimed: &[&str], more: u32) -> u32 {
    setting.trials(match curve.design.cell_bits() {
        _ if is_later(curve) => 4,
        16 if claimed.contains(&curve.name.as_str()) => more,
        16 => 4,
        _ => 12,
    })
}

/// The rate of a filter on uniform queries.
pub(super) fn uniform_point(
    setting: &Setting,
    panel: &str,
    curve: &Curve,
    ratio: f64,
    repeats: u32,
    trials: u32,
) -> Point {
    let (design, repeats) = (curve.design, f64::from(repeats));
    let keys = match setting.quick {
        true => {
            let absent = if is_later(curve) { 4e4 } else { quick_absent(design.cell_bits()) };
            let keys = QUICK_KEYS.min(absent / ratio);
            (keys / WHOLE_BINS).floor() * WHOLE_BINS
        }
        false => KEYS,
    };
    let queries = Some((keys * ratio * repeats) as u64);
    let size = Size { keys: Some(keys as u64), ratio, queries, ..Size::default() };
    point(panel, &curve.name, ratio, trials, move |seed| {
        rate(&design, &Source::Uniform.workload(&size, seed)?, seed)
    })
}

fn on_traces(setting: &Setting, cell_bits: u32) -> Vec<Point> {
    let mut points = Vec::new();
    for traffic in Traffic::of(setting, &Trace::ALL) {
        for curve in filters(cell_bits) {
            let trials = setting.trials(match (curve.name.as_str(), cell_bits) {
                // No claim is about them.
                ("plain" | "cached" | "aqf", _) => 4,
                ("cyclic-1" | "swapping", 16) => 32,
                (_, 16) => 24,
                // Each of their points has to show by itself that it is below.
                ("cyclic-1" | "swapping", _) => 12,
                _ => 6,
            });
            for ratio in traffic.ratios(setting, RATIOS) {
                points.push(traffic.rate(setting, &traffic.name(), &curve, ratio, trials));
            }
        }
    }
    points
}

const ADAPTIVE: [&str; 4] = ["cyclic-1", "cyclic-2", "cyclic-3", "swapping"];
const SWAPPING_AGAINST_CYCLIC: [(&str, &str); 3] =
    [("swapping", "cyclic-1"), ("swapping", "cyclic-2"), ("swapping", "cyclic-3")];

fn any(_: &str) -> bool {
    true
}

/// What the plain filter is expected to have is known exactly; what it has in a trial
/// depends on the few keys that happen to collide, as each of them does so every time.
fn expected_of_plain(cell_bits: u32) -> f64 {
    plain(cell_bits).design.first_pass_rate(LOAD)
}

/// From some A/S below this on, the adaptive filters lose with 8 bits a cell.
const LOST: f64 = 40.0;

fn lose_in_the_end(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let against_plain =
        |series: &[&str]| curves.standings_against(any, series, expected_of_plain(8));
    let all = against_plain(&ADAPTIVE);
    let crossings: Vec<f64> =
        ADAPTIVE.iter().filter_map(|&series| against_plain(&[series]).above_from()).collect();
    let (left, right) = (all.clone().within(..=RATIOS[0]), all.within(LOST.next_up()..));
    Verdict {
        seen: Seen::all([left.is_below(), right.is_above()]),
        text: format!(
            "against the {} expected of the plain filter, the adaptive ones are {} with as many \
             absent keys as stored ones, and {} above A/S = {LOST}; each is clearly worse from its \
             own on, A/S = {}; swapping against the cyclic filters is {}",
            percent(expected_of_plain(8)),
            left.text(),
            right.text(),
            list(&crossings),
            curves.standings(any, &SWAPPING_AGAINST_CYCLIC).text()
        ),
    }
}

fn win_everywhere(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let against_plain =
        |series: &[&str]| curves.standings_against(any, series, expected_of_plain(12));
    let (all, three) = (against_plain(&ADAPTIVE), against_plain(&["cyclic-3"]));
    let swapping = curves.standings(any, &SWAPPING_AGAINST_CYCLIC);
    let but = if three.above().is_empty() {
        ""
    } else {
        ", with s = 3, whose first pass costs eight times the plain filter's, which few repeats \
         hardly pay for"
    };
    Verdict {
        seen: Seen::all([all.is_below_everywhere(), swapping.is_below()]),
        text: format!(
            "the adaptive filters are {} against the {} expected of the plain one{but}; swapping \
             against the cyclic filters is {}",
            all.text(),
            percent(expected_of_plain(12)),
            swapping.text()
        ),
    }
}

/// The gain of the swapping filter over what is expected of the plain one, for each n_e:
/// measured, and by the model.
fn gains(rows: &[Row]) -> Vec<(u32, Estimate, f64)> {
    let curves = Curves::new(rows);
    let gain = |&repeats: &u32| {
        let panel = repeats_panel(repeats);
        let expected = Estimate::exactly(expected_of_plain(16));
        let measured = expected.over(curves.level(&panel, "swapping")?);
        let ratios = curves.curve(&panel, "swapping").into_iter().map(|row| row.x);
        Some((repeats, measured, modelled_gain(ratios.collect(), repeats)))
    };
    let mut repeats = [REPEATS, QUICK_REPEATS].concat();
    repeats.sort_unstable();
    repeats.dedup();
    repeats.iter().filter_map(gain).collect()
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
    expected_of_plain(CELL_BITS) / mean
}

/// What "about" means for a gain: nearer than this factor to n_e/2.
const ABOUT: f64 = 1.5;

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
    let claims = gains.iter().flat_map(|&(repeats, gain, model)| {
        [gain.about(f64::from(repeats) / 2.0, ABOUT), as_modelled(gain, model)]
    });
    Verdict {
        seen: Seen::all(claims),
        text: format!(
            "the {} expected of the plain filter over the swapping filter's rate is {}, where the \
             paper says about n_e/2 (here: within a factor of {ABOUT})",
            percent(expected_of_plain(16)),
            texts.join(", ")
        ),
    }
}

/// Against what is expected of the plain filter: what it has depends on the few largest
/// flows, as the paper notes.
fn win_on_traces(rows: &[Row], cell_bits: u32) -> Verdict {
    let curves = Curves::new(rows);
    let expected = expected_of_plain(cell_bits);
    let against_plain = |shuffled: bool| {
        let panels = |panel: &str| is_shuffled(panel) == shuffled;
        curves.standings_against(panels, &["cyclic-1", "swapping"], expected)
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
        seen: Seen::all([linked.is_below_everywhere(), others.is_below()]),
        text: format!(
            "with packets as on a link, cyclic with s = 1 and swapping are {} against the {} \
             expected of the plain filter, and {} against cyclic with s = 2 and 3{hard}",
            linked.text(),
            percent(expected),
            others.text(),
        ),
    }
}
