//! Latencies, in buckets that threads share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The kinds of answers that are timed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// A key of GET or MGET that is not stored.
    Miss,
    /// A key of GET or MGET that is stored.
    Hit,
    /// EXISTS.
    Exists,
    /// SET and MSET.
    Set,
    /// DEL.
    Remove,
    /// Every other command.
    Other,
}

impl Timed {
    /// All of them, in the order of [`Latencies`].
    pub const ALL: [Timed; 6] =
        [Timed::Miss, Timed::Hit, Timed::Exists, Timed::Set, Timed::Remove, Timed::Other];

    /// Its name in statistics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Timed::Miss => "miss",
            Timed::Hit => "hit",
            Timed::Exists => "exists",
            Timed::Set => "set",
            Timed::Remove => "remove",
            Timed::Other => "other",
        }
    }
}

/// Latencies of all commands since the server started.
#[derive(Debug, Default)]
pub struct Latencies([Latency; Timed::ALL.len()]);

impl Latencies {
    /// Those of one kind.
    #[must_use]
    pub fn of(&self, timed: Timed) -> &Latency {
        &self.0[timed as usize]
    }
}

/// Parts of a factor of two: a bucket is at most 1/8 wider than its start.
const PARTS_BITS: u32 = 3;
const PARTS: u64 = 1 << PARTS_BITS;

/// Up to 2^40 ns, 18 minutes; longer durations count as that.
const BUCKETS: usize = (40 - PARTS_BITS as usize + 1) << PARTS_BITS;

/// A histogram of durations, in nanoseconds.
///
/// ```text
/// bucket   0 1 .. 7 | 8 9 .. 15 | 16 .. 23 | ...
/// from     0 1 .. 7 | 8 9 .. 15 | 16,18 .. 30 | 32,36 ..
/// ```
#[derive(Debug)]
pub struct Latency {
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

impl Default for Latency {
    fn default() -> Self {
        Latency { buckets: [const { AtomicU64::new(0) }; BUCKETS], nanoseconds: AtomicU64::new(0) }
    }
}

impl Latency {
    /// Counts answers with this duration.
    pub fn record(&self, duration: Duration, answers: u64) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[bucket(nanoseconds)].fetch_add(answers, Ordering::Relaxed);
        self.nanoseconds.fetch_add(nanoseconds.saturating_mul(answers), Ordering::Relaxed);
    }

    /// The number of answers counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// The sum of all durations.
    #[must_use]
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }

    /// The duration that this share of the answers (0 to 1) did not exceed; at most 1/8 too
    /// large. Zero if there were no answers.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Duration {
        quantile(&self.counts(), part)
    }

    /// The counts of all buckets, for differences between two moments; see
    /// [`Latency::quantile_since`].
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect()
    }

    /// [`Latency::quantile`] of the answers since [`Latency::counts`] was called.
    #[must_use]
    pub fn quantile_since(&self, earlier: &[u64], part: f64) -> Duration {
        let now = self.counts();
        let since: Vec<u64> =
            now.iter().zip(earlier).map(|(now, then)| now.saturating_sub(*then)).collect();
        quantile(&since, part)
    }

    /// Upper bounds of buckets with the number of answers up to each, for a Prometheus
    /// histogram. Only where the count changes.
    pub fn cumulative(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut sum = 0;
        self.counts().into_iter().enumerate().filter(|(_, count)| *count > 0).map(
            move |(index, count)| {
                sum += count;
                (Duration::from_nanos(end(index)), sum)
            },
        )
    }
}

fn quantile(counts: &[u64], part: f64) -> Duration {
    let total: u64 = counts.iter().sum();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank among answers need not be exact above 2^53"
    )]
    let rank = ((total as f64 * part).ceil() as u64).clamp(1, total.max(1));
    let mut sum = 0;
    for (index, count) in counts.iter().enumerate() {
        sum += count;
        if sum >= rank {
            return Duration::from_nanos(end(index));
        }
    }
    Duration::ZERO
}

/// The bucket of a duration.
fn bucket(nanoseconds: u64) -> usize {
    if nanoseconds < PARTS {
        return usize::try_from(nanoseconds).expect("less than 8");
    }
    let power = nanoseconds.ilog2() - PARTS_BITS;
    let part = (nanoseconds >> power) - PARTS;
    let index = (u64::from(power) + 1) * PARTS + part;
    usize::try_from(index).map_or(BUCKETS - 1, |index| index.min(BUCKETS - 1))
}

/// The last nanosecond of a bucket.
fn end(index: usize) -> u64 {
    let start = |index: u64| match index / PARTS {
        0 => index,
        power => (PARTS + index % PARTS) << (power - 1),
    };
    start(index as u64 + 1) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_where_the_next_begins() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(bucket(end(index)), index);
            assert_eq!(bucket(end(index) + 1), index + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!((end(7), end(8), end(16), end(24)), (7, 8, 17, 35));
    }

    #[test]
    fn quantiles_are_at_most_an_eighth_too_large() {
        let latency = Latency::default();
        assert_eq!(latency.quantile(0.5), Duration::ZERO);
        for microseconds in 1..=1000 {
            latency.record(Duration::from_micros(microseconds), 1);
        }
        for (part, exact) in [(0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = latency.quantile(part).as_nanos() as f64;
            assert!((exact..=exact * 1.125).contains(&found), "{part}: {found}");
        }
        assert_eq!(latency.count(), 1000);
        assert_eq!(latency.total(), Duration::from_micros(500_500));
        let before = latency.counts();
        latency.record(Duration::from_nanos(10), 7);
        assert_eq!(latency.quantile_since(&before, 1.0), Duration::from_nanos(10));
        let last = latency.cumulative().last().expect("some");
        assert_eq!(last.1, 1007);
        assert!(last.0 >= Duration::from_millis(1));
    }
}
