//! Packets of flows, as on the links of the papers, whose traces are not public.
//!
//! The papers state the packets and flows of three traces, and of one (Chicago A) that its largest
//! flow has 130,675 packets and the largest thousand more than 10,000 each. That is more than half
//! of its packets, so no single power law fits: large flows have a Pareto distribution from 10,001
//! packets to the largest, all others one from 1 to 10,000, whose exponent gives the total.

use std::fmt;

use rand::RngExt;
use rand::seq::SliceRandom;

use super::{Error, Key, reserve};
use crate::random::{Rng, rng};

/// A trace of the papers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Equinix Chicago, direction A, 2014-06-19 13:09: 18.5 M packets.
    ChicagoA,
    /// Equinix Chicago, direction B, 2014-06-19 13:26: 14.6 M packets.
    ChicagoB,
    /// Equinix San Jose, direction A, 2014-03-20 13:04: 37.4 M packets.
    SanJose,
}

impl Trace {
    /// All of them.
    pub const ALL: [Trace; 3] = [Trace::ChicagoA, Trace::ChicagoB, Trace::SanJose];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Trace::ChicagoA => "chicago-a",
            Trace::ChicagoB => "chicago-b",
            Trace::SanJose => "san-jose",
        }
    }

    /// How many flows it has.
    #[must_use]
    pub const fn flows(self) -> u64 {
        match self {
            Trace::ChicagoA => 691_371,
            Trace::ChicagoB => 632_543,
            Trace::SanJose => 2_313_092,
        }
    }

    /// How many of them have more than [`LARGE`] packets. Mitzenmacher et al. say it of Chicago A,
    /// and of the others that they are skewed as well: as many for each packet, then.
    const fn large(self) -> u64 {
        match self {
            Trace::ChicagoA => 1000,
            Trace::ChicagoB => 789,
            Trace::SanJose => 2022,
        }
    }

    /// The exponent of the other flows' sizes that gives as many packets as the trace has.
    const fn alpha(self) -> f64 {
        match self {
            Trace::ChicagoA => 1.261_788,
            Trace::ChicagoB => 1.331_202,
            Trace::SanJose => 1.550_901,
        }
    }

    /// Packets of each flow, the largest first: of the large ones, then of the others, the
    /// midpoints of as many equal shares of a Pareto distribution, so that totals are exact. At
    /// full scale the first is the trace's largest flow. A smaller scale has fewer flows of the
    /// same distribution.
    pub fn sizes(self, scale: f64) -> impl ExactSizeIterator<Item = u32> {
        let share = |count: u64| (count as f64 * scale).round() as usize;
        let (flows, full) = (share(self.flows()).max(1), scale == 1.0);
        let large = share(self.large());
        let small = Pareto::new(1.0, f64::from(LARGE) + 1.0, self.alpha());
        // So that of 1000 flows the largest is the largest of the trace.
        let alpha = libm::log(1000.0) / libm::log(f64::from(LARGEST) / (f64::from(LARGE) + 1.0));
        let among_large = Pareto::new(f64::from(LARGE) + 1.0, f64::from(LARGEST), alpha);
        (0..flows).map(move |flow| match flow {
            0 if full => LARGEST,
            flow if flow < large => among_large.midpoint(flow, large),
            flow => small.midpoint(flow - large, flows - large),
        })
    }
}

/// Packets of the largest flow.
const LARGEST: u32 = 130_675;

/// A flow of more packets is large.
const LARGE: u32 = 10_000;

/// A Pareto distribution that is cut off at its largest value.
#[derive(Clone, Copy)]
struct Pareto {
    least: f64,
    alpha: f64,
    /// The probability beyond the largest value, if it were not cut off.
    beyond: f64,
}

impl Pareto {
    fn new(least: f64, largest: f64, alpha: f64) -> Self {
        Pareto { least, alpha, beyond: libm::pow(largest / least, -alpha) }
    }

    /// The middle of one of so many shares that are equally likely, in whole numbers; the largest
    /// share is number 0.
    fn midpoint(&self, share: usize, of: usize) -> u32 {
        let above = (share as f64 + 0.5) / of as f64;
        let v = self.beyond + (1.0 - self.beyond) * above;
        (self.least * libm::pow(v, -1.0 / self.alpha)) as u32
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The order of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// All orders are equally likely.
    #[default]
    Shuffled,
    /// Each flow begins at a uniform time. Its packets come in trains of
    /// geometric length with mean 1.65, the first train at that time and the
    /// others at uniform times from then on.
    Trains,
}

/// The mean length of a packet train.
const TRAIN: f64 = 1.65;

/// The packets of a trace, each by the number of its flow.
#[derive(Clone, Debug)]
pub struct Flows {
    packets: std::vec::IntoIter<u32>,
}

impl Flows {
    /// The packets in an order that the seed draws. Holds all of them: four bytes
    /// a packet, and for a while eight more a train.
    ///
    /// # Errors
    /// [`Error::Memory`].
    pub fn new(trace: Trace, order: Order, scale: f64, seed: u64) -> Result<Self, Error> {
        let total = trace.sizes(scale).map(u64::from).sum();
        let mut packets = reserve(total, "packets")?;
        let mut rng = rng(seed);
        match order {
            Order::Shuffled => {
                for (flow, size) in (0..).zip(trace.sizes(scale)) {
                    packets.extend(std::iter::repeat_n(flow, size as usize));
                }
                packets.shuffle(&mut rng);
            }
            Order::Trains => {
                let mut trains = trains(trace.sizes(scale), &mut rng);
                trains.sort_unstable();
                for train in &trains {
                    packets.extend(std::iter::repeat_n(train.flow, train.packets as usize));
                }
            }
        }
        Ok(Flows { packets: packets.into_iter() })
    }
}

/// Packets of a flow that follow each other, in the order of their times.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Train {
    time: u32,
    flow: u32,
    packets: u32,
}

fn trains(sizes: impl Iterator<Item = u32>, rng: &mut Rng) -> Vec<Train> {
    let mut trains = Vec::new();
    for (flow, size) in (0..).zip(sizes) {
        let start = rng.random();
        let mut time = start;
        let mut left = size;
        while left > 0 {
            let mut packets = 1;
            while packets < left && rng.random_bool(1.0 - 1.0 / TRAIN) {
                packets += 1;
            }
            trains.push(Train { time, flow, packets });
            left -= packets;
            time = rng.random_range(start..=u32::MAX);
        }
    }
    trains
}

impl Iterator for Flows {
    type Item = Key;

    fn next(&mut self) -> Option<Key> {
        self.packets.next().map(Key::from)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.packets.size_hint()
    }
}

impl ExactSizeIterator for Flows {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each packet but a flow's first begins a train with probability 1/1.65.
    /// Flows begin in the first quarter with probability 1/4. Both counts are
    /// binomial with sigma above 80; 8 sigma have a probability below 10^-12 by
    /// Bernstein's inequality.
    #[test]
    fn trains_have_their_length_and_flows_begin_anywhere() {
        let sizes: Vec<u32> = Trace::ChicagoA.sizes(0.1).collect();
        let trains = trains(sizes.iter().copied(), &mut rng(3));
        let packets: f64 = sizes.iter().map(|&size| f64::from(size)).sum();
        let flows = sizes.len() as f64;
        let near = |count: usize, trials: f64, probability: f64| {
            let sigma = (trials * probability * (1.0 - probability)).sqrt();
            assert!(sigma > 80.0 && (count as f64 - trials * probability).abs() < 8.0 * sigma);
        };
        near(trains.len() - sizes.len(), packets - flows, 1.0 / 1.65);

        let mut starts = vec![u32::MAX; sizes.len()];
        for train in &trains {
            let start = &mut starts[train.flow as usize];
            *start = train.time.min(*start);
        }
        near(starts.iter().filter(|&&start| start < 1 << 30).count(), flows, 0.25);
        near(starts.iter().filter(|&&start| start >= 3 << 30).count(), flows, 0.25);
    }
}
