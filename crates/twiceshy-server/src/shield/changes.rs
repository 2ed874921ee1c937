//! [`Changes`]: which keys are being added, were lately, or are being removed.
//!
//! The filter may forget a digest only when no key of it can be in the store.
//! Between the store's answer "absent" and the filter's forgetting, a client may add the
//! key again. So every addition is noted here before the filter is told, and the filter
//! forgets a digest only after a look at these notes. An addition of a digest that is just
//! being forgotten waits for that one write; nothing else waits for a disk.
//!
//! ```text
//! add     setting + 1, recent ─▶ not forgetting? filter ─▶ store ─▶ setting - 1
//!         (TS.ADDED: announced as well; the client writes to the store)
//! remove  removing ─▶ store ─▶ nobody added since? forgetting ─▶ filter forgets
//! resync  scan of the store ─▶ not seen, not recent? forgetting ─▶ filter forgets
//! stream  streamed ─▶ lookups know ─▶ filter ─▶ the disk has it, and everybody can see it
//! ```
//!
//! A log tells of an insertion before anybody can see it in the store: that the store does not
//! show a key means nothing as long as it is `streamed`. Of removals, only the log's own pass.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::task::yield_now;
use twiceshy::Digest;

use super::seen::Seen;
use crate::turns::{AT_ONCE, in_turns};

/// How long after TS.ADDED the store has to have the key: a resync that does not
/// find it forgets it no sooner.
pub(crate) const GRACE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Changes {
    /// Never held over anything that waits.
    state: Mutex<State>,
    /// Tells who waits that some digests have been forgotten.
    forgotten: Notify,
}

pub(super) struct State {
    /// How many are adding each.
    setting: HashMap<Digest, u32>,
    removing: HashMap<Digest, Removing>,
    /// How many are making the filter forget each.
    forgetting: HashMap<Digest, u32>,
    /// Digests that were added since `turned`, none of them later than
    /// [`GRACE`] after it, and those of the turn before.
    recent: HashSet<Digest>,
    earlier: HashSet<Digest>,
    /// Those of them that somebody else is about to store, or has: TS.ADDED. That the
    /// store does not have them yet means nothing.
    announced: HashSet<Digest>,
    announced_earlier: HashSet<Digest>,
    /// Digests that the store's log has inserted: once until the filter has them on disk, and
    /// once until every session can see them.
    streamed: HashMap<Digest, u32>,
    /// While the filter is built anew, no answer of the store counts.
    building: bool,
    turned: Instant,
    /// Of the resync that goes on. What is no longer recent goes there, so that it
    /// is kept however long the resync takes, and in no more memory.
    seen: Option<Arc<Seen>>,
}

impl Default for State {
    fn default() -> Self {
        State {
            setting: HashMap::new(),
            removing: HashMap::new(),
            forgetting: HashMap::new(),
            recent: HashSet::new(),
            earlier: HashSet::new(),
            announced: HashSet::new(),
            announced_earlier: HashSet::new(),
            streamed: HashMap::new(),
            building: false,
            turned: Instant::now(),
            seen: None,
        }
    }
}

#[derive(Default)]
struct Removing {
    /// How many are removing it.
    count: u32,
    /// Whether somebody was adding it meanwhile.
    disturbed: bool,
}

/// How a key that is being added comes into the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// We write it there next.
    Us,
    /// A client will, or has: TS.ADDED.
    Client,
    /// It was there when the store told of it.
    Store,
}

/// Keys that are being added, until it is dropped.
pub(super) struct Adding {
    changes: Arc<Changes>,
    digests: Vec<Digest>,
}

/// Keys that are being removed, until it is dropped.
pub(super) struct Removal {
    changes: Arc<Changes>,
    digests: Vec<Digest>,
}

/// Digests that the filter is forgetting, until it is dropped.
struct Forgetting<'a> {
    changes: &'a Changes,
    digests: Vec<Digest>,
}

impl Changes {
    /// These are about to be added, to the filter first; by whom else than us will
    /// not be seen.
    pub(super) async fn announce(self: &Arc<Self>, digests: Vec<Digest>) -> Adding {
        self.begin(digests, By::Client).await
    }

    /// These are about to be added, to the filter first.
    pub(super) async fn add(self: &Arc<Self>, digests: Vec<Digest>) -> Adding {
        self.begin(digests, By::Us).await
    }

    /// The store has these, and they are about to be added to the filter.
    pub(super) async fn hear(self: &Arc<Self>, digests: Vec<Digest>) -> Adding {
        self.begin(digests, By::Store).await
    }

    /// From here on nobody begins to forget them, so it is waited only for those who
    /// have begun.
    async fn begin(self: &Arc<Self>, digests: Vec<Digest>, by: By) -> Adding {
        let mut adding = Adding { changes: Arc::clone(self), digests: Vec::new() };
        in_turns(&digests, |some| {
            self.lock().begin(some, by);
            adding.digests.extend_from_slice(some);
        })
        .await;
        self.not_forgetting(&digests).await;
        adding
    }

    /// Waits until none of them is being forgotten.
    pub(super) async fn not_forgetting(&self, digests: &[Digest]) {
        loop {
            // It is told of all that is forgotten after this look.
            let forgotten = self.forgotten.notified();
            let mut forgetting = false;
            in_turns(digests, |some| forgetting |= self.lock().is_forgetting(some)).await;
            if !forgetting {
                return;
            }
            forgotten.await;
        }
    }

    /// The store's log has inserted these. [`Changes::streamed`] is called twice for each.
    pub(super) fn stream(&self, digests: &[Digest]) {
        for some in digests.chunks(AT_ONCE) {
            let mut state = self.lock();
            for &digest in some {
                *state.streamed.entry(digest).or_default() += 2;
                if let Some(removing) = state.removing.get_mut(&digest) {
                    removing.disturbed = true;
                }
            }
        }
    }

    /// The filter has them on disk, or every session can see them.
    pub(super) fn streamed(&self, digests: &[Digest]) {
        for some in digests.chunks(AT_ONCE) {
            let mut state = self.lock();
            some.iter().for_each(|digest| release(&mut state.streamed, digest));
        }
    }

    /// The filter is built anew, and the log read anew: removals that began before the end of it
    /// forget nothing. Waits for what is being forgotten.
    pub(super) async fn begin_build(&self) {
        {
            let mut state = self.lock();
            state.building = true;
            state.streamed.clear();
            state.removing.values_mut().for_each(|removing| removing.disturbed = true);
        }
        loop {
            let forgotten = self.forgotten.notified();
            if self.lock().forgetting.is_empty() {
                return;
            }
            forgotten.await;
        }
    }

    /// It is built.
    pub(super) fn end_build(&self) {
        self.lock().building = false;
    }

    /// Calls `forget` for those of the digests that the store's log has removed, unless a client
    /// is adding them or has announced them lately.
    pub(super) fn forget_streamed<T>(
        &self,
        mut removed: Vec<Digest>,
        forget: impl FnOnce(&[Digest]) -> T,
    ) -> T {
        let mut state = self.lock();
        removed.retain(|digest| !state.setting.contains_key(digest) && !state.is_announced(digest));
        state.forget(&removed);
        let forgetting = Forgetting { changes: self, digests: removed };
        drop(state);
        forget(&forgetting.digests)
    }

    /// These are about to be removed, from the store first.
    pub(super) async fn remove(self: &Arc<Self>, digests: Vec<Digest>) -> Removal {
        let mut removal = Removal { changes: Arc::clone(self), digests: Vec::new() };
        in_turns(&digests, |some| {
            self.lock().remove(some);
            removal.digests.extend_from_slice(some);
        })
        .await;
        removal
    }

    /// A scan of the store is about to begin, and what it sees will be in `seen`.
    pub(super) fn begin_resync(&self, seen: Arc<Seen>) {
        let mut state = self.lock();
        state.turn();
        // Who is still at it may be done before the resync forgets, and after the
        // scan has passed.
        let State { setting, recent, .. } = &mut *state;
        recent.extend(setting.keys());
        state.seen = Some(seen);
    }

    /// It is over.
    pub(super) fn end_resync(&self) {
        self.lock().seen = None;
    }

    /// Calls `forget` for those that a resync did not see and nobody added since it
    /// began, or shortly before.
    pub(super) fn forget_unseen<T>(
        &self,
        mut unseen: Vec<Digest>,
        forget: impl FnOnce(&[Digest]) -> T,
    ) -> T {
        let mut state = self.lock();
        unseen.retain(|digest| {
            !state.recent.contains(digest)
                && !state.earlier.contains(digest)
                && !state.setting.contains_key(digest)
                && !state.streamed.contains_key(digest)
                && !state.seen.as_ref().is_some_and(|seen| seen.contains(*digest))
        });
        state.forget(&unseen);
        let forgetting = Forgetting { changes: self, digests: unseen };
        drop(state);
        forget(&forgetting.digests)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    #[cfg(test)]
    pub(super) fn is_resyncing(&self) -> bool {
        self.seen.is_some()
    }

    /// Whether one of them is just being forgotten.
    fn is_forgetting(&self, digests: &[Digest]) -> bool {
        digests.iter().any(|digest| self.forgetting.contains_key(digest))
    }

    fn is_announced(&self, digest: &Digest) -> bool {
        self.announced.contains(digest) || self.announced_earlier.contains(digest)
    }

    fn begin(&mut self, digests: &[Digest], by: By) {
        self.turn();
        for &digest in digests {
            *self.setting.entry(digest).or_default() += 1;
            match (by, &self.seen) {
                // A later scan sees it, if it is still there.
                (By::Store, None) => (),
                (By::Store, Some(seen)) => seen.insert(digest),
                (By::Us | By::Client, _) => {
                    self.recent.insert(digest);
                }
            }
            if by == By::Client {
                self.announced.insert(digest);
            }
            if let Some(removing) = self.removing.get_mut(&digest) {
                removing.disturbed = true;
            }
        }
    }

    /// Nobody begins to add these until [`Forgetting`] is dropped.
    fn forget(&mut self, digests: &[Digest]) {
        for &digest in digests {
            *self.forgetting.entry(digest).or_default() += 1;
        }
    }

    fn added(&mut self, digests: &[Digest]) {
        digests.iter().for_each(|digest| release(&mut self.setting, digest));
    }

    fn remove(&mut self, digests: &[Digest]) {
        for &digest in digests {
            let disturbed = self.building || self.setting.contains_key(&digest);
            let removing = self.removing.entry(digest).or_default();
            removing.count += 1;
            removing.disturbed |= disturbed;
        }
    }

    fn turn(&mut self) {
        let age = self.turned.elapsed();
        if age <= GRACE {
            return;
        }
        let mut old = std::mem::replace(&mut self.earlier, std::mem::take(&mut self.recent));
        self.announced_earlier = std::mem::take(&mut self.announced);
        // After twice the time nothing of it is recent.
        if age > 2 * GRACE {
            old.extend(self.earlier.drain());
            self.announced_earlier.clear();
        }
        if let Some(seen) = &self.seen {
            old.into_iter().for_each(|digest| seen.insert(digest));
        }
        self.turned = Instant::now();
    }
}

/// One less of a digest; the last takes it away.
pub(super) fn release(counts: &mut HashMap<Digest, u32>, digest: &Digest) {
    if let Some(count) = counts.get_mut(digest) {
        *count -= 1;
        if *count == 0 {
            counts.remove(digest);
        }
    }
}

impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        for some in self.digests.chunks(AT_ONCE) {
            let mut state = self.changes.lock();
            some.iter().for_each(|digest| release(&mut state.forgetting, digest));
        }
        self.changes.forgotten.notify_waiters();
    }
}

impl Adding {
    /// Nobody knows whether the store has them, or will in a moment: a request without
    /// an answer may still be on its way.
    pub(super) async fn may_come_late(&self) {
        in_turns(&self.digests, |some| {
            let mut state = self.changes.lock();
            state.turn();
            state.announced.extend(some);
            state.recent.extend(some);
        })
        .await;
    }

    /// Drops it, in turns with others.
    pub(super) async fn finish(mut self) {
        while self.digests.len() > AT_ONCE {
            let rest = self.digests.len() - AT_ONCE;
            self.changes.lock().added(&self.digests[rest..]);
            self.digests.truncate(rest);
            yield_now().await;
        }
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        self.digests.chunks(AT_ONCE).for_each(|some| self.changes.lock().added(some));
    }
}

impl Removal {
    /// Calls `forget` for those of the digests that the store has no more, and that
    /// nobody added meanwhile or announced lately.
    pub(super) fn finish<T>(
        self,
        gone: impl Fn(&Digest) -> bool,
        forget: impl FnOnce(&[Digest]) -> T,
    ) -> T {
        let mut forgetting = Forgetting { changes: &self.changes, digests: Vec::new() };
        for some in self.digests.chunks(AT_ONCE) {
            let mut state = self.changes.lock();
            let undisturbed = |digest: &Digest| {
                state.removing.get(digest).is_some_and(|removing| !removing.disturbed)
                    && !state.streamed.contains_key(digest)
                    && !state.is_announced(digest)
            };
            let forget = |digest: &&Digest| gone(digest) && undisturbed(digest);
            let some: Vec<Digest> = some.iter().filter(forget).copied().collect();
            state.forget(&some);
            forgetting.digests.extend(some);
        }
        forget(&forgetting.digests)
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        for some in self.digests.chunks(AT_ONCE) {
            let mut state = self.changes.lock();
            for digest in some {
                if let Some(removing) = state.removing.get_mut(digest) {
                    removing.count -= 1;
                    if removing.count == 0 {
                        state.removing.remove(digest);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
