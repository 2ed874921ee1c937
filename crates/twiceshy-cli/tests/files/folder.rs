//! A folder with a filter in it, and what the command line says there.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub const STORED: usize = 2000;
pub const ABSENT: usize = 20_000;

/// A folder with a filter in it.
pub struct Folder(pub TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn write(&self, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
        fs::write(self.path(name), contents).expect("a file");
        self.path(name)
    }

    /// A command in this folder, with arguments that are separated by spaces.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
        command.current_dir(self.0.path()).args(arguments.split_whitespace());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }

    /// The one JSON object that a command prints.
    pub fn json(&self, arguments: &str) -> Value {
        let output = self.run(&format!("{arguments} --json"));
        let lines = lines(&output);
        assert_eq!(lines.len(), 1, "{arguments}: {}", stderr(&output));
        serde_json::from_str(&lines[0]).expect("JSON")
    }

    /// A filter "f" of the keys in "keys", and "absent" with keys that are not.
    pub fn with_filter(spec: &str) -> Self {
        let folder = Folder::new();
        folder.write("keys", numbered("stored", STORED));
        folder.write("absent", numbered("absent", ABSENT));
        let output = folder.run(&format!("build keys -o f --spec {spec}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        folder
    }

    /// The keys of a file that are answered "maybe".
    pub fn maybe(&self, keys: &str) -> Vec<String> {
        let output = self.run(&format!("query f {keys}"));
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let maybe = |line: &String| line.strip_prefix("maybe\t").map(str::to_string);
        lines(&output).iter().filter_map(maybe).collect()
    }

    pub fn check_no_false_negative(&self) {
        assert_eq!(self.maybe("keys").len(), STORED, "a stored key was denied");
    }
}

pub fn numbered(name: &str, count: usize) -> String {
    (0..count).map(|number| format!("{name} {number}\n")).collect()
}

pub fn lines(output: &Output) -> Vec<String> {
    String::from_utf8(output.stdout.clone()).expect("text").lines().map(str::to_string).collect()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().expect("it was not killed")
}

pub fn prefixed(keys: &[&[u8]]) -> Vec<u8> {
    let length = |key: &[u8]| u32::try_from(key.len()).expect("short").to_le_bytes();
    keys.iter().flat_map(|key| [&length(key), *key].concat()).collect()
}

pub fn number(value: &Value, field: &str) -> usize {
    let number = value[field].as_u64().unwrap_or_else(|| panic!("{field} of {value}"));
    usize::try_from(number).expect("a size")
}
