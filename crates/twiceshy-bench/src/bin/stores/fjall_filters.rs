//! The guard beside fjall's own filters, in front of the same engine: for as many
//! keys as the others would take too long to load.

use std::hint::black_box;
use std::path::Path;

use twiceshy::store::Fjall;

use crate::Outcome;
use crate::attack::Attacker;
use crate::bare::{BareFjall, CACHE};
use crate::fronts::{Front, Ours};
use crate::keys::{KEY, missing, mix, processor, stored};

const GETS: u64 = 100_000;

pub fn table(directory: &Path, keys: u64, queries: u64) -> Outcome {
    println!("### The guard beside fjall's own filters, {keys} keys, {queries} queries\n");
    println!("| fjall | hit, ns | miss, ns | reads by a stubborn attacker |");
    println!("| --- | ---: | ---: | ---: |");
    let mut bare = &BareFjall::filled(&directory.join("own-filters"), keys, None, CACHE)?;
    let of_bare = times(keys, |key| bare.get(key))?;
    row("with its own filters", of_bare, queries, &mut bare)?;
    let mut ours = Ours::<Fjall>::filled(directory, keys)?;
    let of_ours = times(keys, |key| Ok(ours.store.get(key)?))?;
    row("guarded, its filters off", of_ours, queries, &mut ours)?;
    println!();
    Ok(())
}

/// Nanoseconds of a hit and of a miss.
fn times(keys: u64, get: impl Fn([u8; KEY]) -> Outcome<Option<Vec<u8>>>) -> Outcome<(f64, f64)> {
    let hit = processor(GETS, |index| {
        assert!(black_box(get(stored(mix(index) % keys))?).is_some());
        Ok(())
    })?;
    let miss = processor(GETS, |index| {
        assert!(black_box(get(missing(mix(index) >> 16))?).is_none());
        Ok(())
    })?;
    Ok((hit, miss))
}

fn row(name: &str, (hit, miss): (f64, f64), queries: u64, front: &mut dyn Front) -> Outcome {
    let reads = Attacker::Stubborn.attack(queries, front)?;
    println!("| {name} | {hit:.0} | {miss:.0} | {reads} |");
    Ok(())
}
