//! [`Fresh`]: what the log has inserted and the filter may not have yet.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};

use twiceshy::Digest;

use super::changes::release;

/// Digests that the log has inserted and the filter may not have yet, each as often as it was
/// inserted.
#[derive(Default)]
pub(super) struct Fresh {
    counts: RwLock<HashMap<Digest, u32>>,
    /// Mostly zero, and then nobody takes the lock.
    len: AtomicUsize,
}

impl Fresh {
    pub(super) fn contains(&self, digest: impl FnOnce() -> Digest) -> bool {
        self.len.load(Ordering::Acquire) > 0 && {
            let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
            counts.contains_key(&digest())
        }
    }

    pub(super) fn insert(&self, digests: &[Digest]) {
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        for &digest in digests {
            *counts.entry(digest).or_default() += 1;
        }
        self.len.store(counts.len(), Ordering::Release);
    }

    pub(super) fn clear(&self) {
        self.counts.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.len.store(0, Ordering::Release);
    }

    pub(super) fn remove(&self, digests: &[Digest]) {
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        digests.iter().for_each(|digest| release(&mut counts, digest));
        self.len.store(counts.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u64) -> Digest {
        Digest::new([n, n])
    }

    #[test]
    fn fresh_digests_stay_until_the_last_insertion_is_written() {
        let fresh = Fresh::default();
        assert!(!fresh.contains(|| digest(1)));
        fresh.insert(&[digest(1), digest(2)]);
        fresh.insert(&[digest(1)]);
        fresh.remove(&[digest(1), digest(2)]);
        assert!(fresh.contains(|| digest(1)));
        assert!(!fresh.contains(|| digest(2)));
        fresh.remove(&[digest(1)]);
        assert!(!fresh.contains(|| digest(1)));
        assert_eq!(fresh.len.load(Ordering::Relaxed), 0);
    }
}
