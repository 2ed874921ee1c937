//! Keys of any bytes, in files and as arguments.

use std::ffi::OsStr;
use std::process::Command;

use serde_json::Value;

use crate::folder::{Folder, code, lines, number, prefixed, stderr};

#[test]
fn keys_may_be_any_bytes() {
    let folder = Folder::new();
    let keys: [&[u8]; 4] = [b"two\nlines", b"\xff\xfe\0", b"", b"tab\t"];
    folder.write("keys", prefixed(&keys));
    assert_eq!(number(&folder.json("build keys -o f --format lp32"), "keys"), 4);
    let output = folder.run("query f keys --format lp32 --json");
    let answers: Vec<Value> =
        lines(&output).iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert!(answers.iter().all(|answer| answer["answer"] == "maybe"), "{answers:?}");
    let names: Vec<&Value> = answers
        .iter()
        .map(|answer| answer.get("key").unwrap_or_else(|| &answer["key_hex"]))
        .collect();
    assert_eq!(names, ["two\nlines", "fffe00", "", "tab\t"]);

    // As lines, all bytes but NUL come back as they are.
    folder.write("keys", b"\xff\xfe\x01\rc\nb\n");
    assert_eq!(number(&folder.json("build keys -o f"), "keys"), 2);
    assert_eq!(folder.run("query f keys").stdout, b"maybe\t\xff\xfe\x01\rc\nmaybe\tb\n");
}

#[cfg(unix)]
#[test]
fn keys_as_arguments_may_be_any_bytes_too() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    folder.write("keys", b"\xff\xfe\n");
    folder.run("build keys -o f");
    let mut command = folder.command("query f --key");
    let output = command.arg(OsStr::from_bytes(b"\xff\xfe")).output().expect("the binary runs");
    assert_eq!(output.stdout, b"maybe\t\xff\xfe\n");
}

/// A key of 4 GiB is announced to a process that may have 2.
#[cfg(target_os = "linux")]
#[test]
fn a_huge_length_is_an_error_and_no_allocation() {
    let folder = Folder::new();
    folder.write("keys", [0xff; 1000]);
    let script = "ulimit -v 2000000; exec \"$0\" build keys -o f --format lp32";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_twiceshy")]).current_dir(folder.0.path());
    let output = shell.output().expect("a shell");
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    assert!(stderr(&output).contains("4294967295"), "{}", stderr(&output));
    assert!(!folder.path("f").exists(), "nothing is built from half a list");
}
