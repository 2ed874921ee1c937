//! Commands that are passed on to Redis.

use tempfile::TempDir;

use crate::client::Value;
use crate::harness::{options, redis};
use crate::upstreams::cluster::RedisCluster;
use crate::upstreams::{RedisServer, eventually};

/// Commands that a Redis by itself and one behind the filter answer alike.
const LINES: &[&str] = &[
    "SET a 1 EX 100",
    "TTL a",
    "SET a 2 KEEPTTL",
    "TTL a",
    "SET a 3 NX",
    "SET a 3 XX GET",
    "SET b 4 XX",
    "GET b",
    "SET b 5 NX PX 100000",
    "GET b",
    "SET b 6 GET",
    "SET c 7 NX GET",
    "SET a x EX 0",
    "SET a x EX nonsense",
    "SET a x NX XX",
    "SET d x NOSUCH",
    "GET d",
    "SETNX a 1",
    "SETNX n 1",
    "GET n",
    "SETEX e 100 v",
    "TTL e",
    "SETEX e x v",
    "PSETEX p 100000 v",
    "GET p",
    "INCR i",
    "INCR i",
    "DECR j",
    "INCRBY i 5",
    "DECRBY i 3",
    "GET i",
    "GET j",
    "INCR e",
    "TYPE i",
    "TYPE missing",
    "STRLEN i",
    "STRLEN missing",
    "GETRANGE e 0 -1",
    "GETRANGE e 0 0",
    "GETRANGE missing 0 -1",
    "GETRANGE missing 0 x",
    "TTL missing",
    "PTTL missing",
    "TTL i",
    "EXPIRE i 100",
    "TTL i",
    "EXPIRE missing 100",
    "EXPIRE missing x",
    "EXPIRE missing 100 XX",
    "EXPIRE j -1",
    "GET j",
    "EXISTS j",
    "GETDEL i",
    "GETDEL i",
    "GET i",
    "INCR i",
    "GET i",
    "UNLINK a b nothing a",
    "GET a",
    "EXISTS a b e",
    "TTL",
    "INCR",
    "GETRANGE e 0",
];

#[test]
fn commands_are_answered_as_redis_answers_them() {
    let behind = RedisServer::start();
    answers_as_redis(&behind.address(), |line| behind.client().line(line));
}

/// Those for several keys are sent to several nodes.
#[test]
fn a_cluster_answers_as_one_redis() {
    let behind = RedisCluster::start();
    answers_as_redis(&behind.address(), |line| behind.client().line(line));
}

fn answers_as_redis(address: &str, direct: impl Fn(&str) -> Value) {
    let alone = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = redis(address, &options(directory.path())).expect("it runs");
    let (mut client, mut alone) = (running.client(), alone.client());
    assert_eq!(direct("RPUSH list a b"), alone.line("RPUSH list a b"));
    running.resync().expect("it runs");
    let more = ["TYPE list", "STRLEN list", "GETDEL list", "GETRANGE list 0 1", "INCR list"];
    for line in LINES.iter().chain(&more) {
        assert_eq!(client.line(line), alone.line(line), "{line}");
    }
    // What is in the store is found, and what is not is not.
    for key in ["a", "b", "c", "d", "e", "i", "j", "n", "p", "list"] {
        assert_eq!(client.line(&format!("EXISTS {key}")), alone.line(&format!("EXISTS {key}")));
    }
}

#[test]
fn keys_that_are_surely_absent_cost_redis_nothing() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let mut client = running.client();
    for n in 0..200 {
        for line in [
            format!("TTL key:{n}"),
            format!("TYPE key:{n}"),
            format!("STRLEN key:{n}"),
            format!("GETRANGE key:{n} 0 -1"),
            format!("EXPIRE key:{n} 10"),
        ] {
            client.line(&line);
        }
    }
    // An empty filter passes nothing on.
    for name in ["ttl", "type", "strlen", "getrange", "expire"] {
        assert_eq!(server.calls(name), 0, "{name}");
    }
    let stats = client.line("TS.STATS");
    assert_eq!(stats.field("queries").integer(), 1000);
    assert_eq!(stats.field("reads_avoided").integer(), 1000);
}

/// The filter knows every key that a command adds, and forgets what it takes.
#[test]
fn keys_come_and_go_with_the_commands_that_are_passed_on() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let mut client = running.client();
    for (number, line) in
        ["SET a 1 NX", "SETEX b 100 1", "PSETEX c 100000 1", "SETNX d 1", "INCR e", "DECRBY f 2"]
            .iter()
            .enumerate()
    {
        client.line(line);
        let key = line.split(' ').nth(1).expect("a key");
        assert_ne!(client.line(&format!("GET {key}")), Value::Nil, "{line}");
        let known = i64::try_from(number).expect("few") + 1;
        assert_eq!(client.line("DBSIZE"), Value::Integer(known), "{line}");
    }
    assert_eq!(client.line("GETDEL a"), Value::bulk("1"));
    assert_eq!(client.line("UNLINK b c nobody"), Value::Integer(2));
    assert_eq!(client.line("DBSIZE"), Value::Integer(3));
    // A key that expires is forgotten when it is asked for.
    assert_eq!(client.line("SET short 1 PX 20"), Value::ok());
    eventually("it has expired", || server.client().line("EXISTS short") == Value::Integer(0));
    assert_eq!(client.line("TTL short"), Value::Integer(-2));
    assert_eq!(client.line("DBSIZE"), Value::Integer(3));
}

/// A value that has no room is refused before it is taken from the store.
#[test]
fn a_value_that_has_no_room_stays() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    // The largest reply is 64 MiB by default.
    assert_eq!(server.client().line("SETRANGE large 70000000 x"), Value::Integer(70_000_001));
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let mut client = running.client();
    for line in ["GETDEL large", "SET large 1 GET", "GETRANGE large 0 -1"] {
        let refused = client.line(line);
        assert!(refused.error().contains("more than 67108864 bytes"), "{refused:?}");
    }
    assert_eq!(client.line("STRLEN large"), Value::Integer(70_000_001));
}
