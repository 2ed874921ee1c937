//! The signals that stop the server.

use std::future::pending;
use std::{fs, io};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM, SIGINT and SIGHUP, from the moment that this is made.
pub(super) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    /// None under nohup.
    hangup: Option<Signal>,
}

impl Stop {
    pub(super) fn new() -> io::Result<Self> {
        // Listening to a signal would end its being ignored.
        let hangup = if is_hangup_ignored() { None } else { Some(signal(SignalKind::hangup())?) };
        Ok(Stop {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup,
        })
    }

    /// Waits for one of them: its number.
    pub(super) async fn asked(&mut self) -> u8 {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => 15,
            _ = self.interrupt.recv() => 2,
            _ = hangup => 1,
        }
    }
}

/// Whether whoever started this process lets it ignore SIGHUP, where the system tells.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    // Signal 1 is the lowest bit.
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & 1 == 1)
}
