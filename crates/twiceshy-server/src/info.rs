//! INFO and TS.STATS: the server's counts, for people and for programs.

use std::fmt::Write as _;

use bytes::Bytes;
use twiceshy::store::{Metric, metrics};

use crate::health::Health;
use crate::latency::Timed;
use crate::reply::Reply;
use crate::server::Server;

/// The version of Redis that the protocol and the errors follow; some clients check it.
const REDIS_VERSION: &str = "7.0.0";

/// The sections of INFO.
const SECTIONS: [&str; 4] = ["Server", "Clients", "Stats", "Twiceshy"];

/// Which sections of INFO were asked for, one by one: there may be a million words.
#[derive(Default)]
pub(crate) struct Asked {
    some: bool,
    sections: [bool; SECTIONS.len()],
}

impl Asked {
    pub(crate) fn add(&mut self, word: &[u8]) {
        self.some = true;
        let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let all = ["all", "default", "everything"].into_iter().any(is);
        for (asked, name) in self.sections.iter_mut().zip(SECTIONS) {
            *asked |= all || is(name);
        }
    }
}

/// The sections of INFO that were asked for, or all.
pub(crate) fn info(server: &Server, asked: &Asked, health: Health) -> String {
    let mut text = String::new();
    let traffic = &server.traffic;
    let sections: [Vec<(&str, String)>; SECTIONS.len()] = [
        vec![
            ("redis_version", REDIS_VERSION.into()),
            ("redis_mode", "standalone".into()),
            ("twiceshy_version", env!("CARGO_PKG_VERSION").into()),
            ("twiceshy_backend", server.backend.name().into()),
            ("process_id", std::process::id().to_string()),
            ("uptime_in_seconds", server.started.elapsed().as_secs().to_string()),
        ],
        vec![
            ("connected_clients", traffic.open().to_string()),
            ("maxclients", server.limits.connections.to_string()),
            ("clients_memory_bytes", server.memory.taken().to_string()),
            ("max_clients_memory_bytes", server.limits.memory.to_string()),
        ],
        vec![
            ("total_connections_received", traffic.accepted().to_string()),
            ("rejected_connections", traffic.refused().to_string()),
            ("total_commands_processed", traffic.commands().to_string()),
            ("total_error_replies", traffic.errors().to_string()),
        ],
        counts(server, health).into_iter().map(|(name, count)| (name, count.to_string())).collect(),
    ];
    for ((name, lines), is_asked) in SECTIONS.into_iter().zip(sections).zip(asked.sections) {
        if asked.some && !is_asked {
            continue;
        }
        let separator = if text.is_empty() { "" } else { "\r\n" };
        let _ = write!(text, "{separator}# {name}\r\n");
        for (name, value) in lines {
            let _ = write!(text, "{name}:{value}\r\n");
        }
    }
    text
}

/// The answer to TS.STATS: counts of the guard, and latencies in nanoseconds.
pub(crate) fn stats(server: &Server, health: Health) -> Reply {
    let mut entries: Vec<(Bytes, Reply)> = counts(server, health)
        .into_iter()
        .map(|(name, count)| (name.into(), Reply::count(count)))
        .collect();
    for timed in Timed::ALL {
        let latency = server.latency.of(timed);
        for (name, part) in [("p50", 0.5), ("p99", 0.99), ("p999", 0.999)] {
            let nanoseconds = latency.quantile(part).as_nanos();
            let name = format!("{}_{name}_nanoseconds", timed.name());
            entries.push((name.into(), Reply::count(nanoseconds)));
        }
    }
    Reply::Map(entries)
}

/// The guard's statistics and the store's health, named as in `/metrics`, without prefix and
/// suffix.
fn counts(server: &Server, health: Health) -> Vec<(&'static str, u64)> {
    let named = |metric: Metric| {
        let name = metric.name.trim_start_matches("twiceshy_").trim_end_matches("_total");
        (name, metric.value)
    };
    let health = health.gauges().into_iter().map(|(name, _, value)| (name, value));
    metrics(&server.backend.stats()).into_iter().map(named).chain(health).collect()
}
