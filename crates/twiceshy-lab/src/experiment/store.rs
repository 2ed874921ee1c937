//! Finished rows on disk: one CSV per figure, one line per row, written as soon as it is done.
//!
//! `costs.csv` beside them has what each row took of a core, in seconds.
//!
//! The first line says under which setting the rows were measured; rows of another
//! one are neither mixed with them nor overwritten. What a kill cut off, the part
//! after the last end of line, is dropped when the file is opened again.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Row;

/// A directory of rows that were measured under one setting.
#[derive(Clone, Debug)]
pub struct Store {
    directory: PathBuf,
    setting: String,
}

/// A figure's file, open for more rows.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    costs: PathBuf,
}

/// Why rows cannot be read or kept.
#[derive(Debug)]
pub enum Error {
    /// The file or its directory.
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file has rows of another setting, or is something else altogether.
    OtherSetting {
        /// Which one.
        path: PathBuf,
        /// Its first line.
        found: String,
        /// What that should be.
        wanted: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { path, source } => write!(f, "{}: {source}", path.display()),
            Error::OtherSetting { path, found, wanted } => write!(
                f,
                "{} was measured otherwise, and is kept as it is: its first line is {found:?}, not \
                 {wanted:?}; name another directory for these rows, or remove the file",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            Error::OtherSetting { .. } => None,
        }
    }
}

/// What rows took, without a heading: a line of a [`Cost`] for each, as they were done.
const COSTS: &str = "costs.csv";

/// What a row took.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Cost {
    /// Its figure.
    pub figure: String,
    /// Its panel.
    pub panel: String,
    /// Its curve.
    pub series: String,
    /// Its place on the curve.
    pub x: f64,
    /// Of a core.
    pub seconds: f64,
}

/// The columns of a file of rows.
const COLUMNS: &str = "figure,panel,series,x,mean,standard_error,trials,grain";

/// The setting and the columns.
const HEADER_LINES: usize = 2;

/// Rows as a CSV file, without a setting.
#[must_use]
pub fn csv(rows: &[Row]) -> String {
    let lines = rows.iter().map(line);
    format!("{COLUMNS}\n{}", lines.collect::<String>())
}

/// A row as a line of CSV, with its end.
#[must_use]
pub fn line(row: &Row) -> String {
    line_of(row)
}

fn line_of(record: &impl serde::Serialize) -> String {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    writer.serialize(record).expect("a record is flat");
    let bytes = writer.into_inner().expect("a vector takes everything");
    String::from_utf8(bytes).expect("rows are text")
}

/// The row of a line; nothing if it is damaged.
fn row(line: &str) -> Option<Row> {
    let reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
    reader.into_deserialize().next()?.ok()
}

impl Store {
    /// The rows in that directory that were measured under that setting, which is
    /// anything that fits on a line.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, setting: &str) -> Self {
        let setting = setting.replace(['\r', '\n'], " ");
        Store { directory: directory.into(), setting: format!("# {setting}") }
    }

    /// Where a figure's rows are.
    #[must_use]
    pub fn path(&self, figure: &str) -> PathBuf {
        self.directory.join(format!("{figure}.csv"))
    }

    /// The finished rows of a figure: none if it was never begun.
    ///
    /// # Errors
    /// The file cannot be read, or has rows of another setting.
    pub fn read(&self, figure: &str) -> Result<Vec<Row>, Error> {
        let path = self.path(figure);
        match fs::read(&path) {
            Ok(bytes) => self.rows(&path, &bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// Opens a figure's file for more rows, and begins it if there is none; with
    /// the finished rows.
    ///
    /// # Errors
    /// The file cannot be read or written, or has rows of another setting.
    pub fn open(&self, figure: &str) -> Result<(Ledger, Vec<Row>), Error> {
        let path = self.path(figure);
        let io = |source| Error::Io { path: path.clone(), source };
        fs::create_dir_all(&self.directory)
            .map_err(|source| Error::Io { path: self.directory.clone(), source })?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(io)?;
        let rows = self.rows(&path, &bytes)?;
        let whole = whole_lines(&bytes);
        let begun = whole.iter().filter(|&&byte| byte == b'\n').count() >= HEADER_LINES;
        let whole = if begun { whole.len() } else { 0 };
        file.set_len(u64::try_from(whole).expect("a file's length")).map_err(io)?;
        file.seek(SeekFrom::End(0)).map_err(io)?;
        if !begun {
            file.write_all(format!("{}\n{COLUMNS}\n", self.setting).as_bytes()).map_err(io)?;
        }
        Ok((Ledger { path, file, costs: self.directory.join(COSTS) }, rows))
    }

    fn rows(&self, path: &Path, bytes: &[u8]) -> Result<Vec<Row>, Error> {
        let text = String::from_utf8_lossy(whole_lines(bytes));
        let mut lines = text.lines();
        match lines.next() {
            // A kill before the first line was whole; but another's file that is one
            // long line is not ours to cut.
            None if self.setting.as_bytes().starts_with(bytes) => Ok(Vec::new()),
            Some(first) if first == self.setting => Ok(lines.filter_map(row).collect()),
            first => Err(Error::OtherSetting {
                path: path.to_path_buf(),
                found: first.unwrap_or("").to_string(),
                wanted: self.setting.clone(),
            }),
        }
    }
}

/// Up to the last end of line.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    &bytes[..end]
}

impl Ledger {
    /// Writes a finished row, and what it took of a core.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn push(&mut self, row: &Row, took: Duration) -> Result<(), Error> {
        let written = self.file.write_all(line(row).as_bytes()).and_then(|()| self.file.flush());
        written.map_err(|source| Error::Io { path: self.path.clone(), source })?;
        let cost = Cost {
            figure: row.figure.clone(),
            panel: row.panel.clone(),
            series: row.series.clone(),
            x: row.x,
            seconds: (took.as_secs_f64() * 1e3).round() / 1e3,
        };
        let file = OpenOptions::new().append(true).create(true).open(&self.costs);
        let written = file.and_then(|mut file| file.write_all(line_of(&cost).as_bytes()));
        written.map_err(|source| Error::Io { path: self.costs.clone(), source })
    }
}
