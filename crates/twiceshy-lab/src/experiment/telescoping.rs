//! Lee, McCauley, Singh, Stein, "Telescoping Filter", section 6: figure 2 on
//! FireHose streams, 3 and 4 on packet traces and against an adversary. Figure 5
//! is in [`super::throughput`].
//!
//! Equal space: the telescoping filter's 8-bit remainders take 11 bits a slot with
//! all it has to remember, so the cuckoo filters have cells of 11 bits. Shown
//! beside them though they are not part of the paper's figures: the telescoping
//! filter whose spent blocks take other hash functions, a plain filter with a cache and the
//! adaptive quotient filter, in the same space; and the uncompressed one, in 18.1 bits a slot, the
//! line filter, and the adaptive quotient filter with 8-bit remainders, in 12.5 bits a key.

use super::curves::{Curves, list, percent};
use super::measure::{
    Curve, adaptive_quotient, cached, cuckooing, cyclic, empty, point, rate, swapping,
};
use super::significance::Estimate;
use super::traces::{Traffic, is_shuffled};
use super::{Axis, Figure, Measured, Point, Row, Seen, Setting, Verdict, streams};
use crate::adversary::game::{MARGIN, Outcome, Round};
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
                    20, where its blocks begin to be spent; on the power law it is competitive at most \
                    A/S; the extension filter is worse than it.",
            x: X,
            y: Y,
            points: firehose,
            verdict: best_until_spent,
        },
        Figure {
            id: "taf-3",
            title: "Chicago traces at equal space",
            source: "Lee et al., Telescoping Filter, figure 3; traffic like its traces'",
            claim: TRACE_CLAIM,
            x: X,
            y: Y,
            points: |setting| on_traces(setting, &[Trace::ChicagoA, Trace::ChicagoB]),
            verdict: by_first_pass,
        },
        Figure {
            id: "taf-4",
            title: "San Jose trace, and the adversary",
            source: "Lee et al., Telescoping Filter, figure 4; traffic like its traces'",
            claim: "Who asks again what was a false positive gets nowhere against the telescoping \
                    filter up to |Q|/|S| of about 20, and wins above; cyclic with s = 3 resists \
                    well. On the trace the cuckooing filter is the best.",
            x: Axis { label: "A/S, or |Q|/|S| of the adversary", log: false },
            y: Axis { label: "false-positive rate (adversary: of the last round)", log: true },
            points: |setting| {
                let mut points = on_traces(setting, &[Trace::SanJose]);
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

/// What there is beside them.
fn others() -> Vec<Curve> {
    let uncompressed = Curve::new("uncompressed:f=8").named("uncompressed, 18 bits a slot");
    let line = Curve::new("line:f=9").named("line, 12.5 bits a key");
    let aqf = Curve::new("aqf:f=8").named("aqf, 12.4 bits a key");
    let same_space = [
        Curve::new("telescoping:f=8,spent=reseed"),
        cached(CELL_BITS),
        adaptive_quotient(CELL_BITS),
    ];
    same_space.into_iter().chain([uncompressed, line, aqf]).collect()
}

const ACTIVE_SET: &str = "active set";
const POWER_LAW: &str = "power law";

fn firehose(setting: &Setting) -> Vec<Point> {
    let active = Source::ActiveSet { exponent: ActiveSet::TELESCOPING };
    // A quick power law has fewer repeats, or it would have no keys to store.
    let streams = match setting.quick {
        false => [(ACTIVE_SET, active, 1.0, None), (POWER_LAW, Source::PowerLaw, 1.0, None)],
        true => {
            [(ACTIVE_SET, active, 0.05, None), (POWER_LAW, Source::PowerLaw, 0.1, Some(500_000))]
        }
    };
    let mut points = Vec::new();
    for (panel, source, scale, queries) in streams {
        for curve in filters().into_iter().chain(others()) {
            for &ratio in ratios(setting) {
                let size = Size { ratio, queries, scale, ..Size::default() };
                let (source, design) = (source.clone(), curve.design);
                let trials = firehose_trials(setting, panel, &curve.name, ratio);
                let quick = setting.quick;
                points.push(point(panel, &curve.name, ratio, trials, move |seed| {
                    let source = if quick { source.clone() } else { streams::of(&source)? };
                    rate(&design, &source.workload(&size, seed)?, seed)
                }));
            }
        }
    }
    points
}

/// A quick run has more trials of what the claims are about, as a rate is mostly of few keys
/// that are asked for often: of the paper's filters where A/S is moderate, and of those whose
/// blocks are spent, from there on.
fn firehose_trials(setting: &Setting, panel: &str, name: &str, ratio: f64) -> u32 {
    let claimed = filters().iter().any(|curve| curve.name == name);
    let spent = matches!(name, "telescoping" | "extension") && ratio >= *MODERATE.end();
    setting.trials(match panel == ACTIVE_SET && claimed {
        true if spent => 48,
        // A few keys that it cannot fix are most of its rate.
        true if MODERATE.contains(&ratio) && name == "cyclic-1" => 72,
        true if MODERATE.contains(&ratio) => 36,
        _ => 4,
    })
}

fn on_traces(setting: &Setting, traces: &[Trace]) -> Vec<Point> {
    let trials = setting.trials(12);
    let mut points = Vec::new();
    for traffic in Traffic::of(setting, traces) {
        for curve in filters() {
            for ratio in traffic.ratios(setting, RATIOS) {
                points.push(traffic.rate(setting, &traffic.name(), &curve, ratio, trials));
            }
        }
    }
    points
}

const ADVERSARY: &str = "adversary";
/// 2^20 slots, filled to 0.95; quick: 2^12.
pub(super) const ADVERSARY_KEYS: u64 = 996_147;
const QUICK_ADVERSARY_KEYS: u64 = 3_891;
const ADVERSARY_RATIOS: &[f64] =
    &[1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 80.0, 100.0];
/// Of a quick run, and of filters that no claim is about.
const FEW_ADVERSARY_RATIOS: &[f64] = &[1.0, 5.0, 10.0, 20.0, 50.0, 100.0];

fn adversarial(setting: &Setting) -> Vec<Point> {
    let last = |outcome: &Outcome| outcome.rounds.last().copied();
    let of_curve = |(curve, claimed): (Curve, bool)| {
        // A claim is about where it falls.
        let trials = if curve.name == "telescoping" { 8 } else { 4 };
        adversarial_curve(setting, ADVERSARY, &curve, claimed, trials, last)
    };
    let claimed = filters().into_iter().map(|curve| (curve, true));
    claimed.chain(others().into_iter().map(|curve| (curve, false))).flat_map(of_curve).collect()
}

/// The rate of a round; 0, of no queries, after the last one: there was nothing left to ask.
pub(super) fn rate_of(round: Option<Round>) -> Measured {
    match round {
        Some(round) if round.queries > 0 => Measured::share(round.false_positives, round.queries),
        _ => Measured::from(0.0),
    }
}

/// The rate of a round, for each size of the adversary's first one; for few of them if no claim is
/// about the filter.
pub(super) fn adversarial_curve(
    setting: &Setting,
    panel: &str,
    curve: &Curve,
    claimed: bool,
    quick_trials: u32,
    which: fn(&Outcome) -> Option<Round>,
) -> Vec<Point> {
    let (keys, ratios) = match setting.quick {
        true => (QUICK_ADVERSARY_KEYS, FEW_ADVERSARY_RATIOS),
        false if claimed => (ADVERSARY_KEYS, ADVERSARY_RATIOS),
        false => (ADVERSARY_KEYS, FEW_ADVERSARY_RATIOS),
    };
    let at = |&ratio: &f64| {
        let design = curve.design;
        point(panel, &curve.name, ratio, setting.games(quick_trials), move |seed| {
            let mut filter = empty(&design, keys as usize)?;
            let outcome = attack(&mut filter, keys, ratio, seed)?;
            match outcome.false_negatives {
                0 => Ok(rate_of(which(&outcome))),
                denied => Err(format!("{design} denied {denied} stored keys").into()),
            }
        })
    };
    ratios.iter().map(at).collect()
}

/// The paper's "moderate" A/S.
const MODERATE: std::ops::RangeInclusive<f64> = 2.0..=20.0;

const OTHERS: [&str; 5] = ["cuckooing", "swapping", "cyclic-1", "cyclic-2", "cyclic-3"];

fn best_until_spent(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let pairs = OTHERS.map(|other| ("telescoping", other));
    let active = |panel: &str| panel == ACTIVE_SET;
    let cuckooing = curves.standings(active, &[("telescoping", "cuckooing")]);
    let cuckooing = cuckooing.within(..=*MODERATE.end());
    let moderate = curves.standings(active, &pairs).within(MODERATE);
    let swapping = curves.standings(active, &[("swapping", "telescoping")]);
    let pooled = |series, from, to| curves.pooled(ACTIVE_SET, series, from, to);
    let spent = *MODERATE.end();
    let [Some(before), Some(after), Some(extension), Some(telescoping)] = [
        pooled("telescoping", 0.0, spent),
        pooled("telescoping", spent.next_up(), f64::INFINITY),
        pooled("extension", spent, f64::INFINITY),
        pooled("telescoping", spent, f64::INFINITY),
    ] else {
        return Verdict { seen: Seen::Open, text: "rows are missing".into() };
    };
    let but = match cuckooing.above().as_slice() {
        [] => String::new(),
        above => format!(
            " (at A/S = {} the cuckooing filter is better, whose first pass costs half)",
            list(above)
        ),
    };
    let power = curves.standings(|panel| panel == POWER_LAW, &pairs);
    let late = |series| curves.pooled(POWER_LAW, series, spent, f64::INFINITY);
    let [Some(power_extension), Some(power_telescoping)] = [late("extension"), late("telescoping")]
    else {
        return Verdict { seen: Seen::Open, text: "rows are missing".into() };
    };
    // "Competitive for most A/S": not clearly worse at most points.
    let competitive = Seen::unless(2 * power.above().len() > power.points());
    let extension_is_no_better = Seen::unless(power_extension.clearly_below(power_telescoping));
    let open: Vec<&str> = OTHERS
        .into_iter()
        .filter(|other| {
            let pair = curves.standings(active, &[("telescoping", other)]);
            pair.within(MODERATE).is_below() == Seen::Open
        })
        .collect();
    let open = match open.is_empty() {
        true => String::new(),
        false => format!(" (too few trials to tell it from {})", open.join(", ")),
    };
    Verdict {
        seen: Seen::all([
            moderate.is_below(),
            before.below(after),
            telescoping.below(extension),
            competitive,
            extension_is_no_better,
        ]),
        text: format!(
            "from A/S = {} to {spent} on the active set, telescoping is {} against the cuckoo \
             filters{open}{but}; its mean rate goes from {} up to there to {} above; from {spent} on \
             the extension filter's is {} times as high; swapping is {} against telescoping at any \
             A/S; on the power law, telescoping is {} against the cuckoo filters at any A/S, and from \
             {spent} on the extension filter's rate is {} times as high",
            MODERATE.start(),
            moderate.text(),
            percent(before.mean),
            percent(after.mean),
            extension.over(telescoping),
            swapping.text(),
            power.text(),
            power_extension.over(power_telescoping)
        ),
    }
}

const BY_FIRST_PASS: [(&str, &str); 4] = [
    ("cuckooing", "swapping"),
    ("cuckooing", "cyclic-1"),
    ("cuckooing", "telescoping"),
    ("cuckooing", "extension"),
];
const WORST: [(&str, &str); 4] = [
    ("swapping", "cyclic-3"),
    ("cyclic-1", "cyclic-3"),
    ("cyclic-2", "cyclic-3"),
    ("telescoping", "cyclic-3"),
];

fn by_first_pass(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let linked = |panel: &str| panel != ADVERSARY && !is_shuffled(panel);
    let (best, worst) =
        (curves.standings(linked, &BY_FIRST_PASS), curves.standings(linked, &WORST));
    let pairs = [("telescoping", "swapping"), ("telescoping", "cyclic-1")];
    let alike = curves.standings(linked, &pairs);
    let differ = alike.is_below() == Seen::Yes || alike.is_above() == Seen::Yes;
    let shuffled = curves.standings(is_shuffled, &BY_FIRST_PASS);
    let hard = match shuffled.points() {
        0 => String::new(),
        _ => format!(" (shuffled, {})", shuffled.text()),
    };
    Verdict {
        seen: Seen::all([best.is_below(), worst.is_below(), Seen::unless(differ)]),
        text: format!(
            "with packets as on a link, cuckooing is {} against swapping, cyclic with s = 1, \
             telescoping and extension{hard}; telescoping is {} against swapping and cyclic with s \
             = 1; all are {} against cyclic with s = 3",
            best.text(),
            alike.text(),
            worst.text()
        ),
    }
}

/// A rate at which the adversary has not won, as the game counts it, of epsilon.
const RESISTED: f64 = MARGIN / 256.0;

/// Where a filter stops resisting the adversary: the first |Q|/|S| with a rate
/// clearly above twice epsilon.
fn cliff(curves: &Curves<'_>, panel: &str, series: &str) -> Option<f64> {
    curves.standing_against(panel, series, RESISTED).above().first().copied()
}

fn cliff_at_twenty(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let at = |series: &str| cliff(&curves, ADVERSARY, series);
    let names = filters().into_iter().chain(others()).map(|curve| curve.name);
    let texts: Vec<String> = names
        .map(|name| match at(&name) {
            Some(x) => format!("{name} from {x}"),
            None => format!("{name} nowhere"),
        })
        .collect();
    let last = |series| curves.curve(ADVERSARY, series).last().map_or(f64::NAN, |row| row.mean);
    let falls = match at("telescoping") {
        Some(x) => Seen::unless(x <= *MODERATE.end()),
        None => Seen::Open,
    };
    let largest =
        |series: &str| curves.curve(ADVERSARY, series).last().map(|row| Estimate::from(*row));
    let not_above = |other: &&str| match (largest("cyclic-3"), largest(other)) {
        (Some(three), Some(other)) => Seen::unless(other.clearly_below(three)),
        _ => Seen::Open,
    };
    let rivals = ["telescoping", "cyclic-1", "cyclic-2", "cuckooing", "swapping"];
    let resists = Seen::all(rivals.iter().map(not_above));
    Verdict {
        seen: Seen::all([falls, resists, by_first_pass(rows).seen]),
        text: format!(
            "|Q|/|S| at which the last round's rate is clearly above twice epsilon: {}; at the \
             largest |Q|/|S| it is {} for telescoping and {} for cyclic with s = 3; {}",
            texts.join(", "),
            percent(last("telescoping")),
            percent(last("cyclic-3")),
            by_first_pass(rows).text
        ),
    }
}
