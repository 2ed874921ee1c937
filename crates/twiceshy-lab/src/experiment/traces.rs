//! Packet traces, as three of the papers use them: of a trace with F flows the
//! first `n = F / (1 + A/S)` are stored, and the packets of all others are
//! queries. The traces are not public; `workload::Flows` generates their like.

use super::measure::{Curve, Failure, point, rate};
use super::{Point, Setting};
use crate::workload::{Order, Size, Source, Trace, Workload};

/// Flows of a trace in a quick run.
const QUICK_FLOWS: f64 = 20_000.0;

/// The trace's name in the papers.
pub const fn name(trace: Trace) -> &'static str {
    match trace {
        Trace::ChicagoA => "Chicago A",
        Trace::ChicagoB => "Chicago B",
        Trace::SanJose => "San Jose",
    }
}

fn workload(trace: Trace, ratio: f64, quick: bool, seed: u64) -> Result<Workload, Failure> {
    let scale = if quick { QUICK_FLOWS / trace.flows() as f64 } else { 1.0 };
    let source = Source::Flows { trace, order: Order::Trains };
    Ok(source.workload(&Size { ratio, scale, ..Size::default() }, seed)?)
}

/// The false-positive rate of a filter on a trace.
pub fn rate_point(setting: &Setting, panel: &str, curve: Curve, trace: Trace, ratio: f64) -> Point {
    let quick = setting.quick;
    point(panel, curve.name, ratio, setting.trials(), move |seed| {
        rate(&curve.spec, &workload(trace, ratio, quick, seed)?, seed)
    })
}

/// How many times as high as another's the rate of a filter is on a trace.
pub fn times_point(
    setting: &Setting,
    panel: &str,
    (curve, against): (Curve, Curve),
    trace: Trace,
    ratio: f64,
) -> Point {
    let quick = setting.quick;
    let series = format!("{}, {}", curve.name, name(trace));
    point(panel, series, ratio, setting.trials(), move |seed| {
        let workload = workload(trace, ratio, quick, seed)?;
        Ok(rate(&curve.spec, &workload, seed)? / rate(&against.spec, &workload, seed)?)
    })
}
