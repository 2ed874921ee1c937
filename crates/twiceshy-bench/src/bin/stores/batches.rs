//! `Guard::get_many` beside as many single gets, in turns. Misses only: what the store
//! takes for a hit is the same for both.

use std::hint::black_box;

use twiceshy::Guard;
use twiceshy::guard::{GuardOptions, MemoryStore};
use twiceshy_filters::KeyHasher;

use crate::Outcome;
use crate::bare::in_batches;
use crate::keys::{middle, missing, mix, processor, stored};

const ROUNDS: u64 = 9;

/// Gets of a round.
const GETS: u64 = 1 << 20;

pub fn table(keys: u64) -> Outcome {
    let options = GuardOptions::default().capacity(keys as usize);
    let guard = Guard::open(MemoryStore::default(), KeyHasher::random(), &options)?;
    in_batches(keys, |range| {
        let records: Vec<_> = range.map(|index| (stored(index), [])).collect();
        guard.put_many(&records)?;
        Ok(())
    })?;
    println!("### Batches of misses, {keys} keys\n");
    println!("Nanoseconds of processor time per key; medians of {ROUNDS} rounds.\n");
    println!("| keys at once | single gets | `get_many` | times faster |");
    println!("| ---: | ---: | ---: | ---: |");
    for batch in [16, 64, 1024, 16_384] {
        let mut rounds = Vec::new();
        for round in 0..=ROUNDS {
            // Other keys in each round: what was read for nothing once is fixed.
            let asked = |index: u64| missing(mix(index + round * GETS) >> 16);
            let lists: Vec<Vec<_>> = (0..GETS / batch)
                .map(|list| (list * batch..(list + 1) * batch).map(asked).collect())
                .collect();
            let many = processor(lists.len() as u64, |list| {
                black_box(guard.get_many(&lists[list as usize])?);
                Ok(())
            })?;
            let single = processor(lists.len() as u64, |list| {
                let found: Result<Vec<_>, _> =
                    lists[list as usize].iter().map(|key| guard.get(key)).collect();
                black_box(found?);
                Ok(())
            })?;
            // The first round is for the caches.
            if round > 0 {
                rounds.push((single / batch as f64, many / batch as f64));
            }
        }
        println!(
            "| {batch} | {:.1} | {:.1} | {:.2} |",
            middle(rounds.iter().map(|(single, _)| *single).collect()),
            middle(rounds.iter().map(|(_, many)| *many).collect()),
            middle(rounds.iter().map(|(single, many)| single / many).collect())
        );
    }
    println!();
    Ok(())
}
