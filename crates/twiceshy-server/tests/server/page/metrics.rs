//! `/metrics`, read by a parser that forgives nothing.

use std::collections::{BTreeMap, HashSet};

use super::shown::show;

/// Values by name and labels, and the kinds of families.
struct Metrics {
    samples: BTreeMap<String, f64>,
    kinds: BTreeMap<String, String>,
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
}

/// The family of a sample.
fn family(name: &str, kind: &str) -> String {
    let suffixes: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[] };
    let stem = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix));
    stem.unwrap_or(name).to_string()
}

fn parse(text: &str) -> Metrics {
    assert!(text.ends_with('\n'), "the last line ends");
    let (mut samples, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    let (mut helped, mut current) = (HashSet::new(), (String::new(), String::new()));
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("name and help");
            assert!(is_name(name) && !help.is_empty() && !help.contains('\\'), "{line}");
            assert!(helped.insert(name), "twice: {line}");
            current = (name.to_string(), String::new());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("name and kind");
            assert_eq!(name, current.0, "HELP and TYPE belong together");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            current.1 = kind.to_string();
            kinds.insert(name.to_string(), kind.to_string());
        } else {
            let (series, value) = line.rsplit_once(' ').expect("series and value");
            let value: f64 = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
            assert!(value.is_finite() && value >= 0.0, "{line}");
            let (name, labels) = match series.split_once('{') {
                Some((name, rest)) => (name, rest.strip_suffix('}').expect("a closing brace")),
                None => (series, ""),
            };
            assert!(is_name(name), "{line}");
            assert_eq!(family(name, &current.1), current.0, "a family is in one piece: {line}");
            for label in labels.split(',').filter(|label| !label.is_empty()) {
                let (label, quoted) = label.split_once('=').expect("a label");
                assert!(is_name(label), "{line}");
                let inner = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
                assert!(inner.is_some_and(|text| !text.contains(['"', '\\'])), "{line}");
            }
            assert!(samples.insert(series.to_string(), value).is_none(), "twice: {line}");
        }
    }
    Metrics { samples, kinds }
}

fn check_histograms(metrics: &Metrics) {
    let name = "twiceshy_command_duration_seconds";
    assert_eq!(metrics.kinds[name], "histogram");
    for command in ["miss", "hit", "exists", "set", "remove", "other"] {
        let start = format!("{name}_bucket{{command=\"{command}\",le=\"");
        let mut buckets: Vec<(f64, f64)> = metrics
            .samples
            .iter()
            .filter_map(|(series, count)| {
                let bound = series.strip_prefix(&start)?.strip_suffix("\"}")?;
                let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().ok()? };
                Some((bound, *count))
            })
            .collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!(buckets.len(), 26, "{command}");
        assert!(buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{command}: {buckets:?}");
        let count = metrics.samples[&format!("{name}_count{{command=\"{command}\"}}")];
        assert_eq!(buckets.last(), Some(&(f64::INFINITY, count)), "{command}");
        let sum = metrics.samples[&format!("{name}_sum{{command=\"{command}\"}}")];
        // Each answer is at most as long as the end of its bucket.
        let most: f64 = buckets
            .windows(2)
            .map(|pair| (pair[1].1 - pair[0].1) * pair[1].0.min(60.0))
            .sum::<f64>()
            + buckets[0].0 * buckets[0].1;
        assert!(sum <= most && (sum > 0.0) == (count > 0.0), "{command}: {sum} of {most}");
    }
}

#[test]
fn every_line_is_as_prometheus_wants_it_and_counters_only_grow() {
    let shown = show();
    let mut before = parse(&shown.get("/metrics").body);
    check_histograms(&before);
    for round in 1..=3 {
        shown.traffic();
        let after = parse(&shown.get("/metrics").body);
        check_histograms(&after);
        assert_eq!(before.kinds, after.kinds);
        let series = |metrics: &Metrics| metrics.samples.keys().cloned().collect::<Vec<_>>();
        assert_eq!(series(&before), series(&after), "series do not come and go");
        for (series, value) in &after.samples {
            let name = series.split('{').next().expect("a name");
            if after.kinds.get(name).is_none_or(|kind| kind != "gauge") {
                assert!(*value >= before.samples[series], "{series} has shrunk");
            }
        }
        assert_eq!(after.samples["twiceshy_queries_total"], 41_000.0 * f64::from(round));
        before = after;
    }
    for (name, kind) in &before.kinds {
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
    }
}

#[test]
fn metrics_are_what_ts_stats_says() {
    let shown = show();
    shown.traffic();
    let stats = shown.running.client().line("TS.STATS");
    let metrics = parse(&shown.get("/metrics").body);
    for (name, field) in [
        ("twiceshy_keys", "keys"),
        ("twiceshy_queries_total", "queries"),
        ("twiceshy_reads_avoided_total", "reads_avoided"),
        ("twiceshy_store_reads_total", "store_reads"),
        ("twiceshy_false_positives_total", "false_positives"),
        ("twiceshy_adapted_total", "adapted"),
        ("twiceshy_reads_avoided_by_adapting_total", "reads_avoided_by_adapting"),
        ("twiceshy_filter_bytes", "filter_bytes"),
    ] {
        let expected = stats.field(field).integer();
        assert_eq!(metrics.samples[name], expected as f64, "{name}");
        assert!(expected > 0, "{field} shows nothing");
    }
}
