//! A stand-in for a synchronous shield whose filter is being built, or cannot be followed.
//!
//! A slot begins when all open transactions are over, and commits that wait for this shield are
//! open: each would wait for the other. Nobody relies on the filter meanwhile, so they are
//! confirmed by a connection that reads the log as a physical standby does, and throws it away.
//! The same goes for a shield that waits until somebody changes a setting, or a table's name.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tracing::warn;

use super::lsn::Lsn;
use super::wire::{Incoming, Positions, Walsender};
use crate::postgres::Lanes;

/// How often what was confirmed is said again: at first the server may not listen yet.
const AGAIN: Duration = Duration::from_millis(100);

/// Confirms all commits, under this name, until it is dropped.
pub(super) async fn confirm_all(lanes: &Lanes, name: &str) -> Infallible {
    let mut told = false;
    loop {
        let reason = match lanes.walsender(name).await {
            Ok(walsender) => match confirm(walsender).await {
                Ok(never) => return never,
                Err(error) => error.to_string(),
            },
            Err(failure) => failure.to_string(),
        };
        if !told {
            warn!(reason, "commits wait for this shield");
            told = true;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

async fn confirm(mut walsender: Walsender) -> io::Result<Infallible> {
    let strange = || io::Error::other("IDENTIFY_SYSTEM has another answer than expected");
    let rows = walsender.query("IDENTIFY_SYSTEM").await?;
    let [_, Some(timeline), Some(end), ..] = rows.first().map_or(&[][..], |row| row) else {
        return Err(strange());
    };
    let mut end: Lsn = end.parse().map_err(|_| strange())?;
    walsender.start(&format!("PHYSICAL {end} TIMELINE {timeline}")).await?;
    loop {
        walsender.report(Positions { applied: end, flushed: end }, false).await?;
        if let Ok(incoming) = timeout(AGAIN, walsender.next()).await {
            let (Incoming::Data { end: new, .. } | Incoming::Alive { end: new, .. }) = incoming?;
            end = end.max(new);
        }
    }
}
