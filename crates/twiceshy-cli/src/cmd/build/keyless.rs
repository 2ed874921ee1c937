//! `build --frozen` and `build --never`: a filter without the digests of its keys.

use std::error::Error;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use serde::Serialize;
use twiceshy::Filter;
use twiceshy::filter::DEFAULT_RATE;
use twiceshy_filters::{Digest, KeyHasher};

use crate::keys::{Format, Keys, blank, is_stdin};
use crate::saved::Saved;
use crate::table::{bytes, count, percent};

use super::Args;

/// Bits that a known negative takes in the table of exceptions at first: a set of its own.
const BITS_PER_EXCEPTION: f64 = 512.0;

/// How much larger the table is made when it cannot hold all known negatives.
const LARGER: f64 = 1.5;

/// What was built. The names of the fields are those of the JSON.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    file: String,
    frozen: bool,
    keys: usize,
    duplicates: usize,
    blank_lines: u64,
    rate: f64,
    filter_bytes: u64,
    file_bytes: u64,
    never: Option<Never>,
    seconds: f64,
}

/// What became of the known negatives, each counted once.
#[derive(Serialize)]
struct Never {
    keys: usize,
    /// Those that are among the stored keys, and stay stored.
    stored: usize,
    /// Those that were false positives and are answered "absent" now.
    fixed: usize,
    blank_lines: u64,
}

/// Builds and saves.
///
/// # Errors
/// Those of [`super::run`].
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let start = Instant::now();
    let saved = Saved::new(&args.output);
    saved.check_replaceable()?;
    if args.never.as_deref().is_some_and(|never| is_stdin(Some(never)))
        && is_stdin(args.keys.as_deref())
    {
        return Err("the keys and --never cannot both be standard input".into());
    }
    let hasher = KeyHasher::random();
    let (digests, duplicates, blank_lines) = distinct(args.keys.as_deref(), args.format, &hasher)?;
    let capacity = args.capacity.unwrap_or(0).max(digests.len()).max(1);
    super::check_memory(capacity)?;
    let builder = Filter::builder().capacity(capacity).rate(args.rate.unwrap_or(DEFAULT_RATE));
    // A frozen filter has no use for room that is left.
    let builder = if args.frozen { builder.exceptions(0.0) } else { builder };
    let mut filter = builder.hasher(hasher).build()?;
    for digest in &digests {
        filter.insert_digest(*digest);
    }
    let never = args.never.as_deref().map(|never| deny(&mut filter, never, args.format, &digests));
    let never = never.transpose()?;
    let stats = filter.stats();
    let contents = if args.frozen { filter.freeze().to_bytes() } else { filter.to_bytes() };
    let report = Report {
        schema: "twiceshy.build.filter.v1",
        file: saved.name().to_string(),
        frozen: args.frozen,
        keys: digests.len(),
        duplicates,
        blank_lines,
        rate: stats.rate,
        filter_bytes: stats.bytes as u64,
        file_bytes: saved.replace(&contents, None)?,
        never,
        seconds: start.elapsed().as_secs_f64(),
    };
    if args.json {
        writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
    } else {
        report.print()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The distinct keys of a list in order, how many were there already, and its blank lines.
fn distinct(
    path: Option<&Path>,
    format: Format,
    hasher: &KeyHasher,
) -> Result<(Vec<Digest>, usize, u64), Box<dyn Error>> {
    let (mut digests, blank_lines) = Keys::open(path, format)?.digests(hasher, |_| ())?;
    let given = digests.len();
    digests.sort_unstable();
    digests.dedup();
    let duplicates = given - digests.len();
    Ok((digests, duplicates, blank_lines))
}

/// Adapts the filter until it answers "absent" to all keys of a list that are not stored.
fn deny(
    filter: &mut Filter,
    path: &Path,
    format: Format,
    stored: &[Digest],
) -> Result<Never, Box<dyn Error>> {
    let (mut never, _, blank_lines) = distinct(Some(path), format, &filter.hasher().clone())?;
    let keys = never.len();
    never.retain(|digest| stored.binary_search(digest).is_err());
    let wrong = maybe(filter, &never);
    let capacity = filter.stats().capacity as f64;
    let mut bits = (BITS_PER_EXCEPTION * wrong.len() as f64 / capacity).max(0.5);
    while !maybe(filter, &never).is_empty() {
        filter.reset_exceptions(bits).map_err(|error| {
            let wrong = count(wrong.len() as u64);
            format!("{wrong} keys of --never are false positives ({error}); use a lower --rate")
        })?;
        for digest in &wrong {
            filter.adapt_digest(*digest);
        }
        bits *= LARGER;
    }
    Ok(Never { keys, stored: keys - never.len(), fixed: wrong.len(), blank_lines })
}

/// Those that the filter answers "maybe".
fn maybe(filter: &Filter, digests: &[Digest]) -> Vec<Digest> {
    let found = filter.contains_digests(digests);
    digests.iter().zip(found).filter(|(_, found)| *found).map(|(digest, _)| *digest).collect()
}

impl Report {
    fn print(&self) -> io::Result<()> {
        let mut output = io::stdout().lock();
        writeln!(
            output,
            "{}: {} keys ({} duplicates{} left out) in {:.1} s\n\
             {}, {} in memory; the file has {}, its secret included\n\
             answers \"maybe\" to {} of absent keys",
            self.file,
            count(self.keys as u64),
            count(self.duplicates as u64),
            blank(self.blank_lines),
            self.seconds,
            if self.frozen { "frozen filter" } else { "filter" },
            bytes(self.filter_bytes),
            bytes(self.file_bytes),
            percent(self.rate),
        )?;
        let Some(never) = &self.never else { return Ok(()) };
        let [keys, fixed, stored] =
            [never.keys, never.fixed, never.stored].map(|number| count(number as u64));
        writeln!(
            output,
            "answers \"absent\" to all {keys} keys of --never that are not stored: {fixed} were \
             false positives and were fixed, {stored} are stored{}",
            blank(never.blank_lines)
        )
    }
}
