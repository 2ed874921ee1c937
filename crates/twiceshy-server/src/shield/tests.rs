//! What only shows from inside.

use std::borrow::Cow;
use std::time::Instant;

use bytes::Bytes;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::backend::Fetched;

/// A store that has nothing.
pub(super) struct Empty;

impl Upstream for Empty {
    const WRITES: bool = false;

    fn origin(&self) -> String {
        "empty".into()
    }

    fn canonical<'k>(&self, key: &'k Bytes) -> Option<Cow<'k, Bytes>> {
        Some(Cow::Borrowed(key))
    }

    async fn values(&self, keys: &[Bytes], _: usize) -> Result<Fetched, Failure> {
        Ok(Fetched { values: vec![None; keys.len()], next: None })
    }

    async fn exist(&self, keys: &[Bytes]) -> Result<Vec<bool>, Failure> {
        Ok(vec![false; keys.len()])
    }

    async fn estimate(&self) -> Result<u64, Failure> {
        Ok(0)
    }

    async fn scan(&self, _: mpsc::Sender<Vec<Bytes>>) -> Result<u64, Failure> {
        Ok(0)
    }

    async fn set(&self, _: &[(Bytes, Bytes)]) -> Result<(), Failure> {
        Ok(())
    }

    async fn remove(&self, _: &[Bytes]) -> Result<usize, Failure> {
        Ok(0)
    }
}

const DEADLINE: Duration = Duration::from_secs(60);

fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::yield_now();
    }
}

/// Who waits for a resync goes away while the filter forgets: that goes on, and as
/// long as it does there is no other resync, and nothing that is added is forgotten.
#[test]
fn a_resync_that_nobody_waits_for_is_still_one() {
    let runtime = Runtime::new().expect("a runtime");
    let directory = TempDir::new().expect("a directory");
    let options =
        ShieldOptions { directory: directory.path().into(), resync: None, resync_at_start: true };
    let shield = runtime.block_on(Shield::open(Empty, &options, |_, _| ())).expect("opened");
    let inner = &shield.inner;
    let keys: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let count = || shield.count().expect("it counts");
    // Until it was caught in the middle, which it is at once unless this thread sleeps.
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < DEADLINE, "never caught in the middle");
        inner.sidecar.added_many(&keys).expect("added");
        let before = count();
        let resync = runtime.spawn({
            let inner = Arc::clone(inner);
            async move { inner.resync(|_, _| ()).await }
        });
        wait_until("it forgets", || count() < before);
        // It cannot go on while this is held.
        let held = inner.changes.lock();
        if count() > 0 {
            resync.abort();
            // Its future is gone, and waited for nothing.
            let gone = runtime.block_on(async { timeout(DEADLINE, resync).await });
            assert!(gone.expect("it waits for nothing").is_err_and(|error| error.is_cancelled()));
            assert!(inner.resyncing.try_lock().is_err(), "another one could begin");
            assert!(held.is_resyncing(), "what is added could be forgotten");
            break;
        }
        drop(held);
        runtime.block_on(resync).expect("no panic").expect("resynced");
    }
    wait_until("all is forgotten", || count() == 0);
    wait_until("it is over", || inner.resyncing.try_lock().is_ok());
    assert!(!inner.changes.lock().is_resyncing());
}
