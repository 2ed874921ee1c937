//! Lists of keys as people have them: compressed, from Windows, with blank lines, or no
//! lists at all.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.path().join(name), bytes).expect("a file");
    }

    /// Runs a command with arguments that are separated by spaces.
    fn run(&self, arguments: &str, input: &[u8]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
        command.current_dir(self.0.path()).args(arguments.split_whitespace());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary runs");
        // It may have seen enough.
        let _ = child.stdin.take().expect("a pipe").write_all(input);
        child.wait_with_output().expect("it ends")
    }

    /// The one JSON object that a command prints.
    fn json(&self, arguments: &str, input: &[u8]) -> Value {
        let output = self.run(&format!("{arguments} --json"), input);
        assert_eq!(output.status.code(), Some(0), "{arguments}: {}", stderr(&output));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// RFC 1952 by hand: one stored block.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).expect("one block");
    let crc = bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)))
    });
    let mut file = b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01".to_vec();
    file.extend(length.to_le_bytes());
    file.extend((!length).to_le_bytes());
    file.extend(bytes);
    file.extend((!crc).to_le_bytes());
    file.extend(u32::from(length).to_le_bytes());
    file
}

/// RFC 8878 by hand: one raw block.
fn zstd(bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("a short frame");
    let mut file = b"\x28\xb5\x2f\xfd\x20".to_vec();
    file.push(length);
    file.extend(&(u32::from(length) << 3 | 1).to_le_bytes()[..3]);
    file.extend(bytes);
    file
}

const LIST: &[u8] = b"ada\r\nbob\n\n\r\nada\ncaf\xe9";

/// Three keys, whatever the list is wrapped in and wherever it comes from.
#[test]
fn compressed_lists_are_lists() {
    let folder = Folder::new();
    let lp32 = b"\x03\0\0\0ada\x03\0\0\0bob\x04\0\0\0caf\xe9";
    for (bytes, format) in [(LIST, "lines"), (lp32, "lp32")] {
        for (name, wrapped) in [
            ("list", bytes.to_vec()),
            ("list.gz", gzip(bytes)),
            ("list.zst", zstd(bytes)),
            ("list-gzip", gzip(bytes)),
            ("list-zstd", zstd(bytes)),
        ] {
            folder.write(name, &wrapped);
            for (file, input) in [(name, &b""[..]), ("-", &wrapped)] {
                let case = format!("{name} as {format} from {file}");
                let report = folder.json(&format!("build {file} -o f --format {format}"), input);
                assert_eq!(report["keys"], 3, "{case}: {report}");
                let flags = format!("--format {format} --count");
                let report = folder.json(&format!("query f {file} {flags}"), input);
                let lines = format == "lines";
                let answers = (&report["maybe"], &report["absent"], &report["blank_lines"]);
                let blank = if lines { 2 } else { 0 };
                let expected = (&Value::from(3 + i32::from(lines)), &0.into(), &blank.into());
                assert_eq!(answers, expected, "{case}");
                let list = format!("--false-positives {file} --format {format}");
                let report = folder.json(&format!("adapt f {list}"), input);
                assert_eq!((&report["stored"], &report["blank_lines"]), (&3.into(), expected.2));
            }
        }
    }
    // With a secret of its own, so that keys are found by their bytes alone.
    let output = folder.run("query f", b"ada\ncaf\xe9\r\n");
    assert_eq!(output.stdout, b"maybe\tada\nmaybe\tcaf\xe9\n");
}

#[test]
fn blank_lines_are_told_of() {
    let folder = Folder::new();
    let said = |output: Output| String::from_utf8(output.stdout).expect("text");
    let built = said(folder.run("build -o f", LIST));
    assert!(built.contains("3 keys (1 duplicates and 2 blank lines left out)"), "{built}");
    let counted = said(folder.run("query f --count", LIST));
    assert_eq!(counted, "maybe\t4\nabsent\t0\nblank lines\t2\n");
    let adapted = said(folder.run("adapt f --false-positives -", b"ada\n\n"));
    assert!(adapted.contains("blank lines skipped: 1"), "{adapted}");
    let built = said(folder.run("build -o f", b"ada\n"));
    assert!(built.contains("(0 duplicates left out)"), "{built}");
}

/// What is no list of keys is no filter either.
#[test]
fn binary_input_is_refused_and_nothing_is_built() {
    let folder = Folder::new();
    folder.write("good", LIST);
    assert_eq!(folder.json("build good -o f", b"")["keys"], 3);
    let noise: Vec<u8> = (0..4096_u32).map(|n| ((n * n) >> 3) as u8).collect();
    let mut cut = gzip(LIST);
    cut.truncate(cut.len() - 9);
    let mut changed = gzip(LIST);
    changed[15] ^= 1;
    for (name, bytes, said) in [
        ("binary", noise, "NUL byte in line"),
        ("utf-16", b"\xff\xfea\0d\0a\0\n\0".to_vec(), "NUL byte in line 1"),
        ("list.xz", b"\xfd7zXZ\0\0\x04".to_vec(), "'xz -dc'"),
        ("list.bz2", b"BZh91AY&SY\x01\x02".to_vec(), "'bzip2 -dc'"),
        ("list.zip", b"PK\x03\x04\x14\0".to_vec(), "'unzip -p'"),
        ("cut.gz", cut, "cannot read"),
        ("changed", changed, "cannot read"),
        ("no.gz", LIST.to_vec(), "cannot read"),
    ] {
        folder.write(name, &bytes);
        for arguments in [
            format!("build {name} -o g"),
            format!("query f {name}"),
            format!("adapt f --false-positives {name}"),
            format!("adapt f --false-positives good --keys {name}"),
        ] {
            let output = folder.run(&arguments, b"");
            assert_eq!(output.status.code(), Some(2), "{arguments}");
            assert!(stderr(&output).contains(said), "{arguments}: {}", stderr(&output));
            assert!(stderr(&output).contains(name), "{arguments}: {}", stderr(&output));
        }
        assert!(!folder.0.path().join("g").exists(), "{name}");
        let output = folder.run("race --keys binary --queries good", b"");
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("u32:FILE or u64:FILE") || name != "binary");
    }
}
