//! `twiceshy race`: every filter, at equal memory, on the same workload.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use twiceshy_lab::entrants::{self, Entrant, Entrants};

use crate::progress::Progress;
use crate::table::{Table, count, nanoseconds, percent};
use crate::trial::{self, Row};
use crate::workload::{MAX_NEGATIVES, Parameters, Workload};

/// Races filters at equal memory on one skewed stream of queries.
///
/// Each filter stores the same keys in the same memory. It is asked once for
/// every absent key (the first pass), and then answers a Zipf-distributed stream
/// of queries for absent keys; it is told of every false positive as it happens.
///
/// Times are means of one operation at a time. "insert" includes the insertion
/// into the remote, which is held in memory; "query" is taken in the first pass;
/// "adapt" includes the read that proves the key absent, and two readings of the
/// clock.
///
/// Exit code: 0; 1 if a filter denied a stored key (a false negative); 2 if the
/// flags are wrong or no filter fits the memory.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy race
  twiceshy race --filters plain,cyclic-1,swapping --zipf 0.8
  twiceshy race --bits 9 --filters 'cyclic-2:k=3; cyclic-2:k=2,b=4'
  twiceshy race --keys 10000 --queries 200000 --json > race.jsonl")]
pub struct Args {
    /// Keys to store
    #[arg(long, value_name = "N", default_value_t = 250_000, allow_negative_numbers = true)]
    #[arg(value_parser = positive)]
    keys: u64,

    /// Distinct absent keys that are asked for, for each stored key
    #[arg(long, value_name = "A", default_value_t = 10, allow_negative_numbers = true)]
    #[arg(value_parser = positive)]
    distinct: u64,

    /// Queries in the stream, all for absent keys
    #[arg(long, value_name = "Q", default_value_t = 5_000_000)]
    queries: u64,

    /// Exponent of the stream's Zipf distribution; 0 is uniform
    #[arg(long, value_name = "S", default_value_t = 1.1, allow_negative_numbers = true)]
    #[arg(value_parser = exponent)]
    zipf: f64,

    /// Memory bits a key that every filter must stay within, 2 to 64
    ///
    /// Each takes the widest fingerprint that fits at a load of 0.95: 11.6 makes
    /// cells of 11 bits.
    #[arg(long, value_name = "B", default_value_t = 11.6, allow_negative_numbers = true)]
    #[arg(value_parser = super::memory_bits)]
    bits: f64,

    #[arg(long, value_name = "NAMES", value_parser = entrants::parse)]
    #[arg(help = "Filters to race, by name or full spec [default: all]", long_help = filters_help())]
    filters: Vec<Entrants>,

    /// Seed of the keys' hash function and of the stream
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Print one JSON object a line instead of a table
    #[arg(long)]
    json: bool,
}

fn filters_help() -> String {
    format!(
        "Filters to race, by name or full spec [default: all]\n\n\
         Names: {}.\n\n\
         A spec is a name with parameters, such as \"cyclic-2:k=3\". Names and specs are separated \
         by commas or semicolons, and the flag may be repeated. --bits decides the fingerprint \
         length, also of a spec with an f; and a filter that finds no room for a key is rebuilt, \
         whatever its spec says of \"full\".",
        entrants::names()
    )
}

fn positive(text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| (1..=MAX_NEGATIVES).contains(number));
    number.ok_or_else(|| format!("expected a whole number from 1 to {MAX_NEGATIVES}"))
}

fn exponent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=f64::MAX).contains(number));
    number.ok_or_else(|| "expected 0 or a positive number, such as 1.1".to_string())
}

/// Some filter denied a stored key.
const FALSE_NEGATIVES: u8 = 1;

/// Runs the race.
///
/// # Errors
/// A workload that is too large, an output that is closed, or no filter that fits.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let entrants = args.entrants();
    let parameters = args.parameters();
    parameters.check()?;
    let trial_steps = trial::steps(&parameters);
    let progress = Progress::new(parameters.steps() + trial_steps * entrants.len() as u64);
    let workload = Workload::new(&parameters, &progress)?;

    let mut rows: Vec<Row> = Vec::new();
    for (index, entrant) in entrants.iter().enumerate() {
        match trial::run(entrant, args.bits, &workload, &progress) {
            Ok(row) => {
                progress.suspend(|| args.report(&row))?;
                rows.push(row);
            }
            Err(error) => {
                progress.suspend(|| eprintln!("warning: {} is left out: {error}", entrant.name));
            }
        }
        progress.arrive(parameters.steps() + trial_steps * (index as u64 + 1));
    }
    progress.finish();

    if rows.is_empty() {
        return Err("no filter could take part; allow more --bits".into());
    }
    if !args.json {
        print_table(args, &rows)?;
    }
    let lossless = rows.iter().all(|row| row.false_negatives == 0);
    Ok(if lossless { ExitCode::SUCCESS } else { ExitCode::from(FALSE_NEGATIVES) })
}

impl Args {
    fn entrants(&self) -> Vec<Entrant> {
        if self.filters.is_empty() {
            return entrants::all();
        }
        self.filters.iter().flat_map(|entrants| entrants.0.iter().cloned()).collect()
    }

    fn parameters(&self) -> Parameters {
        Parameters {
            keys: self.keys,
            distinct: self.distinct,
            queries: self.queries,
            zipf: self.zipf,
            seed: self.seed,
        }
    }

    /// Prints what cannot wait for the table.
    fn report(&self, row: &Row) -> io::Result<()> {
        if row.false_negatives != 0 {
            let denied = count(row.false_negatives);
            eprintln!("error: {}: {denied} false negatives ({})", row.name, row.spec);
        }
        if row.bits_per_key > self.bits {
            eprintln!(
                "warning: {} takes {:.3} bits a key, more than {} ({})",
                row.name, row.bits_per_key, self.bits, row.spec
            );
        }
        if self.json {
            writeln!(io::stdout(), "{}", serde_json::to_string(row)?)?;
        }
        Ok(())
    }
}

fn print_table(args: &Args, rows: &[Row]) -> io::Result<()> {
    let mut table = Table::new(&[
        "filter",
        "bits/key",
        "load",
        "first pass",
        "false pos.",
        "remote reads",
        "insert ns",
        "query ns",
        "adapt ns",
        "false neg.",
    ]);
    for row in rows {
        table.push([
            row.name.clone(),
            format!("{:.3}", row.bits_per_key),
            format!("{:.3}", row.load),
            percent(row.first_pass_rate),
            count(row.false_positives),
            count(row.remote_reads),
            nanoseconds(Some(row.insert_ns)),
            nanoseconds(Some(row.query_ns)),
            nanoseconds(row.adapt_ns),
            count(row.false_negatives),
        ]);
    }
    writeln!(
        io::stdout(),
        "{} keys, {} absent keys, {} queries (Zipf {}), at most {} bits a key, seed {}\n\n\
         {table}\n\
         How to read it: \"first pass\" is the false-positive rate before any adaptation; false \
         positives and\nremote reads are those of the whole stream, where a filter that does not \
         adapt pays for a mistake\nagain each time it is asked (so its total hangs on which popular \
         keys it hits: try another --seed).",
        count(args.keys),
        count(args.keys * args.distinct),
        count(args.queries),
        args.zipf,
        args.bits,
        args.seed,
    )?;
    for row in rows {
        if let Some(space) = row.space_beside_the_fingerprints() {
            writeln!(io::stdout(), "{}: {space}", row.name)?;
        }
    }
    Ok(())
}
