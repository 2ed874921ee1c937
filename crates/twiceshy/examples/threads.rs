//! One filter and many threads: lookups share it, changes have it for themselves.
//!
//! `cargo run --example threads`

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Arc, RwLock};
use std::thread;

use twiceshy::Filter;

/// Answers the same queries twice in four threads. The second time nobody reads for nothing.
///
/// # Errors
/// None: the numbers are good.
pub fn main() -> Result<(), Box<dyn Error>> {
    // Stands for a database.
    let stored: Arc<HashSet<u64>> = Arc::new((0..100_000).collect());
    let mut filter = Filter::builder().capacity(stored.len()).rate(0.001).build()?;
    filter.extend(stored.iter());

    // Where nothing is inserted or adapted, `Arc<Filter>` is enough: lookups take `&self`.
    let filter = Arc::new(filter);
    let readers: Vec<_> = (0..4)
        .map(|reader| {
            let filter = Arc::clone(&filter);
            thread::spawn(move || (0..1000).all(|number| filter.contains(number * 4 + reader)))
        })
        .collect();
    for reader in readers {
        assert!(reader.join().expect("a reader"));
    }

    // With a lock, a thread that found a false positive reports it.
    let filter = Arc::new(RwLock::new(Arc::into_inner(filter).ok_or("readers have ended")?));
    let wasted_reads = || -> usize {
        let readers: Vec<_> = (1..=4)
            .map(|reader| {
                let (filter, stored) = (Arc::clone(&filter), Arc::clone(&stored));
                thread::spawn(move || {
                    let mut wasted = 0;
                    for key in (0..10_000u64).map(|number| number + (reader << 32)) {
                        let maybe = filter.read().expect("no panic").contains(key);
                        if maybe && !stored.contains(&key) {
                            wasted += 1;
                            filter.write().expect("no panic").adapt(key);
                        }
                    }
                    wasted
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().expect("a reader")).sum()
    };
    let (first, second) = (wasted_reads(), wasted_reads());
    println!("{first} wasted reads of 40,000 absent keys; asked again, {second}");
    assert!(second <= first);
    Ok(())
}
