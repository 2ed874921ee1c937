//! Resync: what the store has becomes what the filter knows.
//!
//! One scan of the store. Keys that the sidecar does not know are added as they
//! come. The scan's digests are remembered in a [`Seen`]; when it is done, digests
//! of the sidecar that it did not see are forgotten, unless somebody added them
//! since it began or shortly before ([`changes`](super::changes)): nothing is
//! denied that was acknowledged.

use std::ops::RangeInclusive;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use twiceshy::{Digest, Store as _};

use crate::backend::Failure;
use crate::upstream::{CHUNK, Upstream};

use super::{Inner, panicked};

use std::sync::Arc;

/// What a resync did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resynced {
    /// Keys of the store.
    pub keys: u64,
    /// Those of them that the filter did not know.
    pub added: u64,
    /// Keys that the filter knew and the store does not have.
    pub forgotten: u64,
    /// Rows without a key: SQL's NULL.
    pub without_key: u64,
}

/// Digests that are forgotten with one write, while who adds has to wait.
const FORGOTTEN_AT_ONCE: usize = 1 << 10;

/// Pieces that the sidecar is read in, as a power of two.
const PIECES_BITS: u32 = 8;

/// Scans the store. `progress` is told how many keys of about how many are done.
pub(super) async fn resync<U: Upstream>(
    inner: &Arc<Inner<U>>,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<Resynced, Failure> {
    let _one_at_a_time = inner.resyncing.lock().await;
    let expected = inner.upstream.estimate().await?.max(inner.sidecar.guard().stats().keys);
    inner.changes.begin_resync();
    let _end = Ending(inner);
    let (send, receive) = mpsc::channel(4);
    let absorbing = spawn_blocking({
        let inner = Arc::clone(inner);
        move || absorb(&inner, receive, expected, progress)
    });
    let (scanned, absorbed) = tokio::join!(inner.upstream.scan(send), absorbing);
    // A scan that found nobody to take its keys fails as well, with less to say.
    let (seen, mut result) = absorbed.map_err(|_| panicked())??;
    result.without_key = scanned?;
    let forgetting = Arc::clone(inner);
    result.forgotten =
        spawn_blocking(move || forget(&forgetting, &seen)).await.map_err(|_| panicked())??;
    Ok(result)
}

struct Ending<'a, U: Upstream>(&'a Inner<U>);

impl<U: Upstream> Drop for Ending<'_, U> {
    fn drop(&mut self) {
        self.0.changes.end_resync();
    }
}

/// Adds the keys that are not known yet.
fn absorb<U: Upstream>(
    inner: &Inner<U>,
    mut chunks: mpsc::Receiver<Vec<Bytes>>,
    expected: u64,
    mut progress: impl FnMut(u64, u64),
) -> Result<(Seen, Resynced), Failure> {
    let mut seen = Seen::new(expected, inner.next_seed());
    let mut result = Resynced::default();
    while let Some(keys) = chunks.blocking_recv() {
        let mut new = Vec::new();
        for key in &keys {
            let digest = inner.sidecar.digest(key);
            seen.insert(digest);
            if !inner.sidecar.knows(digest)? {
                new.push(key);
            }
        }
        result.keys += keys.len() as u64;
        result.added += inner.sidecar.added_many(&new)? as u64;
        progress(result.keys, expected.max(result.keys));
    }
    Ok((seen, result))
}

/// Forgets what the scan did not see, a few at a time.
fn forget<U: Upstream>(inner: &Inner<U>, seen: &Seen) -> Result<u64, Failure> {
    let mut forgotten = 0;
    for piece in 0..1 << PIECES_BITS {
        let mut unseen = Vec::new();
        let each = &mut |digest: Digest, _: &[u8]| {
            if !seen.may_contain(digest) {
                unseen.push(digest);
            }
        };
        let store = inner.sidecar.guard().store();
        store.read(range(piece), each).map_err(twiceshy::Error::Remote)?;
        for unseen in unseen.chunks(FORGOTTEN_AT_ONCE) {
            let removed = inner
                .changes
                .forget_unseen(unseen.to_vec(), |digests| inner.sidecar.removed_many(digests))?;
            forgotten += removed as u64;
        }
    }
    Ok(forgotten)
}

/// Digests of a piece.
fn range(piece: u64) -> RangeInclusive<Digest> {
    let shift = u64::BITS - PIECES_BITS;
    let first = piece << shift;
    Digest::new([first, 0])..=Digest::new([first | ((1 << shift) - 1), u64::MAX])
}

/// The digests of a scan: a Bloom filter of 16 bits a key and 4 hash functions,
/// other ones each time. One in 400 of the keys that the store has lost is taken
/// for one that it has, and forgotten the next time; an exact set would need ten
/// times the memory.
pub(super) struct Seen {
    words: Vec<u64>,
    seed: u64,
}

const BITS_PER_KEY: u64 = 16;
const PROBES: u32 = 4;

impl Seen {
    fn new(keys: u64, seed: u64) -> Self {
        let keys = keys.max(CHUNK as u64);
        let words = keys.saturating_mul(BITS_PER_KEY).div_ceil(u64::from(u64::BITS));
        let words = usize::try_from(words).expect("the keys' bits fit in memory");
        Seen { words: vec![0; words], seed }
    }

    fn places(&self, digest: Digest) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = self.words.len() as u128 * u128::from(u64::BITS);
        let digest = digest.rehashed(self.seed);
        (0..PROBES).map(move |probe| {
            let bit = (u128::from(digest.word(probe)) * bits) >> u64::BITS;
            let word = usize::try_from(bit / u128::from(u64::BITS)).expect("a word of ours");
            (word, 1 << (bit % u128::from(u64::BITS)))
        })
    }

    fn insert(&mut self, digest: Digest) {
        for (word, bit) in self.places(digest) {
            self.words[word] |= bit;
        }
    }

    fn may_contain(&self, digest: Digest) -> bool {
        self.places(digest).all(|(word, bit)| self.words[word] & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use twiceshy::KeyHasher;

    use super::*;

    /// (1 - e^(-4/16))^4 = 0.0024 of those not seen: 240 of 10^5, with a standard
    /// deviation of 16. 350 is seven of them away (error below 1e-10).
    #[test]
    fn what_was_seen_is_known_and_little_else() {
        let digests: Vec<Digest> =
            (0..200_000_u32).map(|n| KeyHasher::fast(1).digest(n.to_le_bytes())).collect();
        for seed in [1, 2] {
            let mut seen = Seen::new(100_000, seed);
            digests[..100_000].iter().for_each(|&digest| seen.insert(digest));
            assert!(digests[..100_000].iter().all(|&digest| seen.may_contain(digest)));
            let wrong = digests[100_000..].iter().filter(|&&digest| seen.may_contain(digest));
            let wrong = wrong.count();
            assert!((130..350).contains(&wrong), "{wrong}");
        }
    }

    #[test]
    fn pieces_are_all_digests_once() {
        assert_eq!(*range(0).start(), Digest::new([0, 0]));
        for piece in 1..1 << PIECES_BITS {
            let [before, last] = range(piece - 1).end().words();
            assert_eq!(range(piece).start().words(), [before + 1, 0]);
            assert_eq!(last, u64::MAX);
        }
        assert_eq!(range((1 << PIECES_BITS) - 1).end().words(), [u64::MAX; 2]);
    }
}
