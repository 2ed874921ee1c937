//! In front of a table that others write to, which is followed: no row that PostgreSQL shows is
//! denied, whatever dies meanwhile.
//!
//! Writers insert, update, copy, delete and roll back. They tell readers of a key just before they
//! commit it; a reader asks PostgreSQL for it on a connection of its own until it sees it, and at
//! that moment asks the shield. `TWICESHY_ORACLE_SECONDS` makes each part longer.

use std::collections::HashSet;
use std::env;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::{Client as Sql, NoTls};

use crate::client::{Client, Value};
use crate::process::{Process, Random};
use crate::upstreams::{PostgresServer, eventually};

const WRITERS: u64 = 8;
const READERS: u64 = 8;
const MAX_LAG: Duration = Duration::from_millis(300);

/// What a commit promises.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// A key can be read as soon as it can be seen.
    Sync,
    /// After TS.WAIT, or `MAX_LAG` later.
    Async,
}

/// What writers and readers share.
struct Oracle {
    mode: Mode,
    runtime: Runtime,
    postgres: String,
    shield: SocketAddr,
    /// Keys that are about to be committed.
    coming: Mutex<Vec<String>>,
    /// Keys that readers are done with.
    read: Mutex<Vec<String>>,
    /// Those of them that writers have deleted or changed, if their statement succeeded.
    gone: Mutex<Vec<String>>,
    done: AtomicBool,
    reads: AtomicU64,
    denied: Mutex<Vec<String>>,
}

impl Oracle {
    fn sql(&self) -> Result<Sql, tokio_postgres::Error> {
        self.runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(&self.postgres, NoTls).await?;
            tokio::spawn(connection);
            Ok(client)
        })
    }

    fn is_done(&self) -> bool {
        self.done.load(Ordering::Relaxed)
    }

    /// Writes until it is done, on one connection after the other.
    fn write(&self, writer: u64) {
        let mut random = Random(writer);
        let mut next = 0_u64;
        while !self.is_done() {
            let Ok(sql) = self.sql() else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            while !self.is_done() && !sql.is_closed() {
                let mut keys = Vec::new();
                for _ in 0..=random.below(4) {
                    next += 1;
                    keys.push(format!("{writer}-{next}"));
                }
                let rows: Vec<String> = keys.iter().map(|key| format!("('{key}')")).collect();
                let insert = format!("INSERT INTO t (k) VALUES {}", rows.join(", "));
                let old = self.read.lock().expect("no panic").pop();
                self.gone.lock().expect("no panic").extend(old.clone());
                let statement = match (random.below(10), old) {
                    (0, _) => {
                        keys.clear();
                        format!("BEGIN; {insert}; ROLLBACK")
                    }
                    (1, _) => {
                        let lines = keys.join("\\n");
                        format!("COPY t (k) FROM PROGRAM 'printf \"{lines}\\n\"'")
                    }
                    (2 | 3, Some(old)) => {
                        keys.truncate(1);
                        format!("UPDATE t SET k = '{}' WHERE k = '{old}'", keys[0])
                    }
                    (4..=6, Some(old)) => {
                        format!("BEGIN; DELETE FROM t WHERE k = '{old}'; {insert}; COMMIT")
                    }
                    _ => insert,
                };
                self.coming.lock().expect("no panic").extend(keys);
                // It may have been committed though it failed: readers will see.
                let _ = self.runtime.block_on(sql.batch_execute(&statement));
            }
        }
    }

    /// Reads until it is done.
    fn read(&self) {
        let mut client = None;
        let mut waiting: Vec<(String, Instant)> = Vec::new();
        while !self.is_done() {
            let Ok(sql) = self.sql() else {
                thread::sleep(Duration::from_millis(20));
                continue;
            };
            while !self.is_done() && !sql.is_closed() {
                {
                    let mut coming = self.coming.lock().expect("no panic");
                    let some = coming.len().div_ceil(READERS as usize).min(100);
                    let now = Instant::now();
                    let from = coming.len() - some;
                    waiting.extend(coming.drain(from..).map(|key| (key, now)));
                }
                // What was never committed is never seen.
                waiting.retain(|(_, since)| since.elapsed() < Duration::from_secs(20));
                let keys: Vec<&str> = waiting.iter().map(|(key, _)| &key[..]).collect();
                let select = "SELECT k FROM t WHERE k = ANY($1)";
                let Ok(rows) = self.runtime.block_on(sql.query(select, &[&keys])) else { break };
                let seen: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
                waiting.retain(|(key, _)| !seen.contains(key));
                if self.mode == Mode::Async && !seen.is_empty() && !self.settle(&sql, &mut client) {
                    break;
                }
                for key in seen {
                    self.check(&mut client, &key);
                    self.read.lock().expect("no panic").push(key);
                }
            }
        }
    }

    /// Waits as long as a client of `async` has to; whether PostgreSQL answered.
    fn settle(&self, sql: &Sql, client: &mut Option<Client>) -> bool {
        if self.reads.load(Ordering::Relaxed).is_multiple_of(2) {
            thread::sleep(MAX_LAG);
            return true;
        }
        let position = "SELECT pg_current_wal_insert_lsn()::text";
        let Ok(row) = self.runtime.block_on(sql.query_one(position, &[])) else { return false };
        let position: String = row.get(0);
        while !self.is_done() {
            match self.ask(client, &["TS.WAIT", &position, "1000"]) {
                Ok(Value::Simple(_)) => return true,
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
        true
    }

    /// A key that can be seen is not denied.
    fn check(&self, client: &mut Option<Client>, key: &str) {
        while !self.is_done() {
            match self.ask(client, &["EXISTS", key]) {
                Ok(Value::Integer(1)) => {
                    self.reads.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                Ok(Value::Integer(_)) => {
                    self.denied.lock().expect("no panic").push(key.into());
                    return;
                }
                // It or its store is down.
                _ => thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    fn ask(&self, client: &mut Option<Client>, words: &[&str]) -> io::Result<Value> {
        if client.is_none() {
            *client = Some(Client::try_connect(self.shield)?);
        }
        let answer = client
            .as_mut()
            .map_or(Err(io::ErrorKind::NotConnected.into()), |client| client.try_call(words));
        if answer.is_err() {
            *client = None;
        }
        answer
    }
}

fn seconds() -> Duration {
    let seconds = env::var("TWICESHY_ORACLE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(1))
}

/// Follows a table under load while things break.
fn nothing_is_denied(mode: Mode) {
    let mut postgres = PostgresServer::start_with(&["wal_level=logical", "max_connections=60"]);
    postgres.sql("CREATE TABLE t (k text PRIMARY KEY); INSERT INTO t VALUES ('first')");
    let directory = TempDir::new().expect("a directory");
    let name = if mode == Mode::Sync { "sync" } else { "async" };
    let flags = format!(
        "--store {} --table t --key k --follow {name} --max-lag {} --follow-as shield",
        postgres.address(),
        MAX_LAG.as_millis()
    );
    let mut shield = Process::start(directory.path(), &flags);
    let flags = format!("{flags} --listen {}", shield.address);
    if mode == Mode::Sync {
        postgres.sql("ALTER SYSTEM SET synchronous_standby_names = 'shield'");
        postgres.sql("ALTER SYSTEM SET synchronous_commit = 'remote_apply'");
        postgres.sql("SELECT pg_reload_conf()");
    }
    let oracle = Arc::new(Oracle {
        mode,
        runtime: Runtime::new().expect("a runtime"),
        postgres: postgres.address(),
        shield: shield.address,
        coming: Mutex::default(),
        read: Mutex::default(),
        gone: Mutex::default(),
        done: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        denied: Mutex::default(),
    });
    let answers = |shield: &Process| {
        eventually("the filter answers", || shield.log().contains("is fresh, and answers"));
    };
    answers(&shield);
    let mut threads = Vec::new();
    for writer in 0..WRITERS {
        let oracle = Arc::clone(&oracle);
        threads.push(thread::spawn(move || oracle.write(writer)));
    }
    for _ in 0..READERS {
        let oracle = Arc::clone(&oracle);
        threads.push(thread::spawn(move || oracle.read()));
    }
    let reads = || oracle.reads.load(Ordering::Relaxed);
    let goes_on = |what: &str| {
        let before = reads();
        thread::sleep(seconds());
        eventually(what, || reads() > before + 20);
        let denied = oracle.denied.lock().expect("no panic").clone();
        assert!(denied.is_empty(), "denied: {denied:?} {what}");
    };
    goes_on("reads at first");
    for _ in 0..2 {
        shield.kill();
        shield = Process::start(directory.path(), &flags);
        answers(&shield);
        // The server was told of nothing that was not on disk.
        assert!(!shield.log().contains("building the filter"), "{}", shield.log());
        goes_on("reads after the shield was killed");
    }
    for _ in 0..3 {
        postgres.sql("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots");
        goes_on("reads after the connection to the log was cut");
    }
    // Not by SIGKILL: then processes that live on for a moment end the wait of commits, and show
    // them to each other.
    postgres.quit();
    postgres.restart();
    goes_on("reads after PostgreSQL was restarted");
    oracle.done.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
    let denied = oracle.denied.lock().expect("no panic").clone();
    assert!(denied.is_empty(), "denied: {denied:?}");
    // Nothing was missed.
    let mut client = shield.client();
    let position = postgres.sql("SELECT pg_current_wal_insert_lsn()");
    eventually("the log is known", || client.call(&["TS.WAIT", &position]) == Value::ok());
    let keys = postgres.sql("SELECT k FROM t");
    let keys: HashSet<&str> = keys.lines().collect();
    for key in &keys {
        assert_eq!(client.call(&["EXISTS", key]), Value::Integer(1), "{key}");
    }
    // What was deleted is forgotten: by the log, or if the shield was killed before the deletion
    // could be seen, by a lookup. One that a reader looked up a moment too early has its next
    // second look in the next minute.
    let gone = oracle.gone.lock().expect("no panic").clone();
    let gone: Vec<&str> =
        gone.iter().map(|key| &key[..]).filter(|key| !keys.contains(key)).collect();
    let count = i64::try_from(keys.len()).expect("few");
    let begin = Instant::now();
    loop {
        for some in gone.chunks(100) {
            let mut words = vec!["EXISTS"];
            words.extend(some);
            assert_eq!(client.call(&words), Value::Integer(0));
        }
        let known = client.line("DBSIZE");
        if known == Value::Integer(count) {
            break;
        }
        let waited = begin.elapsed();
        assert!(waited < Duration::from_secs(150), "{known:?} keys are known, not {count}");
        thread::sleep(Duration::from_millis(100));
    }
    println!("{name}: {} reads, {count} keys left", reads());
}

#[test]
fn sync_denies_no_row_that_can_be_seen() {
    nothing_is_denied(Mode::Sync);
}

#[test]
fn async_denies_no_row_beyond_its_lag() {
    nothing_is_denied(Mode::Async);
}
