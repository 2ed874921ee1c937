//! What the store's log says, in the filter: in memory at once, on disk soon.
//!
//! ```text
//! log ──▶ Fresh, which lookups ask before the filter       the log is told: applied
//!          └──▶ filter and disk, one write for all that     the log is told: flushed
//!               has come meanwhile ──▶ out of Fresh
//! ```
//!
//! A key that was inserted is in [`Fresh`] before the log hears that it was applied, and leaves
//! it after the filter has it: at no moment it is in neither. Deletions only ever wait.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use twiceshy::Digest;

use super::Inner;
use crate::backend::Failure;
use crate::blocking::blocking;
use crate::upstream::Upstream;

/// A change that the log reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Added(Digest),
    Removed(Digest),
    /// Every key.
    Cleared,
}

/// What was read of the log.
pub(crate) struct Stream {
    fresh: Fresh,
    queue: Mutex<Queue>,
    /// Wakes the writer.
    arrived: Notify,
    /// Up to where lookups know everything.
    applied: watch::Sender<u64>,
    /// Up to where the disk does.
    flushed: watch::Sender<u64>,
    /// Transactions whose insertions nobody may see yet.
    unseen: Mutex<Vec<(u32, Vec<Digest>)>>,
}

#[derive(Default)]
struct Queue {
    events: Vec<Event>,
    /// Of the last transaction that is complete in `events`.
    position: u64,
}

/// Events that may wait to be written; the log is read no further meanwhile.
const MOST_EVENTS: usize = 1 << 20;

impl Default for Stream {
    fn default() -> Self {
        Stream {
            fresh: Fresh::default(),
            queue: Mutex::default(),
            arrived: Notify::new(),
            applied: watch::Sender::new(0),
            flushed: watch::Sender::new(0),
            unseen: Mutex::default(),
        }
    }
}

impl Stream {
    /// Whether the log has inserted a digest that the filter may not have yet. Ask this first.
    pub(super) fn contains(&self, digest: impl FnOnce() -> Digest) -> bool {
        self.fresh.contains(digest)
    }

    /// Up to where lookups know everything.
    pub(crate) fn applied(&self) -> watch::Receiver<u64> {
        self.applied.subscribe()
    }

    /// Up to where the disk does.
    pub(crate) fn flushed(&self) -> watch::Receiver<u64> {
        self.flushed.subscribe()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        // Every change of it is whole.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unseen(&self) -> MutexGuard<'_, Vec<(u32, Vec<Digest>)>> {
        self.unseen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<U: Upstream> Inner<U> {
    /// Begins at a position that the disk has, or later if more has been applied.
    pub(crate) fn begin_stream(&self, position: u64) {
        let mut queue = self.stream.queue();
        queue.position = queue.position.max(position);
        forward(&self.stream.applied, position);
        forward(&self.stream.flushed, position);
    }

    /// Forgets what was read, because the filter is built anew. Nobody writes it meanwhile.
    pub(crate) async fn begin_build(&self) {
        *self.stream.queue() = Queue::default();
        self.stream.applied.send_replace(0);
        self.stream.flushed.send_replace(0);
        self.stream.fresh.clear();
        self.stream.unseen().clear();
        self.changes.begin_build().await;
    }

    /// It is built.
    pub(crate) fn end_build(&self) {
        self.changes.end_build();
    }

    /// Events of one transaction, in their order. When this returns, lookups know what it inserted.
    /// Insertions may come in pieces, all else only when the transaction is complete: a key that
    /// it removes and inserts again was never gone.
    pub(crate) fn stream(&self, xid: u32, events: &[Event]) {
        let added = |event: &Event| match event {
            Event::Added(digest) => Some(*digest),
            Event::Removed(_) | Event::Cleared => None,
        };
        let added: Vec<Digest> = events.iter().filter_map(added).collect();
        if !added.is_empty() {
            self.changes.stream(&added);
            self.stream.fresh.insert(&added);
            self.stream.unseen().push((xid, added));
        }
        self.stream.queue().events.extend_from_slice(events);
        self.stream.arrived.notify_one();
    }

    /// Everything before this position has been given to [`Inner::stream`].
    pub(crate) fn reached(&self, position: u64) {
        {
            let mut queue = self.stream.queue();
            queue.position = queue.position.max(position);
        }
        if forward(&self.stream.applied, position) {
            self.stream.arrived.notify_one();
        }
    }

    /// Waits while too much waits to be written.
    pub(crate) async fn room_in_stream(&self) {
        let mut flushed = self.stream.flushed.subscribe();
        while self.stream.queue().events.len() > MOST_EVENTS {
            // The sender is ours.
            let _ = flushed.changed().await;
        }
    }

    /// Other sessions see the insertions of those transactions that are `over`. Until then, that
    /// the store does not show such a key means nothing.
    pub(crate) fn visible(&self, over: impl Fn(u32) -> bool) {
        let mut visible = Vec::new();
        self.stream.unseen().retain_mut(|(xid, digests)| {
            let over = over(*xid);
            if over {
                visible.append(digests);
            }
            !over
        });
        self.changes.streamed(&visible);
    }

    /// Writes what has come, again and again, until the disk fails. What comes meanwhile is in
    /// the next write. If nothing is to be written but the position, it waits for `pause` first.
    pub(crate) async fn write_stream(self: &Arc<Self>, pause: Duration) -> Failure {
        loop {
            self.stream.arrived.notified().await;
            if self.stream.queue().events.is_empty() && !pause.is_zero() {
                // Events that come end the pause.
                let _ = timeout(pause, async {
                    while self.stream.queue().events.is_empty() {
                        self.stream.arrived.notified().await;
                    }
                })
                .await;
            }
            if let Err(failure) = self.write_queue().await {
                return failure;
            }
        }
    }

    /// Writes what has come so far.
    async fn write_queue(self: &Arc<Self>) -> Result<(), Failure> {
        // Until the disk is done with it, also if nobody waits for this any more.
        let turn = Arc::clone(&self.resyncing).lock_owned().await;
        let (events, position) = {
            let mut queue = self.stream.queue();
            (mem::take(&mut queue.events), queue.position)
        };
        if events.is_empty() && position == *self.stream.flushed.borrow() {
            return Ok(());
        }
        let Batch { cleared, inserted, added, removed } = Batch::of(&events);
        self.changes.not_forgetting(&added).await;
        let inner = Arc::clone(self);
        let written = blocking(move || {
            let Inner { changes, sidecar, .. } = &*inner;
            if cleared {
                inner.forget_all()?;
            }
            let write = |removed: &[Digest]| sidecar.follow(&added, removed, position);
            changes.forget_streamed(removed, write)?;
            drop(turn);
            Ok(())
        });
        if let Err(failure) = written.await {
            // For the next attempt.
            self.stream.queue().events.splice(0..0, events);
            return Err(failure);
        }
        self.stream.fresh.remove(&inserted);
        self.changes.streamed(&inserted);
        self.stream.flushed.send_replace(position);
        Ok(())
    }
}

/// Moves a position forward; whether it was before this.
fn forward(sender: &watch::Sender<u64>, position: u64) -> bool {
    sender.send_if_modified(|at| {
        let before = *at < position;
        *at = position.max(*at);
        before
    })
}

/// What several events amount to.
struct Batch {
    /// Whether all earlier keys are gone.
    cleared: bool,
    /// Every insertion, also of keys that are gone again.
    inserted: Vec<Digest>,
    /// What is there at the end.
    added: Vec<Digest>,
    /// What is not.
    removed: Vec<Digest>,
}

impl Batch {
    fn of(events: &[Event]) -> Self {
        let (mut cleared, mut inserted, mut last) = (false, Vec::new(), HashMap::new());
        for event in events {
            match *event {
                Event::Added(digest) => {
                    inserted.push(digest);
                    last.insert(digest, true);
                }
                Event::Removed(digest) => {
                    last.insert(digest, false);
                }
                Event::Cleared => {
                    cleared = true;
                    last.clear();
                }
            }
        }
        let (added, removed): (Vec<_>, Vec<_>) = last.into_iter().partition(|(_, there)| *there);
        let digests = |changes: Vec<(Digest, bool)>| changes.into_iter().map(|(digest, _)| digest);
        let (added, removed) = (digests(added).collect(), digests(removed).collect());
        Batch { cleared, inserted, added, removed }
    }
}

/// Digests that the log has inserted and the filter may not have yet, each as often as it was
/// inserted.
#[derive(Default)]
struct Fresh {
    counts: RwLock<HashMap<Digest, u32>>,
    /// Mostly zero, and then nobody takes the lock.
    len: AtomicUsize,
}

impl Fresh {
    fn contains(&self, digest: impl FnOnce() -> Digest) -> bool {
        self.len.load(Ordering::Acquire) > 0 && {
            let counts = self.counts.read().unwrap_or_else(PoisonError::into_inner);
            counts.contains_key(&digest())
        }
    }

    fn insert(&self, digests: &[Digest]) {
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        for &digest in digests {
            *counts.entry(digest).or_default() += 1;
        }
        self.len.store(counts.len(), Ordering::Release);
    }

    fn clear(&self) {
        self.counts.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.len.store(0, Ordering::Release);
    }

    fn remove(&self, digests: &[Digest]) {
        let mut counts = self.counts.write().unwrap_or_else(PoisonError::into_inner);
        digests.iter().for_each(|digest| super::changes::release(&mut counts, digest));
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
    fn a_batch_is_what_its_events_amount_to() {
        use Event::{Added, Cleared, Removed};
        let [a, b, c, d] = [1, 2, 3, 4].map(digest);
        let events =
            [Added(a), Removed(b), Cleared, Removed(c), Added(c), Added(d), Removed(d), Added(b)];
        let Batch { cleared, inserted, mut added, removed } = Batch::of(&events);
        added.sort_unstable();
        assert!(cleared);
        assert_eq!(inserted, [a, c, d, b]);
        assert_eq!((added, removed), (vec![b, c], vec![d]));
        let Batch { cleared, removed, .. } = Batch::of(&[Added(a), Removed(a)]);
        assert_eq!((cleared, removed), (false, vec![a]));
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
