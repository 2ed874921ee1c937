//! A guard's counts for whoever collects metrics.

use crate::guard::GuardStats;
use metrics::{counter, gauge};

/// One of a guard's counts, as collectors of metrics know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name: `twiceshy_..`, and `.._total` if it only grows.
    pub name: &'static str,
    /// What it counts.
    pub help: &'static str,
    /// What it is now.
    pub value: u64,
}

impl Metric {
    /// Whether it only grows: a counter, and otherwise a gauge.
    #[must_use]
    pub fn only_grows(&self) -> bool {
        self.name.ends_with("_total")
    }
}

/// A guard's counts with their names.
#[must_use]
pub fn metrics(stats: &GuardStats) -> [Metric; 12] {
    let metric = |name, help, value| Metric { name, help, value };
    [
        metric("twiceshy_queries_total", "Keys asked for.", stats.queries),
        metric(
            "twiceshy_reads_avoided_total",
            "Queries answered absent from memory.",
            stats.absent,
        ),
        metric(
            "twiceshy_store_reads_total",
            "Reads of the store, for whatever reason.",
            stats.store_reads,
        ),
        metric(
            "twiceshy_false_positives_total",
            "Reads of the store that found nothing.",
            stats.false_positives,
        ),
        metric("twiceshy_fixed_total", "False positives that were fixed.", stats.fixed),
        metric(
            "twiceshy_repeated_false_positives_total",
            "Fixed false positives that had been fixed before.",
            stats.fixed_again,
        ),
        metric(
            "twiceshy_spared_total",
            "Queries answered absent that were fixed before, as far as remembered.",
            stats.spared,
        ),
        metric(
            "twiceshy_postponed_total",
            "False positives left for the next time.",
            stats.postponed,
        ),
        metric("twiceshy_spent_total", "Blocks that forgot what they had learned.", stats.spent),
        metric("twiceshy_growths_total", "Filters replaced by larger ones.", stats.growths),
        metric("twiceshy_keys", "Keys stored.", stats.keys),
        metric("twiceshy_filter_bytes", "Memory of the filters.", stats.bytes),
    ]
}

/// Publishes a guard's counts, those of [`metrics()`], through the facade of crate
/// `metrics`, with the label `guard` = `name`. Call it whenever they are to be
/// seen, every few seconds say.
pub fn publish(name: &str, stats: &GuardStats) {
    for metric in metrics(stats) {
        let label = name.to_string();
        if metric.only_grows() {
            counter!(metric.name, "guard" => label).absolute(metric.value);
        } else {
            #[expect(clippy::cast_precision_loss, reason = "the facade's gauges are floats")]
            gauge!(metric.name, "guard" => label).set(metric.value as f64);
        }
    }
}
