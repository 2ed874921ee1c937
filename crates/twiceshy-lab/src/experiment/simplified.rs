//! Eppstein, "Cuckoo Filter: Simplification and Analysis", sections 4 and 5: how often a
//! simplified cuckoo filter has no room for a key, without a stash, beside what Theorem 4.3
//! promises, and with one; and how often the original filter has none (section 2.5), which the
//! paper expects to be no worse.

use twiceshy_filters::cuckoo::bounds::{Guarantee, theorem_4_3};
use twiceshy_filters::{Error, Spec, WhenFull};

use super::curves::{Curves, percent};
use super::measure::{Curve, Failure, point};
use super::{Axis, Figure, Point, Row, Seen, Setting, Verdict};
use crate::random::hasher;

/// The failure probability.
pub fn figures() -> Vec<Figure> {
    vec![Figure {
        id: "simplified-failures",
        title: "Failures of the simplified cuckoo filter",
        source: "Eppstein, Cuckoo Filter: Simplification and Analysis, Theorem 4.3",
        claim: "With fingerprints that are long enough (10 bits here) all keys find room up to a \
                load of 0.443, except with probability O(1/n); the theorem does not say how much \
                further.",
        x: Axis { label: "load", log: false },
        y: Axis { label: "share of filters with no room for a key", log: false },
        points: failures,
        verdict: later_than_promised,
    }]
}

const SLOTS: u32 = 4;
/// The theorem's s: failures have probability O(n^-s).
const EXPONENT: f64 = 1.0;
const FINGERPRINTS: [u32; 4] = [4, 6, 8, 10];
const LOADS: &[f64] =
    &[0.2, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93, 0.95, 0.96, 0.97, 0.98, 0.99];
const PROMISE: &str = "Theorem 4.3: 1/n";

fn cells(quick: bool) -> usize {
    1 << if quick { 14 } else { 18 }
}

fn promise(keys: usize) -> Guarantee {
    theorem_4_3(keys, SLOTS, EXPONENT).expect("four cells a bin are enough for the theorem")
}

/// The simplified filter alone, with a stash, and the original one.
#[derive(Clone, Copy)]
enum Which {
    Simplified,
    Stashing,
    Original,
}

impl Which {
    const ALL: [Self; 3] = [Which::Simplified, Which::Stashing, Which::Original];

    /// Fingerprints that find no cell and stay with their subtable.
    const STASH: u32 = 4;

    fn spec(self, f: u32) -> String {
        match self {
            Which::Simplified => format!("simplified:f={f},b={SLOTS},stash=0"),
            Which::Stashing => format!("simplified:f={f},b={SLOTS},stash={}", Self::STASH),
            Which::Original => format!("plain:f={f},b={SLOTS},literal=1"),
        }
    }

    fn panel(self, cells: usize) -> String {
        let name = match self {
            Which::Simplified => String::new(),
            Which::Stashing => format!("a stash of {} a subtable, ", Self::STASH),
            Which::Original => "the original filter, ".to_owned(),
        };
        format!("{name}{SLOTS} cells a bin, {cells} cells")
    }
}

fn failures(setting: &Setting) -> Vec<Point> {
    let cells = cells(setting.quick);
    let mut points = Vec::new();
    for which in Which::ALL {
        // A trial is many filters: a share of one would be 0 or 1.
        let tables = match (setting.quick, which) {
            (true, Which::Simplified) => 10,
            (true, _) => 4,
            (false, _) => 100,
        };
        for f in FINGERPRINTS {
            let curve = Curve::new(&which.spec(f)).named(fingerprint_name(f));
            for &load in LOADS {
                let spec = curve.design.library().expect("a filter of the library");
                let panel = which.panel(cells);
                points.push(point(&panel, &curve.name, load, setting.trials(4), move |seed| {
                    let mut failed = 0;
                    for table in 0..tables {
                        failed += u32::from(!has_room(&spec, cells, load, seed ^ (table << 32))?);
                    }
                    Ok(f64::from(failed) / tables as f64)
                }));
            }
        }
    }
    let (promised, panel) = (promise(cells).load, Which::Simplified.panel(cells));
    for &load in LOADS.iter().filter(|&&load| load < promised).chain([&promised]) {
        points.push(point(&panel, PROMISE, load, 1, move |_| Ok(1.0 / (load * cells as f64))));
    }
    points
}

fn fingerprint_name(f: u32) -> String {
    format!("f = {f}")
}

/// Whether a filter of so many cells takes keys up to this load.
fn has_room(spec: &Spec, cells: usize, load: f64, seed: u64) -> Result<bool, Failure> {
    const MADE_FOR: f64 = 0.95;
    let capacity = (cells as f64 * MADE_FOR) as usize;
    let mut filter = spec.when_full(WhenFull::Error).build(capacity)?;
    if filter.stats().cells != cells {
        return Err(format!("{spec} has {} cells, not {cells}", filter.stats().cells).into());
    }
    let hasher = hasher(seed);
    for key in 0..(cells as f64 * load) as u64 {
        match filter.insert(hasher.digest(key.to_le_bytes())) {
            Ok(_) => (),
            Err(Error::Full { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}

/// The largest load at which no filter failed.
fn safe_load(curves: &Curves<'_>, panel: &str, f: u32) -> f64 {
    let curve = curves.curve(panel, &fingerprint_name(f));
    curve.iter().take_while(|row| row.mean == 0.0).last().map_or(0.0, |row| row.x)
}

fn later_than_promised(rows: &[Row]) -> Verdict {
    let curves = Curves::new(rows);
    let Some(panel) = curves.panels().into_iter().next() else {
        return Verdict { seen: Seen::Open, text: "rows are missing".into() };
    };
    let promised = curves.curve(panel, PROMISE).last().map_or(f64::NAN, |row| row.x);
    let safe = |panel: &str| FINGERPRINTS.map(|f| (f, safe_load(&curves, panel, f)));
    let (longest, reached) = safe(panel)[FINGERPRINTS.len() - 1];
    let shares = |panel: &str| {
        let shares = safe(panel).map(|(f, load)| format!("{load} with {f}"));
        shares.join(", ")
    };
    // Rows of the other filters come behind these, where there are any.
    let others: String = curves
        .panels()
        .into_iter()
        .skip(1)
        .map(|other| {
            let name = other.split(", ").next().unwrap_or(other);
            format!("; {name}: up to {} bits", shares(other))
        })
        .collect();
    let loose = percent(reached - promised);
    Verdict {
        seen: Seen::unless(reached < promised),
        text: format!(
            "no filter failed up to a load of {} bits; with {longest} bits, as the theorem asks \
             for, that is {loose} of all cells beyond the promised {promised:.3}{others}",
            shares(panel)
        ),
    }
}
