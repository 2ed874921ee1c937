//! When the filter is relied on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use twiceshy_server::FollowMode;

use super::{exists, follow, server, wait};
use crate::client::Value;
use crate::harness::{following, table};
use crate::upstreams::{PostgresServer, eventually};

/// Waits until the shield has asked the server so often that it would rely on the filter by now.
fn asked_often(server: &PostgresServer) {
    const QUESTION: &str = "SELECT pg_catalog.pg_current_wal_insert_lsn()";
    let before = server.statements(QUESTION);
    eventually("the server is asked", || server.statements(QUESTION) > before + 16);
}

#[test]
fn the_filter_answers_when_all_that_was_in_the_log_is_known() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    let directory = TempDir::new().expect("a directory");
    follow(&server, &directory, FollowMode::Async).stop();
    // Much to read before the last one.
    server.sql("INSERT INTO t SELECT n::text FROM generate_series(1, 100000) n");
    server.sql("INSERT INTO t VALUES ('last')");
    let running = follow(&server, &directory, FollowMode::Async);
    assert!(exists(&mut running.client(), "last"));
    running.stop();
}

#[test]
fn sync_is_relied_on_only_if_commits_wait() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    let set = |standbys: &str| {
        server.sql(&format!("ALTER SYSTEM SET synchronous_standby_names = '{standbys}'"));
        server.sql("SELECT pg_reload_conf()");
    };
    let directory = TempDir::new().expect("a directory");
    let table = table(&server.address(), "t", "k", None);
    let running = following(&table, directory.path(), FollowMode::Sync);
    let running = running.unwrap_or_else(|failure| panic!("{failure}"));
    asked_often(&server);
    assert!(!running.is_trusted(), "it is no standby");
    set("shield");
    eventually("the filter answers", || running.is_trusted());
    // Either of them is enough for a commit.
    set("ANY 1 (shield, other)");
    eventually("the filter is not relied on", || !running.is_trusted());
    asked_often(&server);
    assert!(!running.is_trusted(), "a commit may wait for another standby");
    set("ANY 1 (shield)");
    eventually("the filter answers", || running.is_trusted());
    // The other one takes over when the connection breaks, before the shield notices.
    set("FIRST 1 (shield, other)");
    eventually("the filter is not relied on", || !running.is_trusted());
    asked_often(&server);
    assert!(!running.is_trusted(), "another standby may replace it");
    // All that are listed.
    set("ANY 1 (shield)");
    eventually("the filter answers", || running.is_trusted());
    // Two of the same name: either of them is enough.
    let other = TempDir::new().expect("a directory");
    let twin = following(&table, other.path(), FollowMode::Sync);
    let twin = twin.unwrap_or_else(|failure| panic!("{failure}"));
    eventually("the filter is not relied on", || !running.is_trusted());
    asked_often(&server);
    assert!(!running.is_trusted() && !twin.is_trusted(), "a commit may wait for the other one");
    twin.stop();
    eventually("the filter answers", || running.is_trusted());
    set("");
    eventually("the filter is not relied on", || !running.is_trusted());
    running.stop();
}

/// A new slot begins when the commits are over that wait for the shield.
#[test]
fn commits_do_not_wait_for_a_filter_that_is_built() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'shield'");
    server.sql("SELECT pg_reload_conf()");
    let directory = TempDir::new().expect("a directory");
    thread::scope(|scope| {
        let commit = scope.spawn(|| commits(&server, "INSERT INTO t VALUES ('ada')"));
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        eventually("it waits for the shield", || server.sql(waiting) == "1");
        let running = follow(&server, &directory, FollowMode::Sync);
        commit.join().expect("it is committed");
        assert!(exists(&mut running.client(), "ada"));
        running.stop();
    });
}

/// Runs SQL whose commit waits for the shield, but not for ever: then this fails.
fn commits(server: &PostgresServer, sql: &str) {
    const MOST: Duration = Duration::from_secs(20);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let begin = Instant::now();
            while begin.elapsed() < MOST && !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(50));
            }
            // A timeout of the statement does not end this wait.
            server.sql(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'",
            );
        });
        let begin = Instant::now();
        server.sql(sql);
        done.store(true, Ordering::Relaxed);
        assert!(begin.elapsed() < MOST, "it waited for {:?}", begin.elapsed());
    });
}

#[test]
fn commits_do_not_wait_for_a_table_that_is_gone() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    let directory = TempDir::new().expect("a directory");
    let table = table(&server.address(), "t", "k", None);
    let running = following(&table, directory.path(), FollowMode::Sync);
    let running = running.unwrap_or_else(|failure| panic!("{failure}"));
    server.sql("ALTER SYSTEM SET synchronous_standby_names = 'shield'");
    server.sql("SELECT pg_reload_conf()");
    eventually("the filter answers", || running.is_trusted());
    server.sql("ALTER TABLE t RENAME TO elsewhere");
    eventually("the filter is not relied on", || !running.is_trusted());
    commits(&server, "INSERT INTO elsewhere VALUES ('ada')");
    server.sql("ALTER TABLE elsewhere RENAME TO t");
    eventually("the filter answers", || running.is_trusted());
    assert!(exists(&mut running.client(), "ada"));
    running.stop();
}

#[test]
fn keys_that_a_client_announces_are_not_forgotten() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('ada'), ('bob')");
    let directory = TempDir::new().expect("a directory");
    let running = follow(&server, &directory, FollowMode::Async);
    let mut client = running.client();
    assert_eq!(client.line("TS.ADDED ada"), Value::Integer(0), "it is known");
    // The log says so later than the client, who is about to insert it again.
    server.sql("DELETE FROM t");
    wait(&server, &mut client);
    eventually("the other is forgotten", || client.line("DBSIZE") == Value::Integer(1));
    let asked = running.asked();
    assert!(!exists(&mut client, "ada"));
    assert!(running.asked() > asked, "the filter does not deny it");
    running.stop();
}
