//! A node's queue, and how long requests took.

/// Nanoseconds, of the virtual clock or between two of its moments.
pub type Time = u64;

/// A single-threaded server: first come, first served.
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    free_at: Time,
    /// Time spent on requests.
    pub(super) busy: Time,
}

impl Server {
    /// Serves a request that arrives now and takes `service`; when it is done. Arrivals come in order.
    pub(super) fn serve(&mut self, arrival: Time, service: Time) -> Time {
        self.free_at = self.free_at.max(arrival) + service;
        self.busy += service;
        self.free_at
    }
}

/// How many parts a power of two is cut into: a percentile is exact within 1 in 128.
const PARTS: u64 = 128;

/// A histogram of times.
#[derive(Clone, Debug, Default)]
pub(super) struct Latencies {
    counts: Vec<u64>,
    total: u64,
    most: Time,
}

impl Latencies {
    pub(super) fn add(&mut self, time: Time) {
        let bucket = bucket(time);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        self.total += 1;
        self.most = self.most.max(time);
    }

    /// The least time within which this share was done, rounded down by at most 1 in 128;
    /// 0 if there are none.
    pub(super) fn percentile(&self, share: f64) -> Time {
        let rank = (share * self.total as f64).ceil() as u64;
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank.max(1)
        });
        reached.map_or(0, least_of)
    }

    pub(super) fn most(&self) -> Time {
        self.most
    }
}

/// Times below [`PARTS`] have a bucket each.
fn bucket(time: Time) -> usize {
    let shift = time.max(1).ilog2().saturating_sub(PARTS.ilog2());
    let bucket = u64::from(shift) * PARTS + (time >> shift);
    usize::try_from(bucket).expect("a few thousand")
}

/// The least time of a bucket.
fn least_of(bucket: usize) -> Time {
    let bucket = bucket as u64;
    let shift = (bucket / PARTS).saturating_sub(1);
    (bucket - shift * PARTS) << shift
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;

    use super::*;
    use crate::random::rng;

    #[test]
    fn percentiles_are_those_of_the_sorted_times() {
        let mut rng = rng(1);
        let times: Vec<Time> =
            (0..5000).map(|_| rng.random::<u64>() >> rng.random_range(4..64)).collect();
        let mut latencies = Latencies::default();
        times.iter().for_each(|&time| latencies.add(time));
        let mut sorted = times;
        sorted.sort_unstable();
        for share in [0.0, 0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let rank = (share * sorted.len() as f64).ceil() as usize;
            let exact = sorted[rank.max(1) - 1];
            let found = latencies.percentile(share);
            assert!(found <= exact && exact - found <= exact / 128, "{share}: {found}, {exact}");
        }
        assert_eq!(latencies.most(), sorted[sorted.len() - 1]);
        assert_eq!(Latencies::default().percentile(0.5), 0);
    }

    /// M/M/1: with arrivals at rate l and services at rate m, the time in the system is exponential
    /// with mean 1 / (m - l). Each of 20,000 independent runs starts with that law's backlog (empty
    /// with probability 1 - l/m), so the time of its 50th arrival has it exactly. The mean of R such
    /// times is off by a factor x with probability below exp(-R (x - 1 - ln x)): for x = 1.04 and 0.96
    /// with R = 20,000 below 2e-7 and 8e-8. The share above the law's 99th percentile (p = 0.01) is
    /// off by d = 0.0045 with probability below 2 exp(-R d^2 / (2 p (1 - p) + 2 d / 3)) < 4e-8
    /// (Bernstein).
    #[test]
    fn queues_follow_the_formula_of_m_m_1() {
        const RUNS: usize = 20_000;
        let (arrivals, services) = (0.8e-6_f64, 1e-6); // per nanosecond: 80 % busy
        let mut rng = rng(2);
        let mut exponential = |rate: f64| -(1.0 - rng.random::<f64>()).ln() / rate;
        let mean = 1.0 / (services - arrivals);
        let mut times = Vec::new();
        for _ in 0..RUNS {
            let mut server = Server::default();
            let start = 1_000_000_000.0;
            // Busy with probability l/m; the backlog then is exponential.
            if exponential(1.0) > -(arrivals / services).ln() {
                let backlog = exponential(services - arrivals);
                server.serve(start as Time, backlog as Time);
            }
            let (mut now, mut time) = (start, 0.0);
            for _ in 0..50 {
                now += exponential(arrivals);
                let done = server.serve(now as Time, exponential(services) as Time);
                time = done as f64 - now;
            }
            times.push(time);
        }
        let measured = times.iter().sum::<f64>() / RUNS as f64;
        assert!((0.96..1.04).contains(&(measured / mean)), "{measured} for {mean}");
        let slow = times.iter().filter(|&&time| time > mean * 100_f64.ln()).count();
        let share = slow as f64 / RUNS as f64;
        assert!((0.0055..0.0145).contains(&share), "{share} for 0.01");
    }
}
