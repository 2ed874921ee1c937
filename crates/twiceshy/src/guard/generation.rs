//! The generation of a store: which snapshot fits its present state.
//!
//! ```text
//! snapshot taken    generation = keyed hash of the snapshot     clean
//! first write       generation = a random number                dirty
//! later writes      (nothing to do)                             dirty
//! ```
//!
//! A snapshot fits as long as the store's generation is its hash. The first write after a
//! snapshot, or after opening, gives the store a generation that no snapshot has.

use std::sync::PoisonError;

use twiceshy_filters::KeyHasher;

use super::error::{Error, Result};
use super::open::Guard;
use super::record;
use super::store::{Header, Store};
use super::sync::{AtomicBool, Mutex, Ordering};

/// Whether the store's generation may be that of a snapshot.
pub(super) struct Generation {
    /// The store's generation is that of no snapshot.
    dirty: AtomicBool,
    /// Held while the store's generation changes.
    changing: Mutex<()>,
}

impl Default for Generation {
    /// Clean: the store's generation may be that of a snapshot.
    fn default() -> Self {
        Generation { dirty: AtomicBool::new(false), changing: Mutex::new(()) }
    }
}

impl Generation {
    /// The store's generation may be that of a snapshot: the next write renews it.
    pub(super) fn set_clean(&self) {
        self.dirty.store(false, Ordering::Release);
    }
}

impl<S: Store> Guard<S> {
    /// Gives the store a generation that no snapshot has, before the first write after a
    /// snapshot or after opening.
    pub(super) fn make_dirty(&self) -> Result<()> {
        let Generation { dirty, changing } = &self.generation;
        if dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        let _lock = changing.lock().unwrap_or_else(PoisonError::into_inner);
        if dirty.load(Ordering::Acquire) {
            return Ok(());
        }
        self.store.set_header(self.new_header()).map_err(Error::Header)?;
        dirty.store(true, Ordering::Release);
        Ok(())
    }

    /// A header whose generation no snapshot has.
    pub(super) fn new_header(&self) -> Header {
        Header { tag: tag(&self.hasher), generation: random() }
    }
}

/// What identifies the hasher and the layout of records, in stores and in snapshots.
pub(super) fn tag(hasher: &KeyHasher) -> u64 {
    hasher.tag().wrapping_add(record::LAYOUT)
}

/// The generation of the store that a snapshot is of.
pub(super) fn of_snapshot(hasher: &KeyHasher, snapshot: &[u8]) -> u64 {
    hasher.digest(snapshot).word(0)
}

/// A generation that no snapshot and no other state of any store has. Consecutive numbers
/// would repeat in a store that was made anew or restored from a backup.
pub(super) fn random() -> u64 {
    getrandom::u64().expect("the operating system gives random bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two of a thousand random numbers of 64 bits are equal with a probability below 10^-13.
    #[test]
    fn no_state_of_a_store_has_the_generation_of_another() {
        let drawn: std::collections::HashSet<u64> = (0..1000).map(|_| random()).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
