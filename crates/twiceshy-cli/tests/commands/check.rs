//! `twiceshy check` as a user or a script sees it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn check(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg("check").arg(directory).args(arguments).stdin(Stdio::null());
    command.output().expect("the binary runs")
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).expect("text")
}

/// A store of a hundred records, and the place of one value in its file.
fn store(directory: &Path) {
    let store = twiceshy::open(directory).expect("a directory");
    let records: Vec<_> = (0..100).map(|n| (format!("key {n}"), format!("value {n}"))).collect();
    store.put_many(&records).expect("written");
    store.close().expect("closed");
}

#[test]
fn a_damaged_store_is_reported_and_repaired() {
    let folder = tempfile::tempdir().expect("a folder");
    let (directory, to) = (folder.path().join("store"), folder.path().join("repaired"));
    store(&directory);
    let output = check(&directory, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("100 whole records"), "{}", stdout(&output));
    assert!(stdout(&output).contains("it fits the store"), "{}", stdout(&output));
    assert!(stdout(&output).contains("nothing is damaged"), "{}", stdout(&output));

    let path = directory.join("records.redb");
    let mut bytes = fs::read(&path).expect("there");
    let value = bytes.windows(8).position(|window| window == b"value 42").expect("it is there");
    bytes[value] ^= 1;
    fs::write(&path, &bytes).expect("written");
    let output = check(&directory, &[]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stdout(&output).contains("its checksum is wrong"), "{}", stdout(&output));
    assert!(stdout(&output).contains("--repair TO"), "{}", stdout(&output));

    let output = check(&directory, &["--json", "--repair", to.to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    let json: Value = serde_json::from_str(stdout(&output)).expect("one JSON object");
    assert_eq!(json["schema"], "twiceshy.check.v1");
    assert_eq!((&json["whole"], &json["records"]), (&Value::Bool(false), &Value::from(99)));
    let damage = json["damage"].as_array().expect("a list");
    let kinds: Vec<_> = damage.iter().filter_map(|damage| damage["what"].as_str()).collect();
    assert!(kinds.contains(&"page") && kinds.contains(&"record"), "{damage:?}");
    assert_eq!(fs::read(&path).expect("there"), bytes, "the original stays as it is");

    let output = check(&to, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    let repaired = twiceshy::open(&to).expect("it is whole");
    assert_eq!(repaired.get("key 42").expect("read"), None);
    assert_eq!(repaired.get("key 41").expect("read").as_deref(), Some(&b"value 41"[..]));
    let output = check(&to, &[]);
    assert_eq!(output.status.code(), Some(2), "it is in use");
    assert!(String::from_utf8_lossy(&output.stderr).contains("open already"));
}

#[test]
fn what_is_no_store_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = check(&folder.path().join("nothing"), &[]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("no store here"), "{text}");
    store(&folder.path().join("store"));
    let output = check(&folder.path().join("store"), &["--repair", "/proc"]);
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("exists already"), "{text}");
}
