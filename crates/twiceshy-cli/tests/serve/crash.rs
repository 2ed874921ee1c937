//! SIGKILL under load: what was answered "OK" is there.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tempfile::TempDir;

use crate::client::{Client, Value};
use crate::process::{Process, Random};
use crate::upstreams::eventually;

/// What a client knows of its own keys.
#[derive(Default)]
struct Known {
    /// By the answers.
    records: HashMap<String, Option<String>>,
    /// Keys of requests that had no answer when the server died, and what they
    /// would have become.
    unanswered: Vec<(String, Option<String>)>,
}

const CLIENTS: u64 = 6;

/// Writes and removes keys, in pipelines, until the server is gone.
fn write(
    address: SocketAddr,
    client: u64,
    known: &mut Known,
    random: &mut Random,
    answers: &AtomicUsize,
) -> io::Result<()> {
    let mut connection = Client::try_connect(address)?;
    loop {
        let changes: Vec<(String, Option<String>)> = (0..1 + random.below(30))
            .map(|_| {
                let key = format!("{client}:{}", random.below(2000));
                let value = (random.below(5) > 0).then(|| random.below(1 << 40).to_string());
                (key, value)
            })
            .collect();
        let requests: Vec<Vec<Vec<u8>>> = changes
            .iter()
            .map(|(key, value)| match value {
                Some(value) => vec![b"SET".to_vec(), key.clone().into(), value.clone().into()],
                None => vec![b"DEL".to_vec(), key.clone().into()],
            })
            .collect();
        let bytes: Vec<u8> =
            requests.iter().flat_map(|words| crate::client::request(words)).collect();
        known.unanswered = changes.clone();
        connection.send(&bytes)?;
        for (key, value) in changes {
            let reply = connection.receive()?;
            assert!(matches!(reply, Value::Simple(_) | Value::Integer(_)), "{reply:?}");
            known.records.insert(key, value);
            known.unanswered.remove(0);
            answers.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Every key has what was answered last, or what was asked for and not answered.
fn verify(address: SocketAddr, known: &mut Known) {
    let mut client = Client::connect(address);
    for (key, value) in &mut known.records {
        let found = match client.call(&["GET", key]) {
            Value::Nil => None,
            Value::Bulk(bytes) => Some(String::from_utf8(bytes).expect("text")),
            other => panic!("{other:?}"),
        };
        let unanswered =
            known.unanswered.iter().any(|(other, wanted)| other == key && *wanted == found);
        assert!(found == *value || unanswered, "{key}: {found:?} instead of {value:?}");
        *value = found;
    }
    known.unanswered.clear();
}

/// Each round it dies when so many answers have come, in the middle of others.
fn killed_under_load(flags: &str, rounds: u64, load: usize) {
    let directory = TempDir::new().expect("a directory");
    let mut known: Vec<Known> = (0..CLIENTS).map(|_| Known::default()).collect();
    for round in 0..rounds {
        let server = Process::start(directory.path(), flags);
        let address = server.address;
        known.iter_mut().for_each(|known| verify(address, known));
        let answers = &AtomicUsize::new(0);
        thread::scope(|scope| {
            // If this fails the server dies with it, and so do its clients.
            let mut server = server;
            for (known, client) in known.iter_mut().zip(0..) {
                let mut random = Random(round * CLIENTS + client);
                scope.spawn(move || {
                    write(address, client, known, &mut random, answers).expect_err("its end")
                });
            }
            eventually("there is a load", || answers.load(Ordering::Relaxed) >= load);
            server.kill();
        });
    }
    let server = Process::start(directory.path(), flags);
    known.iter_mut().for_each(|known| verify(server.address, known));
    let stored = known.iter().flat_map(|known| known.records.values()).flatten().count();
    // Keys of requests without an answer may be there as well.
    let counted = server.client().line("DBSIZE").integer();
    assert!(counted >= i64::try_from(stored).expect("small"), "{counted} of {stored}");
}

#[test]
fn what_was_answered_survives_sigkill() {
    killed_under_load("--durability process", 3, 5000);
}

#[test]
fn what_was_answered_survives_sigkill_with_a_waiting_disk() {
    killed_under_load("--durability power", 2, 500);
}
