//! Clients that want all memory: the process stays below its limits, and others are
//! answered. How long others wait is counted in turns by the tests of the server's
//! sessions.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Client, Value, request};
use crate::process::Process;

const CONNECTIONS: usize = 50;

/// Connections of an attack that is only one if there is memory for the large request of
/// each: one after the other.
const IN_TURN: usize = 16;

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

/// Guards against hanging; says nothing of how long anything may take.
const HANGS: Duration = Duration::from_secs(120);

/// What attackers send, and how.
enum Attack {
    /// Fifty at once, each of which sends this.
    AtOnce(Vec<u8>),
    /// Some one after the other, each of which waits for a reply.
    InTurn(Vec<u8>),
    /// One that reads no reply, and sends this when replies wait for it.
    Unread(Vec<u8>),
    /// Some one after the other that read no reply and send this when replies wait for
    /// them, while half of the memory is taken by others.
    Held(Vec<u8>),
}

fn attacks() -> Vec<(&'static str, Attack)> {
    use Attack::{AtOnce, Held, InTurn, Unread};

    let mut names = vec!["COMMAND", "INFO"];
    names.resize(100_000, "get");
    let mut many = vec!["EXISTS"];
    many.resize(300_000, "");
    let large = request(&["GET", &"k".repeat((VALUE as usize) << 20)]);
    let then = |next: &[u8]| [&large, next].concat();
    let echo = request(&["ECHO", &"e".repeat(16 << 10)]);
    let value = "v".repeat(4 << 20);
    let mset = ["MSET", "a", &value, "b", &value, "c", &value, "d", &value, "e", &value];
    vec![
        ("GETs", AtOnce(request(&["GET", "large:0"]).repeat(64))),
        ("MGETs", AtOnce(request(&["MGET", "large:0", "nothing"]).repeat(16))),
        ("one MGET", AtOnce(request(&["MGET", "large:0", "large:1", "large:2", "large:3"]))),
        ("COMMAND INFO", AtOnce(request(&names).repeat(2))),
        ("half of a request", AtOnce(part_of_a_request(8 << 20))),
        ("many arguments", AtOnce(request(&many))),
        ("ECHO", AtOnce(request(&["ECHO", &"x".repeat(4 << 20)]).repeat(2))),
        ("small replies", AtOnce(request(&["TS.STATS"]).repeat(50_000))),
        ("a small part after a large request", InTurn(then(b"*2\r\n$4\r\nECHO\r\n"))),
        (
            "a part of 17 KiB after a large request",
            InTurn(then(&[b"*2\r\n$17408\r\n", &[b'x'; 17 << 10][..], b"\r\n"].concat())),
        ),
        ("a name after a large request", InTurn(then(&request(&["CLIENT", "SETNAME", "n"])))),
        ("small replies to large requests", Unread(then(&echo).repeat(12))),
        ("requests that wait for room", Held(request(&mset))),
    ]
}

/// So many bytes of one that is longer.
fn part_of_a_request(bytes: usize) -> Vec<u8> {
    let mut promised = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$16777216\r\n".to_vec();
    promised.resize(bytes, b'x');
    promised
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
    for (what, attack) in attacks() {
        // One for each: the most that a process has ever taken is not forgotten.
        let server = Process::start_on(directory.path(), &flags, 2);
        let mut other = server.client();
        for key in 0..4 {
            // The store's cache is full then.
            assert!(matches!(other.line(&format!("GET large:{key}")), Value::Bulk(_)));
        }
        let before = server.peak();
        let sockets: Vec<TcpStream> = thread::scope(|scope| {
            let attackers = match &attack {
                Attack::AtOnce(_) => CONNECTIONS,
                _ => 1,
            };
            let attackers: Vec<_> =
                (0..attackers).map(|_| scope.spawn(|| attack.run(&server))).collect();
            let begin = Instant::now();
            while attackers.iter().any(|attacker| !attacker.is_finished()) {
                answered(&server, what);
                assert!(begin.elapsed() < HANGS, "{what}: it takes for ever");
            }
            attackers.into_iter().flat_map(|attacker| attacker.join().expect("no panic")).collect()
        });
        answered(&server, what);
        let peak = server.peak();
        println!("{what}: {before} MiB before, {peak} MiB at most");
        assert!(
            peak <= before + MEMORY_OF_CLIENTS + BESIDE,
            "{what}: {before} MiB before, then {peak} MiB"
        );
        drop(sockets);
        // All of it is given back once the server has seen that they are gone.
        let begin = Instant::now();
        loop {
            let clients = of_clients(&mut other, "connected_clients");
            let taken = memory_of_clients(&mut other);
            if (clients, taken) == (1, 0) {
                break;
            }
            assert!(begin.elapsed() < HANGS, "{what}: {clients} clients still take {taken} bytes");
            thread::sleep(Duration::from_millis(20));
        }
        let value = other.line("GET large:0");
        assert!(matches!(value, Value::Bulk(_)), "{what}: {value:?}");
    }
}

impl Attack {
    /// Returns the connections, which are to stay open.
    fn run(&self, server: &Process) -> Vec<TcpStream> {
        match self {
            Attack::AtOnce(bytes) => {
                let mut socket = connect(server);
                // It need not take all.
                let _ = socket.write_all(bytes);
                // It has begun to answer, or will not: the attack is on.
                let _ = socket.read(&mut [0]);
                vec![socket]
            }
            Attack::InTurn(bytes) => {
                let one = |_| {
                    let mut socket = connect(server);
                    let _ = socket.write_all(bytes);
                    let _ = socket.read(&mut [0; 64]);
                    socket
                };
                (0..IN_TURN).map(one).collect()
            }
            Attack::Unread(bytes) => {
                let mut socket = stalled(server);
                let _ = socket.write_all(bytes);
                vec![socket]
            }
            Attack::Held(bytes) => {
                let mut sockets: Vec<_> = (0..2).map(|_| connect(server)).collect();
                for socket in &mut sockets {
                    let _ = socket.write_all(&part_of_a_request(15 << 20));
                }
                for _ in 0..IN_TURN {
                    let mut socket = stalled(server);
                    let _ = socket.write_all(bytes);
                    // It has been read, and waits.
                    thread::sleep(Duration::from_millis(100));
                    sockets.push(socket);
                }
                sockets
            }
        }
    }
}

fn connect(server: &Process) -> TcpStream {
    let socket = TcpStream::connect(server.address).expect("it listens");
    socket.set_write_timeout(Some(Duration::from_millis(500))).expect("it can");
    socket.set_read_timeout(Some(Duration::from_millis(500))).expect("it can");
    socket
}

/// A connection for which replies wait in the server: the system takes no more of them.
fn stalled(server: &Process) -> TcpStream {
    let (mut socket, mut other) = (connect(server), server.client());
    let before = memory_of_clients(&mut other);
    let echoes = request(&["ECHO", &"e".repeat(15_000)]).repeat(20);
    for _ in 0..200 {
        if socket.write_all(&echoes).is_err() || memory_of_clients(&mut other) > before {
            break;
        }
        thread::sleep(Duration::from_millis(2));
    }
    socket
}

fn memory_of_clients(client: &mut Client) -> u64 {
    of_clients(client, "clients_memory_bytes")
}

/// What INFO says of all clients.
fn of_clients(client: &mut Client, name: &str) -> u64 {
    let Value::Bulk(info) = client.line("INFO clients") else { panic!("a text") };
    let info = String::from_utf8_lossy(&info);
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("it is there").parse().expect("a number")
}

/// Another client is answered, unless it takes a minute.
fn answered(server: &Process, what: &str) {
    let mut client = server.client();
    assert_eq!(client.line("PING"), Value::Simple("PONG".into()), "{what}");
    assert_eq!(client.line("GET small"), Value::bulk("value"), "{what}");
}
