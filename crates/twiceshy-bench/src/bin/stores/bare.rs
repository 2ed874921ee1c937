//! Stores with no guard, used as their own documentation uses them.

use std::path::Path;

use fjall::config::FilterPolicy;
use fjall::{Keyspace, KeyspaceCreateOptions};
use redb::{Database, ReadOnlyTable, ReadableDatabase as _, TableDefinition};

use crate::Outcome;
use crate::keys::{KEY, stored, value};

/// Memory for an engine's cache, unless told otherwise: guarded or not, all have
/// the same.
pub const CACHE: usize = 64 << 20;

/// Records of one write when stores are filled.
pub const BATCH: u64 = 10_000;

const RECORDS: TableDefinition<[u8; KEY], &[u8]> = TableDefinition::new("records");

/// Calls `write` with ranges of at most [`BATCH`] indices.
pub fn in_batches(count: u64, mut write: impl FnMut(std::ops::Range<u64>) -> Outcome) -> Outcome {
    (0..count).step_by(BATCH as usize).try_for_each(|at| write(at..count.min(at + BATCH)))
}

/// `redb`, with a table that stays open.
pub struct BareRedb {
    pub database: Database,
    table: ReadOnlyTable<[u8; KEY], &'static [u8]>,
}

impl BareRedb {
    pub fn filled(path: &Path, keys: u64, cache: usize) -> Outcome<Self> {
        let database = redb::Builder::new().set_cache_size(cache).create(path)?;
        in_batches(keys, |range| {
            let transaction = database.begin_write()?;
            {
                let mut table = transaction.open_table(RECORDS)?;
                for index in range {
                    table.insert(stored(index), &value(index)[..])?;
                }
            }
            Ok(transaction.commit()?)
        })?;
        let table = database.begin_read()?.open_table(RECORDS)?;
        Ok(BareRedb { database, table })
    }

    /// From the table that is open.
    pub fn get(&self, key: [u8; KEY]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.table.get(key)?.map(|value| value.value().to_vec()))
    }

    /// With a transaction of its own.
    pub fn get_alone(&self, key: [u8; KEY]) -> Outcome<Option<Vec<u8>>> {
        let table = self.database.begin_read()?.open_table(RECORDS)?;
        Ok(table.get(key)?.map(|value| value.value().to_vec()))
    }
}

/// `fjall`, with its own filters or without.
pub struct BareFjall {
    _database: fjall::Database,
    pub records: Keyspace,
}

impl BareFjall {
    /// With its usual filters, unless told otherwise.
    pub fn filled(
        path: &Path,
        keys: u64,
        filters: Option<FilterPolicy>,
        cache: usize,
    ) -> Outcome<Self> {
        let database = fjall::Database::builder(path).cache_size(cache as u64).open()?;
        let records = database.keyspace("records", || {
            let options = KeyspaceCreateOptions::default();
            match &filters {
                Some(policy) => options.filter_policy(policy.clone()),
                None => options,
            }
        })?;
        in_batches(keys, |range| {
            let mut batch = database.batch();
            for index in range {
                batch.insert(&records, stored(index), value(index));
            }
            Ok(batch.commit()?)
        })?;
        records.rotate_memtable_and_wait()?;
        Ok(BareFjall { _database: database, records })
    }

    pub fn get(&self, key: [u8; KEY]) -> Outcome<Option<Vec<u8>>> {
        Ok(self.records.get(key)?.map(|value| value.to_vec()))
    }

    /// Blocks of data that were looked into so far, from disk or from the cache.
    pub fn blocks(&self) -> u64 {
        let metrics = self.records.metrics();
        (metrics.data_block_load_count() + metrics.data_block_load_cached_count()) as u64
    }
}
