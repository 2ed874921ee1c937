//! Redis tells of the keys that other clients add and remove.

use std::cell::RefCell;
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;
use twiceshy_server::Following;

use crate::client::{Client, Value};
use crate::harness::{Running, options, redis_following};
use crate::never_denied::never_denied;
use crate::upstreams::{RedisServer, eventually};

const MAX_LAG: Duration = Duration::from_millis(200);

fn following(configure: bool) -> Following {
    Following { max_lag: MAX_LAG, configure }
}

fn followed(server: &RedisServer, directory: &TempDir) -> Running {
    let options = options(directory.path());
    let running = redis_following(&server.address(), &options, following(true));
    let running = running.expect("it runs");
    eventually("it is trusted", || running.is_trusted());
    running
}

/// Commands that succeed.
fn done(client: &mut Client, lines: &[&str]) {
    for line in lines {
        let reply = client.line(line);
        assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
    }
}

/// Waits until a key is answered for without a look into the store.
fn is_forgotten(server: &RedisServer, client: &mut Client, key: &str) {
    eventually(&format!("{key} is forgotten"), || {
        let before = server.calls("getrange");
        client.call(&["GET", key]) == Value::Nil && server.calls("getrange") == before
    });
}

#[test]
fn keys_of_other_clients_come_and_go() {
    let server = RedisServer::start();
    let mut direct = server.client();
    direct.line("MSET old:1 1 old:2 2 old:3 3");
    let directory = TempDir::new().expect("a directory");
    let running = followed(&server, &directory);
    let mut client = running.client();
    assert_eq!(client.line("MGET old:1 none").clone(), {
        Value::Array(vec![Value::bulk("1"), Value::Nil])
    });
    is_forgotten(&server, &mut client, "none");

    // Each way to make a key. All are found when the lag is over, and not only in the end.
    direct.line("RPUSH list a b");
    direct.line("SELECT 1");
    direct.line("SET moved 1");
    direct.line("MOVE moved 0");
    direct.line("SELECT 0");
    let Value::Bulk(dump) = direct.line("DUMP old:1") else { panic!("it is there") };
    direct.call(&[&b"RESTORE"[..], b"restored", b"0", &dump]);
    let lines = [
        "SET set 1",
        "MSET set:1 1 set:2 2",
        "SETNX setnx 1",
        "SET short 1 PX 600000",
        "INCR number",
        "APPEND appended x",
        "HSET hash a b",
        "SADD union:of a",
        "SUNIONSTORE union union:of",
        "ZADD sorted 1 a",
        "XADD stream * a b",
        "PFADD loglog a",
        "SETBIT bits 7 1",
        "LMOVE list list:2 LEFT LEFT",
        "RENAME old:2 renamed",
        "COPY old:3 copied",
    ];
    done(&mut direct, &lines);
    direct.call(&["EVAL", "redis.call('SET', 'script', '1')", "0"]);
    direct.call(&[&b"SET"[..], b"\x00\xff\r\n", b"1"]);
    sleep(MAX_LAG);
    for key in [
        "list", "moved", "restored", "set", "set:1", "set:2", "setnx", "short", "number",
        "appended", "hash", "union:of", "union", "sorted", "stream", "loglog", "bits", "list:2",
        "renamed", "copied", "script",
    ] {
        assert_eq!(client.call(&["EXISTS", key]), Value::Integer(1), "{key}");
    }
    assert_eq!(client.call(&[&b"EXISTS"[..], b"\x00\xff\r\n"]), Value::Integer(1));

    // Each way to lose one. The store is asked once more at most.
    let lines = [
        "DEL set",
        "UNLINK set:1",
        "PEXPIRE set:2 20",
        "SET setnx 1 PX 20",
        "MOVE moved 1",
        "RENAME renamed renamed:2",
        "GETDEL number",
        "SREM union a",
        "EXPIREAT copied 1",
    ];
    done(&mut direct, &lines);
    for key in
        ["set", "set:1", "set:2", "setnx", "moved", "renamed", "number", "union", "copied", "old:2"]
    {
        is_forgotten(&server, &mut client, key);
    }
    // Removed and added again: what counts is what the store has.
    let again = |n: u32| format!("again:{n}");
    let words = |line: String| line.split(' ').map(Vec::from).collect::<Vec<_>>();
    let lines = (0..200).flat_map(|n| ["SET", "DEL", "SET"].map(|verb| (verb, again(n))));
    let value = |verb| if verb == "SET" { " 1" } else { "" };
    let lines = lines.map(|(verb, key)| words(format!("{verb} {key}{}", value(verb))));
    direct.pipeline(&lines.collect::<Vec<_>>()).expect("replies");
    sleep(MAX_LAG);
    for n in 0..200 {
        assert_eq!(client.call(&["EXISTS", &again(n)]), Value::Integer(1), "{n}");
    }
    // What is evicted.
    direct.line("CONFIG SET maxmemory-policy allkeys-random");
    eventually("it is trusted", || running.is_trusted());
    direct.line("CONFIG SET maxmemory 1");
    direct.line("GET again:1");
    eventually("all is evicted", || direct.line("DBSIZE") == Value::Integer(0));
    eventually("all is forgotten", || client.line("DBSIZE") == Value::Integer(0));
    running.stop();
}

#[test]
fn nothing_is_denied_while_subscriptions_are_cut() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = followed(&server, &directory);
    let mut writer = server.client();
    let add = |key: &str| assert_eq!(writer.call(&["SET", key, "1"]), Value::ok());
    never_denied(
        &running,
        MAX_LAG,
        |n| format!("added:{n}"),
        add,
        || {
            let mut direct = server.client();
            let mut killed = 0;
            for _ in 0..5 {
                eventually("a subscription is cut", || {
                    direct.line("CLIENT KILL TYPE pubsub").integer() > 0
                });
                killed += 1;
                sleep(MAX_LAG / 2);
            }
            assert_eq!(killed, 5);
        },
    );
}

#[test]
fn nothing_is_denied_while_the_server_dies_and_comes_back() {
    let server = RedisServer::start_with(&["--notify-keyspace-events", "Engxe"]);
    let directory = TempDir::new().expect("a directory");
    let running = followed(&server, &directory);
    let socket = server.client().stream.get_ref().peer_addr().expect("an address");
    let server = RefCell::new(server);
    let mut writer = None;
    let add = |key: &str| {
        eventually("it is added", || {
            let client = match writer.take() {
                Some(client) => Some(client),
                None => Client::try_connect(socket).ok(),
            };
            let Some(mut client) = client else { return false };
            let added = client.try_call(&["SET", key, "1"]).is_ok_and(|reply| reply == Value::ok());
            writer = added.then_some(client);
            added
        });
    };
    never_denied(
        &running,
        MAX_LAG,
        |n| format!("added:{n}"),
        add,
        || {
            server.borrow_mut().kill();
            eventually("it is not trusted", || !running.is_trusted());
            server.borrow_mut().restart();
            eventually("it is trusted", || running.is_trusted());
            // Stopped without a word, and woken before anybody takes it for dead.
            server.borrow().freeze();
            sleep(2 * MAX_LAG);
            assert!(!running.is_trusted());
            server.borrow().wake();
        },
    );
}

/// As long as there are no events, lookups are passed on.
#[test]
fn the_setting_is_needed_and_watched() {
    let server = RedisServer::start();
    let mut direct = server.client();
    let directory = TempDir::new().expect("a directory");
    let open = |configure| {
        redis_following(&server.address(), &options(directory.path()), following(configure))
    };
    let setting = "notify-keyspace-events";
    for (found, advised) in [("", "Engxe"), ("KEA", "g$lshztxeKEn"), ("Egxe", "gxeEn")] {
        direct.call(&["CONFIG", "SET", setting, found]);
        let failure = open(false).err().expect("refused").to_string();
        let command = format!("use redis-cli CONFIG SET {setting} '{advised}', or start");
        assert!(failure.contains(&command), "{failure}");
        direct.call(&["CONFIG", "SET", setting, advised]);
        drop(open(false).expect("it does what it says"));
        direct.call(&["CONFIG", "SET", setting, found]);
        drop(open(true).expect("it may do so itself"));
    }
    direct.call(&["CONFIG", "SET", setting, "Kgxe"]);
    drop(open(true).expect("it may set it"));
    let Value::Array(set) = direct.call(&["CONFIG", "GET", setting]) else { panic!("a setting") };
    assert_eq!(set[1], Value::bulk("gxenKE"));

    let running = open(false).expect("it is set");
    let mut client = running.client();
    eventually("it is trusted", || running.is_trusted());
    direct.call(&["CONFIG", "SET", setting, ""]);
    direct.line("SET unheard 1");
    sleep(MAX_LAG);
    assert_eq!(client.line("GET unheard"), Value::bulk("1"));
    assert!(!running.is_trusted());
    direct.call(&["CONFIG", "SET", setting, "Engxe"]);
    eventually("it is trusted", || running.is_trusted());
    assert_eq!(client.line("GET unheard"), Value::bulk("1"));
    is_forgotten(&server, &mut client, "never");
    // A resync on demand proves nothing about events.
    direct.call(&["CONFIG", "SET", setting, ""]);
    eventually("it is not trusted", || !running.is_trusted());
    running.resync().expect("it runs");
    assert!(!running.is_trusted());
}

#[test]
fn commands_that_tell_nothing_are_noticed() {
    let server = RedisServer::start();
    let mut direct = server.client();
    let words = |from: u32| {
        let pairs = (from..from + 500).flat_map(|n| [format!("key:{n}"), "v".into()]);
        std::iter::once("MSET".into()).chain(pairs).collect::<Vec<String>>()
    };
    direct.call(&words(0));
    let directory = TempDir::new().expect("a directory");
    let running = followed(&server, &directory);
    let mut client = running.client();
    assert_eq!(client.line("DBSIZE"), Value::Integer(500));
    for flush in ["FLUSHDB", "FLUSHALL", "FLUSHDB ASYNC"] {
        direct.line(flush);
        eventually("it is forgotten", || client.line("DBSIZE") == Value::Integer(0));
        is_forgotten(&server, &mut client, "key:7");
        direct.call(&words(0));
        sleep(MAX_LAG);
        assert_eq!(client.line("GET key:7"), Value::bulk("v"), "{flush}");
    }

    // As many keys as before, and none of them told of.
    direct.line("SELECT 1");
    direct.call(&words(1000));
    direct.line("SWAPDB 0 1");
    direct.line("SELECT 0");
    sleep(MAX_LAG);
    assert_eq!(client.line("GET key:1007"), Value::bulk("v"));
    eventually("it is trusted", || running.is_trusted());
    assert_eq!(client.line("GET key:1007"), Value::bulk("v"));
    is_forgotten(&server, &mut client, "key:7");

    // A replica gets the keys of its master without telling.
    let master = RedisServer::start();
    master.client().call(&words(2000));
    let port = master.client().stream.get_ref().peer_addr().expect("an address").port();
    direct.line(&format!("REPLICAOF 127.0.0.1 {port}"));
    eventually("it is in sync", || direct.line("EXISTS key:2007") == Value::Integer(1));
    sleep(MAX_LAG);
    assert_eq!(client.line("GET key:2007"), Value::bulk("v"));
    assert!(!running.is_trusted());
    running.stop();
    let failure = redis_following(&server.address(), &options(directory.path()), following(false));
    let failure = failure.err().expect("refused").to_string();
    assert!(failure.contains("is a replica"), "{failure}");
}
