//! Mixed load for as long as TWICESHY_SOAK_SECONDS says, against an oracle.

use std::collections::HashMap;
use std::env;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::Value;
use crate::process::{Process, Random};

const DEFAULT_SECONDS: u64 = 5;
const CLIENTS: u64 = 4;
/// Keys of each client; about half of them are stored at any time.
const KEYS: u64 = 20_000;

#[test]
fn soak() {
    let seconds = env::var("TWICESHY_SOAK_SECONDS").map_or(DEFAULT_SECONDS, |text| {
        text.parse().expect("TWICESHY_SOAK_SECONDS is a whole number of seconds")
    });
    let directory = TempDir::new().expect("a directory");
    let server = Process::start(directory.path(), "--durability process");
    let begin = Instant::now();
    let end = begin + Duration::from_secs(seconds);
    let address = server.address;
    let (asked, memory) = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let server = &server;
                scope.spawn(move || converse(server, client, end))
            })
            .collect();
        // How memory grows: the first third is for warming up.
        thread::sleep(Duration::from_secs(seconds) / 3);
        let warm = server.mebibytes();
        let asked: u64 = clients.into_iter().map(|client| client.join().expect("right")).sum();
        (asked, (warm, server.mebibytes()))
    });
    let stats = server.client().line("TS.STATS");
    let count = |name: &str| stats.field(name).integer();
    let (keys, avoided) = (count("keys"), count("reads_avoided"));
    println!(
        "soak of {seconds} s at {address}: {asked} requests ({}/s), {keys} keys, {avoided} answered \
         from memory, {} false positives, {} store reads, p99 of a miss {} us, {} MiB warm, {} at the end",
        asked / seconds.max(1),
        count("false_positives"),
        count("store_reads"),
        count("miss_p99_nanoseconds") / 1000,
        memory.0,
        memory.1,
    );
    assert!(avoided > 0 && keys > 0);
    assert!(memory.1 < memory.0 + 64, "{} MiB, then {}", memory.0, memory.1);
    let (status, log) = server.stop("TERM");
    assert_eq!(status.code(), Some(0), "{log}");
}

/// Asks for and changes keys of its own until the end; every answer is compared.
fn converse(server: &Process, client: u64, end: Instant) -> u64 {
    let mut connection = server.client();
    let mut random = Random(client);
    let mut oracle: HashMap<Vec<u8>, Vec<u8>> = HashMap::new();
    let mut asked = 0;
    while Instant::now() < end {
        let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
        for _ in 0..1 + random.below(64) {
            let key = |random: &mut Random| format!("{client}:{}", random.below(KEYS)).into_bytes();
            requests.push(match random.below(20) {
                0..2 => {
                    let value = vec![b'v'; usize::try_from(random.below(200)).expect("small")];
                    vec![b"SET".to_vec(), key(&mut random), value]
                }
                2 => vec![b"DEL".to_vec(), key(&mut random)],
                3 => vec![b"MGET".to_vec(), key(&mut random), key(&mut random)],
                // The same few that are never there, again and again.
                4..12 => {
                    let missing = format!("missing:{}", random.below(5000)).into_bytes();
                    vec![b"GET".to_vec(), missing]
                }
                _ => vec![b"GET".to_vec(), key(&mut random)],
            });
        }
        let replies = connection.pipeline(&requests).expect("replies");
        asked += requests.len() as u64;
        for (words, reply) in requests.into_iter().zip(replies) {
            let stored = |key: &Vec<u8>| oracle.get(key).map_or(Value::Nil, Value::bulk);
            let expected = match &words[0][..] {
                b"GET" => stored(&words[1]),
                b"MGET" => Value::Array(words[1..].iter().map(stored).collect()),
                b"DEL" => Value::Integer(i64::from(oracle.remove(&words[1]).is_some())),
                _ => {
                    oracle.insert(words[1].clone(), words[2].clone());
                    Value::ok()
                }
            };
            assert_eq!(reply, expected, "{:?}", words[1].escape_ascii().to_string());
        }
    }
    asked
}
