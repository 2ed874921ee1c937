//! In front of PostgreSQL.

use tempfile::TempDir;
use twiceshy_server::{Failure, Resynced};

use crate::client::Value;
use crate::harness::{Running, options, postgres, table};
use crate::upstreams::{PostgresServer, eventually, new_directory};

const UUID: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

/// Keys and their values.
type Records<'a> = &'a [(&'a [u8], &'a str)];

fn text(value: &str) -> Value {
    Value::bulk(value)
}

#[test]
fn keys_of_every_type_that_we_know() {
    let server = PostgresServer::start();
    server.sql(
        "CREATE TABLE t (k text UNIQUE, v text);
         INSERT INTO t VALUES ('ada', 'Ada'), ('größe', 'big'), ('', 'empty'), ('null', NULL),
                              (NULL, 'no key'), (NULL, 'no key either');
         CREATE TABLE v (k varchar(9) PRIMARY KEY, v jsonb);
         INSERT INTO v VALUES ('ada', '{\"a\": 1}');
         CREATE TABLE b (k bytea PRIMARY KEY, v bytea);
         INSERT INTO b VALUES ('\\x00ff', '\\xff00');
         CREATE TABLE i2 (k smallint PRIMARY KEY, v int); INSERT INTO i2 VALUES (-7, 5);
         CREATE TABLE i4 (k integer PRIMARY KEY, v int); INSERT INTO i4 VALUES (-7, 5);
         CREATE TABLE i8 (k bigint PRIMARY KEY, v int);
         INSERT INTO i8 VALUES (-7, 5), (9223372036854775807, 6);
         CREATE TABLE u (k uuid PRIMARY KEY, v timestamptz);
         INSERT INTO u VALUES ('a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', NULL);
         CREATE TABLE p (k text PRIMARY KEY, v text) PARTITION BY HASH (k);
         CREATE TABLE p0 PARTITION OF p FOR VALUES WITH (MODULUS 1, REMAINDER 0);
         INSERT INTO p VALUES ('ada', 'Ada');",
    );
    let directory = TempDir::new().expect("a directory");
    let start = |name: &str, value: Option<&str>| -> Running {
        let of = new_directory(&directory, &format!("{name}{value:?}"));
        let table = table(&server.address(), name, "k", value);
        postgres(&table, &options(&of)).unwrap_or_else(|failure| panic!("{name}: {failure}"))
    };
    let found: [(&str, Records<'_>); 8] = [
        ("t", &[(b"ada", "Ada"), ("größe".as_bytes(), "big"), (b"", "empty")]),
        ("v", &[(b"ada", "{\"a\": 1}")]),
        ("i2", &[(b"-7", "5"), (b"-007", "5")]),
        ("i4", &[(b"-7", "5")]),
        ("i8", &[(b"-7", "5"), (b"9223372036854775807", "6"), (b"+9223372036854775807", "6")]),
        ("p", &[(b"ada", "Ada")]),
        ("public.p", &[(b"ada", "Ada")]),
        ("u", &[]),
    ];
    for (name, keys) in found {
        let running = start(name, Some("v"));
        let mut client = running.client();
        for (key, value) in keys {
            assert_eq!(client.call(&[b"GET", *key]), text(value), "{name} {key:?}");
            assert_eq!(client.call(&[b"EXISTS", *key, *key]), Value::Integer(2), "{name} {key:?}");
        }
        let asked: Vec<&[u8]> =
            [&b"MGET"[..], b"bob"].into_iter().chain(keys.iter().map(|(key, _)| *key)).collect();
        let values = keys.iter().map(|(_, value)| text(value));
        let values = std::iter::once(Value::Nil).chain(values).collect();
        assert_eq!(client.call(&asked), Value::Array(values), "{name}");
        for key in [&b"bob"[..], b"\xff\xfe", b"a\0", b"99999", b"99999999999999999999", b"7 "] {
            assert_eq!(client.call(&[b"GET", key]), Value::Nil, "{name} {key:?}");
            assert_eq!(client.call(&[b"EXISTS", key]), Value::Integer(0), "{name} {key:?}");
        }
        for refused in ["SET ada 1", "DEL ada"] {
            let reply = client.line(refused);
            assert!(reply.error().contains("TS.ADDED key before"), "{reply:?}");
        }
    }

    let running = start("t", Some("v"));
    let mut client = running.client();
    assert_eq!(client.line("GET null"), Value::Nil);
    assert_eq!(client.line("EXISTS null"), Value::Integer(1));
    assert_eq!(client.line("DBSIZE"), Value::Integer(4));
    let resynced = running.resync().expect("it runs");
    assert_eq!(resynced, Resynced { keys: 4, added: 0, forgotten: 0, without_key: 2 });

    let running = start("b", Some("v"));
    let mut client = running.client();
    assert_eq!(client.call(&[&b"GET"[..], b"\x00\xff"]), Value::bulk(b"\xff\x00"));
    assert_eq!(client.call(&[&b"MGET"[..], b"\x00", b"\x00\xff"]).clone(), {
        Value::Array(vec![Value::Nil, Value::bulk(b"\xff\x00")])
    });

    let running = start("u", None);
    let mut client = running.client();
    let row = format!("{{\"k\":\"{UUID}\",\"v\":null}}");
    for key in [UUID, &UUID.to_uppercase(), &format!("{{{UUID}}}"), &UUID.replace('-', "")] {
        assert_eq!(client.call(&["GET", key]), text(&row), "{key}");
    }
    assert_eq!(client.line("GET ada"), Value::Nil);
    let reply = client.line("TS.ADDED ada");
    assert!(reply.error().contains("cannot be in the store"), "{reply:?}");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let server = PostgresServer::start();
    server.sql(
        "CREATE DOMAIN mail AS text;
         CREATE COLLATION blind (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (n numeric UNIQUE, c char(3) UNIQUE, j jsonb UNIQUE, m mail UNIQUE,
                         f text COLLATE blind UNIQUE, a text, b text, i text, h text, g text UNIQUE,
                         PRIMARY KEY (a, b));
         CREATE INDEX ON t (i);
         CREATE UNIQUE INDEX ON t (h) WHERE a = 'x';
         CREATE UNIQUE INDEX ON t (lower(i));
         CREATE VIEW seen AS SELECT * FROM t;",
    );
    let directory = TempDir::new().expect("a directory");
    let refused = |name: &str, key: &str, value: Option<&str>, why: &str| {
        let of = new_directory(&directory, "unused");
        let table = table(&server.address(), name, key, value);
        let Err(failure) = postgres(&table, &options(&of)) else { panic!("{name} {key}") };
        assert!(matches!(failure, Failure::Refused(_)), "{failure:?}");
        assert!(failure.to_string().contains(why), "{failure}");
        assert!(!of.exists());
    };
    refused("t", "n", None, "its type is numeric; supported are text, varchar, bytea");
    refused("t", "c", None, "its type is character(3)");
    refused("t", "j", None, "its type is jsonb");
    refused("t", "m", None, "its type is mail");
    refused("t", "f", None, "different texts can be equal");
    for key in ["a", "b", "i", "h"] {
        refused("t", key, None, "no unique index of its own");
    }
    refused("t", "a,b", None, "has no column \"a,b\"; a key is one column");
    refused("t", "g", Some("no"), "has no column \"no\"");
    refused("seen", "g", None, "is not a table");
    refused("T", "g", None, "there is no table \"T\"");
    refused("no.t", "g", None, "there is no table \"no\".\"t\"");
    refused("a.b.c", "g", None, "3 parts");

    let fails = |address: &str| {
        let table = table(address, "t", "g", None);
        postgres(&table, &options(directory.path())).err().expect("refused").to_string()
    };
    let tls = fails(&format!("{}?sslmode=require", server.address()));
    assert!(tls.contains("server does not support TLS; turn TLS on there"), "{tls}");
    assert!(tls.contains("sslmode=disable"), "{tls}");
    let preferred = table(&format!("{}?sslmode=prefer", server.address()), "t", "g", None);
    assert!(postgres(&preferred, &options(&new_directory(&directory, "plain"))).is_ok());
    let address = fails("mysql://localhost/");
    assert!(address.contains("expected postgres://"), "{address}");
    let down = fails("postgres://postgres:secret@127.0.0.1:1/postgres");
    assert!(down.starts_with("the store is down: 127.0.0.1:1: "), "{down}");
    assert!(!down.contains("secret"), "{down}");
}

#[test]
fn evil_names_are_only_names() {
    let server = PostgresServer::start();
    server.sql(
        r#"CREATE TABLE victim (k text);
           CREATE SCHEMA "s.'; DROP TABLE victim; --";
           CREATE TABLE "s.'; DROP TABLE victim; --"."t""; DROP TABLE victim; --"
               ("k""; DROP TABLE victim; --" text UNIQUE, t text, "$1" text);
           INSERT INTO "s.'; DROP TABLE victim; --"."t""; DROP TABLE victim; --"
               VALUES ('''; DROP TABLE victim; --', 'Ada', 'one');"#,
    );
    let directory = TempDir::new().expect("a directory");
    let name = r#""s.'; DROP TABLE victim; --"."t""; DROP TABLE victim; --""#;
    let key = r#"k"; DROP TABLE victim; --"#;
    for (value, expected) in [
        (Some("$1"), "one"),
        (Some("t"), "Ada"),
        (None, r#"{"k\"; DROP TABLE victim; --":"'; DROP TABLE victim; --","t":"Ada","$1":"one"}"#),
    ] {
        let of = new_directory(&directory, expected);
        let table = table(&server.address(), name, key, value);
        let running = postgres(&table, &options(&of)).expect("it is a table");
        let got = running.client().call(&["GET", "'; DROP TABLE victim; --"]);
        assert_eq!(got, text(expected));
        running.resync().expect("it runs");
    }
    assert_eq!(server.sql("SELECT count(*) FROM victim"), "0");
}

/// A filter of 8-bit remainders lets at most 1/256 of 20,000 misses through: 78, with
/// a standard deviation of 9, so 140 is seven of them away. Those are fixed. A fix
/// changes one block of 64 slots of 10^5 at most, of which 12 misses are in that
/// block, and 12/256 of one is let through instead: four for 78 fixes. 25 has
/// probability 1e-12.
#[test]
fn a_hundred_thousand_rows_behind_a_shield() {
    let server = PostgresServer::start();
    server.sql(
        "CREATE TABLE users (k text PRIMARY KEY, v text);
         INSERT INTO users SELECT 'user ' || n, n FROM generate_series(0, 99999) n;",
    );
    let directory = TempDir::new().expect("a directory");
    let of = directory.path().join("sidecar");
    let table = table(&server.address(), "users", "k", Some("v"));
    let running = postgres(&table, &options(&of)).expect("it is a table");
    let mut client = running.client();
    assert_eq!(client.line("DBSIZE"), Value::Integer(100_000));
    let mut ask = |from: u32, to: u32| -> Vec<Value> {
        let numbers: Vec<u32> = (from..to).collect();
        let mut values = Vec::new();
        for numbers in numbers.chunks(500) {
            let mut words = vec!["MGET".to_string()];
            words.extend(numbers.iter().map(|n| format!("user {n}")));
            let Value::Array(some) = client.call(&words) else { panic!("an array") };
            values.extend(some);
        }
        values
    };
    for (n, value) in ask(0, 100_000).into_iter().enumerate() {
        assert_eq!(value, Value::bulk(n.to_string()));
    }
    let stats =
        |running: &Running, name: &str| running.client().line("TS.STATS").field(name).integer();
    let mut false_positives = Vec::new();
    for _ in 0..3 {
        let before = stats(&running, "false_positives");
        assert!(ask(100_000, 120_000).iter().all(|value| *value == Value::Nil));
        false_positives.push(stats(&running, "false_positives") - before);
    }
    assert!((1..140).contains(&false_positives[0]), "{false_positives:?}");
    assert!(false_positives[1] < 25 && false_positives[2] < 25, "{false_positives:?}");

    // One at a time, as PostgreSQL counts them: all of these are known to be absent.
    let begin = server.statements("SELECT k, CASE");
    let absent: Vec<Value> =
        (100_000..102_000).map(|n| client.call(&["GET", &format!("user {n}")])).collect();
    assert!(absent.iter().all(|value| *value == Value::Nil));
    let queries = server.statements("SELECT k, CASE") - begin;
    assert!(queries < 25, "{queries}");
    assert_eq!(
        client.line("GET user 7").error(),
        "ERR wrong number of arguments for 'get' command"
    );
    assert_eq!(client.call(&["GET", "user 7"]), text("7"));
    let after = server.statements("SELECT k, CASE");
    assert_eq!(after, begin + queries + 1, "a hit is one query");

    // Two lanes, the first look, the estimate, the scan: every session of ours.
    assert!(server.statements("SET default_transaction_read_only = on") >= 5);
    assert_eq!(server.statements("INSERT"), 0, "but for psql's, which is one statement of two");
    for written in ["UPDATE", "DELETE", "COPY", "DROP"] {
        assert_eq!(server.statements(written), 0, "{written}");
    }
    running.stop();

    let other = crate::harness::table(&server.address(), "users", "k", None);
    let again = postgres(&other, &options(&of)).expect("the same table and keys");
    again.stop();
    server.sql("CREATE TABLE other (k text PRIMARY KEY)");
    let other = crate::harness::table(&server.address(), "other", "k", None);
    let Err(failure) = postgres(&other, &options(&of)) else { panic!("it is of another table") };
    let failure = failure.to_string();
    assert!(failure.contains("\"users\" k text, not of postgres://"), "{failure}");
}

#[test]
fn keys_that_come_and_go_beside_it() {
    let server = PostgresServer::start();
    server.sql(
        "CREATE TABLE t (k text PRIMARY KEY, v text);
         INSERT INTO t SELECT 'old ' || n, n FROM generate_series(1, 5000) n;",
    );
    let directory = TempDir::new().expect("a directory");
    let table = table(&server.address(), "t", "k", Some("v"));
    let mut options = options(directory.path());
    let running = postgres(&table, &options).expect("it is a table");
    let mut client = running.client();

    // Told of: known at once.
    assert_eq!(client.call(&["TS.ADDED", "told", "old 1"]), Value::Integer(1));
    assert_eq!(client.line("GET told"), Value::Nil, "not inserted yet");
    server.sql("INSERT INTO t VALUES ('told', '1')");
    assert_eq!(client.line("GET told"), text("1"));
    // A notice that is wrong is not believed.
    assert_eq!(client.line("TS.REMOVED told"), Value::Integer(0));
    assert_eq!(client.line("GET told"), text("1"));
    server.sql("DELETE FROM t WHERE k = 'told'");
    // It was announced a moment ago: whoever said so may be about to store it again.
    assert_eq!(client.line("TS.REMOVED told nobody"), Value::Integer(0));
    assert_eq!(client.line("GET told"), Value::Nil);
    // Nobody announced this one.
    server.sql("DELETE FROM t WHERE k = 'old 3000'");
    assert_eq!(client.call(&["TS.REMOVED", "old 3000"]), Value::Integer(1));
    assert_eq!(client.call(&["TS.ADDED", "old 3000"]), Value::Integer(1));
    server.sql("INSERT INTO t VALUES ('old 3000', '3000')");

    // Behind its back: denied until the resync, as far as the filter can tell.
    server.sql(
        "INSERT INTO t SELECT 'new ' || n, n FROM generate_series(1, 1000) n;
         DELETE FROM t WHERE k IN (SELECT 'old ' || n FROM generate_series(1, 1000) n);",
    );
    assert_eq!(client.line("TS.ADDED soon"), Value::Integer(1));
    let count = |running: &Running, kind: &str| {
        let mut client = running.client();
        let mut words = vec!["MGET".to_string()];
        words.extend((1..=1000).map(|n| format!("{kind} {n}")));
        let Value::Array(values) = client.call(&words) else { panic!("an array") };
        values.iter().filter(|value| **value != Value::Nil).count()
    };
    // At most 1/256 are taken for others and asked for: 4. 30 has probability 1e-16.
    assert!(count(&running, "new") < 30);
    let resynced = running.resync().expect("it runs");
    assert_eq!((resynced.keys, resynced.added), (5000, 1000));
    // One in 400 of 1000 is taken for one that was seen: 2.4. 20 has probability 1e-11.
    assert!((980..=1000).contains(&resynced.forgotten), "{resynced:?}");
    assert_eq!(count(&running, "new"), 1000);
    assert_eq!(count(&running, "old"), 0);
    let left = client.line("DBSIZE").integer();
    assert!((5002..=5022).contains(&left), "5000 and those that were announced: {left}");
    server.sql("INSERT INTO t VALUES ('soon', 'here')");
    assert_eq!(client.line("GET soon"), text("here"), "a resync does not forget a notice");
    running.stop();

    // While it is away.
    server.sql("INSERT INTO t VALUES ('meanwhile', 'x')");
    let running = postgres(&table, &options).expect("the same table");
    assert_eq!(running.client().line("GET meanwhile"), text("x"), "nothing is denied yet");
    eventually("the filter is trusted", || running.is_trusted());
    assert_eq!(running.client().line("GET meanwhile"), text("x"));
    running.stop();

    options.resync_at_start = false;
    options.resync = Some(std::time::Duration::from_millis(100));
    let running = postgres(&table, &options).expect("the same table");
    assert!(running.is_trusted());
    server.sql("INSERT INTO t VALUES ('by and by', 'x')");
    eventually("it is resynced", || running.client().call(&["GET", "by and by"]) == text("x"));
}
