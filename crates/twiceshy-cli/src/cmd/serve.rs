//! `twiceshy serve`: a store behind an adaptive filter, for every Redis client.

use std::error::Error;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use tokio::net::{TcpListener, lookup_host};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;
use tracing::level_filters::LevelFilter;
use twiceshy_server::{Backend, Embedded, Limits, Password, Server, may_listen};
use twiceshy_store::{Durability, Options, Redb};

use crate::progress::Progress;

/// Serves a store behind an adaptive filter to every Redis client.
///
/// Keys that are not stored are answered from memory; one that had to be looked
/// up is not looked up again. It speaks RESP2 and RESP3 and knows GET, SET, DEL,
/// EXISTS, MGET, MSET, DBSIZE, INFO and what clients say to greet each other.
/// SET has no options: nothing expires. TS.STATS has the filter's counts,
/// TS.SNAPSHOT writes it to disk.
///
/// SIGTERM and SIGINT end it: requests that have come are answered, and the
/// filter is written to disk, so that the next start has it at once.
///
/// Exit code: 0; 2 if it could not start, or its last snapshot was not written
/// (nothing that was stored is lost then; the next start takes longer).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy serve --dir data
  twiceshy serve --dir data --listen 0.0.0.0:6390 --password-file secret.txt
  redis-cli -p 6390 set user:1 Ada
  redis-cli -p 6390 get user:2
  redis-cli -p 6390 ts.stats")]
pub struct Args {
    /// Directory of the store and its filter; made if it is not there
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,

    /// Where to listen; beyond this machine only with a password
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6390")]
    listen: String,

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

    /// Most MiB of replies that wait until a client reads them
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = mebibytes())]
    max_reply: u64,

    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = Limits::default().connections)]
    max_connections: usize,

    /// Seconds after which a client that neither sends nor reads is left; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    idle: u64,

    /// What to log to stderr: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: LevelFilter,
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
    let address = resolved(&args.listen).await?;
    may_listen(address, password.as_ref())?;
    // Before the store is opened, which may take long: whoever stops us then
    // stops us at once.
    let listener = TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}; try another --listen"))?;
    let backend = backend(args)?;
    let server = Arc::new(Server::new(backend, limits(args), password));
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
        }
        info!("stopping");
    };
    info!(address = %listener.local_addr()?, keys = server.backend.stats().keys, "ready");
    twiceshy_server::serve(listener, Arc::clone(&server), shutdown).await;
    match Arc::try_unwrap(server) {
        Ok(server) => server.backend.close().await?,
        Err(server) => server.backend.snapshot().await?,
    }
    info!("stopped");
    Ok(())
}

/// What answers the commands.
fn backend(args: &Args) -> Result<Backend, Box<dyn Error>> {
    let durability = match args.durability {
        Survives::Power => Durability::Power,
        Survives::Process => Durability::Process,
    };
    let options = Options::default().capacity(args.capacity).durability(durability);
    let progress = Progress::new(0);
    progress.phase("building the filter");
    let opened = options.open_with::<Redb>(&args.dir, &mut |done, total| {
        progress.arrive_of(done, total);
    });
    progress.finish();
    let store = opened?;
    info!(directory = %args.dir.display(), filter = ?store.opened(), "opened");
    Ok(Backend::Embedded(Embedded::new(store)))
}

fn limits(args: &Args) -> Limits {
    let bytes = |mebibytes: u64| usize::try_from(mebibytes << 20).unwrap_or(usize::MAX);
    Limits {
        request: bytes(args.max_request),
        bulk: bytes(args.max_bulk),
        reply: bytes(args.max_reply),
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

async fn resolved(address: &str) -> Result<SocketAddr, String> {
    let unusable = |reason: String| {
        format!("--listen {address}: {reason}; expected an address and a port, as 127.0.0.1:6390")
    };
    let mut found = lookup_host(address).await.map_err(|error| unusable(error.to_string()))?;
    found.next().ok_or_else(|| unusable("no such host".into()))
}
