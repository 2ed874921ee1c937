//! Tables and progress.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Lines on stderr, once a run takes longer than people like to wait.
pub struct Progress {
    last: Cell<Instant>,
}

/// The longest silence.
const SILENCE: Duration = Duration::from_secs(2);

impl Progress {
    /// Silent so far.
    pub fn new() -> Self {
        Progress { last: Cell::new(Instant::now()) }
    }

    /// Says what comes next if nothing has been said for two seconds.
    pub fn step(&self, what: impl Fn() -> String) {
        if self.last.get().elapsed() >= SILENCE {
            self.last.set(Instant::now());
            eprintln!("{}", what());
        }
    }
}

/// Rows under a title.
pub struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table with these columns.
    pub fn new(title: impl Into<String>, head: &[&str]) -> Self {
        let head = head.iter().map(|name| (*name).to_string()).collect();
        Table { title: title.into(), head, rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a line below the table.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.chain([&self.head[column]]).map(|cell| cell.chars().count()).max().unwrap_or(0)
    }

    /// The first column from the left, numbers from the right.
    fn line(&self, cells: &[String], separator: &str) -> String {
        let padded = cells.iter().enumerate().map(|(column, cell)| {
            let width = self.width(column);
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        padded.collect::<Vec<_>>().join(separator)
    }

    fn to_markdown(&self) -> String {
        let mut text = format!("### {}\n\n| {} |\n", self.title, self.line(&self.head, " | "));
        let rule = (0..self.head.len()).map(|column| if column == 0 { "---" } else { "---:" });
        text += &format!("| {} |\n", rule.collect::<Vec<_>>().join(" | "));
        for row in &self.rows {
            text += &format!("| {} |\n", self.line(row, " | "));
        }
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        text
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}\n  {}\n", self.title, self.line(&self.head, "  "));
        for row in &self.rows {
            text += &format!("  {}\n", self.line(row, "  "));
        }
        for note in &self.notes {
            text += &format!("  {note}\n");
        }
        text
    }
}

/// Where finished tables go: stdout, each as soon as it is there.
pub struct Report {
    markdown: bool,
}

impl Report {
    /// Begins with the machine, the target and the command.
    pub fn new(markdown: bool) -> Self {
        println!("Machine: {}; target: {}; command: {}\n", machine(), target(), command());
        Report { markdown }
    }

    /// Prints a table that has rows.
    pub fn table(&mut self, table: &Table) {
        if !table.rows.is_empty() {
            println!("{}", if self.markdown { table.to_markdown() } else { table.to_text() });
        }
    }
}

/// A number with `digits` behind the point, or a dash.
pub fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_string(), |value| format!("{value:.digits$}"))
}

fn machine() -> String {
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown", |line| line.trim_start_matches([' ', '\t', ':']));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}

/// The instruction sets that the compiler was allowed to use.
fn target() -> String {
    let sets = [
        ("popcnt", cfg!(target_feature = "popcnt")),
        ("bmi1", cfg!(target_feature = "bmi1")),
        ("bmi2", cfg!(target_feature = "bmi2")),
        ("avx2", cfg!(target_feature = "avx2")),
        ("avx512f", cfg!(target_feature = "avx512f")),
    ];
    let enabled: Vec<&str> = sets.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    if enabled.is_empty() { "default".to_string() } else { enabled.join(" ") }
}

fn command() -> String {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("twiceshy-bench {}", arguments.join(" ")).trim_end().to_string()
}
