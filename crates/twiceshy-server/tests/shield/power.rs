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

/// All is lost but the file that calls the sidecar whole.
#[test]
fn a_lost_sidecar_denies_nothing() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    for n in 0..100 {
        assert_eq!(server.client().call(&["SET", &key(n), "v"]), Value::ok());
    }
    redis(&server.address(), &options(directory.path())).expect("it runs").stop();
    for kept in ["upstream", "nothing"] {
        for entry in fs::read_dir(directory.path()).expect("a directory") {
            let entry = entry.expect("an entry");
            if entry.file_name() != kept {
                fs::remove_file(entry.path()).expect("removed");
            }
        }
        let again = redis(&server.address(), &without_resync(directory.path())).expect("it runs");
        has_all(&again);
        eventually("it is resynced", || again.is_trusted());
        has_all(&again);
        again.stop();
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
        // A crash cannot be told from a copy that somebody restored.
        let crashed = left.with_extension("crashed");
        copied(left, &crashed);
        let after = redis(&server.address(), &without_resync(&crashed)).expect("it runs");
        assert_eq!(after.client().line("GET durable"), Value::bulk("v"));
        has_all(&after);
        eventually("it is resynced", || after.is_trusted());
        assert!(server.calls("scan") > scans);
        has_all(&after);
    }
}

/// Digests that are restored from an older copy do not know what was added since, and
/// neither does a whole directory: nothing is trusted that a clean stop did not leave.
#[test]
fn restored_files_are_not_trusted() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let [of, old, new] = ["of", "old", "new"].map(|name| directory.path().join(name));
    redis(&server.address(), &options(&of)).expect("it runs").stop();
    copied(&of, &old);
    let running = redis(&server.address(), &without_resync(&of)).expect("it runs");
    assert!(running.is_trusted(), "nobody has touched it");
    for n in 0..100 {
        assert_eq!(running.client().call(&["SET", &key(n), "v"]), Value::ok());
    }
    running.stop();
    copied(&of, &new);
    let files = ["digests.redb", "filter.snapshot", "closed", "upstream", "secret", "lock"];
    for restored in [&files[..1], &files[..2], &files[..3], &files[..], &files[3..4]] {
        for name in files {
            let from = if restored.contains(&name) { &old } else { &new };
            fs::remove_file(of.join(name)).expect("there is one");
            fs::copy(from.join(name), of.join(name)).expect("copied");
        }
        let again = redis(&server.address(), &without_resync(&of)).expect("it runs");
        has_all(&again);
        eventually("it is resynced", || again.is_trusted());
        has_all(&again);
        again.stop();
    }
    // What is said of digests of another generation is not of these.
    let scans = server.calls("scan");
    fs::copy(new.join("upstream"), of.join("upstream")).expect("copied");
    let again = redis(&server.address(), &without_resync(&of)).expect("it runs");
    eventually("it is resynced", || again.is_trusted());
    assert!(server.calls("scan") > scans);
}

/// A backup that is made while the shield is used, and one of the directory when it is
/// not: both begin with a resync.
#[test]
fn backups_are_resynced() {
    let server = RedisServer::start();
    let directory = TempDir::new().expect("a directory");
    let [of, hot, cold] = ["of", "hot", "cold"].map(|name| directory.path().join(name));
    let running = redis(&server.address(), &options(&of)).expect("it runs");
    eventually("it is resynced", || running.is_trusted());
    assert_eq!(running.client().line("SET before v"), Value::ok());
    assert_eq!(running.backup(&hot), Ok(1));
    assert!(running.backup(&hot).expect_err("it exists").contains("exists already"));
    for n in 0..100 {
        assert_eq!(running.client().call(&["SET", &key(n), "v"]), Value::ok());
    }
    running.stop();
    let go_on = &mut |_, _| std::ops::ControlFlow::Continue(());
    assert_eq!(twiceshy_server::backup(&of, &cold, go_on).expect("nobody has it"), 101);
    for copy in [&hot, &cold] {
        let scans = server.calls("scan");
        let again = redis(&server.address(), &without_resync(copy)).expect("it runs");
        has_all(&again);
        eventually("it is resynced", || again.is_trusted());
        assert!(server.calls("scan") > scans);
        has_all(&again);
        again.stop();
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
