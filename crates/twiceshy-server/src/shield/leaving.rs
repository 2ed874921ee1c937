//! [`Leaving`]: what the log has removed and the store may still show.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use twiceshy::Digest;

use super::stream::Event;

/// Digests that the log has removed and not inserted again.
///
/// A commit is in PostgreSQL's log before any session sees it, and may wait for standbys in
/// between: until it is over, its deleted rows are still there.
#[derive(Default)]
pub(super) struct Leaving(Mutex<Held>);

#[derive(Default)]
struct Held {
    /// Each with the transaction that removed it last.
    by: HashMap<Digest, u32>,
    /// What each transaction removed. Others may have inserted it since.
    removed: HashMap<u32, Vec<Digest>>,
}

impl Leaving {
    /// Takes the removals of a transaction out of its events.
    pub(super) fn hold_back(&self, xid: u32, events: &[Event]) -> Vec<Event> {
        let mut held = self.lock();
        let mut others = Vec::with_capacity(events.len());
        for event in events {
            match event {
                Event::Removed(digest) => {
                    held.by.insert(*digest, xid);
                    held.removed.entry(xid).or_default().push(*digest);
                    continue;
                }
                Event::Added(digest) => drop(held.by.remove(digest)),
                Event::Cleared => *held = Held::default(),
            }
            others.push(*event);
        }
        others
    }

    /// The removals of transactions that are `over`, and no longer held back.
    pub(super) fn released(&self, over: impl Fn(u32) -> bool) -> Vec<Event> {
        let mut held = self.lock();
        let Held { by, removed } = &mut *held;
        let mut left = Vec::new();
        for (xid, digests) in removed.extract_if(|xid, _| over(*xid)) {
            for digest in digests {
                if by.get(&digest) == Some(&xid) {
                    by.remove(&digest);
                    left.push(Event::Removed(digest));
                }
            }
        }
        left
    }

    pub(super) fn clear(&self) {
        *self.lock() = Held::default();
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        // Every change of it is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn removals_wait_for_the_end_of_their_transaction() {
        use Event::{Added, Cleared, Removed};
        let [a, b, c] = [1, 2, 3].map(|n| Digest::new([n, n]));
        let leaving = Leaving::default();
        assert_eq!(leaving.hold_back(7, &[Removed(a), Added(b), Removed(b)]), [Added(b)]);
        assert_eq!(leaving.hold_back(8, &[Removed(c), Added(c)]), [Added(c)], "it was never gone");
        assert_eq!(leaving.released(|xid| xid == 8), []);
        // Another transaction inserts one of them again.
        assert_eq!(leaving.hold_back(9, &[Added(a)]), [Added(a)]);
        assert_eq!(leaving.released(|xid| xid == 7), [Removed(b)]);
        assert_eq!(leaving.released(|_| true), [], "once");
        assert_eq!(leaving.hold_back(10, &[Removed(a), Cleared, Removed(b)]), [Cleared]);
        assert_eq!(leaving.released(|_| true), [Removed(b)], "the others go with all");
        // Often, and by another one.
        assert_eq!(leaving.hold_back(11, &[Removed(a), Added(a), Removed(a)]), [Added(a)]);
        assert_eq!(leaving.hold_back(12, &[Added(a), Removed(a)]), [Added(a)]);
        assert_eq!(leaving.released(|xid| xid == 11), []);
        assert_eq!(leaving.released(|_| true), [Removed(a)]);
        let Held { by, removed } = &*leaving.lock();
        assert!(by.is_empty() && removed.is_empty());
    }

    /// It is asked several times per second, and one transaction may have removed millions.
    #[test]
    fn each_transaction_is_asked_for_once() {
        let leaving = Leaving::default();
        let removals: Vec<Event> = (1..=100).map(|n| Event::Removed(Digest::new([n, n]))).collect();
        leaving.hold_back(7, &removals);
        let asked = Cell::new(0);
        let none = leaving.released(|_| {
            asked.set(asked.get() + 1);
            false
        });
        assert_eq!((none, asked.get()), (vec![], 1));
    }
}
