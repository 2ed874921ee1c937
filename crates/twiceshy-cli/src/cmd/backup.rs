//! `twiceshy backup`: a copy of a store, or of a filter in front of one.

use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::progress::Progress;

/// Copies a store's directory as of one moment.
///
/// DIR is a directory of 'twiceshy serve' that no server has open. TO must not exist yet.
/// If the backup fails, there is no TO. The copy has the same secret as DIR, so keep it
/// as safe. Serve it with 'twiceshy serve --dir TO'; the first start builds its filter. A
/// copy of a filter in front of another store (serve --store) starts with a resync.
///
/// While the store is being served, the server makes the copy: start it with
/// --backup-dir, and run 'twiceshy backup --server ADDRESS NAME' or
/// 'redis-cli -p PORT TS.BACKUP NAME'. Reads and writes go on meanwhile.
///
/// Do not copy the files of a running server with 'cp' or 'rsync': the server refuses
/// such a copy unless all its files happen to be of one moment.
///
/// Exit code: 0; 2 if the backup failed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy backup data backups/monday
  twiceshy serve --dir data --backup-dir backups
  twiceshy backup --server 127.0.0.1:6390 tuesday
  redis-cli -p 6390 ts.backup wednesday")]
pub struct Args {
    /// The directory to copy; with --server, the copy's name in the server's --backup-dir
    #[arg(value_name = "DIR")]
    from: String,

    /// The copy: a directory that does not exist
    #[arg(value_name = "TO", required_unless_present = "server", conflicts_with = "server")]
    to: Option<PathBuf>,

    /// Ask the server at this address for the copy; TWICESHY_PASSWORD in the environment is
    /// its password
    #[arg(long, value_name = "ADDRESS")]
    server: Option<String>,
}

pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    match (&args.server, &args.to) {
        (Some(address), _) => {
            let records = ask(address, &args.from)?;
            println!("copied {records} records to {} in the server's --backup-dir", args.from);
        }
        (None, Some(to)) => {
            let from = PathBuf::from(&args.from);
            let records = copy(&from, to)?;
            println!("copied {records} records to {}", to.display());
        }
        (None, None) => unreachable!("TO is required without --server"),
    }
    Ok(ExitCode::SUCCESS)
}

/// How long a copy takes before there is a bar.
const SHORT: Duration = Duration::from_secs(2);

fn copy(from: &Path, to: &Path) -> Result<u64, Box<dyn Error>> {
    let (began, mut bar) = (Instant::now(), None);
    let copied = twiceshy_server::backup(from, to, &mut |done, total| {
        if began.elapsed() > SHORT {
            let bar = bar.get_or_insert_with(|| {
                let bar = Progress::new(0);
                bar.phase("copying records");
                bar
            });
            bar.arrive_of(done, total);
        }
        ControlFlow::Continue(())
    });
    if let Some(bar) = bar {
        bar.finish();
    }
    copied.map_err(|error| match error {
        twiceshy::store::Error::Locked { path } if path.starts_with(from) => format!(
            "{} is in use. Ask its server for the copy: start it with --backup-dir DIR, and run \
             'twiceshy backup --server ADDRESS NAME' or 'redis-cli -p PORT TS.BACKUP NAME'",
            from.display()
        )
        .into(),
        error => error.into(),
    })
}

/// The environment variable of the password, as of 'twiceshy serve'.
const PASSWORD: &str = "TWICESHY_PASSWORD";

/// Has a server make a copy; returns how many records it has.
fn ask(address: &str, name: &str) -> Result<u64, Box<dyn Error>> {
    let failed = |error| format!("cannot ask the server at {address}: {error}");
    let mut socket = BufReader::new(TcpStream::connect(address).map_err(failed)?);
    let mut call = |words: &[&str]| -> Result<String, Box<dyn Error>> {
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request += &format!("${}\r\n{word}\r\n", word.len());
        }
        socket.get_mut().write_all(request.as_bytes()).map_err(failed)?;
        let mut reply = String::new();
        socket.read_line(&mut reply).map_err(failed)?;
        match reply.trim_end().split_at_checked(1) {
            Some((":" | "+", answer)) => Ok(answer.into()),
            Some(("-", error)) => Err(format!("the server at {address} says: {error}").into()),
            _ => {
                Err(format!("the server at {address} answered {reply:?}, not as RESP does").into())
            }
        }
    };
    if let Ok(password) = std::env::var(PASSWORD) {
        call(&["AUTH", &password])?;
    }
    Ok(call(&["TS.BACKUP", name])?.parse()?)
}
