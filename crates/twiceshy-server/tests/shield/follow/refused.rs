//! What PostgreSQL has to be asked for, in words.

use tempfile::TempDir;
use twiceshy_server::FollowMode;

use super::{exists, follow, server};
use crate::harness::{following, table};
use crate::upstreams::{PostgresServer, eventually};

fn refusal(server: &PostgresServer, user: &str) -> String {
    let address = server.address().replace("postgres@", &format!("{user}@"));
    refusal_of(&address, FollowMode::Async)
}

fn refusal_of(address: &str, mode: FollowMode) -> String {
    let directory = TempDir::new().expect("a directory");
    let running = following(&table(address, "t", "k", None), directory.path(), mode);
    running.err().map_or("it follows".into(), |failure| failure.to_string())
}

#[test]
fn servers_that_cannot_be_followed_are_told_what_to_change() {
    let plain = PostgresServer::start();
    plain.sql("CREATE TABLE t (k text PRIMARY KEY)");
    let said = refusal(&plain, "postgres");
    assert!(said.contains("ALTER SYSTEM SET wal_level = 'logical'"), "{said}");

    let server = server();
    server.sql(
        "CREATE TABLE t (k text PRIMARY KEY); CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader",
    );
    let said = refusal(&server, "reader");
    assert!(said.contains("ALTER ROLE \"reader\" REPLICATION"), "{said}");
    server.sql("ALTER ROLE reader REPLICATION");
    let said = refusal(&server, "reader");
    let create = said.split("superuser: ").nth(1).unwrap_or_else(|| panic!("{said}"));
    assert!(create.starts_with("CREATE PUBLICATION"), "{said}");
    server.sql(create);
    assert_eq!(refusal(&server, "reader"), "it follows");
    let reader = server.address().replace("postgres@", "reader@");
    let said = refusal_of(&reader, FollowMode::Sync);
    let grant = said.find("GRANT").map(|at| &said[at..]).unwrap_or_else(|| panic!("{said}"));
    server.sql(grant.trim_end_matches(" as a superuser"));
    assert_eq!(refusal_of(&reader, FollowMode::Sync), "it follows");

    server.sql("DROP TABLE t; CREATE TABLE t (k text NOT NULL UNIQUE)");
    let said = refusal(&server, "postgres");
    let alter = said.find("ALTER TABLE").map(|at| &said[at..]).unwrap_or_else(|| panic!("{said}"));
    assert!(alter.contains("REPLICA IDENTITY USING INDEX"), "{said}");
    server.sql(alter);
    assert_eq!(refusal(&server, "postgres"), "it follows");
    server.sql("INSERT INTO t VALUES ('a'); UPDATE t SET k = 'b'; DELETE FROM t");

    let name = server.sql("SELECT pubname FROM pg_publication ORDER BY oid DESC LIMIT 1");
    server.sql(&format!("ALTER PUBLICATION {name} SET (publish = 'insert')"));
    let said = refusal(&server, "postgres");
    assert!(said.contains(&format!("DROP PUBLICATION \"{name}\"")), "{said}");
}

#[test]
fn a_server_without_room_says_so() {
    for (setting, advice) in [
        ("max_replication_slots=1", "max_replication_slots"),
        ("max_wal_senders=0", "max_wal_senders"),
    ] {
        let server = PostgresServer::start_with(&["wal_level=logical", setting]);
        server.sql("CREATE TABLE t (k text PRIMARY KEY)");
        if setting.contains("slots") {
            server.sql("SELECT pg_create_logical_replication_slot('other', 'pgoutput')");
        }
        let said = refusal(&server, "postgres");
        assert!(said.contains(&format!("ALTER SYSTEM SET {advice}")), "{said}");
    }
}

/// Rows that are not in the log could not be followed.
#[test]
fn tables_with_unlogged_rows_are_refused() {
    let server = server();
    for (make, reason) in [
        ("CREATE UNLOGGED TABLE t (k text PRIMARY KEY)", "UNLOGGED"),
        (
            "CREATE TABLE t (k text PRIMARY KEY) PARTITION BY LIST (k);
             CREATE UNLOGGED TABLE rest PARTITION OF t DEFAULT",
            "UNLOGGED",
        ),
        (
            "CREATE TABLE t (k text PRIMARY KEY); CREATE TABLE heir (PRIMARY KEY (k)) INHERITS (t)",
            "inherit",
        ),
    ] {
        server.sql(&format!("DROP TABLE IF EXISTS t CASCADE; {make}"));
        let said = refusal(&server, "postgres");
        assert!(said.contains(reason), "{make}: {said}");
    }
    server.sql(
        "DROP TABLE t CASCADE; CREATE MATERIALIZED VIEW t AS SELECT 'ada' AS k;
         CREATE UNIQUE INDEX ON t (k)",
    );
    let said = refusal(&server, "postgres");
    assert!(said.contains("cannot be followed"), "{said}");
    // It may get them later.
    server.sql("DROP MATERIALIZED VIEW t; CREATE TABLE t (k text PRIMARY KEY)");
    let directory = TempDir::new().expect("a directory");
    let running = follow(&server, &directory, FollowMode::Async);
    server.sql("CREATE TABLE heir (PRIMARY KEY (k)) INHERITS (t); INSERT INTO heir VALUES ('eve')");
    eventually("the filter is not relied on", || !running.is_trusted());
    assert!(exists(&mut running.client(), "eve"));
    running.stop();
}

/// If two rows have the same key, the deletion of one says nothing of the other.
#[test]
fn keys_of_two_rows_are_refused() {
    let server = server();
    server.sql(
        "CREATE TABLE t (id int, k text NOT NULL, CONSTRAINT u UNIQUE (k) DEFERRABLE);
         ALTER TABLE t REPLICA IDENTITY FULL",
    );
    let said = refusal(&server, "postgres");
    assert!(said.contains("DEFERRABLE"), "{said}");
    server.sql("ALTER TABLE t DROP CONSTRAINT u; CREATE UNIQUE INDEX u ON t (k)");
    let directory = TempDir::new().expect("a directory");
    let running = follow(&server, &directory, FollowMode::Async);
    server.sql("DROP INDEX u");
    eventually("the filter is not relied on", || !running.is_trusted());
    server.sql("INSERT INTO t VALUES (1, 'ada'), (2, 'ada'); DELETE FROM t WHERE id = 1");
    assert!(exists(&mut running.client(), "ada"));
    running.stop();
    // A primary key that may be violated for a moment is no replica identity.
    server.sql(
        "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY DEFERRABLE, k text NOT NULL UNIQUE)",
    );
    let said = refusal(&server, "postgres");
    let alter = said.find("ALTER").map(|at| &said[at..]).unwrap_or_else(|| panic!("{said}"));
    server.sql(alter);
    assert_eq!(refusal(&server, "postgres"), "it follows");
    server.sql("INSERT INTO t VALUES (1, 'ada'); UPDATE t SET k = 'eve'");
}

#[test]
fn lookups_never_go_to_a_standby() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    // Both are the same server.
    let several = server.address().replace("127.0.0.1", "127.0.0.1,localhost");
    assert_ne!(several, server.address());
    let said = refusal_of(&several, FollowMode::Async);
    let attribute = "target_session_attrs=read-write";
    assert!(said.contains(attribute), "{said}");
    assert_eq!(refusal_of(&format!("{several}?{attribute}"), FollowMode::Async), "it follows");
}

/// The log, too, is that of the server that takes writes.
#[test]
fn a_standby_that_is_named_first_is_passed_over() {
    let (mut primary, mut standby) = (server(), server());
    primary.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('ada')");
    standby.quit();
    primary.quit();
    standby.put_back(&primary.copy());
    standby.make_standby();
    standby.restart();
    primary.restart();
    assert_eq!(standby.sql("SELECT pg_is_in_recovery()"), "t");
    let both = primary
        .address()
        .replace(&primary.host(), &format!("{},{}", standby.host(), primary.host()));
    let address = format!("{both}?target_session_attrs=read-write");
    assert_eq!(refusal_of(&address, FollowMode::Async), "it follows");
}
