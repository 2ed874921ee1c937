//! `twiceshy health`: what a container's health check sees.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Output;
use std::thread;

use tempfile::TempDir;

use crate::process::{Process, twiceshy};
use crate::upstreams::free_port;

fn health(arguments: &[&str], page: Option<&str>) -> (Option<i32>, String) {
    let mut command = twiceshy("health");
    command.args(arguments).envs(page.map(|page| ("TWICESHY_PAGE", page)));
    let Output { status, stdout, stderr } = command.output().expect("the binary runs");
    (status.code(), String::from_utf8([stdout, stderr].concat()).expect("text"))
}

#[test]
fn a_server_that_works_says_so() {
    let directory = TempDir::new().expect("a directory");
    let port = free_port();
    let password = directory.path().join("password");
    std::fs::write(&password, "open sesame\n").expect("a file");
    // Everywhere, and with a password: the check needs neither an address of its own nor that.
    let page = format!("0.0.0.0:{port}");
    let flags = format!("--page {page} --password-file {}", password.display());
    let _server = Process::start(&directory.path().join("data"), &flags);
    assert_eq!(health(&[&page], None), (Some(0), "ready\n".into()));
    assert_eq!(health(&["--alive"], Some(&page)), (Some(0), "alive\n".into()));
}

/// A page that answers one request with some bytes.
fn stand_in(answer: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    thread::spawn(move || {
        let (mut socket, _) = listener.accept().expect("a client");
        let mut request = [0; 1024];
        let read = socket.read(&mut request).expect("a request");
        assert!(request[..read].starts_with(b"GET /readyz HTTP/1.1\r\n"));
        socket.write_all(answer.as_bytes()).expect("sent");
    });
    address
}

#[test]
fn one_that_does_not_says_why() {
    let busy = stand_in("HTTP/1.1 503 Service Unavailable\r\n\r\nthe store does not answer\n");
    assert_eq!(health(&[&busy], None), (Some(1), "the store does not answer\n".into()));
    let other = stand_in("SSH-2.0-OpenSSH_9.2\r\n");
    let (code, said) = health(&[&other], None);
    assert!(code == Some(2) && said.contains("is not the page of a server"), "{code:?} {said}");
    let nobody = format!("127.0.0.1:{}", free_port());
    let (code, said) = health(&[], Some(&nobody));
    assert!(
        code == Some(2) && said.contains(&format!("no answer from the page at {nobody}")),
        "{said}"
    );
    // It accepts, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let (code, said) = health(&[&address, "--timeout", "1"], None);
    assert!(code == Some(2) && said.contains("no answer"), "{said}");
}
