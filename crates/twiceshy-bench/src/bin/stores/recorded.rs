//! Recorded streams in front of stores: a random tenth of a stream's keys is stored, and the
//! accesses to the others are lookups of absent keys.

use std::collections::HashMap;
use std::path::Path;

use crate::Outcome;
use crate::fronts::{Kind, Stores};
use crate::keys::{KEY, missing, mix};
use crate::reads::Rows;
use crate::streams::{STREAMS, accesses};

/// A stream's number of stored keys, and its lookups of absent ones.
struct Stream {
    stored: u64,
    lookups: Vec<[u8; KEY]>,
}

impl Stream {
    /// Stored keys are numbered, as the stores' are.
    fn of(numbers: &[u32]) -> Self {
        let mut stored = HashMap::new();
        let mut lookups = Vec::new();
        for &number in numbers {
            if mix(u64::from(number)).is_multiple_of(10) {
                let next = stored.len() as u64;
                stored.entry(number).or_insert(next);
            } else {
                lookups.push(missing(u64::from(number)));
            }
        }
        Stream { stored: stored.len() as u64, lookups }
    }
}

pub fn table(directory: &Path, rows: &mut Rows) -> Outcome {
    println!("### Reads of the store on recorded streams, a tenth of the keys stored\n");
    for name in STREAMS {
        let Some(numbers) = accesses(name)? else { return Ok(()) };
        let Stream { stored, lookups } = Stream::of(&numbers);
        let stores = Stores::filled(directory, stored)?;
        println!("{name}: {stored} stored keys, {} lookups of absent ones\n", lookups.len());
        println!("| in front of the store | KiB | reads |");
        println!("| --- | ---: | ---: |");
        for kind in Kind::ALL {
            let mut front = stores.front(kind)?;
            let mut reads = 0;
            for &key in &lookups {
                reads += front.ask(key)?;
            }
            reads += front.further();
            println!("| {} | {} | {reads} |", kind.name(), stores.kibibytes(kind));
            rows.push(kind.name(), name, lookups.len() as u64, reads);
        }
        println!();
    }
    Ok(())
}
