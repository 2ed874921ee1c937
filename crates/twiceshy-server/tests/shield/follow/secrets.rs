//! Connections to the log with TLS and passwords.

use tempfile::TempDir;
use twiceshy_server::{Authorities, FollowMode, PostgresOptions};

use super::{exists, wait};
use crate::harness::{following, table};
use crate::upstreams::{Authority, PostgresServer, eventually};

#[test]
fn the_log_is_read_with_tls_and_a_password() {
    let authority = Authority::new();
    let settings = ["wal_level=logical"];
    let server = PostgresServer::start_with_tls(&authority, &settings);
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    for (method, stored, mode) in [
        ("scram-sha-256", "scram-sha-256", "require"),
        ("scram-sha-256", "scram-sha-256", "verify-full"),
        ("md5", "md5", "require"),
        ("password", "scram-sha-256", "verify-ca"),
    ] {
        let what = format!("{method} {mode}");
        server.sql(&format!(
            "SET password_encryption = '{stored}'; DROP TABLE t; DROP ROLE IF EXISTS ada;
             CREATE ROLE ada LOGIN REPLICATION PASSWORD 'se cret';
             CREATE TABLE t (k text PRIMARY KEY); ALTER TABLE t OWNER TO ada;
             GRANT CREATE ON DATABASE postgres TO ada"
        ));
        server.authenticate("ada", method);
        let address = server.address().replace("postgres@", "ada:se%20cret@");
        let options = |address: &str, authority: &Authority| PostgresOptions {
            authorities: Some(Authorities::read(&authority.path()).expect("a certificate")),
            ..table(&format!("{address}?sslmode={mode}"), "t", "k", None)
        };
        let directory = TempDir::new().expect("a directory");
        let start = |options| following(&options, directory.path(), FollowMode::Async);
        let running = start(options(&address, &authority));
        let running = running.unwrap_or_else(|failure| panic!("{what}: {failure}"));
        eventually("the filter answers", || running.is_trusted());
        let encrypted = server.sql(
            "SELECT r.application_name, s.ssl FROM pg_stat_replication r JOIN pg_stat_ssl s USING (pid)",
        );
        assert_eq!(encrypted, "shield|t", "{what}");
        server.sql("INSERT INTO t VALUES ('bob')");
        let mut client = running.client();
        wait(&server, &mut client);
        assert!(exists(&mut client, "bob"), "{what}");
        running.stop();
        let wrong = start(options(&address.replace("se%20cret", "guess"), &authority));
        let said = wrong.err().map_or(String::new(), |failure| failure.to_string());
        assert!(said.contains("password authentication failed"), "{what}: {said}");
        server.sql("DROP OWNED BY ada CASCADE; CREATE TABLE t (k text PRIMARY KEY)");
    }
}
