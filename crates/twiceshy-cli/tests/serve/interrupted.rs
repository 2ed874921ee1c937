//! Signals before the server is ready: it ends at once, and a demonstration leaves nothing.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::{Running, send, twiceshy};
use crate::upstreams::eventually;

impl Running {
    fn start(temporary: &Path, flags: &str) -> Self {
        let mut command = serve(temporary, flags);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        Running(child.expect("the binary runs"))
    }

    /// Waits until a demonstration says where its page is.
    fn wait_until_ready(&mut self) {
        let mut line = String::new();
        let mut said = BufReader::new(self.0.stdout.take().expect("once"));
        said.read_line(&mut line).expect("text");
        assert!(line.starts_with("Open"), "{line}");
    }

    /// Sends a signal to a process that is not ready yet, and has nothing to finish.
    fn interrupt(&mut self, signal: &str) -> ExitStatus {
        self.end(signal, SOON)
    }

    /// Sends SIGINT to one that serves. It finishes requests and waits for the disk, which
    /// takes 50 ms; if it left its own attacker unanswered, it would take 10 s.
    fn stop(&mut self) -> ExitStatus {
        self.end("INT", Duration::from_secs(8))
    }

    fn end(&mut self, signal: &str, limit: Duration) -> ExitStatus {
        send(signal, &self.0);
        let begin = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return status;
            }
            assert!(begin.elapsed() < limit, "{signal} has not ended it after {limit:?}");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

/// An interrupt promises an end within a second, and takes 10 to 40 ms here: it waits
/// neither for the build nor for the disk. The rest is for machines that run many tests at
/// once. A build of [`MANY`] that went on to its end would take minutes.
const SOON: Duration = Duration::from_secs(3);

fn serve(temporary: &Path, flags: &str) -> Command {
    let mut command = twiceshy("serve");
    command.args(["--listen", "127.0.0.1:0", "--page", "127.0.0.1:0"]);
    command.args(flags.split_whitespace()).env("TMPDIR", temporary);
    command
}

/// So many users take minutes to store.
const MANY: &str = "--demo=20000000";

/// What is in a directory, by name.
fn entries(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("a directory");
    entries.map(|entry| entry.expect("one").file_name().into_string().expect("text")).collect()
}

/// Waits until records are being written below a directory: an empty file has 1.5 MiB.
fn wait_until_it_stores(directory: &Path) {
    let is_large = |path: &Path| fs::metadata(path).is_ok_and(|file| file.len() > 8 << 20);
    eventually("records are written", || {
        let below = fs::read_dir(directory).into_iter().flatten().flatten();
        let mut below = below.map(|entry| entry.path().join("records.redb"));
        is_large(&directory.join("records.redb")) || below.any(|path| is_large(&path))
    });
}

#[test]
fn a_demonstration_that_is_stored_is_interrupted_and_leaves_nothing() {
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let temporary = TempDir::new().expect("a directory");
        let mut demo = Running::start(temporary.path(), MANY);
        wait_until_it_stores(temporary.path());
        assert_eq!(demo.interrupt(signal).code(), Some(code), "{signal}");
        assert!(entries(temporary.path()).is_empty(), "{:?}", entries(temporary.path()));
    }
}

#[test]
fn an_interrupted_demonstration_leaves_a_named_directory_as_it_was() {
    let temporary = TempDir::new().expect("a directory");
    for there_before in [false, true] {
        let data = temporary.path().join("data");
        if there_before {
            fs::create_dir(&data).expect("a directory");
        }
        let mut demo =
            Running::start(temporary.path(), &format!("{MANY} --dir {}", data.display()));
        wait_until_it_stores(&data);
        assert_eq!(demo.interrupt("INT").code(), Some(130));
        assert_eq!(data.exists(), there_before);
        assert!(!there_before || entries(&data).is_empty());
    }
    // What it did not make itself it does not remove.
    let data = temporary.path().join("data");
    fs::write(data.join("mine"), "precious").expect("a file");
    let mut demo = Running::start(temporary.path(), &format!("{MANY} --dir {}", data.display()));
    wait_until_it_stores(&data);
    assert_eq!(demo.interrupt("TERM").code(), Some(143));
    assert!(data.join("mine").exists());
}

/// The directory is ours only in part if somebody else puts a file into it.
#[test]
fn a_file_that_appears_during_the_build_survives_the_interrupt() {
    let temporary = TempDir::new().expect("a directory");
    for there_before in [false, true] {
        let data = temporary.path().join(format!("data-{there_before}"));
        if there_before {
            fs::create_dir(&data).expect("a directory");
        }
        let mut demo =
            Running::start(temporary.path(), &format!("{MANY} --dir {}", data.display()));
        wait_until_it_stores(&data);
        fs::write(data.join("mine"), "precious").expect("a file");
        assert_eq!(demo.interrupt("INT").code(), Some(130));
        assert_eq!(entries(&data), ["mine"]);
    }
}

/// Only directories that a demonstration marked as temporary are taken for its remains:
/// not one that `--dir` named, whatever its name, and none with files of others.
#[test]
fn directories_that_only_look_like_remains_are_kept() {
    let temporary = TempDir::new().expect("a directory");
    let at = |path: &str| temporary.path().join(format!("twiceshy-demo-{path}"));
    let flags = format!("--demo=1000 --dir {}", at("mine").display());
    let mut named = Running::start(temporary.path(), &flags);
    named.wait_until_ready();
    assert_eq!(named.stop().code(), Some(0));
    // Marked and unlocked, but not as a demonstration leaves them.
    for [directory, other] in [["file", "notes"], ["folder", "records.redb"]] {
        fs::create_dir(at(directory)).expect("a directory");
        for name in ["demo", "lock"] {
            fs::write(at(directory).join(name), "").expect("a file");
        }
        fs::create_dir(at(directory).join(other)).expect("a directory");
        fs::write(at(directory).join(other).join("mine"), "precious").expect("a file");
    }
    fs::create_dir(at("link")).expect("a directory");
    fs::write(at("link").join("demo"), "").expect("a file");
    std::os::unix::fs::symlink(at("mine").join("lock"), at("link").join("lock")).expect("a link");

    let mut next = Running::start(temporary.path(), "--demo=1000");
    next.wait_until_ready();
    assert_eq!(next.stop().code(), Some(0));
    for kept in
        ["mine/records.redb", "mine/secret", "file/notes/mine", "folder/records.redb/mine", "link"]
    {
        assert!(at(kept).exists(), "{kept} is gone");
    }
}

/// SIGKILL leaves a directory. The next demonstration removes that one, and no other.
#[test]
fn what_a_killed_demonstration_left_is_removed_by_the_next() {
    let temporary = TempDir::new().expect("a directory");
    let mut killed = Running::start(temporary.path(), MANY);
    wait_until_it_stores(temporary.path());
    killed.0.kill().expect("it runs");
    killed.0.wait().expect("it ran");
    let [left] = &entries(temporary.path())[..] else { panic!("one directory is left") };
    for other in ["twiceshy-demo-empty", "twiceshy-other"] {
        fs::create_dir(temporary.path().join(other)).expect("a directory");
    }
    fs::write(temporary.path().join("twiceshy-other/lock"), "").expect("a file");

    let mut first = Running::start(temporary.path(), "--demo=1000");
    first.wait_until_ready();
    assert!(!entries(temporary.path()).contains(left), "it is removed");
    assert_eq!(entries(temporary.path()).len(), 3, "and nothing else");
    let mut second = Running::start(temporary.path(), "--demo=1000");
    second.wait_until_ready();
    assert_eq!(entries(temporary.path()).len(), 4, "one that runs is left alone");
    for mut demo in [first, second] {
        assert_eq!(demo.stop().code(), Some(0));
    }
    assert_eq!(entries(temporary.path()).len(), 2);
}

/// Of a store that does not answer, and never will.
#[test]
fn waiting_for_a_store_is_interrupted() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let directory = TempDir::new().expect("a directory");
        let data = directory.path().join("data");
        let flags =
            format!("--dir {} --store redis://{address} --store-timeout 3600", data.display());
        let mut server = Running::start(directory.path(), &flags);
        // It has connected, so it waits for an answer.
        let _waiting = silent.accept().expect("a connection");
        assert_eq!(server.interrupt(signal).code(), Some(code), "{signal}");
    }
}

#[test]
fn a_demonstration_has_an_end() {
    let temporary = TempDir::new().expect("a directory");
    for flags in ["--demo=100000001", "--demo=18446744073709551615"] {
        let output = serve(temporary.path(), flags).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{flags}");
        let error = String::from_utf8(output.stderr).expect("text");
        assert!(error.contains("1..=100000000"), "{error}");
    }
    // An error after the directory was made.
    let output = serve(temporary.path(), "--demo=1000 --table users").output();
    assert_eq!(output.expect("the binary runs").status.code(), Some(2));
    assert!(entries(temporary.path()).is_empty(), "{:?}", entries(temporary.path()));
}
