//! Flags, the password, and how it ends.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use tempfile::TempDir;

use crate::client::Value;
use crate::process::{Process, command};

/// The error of a server that must not start.
fn refused(directory: &Path, flags: &str) -> String {
    let output = command(directory, flags).output().expect("the binary runs");
    assert_eq!(output.status.code(), Some(2), "{flags}");
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn a_signal_ends_it_and_the_filter_is_kept() {
    let directory = TempDir::new().expect("a directory");
    for (signal, before) in [("TERM", "filter=empty"), ("INT", "filter=snapshot")] {
        let server = Process::start(directory.path(), "");
        assert!(server.log().contains(before), "{}", server.log());
        let mut idle = server.client();
        assert_eq!(server.client().line(&format!("SET {signal} stored")), Value::ok());
        let (status, log) = server.stop(signal);
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.ends_with("stopped\n"), "{log}");
        assert!(idle.receive().is_err(), "its connections have ended");
    }
    let server = Process::start(directory.path(), "");
    assert!(server.log().contains("filter=snapshot"), "{}", server.log());
    let both = Value::Array(vec![Value::bulk("stored"); 2]);
    assert_eq!(server.client().line("MGET TERM INT"), both);
}

#[test]
fn beyond_this_machine_only_with_a_password() {
    let directory = TempDir::new().expect("a directory");
    for address in ["0.0.0.0:0", "[::]:0"] {
        let error = refused(directory.path(), &format!("--listen {address}"));
        assert!(error.contains("no password; set one, or listen on 127.0.0.1"), "{error}");
    }
    let file = directory.path().join("password.txt");
    fs::write(&file, "open sesame\nnot this line\n").expect("a file");
    let flags = format!("--listen 0.0.0.0:0 --password-file {}", file.display());
    let server = Process::start(directory.path(), &flags);
    let mut client = server.client();
    assert_eq!(client.line("GET k").error(), "NOAUTH Authentication required.");
    assert!(client.call(&["AUTH", "not this line"]).error().starts_with("WRONGPASS"));
    assert_eq!(client.call(&["AUTH", "open sesame"]), Value::ok());
    assert_eq!(client.line("GET k"), Value::Nil);
    let (_, log) = server.stop("TERM");
    assert!(log.contains("a wrong password") && !log.contains("sesame"), "{log}");
}

#[test]
fn what_cannot_be_served_says_why() {
    let directory = TempDir::new().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let error = refused(directory.path(), &format!("--listen {address}"));
    assert!(error.contains("try another --listen"), "{error}");
    let error = refused(directory.path(), "--listen nonsense");
    assert!(error.contains("expected an address and a port"), "{error}");
    let error = refused(directory.path(), "--password-file /nowhere/at/all");
    assert!(error.contains("cannot read /nowhere/at/all"), "{error}");
    let empty = directory.path().join("empty");
    fs::write(&empty, "").expect("a file");
    let error = refused(directory.path(), &format!("--password-file {}", empty.display()));
    assert!(error.contains("is empty"), "{error}");
    // Somebody else serves the directory.
    let served = directory.path().join("served");
    let _server = Process::start(&served, "");
    let error = refused(&served, "--listen 127.0.0.1:0");
    assert!(error.contains("is open already"), "{error}");
}

#[test]
fn no_key_is_logged_above_debug() {
    let directory = TempDir::new().expect("a directory");
    let server = Process::start(directory.path(), "--log info");
    let mut client = server.client();
    client.line("SET secretkey secretvalue");
    client.line("GET secretkey");
    client.line("secretcommand secretkey");
    let _ = client.send(b"*1\r\n:secret\r\n");
    assert!(client.receive().is_ok());
    let (_, log) = server.stop("TERM");
    assert!(!log.contains("secret"), "{log}");
}
