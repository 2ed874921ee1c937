//! [`Fjall`]: a log-structured merge tree in a folder. Its own filters are off, since the guard's
//! filter comes before them.

use std::fs;
use std::io;
use std::ops::{ControlFlow, RangeInclusive};
use std::path::Path;

use crate::guard::{Change, Header, Store};
use fjall::config::FilterPolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable as _};
use twiceshy_filters::{Digest, RemoteError};

use crate::store::engine::{Durability, Engine, EngineOptions, OpenError};

const TAG: &str = "tag";
const GENERATION: &str = "generation";

/// Records in a folder of crate `fjall`.
pub struct Fjall {
    database: Database,
    records: Keyspace,
    meta: Keyspace,
    persist: PersistMode,
}

impl Fjall {
    fn opened(path: &Path, options: &EngineOptions) -> Result<Self, OpenError> {
        let cache = u64::try_from(options.cache).unwrap_or(u64::MAX);
        let database =
            Database::builder(path).cache_size(cache).open().map_err(|error| match error {
                fjall::Error::Locked => OpenError::Locked,
                error => OpenError::Other(error.into()),
            })?;
        let without_filters =
            || KeyspaceCreateOptions::default().filter_policy(FilterPolicy::disabled());
        Ok(Fjall {
            records: database.keyspace("records", without_filters)?,
            meta: database.keyspace("meta", without_filters)?,
            database,
            persist: match options.durability {
                Durability::Power => PersistMode::SyncData,
                // At least to the operating system: a batch would stay in the process.
                Durability::Process => PersistMode::Buffer,
            },
        })
    }
}

impl Engine for Fjall {
    const EXTENSION: &'static str = "fjall";

    fn open(path: &Path, options: &EngineOptions) -> Result<Self, OpenError> {
        // Crate `fjall` cannot open a folder that it was killed while making. So the folder is
        // made under another name and renamed.
        if !path.exists() {
            let new = path.with_extension("new");
            match fs::remove_dir_all(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => (),
            }
            drop(Self::opened(&new, options)?);
            fs::rename(&new, path)?;
        }
        Self::opened(path, options)
    }

    fn visit_all(
        &self,
        visitor: &mut dyn FnMut(Digest, &[u8]) -> ControlFlow<()>,
    ) -> Result<Option<Header>, RemoteError> {
        let view = self.database.snapshot();
        for entry in view.iter(&self.records) {
            let (digest, record) = entry.into_inner()?;
            if visitor(to_digest(&digest)?, &record).is_break() {
                break;
            }
        }
        let value = |name| -> Result<Option<u64>, RemoteError> {
            let Some(bytes) = view.get(&self.meta, name)? else { return Ok(None) };
            Ok(Some(u64::from_le_bytes(bytes.as_ref().try_into()?)))
        };
        let (tag, generation) = (value(TAG)?, value(GENERATION)?);
        Ok(tag.zip(generation).map(|(tag, generation)| Header { tag, generation }))
    }

    fn sync(&self) -> Result<(), RemoteError> {
        Ok(self.database.persist(PersistMode::SyncAll)?)
    }
}

/// The bytes of a digest, high byte first, so that they sort in digest order.
fn to_bytes(digest: Digest) -> [u8; 16] {
    digest.number().to_be_bytes()
}

fn to_digest(bytes: &[u8]) -> Result<Digest, RemoteError> {
    let number = bytes
        .try_into()
        .map_err(|_| format!("a record's key has {} bytes instead of 16", bytes.len()))?;
    Ok(Digest::from_number(u128::from_be_bytes(number)))
}

impl Store for Fjall {
    fn read(
        &self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest, &[u8]),
    ) -> Result<(), RemoteError> {
        for entry in self.records.range(to_bytes(*range.start())..=to_bytes(*range.end())) {
            let (digest, record) = entry.into_inner()?;
            visitor(to_digest(&digest)?, &record);
        }
        Ok(())
    }

    /// A range is prepared on every level of the tree; a point lookup stops at the first hit.
    fn find(
        &self,
        digest: Digest,
        visitor: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<bool>, RemoteError> {
        let found = self.records.get(to_bytes(digest))?;
        Ok(Some(found.inspect(|record| visitor(record)).is_some()))
    }

    fn write(&self, changes: &[Change<'_>]) -> Result<(), RemoteError> {
        let mut batch = self.database.batch().durability(Some(self.persist));
        for &(digest, record) in changes {
            match record {
                Some(record) => batch.insert(&self.records, to_bytes(digest), record),
                None => batch.remove(&self.records, to_bytes(digest)),
            }
        }
        Ok(batch.commit()?)
    }

    fn count(&self) -> Result<u64, RemoteError> {
        Ok(self.records.approximate_len() as u64)
    }

    fn header(&self) -> Result<Option<Header>, RemoteError> {
        let value = |name| -> Result<Option<u64>, RemoteError> {
            let Some(bytes) = self.meta.get(name)? else { return Ok(None) };
            Ok(Some(u64::from_le_bytes(bytes.as_ref().try_into()?)))
        };
        let (tag, generation) = (value(TAG)?, value(GENERATION)?);
        Ok(tag.zip(generation).map(|(tag, generation)| Header { tag, generation }))
    }

    fn set_header(&self, header: Header) -> Result<(), RemoteError> {
        // On disk before any later record, which is in another table.
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        batch.insert(&self.meta, TAG, header.tag.to_le_bytes());
        batch.insert(&self.meta, GENERATION, header.generation.to_le_bytes());
        Ok(batch.commit()?)
    }
}
