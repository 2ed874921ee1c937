//! The first build, while others write.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio_postgres::NoTls;
use twiceshy_server::FollowMode;

use super::{exists, follow, server, wait};
use crate::client::{Client, Value};
use crate::harness::MAX_LAG;
use crate::upstreams::eventually;

/// Rows at the start: enough that many changes are made while they are scanned.
const ROWS: u64 = 20_000;
const WRITERS: u64 = 3;

/// What the writers share.
#[derive(Default)]
struct Shared {
    /// Where the shield answers, once it does.
    shield: OnceLock<SocketAddr>,
    done: AtomicBool,
    written: AtomicU64,
    /// Keys that were found.
    found: AtomicU64,
}

/// Inserts, updates and deletes rows. A key that was committed longer ago than the lag is found.
fn write(shared: &Shared, address: &str, writer: u64) {
    let runtime = Runtime::new().expect("a runtime");
    let (sql, connection) = runtime.block_on(tokio_postgres::connect(address, NoTls)).expect("up");
    runtime.spawn(connection);
    let run = |statement: String| {
        runtime.block_on(sql.batch_execute(&statement)).expect("it is written");
        shared.written.fetch_add(1, Ordering::Relaxed);
    };
    let mut shield: Option<Client> = None;
    let mut committed: VecDeque<(String, Instant)> = VecDeque::new();
    for n in 0_u64.. {
        if shared.done.load(Ordering::Relaxed) {
            break;
        }
        let new = format!("{writer}-{n}");
        // One of the rows that were there at the start, far from and near to the scan.
        let row = (n * 7919 * WRITERS + writer) % ROWS;
        match n % 4 {
            0 | 1 => run(format!("INSERT INTO t VALUES ('{new}')")),
            2 => {
                run(format!("DELETE FROM t WHERE k = 'row {row}'; INSERT INTO t VALUES ('{new}')"))
            }
            // If it was not deleted before.
            _ => run(format!("UPDATE t SET k = '{new}' WHERE k = 'row {row}'")),
        }
        if n % 4 != 3 {
            committed.push_back((new, Instant::now()));
        }
        let Some(address) = shared.shield.get() else { continue };
        let shield = shield.get_or_insert_with(|| Client::connect(*address));
        while committed.front().is_some_and(|(_, at)| at.elapsed() > MAX_LAG) {
            let (key, _) = committed.pop_front().expect("there is one");
            assert!(exists(shield, &key), "{key} is denied");
            shared.found.fetch_add(1, Ordering::Relaxed);
            if key.len() % 2 == 0 {
                run(format!("DELETE FROM t WHERE k = '{key}'"));
            }
        }
    }
}

#[test]
fn nothing_is_missed_that_is_written_during_the_first_build() {
    let server = server();
    server.sql("CREATE TABLE t (k text PRIMARY KEY)");
    server.sql(&format!("INSERT INTO t SELECT 'row ' || n FROM generate_series(0, {ROWS} - 1) n"));
    let directory = TempDir::new().expect("a directory");
    let (shared, address) = (Shared::default(), server.address());
    let running = thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (shared, address) = (&shared, &address);
            scope.spawn(move || write(shared, address, writer));
        }
        // Also if this panics.
        let done = Done(&shared);
        let written = || shared.written.load(Ordering::Relaxed);
        eventually("they write", || written() > 100);
        let before = written();
        let running = follow(&server, &directory, FollowMode::Async);
        let during = written() - before;
        assert!(during > 100, "{during} changes while the filter was built");
        shared.shield.set(running.address).expect("once");
        thread::sleep(MAX_LAG);
        eventually("keys are found", || shared.found.load(Ordering::Relaxed) > 200);
        drop(done);
        running
    });
    let mut client = running.client();
    wait(&server, &mut client);
    let keys = server.sql("SELECT k FROM t");
    for some in keys.lines().collect::<Vec<_>>().chunks(100) {
        let found = client.call(&[&["EXISTS"], some].concat());
        assert_eq!(found, Value::Integer(some.len() as i64), "some are denied: {some:?}");
    }
    let count = i64::try_from(keys.lines().count()).expect("few");
    eventually("deleted keys are forgotten", || client.line("DBSIZE") == Value::Integer(count));
    running.stop();
}

/// Ends the writers when it is dropped.
struct Done<'a>(&'a Shared);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Relaxed);
    }
}
