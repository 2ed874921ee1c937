//! Resync: what the store has becomes what the filter knows.
//!
//! One scan of the store. Keys that the sidecar does not know are added as they
//! come; at first, while nobody waits for the filter, many at a time. The scan's
//! digests are remembered in a [`Seen`]; when it is done, digests of the sidecar that
//! it did not see are forgotten, unless somebody added them since it began or shortly
//! before ([`changes`](super::changes)): nothing is denied that was acknowledged.
//!
//! The caller of a resync may go away at any moment; what is being done for it on another thread
//! is done to its end. So that which protects the work goes with the work: [`Resyncing`].

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use tokio::sync::{OwnedMutexGuard, mpsc};
use twiceshy::Digest;
use twiceshy::guard::Store as _;
use twiceshy::store::SidecarStore;

use crate::backend::Failure;
use crate::blocking::blocking;
use crate::upstream::Upstream;

use super::Inner;
use super::seen::Seen;

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

/// Digests that are forgotten with one write, while who adds one of them has to wait.
const FORGOTTEN_AT_ONCE: usize = 1 << 10;

/// Keys that are added with one write as long as nobody relies on the filter. They are
/// anywhere in the sidecar, and a write makes every page anew that it changes: the
/// more at once, the fewer pages a key. These take about 80 MB meanwhile.
const ADDED_AT_ONCE: usize = 1 << 18;

/// Pieces that the sidecar is read in, as a power of two.
const PIECES_BITS: u32 = 8;

/// Scans the store. `progress` is told how many keys of about how many are done.
pub(super) async fn resync<U: Upstream>(
    inner: &Arc<Inner<U>>,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<Resynced, Failure> {
    let turn = Arc::clone(&inner.resyncing).lock_owned().await;
    let expected = inner.upstream.estimate().await?.max(inner.sidecar.guard().stats().keys);
    let resyncing = Resyncing::begin(Arc::clone(inner), expected, turn);
    let (send, receive) = mpsc::channel(4);
    // Who changes the filter has to wait for a write: later they are small.
    let at_once = if inner.is_trusted() { 1 } else { ADDED_AT_ONCE };
    let absorb = blocking(move || {
        let absorbed = resyncing.absorb(receive, at_once, expected, progress)?;
        Ok((resyncing, absorbed))
    });
    let (scanned, absorbed) = tokio::join!(inner.upstream.scan(send), absorb);
    // A scan that found nobody to take its keys fails as well, with less to say.
    let (resyncing, mut result) = absorbed?;
    result.without_key = scanned?;
    let end = inner.upstream.log_end().await?;
    result.forgotten = blocking(move || resyncing.forget(end)).await?;
    Ok(result)
}

/// A resync that goes on, until it is dropped: there is no other one, and what is
/// added meanwhile is not forgotten.
struct Resyncing<U: Upstream> {
    inner: Arc<Inner<U>>,
    seen: Arc<Seen>,
    /// The last to be dropped: whose turn it is next has all to itself.
    _turn: OwnedMutexGuard<()>,
}

impl<U: Upstream> Drop for Resyncing<U> {
    fn drop(&mut self) {
        self.inner.changes.end_resync();
    }
}

impl<U: Upstream> Resyncing<U> {
    fn begin(inner: Arc<Inner<U>>, expected: u64, turn: OwnedMutexGuard<()>) -> Self {
        let seen = Arc::new(Seen::new(expected, inner.next_seed()));
        inner.changes.begin_resync(Arc::clone(&seen));
        Resyncing { inner, seen, _turn: turn }
    }

    /// Adds the keys that are not known yet, when there are `at_once` of them or more.
    fn absorb(
        &self,
        chunks: mpsc::Receiver<Vec<Bytes>>,
        at_once: usize,
        expected: u64,
        progress: impl FnMut(u64, u64),
    ) -> Result<Resynced, Failure> {
        let seen = |digest| self.seen.insert(digest);
        absorb(&self.inner.sidecar, chunks, seen, at_once, expected, progress)
    }

    /// Forgets what the scan did not see, a few at a time. The store's log, if it has one, ended at
    /// `end` after the scan.
    fn forget(&self, end: Option<u64>) -> Result<u64, Failure> {
        let Inner { sidecar, changes, stopping, .. } = &*self.inner;
        let mut forgotten = 0;
        for piece in 0..1 << PIECES_BITS {
            // The next resync finds the others.
            if stopping.load(Ordering::Relaxed) {
                break;
            }
            let mut unseen = Vec::new();
            let each = &mut |digest: Digest, _: &[u8]| {
                if !self.seen.contains(digest) {
                    unseen.push(digest);
                }
            };
            sidecar
                .guard()
                .store()
                .read(range(piece), each)
                .map_err(twiceshy::guard::Error::Read)?;
            for unseen in unseen.chunks(FORGOTTEN_AT_ONCE) {
                let forget = |digests: &[Digest]| self.inner.forget_absent(digests, end);
                forgotten += changes.forget_unseen(unseen.to_vec(), forget)? as u64;
            }
        }
        Ok(forgotten)
    }
}

/// Adds the keys that are not known yet, when there are `at_once` of them or more; `seen` is
/// told of all.
fn absorb(
    sidecar: &SidecarStore,
    mut chunks: mpsc::Receiver<Vec<Bytes>>,
    seen: impl Fn(Digest),
    at_once: usize,
    expected: u64,
    mut progress: impl FnMut(u64, u64),
) -> Result<Resynced, Failure> {
    let (mut result, mut new) = (Resynced::default(), Vec::new());
    while let Some(keys) = chunks.blocking_recv() {
        result.keys += keys.len() as u64;
        for key in &keys {
            let digest = sidecar.digest(key);
            seen(digest);
            if !sidecar.exists(digest)? {
                new.push(digest);
            }
        }
        if new.len() >= at_once {
            result.added += sidecar.added_digests(&new)? as u64;
            new.clear();
        }
        progress(result.keys, expected.max(result.keys));
    }
    result.added += sidecar.added_digests(&new)? as u64;
    Ok(result)
}

/// Fills an empty sidecar, on which nobody relies, with the keys that `scan` sends. `progress` is
/// told how many keys of about how many are done.
pub(crate) async fn fill<U: Upstream>(
    inner: &Arc<Inner<U>>,
    scan: impl AsyncFnOnce(mpsc::Sender<Vec<Bytes>>) -> Result<u64, Failure>,
    progress: impl FnMut(u64, u64) + Send + 'static,
) -> Result<Resynced, Failure> {
    let expected = inner.upstream.estimate().await?;
    let (send, receive) = mpsc::channel(4);
    let filling = Arc::clone(inner);
    let absorb = blocking(move || {
        absorb(&filling.sidecar, receive, |_| (), ADDED_AT_ONCE, expected, progress)
    });
    let (scanned, absorbed) = tokio::join!(scan(send), absorb);
    let mut result = absorbed?;
    result.without_key = scanned?;
    Ok(result)
}

impl<U: Upstream> Inner<U> {
    /// Forgets every key that no client is adding or has announced lately.
    pub(crate) fn forget_all(&self) -> Result<(), Failure> {
        /// Nobody waits for these: who adds one of them has announced it.
        const AT_ONCE: usize = 1 << 16;
        for piece in 0..1 << PIECES_BITS {
            let mut digests = Vec::new();
            let each = &mut |digest: Digest, _: &[u8]| digests.push(digest);
            let store = self.sidecar.guard().store();
            store.read(range(piece), each).map_err(twiceshy::guard::Error::Read)?;
            for digests in digests.chunks(AT_ONCE) {
                let forget = |digests: &[Digest]| self.sidecar.removed_many(digests);
                self.changes.forget_streamed(digests.to_vec(), forget)?;
            }
        }
        Ok(())
    }
}

/// Digests of a piece.
fn range(piece: u64) -> RangeInclusive<Digest> {
    let shift = u64::BITS - PIECES_BITS;
    let first = piece << shift;
    Digest::new([first, 0])..=Digest::new([first | ((1 << shift) - 1), u64::MAX])
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;
    use tokio::runtime::Runtime;

    use super::*;
    use crate::shield::tests::Empty;
    use crate::{Shield, ShieldOptions};

    #[test]
    fn every_key_of_every_chunk_is_added_however_many_at_once() {
        let runtime = Runtime::new().expect("a runtime");
        for at_once in [1, 2, 3, 4, 100] {
            let directory = TempDir::new().expect("a directory");
            let options = ShieldOptions {
                directory: directory.path().into(),
                resync: None,
                resync_at_start: true,
            };
            let shield = runtime.block_on(Shield::open(Empty, &options, |_, _| ()));
            let inner = Arc::clone(&shield.expect("opened").inner);
            let turn = runtime.block_on(Arc::clone(&inner.resyncing).lock_owned());
            let resyncing = Resyncing::begin(Arc::clone(&inner), 9, turn);
            let (send, receive) = mpsc::channel(16);
            let keys = ["a", "b", "c", "a", "d", "e", "f", "g", "h"];
            for chunk in keys.chunks(2) {
                let chunk = chunk.iter().map(|key| Bytes::from_static(key.as_bytes())).collect();
                send.try_send(chunk).expect("room for all chunks");
            }
            drop(send);
            let done = resyncing.absorb(receive, at_once, 9, |_, _| ()).expect("no trouble");
            assert_eq!((done.keys, done.added), (9, 8), "{at_once} at once");
            for key in keys {
                let known = inner.sidecar.exists(inner.sidecar.digest(key)).expect("no trouble");
                assert!(known, "{key}, {at_once} at once");
            }
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
