//! [`Backend`]: answers the commands.

use std::fmt;
use std::path::PathBuf;

use bytes::Bytes;
use twiceshy::Guard;
use twiceshy::guard::GuardStats;
use twiceshy::store::Redb;

use crate::embedded::Embedded;
use crate::health::Health;
use crate::passed::Passed;
use crate::postgres::Postgres;
use crate::redis::Redis;
use crate::reply::Reply;

/// Answers the commands: a guard, and the store behind it.
pub enum Backend {
    /// An embedded store in a directory.
    Embedded(Embedded),
    /// A table of PostgreSQL, which is only read.
    Postgres(Postgres),
    /// A Redis server.
    Redis(Redis),
}

impl Backend {
    /// GET: the values of as many keys, from the first on, as fit in `most` bytes together.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn get_many(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.get_many(keys, most),
            Backend::Postgres(postgres) => postgres.get_many(keys, most).await,
            Backend::Redis(redis) => redis.get_many(keys, most).await,
        }
    }

    /// MGET: as [`Backend::get_many`], with nil also for a value of a type that GET refuses.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn get_many_or_nil(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.get_many(keys, most),
            Backend::Postgres(postgres) => postgres.get_many_or_nil(keys, most).await,
            Backend::Redis(redis) => redis.get_many_or_nil(keys, most).await,
        }
    }

    /// Whether values come from another server. Requests then reserve memory before the size of
    /// the values is known.
    pub(crate) fn is_remote(&self) -> bool {
        !matches!(self, Backend::Embedded(_))
    }

    /// EXISTS: how many of the keys are stored; a repeated key counts each time.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn exists(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.exists(keys),
            Backend::Postgres(postgres) => postgres.exists(keys).await,
            Backend::Redis(redis) => redis.exists(keys).await,
        }
    }

    /// SET and MSET: stores records; of two with the same key the later one wins. When it
    /// returns, they are as durable as the store promises.
    ///
    /// # Errors
    /// When the store fails or is read-only.
    pub async fn set_many(&self, records: &[(Bytes, Bytes)]) -> Result<(), Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.set_many(records).await,
            Backend::Postgres(postgres) => postgres.set_many(records).await,
            Backend::Redis(redis) => redis.set_many(records).await,
        }
    }

    /// DEL: removes keys; returns how many were stored.
    ///
    /// # Errors
    /// When the store fails or is read-only.
    pub async fn remove(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.remove(keys).await,
            Backend::Postgres(postgres) => postgres.remove(keys).await,
            Backend::Redis(redis) => redis.remove(keys).await,
        }
    }

    /// TS.ADDED: a client is about to add keys to the store. Returns how many were new to the
    /// filter.
    ///
    /// # Errors
    /// When the sidecar fails, or there is none.
    pub async fn added(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(_) => Err(own_store("TS.ADDED", "SET")),
            Backend::Postgres(postgres) => postgres.added(keys).await,
            Backend::Redis(redis) => redis.added(keys).await,
        }
    }

    /// TS.REMOVED: a client has removed keys from the store. Returns how many the filter knew.
    ///
    /// # Errors
    /// When the sidecar fails, or there is none.
    pub async fn removed(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(_) => Err(own_store("TS.REMOVED", "DEL")),
            Backend::Postgres(postgres) => postgres.removed(keys).await,
            Backend::Redis(redis) => redis.removed(keys).await,
        }
    }

    /// TS.WAIT: waits until everything before a position of the store's log is known, for at most
    /// so many milliseconds.
    ///
    /// # Errors
    /// When that takes longer, the store has no log or is not followed, or the position is none.
    pub async fn wait(&self, position: &[u8], most: Option<&[u8]>) -> Result<(), Failure> {
        match self {
            Backend::Postgres(postgres) => postgres.wait(position, most).await,
            Backend::Embedded(_) | Backend::Redis(_) => Err(Failure::Refused(
                "TS.WAIT is for PostgreSQL with --follow: this store has no log to wait for".into(),
            )),
        }
    }

    /// The reply to a command for Redis if the filter knows it.
    pub(crate) fn settled(&self, passed: &Passed) -> Option<Reply> {
        match self {
            Backend::Embedded(_) | Backend::Postgres(_) => None,
            Backend::Redis(redis) => redis.settled(passed),
        }
    }

    /// The length of the value that a command for Redis may answer.
    pub(crate) async fn passed_length(&self, passed: &Passed) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(_) | Backend::Postgres(_) => Ok(0),
            Backend::Redis(redis) => redis.passed_length(passed).await,
        }
    }

    /// Passes a command on to Redis.
    pub(crate) async fn pass(&self, passed: &Passed) -> Result<Reply, Failure> {
        match self {
            Backend::Embedded(_) => {
                let instead = "GET, MGET, EXISTS, SET key value, MSET and DEL";
                Err(passed.refused_by("this server's own, where nothing expires", instead))
            }
            Backend::Postgres(_) => {
                Err(passed.refused_by("PostgreSQL, which is only read", "GET, MGET and EXISTS"))
            }
            Backend::Redis(redis) => redis.pass(passed).await,
        }
    }

    /// TS.SNAPSHOT: writes the filters, with their adaptations, to disk.
    ///
    /// # Errors
    /// When the disk fails.
    pub async fn snapshot(&self) -> Result<(), Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.snapshot().await,
            Backend::Postgres(postgres) => postgres.snapshot().await,
            Backend::Redis(redis) => redis.snapshot().await,
        }
    }

    /// TS.BACKUP: copies the store (a shield's: its digests) to a new directory while it is in
    /// use. Returns the number of records in the copy.
    ///
    /// # Errors
    /// When the directory exists, another backup is running, or the disk fails.
    pub async fn backup(&self, to: PathBuf) -> Result<u64, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.backup(to).await,
            Backend::Postgres(postgres) => postgres.backup(to).await,
            Backend::Redis(redis) => redis.backup(to).await,
        }
    }

    /// Tells a running backup to stop soon.
    pub(crate) fn stop_backups(&self) {
        match self {
            Backend::Embedded(embedded) => embedded.backups().stop(),
            Backend::Postgres(postgres) => postgres.backups().stop(),
            Backend::Redis(redis) => redis.backups().stop(),
        }
    }

    /// DBSIZE: the number of stored keys.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn count(&self) -> Result<u64, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.count(),
            Backend::Postgres(postgres) => postgres.count(),
            Backend::Redis(redis) => redis.count(),
        }
    }

    /// The guard, for its counts.
    #[must_use]
    pub fn guard(&self) -> &Guard<Redb> {
        match self {
            Backend::Embedded(embedded) => embedded.guard(),
            Backend::Postgres(postgres) => postgres.guard(),
            Backend::Redis(redis) => redis.guard(),
        }
    }

    /// The counts of the guard.
    #[must_use]
    pub fn stats(&self) -> GuardStats {
        self.guard().stats()
    }

    /// The counts of each shard of the guard.
    #[must_use]
    pub fn shard_stats(&self) -> Vec<GuardStats> {
        self.guard().shard_stats()
    }

    /// Whether a key is among the latest false positives that the filter adapted to; see
    /// [`Guard::was_adapted`].
    #[must_use]
    pub fn was_adapted(&self, key: &str) -> bool {
        self.guard().was_adapted(key)
    }

    /// Whether the filter is relied on, and the store answers. A store is asked at most once per
    /// second.
    pub async fn health(&self) -> Health {
        match self {
            Backend::Embedded(_) => Health { filter_trusted: true, store_up: true, follow: None },
            Backend::Postgres(postgres) => {
                Health { follow: postgres.follow_stats(), ..postgres.health().await }
            }
            Backend::Redis(redis) => redis.health().await,
        }
    }

    /// A name for people, such as "embedded".
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Backend::Embedded(_) => "embedded",
            Backend::Postgres(_) => "postgres",
            Backend::Redis(_) => "redis",
        }
    }

    /// Finishes pending writes, writes a snapshot and closes.
    ///
    /// # Errors
    /// When the snapshot could not be written. No stored record is lost.
    pub async fn close(self) -> Result<(), Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.close().await,
            Backend::Postgres(postgres) => postgres.close().await,
            Backend::Redis(redis) => redis.close().await,
        }
    }
}

/// The values of as many keys as there was room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Those of the first keys, in their order.
    pub values: Vec<Option<Bytes>>,
    /// If values are missing: the size of the next one, which did not fit.
    pub next: Option<usize>,
}

impl Fetched {
    /// Adds a value if it fits in `most` bytes, of which `bytes` are taken.
    pub(crate) fn add(&mut self, value: Option<Bytes>, bytes: &mut usize, most: usize) -> bool {
        let size = value.as_ref().map_or(0, Bytes::len);
        if value.is_some() && *bytes + size > most {
            self.next = Some(size);
            return false;
        }
        *bytes += size;
        self.values.push(value);
        true
    }
}

fn own_store(command: &str, instead: &str) -> Failure {
    Failure::Refused(format!(
        "{command} is for a store that others write to; this server's store is its own, use {instead}"
    ))
}

/// Why a command failed. Its text is sent to the client after "ERR "; that of a
/// [`Failure::Reply`] is sent as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The backend never does this: a write to a read-only table, for example.
    Refused(String),
    /// The store behind the filter cannot be reached. Lookups of keys that the filter knows to
    /// be absent still succeed.
    Upstream(String),
    /// An error reply of the store behind the filter, with its code: "WRONGTYPE ...".
    Reply(String),
    /// The embedded store or a local file failed.
    Store(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(reason) | Failure::Reply(reason) => f.write_str(reason),
            Failure::Upstream(reason) => write!(f, "the store is down: {reason}"),
            Failure::Store(reason) => write!(f, "the server's own files: {reason}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<twiceshy::guard::Error> for Failure {
    fn from(error: twiceshy::guard::Error) -> Self {
        Failure::Store(error.to_string())
    }
}

impl From<twiceshy::Error> for Failure {
    fn from(error: twiceshy::Error) -> Self {
        Failure::Store(error.to_string())
    }
}
