//! What is in the file of a filter without the digests of its keys.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use serde::Serialize;
use twiceshy::{Filter, Frozen};

use crate::loaded::Contents;
use crate::table::{bytes, count, percent};

/// What is in the file. The names of the fields are those of the JSON.
#[derive(Serialize)]
pub struct Report {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    whole: bool,
    kind: &'static str,
    keys: usize,
    capacity: usize,
    filters: usize,
    filter_bytes: u64,
    /// `None` without keys.
    bits_per_key: Option<f64>,
    first_pass_rate: f64,
    exceptions: usize,
    exceptions_room: usize,
}

/// Verifies a file of these contents.
///
/// # Errors
/// What is wrong with it.
pub fn inspected(
    file: &str,
    contents: Contents,
    saved: &[u8],
) -> Result<Report, twiceshy_filters::Error> {
    let (kind, stats) = match contents {
        Contents::Frozen => ("frozen filter", Frozen::from_bytes(saved)?.stats()),
        _ => ("filter", Filter::from_bytes(saved)?.stats()),
    };
    Ok(Report {
        schema: "twiceshy.inspect.filter.v1",
        file: file.to_string(),
        file_bytes: saved.len() as u64,
        whole: true,
        kind,
        keys: stats.len,
        capacity: stats.capacity,
        filters: stats.layers,
        filter_bytes: stats.bytes as u64,
        bits_per_key: (stats.len != 0).then(|| stats.bits_per_key()),
        first_pass_rate: stats.rate,
        exceptions: stats.exceptions,
        exceptions_room: stats.exceptions_room,
    })
}

impl Report {
    /// Prints it, as text or as JSON.
    ///
    /// # Errors
    /// An output that is closed.
    pub fn print(&self, json: bool) -> Result<ExitCode, Box<dyn Error>> {
        let mut output = io::stdout().lock();
        if json {
            writeln!(output, "{}", serde_json::to_string(self)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        let number = |number: usize| count(number as u64);
        let mut lines = vec![
            (
                "file",
                format!("{}, {}, whole (checksum and contents)", self.file, bytes(self.file_bytes)),
            ),
            ("secret", "in the file".to_string()),
            ("kind", self.kind.to_string()),
            ("keys", format!("{} of {}, about", number(self.keys), number(self.capacity))),
            ("filters", number(self.filters)),
            ("in memory", bytes(self.filter_bytes)),
        ];
        if let Some(bits) = self.bits_per_key {
            lines.push(("bits per key", format!("{bits:.2}")));
        }
        let rate = percent(self.first_pass_rate);
        lines.push(("rate", format!("{rate} false positives, exceptions apart")));
        let room = number(self.exceptions_room);
        lines.push(("exceptions", format!("{} of {room}", number(self.exceptions))));
        for (name, value) in lines {
            writeln!(output, "{name:<12} {value}")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
