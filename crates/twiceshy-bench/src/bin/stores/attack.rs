//! An attacker who sees which of its queries are slow, and repeats those.

use std::collections::VecDeque;
use std::path::Path;

use crate::Outcome;
use crate::fronts::{Front, Kind, Stores};
use crate::keys::{KEY, missing};
use crate::reads::Rows;

/// Who attacks.
#[derive(Clone, Copy)]
pub enum Attacker {
    /// Repeats a query for as long as it is slow, and tries new ones otherwise.
    Stubborn,
    /// Tries new ones for half of its queries, and then goes through all that
    /// were slow, again and again.
    Collector,
}

impl Attacker {
    /// How many reads it causes.
    pub fn attack(self, queries: u64, front: &mut dyn Front) -> Outcome<u64> {
        let (mut reads, mut fresh) = (0, 0);
        let mut slow: VecDeque<[u8; KEY]> = VecDeque::new();
        for query in 0..queries {
            let repeats = match self {
                Attacker::Stubborn => !slow.is_empty(),
                Attacker::Collector => query >= queries / 2 && !slow.is_empty(),
            };
            let key = if repeats {
                slow.pop_front().expect("it has some")
            } else {
                fresh += 1;
                missing(fresh)
            };
            let made = front.ask(key)?;
            reads += made;
            // Who is stubborn keeps what is slow; who collects keeps all that was.
            if made > 0 || (repeats && matches!(self, Attacker::Collector)) {
                slow.push_back(key);
            }
        }
        Ok(reads + front.further())
    }
}

pub fn table(directory: &Path, keys: u64, queries: u64, rows: &mut Rows) -> Outcome {
    println!("### An attacker who repeats what is slow: {keys} keys, {queries} queries\n");
    println!("| in front of the store | KiB | stubborn: reads | collector: reads |");
    println!("| --- | ---: | ---: | ---: |");
    let stores = Stores::filled(directory, keys)?;
    for kind in Kind::ALL {
        let stubborn = Attacker::Stubborn.attack(queries, &mut *stores.front(kind)?)?;
        let collector = Attacker::Collector.attack(queries, &mut *stores.front(kind)?)?;
        println!("| {} | {} | {stubborn} | {collector} |", kind.name(), stores.kibibytes(kind));
        rows.push(kind.name(), "attack", queries, stubborn);
    }
    println!();
    Ok(())
}
