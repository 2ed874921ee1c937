//! Guarded gets of two threads at the same time beside those of one.

use std::hint::black_box;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use twiceshy::store::{GuardedStore, Redb};
use twiceshy_filters::Spec;

use crate::Outcome;
use crate::gets::{guarded_by, short};
use crate::keys::{middle, missing, mix, processor, stored};

const ROUNDS: u64 = 9;

/// Gets of a thread in a round.
const GETS: u64 = 100_000;

/// Keys that are asked for.
#[derive(Clone, Copy)]
enum Asked {
    Missing,
    Stored,
}

/// How many times as fast as one thread two are, by the processor time of a get: how long they
/// wait for a core does not count, how long they wait for each other's cache lines does. A
/// thread that sleeps for a lock is not seen here; readers never do.
pub fn table(directory: &Path, keys: u64, cache: usize, filters: &[Spec]) -> Outcome {
    println!("### Readers of a guarded redb, {keys} records of 16 + 32 bytes\n");
    println!("Nanoseconds of processor time for a get; medians of {ROUNDS} rounds.\n");
    println!("| filter | asked | 1 reader | 2 readers, each | times as fast |");
    println!("| --- | --- | ---: | ---: | ---: |");
    for (index, &filter) in filters.iter().enumerate() {
        let path = directory.join(format!("readers-{index}"));
        let store = guarded_by::<Redb>(filter, &path, keys, cache)?;
        for (asked, name) in [(Asked::Missing, "missing"), (Asked::Stored, "stored")] {
            let (mut one, mut two, mut faster) = (Vec::new(), Vec::new(), Vec::new());
            for round in 0..=ROUNDS {
                let alone = gets(&store, keys, asked, round, 1)?;
                let both = gets(&store, keys, asked, round, 2)?;
                // The first round is for the caches.
                if round > 0 {
                    one.push(alone);
                    two.push(both);
                    faster.push(2.0 * alone / both);
                }
            }
            println!(
                "| {} | {name} | {:.0} | {:.0} | {:.2} |",
                short(&filter),
                middle(one),
                middle(two),
                middle(faster)
            );
        }
    }
    println!();
    Ok(())
}

/// Nanoseconds of a get, on average over that many threads.
fn gets(
    store: &GuardedStore<Redb>,
    keys: u64,
    asked: Asked,
    round: u64,
    threads: u64,
) -> Outcome<f64> {
    let together = Barrier::new(threads as usize);
    let times = thread::scope(|scope| {
        let readers: Vec<_> = (0..threads)
            .map(|reader| {
                let together = &together;
                scope.spawn(move || {
                    together.wait();
                    processor(GETS, |index| {
                        let number = mix(index + (round * threads + reader) * GETS);
                        let found = match asked {
                            Asked::Missing => store.get(missing(number >> 16))?,
                            Asked::Stored => store.get(stored(number % keys))?,
                        };
                        black_box(found);
                        Ok(())
                    })
                })
            })
            .collect();
        let joined = readers.into_iter().map(|reader| reader.join().expect("a reader that ends"));
        joined.collect::<Outcome<Vec<f64>>>()
    })?;
    Ok(times.iter().sum::<f64>() / threads as f64)
}
