//! What happens meanwhile is known afterwards: restarts, cut connections, other servers, tables
//! that are rewritten.

use tempfile::TempDir;
use twiceshy_server::FollowMode;

use super::{SCAN, exists, follow, pad, server, wait};
use crate::client::Value;
use crate::harness::{TIMEOUT, following, table};
use crate::upstreams::eventually;

#[test]
fn a_restart_reads_the_log_and_not_the_table() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('ada')");
    let directory = TempDir::new().expect("a directory");
    follow(&server, &directory, FollowMode::Async).stop();
    server.sql("INSERT INTO t VALUES ('meanwhile'); DELETE FROM t WHERE k = 'ada'");
    let scans = server.statements(SCAN);
    assert_eq!(scans, 1);
    let running = follow(&server, &directory, FollowMode::Async);
    let mut client = running.client();
    wait(&server, &mut client);
    assert!(exists(&mut client, "meanwhile") && !exists(&mut client, "ada"));
    eventually("the deleted key is forgotten", || client.line("DBSIZE") == Value::Integer(1));
    assert_eq!(server.statements(SCAN), scans, "it was not scanned again");
    running.stop();
}

#[test]
fn a_server_that_restarts_is_followed_again() {
    let mut server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('ada')");
    let directory = TempDir::new().expect("a directory");
    let running = follow(&server, &directory, FollowMode::Async);
    server.quit();
    eventually("the filter is not relied on", || !running.is_trusted());
    server.restart();
    server.sql("INSERT INTO t VALUES ('bob')");
    let mut client = running.client();
    eventually("the new key is found", || exists(&mut client, "bob"));
    eventually("the filter answers", || running.is_trusted());
    assert!(exists(&mut client, "ada") && exists(&mut client, "bob"));
    assert_eq!(server.statements(SCAN), 1);
    running.stop();
}

#[test]
fn a_slot_that_is_gone_or_ahead_means_a_new_scan() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('ada')");
    let directory = TempDir::new().expect("a directory");
    let slot = || server.sql("SELECT slot_name FROM pg_replication_slots");
    for (number, spoil) in [
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots",
        "SELECT pg_replication_slot_advance(slot_name, pg_current_wal_lsn())
         FROM pg_replication_slots",
        "CLUSTER t USING t_pkey",
    ]
    .into_iter()
    .enumerate()
    {
        follow(&server, &directory, FollowMode::Async).stop();
        let before = slot();
        server.sql(&format!("INSERT INTO t VALUES ('skipped {number}')"));
        server.sql(spoil);
        let key = format!("key {number}");
        server.sql(&format!("INSERT INTO t VALUES ('{key}')"));
        let running = follow(&server, &directory, FollowMode::Async);
        let mut client = running.client();
        for key in server.sql("SELECT k FROM t").lines() {
            assert!(exists(&mut client, key), "{key} after {spoil}");
        }
        running.stop();
        assert_ne!(slot(), before, "a new slot and only that one after {spoil}");
    }
}

#[test]
fn another_server_means_a_new_scan() {
    let directory = TempDir::new().expect("a directory");
    let first = server();
    first.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('first')");
    let running = follow(&first, &directory, FollowMode::Async);
    pad(&first);
    wait(&first, &mut running.client());
    running.stop();
    let slot = first.sql("SELECT slot_name FROM pg_replication_slots");
    drop(first);
    // All else is the same: the table's numbers, the slot's name, and the log goes on from there.
    let second = server();
    second.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('second')");
    second.sql(&format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"));
    (0..5).for_each(|_| pad(&second));
    // It has the address of the first one.
    let upstream = directory.path().join("upstream");
    let text = std::fs::read_to_string(&upstream).expect("a file");
    let port = |address: &str| address.rsplit(':').next().expect("a port").to_string();
    let found = text.lines().nth(1).and_then(|line| line.split('/').nth(2)).expect("an address");
    let own = second.address().replace("/postgres", "");
    let text = text.replace(&port(found), &port(&own));
    std::fs::write(&upstream, text).expect("written");
    let running = follow(&second, &directory, FollowMode::Async);
    let mut client = running.client();
    assert!(exists(&mut client, "second"));
    assert_eq!(client.line("DBSIZE"), Value::Integer(1), "the other server's key is forgotten");
    running.stop();
}

#[test]
fn a_table_that_is_replaced_or_gets_partitions_is_scanned_again() {
    let server = server();
    server.sql(
        "CREATE TABLE t (k text PRIMARY KEY) PARTITION BY LIST (k);
         CREATE TABLE rest PARTITION OF t DEFAULT; INSERT INTO t VALUES ('ada');
         CREATE TABLE other (k text PRIMARY KEY); INSERT INTO other VALUES ('attached')",
    );
    let directory = TempDir::new().expect("a directory");
    let running = follow(&server, &directory, FollowMode::Async);
    let mut client = running.client();
    assert!(exists(&mut client, "ada"));
    server.sql("ALTER TABLE t ATTACH PARTITION other FOR VALUES IN ('attached')");
    eventually("the new key is known", || exists(&mut client, "attached"));
    eventually("the filter answers", || running.is_trusted());
    assert!(exists(&mut client, "attached"));
    // Another table of that name is not published.
    server.sql("DROP TABLE t; CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('again')");
    eventually("the filter is not relied on", || !running.is_trusted());
    eventually("the new key is found", || exists(&mut client, "again"));
    running.stop();
    let running = follow(&server, &directory, FollowMode::Async);
    assert!(exists(&mut running.client(), "again"));
    running.stop();
}

#[test]
fn a_key_column_that_changes_ends_the_trust() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY, v int); INSERT INTO t VALUES ('ada', 1)");
    let directory = TempDir::new().expect("a directory");
    let running = follow(&server, &directory, FollowMode::Async);
    server.sql("ALTER TABLE t RENAME COLUMN k TO key; INSERT INTO t VALUES ('bob', 2)");
    eventually("the filter is not relied on", || !running.is_trusted());
    // It has no such column any more.
    let failure = following(
        &table(&server.address(), "t", "k", None),
        TempDir::new().expect("a directory").path(),
        FollowMode::Async,
    );
    let said = failure.err().map_or(String::new(), |failure| failure.to_string());
    assert!(said.contains("has no column"), "{said}");
}

#[test]
fn what_is_left_in_postgresql_can_be_forgotten() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    let directory = TempDir::new().expect("a directory");
    let forget = || {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let done = runtime.block_on(twiceshy_server::forget(&server.address(), None, TIMEOUT));
        let done = done.unwrap_or_else(|failure| panic!("{failure}"));
        (done.slots.len(), done.publications.len(), done.in_use.len())
    };
    assert_eq!(forget(), (0, 0, 0));
    let running = follow(&server, &directory, FollowMode::Async);
    assert_eq!(forget(), (0, 0, 1), "it is in use");
    running.stop();
    eventually("the slot is free", || {
        server.sql("SELECT count(*) FROM pg_replication_slots WHERE active") == "0"
    });
    assert_eq!(forget(), (1, 1, 0));
    assert_eq!(server.sql("SELECT count(*) FROM pg_replication_slots"), "0");
    assert_eq!(server.sql("SELECT count(*) FROM pg_publication"), "0");
    server.sql("INSERT INTO t VALUES ('later')");
    let running = follow(&server, &directory, FollowMode::Async);
    assert!(exists(&mut running.client(), "later"));
    running.stop();
}

/// The log does not have rows that were not published when they were inserted.
#[test]
fn rows_that_were_inserted_unpublished_mean_a_new_scan() {
    for runs_on in [false, true] {
        let server = server();
        server.sql(
            "CREATE TABLE t (k text PRIMARY KEY) PARTITION BY LIST (k);
             CREATE TABLE rest PARTITION OF t DEFAULT; INSERT INTO t VALUES ('ada')",
        );
        let directory = TempDir::new().expect("a directory");
        let mut running = Some(follow(&server, &directory, FollowMode::Async));
        let name = server.sql("SELECT pubname FROM pg_publication");
        for (number, (begin, end)) in [
            (
                format!("ALTER PUBLICATION {name} SET (publish = 'update, truncate')"),
                format!("ALTER PUBLICATION {name} SET (publish = 'insert, update, truncate')"),
            ),
            (
                "ALTER TABLE t DETACH PARTITION rest".into(),
                "ALTER TABLE t ATTACH PARTITION rest DEFAULT".into(),
            ),
            (format!("DROP PUBLICATION {name}"), "SELECT 1".into()),
        ]
        .into_iter()
        .enumerate()
        {
            if !runs_on {
                running.take().expect("it runs").stop();
            }
            let key = format!("unpublished {number}");
            server
                .sql(&format!("BEGIN; {begin}; INSERT INTO rest VALUES ('{key}'); {end}; COMMIT"));
            let followed = running.take();
            let followed =
                followed.unwrap_or_else(|| follow(&server, &directory, FollowMode::Async));
            let mut client = followed.client();
            eventually("it is scanned", || server.statements(SCAN) == number + 2);
            eventually("the filter answers", || followed.is_trusted());
            assert!(exists(&mut client, &key), "runs on: {runs_on}, after {begin}");
            running = Some(followed);
        }
        running.take().expect("it runs").stop();
    }
}
