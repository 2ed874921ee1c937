//! [`Trust`]: until when the filter's "absent" may be believed.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Whether the filter is relied on. Trust may have an end: without news of the store by then, it
/// ends by itself, also while this process is stopped or starved.
pub(crate) struct Trust {
    /// Nanoseconds after `origin`, or [`NEVER`] or [`ALWAYS`].
    until: AtomicU64,
    origin: Instant,
    /// How often it was withdrawn.
    withdrawals: AtomicU64,
}

/// A moment at which trust held.
#[derive(Clone, Copy)]
pub(crate) struct Held(u64);

const NEVER: u64 = 0;
const ALWAYS: u64 = u64::MAX;

impl Trust {
    /// No trust.
    pub(crate) fn none() -> Self {
        Trust {
            until: AtomicU64::new(NEVER),
            origin: Instant::now(),
            withdrawals: AtomicU64::new(0),
        }
    }

    /// Whether the filter is relied on now.
    pub(crate) fn holds(&self) -> bool {
        match self.until.load(Ordering::Acquire) {
            NEVER => false,
            ALWAYS => true,
            until => nanoseconds(self.origin.elapsed()) < until,
        }
    }

    /// Now, if the filter is relied on.
    pub(crate) fn held(&self) -> Option<Held> {
        let held = Held(self.withdrawals.load(Ordering::Acquire));
        self.holds().then_some(held)
    }

    /// Whether the filter has been relied on since then: what it said meanwhile counts. Without
    /// trust it may have been emptied.
    pub(crate) fn held_since(&self, held: Held) -> bool {
        // What the filter was asked comes first.
        fence(Ordering::Acquire);
        self.withdrawals.load(Ordering::Relaxed) == held.0
    }

    /// From now on, until it is withdrawn.
    pub(crate) fn give(&self) {
        self.until.store(ALWAYS, Ordering::Release);
    }

    /// From now on, until this moment.
    pub(crate) fn give_until(&self, end: Instant) {
        let end = nanoseconds(end.saturating_duration_since(self.origin));
        self.until.store(end.clamp(NEVER, ALWAYS - 1), Ordering::Release);
    }

    /// No more.
    pub(crate) fn withdraw(&self) {
        self.until.store(NEVER, Ordering::Release);
        self.withdrawals.fetch_add(1, Ordering::AcqRel);
        // Before anything is taken from the filter.
        fence(Ordering::SeqCst);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(ALWAYS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_ends_by_itself_or_when_withdrawn() {
        let trust = Trust::none();
        assert!(!trust.holds());
        trust.give();
        assert!(trust.holds());
        let held = trust.held().expect("it holds");
        assert!(trust.held_since(held));
        trust.withdraw();
        assert!(!trust.holds() && trust.held().is_none());
        trust.give();
        assert!(!trust.held_since(held), "not all the time");
        trust.withdraw();
        trust.give_until(Instant::now() + Duration::from_secs(3600));
        assert!(trust.holds());
        trust.give_until(Instant::now());
        assert!(!trust.holds());
        let past = Instant::now().checked_sub(Duration::from_secs(3600));
        trust.give_until(past.unwrap_or_else(Instant::now));
        assert!(!trust.holds());
    }
}
