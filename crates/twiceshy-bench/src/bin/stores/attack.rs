//! An attacker who sees which of its queries are slow, and repeats those.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::time::Instant;

use fastbloom::BloomFilter;
use twiceshy::store::{Engine, Fjall, GuardedStore, Redb};

use crate::Outcome;
use crate::bare::{BareFjall, BareRedb, CACHE};
use crate::gets::guarded;
use crate::keys::{KEY, missing, stored};

/// Bytes of an entry of a cache of misses: a digest, when it ends, and the room
/// that a hash table leaves. What is in use takes twice as much or more.
const CACHE_ENTRY: u64 = 24;

/// One byte in so many is the cache's, where a Bloom filter has one beside it.
const MOKA_SHARE: u64 = 10;

/// Who attacks.
#[derive(Clone, Copy)]
pub enum Attacker {
    /// Repeats a query for as long as it is slow, and tries new ones otherwise.
    Stubborn,
    /// Tries new ones for half of its queries, and then goes through all that
    /// were slow, again and again.
    Collector,
}

/// What is asked, and how many reads that made.
pub type Ask<'a> = Box<dyn FnMut([u8; KEY]) -> Outcome<u64> + 'a>;

impl Attacker {
    /// How many reads it causes.
    pub fn attack(self, queries: u64, ask: &mut Ask<'_>) -> Outcome<u64> {
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
            let made = ask(key)?;
            reads += made;
            // Who is stubborn keeps what is slow; who collects keeps all that was.
            if made > 0 || (repeats && matches!(self, Attacker::Collector)) {
                slow.push_back(key);
            }
        }
        Ok(reads)
    }
}

/// Misses that were seen, the oldest of which go first. Their time to live is
/// longer than the attack.
struct Misses {
    known: HashSet<[u8; KEY]>,
    order: VecDeque<[u8; KEY]>,
    most: usize,
}

impl Misses {
    fn within(bytes: u64) -> Self {
        let most = (bytes / CACHE_ENTRY) as usize;
        Misses { known: HashSet::new(), order: VecDeque::new(), most }
    }

    /// Whether it was known; it is from now on.
    fn knows(&mut self, key: [u8; KEY]) -> bool {
        if !self.known.insert(key) {
            return true;
        }
        self.order.push_back(key);
        if self.order.len() > self.most {
            self.known.remove(&self.order.pop_front().expect("it is not empty"));
        }
        false
    }
}

pub fn table(directory: &Path, keys: u64, queries: u64) -> Outcome {
    println!("### An attacker who repeats what is slow: {keys} keys, {queries} queries\n");
    println!("| in front of the store | KiB | stubborn: reads | s | collector: reads | s |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    let bare = BareRedb::filled(&directory.join("attacked.redb"), keys, CACHE)?;
    let ours = guarded::<Redb>(&directory.join("attacked-guarded"), keys, CACHE)?;
    let bytes = ours.stats().bytes;
    let read = |key| {
        assert!(bare.get(key)?.is_none(), "nobody stores it");
        Ok(1)
    };
    row("nothing (redb)", 0, queries, || Ok(Box::new(read)))?;
    let mut bloom = BloomFilter::with_num_bits(bytes as usize * 8).expected_items(keys as usize);
    (0..keys).for_each(|index| {
        bloom.insert(&stored(index));
    });
    row("fastbloom", bytes, queries, || {
        Ok(Box::new(|key| if bloom.contains(&key) { read(key) } else { Ok(0) }))
    })?;
    row("fastbloom and moka", bytes, queries, || {
        let share = bytes / MOKA_SHARE;
        let bits = (bytes - share) as usize * 8;
        let mut bloom = BloomFilter::with_num_bits(bits).expected_items(keys as usize);
        (0..keys).for_each(|index| {
            bloom.insert(&stored(index));
        });
        let refuted = moka::sync::Cache::new(share / CACHE_ENTRY);
        Ok(Box::new(move |key| {
            if !bloom.contains(&key) || refuted.get(&key).is_some() {
                return Ok(0);
            }
            refuted.insert(key, ());
            read(key)
        }))
    })?;
    row("a cache of misses", bytes, queries, || {
        let mut misses = Misses::within(bytes);
        Ok(Box::new(move |key| if misses.knows(key) { Ok(0) } else { read(key) }))
    })?;
    drop(ours);
    let notes = [
        guarded_row::<Redb>("ours (redb)", directory, keys, queries)?,
        guarded_row::<Fjall>("ours (fjall)", directory, keys, queries)?,
    ];
    let fjall = BareFjall::filled(&directory.join("attacked-fjall"), keys, true, CACHE)?;
    row("fjall's own filters: blocks of data", 0, queries, || {
        Ok(Box::new(|key| {
            let before = fjall.blocks();
            assert!(fjall.get(key)?.is_none(), "nobody stores it");
            Ok(fjall.blocks() - before)
        }))
    })?;
    println!("\n{}\n", notes.join("\n"));
    Ok(())
}

/// A store of its own for each attacker: one must not profit from the other's
/// lessons.
fn guarded_row<E: Engine>(
    name: &str,
    directory: &Path,
    keys: u64,
    queries: u64,
) -> Outcome<String> {
    let path = directory.join("attacked-fresh");
    let mut stores: Vec<GuardedStore<E>> = Vec::new();
    for turn in 0..2 {
        stores.push(guarded(&path.join(turn.to_string()), keys, CACHE)?);
    }
    let bytes = stores[0].stats().bytes;
    let further = RefCell::new(Vec::new());
    let spent = &further;
    row(name, bytes, queries, || {
        let store = stores.pop().expect("one for each");
        let before = store.stats().store_reads;
        let (mut asked, mut reads) = (0, 0);
        // Counting all slices takes longer than a query, so it is done at the end:
        // a query is a read if it may be stored.
        Ok(Box::new(move |key| {
            let read = u64::from(store.contains(key));
            assert!(store.get(key)?.is_none(), "nobody stores it");
            (asked, reads) = (asked + 1, reads + read);
            if asked == queries {
                let counted = store.stats().store_reads - before;
                // The rest are reads of spent blocks.
                spent.borrow_mut().push(counted - reads);
            }
            Ok(read)
        }))
    })?;
    std::fs::remove_dir_all(&path)?;
    Ok(format!("{name}: {:?} further reads, of spent blocks.", further.into_inner()))
}

fn row<'a>(
    name: &str,
    bytes: u64,
    queries: u64,
    mut target: impl FnMut() -> Outcome<Ask<'a>>,
) -> Outcome {
    let mut cells = Vec::new();
    for attacker in [Attacker::Stubborn, Attacker::Collector] {
        let mut ask = target()?;
        let start = Instant::now();
        let reads = attacker.attack(queries, &mut ask)?;
        cells.push(format!("{reads} | {:.2}", start.elapsed().as_secs_f64()));
    }
    println!("| {name} | {} | {} |", bytes / 1024, cells.join(" | "));
    Ok(())
}
