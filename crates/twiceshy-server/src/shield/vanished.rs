//! Keys that the filter passed and the store does not have.
//!
//! ```text
//! not in the sidecar   a false positive: the filter adapts
//! in the sidecar       vanished, if a second look at the store does not find it either: it
//!                      expired, or somebody removed it without TS.REMOVED; the filter forgets it
//! ```
//!
//! The second look comes after the removal is registered, so that a client that adds the key
//! meanwhile is noticed ([`changes`](super::changes)). Keys that stay known (just announced, or
//! with a value that reads as nil) get one second look per minute.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::Semaphore;
use twiceshy::{Adapted, Digest};

use super::Inner;
use crate::backend::Failure;
use crate::blocking::blocking;
use crate::upstream::Upstream;

/// Second looks at a time. Other lookups do without one, and leave it to a later lookup.
const AT_ONCE: usize = 16;

/// Digests that are remembered: a power of two.
const REMEMBERED: usize = 1 << 12;

/// How long a digest is remembered.
const TURN: Duration = Duration::from_secs(60);

/// The digests that had their second look, or are having it.
pub(super) struct SecondLooks {
    places: Semaphore,
    /// The last digest of each class, and when: [`SecondLooks::mark`].
    looked: Box<[AtomicU64]>,
    begin: Instant,
}

impl Default for SecondLooks {
    fn default() -> Self {
        SecondLooks {
            places: Semaphore::new(AT_ONCE),
            looked: (0..REMEMBERED).map(|_| AtomicU64::new(0)).collect(),
            begin: Instant::now(),
        }
    }
}

impl SecondLooks {
    /// Whether it is time for a second look at a digest. Says so once per turn.
    fn begin(&self, digest: Digest) -> bool {
        let (place, mark) = self.mark(digest);
        place.swap(mark, Ordering::Relaxed) != mark
    }

    /// The next lookup may have a second look again.
    fn end(&self, digest: Digest) {
        self.mark(digest).0.store(0, Ordering::Relaxed);
    }

    /// The place of a digest, and its bits with the number of the turn in the low byte.
    fn mark(&self, digest: Digest) -> (&AtomicU64, u64) {
        let turn = self.begin.elapsed().as_secs() / TURN.as_secs();
        let word = digest.word(1);
        let place = (digest.word(0) % REMEMBERED as u64) as usize;
        (&self.looked[place], word & !0xff | turn & 0xff)
    }
}

impl<U: Upstream> Inner<U> {
    /// The store does not have these keys, which the filter passed. What this cannot do now is
    /// left to a later lookup; the answer to this one stands.
    pub(super) async fn missed(self: &Arc<Self>, keys: Vec<Bytes>) {
        let mut known = Vec::new();
        for key in keys {
            // The log may have told of a key that the store does not show yet.
            if self.stream.contains(|| self.sidecar.digest(&key)) {
                continue;
            }
            if matches!(self.sidecar.guard().adapt(&key), Ok(Adapted::Stored)) {
                known.push(key);
            }
        }
        if known.is_empty() {
            return;
        }
        let Ok(_place) = self.second_looks.places.try_acquire() else { return };
        known.retain(|key| self.second_looks.begin(self.sidecar.digest(key)));
        // In a box, since it is rare: every lookup would have room for it.
        if !known.is_empty() && Box::pin(self.look_again(&known)).await.is_err() {
            known.iter().for_each(|key| self.second_looks.end(self.sidecar.digest(key)));
        }
    }

    /// Looks at the store again, and forgets what it does not have.
    async fn look_again(self: &Arc<Self>, keys: &[Bytes]) -> Result<(), Failure> {
        let digests = self.digests(keys).await;
        let removal = self.changes.remove(digests.clone()).await;
        self.count_reads(keys);
        let there = self.upstream.exist(keys).await?;
        let end = self.upstream.log_end().await?;
        let inner = Arc::clone(self);
        blocking(move || {
            let there = digests.into_iter().zip(there);
            let gone: HashSet<Digest> =
                there.filter(|(_, there)| !there).map(|(digest, _)| digest).collect();
            gone.iter().for_each(|&digest| inner.sidecar.count_false_positive(digest));
            let forget = |digests: &[Digest]| {
                inner.forget_absent(digests, end)?;
                for &digest in digests {
                    inner.sidecar.count_vanished(digest);
                    inner.second_looks.end(digest);
                }
                Ok(())
            };
            removal.finish(|digest| gone.contains(digest), forget)
        })
        .await
    }

    /// Counts reads of the store that are not part of a lookup.
    pub(super) fn count_reads(&self, keys: &[Bytes]) {
        keys.iter().for_each(|key| self.sidecar.count_read(self.sidecar.digest(key)));
    }
}
