//! Values of all sizes: small ones come together, large ones one by one, and none before
//! there is room for it.

use tempfile::TempDir;

use crate::client::{Client, Value, request};
use crate::harness::{Running, options, postgres, redis, table};
use crate::upstreams::{PostgresServer, RedisServer, eventually};

/// Sizes of the values of keys 0, 1, 2...: empty and tiny ones; what is about a part of
/// the mebibyte that 64 keys share, or that one has; and more.
const SIZES: [usize; 12] =
    [0, 1, 2, 100, 16_383, 16_384, 16_385, 100_000, 1 << 20, (1 << 20) + 1, 3 << 20, 9];

fn value(key: usize) -> Vec<u8> {
    vec![b'a' + key as u8; SIZES[key]]
}

/// What GET has to say of a key; beyond the sizes there are none.
fn expected(key: usize) -> Value {
    if key < SIZES.len() { Value::Bulk(value(key)) } else { Value::Nil }
}

fn all_come(running: &Running) {
    let mut client = running.client();
    // Rows of 64, in which each size is the first, the last, and beside every other.
    let keys: Vec<usize> = (0..260).map(|index| (index * 5 + index / 13) % 14).collect();
    for round in 0..2 {
        for row in keys.chunks(1 + round * 129) {
            let gets = row.iter().flat_map(|key| request(&["GET", &key.to_string()]));
            client.send(&gets.collect::<Vec<u8>>()).expect("it reads");
            for &key in row {
                assert!(client.receive().expect("a reply") == expected(key), "key {key}");
            }
        }
    }
    let mut words = vec!["MGET".to_string()];
    words.extend((0..70).map(|index| (index % 14).to_string()));
    let Value::Array(values) = client.call(&words) else { panic!("an array") };
    assert_eq!(values.len(), 70);
    for (index, found) in values.iter().enumerate() {
        assert!(*found == expected(index % 14), "MGET of key {}", index % 14);
    }
}

#[test]
fn from_redis() {
    let server = RedisServer::start();
    let mut direct = server.client();
    for key in 0..SIZES.len() {
        direct.call(&[&b"SET"[..], key.to_string().as_bytes(), &value(key)]);
    }
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    all_come(&running);

    // A client that asks for 512 MiB and reads nothing: no more is fetched than may wait
    // for it, 64 MiB, and what the system keeps for its socket.
    direct.call(&[&b"SET"[..], b"large", &vec![b'x'; 8 << 20]]);
    assert!(matches!(running.client().line("TS.ADDED large"), Value::Integer(_)));
    let before = sent(&mut direct);
    let mut greedy = running.client();
    greedy.send(&request(&["GET", "large"]).repeat(64)).expect("it reads");
    const LEAST: u64 = 60 << 20;
    let mut last = 0;
    eventually("nothing more is fetched", || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let now = sent(&mut direct) - before;
        let same = now >= LEAST && now == last;
        last = now;
        same
    });
    assert!(last < 200 << 20, "{last} bytes were fetched");
    for index in 0..64 {
        assert!(matches!(greedy.receive().expect("a reply"), Value::Bulk(_)), "reply {index}");
    }
}

/// Bytes of values that a Redis has sent, to within its replies to INFO.
fn sent(direct: &mut Client) -> u64 {
    let Value::Bulk(info) = direct.line("INFO stats") else { panic!("a text") };
    let info = String::from_utf8(info).expect("text");
    let line = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    let bytes: u64 = line.expect("it counts").parse().expect("a number");
    // What INFO itself takes is not what this is about.
    bytes & !((1 << 20) - 1)
}

#[test]
fn from_postgres() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE t (k integer PRIMARY KEY, v text);");
    for (key, size) in SIZES.iter().enumerate() {
        let letter = char::from(b'a' + key as u8);
        server.sql(&format!("INSERT INTO t VALUES ({key}, repeat('{letter}', {size}))"));
    }
    let directory = TempDir::new().expect("a directory");
    let table = table(&server.address(), "t", "k", Some("v"));
    let running = postgres(&table, &options(directory.path())).expect("it runs");
    all_come(&running);
}
