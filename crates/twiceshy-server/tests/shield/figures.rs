//! The numbers that the server shows, beside those that the stores have counted themselves.

use std::collections::BTreeSet;

use tempfile::TempDir;
use twiceshy_server::{FollowMode, Health};

use crate::client::{Client, Value};
use crate::follow;
use crate::harness::{Running, options, postgres, redis, table};
use crate::upstreams::{PostgresServer, RedisServer, eventually};

/// The manual, whose table defines every figure.
const MANUAL: &str = include_str!("../../../../docs/guide/operating.md");

/// A number of TS.STATS, after it was found to be the same in INFO and in `/metrics`. A second
/// may end meanwhile, after which the store is asked again whether it is up.
fn figure(running: &Running, client: &mut Client, name: &str) -> u64 {
    let mut told = (String::new(), String::new(), String::new());
    eventually(&format!("{name} is the same everywhere"), || {
        told = figures(running, client, name);
        told.0 == told.1 && told.1 == told.2
    });
    told.0.parse().expect("a number")
}

fn figures(running: &Running, client: &mut Client, name: &str) -> (String, String, String) {
    let (_, metrics) = running.page("/metrics");
    let exported = [format!("twiceshy_{name} "), format!("twiceshy_{name}_total ")];
    let exported = metrics
        .lines()
        .find_map(|line| exported.iter().find_map(|name| line.strip_prefix(&**name)))
        .expect(name);
    let Value::Bulk(info) = client.line("INFO twiceshy") else { panic!("INFO is text") };
    let info = String::from_utf8(info).expect("text");
    let shown = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:"))).expect(name);
    let told = client.line("TS.STATS").field(name).integer().to_string();
    (told, exported.into(), shown.into())
}

/// Lookups of keys that are there, are not, are repeated, and have vanished.
fn look_up(client: &mut Client, known: u32, vanished: &[&str]) {
    for n in 0..known {
        assert_ne!(client.line(&format!("GET key:{n}")), Value::Nil);
    }
    for _ in 0..2 {
        for n in 0..4000 {
            assert_eq!(client.line(&format!("GET missing:{n}")), Value::Nil);
        }
    }
    for key in vanished {
        for _ in 0..5 {
            assert_eq!(client.line(&format!("GET {key}")), Value::Nil);
        }
    }
    assert_eq!(client.line("EXISTS key:0"), Value::Integer(1));
}

/// What every store's figures have to be after [`look_up`], and `reads` by the store's own count.
fn compare(
    running: &Running,
    client: &mut Client,
    known: u64,
    vanished: u64,
    reads: &dyn Fn() -> u64,
) {
    let mut figure = |name: &str| figure(running, client, name);
    let queries = known + 8000 + 5 * vanished + 1;
    assert_eq!(figure("queries"), queries);
    // Before and after, as one of them may ask the store whether it is up.
    let (least, read, most) = (reads(), figure("store_reads"), reads());
    assert!((least..=most).contains(&read), "{least} to {most} reads, {read} counted");
    let (avoided, wasted) = (figure("reads_avoided"), figure("false_positives"));
    assert_eq!(avoided + wasted + known + 1, queries, "every lookup is one of the three");
    assert_eq!(figure("vanished"), vanished);
    // Each wasted read was looked into in the sidecar, and few other things were.
    let own = figure("sidecar_reads");
    assert!((wasted..=wasted + 200).contains(&own), "{own} reads of the sidecar, {wasted} wasted");
    assert!(wasted > vanished, "false positives too");
    assert_eq!((figure("store_up"), figure("filter_trusted")), (1, 1));
}

#[test]
fn store_reads_are_those_that_redis_counted() {
    let server = RedisServer::start();
    let mut direct = server.client();
    for n in 0..60_000 / 100 {
        let records = (0..100).map(|m| format!(" key:{} v", n * 100 + m));
        direct.line(&format!("MSET{}", records.collect::<String>()));
    }
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    assert_eq!(direct.line("DEL key:50 key:51"), Value::Integer(2));
    let before = server.lookups();
    let mut client = running.client();
    look_up(&mut client, 50, &["key:50", "key:51"]);
    compare(&running, &mut client, 50, 2, &|| server.lookups() - before);
}

#[test]
fn store_reads_are_those_that_postgres_counted() {
    let server = PostgresServer::start();
    server.sql(
        "CREATE TABLE t (k text PRIMARY KEY, v text);
         INSERT INTO t SELECT 'key:' || n, 'v' FROM generate_series(0, 59999) AS n; ANALYZE t",
    );
    let directory = TempDir::new().expect("a directory");
    let table = table(&server.address(), "t", "k", Some("v"));
    let running = postgres(&table, &options(directory.path())).expect("it runs");
    server.sql("DELETE FROM t WHERE k IN ('key:50', 'key:51')");
    // Each statement looks for one key here.
    let before = server.statements("SELECT");
    let reads = || u64::try_from(server.statements("SELECT") - before).expect("few");
    let mut client = running.client();
    look_up(&mut client, 50, &["key:50", "key:51"]);
    compare(&running, &mut client, 50, 2, &reads);
}

/// Lookups that pass a filter that is not relied on are reads, and no false positives.
#[test]
fn a_filter_that_is_not_relied_on_avoids_and_wastes_nothing() {
    let mut server = RedisServer::start();
    assert_eq!(server.client().line("SET a 1"), Value::ok());
    let directory = TempDir::new().expect("a directory");
    redis(&server.address(), &options(directory.path())).expect("it runs").stop();
    let address = server.address();
    let running = crate::harness::redis_after(&address, None, &options(directory.path()), || {
        server.kill();
    })
    .expect("it runs without a store");
    assert_eq!(running.health(), Health { filter_trusted: false, store_up: false, follow: None });
    let (_, report) = running.page("/stats.json");
    assert!(report.contains("\"store_up\":false,\"filter_trusted\":false"), "{report}");
    assert_eq!(running.page("/healthz").0, 200);
    let (status, why) = running.page("/readyz");
    assert_eq!((status, &*why), (503, "the store does not answer\n"));
    let mut client = running.client();
    for _ in 0..10 {
        assert!(client.line("GET missing").error().contains("the store is down"));
    }
    let stats = client.line("TS.STATS");
    for name in ["reads_avoided", "false_positives", "filter_trusted", "store_up"] {
        assert_eq!(stats.field(name).integer(), 0, "{name}");
    }
    assert_eq!(stats.field("queries").integer(), 10);
    server.restart();
    eventually("it is ready", || running.page("/readyz") == (200, "ready\n".into()));
    assert_eq!(running.health(), Health { filter_trusted: true, store_up: true, follow: None });
    let (_, report) = running.page("/stats.json");
    assert!(report.contains("\"store_up\":true,\"filter_trusted\":true"), "{report}");
}

/// Every figure has its line in the manual, and every line its figure.
#[test]
fn every_figure_is_defined_in_the_manual() {
    // A store that is followed has the most figures.
    let server = follow::server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    let directory = TempDir::new().expect("a directory");
    let running = follow::follow(&server, &directory, FollowMode::Async);
    let (_, metrics) = running.page("/metrics");
    let shown = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let shown = shown.filter_map(|line| line.split(' ').next());
    let shown: BTreeSet<String> = shown.map(ToString::to_string).collect();
    let Value::Array(stats) = running.client().line("TS.STATS") else { panic!("a list") };
    // The second column of the tables has the names in `/metrics`, the first those in TS.STATS.
    let cells = |line: &str| -> Vec<String> {
        line.split('|').map(|cell| cell.trim().trim_matches('`').to_string()).collect()
    };
    let rows: Vec<Vec<String>> =
        MANUAL.lines().filter(|line| line.starts_with("| ")).map(cells).collect();
    let defined: BTreeSet<String> = rows
        .iter()
        .map(|row| row[2].clone())
        .filter(|name| name.starts_with("twiceshy_") || name.starts_with("process_"))
        .collect();
    assert_eq!(defined, shown);
    for name in stats.chunks(2).map(|pair| &pair[0]) {
        let Value::Bulk(name) = name else { panic!("a name") };
        let name = String::from_utf8(name.clone()).expect("text");
        let is_latency = name.ends_with("_nanoseconds");
        assert!(is_latency || rows.iter().any(|row| row[1] == name), "{name} is not defined");
    }
}
