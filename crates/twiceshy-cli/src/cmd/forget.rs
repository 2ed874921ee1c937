//! `twiceshy forget`: takes away what `serve --follow` left in PostgreSQL.

use std::error::Error;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::runtime::Runtime;
use twiceshy_server::{Authorities, Forgotten, forget};

/// Drops the slots and publications that 'serve --follow' made in a PostgreSQL database.
///
/// PostgreSQL keeps its log for every slot, also while the server that reads it is stopped. Slots of
/// running servers stay, and while there is one, so do all publications. A server that is started
/// again with --follow makes what it needs, and builds its filter again.
///
/// Exit code: 0; 2 if the database could not be reached or refused.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy forget --store postgres://me@127.0.0.1/shop")]
pub struct Args {
    /// postgres://USER:PASSWORD@HOST:PORT/DATABASE [default: TWICESHY_STORE in the environment]
    #[arg(long, value_name = "URL")]
    store: Option<String>,

    /// PEM file of the certificate authorities to trust for the store's certificate
    /// [default: the system's]
    #[arg(long, value_name = "FILE")]
    store_ca: Option<PathBuf>,

    /// Seconds after which a store that does not answer is down
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u64).range(1..=24 * 60 * 60))]
    store_timeout: u64,
}

/// The environment variable of the store, as of 'twiceshy serve'.
const STORE: &str = "TWICESHY_STORE";

pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let store = args.store.clone().or_else(|| std::env::var(STORE).ok());
    let store = store.ok_or("give the database: --store postgres://...")?;
    if !["postgres://", "postgresql://"].iter().any(|scheme| store.starts_with(scheme)) {
        return Err("only PostgreSQL keeps something for a server: --store postgres://...".into());
    }
    let authorities = args.store_ca.as_deref().map(Authorities::read).transpose()?;
    let timeout = Duration::from_secs(args.store_timeout);
    let found = Runtime::new()?.block_on(forget(&store, authorities.as_ref(), timeout))?;
    let Forgotten { slots, publications, in_use, .. } = &found;
    for (what, names) in
        [("dropped slot", slots), ("dropped publication", publications), ("in use:", in_use)]
    {
        names.iter().for_each(|name| println!("{what} {name}"));
    }
    if found == Forgotten::default() {
        println!("nothing to forget");
    }
    Ok(ExitCode::SUCCESS)
}
