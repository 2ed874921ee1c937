//! Whether a table can be served, and what it is called.

use tokio_postgres::Client;
use tokio_postgres::config::{Config, Host};

use crate::backend::Failure;

use super::PostgresOptions;
use super::keys::KeyType;
use super::names::{self, quoted};
use super::session::told;

/// What was found of a table.
pub(super) struct Found {
    pub(super) oid: u32,
    /// As SQL, and for people.
    pub(super) name: String,
    pub(super) key: String,
    /// PostgreSQL's number of its type.
    pub(super) key_oid: u32,
    pub(super) key_type: KeyType,
    /// `None`: the row as JSON.
    pub(super) value: Option<(String, u32)>,
}

/// Looks whether a table can be served.
pub(super) async fn inspect(client: &Client, options: &PostgresOptions) -> Result<Found, Failure> {
    let PostgresOptions { key, value, .. } = options;
    let down = |error: tokio_postgres::Error| Failure::Upstream(told(&error));
    let asked = names::table(&options.table).map_err(refused)?;
    let found = client
        .query_opt(
            "SELECT c.oid, n.nspname, c.relname, c.relkind::text,
                    pg_catalog.current_setting('server_encoding')
             FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
             WHERE c.oid = pg_catalog.to_regclass($1)::oid",
            &[&asked],
        )
        .await
        .map_err(down)?;
    let Some(row) = found else {
        return Err(refused(format!(
            "there is no table {asked}; names are taken as they are, so check upper and lower \
             case, and give the schema if it is not in the search path"
        )));
    };
    let (oid, schema, table): (u32, String, String) = (row.get(0), row.get(1), row.get(2));
    let (kind, encoding): (String, String) = (row.get(3), row.get(4));
    let name = format!("{}.{}", quoted(&schema), quoted(&table));
    if !matches!(&kind[..], "r" | "p" | "m") {
        return Err(refused(format!(
            "{name} is not a table; give a table, a partitioned table or a materialized view"
        )));
    }
    let column = async |column: &str| {
        let found = client
            .query_opt(
                "SELECT a.attnum, a.atttypid,
                        pg_catalog.format_type(a.atttypid, a.atttypmod),
                        COALESCE(c.collisdeterministic, true)
                 FROM pg_catalog.pg_attribute a
                 LEFT JOIN pg_catalog.pg_collation c ON c.oid = a.attcollation
                 WHERE a.attrelid = $1 AND a.attname = $2 AND a.attnum > 0 AND NOT a.attisdropped",
                &[&oid, &column],
            )
            .await
            .map_err(down)?;
        found.ok_or_else(|| {
            refused(format!("{name} has no column {}; a key is one column", quoted(column)))
        })
    };
    let row = column(key).await?;
    let (number, key_oid, type_name): (i16, u32, String) = (row.get(0), row.get(1), row.get(2));
    let unusable = |reason: &str| {
        Err(refused(format!("the column {} of {name} cannot be the key: {reason}", quoted(key))))
    };
    let Some(key_type) = KeyType::of(key_oid) else {
        return unusable(&format!(
            "its type is {type_name}; supported are text, varchar, bytea, uuid, smallint, integer \
             and bigint"
        ));
    };
    if !row.get::<_, bool>(3) {
        return unusable("by its collation different texts can be equal");
    }
    if key_type == KeyType::Text && encoding == "SQL_ASCII" {
        return unusable("the database's encoding SQL_ASCII does not say what its text is");
    }
    let unique = client
        .query_one(
            "SELECT EXISTS (
                 SELECT FROM pg_catalog.pg_index
                 WHERE indrelid = $1 AND indisunique AND indisvalid AND indpred IS NULL
                   AND indnkeyatts = 1 AND indkey[0] = $2)",
            &[&oid, &number],
        )
        .await
        .map_err(down)?;
    if !unique.get::<_, bool>(0) {
        return unusable(
            "it has no unique index of its own, so a key may be that of several rows; composite \
             keys are not supported",
        );
    }
    let value = match value {
        Some(value) => Some((value.clone(), column(value).await?.get(1))),
        None => None,
    };
    Ok(Found { oid, name, key: key.clone(), key_oid, key_type, value })
}

/// Which table of which server, without its password.
pub(super) fn origin(config: &Config, found: &Found) -> String {
    let hosts = hosts(config);
    let database = config.get_dbname().or(config.get_user()).unwrap_or_default();
    let Found { name, key, key_type, .. } = found;
    let origin = format!("postgres://{hosts}/{database} {name} {key} {}", key_type.name());
    // One line, whatever is in the names.
    origin.replace('\\', "\\\\").replace('\n', "\\n").replace('\r', "\\r")
}

/// Hosts and ports of an address, which may have a password besides.
pub(super) fn hosts(config: &Config) -> String {
    let hosts = config.get_hosts().iter().enumerate().map(|(index, host)| {
        let port = config.get_ports().get(index).or(config.get_ports().first()).unwrap_or(&5432);
        match host {
            Host::Tcp(host) => format!("{host}:{port}"),
            Host::Unix(path) => format!("{}:{port}", path.display()),
        }
    });
    hosts.collect::<Vec<_>>().join(",")
}

pub(super) fn refused(reason: impl Into<String>) -> Failure {
    Failure::Refused(reason.into())
}
