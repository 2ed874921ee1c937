//! The dashboard and the alerts in `packaging/` use metrics that the server has.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;

use tempfile::TempDir;

use crate::process::Process;
use crate::upstreams::{PostgresServer, eventually, free_port};

/// The names of our metrics in a text, in any of Prometheus' or Grafana's languages.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    let ours = |word: &&str| word.starts_with("twiceshy_") || word.starts_with("process_");
    words.filter(ours).map(String::from).collect()
}

fn metrics(page: &str) -> String {
    let mut socket = TcpStream::connect(page).expect("the page listens");
    write!(socket, "GET /metrics HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n")
        .expect("sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    text
}

/// Names of samples, not of families: a histogram has three.
fn samples(metrics: &str) -> BTreeSet<String> {
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(|line| names(line.split(['{', ' ']).next().unwrap_or_default())).collect()
}

#[test]
fn every_metric_of_dashboard_and_alerts_exists() {
    // A server that follows PostgreSQL has them all.
    let postgres = PostgresServer::start_with(&["wal_level=logical"]);
    postgres.sql("CREATE TABLE users (email text PRIMARY KEY)");
    let directory = TempDir::new().expect("a directory");
    let page = format!("127.0.0.1:{}", free_port());
    let store = postgres.address();
    let flags = format!("--page {page} --store {store} --table users --key email --follow");
    let _server = Process::start(directory.path(), &flags);
    eventually("its lag is known", || {
        metrics(&page).contains("\ntwiceshy_follow_lag_milliseconds ")
    });
    let known = samples(&metrics(&page));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let mut used = BTreeSet::new();
    for file in ["grafana/twiceshy.json", "prometheus/alerts.yml"] {
        let text = fs::read_to_string(folder.join(file)).expect("it is packaged");
        let names = names(&text);
        assert!(names.len() > 5, "{file}: {names:?}");
        let unknown: Vec<_> = names.difference(&known).collect();
        assert!(unknown.is_empty(), "{file}: the server has no {unknown:?}");
        used.extend(names);
    }
    assert!(used.len() > 15, "{used:?}");
    let dashboard = fs::read(folder.join("grafana/twiceshy.json")).expect("it is packaged");
    let dashboard: serde_json::Value = serde_json::from_slice(&dashboard).expect("JSON");
    let mut ids: Vec<_> = dashboard["panels"]
        .as_array()
        .expect("panels")
        .iter()
        .map(|panel| panel["id"].as_u64())
        .collect();
    let panels = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert!(ids.len() == panels && ids[0].is_some(), "each panel has a number of its own");
}

#[test]
fn names_are_found() {
    let text = "rate(twiceshy_a_total{job=~\"x\"}[5m]) / on() process_b_bytes > my_twiceshy_c";
    let found: Vec<_> = names(text).into_iter().collect();
    assert_eq!(found, ["process_b_bytes", "twiceshy_a_total"]);
    let text = "# TYPE twiceshy_d histogram\ntwiceshy_d_bucket{le=\"1\"} 2\ntwiceshy_e 1\n";
    let found: Vec<_> = samples(text).into_iter().collect();
    assert_eq!(found, ["twiceshy_d_bucket", "twiceshy_e"]);
}
