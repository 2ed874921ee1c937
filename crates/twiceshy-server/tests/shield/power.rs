//! What a run leaves that had no clean end, and whether the next one trusts it.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use twiceshy_server::ShieldOptions;

use crate::client::Value;
use crate::harness::{Running, options, redis, redis_after};
use crate::upstreams::{RedisServer, eventually};

/// The files of a live server as they are now: what a crash leaves. A loss of power
/// may leave those of any moment since the last that waited for the disk.
fn copied(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
    }
}

fn without_resync(directory: &Path) -> ShieldOptions {
    ShieldOptions { resync_at_start: false, ..options(directory) }
}

fn key(n: u32) -> String {
    format!("key {n}")
}

/// A hundred keys are found. A filter that does not know them lets one in 256 pass.
fn has_all(running: &Running) {
    let mut client = running.client();
    for n in 0..100 {
        assert_eq!(client.call(&["GET", &key(n)]), Value::bulk("v"), "{}", key(n));
    }
}

#[test]
fn a_loss_of_power_denies_nothing() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let [of, lost, killed] = ["of", "lost", "killed"].map(|name| directory.path().join(name));
    let running = redis(&server.address(), &options(&of)).expect("it runs");
    let mut client = running.client();
    assert_eq!(client.line("SET before v"), Value::ok());
    copied(&of, &lost);
    for n in 0..100 {
        assert_eq!(client.call(&["SET", &key(n), "v"]), Value::ok());
    }
    copied(&of, &killed);

    // Neither is trusted, whatever the flags say, before it has been resynced.
    for left in [&lost, &killed] {
        let scans = server.calls("scan");
        let again = redis(&server.address(), &without_resync(left)).expect("it runs");
        has_all(&again);
        eventually("it is resynced", || again.is_trusted());
        assert!(server.calls("scan") > scans);
        has_all(&again);
        again.stop();
    }

    // A clean end makes it trusted: of the run with a resync, and of those without.
    running.stop();
    for left in [&of, &lost, &killed] {
        let scans = server.calls("scan");
        let again = redis(&server.address(), &without_resync(left)).expect("it runs");
        assert!(again.is_trusted());
        has_all(&again);
        assert_eq!(again.client().line("SET durable v"), Value::ok());
        assert_eq!(server.calls("scan"), scans, "nothing was resynced");
        // What it was told of waited for the disk: also a crash leaves it trusted.
        let crashed = left.with_extension("crashed");
        copied(left, &crashed);
        let after = redis(&server.address(), &without_resync(&crashed)).expect("it runs");
        assert!(after.is_trusted());
        has_all(&after);
        assert_eq!(after.client().line("GET durable"), Value::bulk("v"));
        assert_eq!(server.calls("scan"), scans, "nothing was resynced");
    }
}

/// A run that ends before its resync is done leaves what it found.
#[test]
fn a_clean_end_without_a_resync_makes_nothing_trusted() {
    let mut server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let [of, lost] = ["of", "lost"].map(|name| directory.path().join(name));
    let running = redis(&server.address(), &options(&of)).expect("it runs");
    copied(&of, &lost);
    for n in 0..100 {
        assert_eq!(running.client().call(&["SET", &key(n), "v"]), Value::ok());
    }
    running.stop();
    for resync_at_start in [true, false] {
        let options = ShieldOptions { resync_at_start, ..options(&lost) };
        // The store dies before it can be scanned.
        let cut =
            redis_after(&server.address(), None, &options, || server.kill()).expect("it opens");
        assert!(!cut.is_trusted());
        cut.stop();
        server.restart();
    }
    let again = redis(&server.address(), &without_resync(&lost)).expect("it runs");
    has_all(&again);
}
