//! `twiceshy paper`: reproduces the figures of the papers.

use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use twiceshy_lab::experiment::runner::{self, Findings, Plan, Progress};
use twiceshy_lab::experiment::store::{self, Store};
use twiceshy_lab::experiment::{Figure, Row, Setting, figures};
use twiceshy_lab::report::{self, Page};
use twiceshy_lab::workload::{self, KeyFile, Recording};

/// Reproduces the papers' figures, and says whether the results agree.
///
/// Every row (a mean over trials) is written to OUT/FIGURE.csv as soon as it is done.
/// After Ctrl-C or a crash, run the command again: it measures only what is missing.
/// OUT/report.html shows all figures in OUT, on one page that needs no network, and OUT/FIGURE.svg
/// each of them alone.
///
/// --quick measures all figures in under two minutes on 2 cores, with many small trials.
/// It does not settle taf-5, whose times depend on what else the machine does, nor in
/// taf-2 whether telescoping is better than swapping.
///
/// --full, the default, measures at the papers' sizes: an estimated 8 CPU hours, which
/// docs/papers.md states figure by figure. Each row has 4 to 10 trials, until its standard error is
/// 2 % of the mean. OUT/costs.csv has what each row took.
///
/// Rows depend on --quick, --trials, --seed and the inputs, and on nothing else.
///
/// The verdict "as in the paper" is wrong with probability 10^-6 (Welch's test of means),
/// and "not as in the paper" with 10^-3 per comparison of its claim; otherwise there were
/// too few trials to tell. Claims that something is alike or no worse hold unless they
/// are contradicted. These probabilities are for nearly normal trials. Where trials count
/// few events, their error is at least that of Poisson counts.
///
/// Exit code: 0; 1 if a trial failed; 2 if the flags are wrong or a file cannot be
/// written; 130 after Ctrl-C. A result that differs from the paper's is not an error.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  twiceshy paper --list
  twiceshy paper --quick
  twiceshy paper acf-1 acf-2 --out figures
  twiceshy paper acf-5 --pcap trace.pcap --out mine
  twiceshy paper acf-1 --quick --json | head -1")]
pub struct Args {
    /// Figures to measure, by name [default: all]
    #[arg(value_name = "FIGURE")]
    figures: Vec<String>,

    /// Small trials, 4 to 120 per point: all figures in under two minutes on 2 cores
    #[arg(long)]
    quick: bool,

    /// Trials at the papers' sizes [default]
    #[arg(long, conflicts_with = "quick")]
    full: bool,

    /// Measure only the panel of this name, such as "n_e = 10"
    #[arg(long, value_name = "PANEL")]
    panel: Option<String>,

    /// Exact number of trials per point [default: as the figure needs]
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    trials: Option<u32>,

    /// Directory of the rows and of report.html
    #[arg(long, value_name = "DIR", default_value = "twiceshy-report")]
    out: PathBuf,

    /// Seed from which the seeds of all trials are derived
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Trials at the same time [default: one per core]
    #[arg(long, value_name = "J",
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=1024))]
    jobs: Option<usize>,

    /// Packet capture (pcap, pcapng) for the figures about traces
    ///
    /// It replaces the generated traces. Flows are the keys: the first ones are stored,
    /// and the packets of the others are queries.
    #[arg(long, value_name = "FILE", conflicts_with = "keys")]
    pcap: Option<PathBuf>,

    /// Stream of keys for the figures about traces
    ///
    /// One key per line, as in a log; or numbers, as "u32:FILE" or "u64:FILE". The first
    /// distinct keys are stored, the others are queries.
    #[arg(long, value_name = "FILE")]
    keys: Option<KeyFile>,

    /// Print the rows as JSON, one object per line
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Print the rows as CSV
    #[arg(long)]
    csv: bool,

    /// List the figures and measure nothing
    #[arg(long)]
    list: bool,
}

/// A trial failed.
const FAILED: u8 = 1;

/// Ctrl-C, as shells count it: 128 and the signal's number.
const INTERRUPTED: u8 = 130;

const REPORT: &str = "report.html";

/// Measures figures.
///
/// # Errors
/// A figure that does not exist, or a file that cannot be read or written.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let figures = figures();
    if args.list {
        for figure in &figures {
            writeln!(io::stdout(), "{:<19} {} ({})", figure.id, figure.title, figure.source)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = args.choose(&figures)?;
    let plan = args.plan()?;
    let store = Store::new(&args.out, &plan.describe());
    let stop = stop_at_ctrl_c()?;

    let bar = bar();
    let findings = runner::run(&chosen, &plan, &store, &stop, &|progress| show(&bar, progress));
    bar.finish_and_clear();
    let findings = findings.map_err(|error| match error {
        store::Error::OtherSetting { .. } => format!("{error} (the directory is --out)"),
        store::Error::Io { .. } => error.to_string(),
    })?;

    let report = args.out.join(REPORT);
    let page = page(&figures, &chosen, &findings, &plan, &store);
    replace(&report, &page.html()).map_err(|error| format!("{}: {error}", report.display()))?;
    for section in page.sections.iter().filter(|section| !section.plots.is_empty()) {
        let image = args.out.join(format!("{}.svg", section.id));
        fs::write(&image, section.image())
            .map_err(|error| format!("{}: {error}", image.display()))?;
    }
    args.print(&chosen, &findings, &report)?;

    let unfinished = findings.iter().any(|found| found.rows.len() < found.planned);
    let failed = findings.iter().any(|found| !found.failures.is_empty());
    Ok(match () {
        () if unfinished && stop.load(Ordering::Relaxed) => ExitCode::from(INTERRUPTED),
        () if failed => ExitCode::from(FAILED),
        () => ExitCode::SUCCESS,
    })
}

impl Args {
    /// The figures that were named, in the order of the papers.
    fn choose<'f>(&self, figures: &'f [Figure]) -> Result<Vec<&'f Figure>, String> {
        let known = |name: &String| figures.iter().any(|figure| figure.id == name);
        if let Some(unknown) = self.figures.iter().find(|name| !known(name)) {
            let names: Vec<_> = figures.iter().map(|figure| figure.id).collect();
            return Err(format!(
                "no figure is called \"{unknown}\"; there are {}",
                names.join(", ")
            ));
        }
        let named = |figure: &&Figure| self.figures.iter().any(|name| name == figure.id);
        Ok(figures.iter().filter(|figure| self.figures.is_empty() || named(figure)).collect())
    }

    fn plan(&self) -> Result<Plan, workload::Error> {
        let recording = match (&self.pcap, &self.keys) {
            (Some(path), _) => Some(Recording::of_capture(path)?),
            (None, Some(file)) => Some(Recording::of_keys(file)?),
            (None, None) => None,
        };
        let cores = || thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let jobs = self.jobs.and_then(NonZero::new);
        Ok(Plan {
            setting: Setting {
                quick: self.quick && !self.full,
                recording: recording.map(Arc::new),
            },
            seed: self.seed,
            trials: self.trials.and_then(NonZero::new),
            jobs: jobs.unwrap_or_else(cores),
            panel: self.panel.clone(),
        })
    }

    /// Rows for machines, or verdicts for people; then these go beside the rows.
    fn print(&self, figures: &[&Figure], findings: &[Findings], report: &Path) -> io::Result<()> {
        let rows = || findings.iter().flat_map(|found| &found.rows);
        let mut out = io::stdout().lock();
        if self.json {
            for row in rows() {
                let line = serde_json::to_string(&Line { schema: "twiceshy.paper.v1", row })?;
                writeln!(out, "{line}")?;
            }
        }
        if self.csv {
            out.write_all(store::csv(&rows().cloned().collect::<Vec<_>>()).as_bytes())?;
        }
        let mut say: Box<dyn Write> =
            if self.json || self.csv { Box::new(io::stderr()) } else { Box::new(out) };
        for (figure, found) in figures.iter().zip(findings) {
            writeln!(say, "{}: {}", figure.id, found.summary(figure))?;
            for failure in &found.failures {
                eprintln!("warning: {}: {failure}", figure.id);
            }
        }
        writeln!(say, "report: {}", report.display())
    }
}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    #[serde(flatten)]
    row: &'a Row,
}

/// A flag that is set at the first Ctrl-C: trials under way are finished, rows
/// kept. The second ends the process where it is, which costs unfinished rows only.
fn stop_at_ctrl_c() -> Result<Arc<AtomicBool>, ctrlc::Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = stop.clone();
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            std::process::exit(INTERRUPTED.into());
        }
        eprintln!("\nstopping after the trials under way; Ctrl-C again stops now");
    })?;
    Ok(stop)
}

/// On standard error; hidden where that is no terminal.
fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {percent:>3} %  {msg}");
    ProgressBar::new(0).with_style(style.expect("the template is well-formed"))
}

fn show(bar: &ProgressBar, progress: &Progress) {
    bar.set_length(progress.total);
    bar.set_position(progress.done);
    bar.set_message(format!("{}  ({} left)", progress.figure, rough(progress.remaining)));
}

/// "about 3 min": the estimate is no better than that.
fn rough(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("about {seconds} s"),
        seconds @ 100..6000 => format!("about {} min", seconds.div_ceil(60)),
        seconds => format!("about {} h", seconds.div_ceil(3600)),
    }
}

/// All figures that have rows of this plan, with those that were just measured.
fn page(
    figures: &[Figure],
    chosen: &[&Figure],
    findings: &[Findings],
    plan: &Plan,
    store: &Store,
) -> Page {
    let sections = figures.iter().filter_map(|figure| {
        let measured = chosen.iter().zip(findings).find(|(chosen, _)| chosen.id == figure.id);
        if let Some((_, found)) = measured {
            return Some(report::section(figure, found));
        }
        // One of another setting is none of this report.
        let found = runner::recall(figure, plan, store).ok()?;
        (!found.rows.is_empty()).then(|| report::section(figure, &found))
    });
    Page {
        title: "The papers' figures, measured again".to_string(),
        about: vec![
            format!("Measured by {}.", plan.describe()),
            "Each point is a mean over independent trials, with a bar of one standard error. Point \
             at a mark to read its value; the rows are below each figure."
                .to_string(),
        ],
        sections: sections.collect(),
    }
}

/// Writes a file that is either the old one or the new one, at all times.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let new = path.with_extension("html.new");
    fs::write(&new, text)?;
    fs::rename(&new, path)
}
