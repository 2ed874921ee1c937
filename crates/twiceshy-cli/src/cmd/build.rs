//! `twiceshy build`: a filter from a list of keys, into a file.

mod keyless;

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use twiceshy_filters::{AnyFilter, Digest, KeyFilter, Spec};

use crate::keys::{Format, Keys, blank};
use crate::progress::{Progress, STRIDE};
use crate::saved::Saved;
use crate::table::{bytes, count};

/// Builds a filter from a list of keys and saves it in a file.
///
/// FILE has the filter and the digests of its keys, about 17 bytes per key, so that
/// 'twiceshy adapt' can tell right answers from wrong ones. It does not have the keys
/// themselves.
///
/// The digests depend on a random secret in FILE.secret, which only you can read. 'query'
/// and 'adapt' need it, so copy it along with FILE. Anyone who has it can make up keys
/// that the filter answers wrong: keep it from those who choose the queries. If
/// FILE.secret exists already, it is used again.
///
/// With --frozen or --never FILE has neither digests nor a secret beside it: it is as large as
/// the filter, some 1.6 bytes per key, and has the secret in it. --frozen is for a file that is
/// shipped to clients, who query it and change nothing. --never reads keys that are known to be
/// absent, and adapts the filter until it answers "absent" to all of them: together with KEYS, a
/// yes/no list.
///
/// FILE is replaced by a rename, as a whole or not at all. If another process is building
/// or adapting it, the command fails at once. Duplicate keys count once. Without any keys
/// the filter answers "absent" to everything.
///
/// KEYS may be compressed with gzip or zstd. Its lines may end in CRLF and need not be
/// UTF-8; blank lines are skipped and counted. A NUL byte is an error, because text has
/// none: use --format lp32 for binary keys.
///
/// Exit code: 0; 2 if the flags are wrong, the keys cannot be read or the file
/// cannot be written.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy build users.txt -o users.twiceshy
  cut -f1 table.tsv | twiceshy build -o ids.twiceshy --spec 'cuckooing:f=12'
  twiceshy build blocked.txt -o blocked.twiceshy --frozen --never popular.txt
  twiceshy build keys.bin --format lp32 -o keys.twiceshy --capacity 2000000 --json")]
pub struct Args {
    /// File with the keys; '-' or none for standard input
    keys: Option<PathBuf>,

    /// File to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Which filter: a name, with optional parameters
    ///
    /// Names and parameters are those of the library's Spec, such as
    /// "telescoping:f=8", "extension", "cuckooing:f=12" or "broom:f=8". One more bit
    /// (f) halves the false positives.
    #[arg(long, default_value_t)]
    spec: Spec,

    /// Build a filter for queries only, without the digests of its keys
    #[arg(long, conflicts_with = "spec")]
    frozen: bool,

    /// File with keys that are not stored, to which the filter must answer "absent"; '-' for
    /// standard input
    ///
    /// Keys of this list that are stored after all stay stored, and are counted. Without
    /// --frozen the filter can be adapted later, which may push out keys of this list.
    #[arg(long, value_name = "LIST", conflicts_with = "spec")]
    never: Option<PathBuf>,

    /// With --frozen or --never: share of absent keys that may be answered "maybe" [default: 0.0022]
    #[arg(long, conflicts_with = "spec")]
    rate: Option<f64>,

    /// How the keys are separated
    #[arg(long, value_enum, default_value_t = Format::Lines)]
    format: Format,

    /// Room for at least this many keys [default: as many as there are]
    #[arg(long, value_name = "N")]
    capacity: Option<usize>,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// What was built. The names of the fields are those of the JSON.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    file: String,
    secret: String,
    spec: String,
    keys: usize,
    duplicates: usize,
    blank_lines: u64,
    capacity: usize,
    filter_bytes: u64,
    file_bytes: u64,
    seconds: f64,
}

/// Builds and saves.
///
/// # Errors
/// Keys that cannot be read, a filter that cannot be built, a file that cannot be
/// written.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    if args.frozen || args.never.is_some() {
        return keyless::run(args);
    }
    if args.rate.is_some() {
        return Err(
            "--rate goes with --frozen or --never; for others it follows from --spec".into()
        );
    }
    let start = Instant::now();
    let saved = Saved::new(&args.output);
    saved.check_replaceable()?;
    let keys = Keys::open(args.keys.as_deref(), args.format)?;
    let hasher = saved.secret_or_new()?;
    let _lock = saved.lock()?;

    // The bytes of the keys are one half of the bar, building is the other. Where their
    // number is not known, as of a pipe, it is when they are read.
    let progress = Progress::new(2 * keys.size().unwrap_or(0));
    progress.phase("reading");
    let mut read = 0;
    let (mut digests, blank_lines) = keys.digests(&hasher, |bytes| {
        read += bytes as u64;
        progress.arrive(read);
    })?;
    let given = digests.len();
    progress.set_total(2 * read);
    progress.phase("building");
    // To find duplicates, and because each then goes next to the last: with sorting
    // included, 5 * 10^6 keys are in a quotient or broom filter in half the time (in
    // plain in 0.6 of it, in cuckooing in 1.2).
    digests.sort_unstable();
    digests.dedup();
    let capacity = args.capacity.unwrap_or(0).max(digests.len()).max(1);
    check_memory(capacity)?;
    let duplicates = given - digests.len();
    let filter = build(&args.spec, capacity, digests, |share| {
        progress.arrive(read + (share * read as f64) as u64);
    })?;
    progress.phase("saving");
    let filter = KeyFilter::from_parts(hasher, filter);
    let file_bytes = saved.replace(&filter.save(), None)?;
    progress.finish();

    let stats = filter.stats();
    let report = Report {
        schema: "twiceshy.build.v1",
        file: saved.name().to_string(),
        secret: saved.secret_path().display().to_string(),
        spec: filter.spec().to_string(),
        keys: stats.len,
        duplicates,
        blank_lines,
        capacity: stats.capacity,
        filter_bytes: stats.bits.div_ceil(8) as u64,
        file_bytes,
        seconds: start.elapsed().as_secs_f64(),
    };
    if args.json {
        writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
    } else {
        report.print()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns an error if a filter of that many keys cannot fit in memory, where allocating it
/// would end the process.
fn check_memory(capacity: usize) -> Result<(), String> {
    /// A filter with its digests takes less than this per key of its capacity; see
    /// `MemorySet::with_capacity`.
    const BYTES_PER_KEY: usize = 20;
    let room = Vec::<u8>::new().try_reserve_exact(capacity.saturating_mul(BYTES_PER_KEY));
    room.map_err(|_| format!("no memory for a filter of {capacity} keys; lower --capacity"))
}

/// A filter of all digests; `progress` receives the share that is done.
fn build(
    spec: &Spec,
    capacity: usize,
    digests: Vec<Digest>,
    progress: impl Fn(f64),
) -> Result<AnyFilter, Box<dyn Error>> {
    let mut filter = spec.build(capacity)?;
    let total = digests.len() as f64;
    for (index, digest) in digests.into_iter().enumerate() {
        if index.is_multiple_of(STRIDE) {
            progress(index as f64 / total);
        }
        let inserted = filter.insert(digest);
        inserted.map_err(|error| format!("{error}; or give it more --capacity"))?;
    }
    Ok(filter)
}

impl Report {
    fn print(&self) -> io::Result<()> {
        let (keys, seconds) = (self.keys as f64, self.seconds);
        writeln!(
            io::stdout(),
            "{}: {} keys ({} duplicates{} left out) in {seconds:.1} s, {:.1} million per second\n\
             {}, {} in memory; the file has {}\n\
             its secret is {}",
            self.file,
            count(self.keys as u64),
            count(self.duplicates as u64),
            blank(self.blank_lines),
            keys / seconds / 1e6,
            self.spec,
            bytes(self.filter_bytes),
            bytes(self.file_bytes),
            self.secret,
        )
    }
}
