//! Clients that want all memory: the process stays below its limits, and others are
//! answered.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Value, request};
use crate::process::Process;

const CONNECTIONS: usize = 50;

/// What the server is told, in MiB.
const MEMORY_OF_CLIENTS: u64 = 64;
const REPLY: u64 = 32;

/// A stored value, in MiB: the largest that is allowed.
const VALUE: u64 = 16;

/// What the process may take beside `--max-memory-clients`, in MiB:
/// 64 KiB for each connection: 4;
/// two threads that each have a value of the store, in a page of twice its size: 64;
/// parts of freed memory that the allocator keeps: a quarter of what the clients have.
const BESIDE: u64 = 4 + 64 + MEMORY_OF_CLIENTS / 4;

/// How long another client waits at most. Without limits it was seconds on an idle
/// machine; this one may be busy.
const PATIENCE: Duration = Duration::from_secs(20);

/// An attack: what each connection sends.
fn attacks() -> Vec<(&'static str, Vec<u8>)> {
    let mut names = vec!["COMMAND", "INFO"];
    names.resize(100_000, "get");
    let mut promised = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16777216\r\n".to_vec();
    promised.resize(8 << 20, b'x');
    let mut many = vec!["EXISTS"];
    many.resize(300_000, "");
    vec![
        ("GETs", request(&["GET", "large:0"]).repeat(16)),
        ("MGETs", request(&["MGET", "large:0", "nothing"]).repeat(16)),
        ("one MGET", request(&["MGET", "large:0", "large:1", "large:2", "large:3"])),
        ("COMMAND INFO", request(&names).repeat(2)),
        ("half of a request", promised),
        ("many arguments", request(&many)),
        ("ECHO", request(&["ECHO", &"x".repeat(4 << 20)]).repeat(2)),
        ("small replies", request(&["TS.STATS"]).repeat(50_000)),
    ]
}

#[test]
fn greedy_clients_do_not_take_all_memory() {
    let directory = TempDir::new().expect("a directory");
    let flags = format!(
        "--durability process --max-memory-clients {MEMORY_OF_CLIENTS} --max-reply {REPLY}"
    );
    {
        let server = Process::start(directory.path(), "--durability process");
        let value = vec![b'v'; (VALUE as usize) << 20];
        for key in 0..4 {
            let stored =
                server.client().call(&[&b"SET"[..], format!("large:{key}").as_bytes(), &value]);
            assert_eq!(stored, Value::ok());
        }
        assert_eq!(server.client().line("SET small value"), Value::ok());
        server.stop("TERM");
    }
    for (what, bytes) in attacks() {
        // One for each: the most that a process has ever taken is not forgotten.
        let server = Process::start_on(directory.path(), &flags, 2);
        let mut other = server.client();
        for key in 0..4 {
            // The store's cache is full then.
            assert!(matches!(other.line(&format!("GET large:{key}")), Value::Bulk(_)));
        }
        let before = server.peak();
        let sockets: Vec<TcpStream> = thread::scope(|scope| {
            let attackers: Vec<_> =
                (0..CONNECTIONS).map(|_| scope.spawn(|| attack(&server, &bytes))).collect();
            let begin = Instant::now();
            while attackers.iter().any(|attacker| !attacker.is_finished()) {
                answered(&server, what);
                assert!(begin.elapsed() < Duration::from_secs(120), "{what}: it takes for ever");
            }
            attackers.into_iter().map(|attacker| attacker.join().expect("no panic")).collect()
        });
        answered(&server, what);
        let peak = server.peak();
        println!("{what}: {before} MiB before, {peak} MiB at most");
        assert!(
            peak <= before + MEMORY_OF_CLIENTS + BESIDE,
            "{what}: {before} MiB before, then {peak} MiB"
        );
        drop(sockets);
        // All of it is given back.
        let begin = Instant::now();
        while other.line("INFO clients") != Value::Nil {
            let Value::Bulk(info) = other.line("INFO clients") else { panic!("a text") };
            if String::from_utf8_lossy(&info).contains("clients_memory_bytes:0\r\n") {
                break;
            }
            assert!(begin.elapsed() < PATIENCE, "{what}: {}", String::from_utf8_lossy(&info));
            thread::sleep(Duration::from_millis(20));
        }
        assert!(matches!(other.line("GET large:0"), Value::Bulk(_)), "{what}");
    }
}

/// Sends, and reads nothing.
fn attack(server: &Process, bytes: &[u8]) -> TcpStream {
    let mut socket = TcpStream::connect(server.address).expect("it listens");
    socket.set_write_timeout(Some(Duration::from_millis(500))).expect("it can");
    // It need not take all.
    let _ = socket.write_all(bytes);
    // It has begun to answer, or will not: the attack is on.
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("it can");
    let _ = socket.read(&mut [0]);
    socket
}

/// Another client is answered.
fn answered(server: &Process, what: &str) {
    let begin = Instant::now();
    let mut client = server.client();
    assert_eq!(client.line("PING"), Value::Simple("PONG".into()), "{what}");
    assert_eq!(client.line("GET small"), Value::bulk("value"), "{what}");
    let took = begin.elapsed();
    assert!(took < PATIENCE, "{what}: another client waited for {took:?}");
}
