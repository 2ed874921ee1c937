//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 4.1, figure 4: varying
//! fingerprint ranges on uniform queries, against the swapping filter.

use super::acf::{ratios, trials, uniform_point};
use super::curves::Curves;
use super::measure::{Curve, plain, swapping};
use super::{Point, Row, Seen, Setting, Verdict};

const CELLS: [u32; 3] = [8, 12, 16];

fn cell_panel(cell_bits: u32) -> String {
    format!("{cell_bits} bits a cell")
}

/// Figure 4 has s = 2 and n_e = 100. The paper's text is about s = 0, 1 and 3 as well.
const FIGURE_SELECTOR_BITS: u32 = 2;
const OTHER_SELECTOR_BITS: [u32; 3] = [0, 1, 3];

fn varying_curve(cell_bits: u32, selector_bits: u32, r: u32) -> Curve {
    let f = cell_bits - selector_bits;
    Curve::new(&format!("varying:f={f},s={selector_bits},r={r},k=4,b=1,retry=0"))
        .named(varying_name(selector_bits, r))
}

/// The points of figure 4.
pub(super) fn points(setting: &Setting) -> Vec<Point> {
    // So that a quick run sees enough distinct collisions in 16 bits.
    let repeats = if setting.quick { 10 } else { 100 };
    let mut points = Vec::new();
    for cell_bits in CELLS {
        let varying = [1, 2, 3].map(|r| varying_curve(cell_bits, FIGURE_SELECTOR_BITS, r));
        let others_of_r = |r| OTHER_SELECTOR_BITS.map(|s| varying_curve(cell_bits, s, r));
        let others_of_s = [1, 2, 3].into_iter().flat_map(others_of_r);
        let others = [plain(cell_bits), swapping(cell_bits)];
        for curve in others.into_iter().chain(varying).chain(others_of_s) {
            // They differ by a third.
            let [two, three] = [2, 3].map(|r| varying_name(FIGURE_SELECTOR_BITS, r));
            let claimed = ["swapping", &two, &three];
            let figure = curve.design.number("s").is_none_or(|s| s == FIGURE_SELECTOR_BITS);
            let trials = match figure {
                true => trials(setting, &curve, &claimed, 48),
                false => setting.trials(4),
            };
            for &ratio in ratios(setting) {
                let panel = cell_panel(cell_bits);
                points.push(uniform_point(setting, &panel, &curve, ratio, repeats, trials));
            }
        }
    }
    points
}

fn varying_name(selector_bits: u32, r: u32) -> String {
    match selector_bits {
        FIGURE_SELECTOR_BITS => format!("varying, r = {r}"),
        _ => format!("varying, s = {selector_bits}, r = {r}"),
    }
}

/// Whether varying ranges are better than swapping where the paper says so.
pub(super) fn better_in_long_cells(rows: &[Row]) -> Verdict {
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
            let (Some(varying), Some(swapping)) =
                (level(&varying_name(FIGURE_SELECTOR_BITS, r)), level("swapping"))
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
    // Not judged: too few trials in a quick run.
    let beyond = |(cell_bits, s, r): (u32, u32, u32)| {
        let panel = cell_panel(cell_bits);
        let varying = curves.level(&panel, &varying_name(s, r))?;
        Some(format!(
            "{} ({cell_bits} bits, s = {s})",
            varying.over(curves.level(&panel, "swapping")?)
        ))
    };
    let others = CELLS.into_iter().flat_map(|bits| OTHER_SELECTOR_BITS.map(|s| (bits, s, 2)));
    let others: Vec<String> = others.filter_map(beyond).collect();
    Verdict {
        seen: Seen::all(claims),
        text: format!(
            "the rate with varying ranges, in swapping filter's rates: {}; with r = 2 and other s, \
             at all A/S, {}",
            texts.join("; "),
            others.join(", ")
        ),
    }
}
