//! Where keys come from, by name.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::{ActiveSet, Error, Flows, Key, Order, PowerLaw, Recording, Size, Trace, Workload};

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
        match *self {
            Source::Uniform => self.drawn(0.0, size, seed),
            Source::Zipf(exponent) => self.drawn(exponent, size, seed),
            Source::Repeats(times) => {
                let (keys, absent) = self.sizes(size)?;
                Workload::repeated(self.to_string(), keys, absent, times, seed)
            }
            Source::Recording(ref recording) => Workload::recorded(recording.clone(), size),
            Source::ActiveSet { .. } | Source::PowerLaw | Source::Flows { .. } => {
                // It is of the wanted size already.
                let whole = Size { scale: 1.0, ..*size };
                Workload::recorded(Arc::new(self.record(size, seed)?), &whole)
            }
        }
    }

    /// The stream of a source that makes one, stored keys included. Of a recording, a copy.
    ///
    /// # Errors
    /// [`Error::Missing`] for sources that draw from absent keys alone; [`Error::Memory`].
    pub fn record(&self, size: &Size, seed: u64) -> Result<Recording, Error> {
        let queries = |full| size.queries.unwrap_or_else(|| size.scaled(full));
        let generated = |len, keys: &mut dyn Iterator<Item = Key>| {
            Recording::of_generated(self.to_string(), len, keys)
        };
        match *self {
            Source::Uniform | Source::Zipf(_) | Source::Repeats(_) => Err(self.missing("a stream")),
            Source::ActiveSet { exponent } => {
                let mut keys = ActiveSet::scaled(exponent, size.scale, seed);
                generated(queries(ActiveSet::QUERIES), &mut keys)
            }
            Source::PowerLaw => {
                let mut keys = PowerLaw::within(size.scaled(PowerLaw::RANGE).max(2), seed);
                generated(queries(PowerLaw::QUERIES), &mut keys)
            }
            Source::Flows { trace, order } => {
                let mut packets = Flows::new(trace, order, size.scale, seed)?;
                generated(packets.len() as u64, &mut packets)
            }
            Source::Recording(ref recording) => Ok((**recording).clone()),
        }
    }

    fn drawn(&self, exponent: f64, size: &Size, seed: u64) -> Result<Workload, Error> {
        let (keys, absent) = self.sizes(size)?;
        let queries = size.queries.ok_or_else(|| self.missing("queries"))?;
        Workload::drawn(self.to_string(), keys, absent, exponent, queries, seed)
    }

    /// Stored and absent keys of a synthetic source.
    fn sizes(&self, size: &Size) -> Result<(u64, u64), Error> {
        let keys = size.keys.filter(|&keys| keys > 0).ok_or_else(|| self.missing("keys"))?;
        Ok((keys, size.absent(keys)?))
    }

    fn missing(&self, what: &'static str) -> Error {
        Error::Missing { source: self.to_string(), what }
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
