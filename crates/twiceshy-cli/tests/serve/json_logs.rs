//! `--log-format json`: every line is an object.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

use serde_json::Value as Json;
use tempfile::TempDir;

use crate::client::{Client, Value};
use crate::process::{Running, command, send};

fn event(line: &str) -> Json {
    let event: Json = serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    for field in ["timestamp", "level", "message"] {
        assert!(event[field].is_string(), "{line} has no {field}");
    }
    event
}

#[test]
fn every_line_is_an_object() {
    let directory = TempDir::new().expect("a directory");
    let mut command =
        command(directory.path(), "--listen 127.0.0.1:0 --log-format json --capacity 2k");
    command.env("TWICESHY_PASSWORD", "open \"sesame\"").env("TWICESHY_CAPCITY", "1");
    let child = command.stderr(Stdio::piped()).spawn();
    let mut server = Running(child.expect("the binary runs"));
    let mut lines = BufReader::new(server.0.stderr.take().expect("it is piped")).lines();
    let mut events = Vec::new();
    let ready = loop {
        let line = lines.next().expect("it starts").expect("text");
        events.push(event(&line));
        let last = events.last().expect("one");
        if last["message"] == "ready" {
            break last.clone();
        }
    };
    assert_eq!((&ready["level"], &ready["keys"]), (&"INFO".into(), &0.into()));
    let address: SocketAddr =
        ready["address"].as_str().and_then(|text| text.parse().ok()).expect("an address");
    // Above level debug the log has nothing that a client sends.
    let mut client = Client::connect(address);
    assert!(client.call(&["AUTH", "a\"b\n}"]).error().starts_with("WRONGPASS"));
    assert_eq!(client.call(&["AUTH", "open \"sesame\""]), Value::ok());
    send("TERM", &server.0);
    events.extend(lines.map_while(Result::ok).map(|line| event(&line)));
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0));
    assert_eq!(events.last().expect("events")["message"], "stopped");
    let warnings: Vec<_> = events.iter().filter(|event| event["level"] == "WARN").collect();
    let [misspelled, refused] = warnings[..] else { panic!("two warnings: {warnings:?}") };
    let ignored = "an unknown variable of the environment is ignored";
    assert_eq!(misspelled["message"], ignored);
    assert_eq!(misspelled["variable"], "TWICESHY_CAPCITY");
    assert_eq!((&refused["message"], &refused["times"]), (&"a wrong password".into(), &1.into()));
    let opened = events.iter().find(|event| event["message"] == "opened").expect("it is opened");
    assert_eq!(opened["filter"], "empty");
}

#[test]
fn so_is_the_reason_why_it_does_not_start() {
    let directory = TempDir::new().expect("a directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let output = command(directory.path(), &format!("--listen {address} --log-format json"))
        .output()
        .expect("the binary runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).expect("text");
    let events: Vec<Json> = text.lines().map(event).collect();
    let last = events.last().expect("an event");
    assert_eq!(
        (&last["level"], &last["message"]),
        (&"ERROR".into(), &"the server has failed".into())
    );
    let failure = last["failure"].as_str().expect("why");
    assert!(failure.contains("try another --listen"), "{failure}");
}
