//! Bad clients: the server goes on, its memory stays bounded.

use std::io::Write as _;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Value, request};
use crate::process::Process;

fn answers(server: &Process) {
    assert_eq!(server.client().line("PING"), Value::Simple("PONG".into()));
}

/// What a connection may take of memory in these tests, beyond what is meant.
const NOISE: u64 = 24;

#[test]
fn lengths_alone_take_no_memory() {
    let directory = TempDir::new().expect("a directory");
    let server = Process::start(directory.path(), "");
    answers(&server);
    let before = server.allocated();
    for (length, said) in [
        ("600000000", "at most 16777216 are allowed (--max-bulk)"),
        ("16777217", "at most 16777216 are allowed (--max-bulk)"),
        ("99999999999999999999", "invalid bulk length"),
    ] {
        let mut client = server.client();
        client
            .send(format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${length}\r\n").as_bytes())
            .expect("sent");
        let error = client.receive().expect("an error");
        let error = error.error();
        assert!(error.starts_with("ERR Protocol error: ") && error.ends_with(said), "{error}");
    }
    // Lengths within the limit: 50 times 16 MiB are promised, and a byte comes.
    let promises: Vec<_> = (0..50)
        .map(|_| {
            let mut client = server.client();
            client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16777216\r\nx").expect("sent");
            client
        })
        .collect();
    answers(&server);
    thread::sleep(Duration::from_millis(200));
    let taken = server.allocated().saturating_sub(before);
    assert!(taken < NOISE, "{taken} MiB for promises");
    drop(promises);
    answers(&server);
}

/// Five clients ask for 4 GiB each and read nothing.
#[test]
fn clients_that_do_not_read_take_bounded_memory() {
    let directory = TempDir::new().expect("a directory");
    let server = Process::start(directory.path(), "--max-reply 4 --idle 3");
    let value = vec![b'x'; 1 << 20];
    assert_eq!(server.client().call(&[&b"SET"[..], b"k", &value]), Value::ok());
    let before = server.mebibytes();
    let gets = request(&["GET", "k"]).repeat(4096);
    let clients: Vec<_> = (0..5)
        .map(|_| {
            let client = server.client();
            let mut socket = client.stream.get_ref();
            socket.set_nonblocking(true).expect("it can");
            let _ = socket.write(&gets);
            client
        })
        .collect();
    let mut most = 0;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(2) {
        most = most.max(server.mebibytes());
        thread::sleep(Duration::from_millis(20));
    }
    // Each may have 4 MiB of replies and the 64 values of one more look-up, twice:
    // as values and as bytes to send.
    let taken = most.saturating_sub(before);
    assert!(taken < 5 * (4 + 2 * 64) + NOISE, "{taken} MiB");
    answers(&server);
    // They are left after three seconds.
    let begin = Instant::now();
    let mut observer = server.client();
    let mut told = String::new();
    while !told.contains("connected_clients:1\r\n") {
        assert!(begin.elapsed() < Duration::from_secs(20), "{told}");
        thread::sleep(Duration::from_millis(50));
        let Value::Bulk(info) = observer.line("INFO clients") else { panic!("a text") };
        told = String::from_utf8(info).expect("text");
    }
    drop(clients);
}

#[test]
fn ten_thousand_connections_come_and_go() {
    let directory = TempDir::new().expect("a directory");
    let server = Process::start(directory.path(), "");
    answers(&server);
    let (memory, files) = (server.mebibytes(), server.files());
    let address = server.address;
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                for number in 0..2500 {
                    let mut socket = TcpStream::connect(address).expect("it listens");
                    // Some say nothing, some half of something, some go at once.
                    let said: &[u8] = [&b""[..], b"*2\r\n$3\r\nGET\r\n$5\r\nab", b"PING\r\n"]
                        [(number + thread) % 3];
                    let _ = socket.write_all(said);
                }
            });
        }
    });
    let begin = Instant::now();
    while server.files() > files {
        assert!(begin.elapsed() < Duration::from_secs(20), "{} files are open", server.files());
        thread::sleep(Duration::from_millis(20));
    }
    answers(&server);
    let taken = server.mebibytes().saturating_sub(memory);
    assert!(taken < NOISE, "{taken} MiB are left of them");
    let (status, _) = server.stop("TERM");
    assert_eq!(status.code(), Some(0));
}
