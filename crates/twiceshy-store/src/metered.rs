//! A guard's counts for whoever collects metrics.

use metrics::{counter, gauge};
use twiceshy::GuardStats;

/// Publishes a guard's counts through the `metrics` facade, with the label
/// `guard` = `name`. Call it whenever they are to be seen, every few seconds say.
///
/// | name | kind | meaning |
/// | --- | --- | --- |
/// | `twiceshy_queries_total` | counter | keys asked for |
/// | `twiceshy_reads_avoided_total` | counter | queries answered "absent" from memory |
/// | `twiceshy_store_reads_total` | counter | reads of the store, for whatever reason |
/// | `twiceshy_false_positives_total` | counter | reads that found nothing |
/// | `twiceshy_fixed_total` | counter | false positives that were fixed |
/// | `twiceshy_repeated_false_positives_total` | counter | those of them that had been fixed before |
/// | `twiceshy_postponed_total` | counter | false positives left for the next time |
/// | `twiceshy_spent_total` | counter | blocks that forgot what they had learned |
/// | `twiceshy_growths_total` | counter | filters replaced by larger ones |
/// | `twiceshy_keys` | gauge | keys stored |
/// | `twiceshy_filter_bytes` | gauge | memory of the filters |
pub fn publish(name: &str, stats: &GuardStats) {
    let counters = [
        ("twiceshy_queries_total", stats.queries),
        ("twiceshy_reads_avoided_total", stats.absent),
        ("twiceshy_store_reads_total", stats.store_reads),
        ("twiceshy_false_positives_total", stats.false_positives),
        ("twiceshy_fixed_total", stats.fixed),
        ("twiceshy_repeated_false_positives_total", stats.fixed_again),
        ("twiceshy_postponed_total", stats.postponed),
        ("twiceshy_spent_total", stats.spent),
        ("twiceshy_growths_total", stats.growths),
    ];
    for (metric, count) in counters {
        counter!(metric, "guard" => name.to_string()).absolute(count);
    }
    for (metric, size) in [("twiceshy_keys", stats.keys), ("twiceshy_filter_bytes", stats.bytes)] {
        #[expect(clippy::cast_precision_loss, reason = "the facade's gauges are floats")]
        gauge!(metric, "guard" => name.to_string()).set(size as f64);
    }
}
