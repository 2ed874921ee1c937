//! [`Watch`]: reads the server's counts once a second, for the page.
//!
//! ```text
//! every second: counts of guard and server ─▶ rates      180 of them, the charts
//!                                          └▶ moments    11: what is "now"
//! ```
//!
//! The cost does not depend on the number of open pages: all of them show the last second's
//! numbers.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio::time::{MissedTickBehavior, interval};
use twiceshy::guard::GuardStats;

use crate::demo::Demo;
use crate::health::Health;
use crate::latency::Timed;
use crate::server::Server;

/// The time between two readings.
const SECOND: Duration = Duration::from_secs(1);

/// Seconds shown in the charts.
const HISTORY: usize = 180;

/// Seconds that "now" is averaged over.
const NOW: usize = 10;

/// The most groups of neighbouring shards on the heat map.
const GROUPS: usize = 64;

/// The numbers of a server, second by second.
pub struct Watch {
    server: Arc<Server>,
    seen: Mutex<Seen>,
}

struct Seen {
    history: VecDeque<Second>,
    moments: VecDeque<Moment>,
}

/// Counts at one moment.
struct Moment {
    at: Instant,
    shards: usize,
    total: GuardStats,
    groups: Vec<GuardStats>,
    latencies: Vec<Vec<u64>>,
}

/// What happened in a second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rates {
    /// Lookups.
    pub queries: f64,
    /// Lookups answered "absent" without a read of the store.
    pub reads_avoided: f64,
    /// Reads of the store.
    pub store_reads: f64,
    /// Reads that found nothing.
    pub false_positives: f64,
    /// Estimated false positives of a filter that does not adapt: those that occurred, plus
    /// [`GuardStats::reads_avoided_by_adapting`]. A lower bound, as that is one.
    pub without_adaptation: f64,
    /// Blocks whose budget was spent.
    pub spent: f64,
}

/// A second of the charts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Second {
    /// What happened in it.
    #[serde(flatten)]
    pub rates: Rates,
    /// Whether it was under attack, as it ended; `None` without a demonstration.
    pub attack: Option<bool>,
}

impl Rates {
    fn between(earlier: &GuardStats, later: &GuardStats, seconds: f64) -> Self {
        let per_second = |count: fn(&GuardStats) -> u64| {
            // Counts that are summed up while others count may lag.
            let difference = count(later).saturating_sub(count(earlier));
            (difference as f64 / seconds * 10.0).round() / 10.0
        };
        Rates {
            queries: per_second(|stats| stats.queries),
            reads_avoided: per_second(|stats| stats.reads_avoided),
            store_reads: per_second(|stats| stats.store_reads),
            false_positives: per_second(|stats| stats.false_positives),
            without_adaptation: per_second(|stats| {
                stats.false_positives + stats.reads_avoided_by_adapting
            }),
            spent: per_second(|stats| stats.spent),
        }
    }
}

/// Everything that the page shows.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The kind of store.
    pub backend: &'static str,
    /// This program's version.
    pub version: &'static str,
    /// Seconds since the start.
    pub uptime: u64,
    /// Counts since the start.
    pub total: Totals,
    /// Resident memory of the process in bytes, where the system reports it.
    pub process_bytes: Option<u64>,
    /// Connections that are open.
    pub connections: u64,
    /// Requests answered, and those with an error.
    pub commands: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// The mean of the last seconds.
    pub now: Rates,
    /// One for each second, the last one last.
    pub history: Vec<Second>,
    /// Whether a demonstration attacks now; `None` without one.
    pub attack: Option<bool>,
    /// Of the last seconds.
    pub latencies: Vec<Quantiles>,
    /// Shards, neighbours together if there are many.
    pub groups: Vec<Group>,
    /// Whether the store answers.
    pub store_up: bool,
    /// Whether the filter answers "absent"; if not, every lookup goes to the store.
    pub filter_trusted: bool,
    /// Milliseconds that the filter may be behind a store whose log is followed.
    pub lag: Option<u64>,
    /// Bytes of log that such a store keeps for this server.
    pub retained: Option<u64>,
}

/// [`GuardStats`], by name.
#[derive(Debug, Serialize)]
#[expect(missing_docs, reason = "they are the fields of GuardStats")]
pub struct Totals {
    pub keys: u64,
    pub queries: u64,
    pub reads_avoided: u64,
    pub reads_avoided_by_adapting: u64,
    pub store_reads: u64,
    pub sidecar_reads: u64,
    pub false_positives: u64,
    pub vanished: u64,
    pub adapted: u64,
    pub adapted_again: u64,
    pub postponed: u64,
    pub spent: u64,
    pub growths: u64,
    pub filter_bytes: u64,
}

impl From<&GuardStats> for Totals {
    fn from(stats: &GuardStats) -> Self {
        Totals {
            keys: stats.keys,
            queries: stats.queries,
            reads_avoided: stats.reads_avoided,
            reads_avoided_by_adapting: stats.reads_avoided_by_adapting,
            store_reads: stats.store_reads,
            sidecar_reads: stats.sidecar_reads,
            false_positives: stats.false_positives,
            vanished: stats.vanished,
            adapted: stats.adapted,
            adapted_again: stats.adapted_again,
            postponed: stats.postponed,
            spent: stats.spent,
            growths: stats.growths,
            filter_bytes: stats.bytes,
        }
    }
}

/// How long one kind of command took in the last seconds, in nanoseconds; `None` if there was none.
#[derive(Debug, Serialize)]
pub struct Quantiles {
    /// Which kind.
    pub name: &'static str,
    /// Answers since the start.
    pub count: u64,
    /// The median.
    pub p50: Option<u64>,
    /// What 99 % stay within.
    pub p99: Option<u64>,
    /// What 99.9 % stay within.
    pub p999: Option<u64>,
}

/// Neighbouring shards.
#[derive(Debug, Serialize)]
pub struct Group {
    /// The first of them.
    pub first: usize,
    /// How many.
    pub shards: usize,
    /// Their blocks that had spent their budget, since the start.
    pub spent: u64,
    /// The mean of the last seconds.
    pub now: Rates,
}

impl Watch {
    /// Starts to watch a server.
    #[must_use]
    pub fn new(server: Arc<Server>) -> Self {
        let first = Moment::of(&server);
        let seen = Seen { history: VecDeque::new(), moments: VecDeque::from([first]) };
        Watch { server, seen: Mutex::new(seen) }
    }

    /// The watched server.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Reads the counts every second, for as long as it is polled.
    pub async fn run(&self) {
        let mut ticks = interval(SECOND);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is at once.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            self.look();
        }
    }

    /// Reads the counts now.
    pub fn look(&self) {
        let moment = Moment::of(&self.server);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { history, moments } = &mut *seen;
        let last = moments.back().expect("there is one from the start");
        history.push_back(Second { rates: moment.since(last), attack: self.attack() });
        moments.push_back(moment);
        if history.len() > HISTORY {
            history.pop_front();
        }
        if moments.len() > NOW + 1 {
            moments.pop_front();
        }
    }

    fn attack(&self) -> Option<bool> {
        self.server.demo.as_ref().map(Demo::is_attacking)
    }

    /// What the page shows: counts as of the last reading, and the health of now.
    #[must_use]
    pub fn report(&self, health: Health) -> Report {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let first = seen.moments.front().expect("there is one from the start");
        let last = seen.moments.back().expect("there is one from the start");
        let seconds = last.seconds_since(first);
        let group_size = group_size(last.shards);
        let groups = last.groups.iter().zip(&first.groups).enumerate();
        Report {
            store_up: health.store_up,
            filter_trusted: health.filter_trusted,
            lag: health.follow.and_then(|follow| u64::try_from(follow.lag?.as_millis()).ok()),
            retained: health.follow.map(|follow| follow.retained),
            attack: self.attack(),
            backend: self.server.backend.name(),
            version: env!("CARGO_PKG_VERSION"),
            uptime: self.server.started.elapsed().as_secs(),
            total: Totals::from(&last.total),
            process_bytes: process_bytes(),
            connections: self.server.traffic.open(),
            commands: self.server.traffic.commands(),
            errors: self.server.traffic.errors(),
            now: last.since(first),
            history: seen.history.iter().copied().collect(),
            latencies: Timed::ALL
                .into_iter()
                .zip(&first.latencies)
                .map(|(timed, earlier)| self.quantiles(timed, earlier))
                .collect(),
            groups: groups
                .map(|(index, (later, earlier))| Group {
                    first: index * group_size,
                    shards: group_size.min(last.shards - index * group_size),
                    spent: later.spent,
                    now: Rates::between(earlier, later, seconds),
                })
                .collect(),
        }
    }

    fn quantiles(&self, timed: Timed, earlier: &[u64]) -> Quantiles {
        let latency = self.server.latency.of(timed);
        let nanoseconds = |part| {
            let duration = latency.quantile_since(earlier, part);
            (!duration.is_zero()).then(|| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
        };
        Quantiles {
            name: timed.name(),
            count: latency.count(),
            p50: nanoseconds(0.5),
            p99: nanoseconds(0.99),
            p999: nanoseconds(0.999),
        }
    }
}

/// Shards of a group, so that there are at most [`GROUPS`].
fn group_size(shards: usize) -> usize {
    shards.div_ceil(GROUPS).max(1)
}

impl Moment {
    fn of(server: &Server) -> Self {
        let shards = server.backend.shard_stats();
        let sum = |shards: &[GuardStats]| {
            let mut sum = GuardStats::default();
            shards.iter().for_each(|shard| sum += *shard);
            sum
        };
        let group_size = group_size(shards.len());
        Moment {
            at: Instant::now(),
            shards: shards.len(),
            total: sum(&shards),
            groups: shards.chunks(group_size).map(sum).collect(),
            latencies: Timed::ALL.map(|timed| server.latency.of(timed).counts()).into(),
        }
    }

    fn seconds_since(&self, earlier: &Moment) -> f64 {
        // Never zero: the first moment is also the last for a second.
        self.at.duration_since(earlier.at).as_secs_f64().max(1e-3)
    }

    fn since(&self, earlier: &Moment) -> Rates {
        Rates::between(&earlier.total, &self.total, self.seconds_since(earlier))
    }
}

/// Resident memory of this process, where the system reports it.
pub(crate) fn process_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}
