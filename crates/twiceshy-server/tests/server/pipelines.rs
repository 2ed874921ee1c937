//! Requests that come together, against an oracle.

use std::collections::HashMap;
use std::thread;

use crate::client::{Client, Value, request};
use crate::harness::start;

/// A small generator with a seed, for requests.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        // SplitMix64; the remainder's bias does not matter here.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ z >> 31) % end as u64).expect("below a usize")
    }
}

type Words = Vec<Vec<u8>>;

/// What a store answers, done the slow and obvious way.
#[derive(Default)]
struct Oracle(HashMap<Vec<u8>, Vec<u8>>);

impl Oracle {
    fn answer(&mut self, words: &Words) -> Value {
        let value = |value: Option<&Vec<u8>>| value.map_or(Value::Nil, Value::bulk);
        let count = |count: usize| Value::Integer(i64::try_from(count).expect("small"));
        let rest = &words[1..];
        match &words[0][..] {
            b"GET" => value(self.0.get(&rest[0])),
            b"SET" | b"MSET" => {
                for record in rest.chunks(2) {
                    self.0.insert(record[0].clone(), record[1].clone());
                }
                Value::ok()
            }
            b"MGET" => Value::Array(rest.iter().map(|key| value(self.0.get(key))).collect()),
            b"EXISTS" => count(rest.iter().filter(|key| self.0.contains_key(*key)).count()),
            b"DEL" => count(rest.iter().filter(|key| self.0.remove(*key).is_some()).count()),
            b"DBSIZE" => count(self.0.len()),
            b"ECHO" => Value::bulk(&rest[0]),
            b"NOSUCH" => {
                Value::Error("ERR unknown command 'NOSUCH', with args beginning with: ".into())
            }
            other => panic!("{other:?}"),
        }
    }
}

fn random_request(random: &mut Random, prefix: &str) -> Words {
    // In runs, as clients send them, so that rows of every length are met.
    let key = |random: &mut Random| format!("{prefix}{}", random.below(300)).into_bytes();
    let value = |random: &mut Random| vec![b'v'; random.below(40)];
    let name = |name: &str| name.as_bytes().to_vec();
    match random.below(100) {
        0..50 => vec![name("GET"), key(random)],
        50..75 => vec![name("SET"), key(random), value(random)],
        75..82 => vec![name("DEL"), key(random), key(random)],
        82..88 => vec![name("EXISTS"), key(random), key(random)],
        88..93 => {
            let keys = 1 + random.below(150);
            std::iter::once(name("MGET")).chain((0..keys).map(|_| key(random))).collect()
        }
        93..96 => vec![name("MSET"), key(random), value(random), key(random), value(random)],
        96..98 => vec![name("ECHO"), value(random)],
        _ => vec![name("NOSUCH")],
    }
}

/// Pipelines of all lengths in pieces of all sizes give what one request at a
/// time would give.
#[test]
fn pipelines_answer_as_one_request_at_a_time() {
    let server = start();
    let mut random = Random::new(1);
    let mut oracle = Oracle::default();
    let mut client = server.client();
    for round in 0..150 {
        let length = [1, 2, 10, 200][round % 4];
        let mut requests: Vec<Words> = Vec::new();
        while requests.len() < length {
            let request = random_request(&mut random, "");
            let repeated = 1 + random.below(3) * random.below(100);
            requests.extend(std::iter::repeat_n(request, repeated));
        }
        requests.push(vec![b"DBSIZE".to_vec()]);
        let bytes: Vec<u8> = requests.iter().flat_map(|words| request(words)).collect();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(1 + random.below(rest.len()));
            client.send(piece).expect("it reads");
            rest = later;
        }
        for (index, words) in requests.iter().enumerate() {
            let expected = oracle.answer(words);
            assert_eq!(client.receive().expect("a reply"), expected, "round {round}, {index}");
        }
    }
    assert!(!oracle.0.is_empty(), "the test is about something");
}

#[test]
fn clients_see_their_own_writes_at_once() {
    let server = start();
    thread::scope(|scope| {
        for thread in 0..8 {
            let mut client = server.client();
            scope.spawn(move || {
                let mut random = Random::new(100 + thread);
                let mut oracle = Oracle::default();
                for _ in 0..60 {
                    let requests: Vec<Words> = (0..1 + random.below(40))
                        .map(|_| random_request(&mut random, &format!("{thread}:")))
                        .collect();
                    let replies = client.pipeline(&requests).expect("replies");
                    for (words, reply) in requests.iter().zip(replies) {
                        assert_eq!(reply, oracle.answer(words));
                    }
                }
            });
        }
    });
}

/// As redis-py does: all of a long pipeline is sent before anything is read.
/// Requests and replies of 30 MB each are more than the system keeps for sockets.
#[test]
fn a_long_pipeline_may_be_read_late() {
    let server = start();
    let mut client = server.client();
    let (key, value) = ([b'k'; 200], [b'v'; 200]);
    client.call(&[&b"SET"[..], &key, &value]);
    let get = request(&[&b"GET"[..], &key]);
    let count = 150_000;
    client.send(&get.repeat(count)).expect("it reads on");
    for _ in 0..count {
        assert_eq!(client.receive().expect("a reply"), Value::bulk(value));
    }
}

#[test]
fn requests_before_the_end_are_answered() {
    let mut server = start();
    // The client ends its half of the connection.
    let mut client = server.client();
    client.send(b"SET k v\r\nGET k\r\n").expect("it reads");
    client.stream.get_ref().shutdown(std::net::Shutdown::Write).expect("it is open");
    assert_eq!(client.receive().expect("a reply"), Value::ok());
    assert_eq!(client.receive().expect("a reply"), Value::bulk("v"));
    assert!(client.receive().is_err());
    // Nothing after QUIT is done.
    let mut client = server.client();
    client.send(b"QUIT\r\nSET k w\r\n").expect("it reads");
    assert_eq!(client.receive().expect("a reply"), Value::ok());
    assert!(client.receive().is_err());
    assert_eq!(server.client().line("GET k"), Value::bulk("v"));
    // The server ends.
    let mut idle = server.client();
    assert_eq!(idle.line("PING"), Value::Simple("PONG".into()));
    server.stop();
    assert!(idle.receive().is_err());
    assert!(Client::try_connect(server.address).is_err());
}

/// Or a client would report a transaction as failed whose commands were executed.
#[test]
fn nothing_of_a_transaction_is_executed() {
    let server = start();
    let mut client = server.client();
    let pipeline = |client: &mut Client, lines: &[&str]| {
        let words = |line: &&str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        client.pipeline(&lines.iter().map(words).collect::<Vec<Vec<_>>>()).expect("replies")
    };
    let lines = ["SET k 1", "MULTI", "SET k 2", "GET k", "PING", "NOSUCH", "EXEC", "GET k"];
    let replies = pipeline(&mut client, &lines);
    assert_eq!(replies[0], Value::ok());
    assert!(replies[1].error().starts_with("ERR MULTI is not supported"), "{replies:?}");
    for reply in &replies[2..5] {
        assert!(reply.error().starts_with("ERR not executed: it follows a MULTI"), "{replies:?}");
    }
    assert!(replies[5].error().starts_with("ERR unknown command"), "{replies:?}");
    assert!(replies[6].error().starts_with("EXECABORT MULTI is not supported"), "{replies:?}");
    assert_eq!(replies[7], Value::bulk("1"));

    let replies = pipeline(&mut client, &["MULTI", "SET k 2", "DISCARD", "DEL k", "EXEC"]);
    assert_eq!(replies[2..4], [Value::ok(), Value::Integer(1)]);
    assert_eq!(replies[4].error(), "ERR EXEC without MULTI");
    assert_eq!(client.line("DISCARD").error(), "ERR DISCARD without MULTI");
    // It ends with its connection.
    pipeline(&mut client, &["MULTI", "QUIT"]);
    assert!(client.receive().is_err());
    assert_eq!(server.client().line("SET k 3"), Value::ok());
}

#[test]
fn what_only_redis_does_is_refused_with_the_reason() {
    let server = start();
    let mut client = server.client();
    let refused = client.line("SET k v EX 10");
    assert!(refused.error().contains("SET with options is for a filter in front of Redis"));
    for line in ["SETNX k v", "SETEX k 1 v", "INCR k", "GETDEL k", "UNLINK k", "TTL k", "TYPE k"] {
        let refused = client.line(line);
        let name = line.split(' ').next().expect("a name");
        let said = format!("ERR {name} is for a filter in front of Redis (--store redis://...)");
        assert!(refused.error().starts_with(&said), "{refused:?}");
    }
    assert_eq!(client.line("DBSIZE"), Value::Integer(0));
}
