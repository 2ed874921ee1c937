//! `twiceshy serve`: a store behind an adaptive filter, for every Redis client.

mod check;
mod listen;
mod own;
mod page;
mod scratch;
mod settings;
mod stop;
mod upstream;

use std::error::Error;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{ArgMatches, Command, ValueEnum};
use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;
use tracing::level_filters::LevelFilter;
use tracing::{error, info, warn};
use twiceshy_server::demo::{self, Attack, Demo};
use twiceshy_server::{Backend, Limits, Password, Server};

use listen::{PASSWORD, bound, password};
use own::Own;
use page::{DEMO_PAGE, Page, invite};
use scratch::{Build, Scratch};
pub use settings::Settings;
use settings::unknown_variables;
use stop::Stop;
use upstream::UpstreamArgs;

use super::amounts;

/// Serves a store behind an adaptive filter to every Redis client.
///
/// The filter answers lookups of missing keys from memory. A false positive reads the store
/// once, and the filter adapts. The server speaks RESP2 and RESP3 and supports GET, SET, DEL,
/// EXISTS, MGET, MSET, DBSIZE, INFO and the commands that clients send when they connect. There
/// are no transactions, and nothing expires in its own store. TS.STATS returns the filter's counts, TS.SNAPSHOT writes the
/// filter to disk, and TS.BACKUP NAME copies the store while it is served (with --backup-dir).
///
/// --page adds a live page that shows what the filter does, /metrics for Prometheus, and
/// /healthz and /readyz: is the process alive, can the filter and its store be relied on. --demo
/// shows all of it at once: a store of a million users, a crowd that looks them up, and an
/// attacker who looks up missing ones.
///
/// With --store the filter stands in front of your own store: a PostgreSQL table, which
/// is only read, or a Redis server, to which writes are passed on, with the options of SET and
/// SETEX, SETNX, GETDEL, INCR, DECR, EXPIRE, TTL, TYPE, STRLEN, GETRANGE and UNLINK. If you
/// write to that store directly, send TS.ADDED KEY before each insert; otherwise the key reads as
/// missing until the next resync. Send TS.REMOVED KEY after each delete. With --follow the server
/// learns of changes from the store itself, and neither is needed (docs/guide/postgresql.md).
///
/// For TLS to that store use rediss://... or postgres://...?sslmode=require. The server
/// always verifies the certificate and its host name, so require means what verify-full
/// means to psql. sslmode=prefer uses TLS if PostgreSQL offers it; with --store-ca it
/// means require. Without sslmode, --store-ca means require; otherwise the default is
/// disable for a server on this machine and prefer for any other.
///
/// Every flag can also be set in a TOML file (--config) by its name without the dashes in front, as
/// in max-lag = 50, and in the environment: TWICESHY_MAX_LAG is --max-lag, and true stands for a
/// flag without a value. The command line overrides the environment, and the environment overrides
/// the file. --check-config shows each setting and where it comes from.
///
/// SIGTERM, SIGINT and SIGHUP (unless nohup ignores it) stop the server: it answers the requests that it has received and
/// writes the filter to disk, so that the next start is fast. While it is still building
/// its filter it stops at once, and the next start begins again.
///
/// Exit code: 0; 2 if it could not start, or could not write its last snapshot (then no
/// data is lost, but the next start takes longer); 129 after SIGHUP, 130 after SIGINT and 143
/// after SIGTERM if it was not ready yet.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy serve --demo
  twiceshy serve --dir data
  twiceshy serve --dir shield --store redis://127.0.0.1:6379 --resync 3600
  twiceshy serve --dir shield --store postgres://me@127.0.0.1/shop --table users --key email
  twiceshy serve --dir shield --store postgres://me@127.0.0.1/shop --table users --key email --follow
  twiceshy serve --dir shield --store rediss://cache.example:6380 --store-ca ca.pem
  twiceshy serve --dir data --listen 0.0.0.0:6390 --password-file secret.txt
  twiceshy serve --config /etc/twiceshy/twiceshy.toml --check-config
  redis-cli -p 6390 set user:1 Ada
  redis-cli -p 6390 get user:2
  redis-cli -p 6390 ts.stats")]
pub struct Args {
    /// Directory of the store and its filter; created if it does not exist
    #[arg(long, value_name = "DIR", required_unless_present = "demo")]
    dir: Option<PathBuf>,

    /// Store a million users, or N up to 100000000, in an empty DIR or a temporary
    /// one, attack them, and show the page
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1000000",
        value_parser = clap::value_parser!(u64).range(1..=demo::MOST_USERS),
    )]
    demo: Option<u64>,

    /// Where to listen; beyond this machine only with a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6390")]
    listen: String,

    /// Where to show the live page and /metrics; beyond this machine only with a
    /// password [default: nowhere; with --demo: 127.0.0.1:6391]
    #[arg(long, value_name = "ADDRESS")]
    page: Option<String>,

    /// File whose first line is the password [default: TWICESHY_PASSWORD in the
    /// environment, or none]
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,

    /// Directory in which TS.BACKUP NAME makes copies of the store; it is created if it does not
    /// exist [default: no backups]
    #[arg(long, value_name = "DIR")]
    backup_dir: Option<PathBuf>,

    /// Initial room for this many keys; the filter grows as needed
    #[arg(long, value_name = "N", default_value_t = 1 << 16, value_parser = room)]
    capacity: usize,

    /// What an acknowledged write survives
    #[arg(long, value_enum, default_value_t = Survives::Power)]
    durability: Survives,

    /// Most MiB per request
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = mebibytes())]
    max_request: u64,

    /// Most MiB per key or value
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = mebibytes())]
    max_bulk: u64,

    /// Most MiB per reply, and per client of replies that it has not read yet
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = mebibytes())]
    max_reply: u64,

    /// Most MiB of requests and replies of all clients together, beyond 64 KiB per client;
    /// requests that do not fit get an OOM error
    #[arg(long, value_name = "MIB", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    max_memory_clients: u64,

    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections,
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000))]
    max_connections: usize,

    /// Seconds after which a client that neither sends nor reads is disconnected; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 300,
          value_parser = clap::value_parser!(u64).range(..=365 * 24 * 60 * 60))]
    idle: u64,

    /// What to log to stderr: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LevelFilter,

    /// How to log
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,

    /// TOML file of settings: these flags without their dashes [default: TWICESHY_CONFIG in the
    /// environment, or none]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Check the settings, without connecting to anything, print them with where they are
    /// set, and end
    #[arg(long)]
    check_config: bool,

    #[command(flatten)]
    upstream: UpstreamArgs,
}

/// Filters of so many keys take some 150 GB.
const MOST_KEYS: u64 = 100_000_000_000;

/// What an acknowledged write survives.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Survives {
    /// A loss of power: each write waits for the disk
    Power,
    /// A crash of this process, but not of the machine
    Process,
}

fn mebibytes() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=4095)
}

/// How events are logged.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum LogFormat {
    /// Lines for people
    Text,
    /// An object of JSON per line
    Json,
}

/// Serves, or checks the settings: `matches` are those of `serve`, which `command` is.
pub fn run(
    args: &Args,
    settings: &Settings,
    command: &Command,
    matches: &ArgMatches,
) -> Result<ExitCode, Box<dyn Error>> {
    if args.check_config {
        Runtime::new()?.block_on(check::check(args, settings, command, matches))?;
        return Ok(ExitCode::SUCCESS);
    }
    log_as(args.log_format, args.log);
    for variable in unknown_variables(command) {
        warn!(variable, "an unknown variable of the environment is ignored");
    }
    run_logged(args).or_else(|failure| match args.log_format {
        LogFormat::Text => Err(failure),
        LogFormat::Json => {
            error!(%failure, "the server has failed");
            Ok(ExitCode::from(crate::USAGE))
        }
    })
}

/// The value of `--capacity`.
fn room(text: &str) -> Result<usize, String> {
    let keys = amounts::keys(text).ok().filter(|keys| *keys <= MOST_KEYS);
    keys.and_then(|keys| usize::try_from(keys).ok()).ok_or_else(|| {
        format!("expected a number of keys from 1 to {MOST_KEYS}, such as 250k or 1M")
    })
}

fn log_as(format: LogFormat, level: LevelFilter) {
    let logger =
        tracing_subscriber::fmt().with_max_level(level).with_writer(io::stderr).with_target(false);
    match format {
        LogFormat::Text => logger.with_ansi(io::stderr().is_terminal()).init(),
        LogFormat::Json => logger.json().flatten_event(true).init(),
    }
}

fn run_logged(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let runtime = Runtime::new()?;
    match runtime.block_on(serve(args))? {
        None => {
            // What still runs belongs to clients that do not read.
            runtime.shutdown_timeout(Duration::from_secs(1));
            Ok(ExitCode::SUCCESS)
        }
        Some(signal) => {
            // Only an abandoned build may still run.
            runtime.shutdown_background();
            Ok(ExitCode::from(SIGNALLED + signal))
        }
    }
}

/// The exit code of a process that a signal ended: this plus the signal's number.
const SIGNALLED: u8 = 128;

/// Serves until a signal comes. A signal before it was ready is returned.
async fn serve(args: &Args) -> Result<Option<u8>, Box<dyn Error>> {
    // Before anything that takes long.
    let mut stop = Stop::new()?;
    let password = password(args.password_file.as_deref())?;
    is_allowed(args, password.as_ref())?;
    if let Some(directory) = &args.backup_dir {
        std::fs::create_dir_all(directory).map_err(|error| {
            format!("cannot create the directory of --backup-dir, {}: {error}", directory.display())
        })?;
    }
    let listener = bound("--listen", &args.listen, password.as_ref()).await?;
    let page = match args.page_address() {
        Some(address) => Some(bound("--page", address, password.as_ref()).await?),
        None => None,
    };
    let scratch = match (&args.dir, args.demo) {
        (Some(directory), Some(_)) => Scratch::named(directory),
        (Some(_), None) => None,
        (None, _) => Some(Scratch::temporary()?),
    };
    let directory = args.dir.as_deref().or(scratch.as_ref().map(Scratch::path));
    let directory = directory.expect("--dir is required without --demo");
    let build = scratch.as_ref().map(Scratch::build).unwrap_or_default();
    let backend = tokio::select! {
        // A running build stops as in a crash. The next start begins again, or `scratch` removes
        // its files.
        signal = stop.asked() => {
            info!("stopped before it was ready");
            return Ok(Some(signal));
        }
        backend = backend(args, directory, build) => backend?,
    };
    // A demonstration in a directory that was named stays there when it is built.
    let temporary = match scratch {
        Some(scratch) if args.dir.is_some() => {
            scratch.keep();
            None
        }
        scratch => scratch,
    };
    let mut server = Server::new(backend, limits(args), password);
    server.backup_dir.clone_from(&args.backup_dir);
    server.demo = args.demo.map(|_| Demo::default());
    let server = Arc::new(server);
    let address = listener.local_addr()?;
    info!(%address, keys = server.backend.stats().keys, "ready");
    let page = page.map(|listener| Page::start(listener, &server)).transpose()?;
    let attack = args.demo.map(|keys| Attack::start(address, Arc::clone(&server), keys));
    if let (Some(_), Some(page)) = (&attack, &page) {
        invite(address, page.address);
    }
    let shutdown = async {
        stop.asked().await;
        info!("stopping");
        // While it is still answered. Not in this task, which accepts its connections.
        if let Some(attack) = attack {
            let _ = spawn_blocking(|| attack.stop()).await;
        }
    };
    twiceshy_server::serve(listener, Arc::clone(&server), shutdown).await;
    if let Some(page) = page {
        page.stop().await;
    }
    match Arc::try_unwrap(server) {
        Ok(server) => server.backend.close().await?,
        Err(server) => server.backend.snapshot().await?,
    }
    drop(temporary);
    info!("stopped");
    Ok(None)
}

impl Args {
    /// Where the page is, if it is shown.
    fn page_address(&self) -> Option<&str> {
        self.page.as_deref().or(self.demo.map(|_| DEMO_PAGE))
    }
}

/// A demonstration attacks itself, for everybody on this machine to see.
fn is_allowed(args: &Args, password: Option<&Password>) -> Result<(), String> {
    if args.demo.is_some() && password.is_some() {
        return Err(format!(
            "--demo is for this machine alone: unset {PASSWORD} and leave --password-file out"
        ));
    }
    Ok(())
}

/// The store, which may have to be built first.
async fn backend(
    args: &Args,
    directory: &Path,
    build: Arc<Build>,
) -> Result<Backend, Box<dyn Error>> {
    if let Some(backend) = args.upstream.backend(directory).await? {
        return Ok(backend);
    }
    let own = Own::new(args, directory)?;
    // Not here: signals are waited for meanwhile.
    let running = build.begin();
    Ok(spawn_blocking(move || own.open(&running)).await??)
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
