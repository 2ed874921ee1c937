//! The guard: against a map, with a store that fails, and under many threads.

mod adapting;
mod errors;
mod failing;
mod golden;
mod interleaved;
mod opening;
mod oracle;
#[path = "../../../twiceshy-filters/tests/harness/random.rs"]
mod random;
mod reads;
mod sidecar;
mod snapshots;
#[path = "../stores/mod.rs"]
mod stores;
mod stress;

use std::sync::Arc;

use twiceshy::guard::{Error, GuardOptions, MemoryStore};
use twiceshy::store::{Kept, Redb};
use twiceshy::{Guard, KeyHasher, Sidecar};

use stores::spec;

fn options(text: &str, capacity: usize, shard_bits: u32) -> GuardOptions {
    GuardOptions::default().spec(spec(text)).capacity(capacity).shard_bits(shard_bits)
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

/// Threads share guards, sidecars and stores on disk.
#[test]
fn guards_sidecars_and_stores_are_send_and_sync() {
    fn assert_send_and_sync<T: Send + Sync>() {}
    assert_send_and_sync::<Guard<MemoryStore>>();
    assert_send_and_sync::<Sidecar<MemoryStore>>();
    assert_send_and_sync::<Kept<Guard<Redb>>>();
    assert_send_and_sync::<Kept<Sidecar<Redb>>>();
    assert_send_and_sync::<twiceshy::Error>();
    assert_send_and_sync::<Error>();
}

fn open_with(
    store: &Arc<MemoryStore>,
    hasher: KeyHasher,
    options: &GuardOptions,
    snapshot: Option<&[u8]>,
) -> Result<Guard<Arc<MemoryStore>>, Error> {
    Guard::open_with(store.clone(), hasher, options, snapshot, &mut |_, _| ())
}
