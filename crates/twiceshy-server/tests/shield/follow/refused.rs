//! What PostgreSQL has to be asked for, in words.

use tempfile::TempDir;
use twiceshy_server::FollowMode;

use super::server;
use crate::harness::{following, table};
use crate::upstreams::PostgresServer;

fn refusal(server: &PostgresServer, user: &str) -> String {
    let directory = TempDir::new().expect("a directory");
    let address = server.address().replace("postgres@", &format!("{user}@"));
    let table = table(&address, "t", "k", None);
    let running = following(&table, directory.path(), FollowMode::Async);
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
