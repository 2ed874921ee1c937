//! The recorded streams: a random tenth of their keys is stored, and the accesses
//! to the others are queries.

use std::collections::HashSet;
use std::env;
use std::path::PathBuf;
use std::process::Command;

use twiceshy_filters::{Digest, KeyHasher};
use twiceshy_lab::entrants;

use crate::Outcome;
use crate::keys::mix;

/// Bits a key that every filter may take.
const BITS: f64 = 12.0;
pub const STREAMS: [&str; 4] = ["orm_busy", "orm_night", "web07", "web12"];

/// The accesses of a recorded stream; `None`, and a word about it, where there is none.
pub fn accesses(name: &str) -> Outcome<Option<Vec<u32>>> {
    let data = env::var_os("TWICESHY_DATA").map_or("../shared/data".into(), PathBuf::from);
    let file = data.join("streams").join(name).with_extension("u32le.zst");
    if !file.exists() {
        println!("\nskipped: there is no {}; set TWICESHY_DATA", file.display());
        return Ok(None);
    }
    let bytes = Command::new("zstd").arg("-dcq").arg(&file).output()?.stdout;
    let keys = bytes.chunks_exact(4).map(|key| Ok(u32::from_le_bytes(key.try_into()?)));
    keys.collect::<Outcome<_>>().map(Some)
}

pub fn table() -> Outcome {
    println!("### Recorded streams, a tenth of the keys stored, {BITS} bits a key\n");
    println!("Reads per query in percent: false positives, each told to the filter.\n");
    println!("| filter | {} |", STREAMS.join(" | "));
    println!("| --- |{}", " ---: |".repeat(STREAMS.len()));
    let mut streams = Vec::new();
    for name in STREAMS {
        let Some(numbers) = accesses(name)? else { return Ok(()) };
        let hasher = KeyHasher::keyed([5; 16]);
        let (mut stored, mut queries) = (HashSet::new(), Vec::new());
        for number in numbers {
            let digest = hasher.digest(number.to_le_bytes());
            // A tenth of the keys, whichever they are.
            if mix(u64::from(number)).is_multiple_of(10) {
                stored.insert(digest);
            } else {
                queries.push(digest);
            }
        }
        let mut stored: Vec<Digest> = stored.into_iter().collect();
        stored.sort_unstable();
        streams.push((stored, queries));
    }
    for entrant in entrants::all() {
        let mut cells = Vec::new();
        for (stored, queries) in &streams {
            let Ok(mut filter) = entrant.build_within(stored.len(), BITS) else {
                cells.push("-".to_string());
                continue;
            };
            for &digest in stored {
                filter.insert(digest)?;
            }
            let mut reads = 0;
            for &digest in queries {
                if filter.contains(digest) {
                    reads += 1;
                    filter.adapt(digest)?;
                }
            }
            cells.push(format!("{:.4}", f64::from(reads) * 100.0 / queries.len() as f64));
        }
        println!("| {} | {} |", entrant.name, cells.join(" | "));
    }
    println!();
    Ok(())
}
