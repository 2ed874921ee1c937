//! [`Health`]: whether the filter is relied on, and the store answers.

use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::postgres::FollowStats;
use crate::upstream::Upstream;

/// Whether the filter is relied on, and the store answers. An embedded store is always so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether the filter answers "absent". If not, every lookup goes to the store.
    pub filter_trusted: bool,
    /// Whether the store has answered a moment ago.
    pub store_up: bool,
    /// How well the store is followed, if it is through its log.
    pub follow: Option<FollowStats>,
}

impl Health {
    /// What is wrong, if anything is.
    pub(crate) fn trouble(self) -> Option<&'static str> {
        match (self.store_up, self.filter_trusted) {
            (false, _) => Some("the store does not answer"),
            (true, false) => Some("the filter is not relied on until it knows the store's keys"),
            (true, true) => None,
        }
    }

    /// Names, meanings and values for INFO, TS.STATS and `/metrics`.
    pub(crate) fn gauges(self) -> Vec<(&'static str, &'static str, u64)> {
        let mut gauges = vec![
            ("store_up", "Whether the store answers: 1 or 0.", u64::from(self.store_up)),
            (
                "filter_trusted",
                "Whether the filter is relied on: 1 or 0.",
                u64::from(self.filter_trusted),
            ),
        ];
        if let Some(FollowStats { lag, retained, .. }) = self.follow {
            if let Some(lag) = lag {
                let lag = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
                gauges.push(("follow_lag_milliseconds", "How old the filter may be at most.", lag));
            }
            gauges.push((
                "follow_retained_bytes",
                "Log that the store keeps for this server.",
                retained,
            ));
        }
        gauges
    }
}

/// The longest that the store may take to answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long an answer counts: anybody may ask for `/readyz`.
const FRESH: Duration = Duration::from_secs(1);

/// Keys of which every store can have one.
const PROBES: [&str; 2] = ["0", "00000000-0000-0000-0000-000000000000"];

/// Whether a store answered, when it was last asked.
#[derive(Default)]
pub(crate) struct Probe {
    /// Held while the store is asked: others wait for the outcome.
    last: Mutex<Option<(Instant, bool)>>,
}

impl Probe {
    /// Looks up a key, unless that was done a moment ago. `count` is told of the lookup.
    pub(crate) async fn store_up<U: Upstream>(
        &self,
        upstream: &U,
        count: impl Fn(&[Bytes]),
    ) -> bool {
        let mut last = self.last.lock().await;
        if let Some((at, up)) = *last
            && at.elapsed() < FRESH
        {
            return up;
        }
        let probes = PROBES.map(Bytes::from);
        let key = probes.iter().find_map(|key| upstream.canonical(key));
        let keys: Vec<Bytes> = key.into_iter().map(std::borrow::Cow::into_owned).collect();
        count(&keys);
        let up = matches!(timeout(PATIENCE, upstream.exist(&keys)).await, Ok(Ok(_)));
        *last = Some((Instant::now(), up));
        up
    }
}
