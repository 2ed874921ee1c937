//! The slot through which a directory follows its table. The server keeps its log for the slot,
//! so the file that names it is written before the slot is made.

use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::Path;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::Client;
use tracing::info;

use super::lsn::Lsn;
use super::setup::{self, Server};
use super::wire::Walsender;
use crate::backend::Failure;
use crate::postgres::inspect::refused;
use crate::postgres::session::told;
use crate::postgres::{Lanes, down};
use crate::shield::replace_file;

/// The start of the names of slots and publications.
pub(super) const PREFIX: &str = "twiceshy_";

const FILE: &str = "followed";
const TITLE: &str = "twiceshy follows";

/// What a directory follows. Its file is
///
/// ```text
/// twiceshy follows
/// system 7412345678901234567
/// slot twiceshy_93c467e37db0c7a4
/// table 6f1ed002ab5595859014ebf0951522d9
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Followed {
    /// The server's system identifier.
    pub(super) system: String,
    pub(super) slot: String,
    /// The table's fingerprint when its keys were scanned; empty before that.
    pub(super) table: String,
}

impl Followed {
    /// What a directory follows; `None` if nothing, or if that cannot be read.
    pub(super) fn read(directory: &Path) -> Option<Self> {
        let text = fs::read_to_string(directory.join(FILE)).ok()?;
        let mut lines = text.lines();
        (lines.next()? == TITLE).then_some(())?;
        let mut field = |name: &str| Some(lines.next()?.strip_prefix(name)?.trim().to_string());
        let (system, slot, table) = (field("system ")?, field("slot ")?, field("table")?);
        // It becomes a part of SQL.
        let ours = |c: char| c.is_ascii_alphanumeric() || c == '_';
        (slot.starts_with(PREFIX) && slot.chars().all(ours)).then_some(())?;
        Some(Followed { system, slot, table })
    }

    fn write(&self, directory: &Path) -> Result<(), Failure> {
        let Followed { system, slot, table } = self;
        let text = format!("{TITLE}\nsystem {system}\nslot {slot}\ntable {table}\n");
        replace_file(directory, FILE, &text)
    }
}

/// A new slot, and the snapshot of the moment where it begins.
pub(super) struct Slot {
    followed: Followed,
    pub(super) position: Lsn,
    /// The snapshot lives as long as this does nothing else.
    _walsender: Walsender,
    snapshot: String,
}

/// Makes a slot, after dropping the one that the directory had.
pub(super) async fn create(
    lanes: &Lanes,
    directory: &Path,
    server: &Server,
    name: &str,
) -> Result<Slot, Failure> {
    let client = lanes.session().await?;
    if let Some(old) = Followed::read(directory).filter(|old| old.system == server.system) {
        drop_slot(&client, &old.slot).await?;
    }
    let slot = format!("{PREFIX}{:016x}", RandomState::new().build_hasher().finish());
    let followed = Followed { system: server.system.clone(), slot, table: String::new() };
    followed.write(directory)?;
    let mut walsender = lanes.walsender(name).await?;
    let command =
        format!("CREATE_REPLICATION_SLOT \"{}\" LOGICAL pgoutput EXPORT_SNAPSHOT", followed.slot);
    let rows = {
        let mut created = std::pin::pin!(walsender.query(&command));
        loop {
            match timeout(Duration::from_secs(5), &mut created).await {
                Ok(rows) => break rows.map_err(|error| not_created(&error.to_string()))?,
                Err(_) => info!(
                    "waiting for the transactions that are open in PostgreSQL: a slot begins when \
                     they are over (see pg_stat_activity)"
                ),
            }
        }
    };
    let unusable = || Failure::Upstream("the new slot could not be read".into());
    let [row] = &rows[..] else { return Err(unusable()) };
    let [_, Some(position), Some(snapshot), ..] = &row[..] else { return Err(unusable()) };
    let position = position.parse().map_err(Failure::Upstream)?;
    Ok(Slot { followed, position, snapshot: snapshot.clone(), _walsender: walsender })
}

impl Slot {
    /// A session that sees what was there when the slot began. Remembers the table's fingerprint.
    pub(super) async fn session(
        &mut self,
        lanes: &Lanes,
        fingerprint: &str,
    ) -> Result<Client, Failure> {
        let client = lanes.session().await?;
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{}'",
            self.snapshot
        );
        client.batch_execute(&begin).await.map_err(down)?;
        let row = client.query_one(&format!("SELECT {fingerprint}"), &[]).await.map_err(down)?;
        self.followed.table = row.get::<_, Option<String>>(0).unwrap_or_default();
        Ok(client)
    }

    /// The keys have been scanned.
    pub(super) fn finish(self, directory: &Path) -> Result<(), Failure> {
        self.followed.write(directory)
    }
}

/// Whether a slot still has everything since `flushed`, which is on our disk; otherwise why not.
/// The server's log has been seen up to `end`.
pub(super) async fn resumes(
    client: &Client,
    followed: &Followed,
    fingerprint: &str,
    flushed: Lsn,
    end: Lsn,
) -> Result<Result<(), String>, Failure> {
    let sql = format!(
        "SELECT s.wal_status, s.confirmed_flush_lsn::text, {fingerprint},
                pg_catalog.pg_current_wal_insert_lsn()::text
         FROM pg_catalog.pg_replication_slots s
         WHERE s.slot_name = '{}' AND s.plugin = 'pgoutput'
           AND s.database = pg_catalog.current_database()",
        followed.slot
    );
    let Some(row) = client.query_opt(&sql, &[]).await.map_err(down)? else {
        return Ok(Err(format!("the slot {} is gone", followed.slot)));
    };
    let (status, table): (Option<String>, Option<String>) = (row.get(0), row.get(2));
    if status.as_deref() == Some("lost") {
        return Ok(Err(format!(
            "the slot {} has lost its log; a larger max_slot_wal_keep_size keeps more of it",
            followed.slot
        )));
    }
    if table.as_deref() != Some(&followed.table) {
        return Ok(Err(setup::CHANGED.into()));
    }
    if row.get::<_, String>(3).parse::<Lsn>().map_err(Failure::Upstream)? < end {
        return Ok(Err(
            "the server's log ends before what it has sent: it was put back to an older \
                       state"
                .into(),
        ));
    }
    match parsed(row.get(1))? {
        Some(confirmed) if confirmed <= flushed => Ok(Ok(())),
        _ => Ok(Err("the filter's files are older than what the slot has confirmed".into())),
    }
}

/// What was confirmed of a slot's log.
pub(super) async fn confirmed(client: &Client, slot: &str) -> Result<Lsn, Failure> {
    let sql = "SELECT confirmed_flush_lsn::text FROM pg_catalog.pg_replication_slots
               WHERE slot_name = $1";
    let row = client.query_opt(sql, &[&slot]).await.map_err(down)?;
    let confirmed = parsed(row.and_then(|row| row.get(0)))?;
    confirmed.ok_or_else(|| Failure::Upstream(format!("the slot {slot} is gone")))
}

fn parsed(lsn: Option<String>) -> Result<Option<Lsn>, Failure> {
    lsn.map(|lsn| lsn.parse()).transpose().map_err(Failure::Upstream)
}

/// Drops a slot if there is one. That of a process that has just died is in use for a moment.
pub(super) async fn drop_slot(client: &Client, slot: &str) -> Result<(), Failure> {
    for attempt in 0.. {
        let dropped = client
            .execute(
                "SELECT pg_catalog.pg_drop_replication_slot(slot_name)
                 FROM pg_catalog.pg_replication_slots WHERE slot_name = $1",
                &[&slot],
            )
            .await;
        match dropped {
            Ok(_) => break,
            Err(error) if attempt == 50 => {
                return Err(Failure::Upstream(format!(
                    "the slot {slot} cannot be dropped: {}; stop the shield that uses it",
                    told(&error)
                )));
            }
            Err(_) => sleep(Duration::from_millis(100)).await,
        }
    }
    Ok(())
}

/// Why a slot could not be made, and what to do.
fn not_created(reason: &str) -> Failure {
    if reason.contains("max_replication_slots") || reason.contains("slots are in use") {
        return refused(format!(
            "there is no free slot: {reason}; drop one that nobody uses (SELECT * FROM \
             pg_replication_slots), or run ALTER SYSTEM SET max_replication_slots = 20; and restart \
             PostgreSQL"
        ));
    }
    Failure::Upstream(reason.to_string())
}

/// Why the log could not be connected to, and what to do.
pub(in crate::postgres) fn not_connected(reason: &str) -> Failure {
    if reason.contains("max_wal_senders") {
        return refused(format!(
            "no more connections to the log are allowed: {reason}; run ALTER SYSTEM SET \
             max_wal_senders = 20; and restart PostgreSQL"
        ));
    }
    Failure::Upstream(reason.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_says_what_is_followed() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(Followed::read(directory.path()), None);
        let mut followed = Followed {
            system: "7412345678901234567".into(),
            slot: "twiceshy_93c467e37db0c7a4".into(),
            table: String::new(),
        };
        for table in ["", "6f1ed002ab5595859014ebf0951522d9"] {
            followed.table = table.into();
            followed.write(directory.path()).expect("written");
            assert_eq!(Followed::read(directory.path()), Some(followed.clone()));
        }
        for text in [
            "",
            "twiceshy follows\nsystem 1\nslot x'y\ntable\n",
            "twiceshy follows\nsystem 1\nslot twiceshy_'y\ntable\n",
            "twiceshy follows\nsystem 1\nslot twiceshy_1\n",
        ] {
            fs::write(directory.path().join(FILE), text).expect("written");
            assert_eq!(Followed::read(directory.path()), None, "{text}");
        }
    }
}
