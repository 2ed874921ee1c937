//! `twiceshy serve`: a store behind an adaptive filter, for every Redis client.

mod upstream;

use std::error::Error;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use tempfile::TempDir;
use tokio::net::{TcpListener, lookup_host};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tracing::info;
use tracing::level_filters::LevelFilter;
use twiceshy_server::demo::{self, Attack};
use twiceshy_server::{Backend, Embedded, Limits, Password, Server, Watch, may_listen, serve_page};
use twiceshy_store::{Durability, Options, Redb};

use crate::progress::Progress;

use upstream::UpstreamArgs;

/// Serves a store behind an adaptive filter to every Redis client.
///
/// Keys that are not stored are answered from memory; one that had to be looked
/// up is not looked up again. It speaks RESP2 and RESP3 and knows GET, SET, DEL,
/// EXISTS, MGET, MSET, DBSIZE, INFO and what clients say to greet each other.
/// SET has no options: nothing expires. TS.STATS has the filter's counts,
/// TS.SNAPSHOT writes it to disk.
///
/// With --page there is a page for people, which shows what the filter does, and
/// /metrics for Prometheus. --demo shows all of it at once: a store of a million
/// users, a crowd that asks for them, and an attacker who asks for others.
///
/// With --store the filter stands in front of a store of yours: a table of
/// PostgreSQL, which is only read, or a Redis server, to which writes are passed on.
/// Whoever writes to it otherwise says TS.ADDED KEY before and TS.REMOVED KEY after;
/// a key that was added without is denied until the next resync.
///
/// TLS to that store: rediss://..., or postgres://...?sslmode=require, which is the
/// same as verify-full here: the certificate is always verified, its name too, where
/// psql does so for verify-full alone. With sslmode=prefer TLS is used if the server
/// has it. With --store-ca both are as require; without, no sslmode is as disable if
/// the server is on this machine, and as prefer elsewhere.
///
/// SIGTERM and SIGINT end it: requests that have come are answered, and the
/// filter is written to disk, so that the next start has it at once.
///
/// Exit code: 0; 2 if it could not start, or its last snapshot was not written
/// (nothing that was stored is lost then; the next start takes longer).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy serve --demo
  twiceshy serve --dir data
  twiceshy serve --dir shield --store redis://127.0.0.1:6379 --resync 3600
  twiceshy serve --dir shield --store postgres://me@127.0.0.1/shop --table users --key email
  twiceshy serve --dir shield --store rediss://cache.example:6380 --store-ca ca.pem
  twiceshy serve --dir data --listen 0.0.0.0:6390 --password-file secret.txt
  redis-cli -p 6390 set user:1 Ada
  redis-cli -p 6390 get user:2
  redis-cli -p 6390 ts.stats")]
pub struct Args {
    /// Directory of the store and its filter; made if it is not there
    #[arg(long, value_name = "DIR", required_unless_present = "demo")]
    dir: Option<PathBuf>,

    /// Store a million users, or N, in an empty DIR or a temporary one, attack
    /// them, and show the page
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1000000",
        value_parser = clap::value_parser!(u64).range(1..),
    )]
    demo: Option<u64>,

    /// Where to listen; beyond this machine only with a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6390")]
    listen: String,

    /// Where to show the live page and /metrics; beyond this machine only with a
    /// password [default: nowhere; with --demo: 127.0.0.1:6391]
    #[arg(long, value_name = "ADDRESS")]
    page: Option<String>,

    /// File whose first line is the password [default: the environment's
    /// TWICESHY_PASSWORD, or none]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Keys to make room for at first; the filter grows with its keys
    #[arg(long, value_name = "N", default_value_t = 1 << 16)]
    capacity: usize,

    /// What a write that was answered survives
    #[arg(long, value_enum, default_value_t = Survives::Power)]
    durability: Survives,

    /// Most MiB of a request
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = mebibytes())]
    max_request: u64,

    /// Most MiB of one key or value
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = mebibytes())]
    max_bulk: u64,

    /// Most MiB of one reply, and of replies that wait until a client reads them
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = mebibytes())]
    max_reply: u64,

    /// Most MiB of requests and replies of all clients together, beyond 64 KiB for each
    /// client; what has no room is refused with an error that begins with OOM
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    max_memory_clients: u64,

    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,

    /// Seconds after which a client that neither sends nor reads is left; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    idle: u64,

    /// What to log to stderr: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LevelFilter,

    #[command(flatten)]
    upstream: UpstreamArgs,
}

/// What a write that was answered survives.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Survives {
    /// A loss of power: each write waits for the disk
    Power,
    /// The end of this process at any moment, and no more
    Process,
}

fn mebibytes() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=4095)
}

pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    tracing_subscriber::fmt()
        .with_max_level(args.log)
        .with_writer(io::stderr)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false)
        .init();
    let runtime = Runtime::new()?;
    runtime.block_on(serve(args))?;
    // What still runs belongs to clients that do not read.
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

async fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    let password = password(args)?;
    if args.demo.is_some() && password.is_some() {
        return Err(format!(
            "--demo is for this machine alone: unset {PASSWORD} and leave --password-file out"
        )
        .into());
    }
    // Before the store is opened, which may take long: whoever stops us then
    // stops us at once.
    let listener = bound("--listen", &args.listen, password.as_ref()).await?;
    let page = match args.page.as_deref().or(args.demo.map(|_| DEMO_PAGE)) {
        Some(address) => Some(bound("--page", address, password.as_ref()).await?),
        None => None,
    };
    // Only what is temporary must be removed first.
    let early = args.demo.map(|_| Stop::new()).transpose()?;
    let temporary =
        if args.dir.is_none() { Some(TempDir::with_prefix("twiceshy-")?) } else { None };
    let directory = args.dir.as_deref().or(temporary.as_ref().map(TempDir::path));
    let directory = directory.expect("--dir is required without --demo");
    let backend = match args.upstream.backend(directory).await? {
        Some(backend) => backend,
        None => embedded(args, directory)?,
    };
    let server = Arc::new(Server::new(backend, limits(args), password));
    let stop = early.map_or_else(Stop::new, Ok)?;
    let address = listener.local_addr()?;
    info!(%address, keys = server.backend.stats().keys, "ready");
    let page = page.map(|listener| Page::start(listener, &server)).transpose()?;
    let attack = args.demo.map(|keys| Attack::start(address, Arc::clone(&server), keys));
    if let (Some(_), Some(page)) = (&attack, &page) {
        invite(address, page.address);
    }
    let shutdown = async {
        stop.asked().await;
        // While it is still answered.
        attack.into_iter().for_each(Attack::stop);
    };
    twiceshy_server::serve(listener, Arc::clone(&server), shutdown).await;
    if let Some(page) = page {
        page.stop().await;
    }
    match Arc::try_unwrap(server) {
        Ok(server) => server.backend.close().await?,
        Err(server) => server.backend.snapshot().await?,
    }
    if let Some(temporary) = temporary {
        temporary.close()?;
    }
    info!("stopped");
    Ok(())
}

/// Listens where a flag says, if that is allowed.
async fn bound(
    flag: &str,
    address: &str,
    password: Option<&Password>,
) -> Result<TcpListener, String> {
    let address = resolved(flag, address).await?;
    may_listen(address, password).map_err(|reason| format!("{flag} {reason}"))?;
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; try another {flag}"))
}

/// Where a demonstration is shown.
const DEMO_PAGE: &str = "127.0.0.1:6391";

/// SIGTERM or SIGINT.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// From now on they are ours.
    fn new() -> io::Result<Self> {
        let (terminate, interrupt) = (SignalKind::terminate(), SignalKind::interrupt());
        Ok(Stop { terminate: signal(terminate)?, interrupt: signal(interrupt)? })
    }

    /// Waits for one of them.
    async fn asked(mut self) {
        tokio::select! {
            _ = self.terminate.recv() => (),
            _ = self.interrupt.recv() => (),
        }
        info!("stopping");
    }
}

/// The page, until it is stopped.
struct Page {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Page {
    fn start(listener: TcpListener, server: &Arc<Server>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let watch = Arc::new(Watch::new(Arc::clone(server)));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(serve_page(listener, watch, async {
            let _ = stopped.await;
        }));
        info!(url = %format_args!("http://{address}/"), "page");
        Ok(Page { address, stop, task })
    }

    async fn stop(self) {
        drop(self.stop);
        // If it panicked, that was said where it happened.
        let _ = self.task.await;
    }
}

/// Says what there is to see.
fn invite(address: SocketAddr, page: SocketAddr) {
    let port = address.port();
    println!(
        "Open  http://{page}/\n\n\
         Try   redis-cli -p {port} GET user:42\n      \
         redis-cli -p {port} GET nobody\n      \
         redis-cli -p {port} TS.STATS\n\n\
         Ctrl-C stops it."
    );
}

/// A store of our own.
fn embedded(args: &Args, directory: &Path) -> Result<Backend, Box<dyn Error>> {
    let durability = match args.durability {
        Survives::Power => Durability::Power,
        Survives::Process => Durability::Process,
    };
    let options = Options::default().capacity(args.capacity).durability(durability);
    let progress = Progress::new(0);
    let store = match args.demo {
        Some(keys) => {
            progress.phase("storing users");
            let options = options.durability(Durability::Process);
            options.build::<Redb, _, _>(directory, demo::records(keys), &mut |done, _| {
                progress.arrive_of(done, keys);
            })
        }
        None => {
            progress.phase("building the filter");
            options.open_with::<Redb>(directory, &mut |done, total| {
                progress.arrive_of(done, total);
            })
        }
    };
    progress.finish();
    let store = store?;
    info!(directory = %directory.display(), filter = ?store.opened(), "opened");
    Ok(Backend::Embedded(Embedded::new(store)))
}

fn limits(args: &Args) -> Limits {
    let bytes = |mebibytes: u64| usize::try_from(mebibytes << 20).unwrap_or(usize::MAX);
    Limits {
        request: bytes(args.max_request),
        bulk: bytes(args.max_bulk),
        reply: bytes(args.max_reply),
        memory: bytes(args.max_memory_clients),
        connections: args.max_connections,
        idle: (args.idle > 0).then(|| Duration::from_secs(args.idle)),
    }
}

/// The environment variable of the password: unlike a flag, others cannot see it.
const PASSWORD: &str = "TWICESHY_PASSWORD";

fn password(args: &Args) -> Result<Option<Password>, String> {
    let (text, source) = match &args.password_file {
        Some(path) => {
            let text = fs::read_to_string(path)
                .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            (text, path.display().to_string())
        }
        None => match std::env::var(PASSWORD) {
            Ok(text) => (text, PASSWORD.into()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(format!("{PASSWORD}: {error}")),
        },
    };
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(Some(Password::new(line))),
        _ => Err(format!("the password of {source} is empty; write one in its first line")),
    }
}

async fn resolved(flag: &str, address: &str) -> Result<SocketAddr, String> {
    let unusable = |reason: String| {
        format!("{flag} {address}: {reason}; expected an address and a port, as 127.0.0.1:6390")
    };
    let mut found = lookup_host(address).await.map_err(|error| unusable(error.to_string()))?;
    found.next().ok_or_else(|| unusable("no such host".into()))
}
