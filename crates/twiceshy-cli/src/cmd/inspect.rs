//! `twiceshy inspect`: what is in a filter's file.

mod keyless;

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use twiceshy_filters::{AnyFilter, KeyFilter};

use crate::loaded::Contents;
use crate::saved::Saved;
use crate::table::{bytes, count, percent};

/// Shows what is in a filter's file, and whether it is intact.
///
/// All of the file is verified: its checksum, its structure, and that the filter answers
/// "maybe" to every digest that it stores. No secret is needed. A file that was built with
/// --frozen or --never has no digests, and its secret in it.
///
/// "minimum" is the least memory of any filter with the same false-positive rate, log2(1/rate)
/// bits per key; adapting takes more.
///
/// Exit code: 0 if the file is intact; 1 if it is damaged, not a twiceshy filter, or does not
/// match its secret; 2 if it cannot be read.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy inspect users.twiceshy
  twiceshy inspect users.twiceshy --json | jq .bits_per_key")]
pub struct Args {
    /// File of the filter
    file: PathBuf,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The file is not an intact filter.
const DAMAGED: u8 = 1;

/// Widest bar of the histogram.
const BAR: usize = 40;

/// The version of both reports as scripts know it.
const SCHEMA: &str = "twiceshy.inspect.v1";

#[derive(Serialize)]
struct Damage {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    whole: bool,
    reason: String,
}

/// What is in the file. The names of the fields are those of the JSON.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    whole: bool,
    /// "fits", or what is wrong with it.
    secret: String,
    kind: &'static str,
    spec: String,
    keys: usize,
    capacity: usize,
    cells: usize,
    stashed: usize,
    load: f64,
    filter_bytes: u64,
    /// `None` without keys.
    bits_per_key: Option<f64>,
    minimum_bits_per_key: Option<f64>,
    first_pass_rate: f64,
    adaptations: u64,
    spent_blocks: u64,
    rebuilds: u64,
    kicks: u64,
    /// What `states` counts; `None` where there is nothing to count.
    state_unit: Option<&'static str>,
    states: Vec<usize>,
}

/// Verifies the file and prints what is in it.
///
/// # Errors
/// A file that cannot be read, an output that is closed.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let saved = Saved::new(&args.file);
    let (contents, _) = saved.read()?;
    let (file, file_bytes) = (saved.name().to_string(), contents.len() as u64);
    let contents_kind = Contents::of(&contents);
    if matches!(contents_kind, Contents::Filter | Contents::Frozen) {
        let inspected = keyless::inspected(&file, contents_kind, &contents);
        return match inspected {
            Ok(report) => report.print(args.json),
            Err(error) => damaged(args, file, file_bytes, &error),
        };
    }
    let (secret, filter) = match saved.secret() {
        _ if contents_kind == Contents::KeyedWithSecret => {
            let loaded = KeyFilter::load_with_secret(&contents);
            ("in the file".to_string(), loaded.map(|filter| filter.into_parts().1))
        }
        Ok(Some(hasher)) => {
            let loaded = KeyFilter::load(&contents, hasher);
            ("fits".to_string(), loaded.map(|filter| filter.into_parts().1))
        }
        Ok(None) => {
            ("missing; 'query' and 'adapt' need it".into(), KeyFilter::load_filter(&contents))
        }
        Err(error) => (error.to_string(), KeyFilter::load_filter(&contents)),
    };
    match filter {
        Ok(filter) => {
            let report = Report::new(file, file_bytes, secret, &filter);
            if args.json {
                writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
            } else {
                write!(io::stdout(), "{}", report.text())?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => damaged(args, file, file_bytes, &error),
    }
}

/// Says what is wrong with the file.
fn damaged(
    args: &Args,
    file: String,
    file_bytes: u64,
    error: &twiceshy_filters::Error,
) -> Result<ExitCode, Box<dyn Error>> {
    let reason = error.to_string();
    if args.json {
        let damage = Damage { schema: SCHEMA, file, file_bytes, whole: false, reason };
        writeln!(io::stdout(), "{}", serde_json::to_string(&damage)?)?;
    } else {
        let size = bytes(file_bytes);
        writeln!(io::stdout(), "{file} ({size}) is {reason}")?;
    }
    Ok(ExitCode::from(DAMAGED))
}

impl Report {
    fn new(file: String, file_bytes: u64, secret: String, filter: &AnyFilter) -> Self {
        let (spec, stats) = (filter.spec(), filter.stats());
        let rate = spec.first_pass_rate(stats.load());
        let any = stats.len != 0;
        Report {
            schema: SCHEMA,
            file,
            file_bytes,
            whole: true,
            secret,
            kind: spec.name(),
            spec: spec.to_string(),
            keys: stats.len,
            capacity: stats.capacity,
            cells: stats.cells,
            stashed: stats.stashed,
            load: stats.load(),
            filter_bytes: stats.bits.div_ceil(8) as u64,
            bits_per_key: any.then(|| stats.bits_per_key()),
            minimum_bits_per_key: any.then(|| -rate.log2()),
            first_pass_rate: rate,
            adaptations: stats.adaptations,
            spent_blocks: stats.spent,
            rebuilds: stats.rebuilds,
            kicks: stats.kicks,
            state_unit: spec.state_unit(),
            states: filter.states(),
        }
    }

    fn text(&self) -> String {
        let number = |number: usize| count(number as u64);
        let mut lines = vec![
            (
                "file",
                format!("{}, {}, whole (checksum and contents)", self.file, bytes(self.file_bytes)),
            ),
            ("secret", self.secret.clone()),
            ("kind", self.kind.to_string()),
            ("spec", self.spec.clone()),
            ("keys", format!("{} of {}", number(self.keys), number(self.capacity))),
            ("cells", format!("{}, load {:.3}", number(self.cells), self.load)),
        ];
        if self.stashed != 0 {
            lines.push(("stashed", number(self.stashed)));
        }
        lines.push(("in memory", bytes(self.filter_bytes)));
        if let (Some(bits), Some(minimum)) = (self.bits_per_key, self.minimum_bits_per_key) {
            let rate = percent(self.first_pass_rate);
            lines.push(("bits per key", format!("{bits:.2}")));
            lines.push(("minimum", format!("{minimum:.2}, at {rate} false positives")));
        }
        lines.push(("adaptations", count(self.adaptations)));
        lines.push(("rebuilds", count(self.rebuilds)));
        lines.push(("kicks", count(self.kicks)));
        let mut text = String::new();
        for (name, value) in lines {
            writeln!(text, "{name:<12} {value}").expect("a string takes all");
        }
        if let Some(unit) = self.state_unit.filter(|_| !self.states.is_empty()) {
            let spent = count(self.spent_blocks);
            writeln!(text, "\nadaptivity: {unit} ({spent} blocks were spent and forgot)")
                .expect("a string");
            text.push_str(&histogram(&self.states));
        }
        text
    }
}

/// A bar for each count, on a logarithmic scale: most keys never adapt, and the few that do are
/// of interest.
fn histogram(counts: &[usize]) -> String {
    let scale = |count: usize| (count as f64 + 1.0).log2();
    let most = counts.iter().copied().max().map_or(1.0, scale);
    let width = counts.iter().map(|&number| count(number as u64).len()).max().unwrap_or(0);
    let mut text = String::new();
    for (value, &number) in counts.iter().enumerate() {
        let bar = "#".repeat((scale(number) / most * BAR as f64).round() as usize);
        let number = count(number as u64);
        let line = format!("{value:>5}  {number:>width$}  {bar}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
