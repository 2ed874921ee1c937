//! INFO and TS.STATS: what the server counts, for people and for programs.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::latency::Timed;
use crate::reply::Reply;
use crate::server::Server;

/// The version of Redis whose protocol and errors these are: some clients look
/// for it.
const REDIS_VERSION: &str = "7.0.0";

/// The sections of INFO that were asked for, or all.
pub(crate) fn info(server: &Server, asked: &[Bytes]) -> String {
    let mut text = String::new();
    let traffic = &server.traffic;
    let sections: [(&str, Vec<(&str, String)>); 4] = [
        (
            "Server",
            vec![
                ("redis_version", REDIS_VERSION.into()),
                ("redis_mode", "standalone".into()),
                ("twiceshy_version", env!("CARGO_PKG_VERSION").into()),
                ("twiceshy_backend", server.backend.name().into()),
                ("process_id", std::process::id().to_string()),
                ("uptime_in_seconds", server.started.elapsed().as_secs().to_string()),
            ],
        ),
        (
            "Clients",
            vec![
                ("connected_clients", traffic.open().to_string()),
                ("maxclients", server.limits.connections.to_string()),
            ],
        ),
        (
            "Stats",
            vec![
                ("total_connections_received", traffic.accepted().to_string()),
                ("rejected_connections", traffic.refused().to_string()),
                ("total_commands_processed", traffic.commands().to_string()),
                ("total_error_replies", traffic.errors().to_string()),
            ],
        ),
        (
            "Twiceshy",
            counts(server).into_iter().map(|(name, count)| (name, count.to_string())).collect(),
        ),
    ];
    let everything =
        |word: &Bytes| [&b"all"[..], b"default", b"everything"].iter().any(|all| is(word, all));
    for (name, lines) in sections {
        let wanted = |word: &Bytes| is(word, name.as_bytes()) || everything(word);
        if !asked.is_empty() && !asked.iter().any(wanted) {
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

fn is(word: &Bytes, name: &[u8]) -> bool {
    word.eq_ignore_ascii_case(name)
}

/// The answer to TS.STATS: counts of the guard, and latencies in nanoseconds.
pub(crate) fn stats(server: &Server) -> Reply {
    let mut entries: Vec<(Bytes, Reply)> = counts(server)
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

fn counts(server: &Server) -> [(&'static str, u64); 12] {
    let stats = server.backend.stats();
    [
        ("keys", stats.keys),
        ("queries", stats.queries),
        ("absent", stats.absent),
        ("store_reads", stats.store_reads),
        ("false_positives", stats.false_positives),
        ("fixed", stats.fixed),
        ("fixed_again", stats.fixed_again),
        ("spared", stats.spared),
        ("postponed", stats.postponed),
        ("spent", stats.spent),
        ("growths", stats.growths),
        ("filter_bytes", stats.bytes),
    ]
}
