//! How long a session works before others have their turn.

use std::time::{Duration, Instant};

use tokio::task::yield_now;

use super::{Session, WORK};

/// How long a connection may work before others have their turn.
pub(super) const TURN: Duration = Duration::from_micros(250);

/// The most turns that others have at once.
pub(super) const TURNS: usize = 64;

impl Session<'_> {
    /// Lets others have their turn after some work, and more of them after a long one:
    /// else a client would wait for a large value of each of the others, at every turn.
    pub(crate) async fn breathe(&mut self, work: usize) {
        self.work += work;
        if self.work >= WORK {
            let worked = std::mem::take(&mut self.work) / WORK;
            // Some of the time may have been spent waiting: the work limits it.
            let took = self.turn.elapsed().as_micros().checked_div(self.slice.as_micros());
            let took = took.map_or(TURNS, |turns| turns as usize);
            if took > 0 {
                for _ in 0..took.min(worked).min(TURNS) {
                    yield_now().await;
                }
                self.turn = Instant::now();
            }
        }
    }
}
