//! What following a table needs of PostgreSQL: its settings and a publication.

use tokio_postgres::Client;
use tokio_postgres::config::{Config, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tracing::info;

use super::FollowMode;
use super::slot::PREFIX;
use crate::backend::Failure;
use crate::postgres::down;
use crate::postgres::inspect::{Found, refused};
use crate::postgres::names::quoted;
use crate::postgres::session::told;

/// The oldest version whose slots say whether they have lost their log.
const OLDEST: i32 = 13_00_00;
/// From here on a publication can have some of a table's columns.
const COLUMN_LISTS: i32 = 15_00_00;
/// From here on messages in the log can be asked for.
const MESSAGES: i32 = 14_00_00;

/// Begins a transaction that writes, and does not wait for synchronous standbys: this shield may
/// be one of them.
pub(super) const BEGIN_LOCAL: &str = "BEGIN READ WRITE; SET LOCAL synchronous_commit = local";

/// A server that can be followed.
pub(super) struct Server {
    pub(super) version: i32,
    /// Its system identifier: another server has another one.
    pub(super) system: String,
}

/// Looks whether the server can be followed; otherwise says what to change.
pub(super) async fn server(client: &Client, mode: FollowMode) -> Result<Server, Failure> {
    let row = client
        .query_one(
            "SELECT pg_catalog.current_setting('server_version_num')::int4,
                    pg_catalog.pg_is_in_recovery(),
                    pg_catalog.current_setting('wal_level'),
                    r.rolreplication OR r.rolsuper, r.rolname::text,
                    (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
                    pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')
             FROM pg_catalog.pg_roles r WHERE r.rolname = current_user",
            &[],
        )
        .await
        .map_err(down)?;
    let (version, standby, level): (i32, bool, String) = (row.get(0), row.get(1), row.get(2));
    let (may_replicate, role): (bool, String) = (row.get(3), row.get(4));
    if version < OLDEST {
        return Err(refused("--follow needs PostgreSQL 13 or newer"));
    }
    if standby {
        return Err(refused(
            "this server is a standby, whose log cannot be followed; give the address of the \
             primary",
        ));
    }
    if level != "logical" {
        return Err(refused(format!(
            "--follow needs wal_level = logical, and this server has {level}; run ALTER SYSTEM SET \
             wal_level = 'logical'; and restart PostgreSQL"
        )));
    }
    if !may_replicate {
        return Err(refused(format!(
            "the role {role} may not read the log; run ALTER ROLE {} REPLICATION; as a superuser",
            quoted(&role)
        )));
    }
    if mode == FollowMode::Sync && !row.get::<_, bool>(6) {
        return Err(refused(format!(
            "with --follow sync the shield has to see in pg_stat_replication whether commits wait \
             for it, and the role {role} may not; run GRANT pg_read_all_stats TO {}; as a superuser",
            quoted(&role)
        )));
    }
    Ok(Server { version, system: row.get(5) })
}

/// Makes sure that no lookup goes to a standby, which may not have a row yet that can be seen.
pub(super) fn leads_to_the_primary(config: &Config) -> Result<(), Failure> {
    let hosts = config.get_hosts().len().max(config.get_hostaddrs().len());
    if hosts <= 1 || config.get_target_session_attrs() == TargetSessionAttrs::ReadWrite {
        return Ok(());
    }
    Err(refused(
        "the store's address has several hosts, and some may be standbys, which get rows late: \
         add target_session_attrs=read-write to the address",
    ))
}

/// Makes sure that the table is the one that was found when this server began.
pub(super) async fn same_table(client: &Client, found: &Found) -> Result<(), Failure> {
    let row = client.query_one("SELECT pg_catalog.to_regclass($1)::oid", &[&found.name]).await;
    if row.map_err(down)?.get::<_, Option<u32>>(0) == Some(found.oid) {
        return Ok(());
    }
    Err(refused(format!(
        "{} was dropped, renamed or made anew; start this server again to follow it",
        found.name
    )))
}

/// A publication of the keys of a table.
pub(super) struct Publication {
    pub(super) name: String,
    /// Whether it exists and has what is needed, as an SQL expression.
    pub(super) suits: String,
}

impl Publication {
    /// What the plugin `pgoutput` is told. It has to report the transactions of
    /// [`Prober::beat`](super::probe::Prober::beat): before version 15 it reports all, and later
    /// those with messages, if they are asked for.
    pub(super) fn options(&self, server: &Server) -> String {
        let messages = if server.version >= MESSAGES { ", messages 'true'" } else { "" };
        format!("proto_version '1', publication_names '\"{}\"'{messages}", self.name)
    }
}

/// Finds or makes the publication of a table's keys.
pub(super) async fn publication(
    client: &Client,
    server: &Server,
    found: &Found,
) -> Result<Publication, Failure> {
    let Identity { columns, knows_key } = identity(client, found).await?;
    let name = publication_name(found);
    let lists = server.version >= COLUMN_LISTS;
    let whole = lists.then_some(
        "AND r.prqual IS NULL AND (r.prattrs IS NULL OR EXISTS (
             SELECT FROM pg_catalog.pg_attribute a
             WHERE a.attrelid = r.prrelid AND a.attname = '{key}' AND a.attnum = ANY(r.prattrs)))",
    );
    let whole = whole.unwrap_or_default().replace("{key}", &escaped(&found.key));
    let suits = format!(
        "EXISTS (SELECT FROM pg_catalog.pg_publication p
                 JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
                 WHERE p.pubname = '{name}' AND r.prrelid = {} AND p.pubinsert AND p.pubupdate
                   AND p.pubtruncate AND p.pubviaroot {whole})",
        found.oid
    );
    let listed = match &columns {
        Some(columns) if lists => {
            let mut columns = columns.clone();
            columns.retain(|column| *column != found.key);
            columns.insert(0, found.key.clone());
            let columns: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
            format!(" ({})", columns.join(", "))
        }
        _ => String::new(),
    };
    let events =
        if knows_key { "insert, update, delete, truncate" } else { "insert, update, truncate" };
    let create = format!(
        "CREATE PUBLICATION {} FOR TABLE {}{listed} WITH (publish = '{events}', \
         publish_via_partition_root = true)",
        quoted(&name),
        found.name
    );
    let ask = format!(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_publication WHERE pubname = '{name}'), {suits}"
    );
    let row = client.query_one(&ask, &[]).await.map_err(down)?;
    match (row.get(0), row.get(1)) {
        (true, true) => (),
        (true, false) => {
            return Err(refused(format!(
                "the publication {name} exists and does not fit: it has to publish all insertions, \
                 updates and truncations of {} with the column {}; run DROP PUBLICATION {}; and \
                 start again",
                found.name,
                quoted(&found.key),
                quoted(&name)
            )));
        }
        (false, _) => {
            let make = format!("{BEGIN_LOCAL}; {create}; COMMIT");
            let made = client.batch_execute(&make).await;
            if let Err(error) = made {
                let _ = client.batch_execute("ROLLBACK").await;
                return match error.code() {
                    // Another shield of the same table was faster.
                    Some(&SqlState::DUPLICATE_OBJECT | &SqlState::UNIQUE_VIOLATION) => {
                        Ok(Publication { name, suits })
                    }
                    Some(&SqlState::INSUFFICIENT_PRIVILEGE) => Err(refused(format!(
                        "this role may not publish the table ({}); run, as its owner or a \
                         superuser: {create};",
                        told(&error)
                    ))),
                    _ => Err(down(error)),
                };
            }
            info!(publication = name, events, "made a publication");
        }
    }
    Ok(Publication { name, suits })
}

/// How PostgreSQL identifies a row that is updated or deleted.
struct Identity {
    /// By these columns; `None`: by all.
    columns: Option<Vec<String>>,
    /// Whether the key is among them.
    knows_key: bool,
}

/// The replica identity of a table and of all its partitions. Without one, a publication of
/// updates would make the user's own UPDATE fail; and without updates, a key that is changed
/// would be denied.
async fn identity(client: &Client, found: &Found) -> Result<Identity, Failure> {
    let heirs = "SELECT EXISTS (SELECT FROM pg_catalog.pg_inherits i
                     JOIN pg_catalog.pg_class c ON c.oid = i.inhparent
                     WHERE i.inhparent = $1 AND c.relkind = 'r')";
    if client.query_one(heirs, &[&found.oid]).await.map_err(down)?.get(0) {
        return Err(refused(format!(
            "other tables inherit from {}, and their rows, which are its own too, are not \
             published; only partitions can be followed",
            found.name
        )));
    }
    let unique = format!("SELECT {} IS NOT NULL", unique_index(found));
    if !client.query_one(&unique, &[]).await.map_err(down)?.get::<_, bool>(0) {
        return Err(refused(format!(
            "two rows of {0} may have the same {1}, if only until a transaction is over, and the log \
             does not say when it deletes the last one; {1} needs a unique index or constraint that \
             is not DEFERRABLE",
            found.name,
            quoted(&found.key)
        )));
    }
    let rows = client
        .query(
            "SELECT c.relreplident::text, c.oid::regclass::text,
                 c.relkind IN ('r', 'p') AND c.relpersistence = 'p', COALESCE((
                 SELECT array_agg(a.attname::text)
                 FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a
                   ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey)
                 WHERE i.indrelid = c.oid AND i.indimmediate AND CASE c.relreplident
                   WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END),
                 '{}')
             FROM pg_catalog.pg_class c
             WHERE c.oid = $1
                OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree($1::oid::regclass))",
            &[&found.oid],
        )
        .await
        .map_err(down)?;
    let mut all: Option<Vec<String>> = Some(Vec::new());
    let mut knows_key = true;
    for row in &rows {
        let (kind, table, logged): (String, String, bool) = (row.get(0), row.get(1), row.get(2));
        let columns: Vec<String> = row.get(3);
        if !logged {
            return Err(refused(format!(
                "{table} cannot be followed, as not all of its rows are in PostgreSQL's log; only \
                 tables and partitioned tables can, without UNLOGGED or foreign tables"
            )));
        }
        if kind == "f" {
            all = None;
        } else if columns.is_empty() {
            let index = client
                .query_opt(
                    "SELECT i.indexrelid::regclass::text FROM pg_catalog.pg_index i
                 JOIN pg_catalog.pg_attribute a
                   ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] AND a.attnotnull
                 WHERE i.indrelid = $1 AND a.attname = $2 AND i.indisunique AND i.indnkeyatts = 1
                   AND i.indpred IS NULL AND i.indimmediate LIMIT 1",
                    &[&found.oid, &found.key],
                )
                .await
                .map_err(down)?;
            let index = index.map(|row| row.get::<_, String>(0));
            let identity = index.map_or("FULL".to_string(), |index| format!("USING INDEX {index}"));
            return Err(refused(format!(
                "{table} has no primary key, or a DEFERRABLE one, so PostgreSQL could not say which \
                 row was updated, and would refuse your updates if they were published; run ALTER \
                 TABLE {table} REPLICA IDENTITY {identity};"
            )));
        } else {
            knows_key &= columns.contains(&found.key);
            if let Some(all) = &mut all {
                all.extend(columns);
                all.sort_unstable();
                all.dedup();
            }
        }
    }
    Ok(Identity { columns: all, knows_key })
}

/// The oldest index by which no two rows have the same key at any moment, as an SQL expression.
fn unique_index(found: &Found) -> String {
    format!(
        "(SELECT pg_catalog.min(i.indexrelid) FROM pg_catalog.pg_index i
          JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
          WHERE i.indrelid = {} AND a.attname = '{}' AND i.indisunique AND i.indisvalid
            AND i.indimmediate AND i.indpred IS NULL AND i.indnkeyatts = 1)",
        found.oid,
        escaped(&found.key)
    )
}

/// What makes a table another one, as an SQL expression: its partitions and the tables that inherit
/// from it, the files of its rows (which are replaced if all rows are written anew), the type of
/// its key and what makes it unique, and its publication. Partitions and publications may have been
/// something else in between: the `xmin` of a row in a catalogue says when it was last changed.
pub(super) fn fingerprint(found: &Found) -> String {
    let (name, key) = (escaped(&found.name), escaped(&found.key));
    let (publication, unique) = (publication_name(found), unique_index(found));
    format!(
        "(SELECT pg_catalog.md5(pg_catalog.string_agg(
              pg_catalog.concat_ws(' ', c.oid, c.relfilenode, c.relpersistence, i.xmin, a.attnum,
                                   a.atttypid), ','
              ORDER BY c.oid)
            || ' ' || {unique} || ' '
            || (SELECT pg_catalog.string_agg(
                    pg_catalog.concat_ws(' ', p.oid, p.xmin, r.oid, r.xmin), ',' ORDER BY r.oid)
                FROM pg_catalog.pg_publication p
                JOIN pg_catalog.pg_publication_rel r ON r.prpubid = p.oid
                WHERE p.pubname = '{publication}'))
          FROM pg_catalog.pg_class c
          LEFT JOIN pg_catalog.pg_inherits i ON i.inhrelid = c.oid
          LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = '{key}'
          WHERE c.oid = pg_catalog.to_regclass('{name}')
            OR c.oid IN (SELECT relid FROM pg_catalog.pg_partition_tree(
                             pg_catalog.to_regclass('{name}')))
            OR c.oid IN (SELECT inhrelid FROM pg_catalog.pg_inherits
                         WHERE inhparent = pg_catalog.to_regclass('{name}')))"
    )
}

/// What it means that a table's fingerprint is another one.
pub(super) const CHANGED: &str =
    "the table was rewritten, or its partitions, key column, unique index or publication changed";

/// The name of a table's publication.
fn publication_name(found: &Found) -> String {
    format!("{PREFIX}{}", found.oid)
}

/// Text as it is between single quotes.
fn escaped(text: &str) -> String {
    text.replace('\'', "''")
}
