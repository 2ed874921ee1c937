//! The guard beside fjall's own filters, in front of the same engine: for as many
//! keys as the others would take too long to load.

use std::hint::black_box;
use std::path::Path;

use twiceshy::store::Fjall;

use crate::Outcome;
use crate::attack::{Ask, Attacker};
use crate::bare::{BareFjall, CACHE};
use crate::gets::guarded;
use crate::keys::{missing, mix, processor, stored};

const GETS: u64 = 100_000;

pub fn table(directory: &Path, keys: u64, queries: u64) -> Outcome {
    println!("### The guard beside fjall's own filters, {keys} keys, {queries} queries\n");
    println!("| fjall | hit, ns | miss, ns | reads by a stubborn attacker |");
    println!("| --- | ---: | ---: | ---: |");
    let bare = BareFjall::filled(&directory.join("own-filters"), keys, true, CACHE)?;
    let ask: Ask<'_> = Box::new(|key| {
        let before = bare.blocks();
        assert!(bare.get(key)?.is_none(), "nobody stores it");
        Ok(bare.blocks() - before)
    });
    row("with its own filters", keys, queries, |key| bare.get(key), ask)?;
    let ours = guarded::<Fjall>(&directory.join("guarded-filters"), keys, CACHE)?;
    let ask: Ask<'_> = Box::new(|key| {
        let read = u64::from(ours.contains(key));
        assert!(ours.get(key)?.is_none(), "nobody stores it");
        Ok(read)
    });
    row("guarded, its filters off", keys, queries, |key| Ok(ours.get(key)?), ask)?;
    println!();
    Ok(())
}

fn row(
    name: &str,
    keys: u64,
    queries: u64,
    get: impl Fn([u8; crate::keys::KEY]) -> Outcome<Option<Vec<u8>>>,
    mut ask: Ask<'_>,
) -> Outcome {
    let hit = processor(GETS, |index| {
        assert!(black_box(get(stored(mix(index) % keys))?).is_some());
        Ok(())
    })?;
    let miss = processor(GETS, |index| {
        assert!(black_box(get(missing(mix(index) >> 16))?).is_none());
        Ok(())
    })?;
    let reads = Attacker::Stubborn.attack(queries, &mut ask)?;
    println!("| {name} | {hit:.0} | {miss:.0} | {reads} |");
    Ok(())
}
