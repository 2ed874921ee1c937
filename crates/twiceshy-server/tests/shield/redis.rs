//! In front of Redis.

use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Client, Value};
use crate::harness::{Running, options, redis};
use crate::upstreams::RedisServer;

fn false_positives(running: &Running) -> i64 {
    running.client().line("TS.STATS").field("false_positives").integer()
}

#[test]
fn a_shield_that_is_written_through() {
    let server = RedisServer::start();
    let mut direct = server.client();
    for n in 0..20 {
        let mut words = vec!["MSET".to_string()];
        words.extend((0..1000).flat_map(|m| [format!("key {}", n * 1000 + m), "v".into()]));
        assert_eq!(direct.call(&words), Value::ok());
    }
    direct.line("RPUSH list a b");
    direct.call(&[&b"SET"[..], b"\x00\xff", b"bytes\r\n"]);
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let mut client = running.client();
    assert_eq!(client.line("DBSIZE"), Value::Integer(20_002));
    assert_eq!(client.call(&[&b"GET"[..], b"\x00\xff"]), Value::bulk("bytes\r\n"));
    for n in (0..20_000).step_by(7) {
        assert_eq!(client.call(&["GET", &format!("key {n}")]), Value::bulk("v"));
    }

    // Types that GET does not read: in the server's own words, also in a pipeline.
    let wrong = direct.line("GET list");
    assert!(wrong.error().starts_with("WRONGTYPE "));
    assert_eq!(client.line("GET list"), wrong);
    assert_eq!(client.line("EXISTS list nothing list"), Value::Integer(2));
    let gets: Vec<Vec<Vec<u8>>> =
        ["key 1", "list", "nothing"].map(|key| vec![b"GET".to_vec(), key.into()]).to_vec();
    let replies = client.pipeline(&gets).expect("replies");
    assert_eq!(replies, [Value::bulk("v"), wrong.clone(), Value::Nil]);
    // MGET has a nil for them, and takes them for absent no more than Redis does.
    let mget = ["MGET", "list", "key 1", "nothing", "list"];
    assert_eq!(client.call(&mget), direct.call(&mget));
    let values = vec![Value::Nil, Value::bulk("v"), Value::Nil, Value::Nil];
    assert_eq!(client.call(&mget), Value::Array(values));
    assert_eq!(client.line("EXISTS list"), Value::Integer(1));
    assert_eq!(client.line("GET list"), wrong);

    // Misses: at most 1/256 of 20,000, 78, and seven deviations of 9; then hardly any.
    // With 20,000 keys in room for 65,536 it is a third of that, and 0 has 1e-11.
    let before = server.calls("get");
    let ask = |client: &mut Client| {
        for n in (20_000..40_000).collect::<Vec<u32>>().chunks(100) {
            let gets: Vec<_> =
                n.iter().map(|n| vec![b"GET".to_vec(), format!("key {n}").into()]).collect();
            let replies = client.pipeline(&gets).expect("replies");
            assert!(replies.iter().all(|reply| *reply == Value::Nil));
        }
    };
    ask(&mut client);
    let first = server.calls("get") - before;
    assert!((1..140).contains(&first), "{first}");
    ask(&mut client);
    let second = server.calls("get") - before - first;
    assert!(second < 25, "{second}");
    assert!(false_positives(&running) >= i64::try_from(first).expect("few"));

    // Written through.
    assert_eq!(client.line("SET new 1"), Value::ok());
    assert_eq!(direct.line("GET new"), Value::bulk("1"));
    assert_eq!(client.line("MSET new 2 newer 3"), Value::ok());
    assert_eq!(client.line("GET newer"), Value::bulk("3"));
    assert_eq!(client.line("DBSIZE"), Value::Integer(20_004));
    assert_eq!(client.line("DEL new nothing list"), Value::Integer(2));
    assert_eq!(direct.line("EXISTS new list"), Value::Integer(0));
    assert_eq!(client.line("DBSIZE"), Value::Integer(20_002));
    assert_eq!(client.line("GET new"), Value::Nil);
    // What the server refuses is refused in its words.
    direct.line("CONFIG SET maxmemory 1");
    let full = client.line("SET more 1");
    assert!(full.error().starts_with("OOM "), "{full:?}");
    direct.line("CONFIG SET maxmemory 0");

    // Behind its back.
    direct.line("SET secret 1");
    direct.line("DEL newer");
    let resynced = running.resync().expect("it runs");
    assert_eq!(resynced.added, 1);
    assert_eq!(client.line("GET secret"), Value::bulk("1"));
    running.stop();

    let elsewhere = server.address().replace("/0", "/1");
    let failure = redis(&elsewhere, &options(directory.path())).err().expect("refused");
    assert!(failure.to_string().contains("/0, not of redis://"), "{failure}");
}

#[test]
fn what_cannot_be_served_is_refused_with_the_reason() {
    let failure = redis("http://localhost", &options("unused".as_ref())).err().expect("refused");
    assert!(failure.to_string().contains("expected redis://"), "{failure}");
    let failure = redis("redis://127.0.0.1:1", &options("unused".as_ref())).err().expect("down");
    assert!(failure.to_string().starts_with("the store is down: 127.0.0.1:1: "), "{failure}");
    assert!(!std::path::Path::new("unused").exists());
}

/// Each thread has keys of its own, which it alone knows, and keys that all fight
/// for; the filter is resynced all the while. What was acknowledged and is nobody
/// else's has to be there.
#[test]
fn nothing_that_was_acknowledged_is_denied() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..4_u32)
            .map(|thread| {
                let address = running.address;
                scope.spawn(move || {
                    let mut client = Client::connect(address);
                    let mut mine: HashMap<String, String> = HashMap::new();
                    let mut random = u64::from(thread) + 1;
                    for turn in 0..3000 {
                        // Numerical Recipes' generator: any will do.
                        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let number = (random >> 33) % 40;
                        let key = format!("{thread}:{number}");
                        let value = turn.to_string();
                        match (random >> 50) % 5 {
                            0 | 1 => {
                                assert_eq!(client.call(&["SET", &key, &value]), Value::ok());
                                mine.insert(key, value);
                            }
                            2 => {
                                let count = i64::from(mine.remove(&key).is_some());
                                assert_eq!(client.call(&["DEL", &key]), Value::Integer(count));
                            }
                            3 => {
                                let verb = if random >> 60 & 1 == 0 { "SET" } else { "DEL" };
                                let shared = format!("shared:{}", number % 4);
                                let words = [verb, &shared, &value];
                                client.call(if verb == "SET" { &words } else { &words[..2] });
                            }
                            _ => {
                                let expected = mine.get(&key).map_or(Value::Nil, Value::bulk);
                                assert_eq!(client.call(&["GET", &key]), expected, "{key}");
                            }
                        }
                    }
                    for (key, value) in mine {
                        assert_eq!(client.call(&["GET", &key]), Value::bulk(value), "{key}");
                    }
                })
            })
            .collect();
        let resyncs = scope.spawn(|| {
            let mut resyncs = 0;
            while !done.load(Ordering::Relaxed) {
                running.resync().expect("it runs");
                resyncs += 1;
            }
            resyncs
        });
        let outcomes: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        assert!(resyncs.join().expect("no panic") > 1);
        outcomes.into_iter().for_each(|outcome| outcome.expect("no panic"));
    });
    // What all fought for is as in the store.
    let (mut client, mut direct) = (running.client(), server.client());
    for n in 0..4 {
        let key = format!("shared:{n}");
        assert_eq!(client.call(&["GET", &key]), direct.call(&["GET", &key]), "{key}");
    }
}

/// SET and DEL of one key at the same moment: whichever the store does last, the
/// filter must not forget the key after a SET that the store did after the DEL.
#[test]
fn a_key_that_is_set_while_it_is_removed_is_not_denied() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let (mut client, mut direct) = (running.client(), server.client());
    // Often, and until the store has done each of them last.
    let (mut stored, mut removed) = (0, 0);
    let mut begin = Instant::now();
    for round in 0.. {
        if round >= 500 && stored > 0 && removed > 0 {
            break;
        }
        if round == 500 {
            begin = Instant::now();
        }
        let late = round > 500 && begin.elapsed() > Duration::from_secs(60);
        assert!(!late, "{round} rounds: {stored} times SET was last, {removed} times DEL");
        let key = format!("key {round}");
        assert_eq!(client.call(&["SET", &key, "1"]), Value::ok());
        let start = Barrier::new(2);
        thread::scope(|scope| {
            for words in [vec!["SET", &key, "2"], vec!["DEL", &key]] {
                let (mut client, start) = (running.client(), &start);
                scope.spawn(move || {
                    start.wait();
                    client.call(&words);
                });
            }
        });
        let truth = direct.call(&["GET", &key]);
        assert_eq!(client.call(&["GET", &key]), truth, "{key}");
        if truth == Value::Nil {
            removed += 1;
        } else {
            stored += 1;
        }
    }
}
