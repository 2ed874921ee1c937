//! What the store's log says, in the filter: in memory at once, on disk soon.
//!
//! ```text
//! log ──▶ Fresh, which lookups ask before the filter       the log is told: applied
//!          └──▶ filter and disk, one write for all that     the log is told: flushed
//!               has come meanwhile ──▶ out of Fresh
//! ```
//!
//! A key that was inserted is in [`Fresh`] before the log hears that it was applied, and leaves
//! it after the filter has it: at no moment it is in neither. A key that was deleted stays in the
//! filter until the store shows its deletion ([`Leaving`]).
//!
//! A store can be put back to an older state, and write another log from there on. What the filter
//! has forgotten must then be known again. So the disk has the last [`Commit`] that was read, and
//! the log is resumed from an earlier position, which was confirmed to the store: the same commit
//! has to come again, at the same place and from the same time.

use std::collections::HashMap;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use twiceshy::Digest;
use twiceshy::guard::Mark;

use super::Inner;
use super::fresh::Fresh;
use super::leaving::Leaving;
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

/// The end of a transaction in the log. In another log one may end at the same position, but not
/// one of the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) end: u64,
    pub(crate) time: u64,
}

/// Nothing can prove that a log is the one that was read before.
pub(crate) struct Unprovable;

/// Names of what the sidecar's disk has of a stream.
const POSITION: &str = "position";
const COMMIT: &str = "commit";
const TIME: &str = "time";
const FORGOTTEN: &str = "forgotten";

/// What was read of the log.
pub(crate) struct Stream {
    fresh: Fresh,
    leaving: Leaving,
    queue: Mutex<Queue>,
    /// Wakes the writer.
    arrived: Notify,
    /// Up to where lookups know everything.
    applied: watch::Sender<u64>,
    /// Up to where the disk does.
    flushed: watch::Sender<u64>,
    /// Transactions whose insertions nobody may see yet.
    unseen: Mutex<Vec<(u32, Vec<Digest>)>>,
    /// Keys were forgotten because the store did not show them; its log ended before this.
    forgotten: AtomicU64,
    /// Held while `forgotten` goes to disk.
    forgetting: Mutex<()>,
}

#[derive(Default)]
struct Queue {
    events: Vec<Event>,
    /// Up to where the log was read; 0 if the filter is not known to be whole.
    position: u64,
    /// The last transaction that is complete in `events`.
    last: Commit,
    /// The end of the last transaction that is on disk.
    written: u64,
}

/// Events that may wait to be written; the log is read no further meanwhile.
const MOST_EVENTS: usize = 1 << 20;

impl Default for Stream {
    fn default() -> Self {
        Stream {
            fresh: Fresh::default(),
            leaving: Leaving::default(),
            queue: Mutex::default(),
            arrived: Notify::new(),
            applied: watch::Sender::new(0),
            flushed: watch::Sender::new(0),
            unseen: Mutex::default(),
            forgotten: AtomicU64::new(0),
            forgetting: Mutex::default(),
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

    /// Up to where the log was read; `None` if the filter is not known to be whole.
    pub(crate) fn position(&self) -> Option<u64> {
        Some(self.queue().position).filter(|position| *position > 0)
    }

    /// Where the log ended at least.
    pub(crate) fn end(&self) -> u64 {
        self.queue().position.max(self.forgotten())
    }

    /// Whether the log has nothing yet that proves what was forgotten.
    pub(crate) fn is_unproved(&self) -> bool {
        self.forgotten() > self.queue().last.end
    }

    fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Relaxed)
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
    /// Begins where the disk is.
    pub(crate) fn recall_stream(&self) -> Result<(), Failure> {
        let mark = |name| Ok::<_, Failure>(self.sidecar.mark(name)?.unwrap_or(0));
        let position = mark(POSITION)?;
        let last = Commit { end: mark(COMMIT)?, time: mark(TIME)? };
        *self.stream.queue() = Queue { events: Vec::new(), position, last, written: last.end };
        self.stream.forgotten.store(mark(FORGOTTEN)?, Ordering::Relaxed);
        self.stream.applied.send_replace(position);
        self.stream.flushed.send_replace(position);
        Ok(())
    }

    /// The filter is whole, and as old as this position; 0: it is not.
    pub(crate) fn begin_stream(&self, position: u64) -> Result<(), Failure> {
        let marks = [(POSITION, position), (COMMIT, 0), (TIME, 0), (FORGOTTEN, 0)];
        self.sidecar.follow(&[], &[], &marks)?;
        self.recall_stream()
    }

    /// The log is read again, from a position on that was confirmed when the disk had everything
    /// before it. Returns the transaction that has to come again, if there is one: without it, this
    /// is not the log that was read before.
    pub(crate) async fn resume_stream(&self, confirmed: u64) -> Result<Option<Commit>, Unprovable> {
        let (last, forgotten) = (self.stream.queue().last, self.stream.forgotten());
        if confirmed >= last.end.max(forgotten) {
            self.rewind_stream(confirmed).await;
            Ok(None)
        } else if last.end >= forgotten {
            Ok(Some(last))
        } else {
            Err(Unprovable)
        }
    }

    /// All that was read is known to be before this position, from which the log goes on.
    pub(crate) async fn rewind_stream(&self, position: u64) {
        // The writer would report what it has just written.
        let _turn = self.resyncing.lock().await;
        self.stream.queue().position = position;
        self.stream.applied.send_replace(position);
        self.stream.flushed.send_modify(|flushed| *flushed = position.min(*flushed));
    }

    /// The filter is not known to be whole.
    pub(crate) fn doubt_stream(&self) {
        *self.stream.queue() = Queue::default();
    }

    /// Forgets what was read, because the filter is built anew. Nobody writes it meanwhile.
    pub(crate) async fn begin_build(&self) {
        self.doubt_stream();
        self.stream.forgotten.store(0, Ordering::Relaxed);
        self.stream.applied.send_replace(0);
        self.stream.flushed.send_replace(0);
        self.stream.fresh.clear();
        self.stream.leaving.clear();
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
    pub(crate) fn stream(&self, xid: u32, events: &[Event], commit: Option<Commit>) {
        let added = added(events);
        if !added.is_empty() {
            self.changes.stream(&added);
            self.stream.fresh.insert(&added);
            self.stream.unseen().push((xid, added));
        }
        let now = self.stream.leaving.hold_back(xid, events);
        {
            let mut queue = self.stream.queue();
            queue.events.extend(now);
            if let Some(commit) = commit {
                queue.last = commit;
            }
        }
        self.stream.arrived.notify_one();
        if let Some(commit) = commit {
            self.reached(commit.end);
        }
    }

    /// Events that have been read before. It may be that nobody can see the insertions yet.
    pub(crate) fn stream_again(&self, xid: u32, events: &[Event]) {
        let added = added(events);
        if !added.is_empty() {
            self.changes.stream(&added);
            self.changes.streamed(&added);
            self.stream.unseen().push((xid, added));
        }
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

    /// Other sessions see what those transactions did that are `over`. Until then, that the store
    /// does not show a key that they inserted means nothing, and keys that they deleted are there.
    pub(crate) fn visible(&self, over: impl Fn(u32) -> bool) {
        let left = self.stream.leaving.released(&over);
        if !left.is_empty() {
            self.stream.queue().events.extend(left);
            self.stream.arrived.notify_one();
        }
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

    /// Forgets keys that the store did not show, and whose log ended at or before `end` then. From
    /// now on the filter fits only a log that has all that this one had before its end.
    pub(super) fn forget_absent(
        &self,
        digests: &[Digest],
        end: Option<u64>,
    ) -> Result<usize, twiceshy::guard::Error> {
        match end.filter(|_| !digests.is_empty()) {
            Some(end) => self.forgetting(end, |mark| self.sidecar.removed_marked(digests, &[mark])),
            None => self.sidecar.removed_many(digests),
        }
    }

    /// Calls `write` with the mark that has to go to disk when something is forgotten that the log
    /// up to `end` explains.
    fn forgetting<T>(&self, end: u64, write: impl FnOnce(Mark) -> T) -> T {
        let Stream { forgotten, forgetting, .. } = &self.stream;
        let _turn = forgetting.lock().unwrap_or_else(PoisonError::into_inner);
        let end = end.max(forgotten.fetch_max(end, Ordering::Relaxed));
        write((FORGOTTEN, end))
    }

    /// Writes what has come, again and again, until the disk fails. What comes meanwhile is in
    /// the next write. If nothing is to be written but the position, it waits for `pause` first.
    pub(crate) async fn write_stream(self: &Arc<Self>, pause: Duration) -> Failure {
        loop {
            self.stream.arrived.notified().await;
            let urgent = {
                let queue = self.stream.queue();
                !queue.events.is_empty() || queue.written < self.stream.forgotten()
            };
            if !urgent && !pause.is_zero() {
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
        let (events, position, last) = {
            let mut queue = self.stream.queue();
            (mem::take(&mut queue.events), queue.position, queue.last)
        };
        if events.is_empty() && position == *self.stream.flushed.borrow() {
            return Ok(());
        }
        let Batch { cleared, inserted, added, removed } = Batch::of(&events);
        self.changes.not_forgetting(&added).await;
        let inner = Arc::clone(self);
        let write = move || {
            let Inner { changes, sidecar, .. } = &*inner;
            if cleared {
                // These are many writes, of which some may be lost.
                inner.forgetting(last.end, |mark| sidecar.follow(&[], &[], &[mark]))?;
                inner.forget_all()?;
            }
            let marks = [(POSITION, position), (COMMIT, last.end), (TIME, last.time)];
            let write = |removed: &[Digest]| sidecar.follow(&added, removed, &marks);
            changes.forget_streamed(removed, write).map_err(Failure::from)
        };
        let done = blocking(move || Ok((Some(turn), write()))).await;
        let (_turn, written) = done.unwrap_or_else(|panicked| (None, Err(panicked)));
        if let Err(failure) = written {
            // For the next attempt; a build that waits for its turn drops them.
            self.stream.queue().events.splice(0..0, events);
            return Err(failure);
        }
        self.stream.fresh.remove(&inserted);
        self.changes.streamed(&inserted);
        self.stream.queue().written = last.end;
        self.stream.flushed.send_replace(position);
        Ok(())
    }
}

fn added(events: &[Event]) -> Vec<Digest> {
    let added = |event: &Event| match event {
        Event::Added(digest) => Some(*digest),
        Event::Removed(_) | Event::Cleared => None,
    };
    events.iter().filter_map(added).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: u64) -> Digest {
        Digest::new([n, n])
    }

    #[test]
    fn lookups_know_a_key_before_its_position_is_applied() {
        const KEYS: u32 = 20_000;
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let directory = tempfile::TempDir::new().expect("a directory");
        let options = crate::ShieldOptions {
            directory: directory.path().into(),
            resync: None,
            resync_at_start: true,
        };
        let open = crate::Shield::open(crate::shield::tests::Empty, &options, |_, _| ());
        let inner = Arc::clone(&runtime.block_on(open).expect("opened").inner);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..=KEYS {
                    let commit = Commit { end: n.into(), time: 0 };
                    inner.stream(n, &[Event::Added(digest(n.into()))], Some(commit));
                }
            });
            let applied = inner.stream.applied();
            let mut at = 0;
            while at < u64::from(KEYS) {
                at = *applied.borrow();
                assert!(at == 0 || inner.stream.contains(|| digest(at)), "{at}");
            }
        });
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
}
