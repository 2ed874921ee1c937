//! A server that is put back to an older state, with its slot, and goes on from there. Its log then
//! has other changes at positions that the shield has read.

use tempfile::TempDir;
use twiceshy_server::FollowMode;

use super::{SCAN, exists, follow, pad, server, wait};
use crate::client::{Client, Value};
use crate::upstreams::{PostgresServer, eventually};

/// What happens to a server between the copy and the moment when it is put back.
struct Lost {
    table: &'static str,
    sql: &'static str,
    /// Whether lookups meanwhile find that "ada" is gone.
    looked_up: bool,
    /// Whether the shield runs on while the server is put back.
    runs_on: bool,
    /// Whether the filter has to be built again.
    scanned: bool,
}

/// Deletions are in the log only if the primary key is the key.
const BY_KEY: &str = "CREATE TABLE t (k text PRIMARY KEY)";
const BY_ID: &str = "CREATE TABLE t (id bigserial PRIMARY KEY, k text UNIQUE)";

fn assert_all_found(server: &PostgresServer, client: &mut Client, what: &str) {
    for key in server.sql("SELECT k FROM t").lines() {
        assert!(exists(client, key), "{key} is denied: {what}");
    }
}

#[test]
fn keys_of_a_server_that_was_put_back_are_found() {
    let default = Lost { table: BY_KEY, sql: "", looked_up: false, runs_on: false, scanned: true };
    for lost in [
        Lost { sql: "DELETE FROM t WHERE k = 'ada'", ..default },
        Lost { sql: "DELETE FROM t WHERE k = 'ada'", runs_on: true, ..default },
        Lost { table: BY_ID, sql: "DELETE FROM t WHERE k = 'ada'", looked_up: true, ..default },
        // What the filter has is right, and what the new log has comes after.
        Lost { sql: "CREATE TABLE other (n int)", scanned: false, ..default },
    ] {
        let Lost { table, sql, looked_up, runs_on, scanned } = lost;
        let what = format!("{sql}, {table}, looked up: {looked_up}, runs on: {runs_on}");
        let mut server = server();
        server.sql(table);
        server.sql("INSERT INTO t (k) VALUES ('ada'), ('bob')");
        let directory = TempDir::new().expect("a directory");
        let running = follow(&server, &directory, FollowMode::Async);
        server.sql("INSERT INTO t (k) VALUES ('cleo')");
        wait(&server, &mut running.client());
        running.stop();
        server.quit();
        let copy = server.copy();
        server.restart();

        let running = follow(&server, &directory, FollowMode::Async);
        let mut client = running.client();
        server.sql(sql);
        pad(&server);
        wait(&server, &mut client);
        if looked_up {
            assert!(!exists(&mut client, "ada"));
            eventually("it is forgotten", || client.line("DBSIZE") == Value::Integer(2));
        }
        let running = if runs_on {
            Some(running)
        } else {
            running.stop();
            None
        };
        server.quit();
        server.put_back(&copy);
        server.restart();
        let scans = server.statements(SCAN);
        server.sql("INSERT INTO t (k) VALUES ('new')");
        // The log passes the position where the other one ended.
        (0..5).for_each(|_| pad(&server));

        let running = running.unwrap_or_else(|| follow(&server, &directory, FollowMode::Async));
        eventually("the filter answers", || running.is_trusted());
        let mut client = running.client();
        assert_all_found(&server, &mut client, &what);
        server.sql("INSERT INTO t (k) VALUES ('newer')");
        wait(&server, &mut client);
        assert_all_found(&server, &mut client, &what);
        running.stop();
        // It may have seen the server before the log had passed the position.
        if !runs_on {
            assert_eq!(server.statements(SCAN) > scans, scanned, "{what}");
        }
    }
}

#[test]
fn a_log_that_ends_before_what_was_read_means_a_new_scan() {
    let mut server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('ada')");
    let directory = TempDir::new().expect("a directory");
    follow(&server, &directory, FollowMode::Async).stop();
    server.quit();
    let copy = server.copy();
    server.restart();
    let running = follow(&server, &directory, FollowMode::Async);
    pad(&server);
    server.sql("DELETE FROM t");
    let mut client = running.client();
    eventually("it is forgotten", || client.line("DBSIZE") == Value::Integer(0));
    running.stop();
    server.quit();
    server.put_back(&copy);
    server.restart();
    let scans = server.statements(SCAN);
    // It does not wait until the log has passed the position.
    let running = follow(&server, &directory, FollowMode::Async);
    assert_eq!(server.statements(SCAN), scans + 1);
    assert_all_found(&server, &mut running.client(), "a shorter log");
    running.stop();
}

/// PostgreSQL has not written down what was confirmed last.
#[test]
fn a_server_that_crashed_is_not_taken_for_another() {
    let mut server = server();
    server.sql(BY_ID);
    server.sql("INSERT INTO t (k) SELECT n::text FROM generate_series(1, 100) n");
    let directory = TempDir::new().expect("a directory");
    let running = follow(&server, &directory, FollowMode::Async);
    let mut client = running.client();
    for n in 1..=20 {
        server.sql(&format!("DELETE FROM t WHERE k = '{n}'; INSERT INTO t (k) VALUES ('new {n}')"));
    }
    wait(&server, &mut client);
    // Nothing in the table comes after this one: only what the shield itself writes.
    server.sql("DELETE FROM t WHERE k = '21'");
    wait(&server, &mut client);
    assert!(!exists(&mut client, "21"));
    eventually("it is forgotten", || client.line("DBSIZE") == Value::Integer(119));
    eventually("the shield writes to the log", || server.statements(BEAT) > 0);
    let writing = "SELECT count(*) FROM pg_stat_activity
                   WHERE state <> 'idle' AND query LIKE 'BEGIN READ WRITE%'";
    eventually("it has written", || server.sql(writing) == "0");
    let end = server.sql("SELECT pg_current_wal_insert_lsn()");
    let confirmed = format!("SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots");
    eventually("that is on its disk", || server.sql(&confirmed) == "t");
    server.quit();
    eventually("the filter is not relied on", || !running.is_trusted());
    server.restart();
    eventually("the filter answers", || running.is_trusted());
    assert_all_found(&server, &mut client, "after a crash");
    // The same from the files.
    running.stop();
    server.quit();
    server.restart();
    let running = follow(&server, &directory, FollowMode::Async);
    assert_all_found(&server, &mut running.client(), "after another crash");
    running.stop();
    assert_eq!(server.statements(SCAN), 1);
}

/// How what a shield writes to the log begins.
const BEAT: &str = "BEGIN READ WRITE; SET LOCAL synchronous_commit = local; SELECT";
