//! Woven into `twiceshy-filters`: which mutant is on.
#![allow(missing_docs)]

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// No mutant; mutants count from 1.
const NONE: u32 = 0;
/// All mutants are off, and each that is reached is written down.
const RECORDING: u32 = u32::MAX - 1;
/// The environment was not read yet.
const UNREAD: u32 = u32::MAX;

static CHOSEN: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];

/// Whether this mutant is on.
#[inline(always)]
pub fn on(mutant: u32) -> bool {
    let chosen = CHOSEN.load(Relaxed);
    if chosen < RECORDING { chosen == mutant } else { read_or_record(chosen, mutant) }
}

#[cold]
#[inline(never)]
fn read_or_record(chosen: u32, mutant: u32) -> bool {
    if chosen == UNREAD {
        let value = std::env::var("TWICESHY_MUTANT").unwrap_or_default();
        let value = if value == "record" { RECORDING } else { value.parse().unwrap_or(NONE) };
        CHOSEN.store(value, Relaxed);
        return on(mutant);
    }
    let bit = 1 << (mutant % 64);
    if REACHED[mutant as usize / 64].fetch_or(bit, Relaxed) & bit == 0 {
        use std::io::Write;
        let path =
            std::env::var("TWICESHY_MUTANT_REACHED").expect("a file for the mutants reached");
        let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
        let line = std::format!("{mutant}\n");
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .expect("a mutant reached is written down");
    }
    false
}
