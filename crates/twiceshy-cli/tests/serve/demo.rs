//! `serve --demo`: it shows something at once, and leaves nothing behind.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::client::{Client, Value};
use crate::process::{Running, send, twiceshy};
use crate::upstreams::eventually;

fn command(temporary: &TempDir, flags: &str) -> Command {
    let mut command = twiceshy("serve");
    command.args(["--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"]);
    command.args(flags.split_whitespace()).env("TMPDIR", temporary.path());
    command
}

fn report(page: SocketAddr) -> Json {
    let mut socket = TcpStream::connect(page).expect("the page listens");
    write!(socket, "GET /stats.json HTTP/1.1\r\nHost: {page}\r\n\r\n").expect("sent");
    let mut text = String::new();
    socket.read_to_string(&mut text).expect("an answer");
    let (_, body) = text.split_once("\r\n\r\n").expect("head and body");
    serde_json::from_str(body).expect("JSON")
}

#[test]
fn a_demonstration_shows_an_attack_and_leaves_nothing() {
    let temporary = TempDir::new().expect("a directory");
    let mut command = command(&temporary, "--demo=50000");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut demo = Running(child.expect("the binary runs"));
    let mut lines = BufReader::new(demo.0.stdout.take().expect("it is piped")).lines();
    let mut said = || lines.next().expect("more to say").expect("text");
    let page = said();
    let page = page.strip_prefix("Open  http://").and_then(|rest| rest.strip_suffix('/'));
    let page: SocketAddr = page.and_then(|page| page.parse().ok()).expect("an address");
    assert_eq!(said(), "");
    // Three lines to try.
    let tries: Vec<String> = (0..3).map(|_| said()).collect();
    let mut port = 0;
    for (line, command) in tries.iter().zip(["GET user:42", "GET nobody", "TS.STATS"]) {
        let (_, rest) = line.split_once("redis-cli -p ").expect("a redis-cli line");
        let (number, asked) = rest.split_once(' ').expect("port and command");
        assert_eq!(asked, command);
        port = number.parse().expect("a port");
    }
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut client = Client::connect(address);
    assert_eq!(client.line("GET user:42"), Value::bulk("{\"id\":42}"));
    assert_eq!(client.line("GET user:49999"), Value::bulk("{\"id\":49999}"));
    assert_eq!(client.line("GET nobody"), Value::Nil);
    assert_eq!(client.line("DBSIZE"), Value::Integer(50_000));
    // The attacker finds a false positive among some hundred new keys, and repeats
    // such keys eighty times in a burst of a hundred. 5000 queries that a filter which
    // does not adapt would have let through are some 70 bursts of 20 new keys, beside
    // 25 of the crowd: at most 1/256 of them, 12, and 3 of the first hundreds, are let
    // through by ours. Were the attacker to rest among them, 10 s of the crowd: 100
    // more. 250 has probability below 1e-20.
    let mut counts = (0, 0);
    eventually("an attack was played", || {
        let total = &report(page)["total"];
        let count = |name: &str| total[name].as_u64().expect("a count");
        let with = count("false_positives");
        counts = (with, with + count("reads_avoided_by_adapting"));
        counts.1 >= 5000
    });
    let (with, without) = counts;
    assert!(with > 0 && without >= 20 * with, "with {with}, without {without}");
    assert_eq!(fs::read_dir(temporary.path()).expect("a directory").count(), 1);
    send("INT", &demo.0);
    let status = demo.0.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    let left = fs::read_dir(temporary.path()).expect("a directory").count();
    assert_eq!(left, 0, "the temporary directory is removed");
}

#[test]
fn a_demonstration_writes_to_no_store_of_others() {
    let directory = TempDir::new().expect("a directory");
    let data = directory.path().join("data");
    let flags = format!("--demo=1000 --dir {}", data.display());
    let child = command(&directory, &flags).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut first = Running(child.expect("the binary runs"));
    let mut lines = BufReader::new(first.0.stdout.take().expect("it is piped")).lines();
    lines.next().expect("it runs").expect("text");
    send("TERM", &first.0);
    assert_eq!(first.0.wait().expect("it ends").code(), Some(0));
    assert!(data.join("records.redb").exists(), "what was asked for by name stays");
    let second = command(&directory, &flags).output().expect("the binary runs");
    assert_eq!(second.status.code(), Some(2));
    let error = String::from_utf8(second.stderr).expect("text");
    assert!(error.contains("holds a store already"), "{error}");
    let mut locked = command(&directory, "--demo=1000");
    let locked = locked.env("TWICESHY_PASSWORD", "x").output().expect("the binary runs");
    let error = String::from_utf8(locked.stderr).expect("text");
    assert!(error.contains("unset TWICESHY_PASSWORD"), "{error}");
    // It would attack that store.
    let mut other = command(&directory, "--demo=1000");
    let other = other.env("TWICESHY_STORE", "redis://127.0.0.1:1").output().expect("it runs");
    let error = String::from_utf8(other.stderr).expect("text");
    assert!(error.contains("unset TWICESHY_STORE"), "{error}");
}
