//! Guarded stores on a real disk: the engines beside each other, the guard beside
//! bare stores, and what an attacker gets past each.
//!
//! ```text
//! cargo run --release -p twiceshy-bench --bin stores -- --what engines --keys 5000000
//! cargo run --release -p twiceshy-bench --bin stores -- --what gets,attack
//! TWICESHY_DATA=../shared/data cargo run --release -p twiceshy-bench --bin stores -- --what recorded,streams
//! ```
//!
//! Tables are Markdown. Contenders of one table are asked in turns, round by
//! round; a ratio is taken within a round, and the median of the rounds is shown.

mod attack;
mod bare;
mod batches;
#[path = "../../clock.rs"]
mod clock;
mod engines;
mod fjall_filters;
mod fronts;
mod gets;
mod keys;
mod readers;
mod reads;
mod recorded;
mod streams;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use twiceshy_filters::Spec;

/// Reads, writes and times of guarded stores.
#[derive(Parser)]
struct Args {
    /// Which tables
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = What::value_variants().to_vec())]
    what: Vec<What>,
    /// Stored keys
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// The attacker's queries
    #[arg(long, default_value_t = 1_000_000)]
    queries: u64,
    /// Memory for each store's cache, for `gets`, in MiB
    #[arg(long, default_value_t = 64)]
    cache: usize,
    /// Leave out other engines, for `gets`: `fjall` takes most of the time
    #[arg(long, value_enum)]
    only: Option<Only>,
    /// The guard's filters, for `gets` and `readers`: full specs, separated by semicolons
    /// [default: the default filter]
    #[arg(long, value_delimiter = ';', default_values_t = [Spec::default()])]
    filters: Vec<Spec>,
    /// Also write the reads of `attack` and `recorded` to this CSV file
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Where the stores are made, and removed again
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    directory: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// redb and fjall under the guard's accesses
    Engines,
    /// Guarded and bare gets
    Gets,
    /// Guarded gets of two threads beside those of one
    Readers,
    /// Many gets at once
    Batches,
    /// An attacker who repeats what got through
    Attack,
    /// The guard beside fjall's own filters
    FjallFilters,
    /// The recorded streams, in front of stores
    Recorded,
    /// The recorded streams, for every filter
    Streams,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Only {
    Redb,
}

/// Whatever goes wrong ends the benchmark with its reason.
type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> Outcome {
    let args = Args::parse();
    let directory = tempfile::tempdir_in(&args.directory)?;
    let mut rows = reads::Rows::default();
    for what in &args.what {
        match what {
            What::Engines => engines::table(directory.path(), args.keys)?,
            What::Gets => {
                let fjall = args.only != Some(Only::Redb);
                let cache = args.cache << 20;
                gets::table(directory.path(), args.keys, cache, fjall, &args.filters)?;
            }
            What::Readers => {
                readers::table(directory.path(), args.keys, args.cache << 20, &args.filters)?;
            }
            What::Batches => batches::table(args.keys)?,
            What::Attack => {
                attack::table(directory.path(), args.keys, args.queries, &mut rows)?;
            }
            What::Recorded => recorded::table(directory.path(), &mut rows)?,
            What::FjallFilters => {
                fjall_filters::table(directory.path(), args.keys, args.queries)?;
            }
            What::Streams => streams::table()?,
        }
    }
    if let Some(path) = &args.csv {
        rows.save(path)?;
    }
    Ok(())
}
