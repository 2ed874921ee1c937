//! Lee, McCauley, Singh, Stein, "Telescoping Filter", section 6: figure 2 on
//! FireHose streams, 3 and 4 on packet traces and against an adversary. Figure 5
//! is in [`super::throughput`].
//!
//! Equal space: the telescoping filter's 8-bit remainders take 11 bits a slot with
//! all it has to remember, so the cuckoo filters have cells of 11 bits. Shown
//! beside them though they are not part of the paper's figures: the telescoping
//! filter whose spent blocks take other hash functions, in the same space, and
//! the uncompressed one, in 18.1 bits a slot.

use super::curves::{Curves, Estimate, Standing, list, percent};
use super::measure::{Curve, cuckooing, cyclic, empty, point, rate, swapping};
use super::traces::Traffic;
use super::{Axis, Figure, Point, Row, Setting, Verdict};
use crate::adversary::game::Outcome;
use crate::adversary::telescoping::telescoping as attack;
use crate::workload::{ActiveSet, Size, Source, Trace};

const X: Axis = Axis { label: "absent keys for each stored one (A/S)", log: false };
const Y: Axis = Axis { label: "false-positive rate", log: true };

const RATIOS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0];
const QUICK_RATIOS: &[f64] = &[1.0, 5.0, 20.0, 50.0, 100.0];

const CELL_BITS: u32 = 11;

/// Figures 2 to 4.
pub fn figures() -> Vec<Figure> {
    vec![
        Figure {
            id: "taf-2",
            title: "FireHose streams at equal space",
            source: "Lee et al., Telescoping Filter, figure 2",
            claim: "On the active set the telescoping filter is the best up to an A/S of about \
                    20, where its blocks begin to be spent; the extension filter is worse than it.",
            x: X,
            y: Y,
            points: firehose,
            verdict: best_until_spent,
        },
        Figure {
            id: "taf-3",
            title: "Chicago traces at equal space",
            source: "Lee et al., Telescoping Filter, figure 3",
            claim: TRACE_CLAIM,
            x: X,
            y: Y,
            points: |setting| {
                let mut points = on_trace(setting, Trace::ChicagoA);
                points.extend(on_trace(setting, Trace::ChicagoB));
                points
            },
            verdict: by_first_pass,
        },
        Figure {
            id: "taf-4",
            title: "San Jose trace, and the adversary",
            source: "Lee et al., Telescoping Filter, figure 4",
            claim: "Who asks again what was a false positive gets nowhere against the telescoping \
                    filter up to |Q|/|S| of about 20, and wins above; cyclic with s = 3 resists \
                    well. On the trace the cuckooing filter is the best.",
            x: Axis { label: "A/S, or |Q|/|S| of the adversary", log: false },
            y: Axis { label: "false-positive rate (adversary: of the last round)", log: true },
            points: |setting| {
                let mut points = on_trace(setting, Trace::SanJose);
                points.extend(adversarial(setting));
                points
            },
            verdict: cliff_at_twenty,
        },
    ]
}

const TRACE_CLAIM: &str = "On traces a filter's rate follows from its first pass: cuckooing is the \
                           best, telescoping and extension are as good as swapping and cyclic \
                           with s = 1, and cyclic with s = 3 is the worst.";

fn ratios(setting: &Setting) -> &'static [f64] {
    if setting.quick { QUICK_RATIOS } else { RATIOS }
}

/// The filters of the paper.
fn filters() -> Vec<Curve> {
    let cyclic = [1, 2, 3].map(|selector_bits| cyclic(selector_bits, CELL_BITS));
    let quotient = ["telescoping:f=8", "extension:f=8"].map(Curve::new);
    let cuckoo = [cuckooing(CELL_BITS), swapping(CELL_BITS)];
    quotient.into_iter().chain(cuckoo).chain(cyclic).collect()
}

/// What we have to add.
fn ours() -> Vec<Curve> {
    ["telescoping:f=8,spent=reseed", "uncompressed:f=8"].map(Curve::new).to_vec()
}

const ACTIVE_SET: &str = "active set";
const POWER_LAW: &str = "power law";

fn firehose(setting: &Setting) -> Vec<Point> {
    let active = Source::ActiveSet { exponent: ActiveSet::TELESCOPING };
    // A quick power law has fewer repeats, or it would have no keys to store.
    let streams = match setting.quick {
        false => [(ACTIVE_SET, active, 1.0, None), (POWER_LAW, Source::PowerLaw, 1.0, None)],
        true => {
            [(ACTIVE_SET, active, 0.1, None), (POWER_LAW, Source::PowerLaw, 0.2, Some(1_000_000))]
        }
    };
    let mut points = Vec::new();
    for (panel, source, scale, queries) in streams {
        for curve in filters().into_iter().chain(ours()) {
            for &ratio in ratios(setting) {
                let size = Size { ratio, queries, scale, ..Size::default() };
                let (source, spec) = (source.clone(), curve.spec);
                points.push(point(panel, &curve.name, ratio, setting.trials(), move |seed| {
                    rate(&spec, &source.workload(&size, seed)?, seed)
                }));
            }
        }
    }
    points
}

fn on_trace(setting: &Setting, trace: Trace) -> Vec<Point> {
    let mut points = Vec::new();
    for traffic in Traffic::both(trace) {
        for curve in filters() {
            for &ratio in ratios(setting) {
                points.push(traffic.rate(setting, traffic.name(), curve.clone(), ratio));
            }
        }
    }
    points
}

const ADVERSARY: &str = "adversary";
/// 2^18 slots, filled to 0.95; quick: 2^12.
const ADVERSARY_KEYS: u64 = 249_036;
const QUICK_ADVERSARY_KEYS: u64 = 3_891;
const ADVERSARY_RATIOS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0];
const QUICK_ADVERSARY_RATIOS: &[f64] = &[1.0, 5.0, 10.0, 20.0, 50.0, 100.0];

fn adversarial(setting: &Setting) -> Vec<Point> {
    let curves = filters().into_iter().chain(ours());
    let last = Outcome::last_round_rate;
    curves.flat_map(|curve| adversarial_curve(setting, ADVERSARY, &curve, last)).collect()
}

/// What came out for a filter, for each size of the adversary's first round.
pub(super) fn adversarial_curve(
    setting: &Setting,
    panel: &str,
    curve: &Curve,
    what: fn(&Outcome) -> f64,
) -> Vec<Point> {
    let (keys, ratios) = match setting.quick {
        true => (QUICK_ADVERSARY_KEYS, QUICK_ADVERSARY_RATIOS),
        false => (ADVERSARY_KEYS, ADVERSARY_RATIOS),
    };
    let at = |&ratio: &f64| {
        let spec = curve.spec;
        point(panel, &curve.name, ratio, setting.trials(), move |seed| {
            let mut filter = empty(&spec, keys as usize)?;
            let outcome = attack(&mut filter, keys, ratio, seed)?;
            match outcome.false_negatives {
                0 => Ok(what(&outcome)),
                denied => Err(format!("{spec} denied {denied} stored keys").into()),
            }
        })
    };
    ratios.iter().map(at).collect()
}

fn best_until_spent(_: &[Row]) -> Verdict {
    Verdict { seen: false, text: String::new() }
}
fn by_first_pass(_: &[Row]) -> Verdict {
    Verdict { seen: false, text: String::new() }
}
fn cliff_at_twenty(_: &[Row]) -> Verdict {
    Verdict { seen: false, text: String::new() }
}
