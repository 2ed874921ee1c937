//! The server as a process of its own.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::client::Client;

/// A process that ends with its test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that ends with its test.
pub struct Process {
    pub address: SocketAddr,
    child: Running,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

/// A program without variables of ours, which are settings of a server.
pub fn unset(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    let names = env::vars_os().map(|(name, _)| name);
    for name in names.filter(|name| name.to_string_lossy().starts_with("TWICESHY_")) {
        command.env_remove(name);
    }
    command
}

/// `twiceshy` with a verb.
pub fn twiceshy(verb: &str) -> Command {
    let mut command = unset(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg(verb);
    command
}

/// `twiceshy serve` in a directory, with flags that are separated by spaces.
pub fn command(directory: &Path, flags: &str) -> Command {
    let mut command = twiceshy("serve");
    command.arg("--dir").arg(directory).args(flags.split_whitespace());
    command
}

/// Sends a signal, "TERM" say.
pub fn send(signal: &str, child: &Child) {
    let sent = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

impl Process {
    /// Starts one on a free port, unless the flags say where, and waits until it
    /// is ready.
    pub fn start(directory: &Path, flags: &str) -> Process {
        let listen = if flags.contains("--listen") { "" } else { "--listen 127.0.0.1:0" };
        Self::started(command(directory, &format!("{listen} {flags}")))
    }

    /// [`Process::start`] with so many threads, whatever the machine has.
    pub fn start_on(directory: &Path, flags: &str, threads: usize) -> Process {
        let mut command = command(directory, &format!("--listen 127.0.0.1:0 {flags}"));
        command.env("TOKIO_WORKER_THREADS", threads.to_string());
        Self::started(command)
    }

    /// [`Process::start`] by another program, "nohup" say, which becomes the server.
    pub fn start_by(program: &str, directory: &Path, flags: &str) -> Process {
        let served = command(directory, &format!("--listen 127.0.0.1:0 {flags}"));
        let mut command = unset(program);
        command.arg(served.get_program()).args(served.get_args()).stdout(Stdio::null());
        Self::started(command)
    }

    /// Starts a server by its whole command line, and waits until it is ready.
    pub fn started(mut command: Command) -> Process {
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = Running(child.expect("the binary runs"));
        let mut stderr = BufReader::new(child.0.stderr.take().expect("it is piped"));
        let mut text = String::new();
        let address = loop {
            let from = text.len();
            if stderr.read_line(&mut text).expect("text") == 0 {
                panic!("the server did not start: {text}");
            }
            let line = &text[from..];
            if line.contains(" ready ") {
                let after = line.split("address=").nth(1).expect("it says where");
                break after.split_whitespace().next().and_then(|text| text.parse().ok());
            }
        };
        let log = Arc::new(Mutex::new(text));
        // Who does not read it stops it.
        let reader = thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in stderr.lines().map_while(Result::ok) {
                    *log.lock().expect("no panic") += &(line + "\n");
                }
            }
        });
        Process { address: address.expect("an address"), child, log, reader: Some(reader) }
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("no panic").clone()
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.child.0.kill().expect("it runs");
        self.child.0.wait().expect("it ran");
    }

    /// Sends a signal and goes on.
    pub fn signal(&self, name: &str) {
        send(name, &self.child.0);
    }

    /// Sends a signal, "TERM" say, and waits for the end: the status and the log.
    pub fn stop(mut self, signal: &str) -> (ExitStatus, String) {
        send(signal, &self.child.0);
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.0.try_wait().expect("a child") {
                break status;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "it does not stop: {}", self.log());
            thread::sleep(Duration::from_millis(10));
        };
        self.reader.take().expect("once").join().expect("no panic");
        (status, self.log())
    }

    /// Memory that it uses now, in MiB.
    pub fn mebibytes(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The most memory that it has ever used, in MiB.
    pub fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Memory that it has asked for, used or not, in MiB.
    pub fn allocated(&self) -> u64 {
        self.status("VmData:")
    }

    fn status(&self, field: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.0.id()));
        let status = status.expect("Linux tells");
        let line = status.lines().find(|line| line.starts_with(field)).expect("a size");
        let kilobytes = line.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok());
        kilobytes.expect("a number") >> 10
    }

    /// Files that it has open.
    pub fn files(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.0.id())).expect("Linux tells").count()
    }
}

/// A small generator with a seed.
pub struct Random(pub u64);

impl Random {
    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        // SplitMix64; the remainder's bias does not matter here.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % end
    }
}
