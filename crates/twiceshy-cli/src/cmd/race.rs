//! `twiceshy race`: every filter, at equal memory, on the same workload.

mod print;

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use twiceshy_lab::entrants::{self, Entrant, Entrants};
use twiceshy_lab::race::{Course, Row, Standings, trial};
use twiceshy_lab::workload::{KeyFile, MAX_ABSENT, Recording, Size, Source};

use super::amounts;
use crate::progress::Progress;
use crate::rows::Rows;
use crate::table::count;

use print::Printed;

/// Races filters at equal memory on one stream of queries.
///
/// Each filter stores the same keys in the same memory. It is queried once for every absent key
/// (the first pass), and then answers a stream of queries for absent keys. It adapts to every
/// false positive as it happens.
///
/// A trace (FireHose, flows, a capture, a log) has both: its first distinct keys are stored, so
/// many that --distinct others are left for each, and the rest of the trace is the stream.
/// Queries for stored keys are left out: every filter answers them correctly.
///
/// The filter with the fewest reads of the store wins: one for each false positive, and those that
/// adapting takes.
///
/// Times are means over single operations. "insert" includes the insertion into the
/// remote, which is in memory; "query" is measured in the first pass; "adapt" includes
/// the read that proves the key absent, and two readings of the clock.
///
/// Exit code: 0; 1 if a filter denied a stored key (a false negative); 2 if the
/// flags are wrong or no filter fits the memory.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy race
  twiceshy race --filters plain,cyclic-1,swapping --zipf 0.8
  twiceshy race --bits 9 --filters 'cyclic-2:k=3; cyclic-2:k=2,b=4'
  twiceshy race --workload flows:chicago-a --scale 0.1 --seeds 5 --plot race.html
  twiceshy race --pcap capture.pcapng --distinct 3
  twiceshy race --keys hosts.txt --queries u32:requests.bin
  twiceshy race --keys 10000 --queries 200000 --json > race.jsonl")]
pub struct Args {
    /// Keys to store, or a file of them [default: 250000, or as a trace has it]
    ///
    /// A file has one key per line, or little-endian numbers if its name begins with
    /// u32: or u64: or ends in .u32le or .u64le. It may be compressed (.gz, .zst).
    /// It needs a file of --queries.
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = positive_or_file)]
    keys: Option<Amount>,

    /// Distinct absent keys to query, per stored key
    #[arg(long, value_name = "A", default_value_t = 10, allow_negative_numbers = true)]
    #[arg(value_parser = positive)]
    distinct: u64,

    /// Queries in the stream, or a file of them [default: 5000000, or as a trace has it]
    ///
    /// A file without a file of --keys is a trace, such as an access log.
    #[arg(long, value_name = "Q", value_parser = number_or_file)]
    queries: Option<Amount>,

    #[arg(long, value_name = "NAME", conflicts_with_all = ["zipf", "pcap"])]
    #[arg(help = "Where keys and queries come from [default: zipf:1.1]", long_help = workload_help())]
    workload: Option<Source>,

    /// Short for --workload zipf:S; 0 is uniform
    #[arg(long, value_name = "S", allow_negative_numbers = true, conflicts_with = "pcap")]
    #[arg(value_parser = exponent)]
    zipf: Option<f64>,

    /// Race on the flows of a packet capture (pcap or pcapng, also .gz or .zst)
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,

    /// Scale a trace down by this factor, 0 to 1
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = share)]
    scale: f64,

    /// Bits of memory per key that every filter must stay within, 2 to 64
    ///
    /// Each filter takes the longest fingerprint that fits at a load of 0.95: 11.6 bits
    /// make cells of 11 bits. A filter that does not fit is left out: line, the default of
    /// `Filter`, needs 12.5.
    #[arg(long, value_name = "B", default_value_t = 11.6, allow_negative_numbers = true)]
    #[arg(value_parser = super::memory_bits)]
    bits: f64,

    #[arg(long, value_name = "NAMES", value_parser = entrants::parse)]
    #[arg(help = "Filters to race, by name or full spec [default: all]", long_help = filters_help())]
    filters: Vec<Entrants>,

    /// Seed of the keys' hash function and of the stream
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Races to run, with consecutive seeds from --seed on
    ///
    /// The table then shows means with their standard errors; JSON and CSV have a row
    /// per seed.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seeds: u32,

    /// Print one JSON object per line instead of a table
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print CSV instead of a table
    #[arg(long)]
    csv: bool,

    /// Write a page with the store reads and false positives over the stream, filter by filter
    #[arg(long, value_name = "FILE.html")]
    plot: Option<PathBuf>,
}

/// A number, or the file that takes its place.
#[derive(Clone, Debug)]
enum Amount {
    Number(u64),
    File(KeyFile),
}

fn workload_help() -> String {
    format!(
        "Where keys and queries come from [default: zipf:1.1]\n\n\
         Synthetic: uniform and zipf draw each query anew; repeats asks for every absent key \
         equally often, in random order.\n\n\
         Traces: FireHose's active set and power law, as in the telescoping filter's paper; flows \
         as on the three links of the papers, shuffled or in packet trains.\n\n\
         Names: {}.",
        Source::NAMES
    )
}

fn filters_help() -> String {
    format!(
        "Filters to race, by name or full spec [default: all]\n\n\
         Names: {}.\n\n\
         A spec is a name with parameters, such as \"cyclic-2:k=3\". Names and specs are separated \
         by commas or semicolons, and the flag may be repeated. --bits decides the length of \
         fingerprints, even for a spec with an f. A filter without room for a key is rebuilt, \
         whatever \"full\" its spec has.",
        entrants::names()
    )
}

fn positive(text: &str) -> Result<u64, String> {
    let number = amounts::keys(text).ok().filter(|number| *number <= MAX_ABSENT);
    number.ok_or_else(|| format!("expected a whole number from 1 to {MAX_ABSENT}"))
}

fn positive_or_file(text: &str) -> Result<Amount, String> {
    match positive(text) {
        Ok(number) => Ok(Amount::Number(number)),
        Err(expected) => file(text).ok_or(format!("{expected}, or a file that exists")),
    }
}

fn number_or_file(text: &str) -> Result<Amount, String> {
    match text.parse().or_else(|_| amounts::keys(text)) {
        Ok(number) => Ok(Amount::Number(number)),
        Err(_) => file(text).ok_or("expected a whole number, or a file that exists".to_string()),
    }
}

fn file(text: &str) -> Option<Amount> {
    let Ok(file) = text.parse::<KeyFile>();
    file.path.exists().then_some(Amount::File(file))
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| "expected a number above 0, at most 1, such as 0.1".to_string())
}

fn exponent(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (0.0..=f64::MAX).contains(number));
    number.ok_or_else(|| "expected 0 or a positive number, such as 1.1".to_string())
}

/// Some filter denied a stored key.
const FALSE_NEGATIVES: u8 = 1;

/// The default numbers of keys and queries.
const KEYS: u64 = 250_000;
const QUERIES: u64 = 5_000_000;
const ZIPF: f64 = 1.1;

/// Runs the race.
///
/// # Errors
/// A workload that cannot be made, an output that cannot be written, or no
/// filter that fits.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let entrants = args.entrants();
    let progress = Progress::counting();
    progress.phase("workload");
    let source = args.source()?;
    let size = args.size(&source)?;

    let mut printed = Rows::new(args.json, args.csv);
    let mut standings = Standings::new(entrants.len());
    let mut steps = 0;
    for race in 0..args.seeds {
        let seed = args.seed.wrapping_add(race.into());
        progress.phase(format!("seed {seed}: workload"));
        let course = Course::new(&source, &size, seed)?;
        // Courses with other seeds are as long, or nearly so.
        let left = u64::from(args.seeds - race) * entrants.len() as u64;
        progress.set_total(steps + course.steps() * left);
        for (index, entrant) in entrants.iter().enumerate() {
            match trial::run(entrant, args.bits, &course, &progress) {
                Ok(row) => {
                    progress.suspend(|| report(&mut printed, &row, args.bits))?;
                    standings.push(index, row);
                }
                Err(error) => {
                    progress.suspend(|| eprintln!("warning: {} is left out: {error}", entrant.name))
                }
            }
            steps += course.steps();
            progress.arrive(steps);
        }
        standings.describe(&course);
    }
    progress.finish();

    if standings.is_empty() {
        return Err("no filter could take part; allow more --bits".into());
    }
    let in_print = Printed { standings: &standings, bits: args.bits };
    if let Some(path) = &args.plot {
        let written = fs::write(path, in_print.page().html());
        written.map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    }
    if matches!(printed, Rows::Table) {
        write!(io::stdout(), "{in_print}")?;
    }
    Ok(if standings.lossless() { ExitCode::SUCCESS } else { ExitCode::from(FALSE_NEGATIVES) })
}

impl Args {
    fn entrants(&self) -> Vec<Entrant> {
        if self.filters.is_empty() {
            return entrants::all();
        }
        self.filters.iter().flat_map(|entrants| entrants.0.iter().cloned()).collect()
    }

    /// Where keys come from; files are read here, once for all seeds.
    fn source(&self) -> Result<Source, Box<dyn Error>> {
        let generated = match (&self.workload, self.zipf) {
            (Some(source), _) => Some(source.clone()),
            (None, zipf) => zipf.map(Source::Zipf),
        };
        let recording = match (&self.keys, &self.queries, &self.pcap) {
            (Some(Amount::File(keys)), Some(Amount::File(queries)), None) => {
                Recording::of_lists(keys, queries)?
            }
            (Some(Amount::File(_)), _, None) => {
                return Err("a file of --keys needs a file of --queries".into());
            }
            (_, Some(Amount::File(queries)), None) => Recording::of_keys(queries)?,
            (Some(Amount::File(_)), _, Some(_)) | (_, Some(Amount::File(_)), Some(_)) => {
                return Err(
                    "--pcap has keys and queries of its own: leave out the other files".into()
                );
            }
            (_, _, Some(path)) => Recording::of_capture(path)?,
            _ => return Ok(generated.unwrap_or(Source::Zipf(ZIPF))),
        };
        match generated {
            Some(source) => {
                Err(format!("keys and queries come from a file or from {source}: choose one")
                    .into())
            }
            None => Ok(Source::Recording(recording.into())),
        }
    }

    fn size(&self, source: &Source) -> Result<Size, String> {
        let number = |amount: &Option<Amount>| match amount {
            Some(Amount::Number(number)) => Some(*number),
            _ => None,
        };
        let (mut keys, mut queries) = (number(&self.keys), number(&self.queries));
        match source {
            Source::Uniform | Source::Zipf(_) => {
                keys = keys.or(Some(KEYS));
                queries = queries.or(Some(QUERIES));
            }
            Source::ActiveSet { .. } | Source::PowerLaw => {}
            Source::Repeats(_) | Source::Flows { .. } | Source::Recording(_) => {
                if let Some(queries) = queries {
                    return Err(format!(
                        "{source} has a number of queries of its own: leave out --queries {queries}"
                    ));
                }
                if matches!(source, Source::Repeats(_)) {
                    keys = keys.or(Some(KEYS));
                }
            }
        }
        Ok(Size { keys, ratio: self.distinct as f64, queries, scale: self.scale })
    }
}

/// Prints what cannot wait for the table.
fn report(rows: &mut Rows, row: &Row, bits: f64) -> io::Result<()> {
    if row.false_negatives != 0 {
        let denied = count(row.false_negatives);
        eprintln!("error: {}: {denied} false negatives ({})", row.name, row.spec);
    }
    if row.bits_per_key > bits {
        eprintln!(
            "warning: {} takes {:.3} bits per key, more than {bits} ({})",
            row.name, row.bits_per_key, row.spec
        );
    }
    rows.print(row)
}
