//! [`Changes`]: which keys are being added, were lately, or are being removed.
//!
//! The filter may forget a digest only when no key of it can be in the store.
//! Between the store's answer "absent" and the filter's forgetting somebody may add
//! the key again, so whoever adds says so before the filter is told, and whoever
//! forgets asks here first. Who adds what is just being forgotten waits until it has
//! been; nobody else waits for anybody's disk.
//!
//! ```text
//! add     setting + 1, recent ─▶ not forgetting? filter ─▶ store ─▶ setting - 1
//!         (TS.ADDED: announced as well; the store is somebody else's business)
//! remove  removing ─▶ store ─▶ nobody added since? forgetting ─▶ filter forgets
//! resync  scan of the store ─▶ not seen, not recent? forgetting ─▶ filter forgets
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use twiceshy::Digest;

use super::seen::Seen;

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
        self.begin(digests, true).await
    }

    /// These are about to be added, to the filter first.
    pub(super) async fn add(self: &Arc<Self>, digests: Vec<Digest>) -> Adding {
        self.begin(digests, false).await
    }

    /// From here on nobody begins to forget them, so it is waited only for those who
    /// have begun.
    async fn begin(self: &Arc<Self>, digests: Vec<Digest>, announced: bool) -> Adding {
        self.lock().begin(&digests, announced);
        let adding = Adding { changes: Arc::clone(self), digests };
        loop {
            // It is told of all that is forgotten after this look.
            let forgotten = self.forgotten.notified();
            if !self.lock().is_forgetting(&adding.digests) {
                return adding;
            }
            forgotten.await;
        }
    }

    /// These are about to be removed, from the store first.
    pub(super) fn remove(self: &Arc<Self>, digests: Vec<Digest>) -> Removal {
        let mut state = self.lock();
        for &digest in &digests {
            let added = state.setting.contains_key(&digest);
            let removing = state.removing.entry(digest).or_default();
            removing.count += 1;
            removing.disturbed |= added;
        }
        drop(state);
        Removal { changes: Arc::clone(self), digests }
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
                && !state.seen.as_ref().is_some_and(|seen| seen.may_contain(*digest))
        });
        let forgetting = self.forgetting(&mut state, unseen);
        drop(state);
        forget(&forgetting.digests)
    }

    /// Nobody begins to add these until it is dropped.
    fn forgetting(&self, state: &mut State, digests: Vec<Digest>) -> Forgetting<'_> {
        for &digest in &digests {
            *state.forgetting.entry(digest).or_default() += 1;
        }
        Forgetting { changes: self, digests }
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

    fn begin(&mut self, digests: &[Digest], announced: bool) {
        self.turn();
        for &digest in digests {
            *self.setting.entry(digest).or_default() += 1;
            self.recent.insert(digest);
            if announced {
                self.announced.insert(digest);
            }
            if let Some(removing) = self.removing.get_mut(&digest) {
                removing.disturbed = true;
            }
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
fn release(counts: &mut HashMap<Digest, u32>, digest: &Digest) {
    if let Some(count) = counts.get_mut(digest) {
        *count -= 1;
        if *count == 0 {
            counts.remove(digest);
        }
    }
}

impl Drop for Forgetting<'_> {
    fn drop(&mut self) {
        let mut state = self.changes.lock();
        self.digests.iter().for_each(|digest| release(&mut state.forgetting, digest));
        drop(state);
        self.changes.forgotten.notify_waiters();
    }
}

impl Adding {
    /// Nobody knows whether the store has them, or will in a moment: a request without
    /// an answer may still be on its way.
    pub(super) fn may_come_late(&self) {
        let mut state = self.changes.lock();
        state.turn();
        state.announced.extend(&self.digests);
        state.recent.extend(&self.digests);
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        let mut state = self.changes.lock();
        self.digests.iter().for_each(|digest| release(&mut state.setting, digest));
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
        let mut state = self.changes.lock();
        let undisturbed = |digest: &Digest| {
            state.removing.get(digest).is_some_and(|removing| !removing.disturbed)
                && !state.announced.contains(digest)
                && !state.announced_earlier.contains(digest)
        };
        let digests: Vec<Digest> = self
            .digests
            .iter()
            .filter(|digest| gone(digest) && undisturbed(digest))
            .copied()
            .collect();
        let forgetting = self.changes.forgetting(&mut state, digests);
        drop(state);
        forget(&forgetting.digests)
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        let mut state = self.changes.lock();
        for digest in &self.digests {
            if let Some(removing) = state.removing.get_mut(digest) {
                removing.count -= 1;
                if removing.count == 0 {
                    state.removing.remove(digest);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use tokio::time::timeout;

    use super::*;

    fn digest(n: u64) -> Digest {
        Digest::new([n, n])
    }

    /// Nobody forgets: who adds does not wait.
    fn add(changes: &Arc<Changes>, n: u64) -> Adding {
        changes.add(vec![digest(n)]).now_or_never().expect("it is not being forgotten")
    }

    fn forgotten(removal: Removal) -> Vec<Digest> {
        removal.finish(|_| true, <[Digest]>::to_vec)
    }

    /// So much time has passed.
    fn pass(changes: &Changes, time: Duration) {
        let mut state = changes.lock();
        state.turned = state.turned.checked_sub(time).expect("a clock that is old enough");
    }

    #[test]
    fn a_removal_that_nobody_disturbs_is_forgotten() {
        let changes = Arc::new(Changes::default());
        drop(add(&changes, 1));
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), [digest(1)]);
        let state = changes.lock();
        assert!(state.removing.is_empty() && state.setting.is_empty());
        assert!(state.forgetting.is_empty());
    }

    #[test]
    fn what_is_added_around_a_removal_stays() {
        let changes = Arc::new(Changes::default());
        // Began before it and still goes on.
        let adding = add(&changes, 1);
        let removal = changes.remove(vec![digest(1), digest(2), digest(3)]);
        // Begins and ends within it.
        drop(add(&changes, 2));
        drop(adding);
        assert_eq!(forgotten(removal), [digest(3)]);
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), [digest(1)]);
    }

    /// Who adds a key that is being forgotten waits until it has been, or the filter
    /// would forget what it has just been told; who adds another waits for nothing.
    #[test]
    fn what_is_being_forgotten_is_added_afterwards() {
        let changes = Arc::new(Changes::default());
        let removal = changes.remove(vec![digest(1)]);
        let mut waiting = Box::pin(changes.add(vec![digest(2), digest(1)]));
        let forgotten = removal.finish(
            |_| true,
            |digests| {
                assert!(waiting.as_mut().now_or_never().is_none());
                assert!(changes.announce(vec![digest(1)]).now_or_never().is_none());
                // Nobody else begins to forget what somebody waits to add.
                assert_eq!(self::forgotten(changes.remove(vec![digest(1), digest(2)])), []);
                drop(add(&changes, 3));
                digests.to_vec()
            },
        );
        assert_eq!(forgotten, [digest(1)]);
        let adding = waiting.now_or_never().expect("it has been forgotten");
        assert_eq!(changes.lock().setting.len(), 2);
        changes.forget_unseen(vec![digest(1), digest(4)], |digests| {
            assert_eq!(digests, [digest(4)]);
            assert!(changes.add(vec![digest(4)]).now_or_never().is_none());
            drop(add(&changes, 1));
        });
        drop(adding);
        drop(add(&changes, 4));
        assert!(changes.lock().setting.is_empty());
    }

    /// Who waits is woken, also by a panic of who forgets.
    #[test]
    fn who_waits_for_what_is_being_forgotten_is_woken() {
        let changes = Arc::new(Changes::default());
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().build().expect("a runtime");
        for panics in [false, true] {
            let adding = std::thread::scope(|scope| {
                let (begun, has_begun) = std::sync::mpsc::channel();
                let (end, may_end) = std::sync::mpsc::channel::<()>();
                let removal = changes.remove(vec![digest(1)]);
                let forgetting = scope.spawn(move || {
                    removal.finish(
                        |_| true,
                        |_| {
                            begun.send(()).expect("somebody waits");
                            let _ = may_end.recv();
                            assert!(!panics, "on purpose");
                        },
                    );
                });
                has_begun.recv().expect("it begins");
                let adding = runtime.block_on(async {
                    let mut adding = Box::pin(changes.add(vec![digest(1)]));
                    assert!(adding.as_mut().now_or_never().is_none());
                    drop(end);
                    timeout(Duration::from_secs(60), adding).await.expect("it is woken")
                });
                assert_eq!(forgetting.join().is_err(), panics);
                adding
            });
            assert_eq!(changes.lock().setting.len(), 1);
            drop(adding);
        }
    }

    /// Somebody says that it will store a key, and somebody else that it has removed
    /// it: the store may have it in a moment.
    #[test]
    fn what_is_announced_is_not_forgotten_before_it_can_be_there() {
        let changes = Arc::new(Changes::default());
        let announce = |n| drop(changes.announce(vec![digest(n)]).now_or_never().expect("at once"));
        announce(1);
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), []);
        // One turn later it may still be a moment old.
        pass(&changes, GRACE + Duration::from_secs(1));
        announce(2);
        assert_eq!(forgotten(changes.remove(vec![digest(1), digest(2)])), []);
        pass(&changes, GRACE + Duration::from_secs(1));
        drop(add(&changes, 3));
        assert_eq!(forgotten(changes.remove(vec![digest(1), digest(2)])), [digest(1)]);
        pass(&changes, 2 * GRACE + Duration::from_secs(1));
        drop(add(&changes, 4));
        assert_eq!(forgotten(changes.remove(vec![digest(2)])), [digest(2)]);
    }

    /// A SET whose answer never came may reach the store after the DEL that follows.
    #[test]
    fn what_may_come_late_is_not_forgotten_for_a_while() {
        let changes = Arc::new(Changes::default());
        let adding = add(&changes, 1);
        adding.may_come_late();
        drop(adding);
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), []);
        pass(&changes, 2 * GRACE + Duration::from_secs(1));
        drop(add(&changes, 2));
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), [digest(1)]);
        // Nor by a resync, however long the SET took.
        let adding = add(&changes, 3);
        pass(&changes, 3 * GRACE);
        adding.may_come_late();
        drop(adding);
        changes.begin_resync(Arc::new(Seen::new(0, 1)));
        let unseen = vec![digest(3), digest(4)];
        assert_eq!(changes.forget_unseen(unseen, <[Digest]>::to_vec), [digest(4)]);
    }

    /// It began long before the resync, and ends after the scan has passed its place.
    #[test]
    fn a_resync_keeps_what_was_still_being_added_when_it_began() {
        let changes = Arc::new(Changes::default());
        let adding = add(&changes, 1);
        pass(&changes, 3 * GRACE);
        changes.begin_resync(Arc::new(Seen::new(0, 1)));
        drop(adding);
        let unseen = vec![digest(1), digest(2)];
        assert_eq!(changes.forget_unseen(unseen, <[Digest]>::to_vec), [digest(2)]);
    }

    #[test]
    fn a_removal_beside_another_one_is_disturbed_as_well() {
        let changes = Arc::new(Changes::default());
        let first = changes.remove(vec![digest(1)]);
        drop(add(&changes, 1));
        let second = changes.remove(vec![digest(1)]);
        assert_eq!(forgotten(first), []);
        assert_eq!(forgotten(second), []);
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), [digest(1)]);
    }

    /// However long it takes, and whatever is still remembered as recent.
    #[test]
    fn a_resync_keeps_what_was_added_since_it_began_or_shortly_before() {
        let changes = Arc::new(Changes::default());
        let unseen = |numbers: &[u64]| {
            let digests = numbers.iter().copied().map(digest).collect();
            changes.forget_unseen(digests, <[Digest]>::to_vec)
        };
        let turn = GRACE + Duration::from_secs(1);
        drop(add(&changes, 1));
        pass(&changes, turn);
        drop(add(&changes, 2));
        changes.begin_resync(Arc::new(Seen::new(0, 1)));
        for n in 3..10 {
            pass(&changes, turn);
            drop(add(&changes, n));
        }
        pass(&changes, 10 * GRACE);
        drop(add(&changes, 10));
        assert_eq!(unseen(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]), [digest(11)]);
        // In no more memory than the resync has anyway.
        {
            let state = changes.lock();
            assert_eq!((state.recent.len(), state.earlier.len()), (1, 0), "the others are old");
        }
        changes.end_resync();
        // For the next one they are what they are.
        assert_eq!(unseen(&[1, 9, 10]), [digest(1), digest(9)]);
        pass(&changes, turn);
        drop(add(&changes, 12));
        assert_eq!(unseen(&[10, 12]), []);
        pass(&changes, turn);
        drop(add(&changes, 13));
        assert_eq!(unseen(&[10, 12, 13]), [digest(10)]);
        pass(&changes, 2 * turn);
        drop(add(&changes, 14));
        assert_eq!(unseen(&[12, 13, 14]), [digest(12), digest(13)]);
    }
}
