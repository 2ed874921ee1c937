//! PostgreSQL and Redis from Debian's packages, each for one test. `TWICESHY_POSTGRES_BIN` is the
//! directory of another PostgreSQL's programs: `initdb`, `postgres` and `psql`.
//!
//! They listen on loopback, have their data in a directory of their own, and are
//! killed when they are dropped, also by a panic. Where they are not installed the
//! tests fail and say so.

mod authority;
pub mod cluster;

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::client::Client;

pub use authority::Authority;

/// Waits until something is so, at most a minute.
pub fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < Duration::from_secs(60), "not within 60 s: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

const MISSING: &str = "is missing; install it with scripts/servers.sh";

/// Not one of those that the system gives to whoever connects somewhere (32768 and
/// above). Another test may take it before its owner does: unlikely, and then a test
/// fails.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let seed = process::id() as u16;
    let ports = std::iter::repeat_with(|| {
        10_000 + seed.wrapping_mul(61).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000
    });
    let mut free =
        ports.take(20_000).filter(|&port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    free.next().expect("a free port")
}

/// A process that ends with its owner.
struct Process(Child);

impl Process {
    fn signal(&self, name: &str) {
        let told = Command::new("kill").args(["-s", name, &self.0.id().to_string()]).status();
        assert!(told.expect("kill runs").success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A PostgreSQL server.
pub struct PostgresServer {
    port: u16,
    arguments: Vec<String>,
    programs: PathBuf,
    directory: TempDir,
    process: Option<Process>,
}

impl PostgresServer {
    /// A new and empty one.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// One with these settings: "wal_level=logical", say.
    pub fn start_with(settings: &[&str]) -> Self {
        let mut server = Self::made();
        let flags = settings.iter().flat_map(|setting| ["-c".to_string(), setting.to_string()]);
        server.arguments.extend(flags);
        server.restart();
        server
    }

    /// One with these settings, and TLS as 127.0.0.1.
    pub fn start_with_tls(authority: &Authority, settings: &[&str]) -> Self {
        let mut server = Self::made();
        let (certificate, key) = authority.sign("IP:127.0.0.1");
        for (setting, source) in [("ssl_cert_file", certificate), ("ssl_key_file", key)] {
            // It reads neither what is another's, nor a key that others can read.
            let own = server.directory.path().join(setting);
            fs::copy(source, &own).expect("a copy");
            give_to_postgres(&own);
            server.arguments.extend(["-c".into(), format!("{setting}={}", own.display())]);
        }
        for setting in ["ssl=on"].iter().chain(settings) {
            server.arguments.extend(["-c".into(), setting.to_string()]);
        }
        server.restart();
        server
    }

    fn made() -> Self {
        let debian = || {
            let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
            versions
                .filter_map(|version| Some(version.ok()?.path().join("bin")))
                .filter(|path| path.join("postgres").exists())
                .max()
        };
        let programs = env::var_os("TWICESHY_POSTGRES_BIN").map(PathBuf::from).or_else(debian);
        let programs = programs.unwrap_or_else(|| panic!("PostgreSQL {MISSING}"));
        let directory = TempDir::new().expect("a directory");
        let (port, arguments) = (free_port(), Vec::new());
        let server = PostgresServer { port, arguments, programs, directory, process: None };
        give_to_postgres(server.directory.path());
        let made = server
            .command("initdb")
            .args(["-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"])
            .arg("-D")
            .arg(server.data())
            .stdout(Stdio::null())
            .status();
        assert!(made.expect("initdb runs").success());
        server
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.directory.path().join("log")
    }

    /// A program of PostgreSQL's, which do not run as root.
    fn command(&self, program: &str) -> Command {
        let path = self.programs.join(program);
        if !is_root() {
            return Command::new(path);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]).arg(path);
        command.current_dir(self.directory.path());
        command
    }

    /// Starts it again after [`PostgresServer::kill`].
    pub fn restart(&mut self) {
        assert!(self.process.is_none(), "it runs");
        eventually("PostgreSQL answers", || {
            // It does not start while a child of the one before lives on.
            let runs = self
                .process
                .as_mut()
                .is_some_and(|process| process.0.try_wait().expect("it is ours").is_none());
            if !runs {
                self.process = Some(self.started());
            }
            self.try_sql("SELECT 1").is_ok()
        });
    }

    fn started(&self) -> Process {
        let log = File::options().create(true).append(true).open(self.log_path());
        let process = self
            .command("postgres")
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.directory.path())
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(["-c", "fsync=off", "-c", "log_statement=all"])
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        Process(process.expect("postgres runs"))
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        drop(self.process.take().expect("it runs"));
        // Its children notice, and only then may another one start.
        let lock = self.data().join("postmaster.pid");
        eventually("the port is free", || TcpStream::connect(("127.0.0.1", self.port)).is_err());
        thread::sleep(Duration::from_millis(300));
        let _ = fs::remove_file(lock);
    }

    /// Ends it at once with all its processes: an immediate shutdown.
    pub fn quit(&mut self) {
        let mut process = self.process.take().expect("it runs");
        process.signal("QUIT");
        process.0.wait().expect("it ran");
    }

    /// A copy of its data; it must not run.
    pub fn copy(&self) -> TempDir {
        let copy = TempDir::new().expect("a directory");
        copy_files(&self.data(), &copy.path().join("data"));
        copy
    }

    /// Puts a copy in place of its data; it must not run.
    pub fn put_back(&self, copy: &TempDir) {
        fs::remove_dir_all(self.data()).expect("removed");
        copy_files(&copy.path().join("data"), &self.data());
    }

    /// Makes it a standby that waits for the log of another; it must not run.
    pub fn make_standby(&self) {
        File::create(self.data().join("standby.signal")).expect("a file");
    }

    /// Lets a role in only with TLS, and with what this method asks for: "scram-sha-256", say.
    pub fn authenticate(&self, role: &str, method: &str) {
        let path = self.data().join("pg_hba.conf");
        let rest = fs::read_to_string(&path).expect("a file");
        let own = format!("hostssl all {role} all {method}\nhost all {role} all reject\n");
        fs::write(&path, own + &rest).expect("written");
        self.sql("SELECT pg_reload_conf()");
    }

    pub fn address(&self) -> String {
        format!("postgres://postgres@{}/postgres", self.host())
    }

    /// Its host and port, as addresses have them.
    pub fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Runs SQL and returns what it gave.
    pub fn sql(&self, sql: &str) -> String {
        self.try_sql(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    pub fn try_sql(&self, sql: &str) -> Result<String, String> {
        let output = Command::new(self.programs.join("psql"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres"])
            .args(["-d", "postgres", "-v", "ON_ERROR_STOP=1", "-qAt", "-c", sql])
            .output()
            .expect("psql runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_string();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Nobody reads or writes a table until what this returns is dropped.
    pub fn locked(&self, table: &str) -> impl Drop + use<> {
        let mut child = Command::new(self.programs.join("psql"))
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "postgres"])
            .args(["-d", "postgres", "-q"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("psql runs");
        let stdin = child.stdin.as_mut().expect("it is piped");
        let sql = format!("BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE;\n");
        stdin.write_all(sql.as_bytes()).expect("it reads");
        let granted = format!(
            "SELECT count(*) FROM pg_locks WHERE relation = '{table}'::regclass
             AND mode = 'AccessExclusiveLock' AND granted"
        );
        eventually("the table is locked", || self.sql(&granted) == "1");
        Process(child)
    }

    /// Statements of clients so far that begin like this.
    pub fn statements(&self, beginning: &str) -> usize {
        let log = fs::read(self.log_path()).expect("a log");
        let log = String::from_utf8_lossy(&log);
        // "LOG:  execute s1: SELECT", "LOG:  statement: SET"
        let begins = |line: &str| {
            let statement = line.split_once("LOG:  ").and_then(|(_, rest)| rest.split_once(": "));
            statement.is_some_and(|(_, statement)| statement.starts_with(beginning))
        };
        log.lines().filter(|line| begins(line)).count()
    }
}

fn copy_files(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(copied.expect("cp runs").success());
}

/// Who is root runs PostgreSQL as another, who needs its files.
fn give_to_postgres(path: &Path) {
    if is_root() {
        let owner = Command::new("chown").arg("postgres").arg(path).status();
        assert!(owner.expect("chown runs").success(), "the user postgres {MISSING}");
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout == b"0\n"
}

/// A Redis server, which keeps its records when it is killed.
pub struct RedisServer {
    port: u16,
    tls_port: Option<u16>,
    arguments: Vec<String>,
    directory: TempDir,
    process: Option<Process>,
}

impl RedisServer {
    /// A new and empty one.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    pub fn start_with(arguments: &[&str]) -> Self {
        let directory = TempDir::new().expect("a directory");
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let port = free_port();
        let mut server = RedisServer { port, tls_port: None, arguments, directory, process: None };
        server.restart();
        server
    }

    /// One with TLS at a second port, as whoever `name` says: "IP:127.0.0.1", say.
    pub fn start_with_tls(authority: &Authority, name: &str) -> Self {
        let (certificate, key) = authority.sign(name);
        let text = |path: &Path| path.to_str().expect("a plain path").to_string();
        let (certificate, key, port) = (text(&certificate), text(&key), free_port());
        let port_text = port.to_string();
        let files = ["--tls-cert-file", &certificate, "--tls-key-file", &key];
        let port_flags = ["--tls-port", &port_text, "--tls-auth-clients", "no"];
        let server = Self::start_with(&[files, port_flags].concat());
        RedisServer { tls_port: Some(port), ..server }
    }

    /// Starts it again after [`RedisServer::kill`].
    pub fn restart(&mut self) {
        assert!(self.process.is_none(), "it runs");
        let process = Command::new("redis-server")
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "yes", "--appendfsync", "no"])
            .arg("--dir")
            .arg(self.directory.path())
            .args(&self.arguments)
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("redis-server {MISSING}: {error}"));
        self.process = Some(Process(process));
        eventually("Redis answers", || {
            let pong = Client::try_connect(self.socket()).and_then(|mut c| c.try_call(&["PING"]));
            pong.is_ok_and(|pong| pong == crate::client::Value::Simple("PONG".into()))
        });
    }

    /// Ends it at once, as a crash does.
    pub fn kill(&mut self) {
        drop(self.process.take().expect("it runs"));
    }

    /// Makes it deaf, until [`RedisServer::wake`].
    pub fn freeze(&self) {
        self.process.as_ref().expect("it runs").signal("STOP");
    }

    pub fn wake(&self) {
        self.process.as_ref().expect("it runs").signal("CONT");
    }

    fn socket(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    pub fn tls_address(&self) -> String {
        format!("rediss://127.0.0.1:{}/0", self.tls_port.expect("it has TLS"))
    }

    pub fn client(&self) -> Client {
        Client::connect(self.socket())
    }

    /// Keys that a filter in front of it has looked up so far. Each lookup begins with one of
    /// these; a key that is missing costs a GET more.
    pub fn lookups(&self) -> u64 {
        self.calls("getrange") + self.calls("exists")
    }

    /// How often a command was called so far.
    pub fn calls(&self, command: &str) -> u64 {
        self.count("commandstats", &format!("cmdstat_{command}:calls="))
    }

    /// How often it has answered with an error so far.
    pub fn errors(&self, code: &str) -> u64 {
        self.count("errorstats", &format!("errorstat_{code}:count="))
    }

    /// The number that follows `begin` in a section of INFO.
    fn count(&self, section: &str, begin: &str) -> u64 {
        let info = self.client().line(&format!("INFO {section}"));
        let crate::client::Value::Bulk(text) = info else { panic!("{info:?}") };
        let text = String::from_utf8(text).expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(begin));
        line.map_or(0, |line| line.split(',').next().expect("some").parse().expect("a number"))
    }
}

/// A path that has nothing in it yet.
pub fn new_directory(parent: &TempDir, name: &str) -> PathBuf {
    let path: &Path = parent.path();
    path.join(name)
}
