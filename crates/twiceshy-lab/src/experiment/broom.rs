//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, "Bloom Filters,
//! Adaptivity, and the Dictionary Problem": the rounds of section 6.1, and the
//! broom filter against the telescoping filter's adversary.

use super::curves::{Curves, Standing, percent};
use super::measure::{Curve, cyclic, empty, plain, point, swapping};
use super::telescoping::{ADVERSARY_KEYS, adversarial_curve, rate_of};
use super::{Axis, Figure, Point, Row, Seen, Setting, Verdict};
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

/// What is compared with a number that is known, epsilon, has its own error only.
const QUICK_TRIALS: u32 = 8;

const REMAINDER_BITS: f64 = 8.0;

fn brooms() -> [Curve; 2] {
    ["broom:f=8", "broom:f=8,form=faithful"].map(Curve::new)
}

const ROUNDS: [u32; 5] = [1, 2, 3, 4, 5];
const RATIOS: [f64; 2] = [1.0, 20.0];

fn rounds(setting: &Setting) -> Vec<Point> {
    let keys = if setting.quick { 3_891 } else { ADVERSARY_KEYS as usize };
    let others = ["telescoping:f=8", "uncompressed:f=8"].map(Curve::new);
    let cuckoo = [cyclic(1, 11), swapping(11), plain(11)];
    let curves: Vec<Curve> = brooms().into_iter().chain(others).chain(cuckoo).collect();
    let mut points = Vec::new();
    for ratio in RATIOS {
        let panel = format!("|Q| = {ratio} |S|");
        for curve in &curves {
            for round in ROUNDS {
                let design = curve.design;
                let trial = move |seed| {
                    let mut filter = empty(&design, keys)?;
                    let outcome = attack(&mut filter, keys as u64, ratio, seed)?;
                    Ok(rate_of(outcome.rounds.get(round as usize - 1).copied()))
                };
                points.push(point(
                    &panel,
                    &curve.name,
                    round.into(),
                    setting.games(QUICK_TRIALS),
                    trial,
                ));
            }
        }
    }
    points
}

fn adversary(setting: &Setting) -> Vec<Point> {
    let others =
        ["telescoping:f=8,spent=reseed", "telescoping:f=8", "line:f=9", "aqf:f=8"].map(Curve::new);
    let of_curve = |(curve, claimed): (Curve, bool)| {
        adversarial_curve(setting, "adversary", &curve, claimed, QUICK_TRIALS, largest)
    };
    let claimed = brooms().into_iter().map(|curve| (curve, true));
    claimed.chain(others.into_iter().map(|curve| (curve, false))).flat_map(of_curve).collect()
}

fn largest(outcome: &Outcome) -> Option<Round> {
    outcome.rounds.iter().copied().max_by(|a, b| a.rate().total_cmp(&b.rate()))
}

/// The rate that a broom filter promises.
fn epsilon() -> f64 {
    (-REMAINDER_BITS).exp2()
}

/// Where the brooms are against epsilon, in all panels.
fn against_epsilon(curves: &Curves<'_>) -> Standing {
    let [practical, faithful] = brooms().map(|broom| broom.name);
    curves.standings_against(|_| true, &[&practical, &faithful], epsilon())
}

/// Whether nothing is clearly above, of what is there: rounds of few queries, of which
/// mostly none is a false positive, show no more.
fn above_nowhere(brooms: &Standing) -> Seen {
    if brooms.points() == 0 { Seen::Open } else { Seen::unless(!brooms.above().is_empty()) }
}

fn sustained(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let brooms = against_epsilon(&curves);
    let last = f64::from(ROUNDS[ROUNDS.len() - 1]);
    let panels = curves.panels();
    let of = |series: &str| {
        let rates = panels.iter().filter_map(|panel| Some(curves.at(panel, series, last)?.mean));
        rates.fold(0.0, f64::max)
    };
    let fails: Vec<String> = ["telescoping", "uncompressed", "swapping", "cyclic-1", "plain"]
        .iter()
        .filter(|series| of(series) > epsilon())
        .map(|series| format!("{series} ({})", percent(of(series))))
        .collect();
    Verdict {
        seen: Seen::all([above_nowhere(&brooms), Seen::unless(of("plain") != 1.0)]),
        text: format!(
            "broom filters are clearly above epsilon = {} in {} of {} rounds; still above it in \
             round {last} are {}",
            percent(epsilon()),
            brooms.above().len(),
            brooms.points(),
            fails.join(", ")
        ),
    }
}

fn flat(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let brooms = against_epsilon(&curves);
    let highest = |series: &str| {
        let rates = curves.panels().into_iter().flat_map(|panel| curves.curve(panel, series));
        rates.map(|row| row.mean).fold(0.0, f64::max)
    };
    Verdict {
        // A point's largest round is its first, of many queries: that it is below is shown.
        seen: brooms.is_below(),
        text: format!(
            "against epsilon = {}, broom filters are {} (highest rate {}, {} as published); \
             telescoping reaches {}, and {} where spent blocks take other hash functions",
            percent(epsilon()),
            brooms.text_at("|Q|/|S|"),
            percent(highest("broom")),
            percent(highest("broom-faithful")),
            percent(highest("telescoping")),
            percent(highest("telescoping-reseed"))
        ),
    }
}
