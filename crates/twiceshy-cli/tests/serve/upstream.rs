//! In front of a store of others, by its flags.

use tempfile::TempDir;

use crate::client::Value;
use crate::process::{Process, command};
use crate::upstreams::{Authority, PostgresServer, RedisServer, eventually};

const NOT_CLEAN: &str = "the last run was not stopped cleanly";

/// SIGKILL leaves a filter that is not trusted, whatever the flags say; a clean end
/// one that is.
#[test]
fn redis_and_a_sigkill() {
    let redis = RedisServer::start();
    let mut direct = redis.client();
    assert_eq!(direct.line("SET before 1"), Value::ok());
    let directory = TempDir::new().expect("a directory");
    let flags = format!("--store {}", redis.address());
    let mut server = Process::start(directory.path(), &flags);
    assert!(server.log().contains("the filter is built"), "{}", server.log());
    assert_eq!(server.client().line("SET after 2"), Value::ok());
    assert_eq!(direct.line("GET after"), Value::bulk("2"));
    let both = Value::Array(vec![Value::bulk("1"), Value::bulk("2"), Value::Nil]);
    assert_eq!(server.client().line("MGET before after never"), both);
    server.kill();

    let flags = format!("{flags} --no-resync-at-start");
    let server = Process::start(directory.path(), &flags);
    assert!(server.log().contains(NOT_CLEAN), "{}", server.log());
    assert_eq!(server.client().line("MGET before after never"), both);
    eventually("it is resynced", || server.log().contains(" resynced "));
    assert_eq!(server.client().line("MGET before after never"), both);
    let (status, log) = server.stop("TERM");
    assert_eq!(status.code(), Some(0), "{log}");

    let scans = redis.calls("scan");
    let server = Process::start(directory.path(), &flags);
    assert!(!server.log().contains(NOT_CLEAN), "{}", server.log());
    assert_eq!(server.client().line("MGET before after never"), both);
    assert_eq!(redis.calls("scan"), scans, "nothing was resynced");
}

#[test]
fn postgres_by_flags_and_by_environment() {
    let postgres = PostgresServer::start();
    postgres.sql(
        "CREATE TABLE users (email text PRIMARY KEY, name text);
         INSERT INTO users VALUES ('ada@x', 'Ada')",
    );
    let directory = TempDir::new().expect("a directory");
    let address = postgres.address();
    let table = "--table users --key email --value name";
    let server = Process::start(directory.path(), &format!("--store {address} {table}"));
    let mut client = server.client();
    assert_eq!(client.line("GET ada@x"), Value::bulk("Ada"));
    assert_eq!(client.line("GET bob@x"), Value::Nil);
    assert!(client.line("SET bob@x Bob").error().contains("never writes to PostgreSQL"));
    assert_eq!(client.line("TS.ADDED bob@x"), Value::Integer(1));
    postgres.sql("INSERT INTO users VALUES ('bob@x', 'Bob')");
    assert_eq!(client.line("GET bob@x"), Value::bulk("Bob"));
    let (status, log) = server.stop("TERM");
    assert_eq!(status.code(), Some(0), "{log}");

    // What is missing or of no use is said.
    let redis = RedisServer::start();
    for (flags, store, said) in [
        ("", &address[..], "needs --table and --key"),
        (table, "redis://127.0.0.1:1", "are for PostgreSQL"),
        ("", "rediss://:secret@127.0.0.1#insecure", "always verified"),
        ("--store-ca nowhere.pem", "rediss://:secret@127.0.0.1", "--store-ca nowhere.pem: No such"),
        ("--follow sync", "redis://127.0.0.1:1", "use --follow async"),
        ("--follow", &redis.address(), "CONFIG SET notify-keyspace-events 'Engxe'"),
        (table, "mysql://me:secret@127.0.0.1", "begins with \"mysql\""),
        ("--table nobody --key email", &address, "there is no table \"nobody\""),
    ] {
        let mut command = command(directory.path(), &format!("--listen 127.0.0.1:0 {flags}"));
        let output = command.env("TWICESHY_STORE", store).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{flags} {store}");
        let error = String::from_utf8(output.stderr).expect("text");
        assert!(error.contains(said) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn redis_is_followed_by_flags() {
    let redis = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let flags = format!("--store {} --follow --configure-store --max-lag 50", redis.address());
    let server = Process::start(directory.path(), &flags);
    eventually("it is followed", || server.log().contains("the store is followed"));
    assert!(!server.log().contains("--resync"), "{}", server.log());
    let (mut client, mut direct) = (server.client(), redis.client());
    assert_eq!(direct.line("SET key 1"), Value::ok());
    eventually("it is found", || client.line("GET key") == Value::bulk("1"));
    let (status, log) = server.stop("TERM");
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn tls_by_flags() {
    let (authority, another) = (Authority::new(), Authority::new());
    let redis = RedisServer::start_with_tls(&authority, "IP:127.0.0.1");
    assert_eq!(redis.client().line("SET ada@x Ada"), Value::ok());
    let postgres = PostgresServer::start_with_tls(&authority, &[]);
    postgres.sql(
        "CREATE TABLE users (email text PRIMARY KEY, name text);
         INSERT INTO users VALUES ('ada@x', 'Ada')",
    );
    let table = "--table users --key email --value name";
    let stores = [
        format!("--store {}", redis.tls_address()),
        format!("--store {}?sslmode=verify-full {table}", postgres.address()),
    ];
    for store in stores {
        let directory = TempDir::new().expect("a directory");
        let flags = format!("{store} --store-timeout 60 --store-ca {}", authority.path().display());
        let server = Process::start(directory.path(), &flags);
        assert_eq!(server.client().line("GET ada@x"), Value::bulk("Ada"), "{store}");
        assert_eq!(server.client().line("GET bob@x"), Value::Nil, "{store}");
        drop(server);

        let flags = format!("{store} --store-timeout 60 --store-ca {}", another.path().display());
        let mut command = command(directory.path(), &format!("--listen 127.0.0.1:0 {flags}"));
        let output = command.output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{store}");
        let error = String::from_utf8(output.stderr).expect("text");
        let said = ["invalid peer certificate", "--store-ca FILE"].map(|part| error.contains(part));
        assert_eq!(said, [true; 2], "{error}");
    }
}
