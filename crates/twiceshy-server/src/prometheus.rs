//! `/metrics`: the server's counts as text for Prometheus, version 0.0.4 of the
//! format.
//!
//! An exporter of crate `metrics` would keep a second registry of numbers that the guard already
//! has.

use std::fmt::Write as _;

use twiceshy::store::metrics;

use crate::health::Health;
use crate::latency::Timed;
use crate::server::Server;
use crate::watch::process_bytes;

/// The counts of a server as of now.
pub(crate) fn text(server: &Server, health: Health) -> String {
    let mut text = String::new();
    for metric in metrics(&server.backend.stats()) {
        let kind = if metric.is_counter() { "counter" } else { "gauge" };
        family(&mut text, metric.name, kind, metric.help);
        line(&mut text, metric.name, metric.value);
    }
    for (name, help, value) in health.gauges() {
        let name = format!("twiceshy_{name}");
        family(&mut text, &name, "gauge", help);
        line(&mut text, &name, value);
    }
    let traffic = &server.traffic;
    for (name, kind, help, value) in [
        ("twiceshy_connections", "gauge", "Connections that are open.", traffic.open()),
        (
            "twiceshy_connections_total",
            "counter",
            "Connections that were accepted.",
            traffic.accepted(),
        ),
        (
            "twiceshy_connections_refused_total",
            "counter",
            "Connections beyond the most that are allowed.",
            traffic.refused(),
        ),
        ("twiceshy_commands_total", "counter", "Requests answered.", traffic.commands()),
        ("twiceshy_errors_total", "counter", "Requests answered with an error.", traffic.errors()),
        (
            "twiceshy_uptime_seconds",
            "gauge",
            "Seconds since the start.",
            server.started.elapsed().as_secs(),
        ),
    ] {
        family(&mut text, name, kind, help);
        line(&mut text, name, value);
    }
    if let Some(bytes) = process_bytes() {
        let name = "process_resident_memory_bytes";
        family(&mut text, name, "gauge", "Memory of the whole process.");
        line(&mut text, name, bytes);
    }
    durations(&mut text, server);
    text
}

/// Bounds of the histogram's buckets: 2^10 ns, about 1 us, to 2^34 ns, 17 s. Collectors expect
/// them to stay the same.
const BOUNDS: std::ops::RangeInclusive<u32> = 10..=34;

fn durations(text: &mut String, server: &Server) {
    let name = "twiceshy_command_duration_seconds";
    family(text, name, "histogram", "How long answers took, from reading the request.");
    for timed in Timed::ALL {
        let latency = server.latency.of(timed);
        let label = format!("command=\"{}\"", timed.name());
        let buckets: Vec<_> = latency.cumulative().collect();
        let total = buckets.last().map_or(0, |(_, count)| *count);
        for power in BOUNDS {
            let bound = std::time::Duration::from_nanos(1 << power);
            // A bucket of ours ends just below a power of two.
            let within = buckets.partition_point(|(end, _)| *end < bound);
            let count = within.checked_sub(1).map_or(0, |last| buckets[last].1);
            let seconds = bound.as_secs_f64();
            line(text, &format!("{name}_bucket{{{label},le=\"{seconds}\"}}"), count);
        }
        line(text, &format!("{name}_bucket{{{label},le=\"+Inf\"}}"), total);
        line(text, &format!("{name}_sum{{{label}}}"), latency.total().as_secs_f64());
        line(text, &format!("{name}_count{{{label}}}"), total);
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
}

fn line(text: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = writeln!(text, "{name} {value}");
}
