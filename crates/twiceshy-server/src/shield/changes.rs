//! [`Changes`]: which keys are being added, were lately, or are being removed.
//!
//! The filter may forget a digest only when no key of it can be in the store.
//! Between the store's answer "absent" and the filter's forgetting somebody may add
//! the key again, so whoever adds says so before the filter is told, and whoever
//! forgets asks here first, with the lock held until the filter has forgotten.
//!
//! ```text
//! add     setting + 1, recent ─▶ filter ─▶ store ─▶ setting - 1
//!         (TS.ADDED: announced as well; the store is somebody else's business)
//! remove  removing ─▶ store ─▶ nobody added since? filter forgets
//! resync  scan of the store ─▶ not seen, not recent? filter forgets
//! ```

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use twiceshy::Digest;

/// How long after TS.ADDED the store has to have the key: a resync that does not
/// find it forgets it no sooner.
pub(crate) const GRACE: Duration = Duration::from_secs(60);

#[derive(Default)]
pub(super) struct Changes(Mutex<State>);

pub(super) struct State {
    /// How many are adding each.
    setting: HashMap<Digest, u32>,
    removing: HashMap<Digest, Removing>,
    /// Digests that were added since `turned`, none of them later than
    /// [`GRACE`] after it, and those of the turn before.
    recent: HashSet<Digest>,
    earlier: HashSet<Digest>,
    /// Those of them that somebody else is about to store, or has: TS.ADDED. That the
    /// store does not have them yet means nothing.
    announced: HashSet<Digest>,
    announced_earlier: HashSet<Digest>,
    turned: Instant,
    /// Whether a resync goes on: what was recent when it began stays so.
    resyncing: bool,
}

impl Default for State {
    fn default() -> Self {
        State {
            setting: HashMap::new(),
            removing: HashMap::new(),
            recent: HashSet::new(),
            earlier: HashSet::new(),
            announced: HashSet::new(),
            announced_earlier: HashSet::new(),
            turned: Instant::now(),
            resyncing: false,
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

impl Changes {
    /// These are about to be added, to the filter first; by whom else than us will
    /// not be seen.
    pub(super) fn announce(self: &Arc<Self>, digests: Vec<Digest>) -> Adding {
        let mut state = self.lock();
        state.turn();
        state.announced.extend(&digests);
        drop(state);
        self.add(digests)
    }

    /// These are about to be added, to the filter first.
    pub(super) fn add(self: &Arc<Self>, digests: Vec<Digest>) -> Adding {
        let mut state = self.lock();
        state.turn();
        for &digest in &digests {
            *state.setting.entry(digest).or_default() += 1;
            state.recent.insert(digest);
            if let Some(removing) = state.removing.get_mut(&digest) {
                removing.disturbed = true;
            }
        }
        drop(state);
        Adding { changes: Arc::clone(self), digests }
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

    /// A scan of the store is about to begin.
    pub(super) fn begin_resync(&self) {
        let mut state = self.lock();
        state.turn();
        state.resyncing = true;
    }

    /// It is over.
    pub(super) fn end_resync(&self) {
        let mut state = self.lock();
        state.resyncing = false;
        // What was added meanwhile may be a moment old.
        state.turned = Instant::now();
    }

    /// Calls `forget` for those that a scan did not see and nobody added lately;
    /// who adds waits until it has returned.
    pub(super) fn forget_unseen<T>(
        &self,
        mut unseen: Vec<Digest>,
        forget: impl FnOnce(&[Digest]) -> T,
    ) -> T {
        let state = self.lock();
        unseen.retain(|digest| {
            !state.recent.contains(digest)
                && !state.earlier.contains(digest)
                && !state.setting.contains_key(digest)
        });
        forget(&unseen)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn turn(&mut self) {
        if !self.resyncing && self.turned.elapsed() > GRACE {
            // After twice the time nothing of it is recent.
            let long_ago = self.turned.elapsed() > 2 * GRACE;
            self.earlier = std::mem::take(&mut self.recent);
            self.announced_earlier = std::mem::take(&mut self.announced);
            if long_ago {
                self.earlier.clear();
                self.announced_earlier.clear();
            }
            self.turned = Instant::now();
        }
    }
}

impl Drop for Adding {
    fn drop(&mut self) {
        let mut state = self.changes.lock();
        for digest in &self.digests {
            if let Some(count) = state.setting.get_mut(digest) {
                *count -= 1;
                if *count == 0 {
                    state.setting.remove(digest);
                }
            }
        }
    }
}

impl Removal {
    /// Calls `forget` for those of the digests that the store has no more, and that
    /// nobody added meanwhile or announced lately; who adds waits until it has
    /// returned.
    pub(super) fn finish<T>(
        self,
        gone: impl Fn(&Digest) -> bool,
        forget: impl FnOnce(&[Digest]) -> T,
    ) -> T {
        let state = self.changes.lock();
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
        forget(&digests)
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
    use super::*;

    fn digest(n: u64) -> Digest {
        Digest::new([n, n])
    }

    fn forgotten(removal: Removal) -> Vec<Digest> {
        removal.finish(|_| true, <[Digest]>::to_vec)
    }

    #[test]
    fn a_removal_that_nobody_disturbs_is_forgotten() {
        let changes = Arc::new(Changes::default());
        drop(changes.add(vec![digest(1)]));
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), [digest(1)]);
        assert!(changes.lock().removing.is_empty() && changes.lock().setting.is_empty());
    }

    #[test]
    fn what_is_added_around_a_removal_stays() {
        let changes = Arc::new(Changes::default());
        // Began before it and still goes on.
        let adding = changes.add(vec![digest(1)]);
        let removal = changes.remove(vec![digest(1), digest(2), digest(3)]);
        // Begins and ends within it.
        drop(changes.add(vec![digest(2)]));
        drop(adding);
        assert_eq!(forgotten(removal), [digest(3)]);
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), [digest(1)]);
    }

    /// Somebody says that it will store a key, and somebody else that it has removed
    /// it: the store may have it in a moment.
    #[test]
    fn what_is_announced_is_not_forgotten_before_it_can_be_there() {
        let changes = Arc::new(Changes::default());
        drop(changes.announce(vec![digest(1)]));
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), []);
        {
            let mut state = changes.lock();
            let long_ago = state.turned.checked_sub(2 * GRACE + Duration::from_secs(1));
            state.turned = long_ago.expect("a clock that is old enough");
        }
        drop(changes.add(vec![digest(2)]));
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), [digest(1)]);
    }

    #[test]
    fn a_removal_beside_another_one_is_disturbed_as_well() {
        let changes = Arc::new(Changes::default());
        let first = changes.remove(vec![digest(1)]);
        drop(changes.add(vec![digest(1)]));
        let second = changes.remove(vec![digest(1)]);
        assert_eq!(forgotten(first), []);
        assert_eq!(forgotten(second), []);
        assert_eq!(forgotten(changes.remove(vec![digest(1)])), [digest(1)]);
    }

    #[test]
    fn a_resync_keeps_what_was_added_lately_or_is_still_recent_when_it_began() {
        let changes = Arc::new(Changes::default());
        let back = |by: Duration| {
            let mut state = changes.lock();
            state.turned = state.turned.checked_sub(by).expect("a clock that is old enough");
        };
        let unseen = |numbers: &[u64]| {
            let digests = numbers.iter().copied().map(digest).collect();
            changes.forget_unseen(digests, <[Digest]>::to_vec)
        };
        drop(changes.add(vec![digest(1)]));
        back(GRACE + Duration::from_secs(1));
        drop(changes.add(vec![digest(2)]));
        changes.begin_resync();
        // However long it takes.
        back(10 * GRACE);
        drop(changes.add(vec![digest(3)]));
        assert_eq!(unseen(&[1, 2, 3, 4]), [digest(4)]);
        changes.end_resync();
        drop(changes.add(vec![digest(5)]));
        assert_eq!(unseen(&[1, 2, 3, 4, 5]), [digest(4)]);
        back(GRACE + Duration::from_secs(1));
        drop(changes.add(vec![digest(6)]));
        assert_eq!(unseen(&[1, 2, 3, 5, 6]), [digest(1)]);
        back(2 * GRACE + Duration::from_secs(1));
        drop(changes.add(vec![digest(7)]));
        assert_eq!(unseen(&[2, 3, 5, 6, 7]), [2, 3, 5, 6].map(digest));
    }
}
