//! In front of a table of PostgreSQL whose log is followed.

mod changes;
mod first_build;
mod put_back;
mod refused;
mod restarts;
mod secrets;
mod trust;

use tempfile::TempDir;
use twiceshy_server::FollowMode;

use crate::client::{Client, Value};
use crate::harness::{Running, following, table};
use crate::upstreams::{PostgresServer, eventually};

/// A server whose log can be followed.
pub fn server() -> PostgresServer {
    PostgresServer::start_with(&["wal_level=logical", "max_prepared_transactions=4"])
}

/// How often the keys were scanned, as [`PostgresServer::statements`] counts.
pub const SCAN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";

/// Makes the log a little longer.
pub fn pad(server: &PostgresServer) {
    server.sql("SELECT pg_logical_emit_message(false, 'test', repeat('x', 100000))");
}

/// Follows a table `t` with the key `k` and waits until the filter answers.
pub fn follow(server: &PostgresServer, directory: &TempDir, mode: FollowMode) -> Running {
    let table = table(&server.address(), "t", "k", None);
    let running = following(&table, directory.path(), mode);
    let running = running.unwrap_or_else(|failure| panic!("{failure}"));
    eventually("the filter answers", || running.is_trusted());
    running
}

/// Waits until the shield knows everything that has happened.
pub fn wait(server: &PostgresServer, client: &mut Client) {
    let position = server.sql("SELECT pg_current_wal_insert_lsn()");
    let reply = client.call(&["TS.WAIT", &position, "60000"]);
    assert_eq!(reply, Value::Simple("OK".into()));
}

/// Whether a key is there.
pub fn exists(client: &mut Client, key: &str) -> bool {
    client.call(&["EXISTS", key]) == Value::Integer(1)
}
