//! Rows that are printed as soon as they are there.

use std::io::{self, Write as _};

use serde::Serialize;

/// How.
pub enum Rows {
    /// Not at all: a table comes at the end.
    Table,
    Json,
    Csv(Box<csv::Writer<io::Stdout>>),
}

impl Rows {
    /// As `--json` and `--csv` say.
    pub fn new(json: bool, csv: bool) -> Self {
        match (json, csv) {
            (true, _) => Rows::Json,
            (_, true) => Rows::Csv(Box::new(csv::Writer::from_writer(io::stdout()))),
            _ => Rows::Table,
        }
    }

    /// Prints a row.
    ///
    /// # Errors
    /// An output that cannot be written.
    pub fn print(&mut self, row: &impl Serialize) -> io::Result<()> {
        match self {
            Rows::Table => Ok(()),
            Rows::Json => writeln!(io::stdout(), "{}", serde_json::to_string(row)?),
            Rows::Csv(writer) => {
                writer.serialize(row).map_err(io::Error::from)?;
                writer.flush()
            }
        }
    }
}
