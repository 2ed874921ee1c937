//! `twiceshy bars`: what an adaptive filter has to keep, and whether it does.

use std::env;
use std::error::Error;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use twiceshy_filters::Spec;
use twiceshy_lab::bars::{Experiment, Row, Setting, Trace, Verdict, Verdicts};
use twiceshy_lab::entrants::{self, Entrant, Entrants};
use twiceshy_lab::workload::{KeyFile, Recording};

use crate::progress::Progress;
use crate::rows::Rows;
use crate::table::{Table, count};

/// Measures an adaptive filter against goals (bars), and says which it meets.
///
/// The bars are those of the line filter with one bit per slot (12.5 bits per key). n is
/// the number of stored keys, A that of distinct absent keys per stored key. Filters are
/// built as their spec says, at the load that their capacity implies.
///
/// Without --keys and --seeds every experiment takes the sizes that its bars are for. A
/// filter then takes about eight minutes, most of them for "telescoping" (8 games each with
/// 5, 20, 50 and 100 queries per key, at 62,259 and 249,036 keys) and "repeats" (10^9
/// queries).
///
/// "streams" needs recorded streams: --data names a directory with the folders streams,
/// packets and queries, or --stream a file, as in 'race --queries'. The filter named by
/// --filters decides how much memory its opponents get there.
///
/// A bar is met if the mean over seeds is small enough; in "telescoping" and "renewal" if
/// every seed is. In "renewal" the bar is the share of new queries that are false positives,
/// and chance (1e-6) is allowed for.
///
/// Exit code: 0, met or missed; 1 if a filter denied a stored key (a false negative);
/// 2 if the flags are wrong or a file cannot be read.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy bars                                        all, for the default filter
  twiceshy bars --keys 5000 --seeds 1                  a first look, in seconds
  twiceshy bars again recall --filters 'telescoping:f=8,spent=reseed; swapping:f=12,k=2,b=4'
  twiceshy bars streams --data recordings --bits 14.5
  twiceshy bars telescoping --json > games.jsonl")]
pub struct Args {
    /// Experiments [default: all]
    #[arg(value_name = "EXPERIMENT", value_parser = experiments())]
    experiments: Vec<Experiment>,

    #[arg(long, value_name = "NAMES", value_parser = entrants::parse)]
    #[arg(help = "Filters to measure, by name or full spec [default: the default filter]")]
    #[arg(long_help = filters_help())]
    filters: Vec<Entrants>,

    /// Keys to store, instead of those that the bars are for
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    keys: Option<u64>,

    /// Seeds per experiment, instead of 1 to 8
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: Option<u64>,

    /// The first seed
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Bits per key that every filter must stay within on recorded streams, 2 to 64,
    /// instead of those that the filter takes
    #[arg(long, value_name = "B", value_parser = super::memory_bits)]
    bits: Option<f64>,

    /// Directory of recorded streams [default: $TWICESHY_DATA]
    #[arg(long, value_name = "DIR", conflicts_with = "stream")]
    data: Option<PathBuf>,

    /// A recorded stream instead of a directory of them; may be repeated
    #[arg(long, value_name = "FILE")]
    stream: Vec<KeyFile>,

    /// Print one JSON object per line instead of a table
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print CSV instead of a table
    #[arg(long)]
    csv: bool,
}

fn experiments() -> impl TypedValueParser<Value = Experiment> {
    let names = Experiment::ALL.map(|of| PossibleValue::new(of.name()).help(of.summary()));
    PossibleValuesParser::new(names).map(|name| {
        let named = Experiment::ALL.into_iter().find(|experiment| experiment.name() == name);
        named.expect("clap lets no other name pass")
    })
}

fn filters_help() -> String {
    format!(
        "Filters to measure, by name or full spec [default: the default filter]\n\n\
         Names: {}.\n\n\
         A spec is a name with parameters, such as \"telescoping:f=8,spent=reseed\". Names and \
         specs are separated by commas or semicolons, and the flag may be repeated. A name \
         without an f takes that of the telescoping filter's paper: 8 bits for quotient filters, \
         cells of 11 bits for cuckoo filters.",
        entrants::names()
    )
}

/// Some filter denied a stored key.
const FALSE_NEGATIVES: u8 = 1;

/// Measures all that was asked for.
///
/// # Errors
/// Streams that cannot be read, an output that is closed, or a filter that cannot be built.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let progress = Progress::counting();
    progress.phase("reading streams");
    let mut experiments = args.experiments.clone();
    if experiments.is_empty() {
        experiments = Experiment::ALL.to_vec();
    }
    let mut setting = Setting {
        keys: args.keys.map(|keys| [keys]),
        seeds: args.seeds,
        seed: args.seed,
        bits: args.bits,
        traces: Vec::new(),
    };
    if experiments.contains(&Experiment::Streams) {
        setting.traces = args.traces()?;
        if setting.traces.is_empty() {
            if args.experiments == [Experiment::Streams] {
                return Err("no streams: name them with --data DIR or --stream FILE".into());
            }
            progress.suspend(|| eprintln!("warning: no streams: name them with --data DIR"));
            experiments.retain(|&experiment| experiment != Experiment::Streams);
        }
    }
    let entrants = args.entrants()?;
    let steps: u64 = experiments.iter().map(|of| of.steps(&setting)).sum();
    progress.set_total(steps * entrants.len() as u64);

    let mut printed = Rows::new(args.json, args.csv);
    let (mut times, mut verdicts, mut done) = (Vec::new(), Verdicts::default(), 0);
    let mut outcome = Ok(());
    for &experiment in &experiments {
        let start = Instant::now();
        for entrant in &entrants {
            experiment.run(entrant, &setting, &progress, &mut |row: Row| {
                let written = progress.suspend(|| report(&mut printed, &row));
                if let Err(error) = written
                    && outcome.is_ok()
                {
                    outcome = Err(error);
                }
                if !row.detail {
                    verdicts.push(row);
                }
            })?;
            done += experiment.steps(&setting);
            progress.arrive(done);
        }
        times.push((experiment, start.elapsed()));
    }
    progress.finish();
    outcome?;

    if matches!(printed, Rows::Table) {
        write!(io::stdout(), "{}", table(&verdicts))?;
        let times =
            times.iter().map(|(of, took)| format!("{} {:.0} s", of.name(), took.as_secs_f64()));
        writeln!(io::stdout(), "\nTimes: {}", times.collect::<Vec<_>>().join(", "))?;
    }
    let lossless = verdicts.iter().all(|verdict| verdict.false_negatives == 0);
    Ok(if lossless { ExitCode::SUCCESS } else { ExitCode::from(FALSE_NEGATIVES) })
}

impl Args {
    fn entrants(&self) -> Result<Vec<Entrant>, String> {
        if self.filters.is_empty() {
            return Ok(entrants::parse(&Spec::default().to_string())?.0);
        }
        Ok(self.filters.iter().flat_map(|entrants| entrants.0.iter().cloned()).collect())
    }

    /// The recorded streams; none where nothing says where they are.
    fn traces(&self) -> Result<Vec<Trace>, Box<dyn Error>> {
        if !self.stream.is_empty() {
            return Ok(self.stream.iter().map(Trace::open).collect::<Result<_, _>>()?);
        }
        let usual = || env::var_os("TWICESHY_DATA").map(PathBuf::from);
        let Some(directory) = self.data.clone().or_else(usual) else { return Ok(Vec::new()) };
        let mut traces = Trace::all(&directory)?;
        // Names of packages that there are, and names that are asked for.
        let list = |path: &str| -> KeyFile {
            let Ok(file) = directory.join(path).to_string_lossy().parse();
            file
        };
        let keys = list("sets/debian_bookworm_packages.txt.zst");
        let queries = list("queries/debian_dependency_names.txt.zst");
        if keys.path.exists() && queries.path.exists() {
            traces.push(Trace::of(Recording::of_lists(&keys, &queries)?));
        }
        Ok(traces)
    }
}

fn report(rows: &mut Rows, row: &Row) -> io::Result<()> {
    if row.false_negatives != 0 {
        let denied = count(row.false_negatives);
        eprintln!("error: {}: {denied} false negatives in {}", row.spec, row.experiment);
    }
    rows.print(row)
}

fn table(verdicts: &Verdicts) -> Table {
    let mut table = Table::new(&[
        "measured",
        "filter",
        "keys",
        "bits/key",
        "mean",
        "worst seed",
        "bar",
        "verdict",
    ]);
    for Verdict { row, mean, worst, seeds, most, met, .. } in verdicts.iter() {
        table.push([
            format!("{}: {}", row.experiment, row.condition),
            row.filter,
            count(row.keys),
            format!("{:.2}", row.bits_per_key),
            number(mean),
            if seeds > 1 { number(worst) } else { "-".to_string() },
            most.map_or_else(|| "-".to_string(), number),
            met.map_or("-", |met| if met { "met" } else { "MISSED" }).to_string(),
        ]);
    }
    table
}

/// A rate below 0.01 with an exponent, anything else as people write it.
fn number(value: f64) -> String {
    match value {
        0.0 => "0".to_string(),
        value if value < 0.01 => format!("{value:.2e}"),
        value if value < 100.0 => format!("{value:.3}"),
        value => format!("{value:.0}"),
    }
}
