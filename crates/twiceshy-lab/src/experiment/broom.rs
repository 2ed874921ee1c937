//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, "Bloom Filters,
//! Adaptivity, and the Dictionary Problem": the rounds of section 6.1, and the
//! broom filter against the telescoping filter's adversary.

use super::curves::{Curves, Estimate, percent};
use super::measure::{Curve, cyclic, empty, plain, point, swapping};
use super::telescoping::adversarial_curve;
use super::{Axis, Figure, Point, Row, Setting, Verdict};
use crate::adversary::game::{Outcome, Round};
use crate::adversary::rounds::rounds as attack;

/// The rounds, and the adversary's curve.
pub fn figures() -> Vec<Figure> {
    vec![
        Figure {
            id: "broom-rounds",
            title: "Asking for false positives again",
            source: "Bender et al., Bloom Filters, Adaptivity, and the Dictionary Problem, \
                     section 6.1",
            claim: "An adaptive filter keeps its rate in every round of an adversary who asks for \
                    the false positives of the round before; one that does not adapt has only \
                    false positives from the second round on.",
            x: Axis { label: "round", log: false },
            y: Axis { label: "share of the round's queries that are false positives", log: true },
            points: rounds,
            verdict: sustained,
        },
        Figure {
            id: "broom-adversary",
            title: "The broom filter against an adversary",
            source: "Bender et al., Bloom Filters, Adaptivity, and the Dictionary Problem, \
                     section 4.4, with the adversary of Lee et al., section 6.1",
            claim: "The broom filter's rate is at most epsilon in every round, however many \
                    queries the adversary starts with.",
            x: Axis { label: "|Q|/|S|", log: false },
            y: Axis { label: "largest false-positive rate of any round", log: true },
            points: adversary,
            verdict: flat,
        },
    ]
}

const REMAINDER_BITS: i32 = 8;

fn brooms() -> [Curve; 2] {
    ["broom:f=8", "broom:f=8,form=faithful"].map(Curve::new)
}

const ROUNDS: [u32; 5] = [1, 2, 3, 4, 5];
const RATIOS: [f64; 2] = [1.0, 20.0];

fn rounds(setting: &Setting) -> Vec<Point> {
    let keys = if setting.quick { 3_891 } else { 249_036 };
    let others = ["telescoping:f=8", "uncompressed:f=8"].map(Curve::new);
    let cuckoo = [cyclic(1, 11), swapping(11), plain(11)];
    let curves: Vec<Curve> = brooms().into_iter().chain(others).chain(cuckoo).collect();
    let mut points = Vec::new();
    for ratio in RATIOS {
        let panel = format!("|Q| = {ratio} |S|");
        for curve in &curves {
            for round in ROUNDS {
                let spec = curve.spec;
                let trial = move |seed| {
                    let mut filter = empty(&spec, keys)?;
                    let outcome = attack(&mut filter, keys as u64, ratio, seed)?;
                    // After the last round there is nothing left to ask for.
                    Ok(outcome.rounds.get(round as usize - 1).map_or(0.0, Round::rate))
                };
                points.push(point(&panel, &curve.name, round.into(), setting.trials(), trial));
            }
        }
    }
    points
}

fn adversary(setting: &Setting) -> Vec<Point> {
    let others = ["telescoping:f=8,spent=reseed", "telescoping:f=8"].map(Curve::new);
    let curves = brooms().into_iter().chain(others);
    curves.flat_map(|curve| adversarial_curve(setting, "adversary", &curve, largest)).collect()
}

fn largest(outcome: &Outcome) -> f64 {
    outcome.rounds.iter().map(Round::rate).fold(0.0, f64::max)
}
fn sustained(_: &[Row]) -> Verdict {
    Verdict { seen: false, text: String::new() }
}
fn flat(_: &[Row]) -> Verdict {
    Verdict { seen: false, text: String::new() }
}
