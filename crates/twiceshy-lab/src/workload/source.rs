//! Where keys come from, by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{ActiveSet, Error, Flows, Order, PowerLaw, Recording, Size, Trace, Workload};

/// Where keys come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// "uniform": independent uniform draws of the absent keys.
    Uniform,
    /// "zipf:1.1": independent draws with this exponent.
    Zipf(f64),
    /// "repeats:100": every absent key as often as that, in random order.
    Repeats(u64),
    /// "firehose:active", "firehose:active:-1.5": keys that come and go.
    ActiveSet {
        /// The exponent of the lengths of life.
        exponent: f64,
    },
    /// "firehose:power": a few keys take nearly all.
    PowerLaw,
    /// "flows:chicago-a", "flows:chicago-a:trains": packets of flows.
    Flows {
        /// Which trace.
        trace: Trace,
        /// In which order.
        order: Order,
    },
    /// A capture or a key file that was read.
    Recording(Arc<Recording>),
}

impl Source {
    /// Every form of a name, for people.
    pub const NAMES: &str = "uniform, zipf:EXPONENT, repeats:TIMES, firehose:active[:EXPONENT], \
                             firehose:power, flows:chicago-a[:trains], flows:chicago-b[:trains], \
                             flows:san-jose[:trains]";

    /// Keys to store and queries for absent ones.
    ///
    /// # Errors
    /// A size that is missing or does not fit.
    pub fn workload(&self, size: &Size, seed: u64) -> Result<Workload, Error> {
        size.check()?;
        let name = self.to_string();
        match self {
            Source::Uniform | Source::Zipf(_) | Source::Repeats(_) => {
                self.synthetic(name, size, seed)
            }
            Source::Recording(recording) => Workload::recorded(name, recording.clone(), size),
            generated => {
                let recording = Arc::new(generated.record(name.clone(), size, seed)?);
                // It is of the wanted size already.
                Workload::recorded(name, recording, &Size { scale: 1.0, ..*size })
            }
        }
    }

    fn synthetic(&self, name: String, size: &Size, seed: u64) -> Result<Workload, Error> {
        let missing = |what| Error::Missing { source: self.to_string(), what };
        let keys = size.keys.filter(|&keys| keys > 0).ok_or_else(|| missing("keys"))?;
        let absent = size.absent(keys)?;
        let exponent = match *self {
            Source::Repeats(times) => {
                return Workload::repeated(name, keys, absent, times, seed);
            }
            Source::Zipf(exponent) => exponent,
            _ => 0.0,
        };
        let queries = size.queries.ok_or_else(|| missing("queries"))?;
        Workload::drawn(name, keys, absent, exponent, queries, seed)
    }

    /// The stream of a generator, numbered.
    fn record(&self, name: String, size: &Size, seed: u64) -> Result<Recording, Error> {
        let queries = |full| size.queries.unwrap_or_else(|| size.scaled(full));
        match *self {
            Source::ActiveSet { exponent } => {
                let keys = ActiveSet::scaled(exponent, size.scale, seed);
                Recording::of_generated(name, queries(ActiveSet::QUERIES), keys)
            }
            Source::PowerLaw => {
                let keys = PowerLaw::within(size.scaled(PowerLaw::RANGE).max(2), seed);
                Recording::of_generated(name, queries(PowerLaw::QUERIES), keys)
            }
            Source::Flows { trace, order } => {
                let packets = Flows::new(trace, order, size.scale, seed)?;
                Recording::of_generated(name, packets.len() as u64, packets)
            }
            Source::Uniform | Source::Zipf(_) | Source::Repeats(_) | Source::Recording(_) => {
                unreachable!("{self} has no stream to number")
            }
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Uniform => f.write_str("uniform"),
            Source::Zipf(exponent) => write!(f, "zipf:{exponent}"),
            Source::Repeats(times) => write!(f, "repeats:{times}"),
            Source::ActiveSet { exponent: ActiveSet::TELESCOPING } => {
                f.write_str("firehose:active")
            }
            Source::ActiveSet { exponent } => write!(f, "firehose:active:{exponent}"),
            Source::PowerLaw => f.write_str("firehose:power"),
            Source::Flows { trace, order: Order::Shuffled } => write!(f, "flows:{trace}"),
            Source::Flows { trace, order: Order::Trains } => write!(f, "flows:{trace}:trains"),
            Source::Recording(recording) => f.write_str(&recording.name),
        }
    }
}

impl FromStr for Source {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |reason: &str| Error::Name { name: text.to_string(), reason: reason.into() };
        let parts: Vec<&str> = text.split(':').collect();
        Ok(match parts[..] {
            ["uniform"] => Source::Uniform,
            ["zipf", exponent] => Source::Zipf(
                number(exponent)
                    .filter(|exponent| *exponent >= 0.0)
                    .ok_or_else(|| wrong("its exponent is 0 or a positive number, such as 1.1"))?,
            ),
            ["repeats", times] => Source::Repeats(
                times
                    .parse()
                    .ok()
                    .filter(|times| (1..=MAX_REPEATS).contains(times))
                    .ok_or_else(|| wrong("expected a whole number from 1 to 1000000000"))?,
            ),
            ["firehose", "active"] => Source::ActiveSet { exponent: ActiveSet::TELESCOPING },
            ["firehose", "active", exponent] => Source::ActiveSet {
                exponent: number(exponent)
                    .filter(|exponent| *exponent != 0.0 && exponent.abs() <= MAX_EXPONENT)
                    .ok_or_else(|| {
                        wrong("its exponent is a number from -16 to 16 other than 0, such as -1.5")
                    })?,
            },
            ["firehose", "power"] => Source::PowerLaw,
            ["flows", trace] => Source::Flows {
                trace: named(trace).ok_or_else(|| wrong(&there_are()))?,
                order: Order::Shuffled,
            },
            ["flows", trace, "trains"] => Source::Flows {
                trace: named(trace).ok_or_else(|| wrong(&there_are()))?,
                order: Order::Trains,
            },
            _ => return Err(wrong(&there_are())),
        })
    }
}

/// Repeats of 2^32 absent keys stay below 2^63.
const MAX_REPEATS: u64 = 1_000_000_000;

/// 65,536 to this power is far from the end of the numbers.
const MAX_EXPONENT: f64 = 16.0;

fn there_are() -> String {
    format!("there are {}", Source::NAMES)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

fn named(name: &str) -> Option<Trace> {
    Trace::ALL.into_iter().find(|trace| trace.name() == name)
}
