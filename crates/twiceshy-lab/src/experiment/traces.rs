//! Packet traces, as three of the papers use them: of a trace with F flows the
//! first `n = F / (1 + A/S)` are stored, and the packets of all others are
//! queries. The traces are not public; [`crate::workload::Flows`] generates their
//! like, in two orders. In packet trains flows begin throughout the trace, as on a
//! link, so that the first flows are as large as any. Shuffled, the first flows to
//! be seen are the large ones, and what is left to ask for are small flows that
//! hardly repeat: the hardest case for a filter that learns from repeats.

use super::measure::{Curve, Failure, point, rate};
use super::{Point, Setting};
use crate::workload::{Order, Size, Source, Trace, Workload};

/// Flows of a trace in a quick run.
const QUICK_FLOWS: f64 = 20_000.0;

/// A trace in one of its orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traffic {
    trace: Trace,
    order: Order,
}

impl Traffic {
    /// Both orders of a trace.
    pub const fn both(trace: Trace) -> [Traffic; 2] {
        [Traffic { trace, order: Order::Trains }, Traffic { trace, order: Order::Shuffled }]
    }

    /// The trace as the papers call it, and the order.
    pub const fn name(self) -> &'static str {
        match (self.trace, self.order) {
            (Trace::ChicagoA, Order::Trains) => "Chicago A, trains",
            (Trace::ChicagoA, Order::Shuffled) => "Chicago A, shuffled",
            (Trace::ChicagoB, Order::Trains) => "Chicago B, trains",
            (Trace::ChicagoB, Order::Shuffled) => "Chicago B, shuffled",
            (Trace::SanJose, Order::Trains) => "San Jose, trains",
            (Trace::SanJose, Order::Shuffled) => "San Jose, shuffled",
        }
    }

    fn workload(self, ratio: f64, quick: bool, seed: u64) -> Result<Workload, Failure> {
        let Traffic { trace, order } = self;
        let scale = if quick { QUICK_FLOWS / trace.flows() as f64 } else { 1.0 };
        let source = Source::Flows { trace, order };
        Ok(source.workload(&Size { ratio, scale, ..Size::default() }, seed)?)
    }

    /// The false-positive rate of a filter.
    pub fn rate(self, setting: &Setting, panel: &str, curve: Curve, ratio: f64) -> Point {
        let quick = setting.quick;
        point(panel, curve.name, ratio, setting.trials(), move |seed| {
            rate(&curve.spec, &self.workload(ratio, quick, seed)?, seed)
        })
    }

    /// How many times as high as that of `against` the rate of a filter is.
    pub fn times(
        self,
        setting: &Setting,
        panel: &str,
        curve: Curve,
        against: Curve,
        ratio: f64,
    ) -> Point {
        let quick = setting.quick;
        let series = format!("{}, {}", curve.name, self.name());
        point(panel, series, ratio, setting.trials(), move |seed| {
            let workload = self.workload(ratio, quick, seed)?;
            Ok(rate(&curve.spec, &workload, seed)? / rate(&against.spec, &workload, seed)?)
        })
    }
}

/// Whether a panel or a curve is of shuffled packets.
pub fn is_shuffled(name: &str) -> bool {
    name.ends_with("shuffled")
}
