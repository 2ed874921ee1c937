//! Reads of the store, as rows that scripts/figure.py draws.

use std::fs;
use std::path::Path;

use crate::Outcome;

/// The rows of all tables that count reads.
#[derive(Default)]
pub struct Rows(String);

impl Rows {
    /// Of so many lookups of absent keys, so many read the store.
    pub fn push(&mut self, front: &str, lookups_of: &str, lookups: u64, reads: u64) {
        self.0 += &format!("{front},{lookups_of},{lookups},{reads}\n");
    }

    pub fn save(&self, path: &Path) -> Outcome {
        Ok(fs::write(path, format!("front,stream,lookups,reads\n{}", self.0))?)
    }
}
