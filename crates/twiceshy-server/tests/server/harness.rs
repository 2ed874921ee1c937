//! A server in this process, and programs of others.

use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use twiceshy::store::{Durability, Options, Redb};
use twiceshy_server::demo::Demo;
use twiceshy_server::{Backend, Embedded, Limits, Password, Server, serve};

use crate::client::Client;

/// A server that ends with its test.
pub struct Running {
    pub address: SocketAddr,
    pub server: Arc<Server>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    _directory: TempDir,
}

pub fn start() -> Running {
    start_with(Limits::default(), None)
}

pub fn start_with(limits: Limits, password: Option<&str>) -> Running {
    start_in(TempDir::new().expect("a directory"), limits, password)
}

/// A server whose page is that of a demonstration.
pub fn start_demo() -> Running {
    start_as(TempDir::new().expect("a directory"), Limits::default(), None, Some(Demo::default()))
}

pub fn start_in(directory: TempDir, limits: Limits, password: Option<&str>) -> Running {
    start_as(directory, limits, password, None)
}

fn start_as(
    directory: TempDir,
    limits: Limits,
    password: Option<&str>,
    demo: Option<Demo>,
) -> Running {
    // Nothing here is about the loss of power.
    // Little room, so that tests with 2000 keys surely see false positives: 40 of 20,000.
    let options = Options::default().durability(Durability::Process).capacity(2000);
    let store = options.open::<Redb>(directory.path()).expect("an empty store");
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("a free port");
    let address = listener.local_addr().expect("an address");
    let backend = Backend::Embedded(Embedded::new(store));
    let mut server = Server::new(backend, limits, password.map(Password::new));
    server.demo = demo;
    let server = Arc::new(server);
    let (stop, stopped) = oneshot::channel();
    let thread = thread::spawn({
        let server = Arc::clone(&server);
        move || {
            runtime.block_on(serve(listener, server, async {
                let _ = stopped.await;
            }));
        }
    });
    Running { address, server, stop: Some(stop), thread: Some(thread), _directory: directory }
}

impl Running {
    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// Stops it and waits for its end.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the server does not panic");
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.stop();
        }
    }
}

/// Waits until something is so, at most ten seconds.
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not within 60 s: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a program of others can be run. Where tests must not be left out, it
/// has to be there.
pub fn have(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    let required =
        ["CI", "TWICESHY_REQUIRE_SERVERS"].iter().any(|name| env::var_os(name).is_some());
    assert!(found || !required, "{program} is missing; install it with scripts/servers.sh");
    if !found {
        eprintln!("SKIPPED: {program} is missing; install it with scripts/servers.sh");
    }
    found
}

/// The Python that scripts/servers.sh has put redis-py into.
pub fn python() -> PathBuf {
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or(workspace.join("target"), PathBuf::from);
    target.join("venv/bin/python")
}

/// A Redis that ends with its test.
pub struct Redis {
    pub address: SocketAddr,
    process: Child,
    _directory: TempDir,
}

/// A real Redis on a free port; `None` where there is none and need not be one.
pub fn redis() -> Option<Redis> {
    if !have("redis-server") {
        return None;
    }
    let directory = TempDir::new().expect("a directory");
    // Somebody else may take the port before it does: then another.
    for _ in 0..10 {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = free.local_addr().expect("an address");
        drop(free);
        let mut process = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server runs");
        for _ in 0..500 {
            let alive = process.try_wait().expect("a child").is_none();
            if alive && Client::try_connect(address).is_ok() {
                return Some(Redis { address, process, _directory: directory });
            }
            if !alive {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let _ = process.kill();
        let _ = process.wait();
    }
    panic!("redis-server does not start; run it by hand and see why");
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
