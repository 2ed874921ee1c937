//! A guard's statistics as metrics.

use crate::guard::GuardStats;
use metrics::{counter, gauge};

/// One of a guard's statistics, with the name that a metrics collector shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metric {
    /// The name: `twiceshy_..`, and `.._total` for a counter.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// The present value.
    pub value: u64,
}

impl Metric {
    /// Whether it is a counter, which only grows, and not a gauge.
    #[must_use]
    pub fn is_counter(&self) -> bool {
        self.name.ends_with("_total")
    }
}

/// A guard's statistics with their names.
#[must_use]
pub fn metrics(stats: &GuardStats) -> Vec<Metric> {
    let metric = |name, help, value| Metric { name, help, value };
    vec![
        metric("twiceshy_queries_total", "Keys that were looked up.", stats.queries),
        metric(
            "twiceshy_reads_avoided_total",
            "Lookups answered absent without a read of the store.",
            stats.reads_avoided,
        ),
        metric(
            "twiceshy_reads_avoided_by_adapting_total",
            "Lookups of earlier false positives among the reads avoided; a lower bound.",
            stats.reads_avoided_by_adapting,
        ),
        metric(
            "twiceshy_store_reads_total",
            "Reads of the store, in keys if it is another server's.",
            stats.store_reads,
        ),
        metric(
            "twiceshy_sidecar_reads_total",
            "Reads of a sidecar's own digests.",
            stats.sidecar_reads,
        ),
        metric(
            "twiceshy_false_positives_total",
            "Lookups answered maybe whose key the store did not have.",
            stats.false_positives,
        ),
        metric(
            "twiceshy_vanished_total",
            "Keys that the store had lost, forgotten after a lookup.",
            stats.vanished,
        ),
        metric(
            "twiceshy_adapted_total",
            "False positives that a filter adapted to.",
            stats.adapted,
        ),
        metric(
            "twiceshy_adapted_again_total",
            "False positives that a filter adapted to for the second time or more.",
            stats.adapted_again,
        ),
        metric(
            "twiceshy_postponed_total",
            "False positives not adapted to because the filter was busy.",
            stats.postponed,
        ),
        metric(
            "twiceshy_spent_total",
            "Blocks that had spent their budget and forgot their adaptations.",
            stats.spent,
        ),
        metric("twiceshy_growths_total", "Filters replaced by larger ones.", stats.growths),
        metric("twiceshy_keys", "Stored keys.", stats.keys),
        metric("twiceshy_filter_bytes", "Memory of the filters, in bytes.", stats.bytes),
    ]
}

/// Publishes [`metrics()`] through crate `metrics`, with the label `guard` = `name`. Call it
/// regularly, for example every ten seconds.
pub fn publish(name: &str, stats: &GuardStats) {
    for metric in metrics(stats) {
        let label = name.to_string();
        if metric.is_counter() {
            counter!(metric.name, "guard" => label).absolute(metric.value);
        } else {
            #[expect(clippy::cast_precision_loss, reason = "the facade's gauges are floats")]
            gauge!(metric.name, "guard" => label).set(metric.value as f64);
        }
    }
}
