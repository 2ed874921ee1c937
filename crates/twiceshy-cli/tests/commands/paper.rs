//! `twiceshy paper` as a user or a script sees it.
//!
//! Most tests put the rows of a figure there beforehand, all but one: what is
//! tested is what becomes of rows, and one of them is soon measured.

use std::fs;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use twiceshy_lab::experiment::runner::Plan;
use twiceshy_lab::experiment::store::Store;
use twiceshy_lab::experiment::{Figure, Row, Setting, figures};

/// A directory of a test, which goes with it.
struct Directory(PathBuf);

impl Directory {
    fn new(test: &str) -> Self {
        let name = format!("twiceshy-paper-{test}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // What a killed test process of the same number left.
        let _ = fs::remove_dir_all(&path);
        Directory(path)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn report(&self) -> String {
        fs::read_to_string(self.file("report.html")).expect("a report")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn command(out: &Path, flags: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_twiceshy"));
    command.arg("paper").args(flags.split_whitespace()).arg("--out").arg(out);
    command
}

fn paper(directory: &Directory, flags: &str) -> Output {
    command(&directory.0, flags).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn figure(id: &str) -> Figure {
    figures().into_iter().find(|figure| figure.id == id).expect("a figure of that name")
}

/// What `--quick --trials 1` means.
fn plan() -> Plan {
    Plan {
        setting: Setting { quick: true, recording: None },
        seed: 1,
        trials: NonZero::new(1),
        jobs: NonZero::<usize>::MIN,
        panel: None,
    }
}

const FLAGS: &str = "--quick --trials 1";

/// All rows of a figure, made up.
fn made_up(figure: &Figure) -> Vec<Row> {
    let points = (figure.points)(&plan().setting).into_iter();
    let row = |point: twiceshy_lab::experiment::Point| Row {
        figure: figure.id.to_string(),
        panel: point.panel,
        series: point.series,
        x: point.x,
        mean: 0.125,
        standard_error: 0.0,
        trials: 1,
        grain: 0.0,
    };
    points.map(row).collect()
}

fn put(directory: &Directory, figure: &Figure, rows: &[Row]) {
    let store = Store::new(&directory.0, &plan().describe());
    let (mut ledger, _) = store.open(figure.id).expect("a file");
    for row in rows {
        ledger.push(row, Duration::ZERO).expect("a row");
    }
}

/// A figure whose rows are there, all but the first; with that many rows.
fn almost_done(test: &str, id: &str) -> (Directory, usize) {
    let directory = Directory::new(test);
    let figure = figure(id);
    let rows = made_up(&figure);
    put(&directory, &figure, &rows[1..]);
    (directory, rows.len())
}

#[test]
fn the_list_has_every_figure_and_measures_nothing() {
    let directory = Directory::new("list");
    let output = paper(&directory, "--list");
    assert_eq!(output.status.code(), Some(0));
    let listed: Vec<String> = text(&output.stdout)
        .lines()
        .map(|line| line.split_whitespace().next().expect("a name").to_string())
        .collect();
    let known: Vec<&str> = figures().iter().map(|figure| figure.id).collect();
    assert_eq!(listed, known);
    assert!(!directory.0.exists());
}

#[test]
fn an_unknown_figure_is_an_error_that_names_the_known_ones() {
    let directory = Directory::new("unknown");
    let output = paper(&directory, "acf-1 acf-77");
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("\"acf-77\"") && error.contains("acf-1, acf-2"), "{error}");
    assert!(!directory.0.exists());
}

#[test]
fn only_what_is_missing_is_measured_and_the_report_is_written() {
    let (directory, planned) = almost_done("missing", "acf-1");
    let output = paper(&directory, &format!("acf-1 {FLAGS}"));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(lines[0].starts_with("acf-1: ") && lines[0].contains("as in the paper: "), "{said}");
    assert_eq!(lines[1], format!("report: {}", directory.file("report.html").display()));

    let rows = fs::read_to_string(directory.file("acf-1.csv")).expect("rows");
    // The setting and the columns are the other two.
    assert_eq!(rows.lines().count(), planned + 2);
    // Of the rows that were made up none was measured.
    assert_eq!(rows.lines().filter(|line| line.contains(",0.125,0.0,1")).count(), planned - 1);
    let report = directory.report();
    assert!(report.contains("<section id=\"acf-1\">") && report.contains("<svg"));
    assert!(report.contains(&format!("{planned} rows")));
}

#[test]
fn a_row_comes_out_the_same_again_whatever_the_threads() {
    let last = |test, jobs| {
        let (directory, _) = almost_done(test, "acf-1");
        let output = paper(&directory, &format!("acf-1 {FLAGS} --jobs {jobs}"));
        assert_eq!(output.status.code(), Some(0));
        let rows = fs::read_to_string(directory.file("acf-1.csv")).expect("rows");
        rows.lines().last().expect("a row").to_string()
    };
    assert_eq!(last("same-1", 1), last("same-3", 3));
}

#[test]
fn json_and_csv_have_the_rows_in_the_figures_order_and_nothing_else() {
    let (directory, _) = almost_done("formats", "acf-1");
    let output = paper(&directory, &format!("acf-1 {FLAGS} --json"));
    assert_eq!(output.status.code(), Some(0));
    let rows: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let wanted = made_up(&figure("acf-1"));
    assert_eq!(rows.len(), wanted.len());
    for (row, wanted) in rows.iter().zip(&wanted) {
        assert_eq!(row["schema"], "twiceshy.paper.v1");
        assert_eq!(row["figure"], "acf-1");
        assert_eq!(row["panel"], wanted.panel.as_str());
        assert_eq!(row["series"], wanted.series.as_str());
        assert_eq!(row["x"].as_f64(), Some(wanted.x));
        assert_eq!(row["trials"], 1);
    }
    assert_eq!(rows[1]["mean"], 0.125);
    assert!(text(&output.stderr).contains("report: "));

    let output = paper(&directory, &format!("acf-1 {FLAGS} --csv"));
    let csv = text(&output.stdout);
    assert!(
        csv.starts_with("figure,panel,series,x,mean,standard_error,trials,grain\nacf-1,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), wanted.len() + 1);

    let both = paper(&directory, "acf-1 --json --csv");
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn the_report_keeps_figures_that_were_measured_before() {
    let directory = Directory::new("before");
    for id in ["acf-1", "acf-2"] {
        let figure = figure(id);
        put(&directory, &figure, &made_up(&figure));
    }
    let output = paper(&directory, &format!("acf-2 {FLAGS}"));
    assert_eq!(output.status.code(), Some(0));
    assert!(!text(&output.stdout).contains("acf-1"));
    let report = directory.report();
    assert!(report.contains("<section id=\"acf-1\">") && report.contains("<section id=\"acf-2\">"));
    assert!(!report.contains("<section id=\"acf-3\">"));
}

#[test]
fn rows_of_another_setting_are_refused_before_any_work() {
    let (directory, _) = almost_done("other", "acf-1");
    let before = fs::read(directory.file("acf-1.csv")).expect("rows");
    for flags in ["acf-1 --quick", "acf-1 --trials 1", "acf-1 --quick --trials 1 --seed 2"] {
        let output = paper(&directory, flags);
        assert_eq!(output.status.code(), Some(2), "{flags}");
        let error = text(&output.stderr);
        assert!(error.contains("acf-1.csv") && error.contains("--out"), "{error}");
    }
    assert_eq!(fs::read(directory.file("acf-1.csv")).expect("rows"), before);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let directory = Directory::new("inputs");
    for flag in ["--pcap", "--keys"] {
        let output = paper(&directory, &format!("acf-5 --quick {flag} /nonexistent/trace"));
        assert_eq!(output.status.code(), Some(2));
        let error = text(&output.stderr);
        assert!(error.contains("/nonexistent/trace"), "{error}");
    }
}

#[test]
fn a_stream_of_keys_takes_the_place_of_the_traces() {
    let directory = Directory::new("keys");
    fs::create_dir_all(&directory.0).expect("a directory");
    let keys = directory.file("log.txt");
    // 2,000 distinct keys, each five times.
    let lines = (0..10_000).map(|line| format!("visitor {}\n", line % 2000));
    fs::write(&keys, lines.collect::<String>()).expect("a log");
    let output = paper(&directory, &format!("acf-5 {FLAGS} --keys {}", keys.display()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows = fs::read_to_string(directory.file("acf-5.csv")).expect("rows");
    let (setting, rows) = rows.split_once('\n').expect("lines");
    assert!(setting.contains("log.txt: 10000 keys, 2000 distinct, hash "), "{setting}");
    assert!(rows.contains("log.txt") && !rows.contains("Chicago"), "{rows}");
    let report = directory.report();
    assert!(report.contains("10000 keys, 2000 distinct") && !report.contains("Chicago A"));

    // The same name with other keys is another setting.
    fs::write(&keys, "a\nb\n".repeat(5000)).expect("a log");
    let output = paper(&directory, &format!("acf-5 {FLAGS} --keys {}", keys.display()));
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// Rows in a file that is perhaps being written.
fn rows_in(path: &Path) -> usize {
    fs::read_to_string(path).map_or(0, |rows| rows.matches('\n').count().saturating_sub(2))
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_finished_rows_and_writes_the_report() {
    let directory = Directory::new("interrupt");
    let path = directory.file("acf-1.csv");
    // All figures: a minute of work, of which this sees the first row.
    let mut child = command(&directory.0, &format!("{FLAGS} --jobs 1"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let patience = Instant::now() + Duration::from_secs(120);
    while rows_in(&path) == 0 && Instant::now() < patience {
        thread::sleep(Duration::from_millis(5));
    }
    let interrupted = Command::new("sh")
        .args(["-c", &format!("kill -INT {}", child.id())])
        .status()
        .expect("a shell");
    assert!(interrupted.success());
    let status = child.wait().expect("it ends");
    let (rows, planned) = (rows_in(&path), made_up(&figure("acf-1")).len());
    assert!(0 < rows && rows < planned, "{rows} of {planned}");
    assert_eq!(status.code(), Some(130));
    assert!(directory.report().contains(&format!("Unfinished: {rows} of {planned} rows.")));
}
