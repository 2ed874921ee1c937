//! [`Quiet`]: rate-limits log lines that clients can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The shortest time between two log lines.
const EVERY: Duration = Duration::from_secs(60);

/// Counts an event, and decides when to log it.
#[derive(Debug, Default)]
pub(crate) struct Quiet {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    logged_at: Option<Instant>,
    since: u64,
}

impl Quiet {
    /// Counts one event. Returns the number since the last log line if it is time for another.
    pub(crate) fn count(&self) -> Option<u64> {
        self.count_at(Instant::now())
    }

    fn count_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.since += 1;
        if state.logged_at.is_some_and(|at| now.duration_since(at) < EVERY) {
            return None;
        }
        state.logged_at = Some(now);
        Some(std::mem::take(&mut state.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_logged_and_then_one_a_minute() {
        let (quiet, now) = (Quiet::default(), Instant::now());
        assert_eq!(quiet.count_at(now), Some(1));
        for seconds in [0, 1, 59] {
            assert_eq!(quiet.count_at(now + Duration::from_secs(seconds)), None);
        }
        assert_eq!(quiet.count_at(now + EVERY), Some(4));
        assert_eq!(quiet.count_at(now + EVERY), None);
    }
}
