//! [`Leaving`]: what the log has removed and the store may still show.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use twiceshy::Digest;

use super::stream::Event;

/// Digests that the log has removed, each with the transaction that did it last.
///
/// A commit is in PostgreSQL's log before any session sees it, and may wait for standbys in
/// between: until it is over, its deleted rows are still there.
#[derive(Default)]
pub(super) struct Leaving(Mutex<HashMap<Digest, u32>>);

impl Leaving {
    /// Takes the removals of a transaction out of its events.
    pub(super) fn hold_back(&self, xid: u32, events: &[Event]) -> Vec<Event> {
        let mut leaving = self.lock();
        let mut others = Vec::with_capacity(events.len());
        for event in events {
            match event {
                Event::Removed(digest) => {
                    leaving.insert(*digest, xid);
                    continue;
                }
                Event::Added(digest) => drop(leaving.remove(digest)),
                Event::Cleared => leaving.clear(),
            }
            others.push(*event);
        }
        others
    }

    /// The removals of transactions that are `over`, and no longer held back.
    pub(super) fn released(&self, over: impl Fn(u32) -> bool) -> Vec<Event> {
        let mut leaving = self.lock();
        let left = leaving.extract_if(|_, xid| over(*xid));
        left.map(|(digest, _)| Event::Removed(digest)).collect()
    }

    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, u32>> {
        // Every change of it is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
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
    }
}
