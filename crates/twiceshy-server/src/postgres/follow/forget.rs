//! Taking away what following left in PostgreSQL.

use std::time::Duration;

use super::setup::BEGIN_LOCAL;
use super::slot::PREFIX;
use crate::backend::Failure;
use crate::postgres::names::quoted;
use crate::postgres::session::Sessions;
use crate::postgres::{address, down};
use crate::tls::Authorities;

/// What [`forget`] found in a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Forgotten {
    /// Slots that it dropped.
    pub slots: Vec<String>,
    /// Publications that it dropped.
    pub publications: Vec<String>,
    /// Slots that a running shield uses, and which stay, with all publications.
    pub in_use: Vec<String>,
}

/// Drops the slots of all shields of a database that do not run, and the publications if no shield
/// runs. A shield that is started again builds its filter again.
///
/// # Errors
/// When the server is down, or the role may not do this.
pub async fn forget(
    store: &str,
    authorities: Option<&Authorities>,
    timeout: Duration,
) -> Result<Forgotten, Failure> {
    let config = address::parsed(store, authorities.is_some())?;
    let sessions = Sessions::new(config, authorities, timeout);
    let client = sessions.open().await.map_err(Failure::Upstream)?;
    let slots = client
        .query(
            "SELECT slot_name::text, active FROM pg_catalog.pg_replication_slots
             WHERE starts_with(slot_name::text, $1) AND plugin = 'pgoutput'
               AND database = pg_catalog.current_database() ORDER BY 1",
            &[&PREFIX],
        )
        .await
        .map_err(down)?;
    let mut forgotten = Forgotten::default();
    for row in slots {
        let (slot, active): (String, bool) = (row.get(0), row.get(1));
        if active {
            forgotten.in_use.push(slot);
            continue;
        }
        let drop = "SELECT pg_catalog.pg_drop_replication_slot($1::text::name)";
        client.execute(drop, &[&slot]).await.map_err(down)?;
        forgotten.slots.push(slot);
    }
    if !forgotten.in_use.is_empty() {
        return Ok(forgotten);
    }
    let publications = client
        .query(
            "SELECT pubname::text FROM pg_catalog.pg_publication
             WHERE pubname ~ ('^' || $1::text || '[0-9]+$') ORDER BY 1",
            &[&PREFIX],
        )
        .await
        .map_err(down)?;
    for row in publications {
        let name: String = row.get(0);
        let drop = format!("{BEGIN_LOCAL}; DROP PUBLICATION {}; COMMIT", quoted(&name));
        client.batch_execute(&drop).await.map_err(down)?;
        forgotten.publications.push(name);
    }
    Ok(forgotten)
}
