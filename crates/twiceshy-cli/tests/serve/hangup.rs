//! SIGHUP: a terminal that is closed stops the server as SIGTERM does, unless nohup is there.

use std::fs;

use tempfile::TempDir;

use crate::client::Value;
use crate::process::Process;

/// Whether these tests themselves run under nohup, and so does what they start.
fn is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("a number") & 1 == 1
}

#[test]
fn a_hangup_is_a_clean_stop() {
    if is_ignored() {
        eprintln!("SKIPPED: SIGHUP is ignored here");
        return;
    }
    let directory = TempDir::new().expect("a directory");
    let server = Process::start(directory.path(), "");
    assert_eq!(server.client().line("SET k v"), Value::ok());
    let (status, log) = server.stop("HUP");
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("stopped"), "{log}");
    assert!(directory.path().join("filter.snapshot").exists(), "a snapshot was written");
    assert_eq!(Process::start(directory.path(), "").client().line("GET k"), Value::bulk("v"));
}

#[test]
fn nohup_is_respected() {
    let directory = TempDir::new().expect("a directory");
    let server = Process::start_by("nohup", directory.path(), "");
    server.signal("HUP");
    assert_eq!(server.client().line("SET k v"), Value::ok());
    let (status, log) = server.stop("TERM");
    assert_eq!(status.code(), Some(0), "{log}");
}
