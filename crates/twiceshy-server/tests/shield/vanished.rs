//! Keys that the filter knows and the store has lost.

use std::sync::Barrier;
use std::thread;

use tempfile::TempDir;

use crate::client::{Client, Value};
use crate::harness::{Running, options, postgres, redis, table};
use crate::upstreams::{PostgresServer, RedisServer};

fn stat(client: &mut Client, name: &str) -> i64 {
    client.line("TS.STATS").field(name).integer()
}

/// A filter in front of keys, of which Redis has none any more.
fn flushed(server: &RedisServer, directory: &TempDir, keys: u32) -> Running {
    let mut direct = server.client();
    for n in 0..keys {
        direct.line(&format!("SET key:{n} value"));
    }
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    assert_eq!(direct.line("FLUSHALL"), Value::ok());
    running
}

#[test]
fn a_key_that_vanished_costs_two_reads_which_are_counted() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = flushed(&server, &directory, 1000);
    let mut client = running.client();
    let reads = || server.lookups();
    // TS.STATS asks the store too, whether it is up.
    let counted_before = stat(&mut client, "store_reads");
    let before = reads();
    for _ in 0..300 {
        assert_eq!(client.line("GET key:1"), Value::Nil);
    }
    assert_eq!(reads() - before, 2);
    assert_eq!(stat(&mut client, "false_positives"), 1);
    assert_eq!(stat(&mut client, "vanished"), 1);
    assert_eq!(client.line("DBSIZE"), Value::Integer(999));
    // The same for many at once, and for EXISTS.
    let all: Vec<String> = (0..1000).map(|n| format!("key:{n}")).collect();
    for verb in ["EXISTS", "MGET", "EXISTS"] {
        let words: Vec<&str> = std::iter::once(verb).chain(all.iter().map(|s| &**s)).collect();
        client.call(&words);
    }
    assert_eq!(client.line("DBSIZE"), Value::Integer(0));
    assert_eq!(stat(&mut client, "vanished"), 1000);
    let counted = stat(&mut client, "store_reads") - counted_before;
    assert_eq!(u64::try_from(counted), Ok(reads() - before));
    // Twice a key, and false positives and health checks, of which there are few.
    assert!((2000..2050).contains(&counted), "{counted}");
}

/// Redis may get it at any moment.
#[test]
fn a_key_that_is_announced_is_not_forgotten() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let (mut client, mut direct) = (running.client(), server.client());
    assert_eq!(client.line("TS.ADDED key"), Value::Integer(1));
    let before = server.calls("exists");
    for _ in 0..50 {
        assert_eq!(client.line("GET key"), Value::Nil);
    }
    // Nor does each lookup cost two reads. (A minute may end in between.)
    let looks = server.calls("exists") - before;
    assert!(looks <= 2, "{looks} second looks");
    assert_eq!(direct.line("SET key 1"), Value::ok());
    assert_eq!(client.line("GET key"), Value::bulk("1"));
}

/// Its value reads as nil, and the key is there.
#[test]
fn a_key_without_a_value_is_not_forgotten() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE t (k text PRIMARY KEY, v text); INSERT INTO t VALUES ('ada', NULL)");
    let directory = TempDir::new().expect("a directory");
    let table = table(&server.address(), "t", "k", Some("v"));
    let running = postgres(&table, &options(directory.path())).expect("it runs");
    let mut client = running.client();
    for _ in 0..10 {
        assert_eq!(client.line("GET ada"), Value::Nil);
        assert_eq!(client.line("EXISTS ada"), Value::Integer(1));
    }
    assert_eq!(stat(&mut client, "false_positives"), 0);
    assert_eq!(stat(&mut client, "vanished"), 0);
    server.sql("UPDATE t SET v = 'Ada'");
    assert_eq!(client.line("GET ada"), Value::bulk("Ada"));
    // And now it is gone.
    server.sql("DELETE FROM t");
    for _ in 0..10 {
        assert_eq!(client.line("EXISTS ada"), Value::Integer(0));
    }
}

/// A lookup finds that a key has vanished while a client stores it again: whichever is first,
/// what was acknowledged is found.
#[test]
fn a_key_that_is_stored_while_it_is_forgotten_is_not_denied() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let (mut client, mut direct) = (running.client(), server.client());
    let (mut getter, mut setter) = (running.client(), running.client());
    for round in 0..400 {
        let key = format!("key {round}");
        assert_eq!(client.call(&["SET", &key, "1"]), Value::ok());
        assert_eq!(direct.call(&["DEL", &key]), Value::Integer(1));
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                getter.call(&["GET", &key]);
            });
            scope.spawn(|| {
                start.wait();
                let words = ["SET", &key, "2", "NX"];
                assert_eq!(setter.call(&words[..3 + round % 2]), Value::ok());
            });
        });
        assert_eq!(client.call(&["GET", &key]), Value::bulk("2"), "round {round}");
    }
}
