//! The streams of a full run: one of each kind, at the papers' size.
//!
//! The papers have one recording of each trace, and ask for it again in each trial, of filters with
//! other hash functions. A full run does the same with the streams that are generated: all trials
//! of all figures have the same one. The standard errors of its rows are those of hash functions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::measure::Failure;
use crate::workload::{Recording, Size, Source};

/// What they are generated from.
const SEED: u64 = 1;

/// The stream of a source, made when it is first asked for: all of them take 0.8 GB.
///
/// # Errors
/// There is no memory for it, or it is no stream.
pub fn of(source: &Source) -> Result<Source, Failure> {
    static STREAMS: Mutex<BTreeMap<String, Arc<Recording>>> = Mutex::new(BTreeMap::new());
    // Nothing is half done when a thread panics here.
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let name = source.to_string();
    if let Some(recording) = streams.get(&name) {
        return Ok(Source::Recording(recording.clone()));
    }
    let recording = Arc::new(source.record(&Size::default(), SEED)?);
    streams.insert(name, recording.clone());
    Ok(Source::Recording(recording))
}
