//! A guard's snapshot whose bytes were changed, with checksums that are right.
//!
//! A guard knows its own snapshot by a keyed hash of all its bytes, in the store's header.
//! So there are two attackers. One can write files: a changed snapshot is not used, and no
//! key is denied. The other has the secret as well and makes the hash right: then a filter
//! may say anything, but loading it and asking it neither panics nor takes more memory than
//! the file justifies.

use std::sync::Arc;

use twiceshy::guard::{GuardOptions, Header, MemoryStore, Opened, Store};
use twiceshy::{Guard, KeyHasher};

use super::allocations::measured;
use super::mutation::{Choices, block, mutate, push_block};

/// The filters that a guard can have.
pub const SPECS: [&str; 10] = [
    "line",
    "telescoping:f=3,spent=reseed",
    "telescoping:f=2,budget=24",
    "uncompressed:f=3",
    "extension:f=2",
    "broom:f=3",
    "rsqf:f=4",
    "plain:f=4,b=2",
    "plain:f=12",
    "simplified:f=3",
];

/// Shards, as a power of two.
const SHARD_BITS: u32 = 1;

const KEYS: u64 = 120;

/// As for saved filters; there are no mirrors here.
const BYTES_PER_BYTE: usize = 32;
const BYTES_BESIDES: usize = 1 << 18;

/// Who changed the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attacker {
    WritesFiles,
    HasTheSecret,
}

/// What became of the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Refused,
    Used,
}

fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// A guard that has stored, removed and adapted.
fn play(guard: &Guard<Arc<MemoryStore>>) {
    for number in 0..KEYS + 40 {
        guard.put(key(number), []).expect("in memory");
    }
    for number in KEYS..KEYS + 40 {
        guard.remove(key(number)).expect("in memory");
    }
    for number in 1000..1200 {
        guard.get(key(number)).expect("in memory");
    }
}

/// Where the first filter's block begins: behind the tag, the nonce and the number of
/// records, and the number of shards.
const FIRST_BLOCK: usize = 8 + 4 + 4 + "guard".len() + 8 + 8 + 8 + 4;

/// Interprets bytes as a guard and changes to its snapshot, and opens that.
///
/// # Panics
/// When an invariant is broken.
pub fn open_changed(bytes: &[u8]) -> Outcome {
    let choices = &mut Choices::new(bytes);
    let spec = SPECS[usize::from(choices.byte()) % SPECS.len()].parse().expect("a good spec");
    let attacker = match choices.byte() % 4 {
        0 => Attacker::WritesFiles,
        _ => Attacker::HasTheSecret,
    };
    let store = Arc::new(MemoryStore::default());
    let hasher = KeyHasher::keyed([7; 16]);
    let options = GuardOptions::default().spec(spec).capacity(64).shard_bits(SHARD_BITS);
    let guard = Guard::open(Arc::clone(&store), hasher.clone(), &options).expect("in memory");
    play(&guard);
    let whole = guard.snapshot().expect("in memory");
    drop(guard);

    let changed = changed(&whole, choices);
    let header = store.header().expect("in memory").expect("it was opened");
    if attacker == Attacker::HasTheSecret {
        let generation = hasher.digest(&changed).word(0);
        store.set_header(Header { generation, ..header }).expect("in memory");
    }
    let (opened, most) =
        measured(|| Guard::open_with(store, hasher, &options, Some(&changed), &mut |_, _| ()));
    assert!(
        most <= BYTES_PER_BYTE * changed.len().max(whole.len()) + BYTES_BESIDES,
        "{spec}: {most} bytes for a snapshot of {}",
        changed.len()
    );
    let guard = opened.expect("a snapshot is never what keeps a store from opening");
    let is_used = *guard.opened() == Opened::Snapshot;
    if attacker == Attacker::WritesFiles {
        assert_eq!(is_used, changed == whole, "{spec}: {:?}", guard.opened());
    }
    if !is_used || changed == whole {
        for number in 0..KEYS {
            assert!(guard.exists(key(number)).expect("in memory"), "{spec} denies {number}");
        }
        guard.check().unwrap_or_else(|broken| panic!("{spec}: {broken}"));
    } else {
        // Whatever it says.
        for number in 0..KEYS + 100 {
            let _ = guard.exists(key(number));
            if number % 3 == 0 {
                let _ = guard.remove(key(number));
            } else if number % 3 == 1 {
                let _ = guard.put(key(number + 500), []);
            }
        }
        let _ = guard.check();
    }
    if is_used { Outcome::Used } else { Outcome::Refused }
}

/// The snapshot with changes to its filters, or to what is before them.
fn changed(whole: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    let mut head = whole[..FIRST_BLOCK].to_vec();
    let mut filters = Vec::new();
    let mut at = FIRST_BLOCK;
    for _ in 0..1 << SHARD_BITS {
        let (filter, end) = block(whole, at);
        filters.push(filter.to_vec());
        at = end;
    }
    while !choices.is_empty() {
        match usize::from(choices.byte() % 8) {
            0 => mutate(&mut head, choices),
            // Each is whole, and in the place of the other.
            1 => filters.rotate_left(1),
            which => {
                let filter = &mut filters[which % (1 << SHARD_BITS)];
                filter.truncate(filter.len().saturating_sub(8));
                mutate(filter, choices);
                filter.extend([0; 8]);
                twiceshy_filters::format::seal(filter);
            }
        }
    }
    for filter in filters {
        push_block(&mut head, &filter);
    }
    head.extend([0; 8]);
    twiceshy_filters::format::seal(&mut head);
    head
}
