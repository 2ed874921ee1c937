//! [`Backend`]: what answers the commands.

use std::fmt;
use std::path::PathBuf;

use bytes::Bytes;
use twiceshy::Guard;
use twiceshy::guard::GuardStats;
use twiceshy::store::Redb;

use crate::embedded::Embedded;
use crate::postgres::Postgres;
use crate::redis::Redis;

/// What answers the commands: a guard, and the store that it shields.
pub enum Backend {
    /// A store of our own in a directory.
    Embedded(Embedded),
    /// A table of PostgreSQL, which is only read.
    Postgres(Postgres),
    /// A Redis server.
    Redis(Redis),
}

impl Backend {
    /// The values of keys, as many as have at most `most` bytes together: GET.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn get_many(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.get_many(keys, most),
            Backend::Postgres(postgres) => postgres.get_many(keys, most).await,
            Backend::Redis(redis) => redis.get_many(keys, most).await,
        }
    }

    /// The values of keys, as [`Backend::get_many`] has them: MGET, which has a nil also
    /// for a key whose value is of a type that GET refuses.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn get_many_or_nil(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.get_many(keys, most),
            Backend::Postgres(postgres) => postgres.get_many_or_nil(keys, most).await,
            Backend::Redis(redis) => redis.get_many_or_nil(keys, most).await,
        }
    }

    /// Whether values come from elsewhere: what is asked for then takes memory before it
    /// is known how large it is.
    pub(crate) fn is_remote(&self) -> bool {
        !matches!(self, Backend::Embedded(_))
    }

    /// How many of the keys are stored; one that is named twice counts twice.
    ///
    /// # Errors
    /// When the store failed.
    pub async fn exists(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.exists(keys),
            Backend::Postgres(postgres) => postgres.exists(keys).await,
            Backend::Redis(redis) => redis.exists(keys).await,
        }
    }

    /// Stores records, the later of two with one key last: SET and MSET. When it
    /// returns they survive whatever the store promises.
    ///
    /// # Errors
    /// When the store failed or is not ours to write.
    pub async fn set_many(&self, records: &[(Bytes, Bytes)]) -> Result<(), Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.set_many(records).await,
            Backend::Postgres(postgres) => postgres.set_many(records).await,
            Backend::Redis(redis) => redis.set_many(records).await,
        }
    }

    /// Removes keys; returns how many were stored.
    ///
    /// # Errors
    /// When the store failed or is not ours to write.
    pub async fn remove(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.remove(keys).await,
            Backend::Postgres(postgres) => postgres.remove(keys).await,
            Backend::Redis(redis) => redis.remove(keys).await,
        }
    }

    /// Somebody is about to add keys to the store: TS.ADDED. Returns how many
    /// were not known.
    ///
    /// # Errors
    /// When the sidecar failed, or there is none.
    pub async fn added(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(_) => Err(own_store("TS.ADDED", "SET")),
            Backend::Postgres(postgres) => postgres.added(keys).await,
            Backend::Redis(redis) => redis.added(keys).await,
        }
    }

    /// Somebody has removed keys from the store: TS.REMOVED. Returns how many
    /// were known.
    ///
    /// # Errors
    /// When the sidecar failed, or there is none.
    pub async fn removed(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        match self {
            Backend::Embedded(_) => Err(own_store("TS.REMOVED", "DEL")),
            Backend::Postgres(postgres) => postgres.removed(keys).await,
            Backend::Redis(redis) => redis.removed(keys).await,
        }
    }

    /// Writes the filters, with all that they have learned, to disk.
    ///
    /// # Errors
    /// When the disk failed.
    pub async fn snapshot(&self) -> Result<(), Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.snapshot().await,
            Backend::Postgres(postgres) => postgres.snapshot().await,
            Backend::Redis(redis) => redis.snapshot().await,
        }
    }

    /// Copies the store, or the filter's own, to a new directory while it is used:
    /// TS.BACKUP. Returns how many records the copy has.
    ///
    /// # Errors
    /// When the directory exists, another backup is being made, or the disk failed.
    pub async fn backup(&self, to: PathBuf) -> Result<u64, Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.backup(to).await,
            Backend::Postgres(postgres) => postgres.backup(to).await,
            Backend::Redis(redis) => redis.backup(to).await,
        }
    }

    /// The backup that is being made, if there is one, ends soon.
    pub(crate) fn stop_backups(&self) {
        match self {
            Backend::Embedded(embedded) => embedded.backups().stop(),
            Backend::Postgres(postgres) => postgres.backups().stop(),
            Backend::Redis(redis) => redis.backups().stop(),
        }
    }

    /// How many keys are stored: DBSIZE.
    ///
    /// # Errors
    /// When the store failed.
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

    /// Whether a key is one of the false positives that were fixed last; see
    /// [`Guard::was_adapted`].
    #[must_use]
    pub fn was_adapted(&self, key: &str) -> bool {
        self.guard().was_adapted(key)
    }

    /// What it is, for people: "embedded store", say.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Backend::Embedded(_) => "embedded",
            Backend::Postgres(_) => "postgres",
            Backend::Redis(_) => "redis",
        }
    }

    /// Waits for what is being written, leaves a snapshot and closes.
    ///
    /// # Errors
    /// When the snapshot was not written. Nothing that was stored is lost.
    pub async fn close(self) -> Result<(), Failure> {
        match self {
            Backend::Embedded(embedded) => embedded.close().await,
            Backend::Postgres(postgres) => postgres.close().await,
            Backend::Redis(redis) => redis.close().await,
        }
    }
}

/// The values of keys, as many as there was room for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Those of the first keys, in their order.
    pub values: Vec<Option<Bytes>>,
    /// If they are not those of all keys: the bytes of the next value, for which there
    /// was no room.
    pub next: Option<usize>,
}

impl Fetched {
    /// Adds a value, if there is room for it in `most` bytes, of which the others take
    /// `bytes`.
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

/// Why a command was not done. Its text is what the client reads after "ERR ", or
/// all of it if it is a [`Failure::Reply`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The backend does not do that, ever: a write to somebody else's table, say.
    Refused(String),
    /// The store behind the filter cannot be reached. Keys that the filter knows
    /// to be absent are still answered.
    Upstream(String),
    /// What the store behind the filter said itself, with its code: "WRONGTYPE ...".
    Reply(String),
    /// A store or file of our own failed.
    Store(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(reason) | Failure::Reply(reason) => f.write_str(reason),
            Failure::Upstream(reason) => write!(f, "the store is down: {reason}"),
            Failure::Store(reason) => write!(f, "the server's own store failed: {reason}"),
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
