//! Packet traces, as three of the papers use them: of a trace with F flows the
//! first `n = F / (1 + A/S)` are stored, and the packets of all others are
//! queries. The traces are not public; [`crate::workload::Flows`] generates their
//! like, in two orders. In packet trains flows begin throughout the trace, as on a
//! link, so that the first flows are as large as any. Shuffled, the first flows to
//! be seen are the large ones, and what is left to ask for are small flows that
//! hardly repeat: the hardest case for a filter that learns from repeats.
//!
//! A recording of one's own takes the place of all three.

use std::sync::Arc;

use super::measure::{Curve, Failure, point, rate};
use super::{Point, Setting, streams};
use crate::workload::{Order, Recording, Size, Source, Trace, Workload};

/// Flows of a generated trace in a quick run. At A/S = 1, 5 and 20 a multiple of 38 are
/// stored, which fill whole bins to a load of 0.95.
const QUICK_FLOWS: f64 = 7_980.0;

/// The ratios of a quick run, and of shuffled traces; of both.
const FEW_RATIOS: [f64; 4] = [1.0, 5.0, 20.0, 100.0];
const FEWEST_RATIOS: [f64; 2] = [1.0, 20.0];

/// A ratio that leaves fewer keys to store is left out of a recording's figure.
const LEAST_KEYS: f64 = 100.0;

/// A trace in one of its orders, or a recording.
#[derive(Clone, Debug)]
pub enum Traffic {
    /// Generated.
    Like(Trace, Order),
    /// Recorded.
    Recorded(Arc<Recording>),
}

impl Traffic {
    /// What a figure about these traces runs on.
    pub fn of(setting: &Setting, traces: &[Trace]) -> Vec<Traffic> {
        if let Some(recording) = &setting.recording {
            return vec![Traffic::Recorded(recording.clone())];
        }
        let orders = [Order::Trains, Order::Shuffled];
        let both = |&trace| orders.map(|order| Traffic::Like(trace, order));
        traces.iter().flat_map(both).collect()
    }

    /// The trace as the papers call it, and the order.
    pub fn name(&self) -> String {
        let (trace, order) = match self {
            Traffic::Like(trace, order) => (trace, order),
            Traffic::Recorded(recording) => return recording.name.clone(),
        };
        let trace = match trace {
            Trace::ChicagoA => "Chicago A",
            Trace::ChicagoB => "Chicago B",
            Trace::SanJose => "San Jose",
        };
        match order {
            Order::Trains => format!("{trace}, trains"),
            Order::Shuffled => format!("{trace}, {SHUFFLED}"),
        }
    }

    /// The ratios of a figure that it has: shuffled, which is there to show how
    /// much the order matters, only a few of them.
    pub fn ratios(&self, setting: &Setting, usual: &[f64]) -> Vec<f64> {
        let Traffic::Recorded(recording) = self else {
            let shuffled = matches!(self, Traffic::Like(_, Order::Shuffled));
            return match (setting.quick, shuffled) {
                (true, true) => FEWEST_RATIOS.to_vec(),
                (false, false) => usual.to_vec(),
                _ => FEW_RATIOS.to_vec(),
            };
        };
        let distinct = recording.distinct as f64;
        match recording.stored {
            Some(stored) => vec![distinct / stored as f64 - 1.0],
            None => {
                let usual = usual.iter().copied();
                usual.filter(|ratio| distinct / (1.0 + ratio) >= LEAST_KEYS).collect()
            }
        }
    }

    fn workload(&self, ratio: f64, quick: bool, seed: u64) -> Result<Workload, Failure> {
        let (source, scale) = match *self {
            Traffic::Like(trace, order) => {
                let source = Source::Flows { trace, order };
                match quick {
                    true => (source, QUICK_FLOWS / trace.flows() as f64),
                    false => (streams::of(&source)?, 1.0),
                }
            }
            Traffic::Recorded(ref recording) => (Source::Recording(recording.clone()), 1.0),
        };
        Ok(source.workload(&Size { ratio, scale, ..Size::default() }, seed)?)
    }

    /// The false-positive rate of a filter.
    pub fn rate(
        &self,
        setting: &Setting,
        panel: &str,
        curve: &Curve,
        ratio: f64,
        trials: u32,
    ) -> Point {
        let (traffic, design, quick) = (self.clone(), curve.design, setting.quick);
        point(panel, &curve.name, ratio, trials, move |seed| {
            rate(&design, &traffic.workload(ratio, quick, seed)?, seed)
        })
    }

    /// How many times as high as that of `against` the rate of a filter is.
    pub fn times(
        &self,
        setting: &Setting,
        panel: &str,
        curve: &Curve,
        against: &Curve,
        ratio: f64,
    ) -> Point {
        let (traffic, quick) = (self.clone(), setting.quick);
        let (design, against) = (curve.design, against.design);
        let series = format!("{}, {}", curve.name, self.name());
        point(panel, series, ratio, setting.trials(8), move |seed| {
            let workload = traffic.workload(ratio, quick, seed)?;
            // One more on both sides, so that there is a ratio where there are no
            // false positives.
            let least = 1.0 / workload.len() as f64;
            let (rate, against) =
                (rate(&design, &workload, seed)?, rate(&against, &workload, seed)?);
            Ok((rate.value + least) / (against.value + least))
        })
    }
}

const SHUFFLED: &str = "shuffled";

/// Whether a panel or a curve is of shuffled packets.
pub fn is_shuffled(name: &str) -> bool {
    name.ends_with(SHUFFLED)
}
