//! `twiceshy adapt`: reports false positives to a filter.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use twiceshy::Filter;
use twiceshy_filters::{Adapted, AnyFilter, Digest, KeyFilter, KeyHasher};

use crate::keys::{Format, Keys, is_stdin};
use crate::loaded::Loaded;
use crate::saved::Saved;
use crate::table::count;

/// Reports false positives to a filter: keys that it answered "maybe" and that are not stored.
///
/// The filter changes so that it answers "absent" to them, and is saved. FILE is replaced by a
/// rename, as a whole or not at all; readers see the old filter until then. If another process
/// is building or adapting FILE, the command fails at once; if FILE was replaced since it was
/// read, nothing is saved. Keys of the list that are stored after all stay stored, and are
/// counted, as are blank lines. Lists are read as by 'twiceshy build': gzip and zstd, LF and
/// CRLF.
///
/// FILE has the digests of its keys, so it needs no list of them. --keys verifies that FILE is
/// the filter of exactly these keys; if not, nothing is changed. A FILE that was built with
/// --never has no digests, and needs --keys to tell stored keys from others. One that was built
/// with --frozen cannot be adapted.
///
/// Exit code: 0; 1 if a key of the list is still a false positive (the filter does not adapt, or
/// is too crowded: build it with another --spec); 2 if the flags are wrong, a file is damaged,
/// or the keys are not the filter's.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy adapt users.twiceshy --false-positives misses.txt
  twiceshy adapt users.twiceshy --false-positives misses.txt --keys users.txt
  mysql -e 'select ...' | twiceshy adapt users.twiceshy --false-positives - --json")]
pub struct Args {
    /// File of the filter
    file: PathBuf,

    /// File with keys that were answered "maybe" and are not stored; '-' for standard input
    #[arg(long, value_name = "LIST")]
    false_positives: PathBuf,

    /// File with all stored keys, to compare with FILE first; '-' for standard input
    #[arg(long)]
    keys: Option<PathBuf>,

    /// How the keys are separated, in both lists
    #[arg(long, value_enum, default_value_t = Format::Lines)]
    format: Format,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Some keys are still false positives.
const UNFIXED: u8 = 1;

/// The version of the report as scripts know it.
const SCHEMA: &str = "twiceshy.adapt.v1";

/// How many times to report a key that becomes a false positive again when others are reported.
const ROUNDS: usize = 8;

/// What became of the keys of the list, each counted once. The names of the fields are
/// those of the JSON.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    file: String,
    fixed: usize,
    already_absent: usize,
    stored: usize,
    unfixed: usize,
    blank_lines: u64,
    saved: bool,
}

/// Adapts the filter and saves it.
///
/// # Errors
/// A filter or keys that cannot be read, keys that are not the filter's, a file that
/// cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let list = Some(args.false_positives.as_path());
    if is_stdin(list) && args.keys.as_deref().is_some_and(|keys| is_stdin(Some(keys))) {
        return Err("--false-positives and --keys cannot both be standard input".into());
    }
    let list = Keys::open(list, args.format)?;
    let keys = args.keys.as_deref().map(|keys| Keys::open(Some(keys), args.format)).transpose()?;
    let saved = Saved::new(&args.file);
    // From the first read of the file until it is replaced.
    let _lock = saved.lock()?;
    let (loaded, version) = saved.load()?;
    let keys = keys.map(|keys| distinct(keys, loaded.hasher())).transpose()?;
    let keys = keys.as_ref().map(|(keys, _)| &keys[..]);
    let (digests, blank_lines) = distinct(list, loaded.hasher())?;
    let adapted = match loaded {
        Loaded::Keyed(hasher, filter) => adapt_keyed(hasher, *filter, keys, &digests)
            .map(|(report, keyed)| (report, keyed.save())),
        Loaded::KeyedWithSecret(hasher, filter) => adapt_keyed(hasher, *filter, keys, &digests)
            .map(|(report, keyed)| (report, keyed.save_with_secret())),
        Loaded::Filter(filter) => adapt_keyless(*filter, keys, &digests),
        Loaded::Frozen(_) => Err("it is frozen; build it again, with these keys as --never".into()),
    };
    let (mut report, bytes) = adapted.map_err(|reason| format!("{}: {reason}", saved.name()))?;
    report.blank_lines = blank_lines;
    report.file = saved.name().to_string();
    report.saved = report.fixed + report.unfixed != 0;
    if report.saved {
        saved.replace(&bytes, Some(version))?;
    }
    if args.json {
        writeln!(io::stdout(), "{}", serde_json::to_string(&report)?)?;
    } else {
        report.print()?;
    }
    Ok(if report.unfixed == 0 { ExitCode::SUCCESS } else { ExitCode::from(UNFIXED) })
}

/// Adapts a filter that has the digests of its keys, and returns it.
fn adapt_keyed(
    hasher: KeyHasher,
    mut filter: AnyFilter,
    keys: Option<&[Digest]>,
    digests: &[Digest],
) -> Result<(Report, KeyFilter), Box<dyn Error>> {
    if let Some(keys) = keys {
        check_keys(&mut filter, keys)?;
    }
    let report = tell(&mut filter, digests)?;
    Ok((report, KeyFilter::from_parts(hasher, filter)))
}

/// Adapts a filter that has none. Reporting a stored key would hide it.
fn adapt_keyless(
    mut filter: Filter,
    keys: Option<&[Digest]>,
    digests: &[Digest],
) -> Result<(Report, Vec<u8>), Box<dyn Error>> {
    let Some(keys) = keys else {
        let reason = "it has no digests of its keys; give all stored keys with --keys, so that \
                      none of them is taken for a false positive";
        return Err(reason.into());
    };
    let missing = filter.contains_digests(keys).iter().filter(|found| !**found).count();
    if missing != 0 {
        let missing = count(missing as u64);
        let reason = format!("{missing} of the --keys are not in it; nothing was changed");
        return Err(reason.into());
    }
    let is_stored = |digest: &Digest| keys.binary_search(digest).is_ok();
    let absent: Vec<Digest> = digests.iter().copied().filter(|digest| !is_stored(digest)).collect();
    let before = filter.contains_digests(&absent);
    for digest in &absent {
        filter.adapt_digest(*digest);
    }
    // Some may have been pushed out of the table by others.
    let report =
        Report::new(&before, &filter.contains_digests(&absent), digests.len() - absent.len());
    Ok((report, filter.to_bytes()))
}

/// The distinct keys of a list, and how many lines of it were blank.
fn distinct(keys: Keys, hasher: &KeyHasher) -> Result<(Vec<Digest>, u64), Box<dyn Error>> {
    let (mut digests, blank_lines) = keys.digests(hasher, |_| ())?;
    digests.sort_unstable();
    digests.dedup();
    Ok((digests, blank_lines))
}

/// Returns an error unless these are exactly the stored keys. Reporting a stored key changes
/// nothing; a filter to which other keys were reported is not saved.
fn check_keys(filter: &mut AnyFilter, keys: &[Digest]) -> Result<(), Box<dyn Error>> {
    let mut missing = 0;
    for &key in keys {
        missing += usize::from(filter.adapt(key)? != Adapted::Stored);
    }
    let surplus = filter.stats().len - (keys.len() - missing);
    if (missing, surplus) == (0, 0) {
        return Ok(());
    }
    let [missing, surplus] = [missing, surplus].map(|number| count(number as u64));
    Err(format!(
        "{missing} of the --keys are not in it, and {surplus} of its keys are not among them; \
         nothing was changed. Build it again from these keys, or leave out --keys"
    )
    .into())
}

/// Reports all keys, and again those that became false positives because of others.
fn tell(filter: &mut AnyFilter, digests: &[Digest]) -> Result<Report, Box<dyn Error>> {
    let mut before = vec![false; digests.len()];
    filter.contains_many(digests, &mut before);
    let mut stored = vec![false; digests.len()];
    for _ in 0..ROUNDS {
        let mut told = false;
        for (&digest, stored) in digests.iter().zip(&mut stored) {
            if !*stored && filter.contains(digest) {
                *stored = filter.adapt(digest)? == Adapted::Stored;
                told |= !*stored;
            }
        }
        if !told {
            break;
        }
    }
    let mut now = vec![false; digests.len()];
    filter.contains_many(digests, &mut now);
    let absent = |answers: &[bool]| -> Vec<bool> {
        answers
            .iter()
            .zip(&stored)
            .filter(|(_, stored)| !**stored)
            .map(|(found, _)| *found)
            .collect()
    };
    let [before, now] = [absent(&before), absent(&now)];
    Ok(Report::new(&before, &now, digests.len() - now.len()))
}

impl Report {
    /// What became of absent keys that had these answers before and have those now.
    fn new(before: &[bool], now: &[bool], stored: usize) -> Self {
        let [mut fixed, mut already_absent, mut unfixed] = [0; 3];
        for (before, now) in before.iter().zip(now) {
            match (before, now) {
                (_, true) => unfixed += 1,
                (true, false) => fixed += 1,
                (false, false) => already_absent += 1,
            }
        }
        let (file, saved, blank_lines) = (String::new(), false, 0);
        Report { schema: SCHEMA, file, fixed, already_absent, stored, unfixed, blank_lines, saved }
    }

    fn print(&self) -> io::Result<()> {
        let [fixed, absent, stored, unfixed] =
            [self.fixed, self.already_absent, self.stored, self.unfixed]
                .map(|number| count(number as u64));
        let saved = if self.saved { "saved" } else { "nothing to save" };
        writeln!(
            io::stdout(),
            "{}: {fixed} fixed, {absent} were absent already, {stored} are stored, {unfixed} \
             could not be fixed{}; {saved}",
            self.file,
            match self.blank_lines {
                0 => String::new(),
                lines => format!("; blank lines skipped: {}", count(lines)),
            },
        )
    }
}
