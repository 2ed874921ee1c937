//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo Filters",
//! section 4 (figures 1 to 4: packet traces at equal space) and section 3
//! (Theorem 1, measured).
//!
//! Figure 1 is the filters' rates over the cuckooing filter's; the rates
//! themselves are figures 2 to 4.

use super::curves::{Curves, Estimate, Standing, list};
use super::measure::{Curve, cuckooing, cyclic, filled, plain, play, point, swapping};
use super::traces::{Traffic, is_shuffled};
use super::{Axis, Figure, Point, Row, Setting, Verdict};
use crate::random::hasher;
use crate::workload::{Size, Source, Trace};

const X: Axis = Axis { label: "absent keys for each stored one (A/S)", log: false };
const Y: Axis = Axis { label: "false-positive rate", log: true };

const RATIOS: &[f64] =
    &[1.0, 3.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
const QUICK_RATIOS: &[f64] = &[1.0, 5.0, 20.0, 100.0];

const CELLS: [u32; 3] = [8, 12, 16];

/// Figures 1 to 4, and Theorem 1.
pub fn figures() -> Vec<Figure> {
    let claim = "The cuckooing filter has the lowest rate of all, swapping and cyclic with s = 1 \
                 follow, and cyclic with s = 3 is the worst of the adaptive ones.";
    let verdict = cuckooing_is_lowest;
    vec![
        Figure {
            id: "support-1",
            title: "Rates over the cuckooing filter's",
            source: "Kopelowitz et al., Support Optimality, figure 1",
            claim: "The next best filters, swapping and cyclic with s = 1, have up to twice the \
                    false positives of the cuckooing filter, the more so in longer cells.",
            x: X,
            y: Axis { label: "rate over the cuckooing filter's", log: false },
            points: over_cuckooing,
            verdict: up_to_twice,
        },
        Figure {
            id: "support-2",
            title: "Chicago A at equal space",
            source: "Kopelowitz et al., Support Optimality, figure 2",
            claim,
            x: X,
            y: Y,
            points: |setting| at_equal_space(setting, Trace::ChicagoA),
            verdict,
        },
        Figure {
            id: "support-3",
            title: "Chicago B at equal space",
            source: "Kopelowitz et al., Support Optimality, figure 3",
            claim,
            x: X,
            y: Y,
            points: |setting| at_equal_space(setting, Trace::ChicagoB),
            verdict,
        },
        Figure {
            id: "support-4",
            title: "San Jose at equal space",
            source: "Kopelowitz et al., Support Optimality, figure 4",
            claim,
            x: X,
            y: Y,
            points: |setting| at_equal_space(setting, Trace::SanJose),
            verdict,
        },
        Figure {
            id: "support-bound",
            title: "False positives of a long sequence",
            source: "Kopelowitz et al., Support Optimality, Theorem 1",
            claim: "A sequence of queries from a set Q costs the cuckooing filter about \
                    epsilon |Q| false positives however long it is; cyclic and swapping filters \
                    have queries that they cannot fix, which cost more with every repeat.",
            x: Axis { label: "times each query of Q is asked", log: true },
            y: Axis { label: "false positives over epsilon |Q|", log: true },
            points: long_sequences,
            verdict: bounded_by_the_support,
        },
    ]
}

fn ratios(setting: &Setting) -> &'static [f64] {
    if setting.quick { QUICK_RATIOS } else { RATIOS }
}

/// The six filters, each in cells of so many bits.
fn filters(cell_bits: u32) -> Vec<Curve> {
    let cyclic = [1, 2, 3].map(|selector_bits| cyclic(selector_bits, cell_bits));
    let others = [plain(cell_bits), cuckooing(cell_bits), swapping(cell_bits)];
    others.into_iter().chain(cyclic).collect()
}

fn over_cuckooing(setting: &Setting) -> Vec<Point> {
    let mut points = Vec::new();
    for cell_bits in CELLS {
        for traffic in Trace::ALL.into_iter().flat_map(Traffic::both) {
            for curve in [swapping(cell_bits), cyclic(1, cell_bits)] {
                for &ratio in ratios(setting) {
                    let panel = format!("{cell_bits} bits a cell");
                    let against = cuckooing(cell_bits);
                    points.push(traffic.times(setting, &panel, curve.clone(), against, ratio));
                }
            }
        }
    }
    points
}

fn at_equal_space(setting: &Setting, trace: Trace) -> Vec<Point> {
    let mut points = Vec::new();
    for traffic in Traffic::both(trace) {
        for cell_bits in CELLS {
            for curve in filters(cell_bits) {
                for &ratio in ratios(setting) {
                    let panel = format!("{cell_bits} bits a cell, {}", traffic.name());
                    points.push(traffic.rate(setting, &panel, curve.clone(), ratio));
                }
            }
        }
    }
    points
}

fn cuckooing_is_lowest(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let everywhere = |series, other| curves.standing_everywhere(series, other);
    let next = ["swapping", "cyclic-1"];
    let lowest = next.map(|other| everywhere("cuckooing", other));
    let worst = ["swapping", "cyclic-1", "cyclic-2"].map(|other| everywhere(other, "cyclic-3"));
    let middle = next.map(|series| everywhere(series, "cyclic-2"));
    let all =
        |standings: &[Standing]| standings.iter().cloned().fold(Standing::default(), Standing::and);
    let (lowest, middle, worst) = (all(&lowest), all(&middle), all(&worst));
    let mostly = |standing: &Standing| standing.below.len() > 3 * standing.above.len();
    let but = match lowest.above.as_slice() {
        [] => String::new(),
        above => format!(" (at A/S = {}, where its moves disturb other keys)", list(above)),
    };
    Verdict {
        seen: lowest.never_above() && mostly(&middle) && mostly(&worst),
        text: format!(
            "cuckooing is {} against swapping and cyclic with s = 1{but}; those are {} against \
             cyclic with s = 2; all of them are {} against cyclic with s = 3",
            lowest.text(),
            middle.text(),
            worst.text()
        ),
    }
}

fn up_to_twice(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let mut standing = Standing::default();
    let mut texts = Vec::new();
    for panel in curves.panels() {
        let mut levels = Vec::new();
        for series in curves.series(panel) {
            standing = standing.and(curves.standing_against(panel, series, 1.0));
            levels.extend(curves.level(panel, series).map(|level| (is_shuffled(series), level)));
        }
        let mean = |shuffled: bool| {
            let of: Vec<f64> =
                levels.iter().filter(|(is, _)| *is == shuffled).map(|(_, l)| l.mean).collect();
            of.iter().sum::<f64>() / of.len() as f64
        };
        texts.push(format!("{:.2} and {:.2} with {panel}", mean(false), mean(true)));
    }
    let points = standing.points();
    Verdict {
        seen: standing.below.is_empty() && standing.above.len() * 2 > points,
        text: format!(
            "the mean of these ratios is, in trains and shuffled, {}; {} of {points} points are \
             clearly above 1, {} clearly below",
            texts.join(", "),
            standing.above.len(),
            standing.below.len()
        ),
    }
}

/// One query of Q for each stored key.
const QUERIES_PER_KEY: f64 = 1.0;
/// Short cells: so that queries which a cyclic filter cannot fix are common.
const CELL_BITS: u32 = 6;
const KEYS: u64 = 124_518;
const QUICK_KEYS: u64 = 3_891;
const TIMES: &[u32] = &[1, 10, 100, 1000];

fn long_sequences(setting: &Setting) -> Vec<Point> {
    let keys = if setting.quick { QUICK_KEYS } else { KEYS };
    let two_tables = [
        Curve::new(&format!("plain-full:f={CELL_BITS},k=2,b=1")).named("plain"),
        Curve::new(&format!("cuckooing:f={CELL_BITS},k=2,b=1")),
        Curve::new(&format!("cyclic:f={},s=1,k=2,b=1,retry=0", CELL_BITS - 1)),
    ];
    let four_tables =
        [plain(CELL_BITS), cuckooing(CELL_BITS), cyclic(1, CELL_BITS), swapping(CELL_BITS)];
    let panels = [(THEOREM, two_tables.to_vec()), (PRACTICE, four_tables.to_vec())];
    let mut points = Vec::new();
    for (panel, curves) in panels {
        for curve in curves {
            for &times in TIMES {
                let curve = curve.clone();
                points.push(sequence_point(setting, panel, curve, keys, times));
            }
        }
    }
    points
}

/// The theorem has as many bins in each table as there are keys, a load of 0.5.
const THEOREM: &str = "as in Theorem 1: two tables, load 0.45";
const PRACTICE: &str = "as in the figures: load 0.95";

fn sequence_point(setting: &Setting, panel: &str, curve: Curve, keys: u64, times: u32) -> Point {
    let size = Size { keys: Some(keys), ratio: QUERIES_PER_KEY, ..Size::default() };
    point(panel, curve.name, f64::from(times), setting.trials(), move |seed| {
        let workload = Source::Repeats(times.into()).workload(&size, seed)?;
        let hasher = hasher(seed);
        let mut filter = filled(&curve.spec, &workload.stored, &hasher)?;
        let expected = filter.first_pass_rate() * workload.distinct() as f64;
        let played = play(&mut filter, workload.queries(), &hasher)?;
        Ok(played.false_positives as f64 / expected)
    })
}

fn bounded_by_the_support(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let longest = f64::from(TIMES[TIMES.len() - 1]);
    let at_last = |panel, series| curves.at(panel, series, longest).map(Estimate::from);
    let (Some(theorem), Some(cyclic), Some(practice)) = (
        at_last(THEOREM, "cuckooing"),
        at_last(THEOREM, "cyclic-1"),
        at_last(PRACTICE, "cuckooing"),
    ) else {
        return Verdict { seen: false, text: "rows are missing".into() };
    };
    let swapping = at_last(PRACTICE, "swapping").map_or(f64::NAN, |swapping| swapping.mean);
    Verdict {
        seen: !Estimate::exactly(2.0).clearly_below(theorem) && theorem.clearly_below(cyclic),
        text: format!(
            "after {longest} repeats the cuckooing filter has had {:.2} ± {:.2} epsilon |Q| false \
             positives under the theorem's conditions, and {:.2} ± {:.2} at load 0.95; cyclic with \
             s = 1 has had {:.1} ± {:.1}, swapping at load 0.95 {swapping:.2} (random queries do not \
             find the few that it cannot fix)",
            theorem.mean, theorem.error, practice.mean, practice.error, cyclic.mean, cyclic.error
        ),
    }
}
