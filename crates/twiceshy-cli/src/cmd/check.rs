//! `twiceshy check`: verifies a store on disk, and recovers what is intact.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use twiceshy::store::{Damage, Report};

use crate::progress::Progress;
use crate::table::{bytes, count};

/// Verifies a store on disk, and recovers the intact records of a damaged one.
///
/// DIR is a directory of 'twiceshy serve' or of the library; stop the server first. The
/// check reads everything and changes nothing. It verifies the checksum of every page and
/// record, the digest of every key, the secret, and that the filters know every stored
/// key.
///
/// --repair writes the intact records to a new directory TO and leaves DIR as it is. The
/// output lists what TO lacks: records by key where the key can be read and by digest
/// otherwise, and pages by their offset in the file. A directory of 'serve --store' has
/// digests instead of records, and a key whose digest is lost reads as missing: resync
/// such a directory before you use it.
///
/// Exit code: 0 if nothing is damaged; 1 if something is, repaired or not; 2 if DIR is
/// not a store, is in use, or cannot be read.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy check /var/lib/twiceshy
  twiceshy check /var/lib/twiceshy --repair /var/lib/twiceshy.repaired
  twiceshy check /var/lib/twiceshy --json | jq '.damage[].key'")]
pub struct Args {
    /// Directory of the store
    #[arg(value_name = "DIR")]
    directory: PathBuf,

    /// Write the intact records to this new directory
    #[arg(long, value_name = "TO")]
    repair: Option<PathBuf>,

    /// Print one JSON object instead of text, with all damage
    #[arg(long)]
    json: bool,
}

/// Something is damaged.
const DAMAGED: u8 = 1;

/// How much damage is listed in text.
const LISTED: usize = 50;

/// The report as scripts know it.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    file: String,
    whole: bool,
    pages: u64,
    bytes: u64,
    records: u64,
    doubtful: u64,
    interrupted: bool,
    snapshot: &'a str,
    repaired: Option<String>,
    damage: Vec<Item>,
}

/// One damage. The fields that do not apply are left out.
#[derive(Default, Serialize)]
struct Item {
    what: &'static str,
    reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
}

/// Verifies the directory, repairs it if asked to, and prints what was found.
///
/// # Errors
/// A directory that is not a store, is in use or cannot be read; an output that is closed.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let progress = Progress::new(0);
    progress.phase("checking");
    let watch = &mut |done, total| progress.arrive_of(done, total);
    let report = match &args.repair {
        None => twiceshy::store::check(&args.directory, watch),
        Some(to) => twiceshy::store::repair(&args.directory, to, watch),
    };
    progress.finish();
    let report = report?;
    if args.json {
        writeln!(io::stdout(), "{}", serde_json::to_string(&json(args, &report))?)?;
    } else {
        write!(io::stdout(), "{}", text(args, &report))?;
    }
    Ok(if report.is_whole() { ExitCode::SUCCESS } else { ExitCode::from(DAMAGED) })
}

fn json<'a>(args: &Args, report: &'a Report) -> Json<'a> {
    Json {
        schema: "twiceshy.check.v1",
        file: report.path.display().to_string(),
        whole: report.is_whole(),
        pages: report.pages,
        bytes: report.bytes,
        records: report.records,
        doubtful: report.doubtful,
        interrupted: report.interrupted,
        snapshot: &report.snapshot,
        repaired: args.repair.as_ref().map(|to| to.display().to_string()),
        damage: report.damage.iter().map(item).collect(),
    }
}

fn item(damage: &Damage) -> Item {
    match damage {
        Damage::File { name, reason } => {
            Item { what: "file", reason: reason.clone(), file: Some(name), ..Item::default() }
        }
        Damage::Page { offset, reason } => {
            Item { what: "page", reason: reason.clone(), offset: Some(*offset), ..Item::default() }
        }
        Damage::Record { digest, key, reason } => {
            let text = key.as_ref().and_then(|key| String::from_utf8(key.clone()).ok());
            let [high, low] = digest.words();
            let hex = |key: &Vec<u8>| key.iter().map(|byte| format!("{byte:02x}")).collect();
            Item {
                what: "record",
                reason: (*reason).to_string(),
                digest: Some(format!("{high:016x}{low:016x}")),
                key_hex: key.as_ref().filter(|_| text.is_none()).map(hex),
                key: text,
                ..Item::default()
            }
        }
        other => Item { what: "other", reason: other.to_string(), ..Item::default() },
    }
}

fn text(args: &Args, report: &Report) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let [pages, records] = [report.pages, report.records].map(count);
    let mut line = |line: String| {
        let _ = writeln!(text, "{line}");
    };
    let (file, size) = (report.path.display(), bytes(report.bytes));
    line(format!("{file}: {pages} pages in use ({size}), {records} whole records"));
    line(format!("snapshot of the filters: {}", report.snapshot));
    if report.interrupted {
        line("the last write was interrupted by a crash and does not count".into());
    }
    if report.is_whole() {
        line("nothing is damaged".into());
    }
    for damage in report.damage.iter().take(LISTED) {
        line(format!("damaged: {damage}"));
    }
    if let Some(more) = report.damage.len().checked_sub(LISTED + 1) {
        line(format!("and {} more; --json lists all", count(more as u64 + 1)));
    }
    if report.doubtful > 0 {
        let doubtful = count(report.doubtful);
        line(format!("{doubtful} of the whole records are on damaged pages and may be old"));
    }
    match &args.repair {
        Some(to) => line(format!("{} has the {records} whole records", to.display())),
        None if report.is_whole() => (),
        None => line("'twiceshy check DIR --repair TO' recovers the whole records".into()),
    }
    text
}
