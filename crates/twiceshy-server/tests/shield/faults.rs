//! Stores that die, come back, or do not answer.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::{Client, Value};
use crate::harness::{Running, TIMEOUT, options, postgres, postgres_after, redis, table};
use crate::upstreams::{PostgresServer, RedisServer, eventually};

/// What clients saw that ask for keys 0 to 999, all stored, and as many that are
/// not.
#[derive(Default)]
struct Seen {
    answered: AtomicU64,
    failed: AtomicU64,
    slowest: AtomicU64,
}

/// Asks until `done`. A wrong answer is a panic; an error has to say that the store
/// is down.
fn ask(running: &Running, seen: &Seen, done: &AtomicBool) {
    let mut client = Client::connect(running.address);
    while !done.load(Ordering::Relaxed) {
        for n in (0..1000).step_by(13) {
            for stored in [true, false] {
                let begin = Instant::now();
                let key = if stored { format!("stored {n}") } else { format!("missing {n}") };
                match client.call(&["GET", &key]) {
                    Value::Error(text) => {
                        assert!(text.starts_with("ERR the store is down: "), "{text}");
                        seen.failed.fetch_add(1, Ordering::Relaxed);
                        // Others want to work as well.
                        thread::sleep(Duration::from_millis(1));
                    }
                    answer => {
                        let expected = if stored { Value::bulk("v") } else { Value::Nil };
                        assert_eq!(answer, expected, "{key}");
                        seen.answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
                let took = u64::try_from(begin.elapsed().as_millis()).expect("short");
                seen.slowest.fetch_max(took, Ordering::Relaxed);
            }
        }
    }
}

/// Kills and restarts the store under load, and looks what clients see.
fn dies_and_comes_back(running: &Running, kill: impl FnOnce(), restart: impl FnOnce()) {
    let (seen, done) = (Seen::default(), AtomicBool::new(false));
    let answered = || seen.answered.load(Ordering::Relaxed);
    let failed = || seen.failed.load(Ordering::Relaxed);
    thread::scope(|scope| {
        let asking: Vec<_> = (0..3).map(|_| scope.spawn(|| ask(running, &seen, &done))).collect();
        let ended = Ending(&done);
        eventually("answers", || answered() > 1000);
        assert_eq!(failed(), 0);
        kill();
        eventually("errors", || failed() > 10);
        // The filter still says what is absent, whoever has died.
        let mut client = running.client();
        let absent =
            (0..1000).filter(|n| client.call(&["GET", &format!("missing {n}")]) == Value::Nil);
        assert!(absent.count() > 900);
        restart();
        let mut client = running.client();
        eventually("it is back", || {
            client.line("MGET a").eq(&Value::Array(vec![Value::Nil]))
                && client.call(&["GET", "stored 1"]) == Value::bulk("v")
        });
        let (before, errors) = (answered(), failed());
        eventually("all is well", || answered() > before + 3000);
        // Another connection may have to be made again as well.
        assert!(failed() - errors < 100, "{}", failed() - errors);
        drop(ended);
        asking.into_iter().for_each(|thread| thread.join().expect("no wrong answer"));
    });
    let slowest = Duration::from_millis(seen.slowest.load(Ordering::Relaxed));
    assert!(slowest < 3 * TIMEOUT, "{slowest:?}");
}

/// Ends the load, also when something panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn postgres_dies_and_comes_back() {
    let server = std::cell::RefCell::new(PostgresServer::start());
    server.borrow().sql(
        "CREATE TABLE t (k text PRIMARY KEY, v text);
         INSERT INTO t SELECT 'stored ' || n, 'v' FROM generate_series(0, 999) n;",
    );
    let directory = TempDir::new().expect("a directory");
    let table = table(&server.borrow().address(), "t", "k", Some("v"));
    let running = postgres(&table, &options(directory.path())).expect("it is a table");
    dies_and_comes_back(&running, || server.borrow_mut().kill(), || server.borrow_mut().restart());
}

fn redis_with_keys() -> RedisServer {
    let server = RedisServer::start();
    let mut words = vec!["MSET".to_string()];
    words.extend((0..1000).flat_map(|n| [format!("stored {n}"), "v".into()]));
    assert_eq!(server.client().call(&words), Value::ok());
    server
}

#[test]
fn redis_dies_and_comes_back() {
    let server = std::cell::RefCell::new(redis_with_keys());
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.borrow().address(), &options(directory.path())).expect("it runs");
    dies_and_comes_back(&running, || server.borrow_mut().kill(), || server.borrow_mut().restart());
}

#[test]
fn a_store_that_does_not_answer_keeps_nobody_waiting() {
    let server = redis_with_keys();
    let directory = TempDir::new().expect("a directory");
    let running = redis(&server.address(), &options(directory.path())).expect("it runs");
    let mut client = running.client();
    assert_eq!(client.call(&["GET", "stored 1"]), Value::bulk("v"));
    server.freeze();
    for verb in ["GET", "EXISTS", "DEL"] {
        let begin = Instant::now();
        let reply = client.call(&[verb, "stored 1"]);
        assert!(reply.error().starts_with("ERR the store is down: "), "{verb}: {reply:?}");
        assert!(begin.elapsed() < 3 * TIMEOUT, "{verb}: {:?}", begin.elapsed());
    }
    server.wake();
    eventually("it is back", || client.call(&["GET", "stored 2"]) == Value::bulk("v"));
    running.stop();

    // Down when the shield starts: it says so and does not start.
    let address = server.address();
    drop(server);
    let failure = redis(&address, &options(directory.path())).err().expect("it is down");
    assert!(failure.to_string().starts_with("the store is down: "), "{failure}");
}

/// A server that takes connections and says nothing.
#[test]
fn a_postgres_that_never_answers_is_down() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = silent.local_addr().expect("an address").port();
    let directory = TempDir::new().expect("a directory");
    let mut table = table(&format!("postgres://me@127.0.0.1:{port}/me"), "t", "k", None);
    table.timeout = Duration::from_millis(300);
    let failure = postgres(&table, &options(directory.path())).err().expect("it is down");
    assert_eq!(
        failure.to_string(),
        "the store is down: no answer in 300ms while connecting; see what keeps the server from \
         it (its load, a lock on the table, a network that swallows packets), or wait longer with \
         --store-timeout"
    );
}

/// Somebody has locked the table: what reads it waits for ever, as for a dead disk.
#[test]
fn a_scan_of_a_table_that_gives_nothing_ends() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('a')");
    let directory = TempDir::new().expect("a directory");
    let mut table = table(&server.address(), "t", "k", None);
    table.scan_timeout = Duration::from_millis(300);
    let failure_while_locked = || {
        let mut lock = None;
        let lock_it = || lock = Some(server.locked("t"));
        let opened = postgres_after(&table, &options(directory.path()), lock_it);
        opened.err().expect("the table is locked").to_string()
    };
    let failure = failure_while_locked();
    let doing = "the store is down: no answer in 300ms while counting the keys; ";
    assert!(failure.starts_with(doing), "{failure}");
    assert!(failure.ends_with("or wait longer with --store-scan-timeout"), "{failure}");
    // Counting does not need the table any more, reading it does.
    server.sql("ANALYZE t");
    let failure = failure_while_locked();
    let doing = "the store is down: no answer in 300ms while reading the keys; ";
    assert!(failure.starts_with(doing), "{failure}");
    table.scan_timeout = 10 * TIMEOUT;
    let running = postgres(&table, &options(directory.path())).expect("nobody has locked it");
    assert_eq!(running.client().line("EXISTS a b"), Value::Integer(1));
}

/// One of two connections is lost and cannot be made again. Its turn comes every
/// second time; the other one answers then.
#[test]
fn a_connection_that_is_lost_hides_no_other() {
    let server = PostgresServer::start();
    server.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('a')");
    server.sql("CREATE DATABASE shop TEMPLATE postgres");
    let directory = TempDir::new().expect("a directory");
    let address = server.address();
    let address = format!("{}shop", address.strip_suffix("postgres").expect("a database"));
    let table = table(&address, "t", "k", None);
    let running = postgres(&table, &options(directory.path())).expect("it is a table");
    let mut client = running.client();
    let ours = "FROM pg_stat_activity WHERE datname = 'shop' AND application_name = 'twiceshy'";
    let mut is_there = || client.line("EXISTS a b") == Value::Integer(1);
    assert!((0..4).all(|_| is_there()));
    let sessions = || server.sql(&format!("SELECT count(*) {ours}"));
    eventually("only the two for look-ups are left", || sessions() == "2");
    server.sql("ALTER DATABASE shop ALLOW_CONNECTIONS false");
    server.sql(&format!("SELECT pg_terminate_backend(pid) FROM (SELECT pid {ours} LIMIT 1) one"));
    eventually("one is lost", || sessions() == "1");
    // A query may fail before the end of its connection is heard of, and none after.
    eventually("it has been noticed", || (0..4).all(|_| is_there()));
    assert!((0..100).all(|_| is_there()));
    server.sql("ALTER DATABASE shop ALLOW_CONNECTIONS true");
    eventually("there are two again", || is_there() && sessions() == "2");
}
