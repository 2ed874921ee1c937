//! `twiceshy query`: is this key in the filter?

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use twiceshy_filters::Digest;

use crate::keys::{Format, Keys};
use crate::loaded::Loaded;
use crate::saved::Saved;
use crate::table::count;

/// Looks up keys in a filter.
///
/// Prints a line per key, in order: "maybe" or "absent", a tab and the key. "absent" is certain.
/// "maybe" is wrong for a small share of the absent keys: report those with 'twiceshy adapt'.
///
/// KEYS may be compressed with gzip or zstd. The CR of CRLF is not part of a key, blank lines
/// are skipped (--count counts them), and a NUL byte in a line is an error: use --format lp32
/// for keys of any bytes.
///
/// Keys are printed as they are; if yours have newlines, use --json. There, a key that is not
/// UTF-8 has its bytes in "key_hex" instead of "key".
///
/// Exit code: 0 if all keys were answered; 1 with --exit-code, if any answer was "maybe"; 2 if
/// the flags are wrong, the keys cannot be read, or the file is damaged.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy query users.twiceshy visitors.txt
  twiceshy query users.twiceshy --key alice --key bob
  tail -f requests | twiceshy query users.twiceshy | grep ^maybe
  twiceshy query users.twiceshy --key alice --count --exit-code || echo maybe")]
pub struct Args {
    /// File of the filter
    file: PathBuf,

    /// File with the keys to look up; '-' or none for standard input
    keys: Option<PathBuf>,

    /// A key to look up; may be repeated
    #[arg(long = "key", value_name = "KEY", conflicts_with_all = ["keys", "format"])]
    key: Vec<OsString>,

    /// How the keys are separated
    #[arg(long, value_enum, default_value_t = Format::Lines)]
    format: Format,

    /// Print only the number of keys per answer
    #[arg(long)]
    count: bool,

    /// Exit with 1 if any answer was "maybe"
    #[arg(long)]
    exit_code: bool,

    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
}

/// With --exit-code: some key may be there.
const MAYBE: u8 = 1;

#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    answer: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
}

#[derive(Serialize)]
struct Counts {
    schema: &'static str,
    maybe: u64,
    absent: u64,
    blank_lines: u64,
}

/// Answers every key.
///
/// # Errors
/// A filter or keys that cannot be read, an output that is closed.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    // Before the filter is loaded, which may take a while.
    let keys =
        args.key.is_empty().then(|| Keys::open(args.keys.as_deref(), args.format)).transpose()?;
    let (filter, _) = Saved::new(&args.file).load()?;
    let mut answers = Answers::new(args, &filter);
    match keys {
        None => answers.give(args.key.iter().map(|key| key.as_encoded_bytes()))?,
        Some(mut keys) => {
            while let Some(batch) = keys.next_batch()? {
                answers.give(batch.keys())?;
            }
            answers.counts.blank_lines = keys.blank_lines();
        }
    }
    let counts = answers.counts;
    if args.count && args.json {
        writeln!(io::stdout(), "{}", serde_json::to_string(&counts)?)?;
    } else if args.count {
        let [maybe, absent] = [counts.maybe, counts.absent].map(count);
        writeln!(io::stdout(), "maybe\t{maybe}\nabsent\t{absent}")?;
        if counts.blank_lines != 0 {
            writeln!(io::stdout(), "blank lines\t{}", count(counts.blank_lines))?;
        }
    }
    let found = args.exit_code && counts.maybe != 0;
    Ok(if found { ExitCode::from(MAYBE) } else { ExitCode::SUCCESS })
}

/// Answers on their way out.
struct Answers<'a> {
    args: &'a Args,
    filter: &'a Loaded,
    output: BufWriter<io::StdoutLock<'static>>,
    counts: Counts,
    digests: Vec<Digest>,
}

impl<'a> Answers<'a> {
    fn new(args: &'a Args, filter: &'a Loaded) -> Self {
        let output = BufWriter::new(io::stdout().lock());
        let counts =
            Counts { schema: "twiceshy.query.count.v1", maybe: 0, absent: 0, blank_lines: 0 };
        Answers { args, filter, output, counts, digests: vec![] }
    }

    /// Answers these keys, and flushes the output.
    fn give<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) -> io::Result<()> {
        self.digests.clear();
        self.digests.extend(keys.clone().map(|key| self.filter.hasher().digest(key)));
        let found = self.filter.contains_many(&self.digests);
        let maybe = found.iter().filter(|&&found| found).count();
        self.counts.maybe += maybe as u64;
        self.counts.absent += (found.len() - maybe) as u64;
        if self.args.count {
            return Ok(());
        }
        for (key, found) in keys.zip(found) {
            let answer = if found { "maybe" } else { "absent" };
            if self.args.json {
                let text = std::str::from_utf8(key).ok();
                let hex = text.is_none().then(|| hex(key));
                let schema = "twiceshy.query.v1";
                let answer = Answer { schema, answer, key: text, key_hex: hex };
                serde_json::to_writer(&mut self.output, &answer).map_err(io::Error::from)?;
            } else {
                self.output.write_all(answer.as_bytes())?;
                self.output.write_all(b"\t")?;
                self.output.write_all(key)?;
            }
            self.output.write_all(b"\n")?;
        }
        self.output.flush()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
