//! [`Probe`]: what the server says of itself, several times per `--max-lag`.
//!
//! Whatever a client could see when the server was asked was in its log by then. As soon as that
//! position has been applied, the filter is as fresh as the question is old.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, Statement};

use super::lsn::Lsn;
use super::setup::{BEGIN_LOCAL, Publication};
use crate::backend::Failure;
use crate::postgres::session::{Step, told};
use crate::postgres::{Lanes, down};

/// What the server said.
pub(super) struct Probe {
    /// Before it was asked.
    pub(super) asked: Instant,
    /// Everything that any client could see then is before this position.
    pub(super) end: Lsn,
    /// What of it is on the server's disk, and can be sent.
    pub(super) sendable: Lsn,
    pub(super) snapshot: Snapshot,
    /// Of the table; `None` if there is none.
    pub(super) fingerprint: Option<String>,
    /// Whether the publication is as it has to be.
    pub(super) published: bool,
    /// The process that has the slot.
    pub(super) sender: Option<i32>,
    /// Whether commits wait for this shield.
    pub(super) synchronous: bool,
    /// The bytes of log that the slot retains.
    pub(super) retained: u64,
}

/// Asks a server.
pub(super) struct Prober {
    client: Client,
    statement: Statement,
    most: Duration,
}

impl Prober {
    /// An answer takes at most so long.
    pub(super) async fn new(
        client: Client,
        slot: &str,
        publication: &Publication,
        fingerprint: &str,
        most: Duration,
    ) -> Result<Self, Failure> {
        let sql = format!(
            "SELECT pg_catalog.pg_current_wal_insert_lsn()::text,
                    pg_catalog.pg_current_wal_flush_lsn()::text,
                    pg_catalog.pg_current_snapshot()::text,
                    {fingerprint}, {},
                    s.active_pid, r.sync_state,
                    pg_catalog.current_setting('synchronous_standby_names'),
                    pg_catalog.pg_wal_lsn_diff(pg_catalog.pg_current_wal_insert_lsn(),
                                               s.restart_lsn)::int8,
                    (SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_replication
                     WHERE sync_state <> 'async')
             FROM (SELECT 1) AS one
             LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = '{slot}'
             LEFT JOIN pg_catalog.pg_stat_replication r ON r.pid = s.active_pid",
            publication.suits
        );
        let statement = client.prepare(&sql).await.map_err(down)?;
        Ok(Prober { client, statement, most })
    }

    pub(super) async fn ask(&self) -> Result<Probe, String> {
        let asked = Instant::now();
        let query = self.client.query_one(&self.statement, &[]);
        let row = match tokio::time::timeout(self.most, query).await {
            Ok(row) => row.map_err(|error| told(&error))?,
            Err(_) => return Err(format!("no answer in {:?}", self.most)),
        };
        let lsn = |column: usize| row.get::<_, String>(column).parse::<Lsn>();
        let state: Option<String> = row.get(6);
        let standbys: String = row.get(7);
        let synchronous = matches!(state.as_deref(), Some("sync" | "quorum"))
            && waits_for_all(&standbys, row.get(9));
        Ok(Probe {
            asked,
            end: lsn(0)?,
            sendable: lsn(1)?,
            snapshot: Snapshot::read(row.get(2)).ok_or("its snapshot cannot be read")?,
            fingerprint: row.get(3),
            published: row.get(4),
            sender: row.get(5),
            synchronous,
            retained: u64::try_from(row.get::<_, Option<i64>>(8).unwrap_or(0)).unwrap_or(0),
        })
    }

    /// Writes a transaction to the server's log that changes nothing, and all of the log to the
    /// server's disk.
    pub(super) async fn beat(&self) -> Result<(), String> {
        let beat = format!(
            "{BEGIN_LOCAL}; SELECT pg_catalog.pg_logical_emit_message(true, 'twiceshy', ''); COMMIT"
        );
        let beat = self.client.batch_execute(&beat);
        match tokio::time::timeout(self.most, beat).await {
            Ok(beat) => beat.map_err(|error| told(&error)),
            Err(_) => Err(format!("no answer in {:?}", self.most)),
        }
    }
}

impl Lanes {
    /// The end of the server's log: what a client could see before this is before that position.
    pub(in crate::postgres) async fn log_end(&self) -> Result<u64, Failure> {
        let (_, lane) = self.lane().await?;
        let end = async {
            let sql = "SELECT pg_catalog.pg_current_wal_insert_lsn()::text";
            let row = lane.client.query_one(sql, &[]).await.map_err(down)?;
            row.get::<_, String>(0).parse::<Lsn>().map_err(Failure::Upstream)
        };
        let step = Step::short("asking for the end of the log", self.timeout);
        Ok(step.within(end, Failure::Upstream).await?.0)
    }
}

/// Whether commits wait for every standby that is listed, `FIRST 2 (a, b)`, and that is connected:
/// two may have the same name. Otherwise another standby may confirm a commit before this shield has
/// it: in a quorum always, and else as soon as this shield's connection breaks.
fn waits_for_all(standbys: &str, connected: i64) -> bool {
    // A name in double quotes may have commas and parentheses.
    let unquoted: Vec<&str> = standbys.split('"').step_by(2).collect();
    let unquoted = unquoted.join("name");
    let (count, names) = match unquoted.split_once('(') {
        Some((head, names)) => (head.split_whitespace().last(), names),
        None => (Some("1"), &unquoted[..]),
    };
    let count = count.and_then(|count| count.parse::<usize>().ok());
    // Quotes or not, this is any name.
    !standbys.contains('*')
        && count == Some(names.split(',').count())
        && count >= usize::try_from(connected).ok()
}

/// Which transactions are over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// The first that had not begun.
    end: u32,
    running: Vec<u32>,
}

impl Snapshot {
    /// Reads `xmin:xmax:xip,xip`, whose numbers have 64 bits; the log's have the lower 32.
    fn read(text: &str) -> Option<Self> {
        let low = |text: &str| Some(text.parse::<u64>().ok()? as u32);
        let mut parts = text.splitn(3, ':');
        let (_, end, running) = (parts.next()?, low(parts.next()?)?, parts.next()?);
        let running = running.split(',').filter(|xid| !xid.is_empty()).map(low);
        Some(Snapshot { end, running: running.collect::<Option<_>>()? })
    }

    /// Whether a transaction is over: its changes can be seen, or never will be.
    pub(super) fn is_over(&self, xid: u32) -> bool {
        // Numbers go in a circle, and a half of it is the past.
        let begun = self.end.wrapping_sub(xid).wrapping_sub(1) < 1 << 31;
        begun && !self.running.contains(&xid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_know_what_is_over() {
        let snapshot = Snapshot::read("10:15:10,12").expect("a snapshot");
        for (xid, over) in [(3, true), (9, true), (10, false), (11, true), (12, false)] {
            assert_eq!(snapshot.is_over(xid), over, "{xid}");
        }
        for xid in [15, 16, 1 << 30] {
            assert!(!snapshot.is_over(xid), "{xid} has not begun");
        }
        let idle = Snapshot::read("4294967301:4294967301:").expect("of the second round");
        assert_eq!(idle, Snapshot { end: 5, running: vec![] });
        assert!(idle.is_over(4) && idle.is_over(u32::MAX) && !idle.is_over(5));
        for text in ["", "1", "1:2", "1:x:", "1:2:y"] {
            assert_eq!(Snapshot::read(text), None, "{text}");
        }
    }

    #[test]
    fn only_a_list_of_all_is_synchronous() {
        for (standbys, connected, all) in [
            ("a", 1, true),
            ("1 (a)", 1, true),
            ("ANY 1 (a)", 1, true),
            ("any 2 (a, b)", 2, true),
            ("ANY 2 (a, b)", 1, true),
            ("FIRST 2 (a, b)", 2, true),
            ("2(a,b)", 2, true),
            ("\"a\"", 1, true),
            ("ANY 2 (\"a,b\", \"c(\"\"d\")", 2, true),
            ("a", 2, false),
            ("ANY 1 (a)", 2, false),
            ("FIRST 2 (a, b)", 3, false),
            ("a, b", 1, false),
            ("\"a\", b", 1, false),
            ("ANY 1 (a, b)", 1, false),
            ("FIRST 1 (a, b)", 1, false),
            ("ANY 2 (a, b, c)", 2, false),
            ("1 (\"a,b\", c)", 1, false),
            ("*", 1, false),
            ("ANY 1 (\"*\")", 1, false),
        ] {
            assert_eq!(waits_for_all(standbys, connected), all, "{standbys} {connected}");
        }
    }
}
