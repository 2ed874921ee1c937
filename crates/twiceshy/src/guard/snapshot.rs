//! Snapshots of the filters, and how the store knows its own.
//!
//! ```text
//! filters ──▶ bytes (with a random nonce) ──▶ keyed hash ──▶ the store's generation
//! ```
//!
//! A snapshot's generation is a hash of all its bytes, keyed with the hasher's secret.
//! The store gets it as its header while nobody can change a record, and gets another
//! before the next change. So a generation is that of one snapshot and of one state of
//! the store: files may be copied and put back in any combination, and changed on disk,
//! and a snapshot is used only in front of the records that it was taken of.

use twiceshy_filters::KeyHasher;
use twiceshy_filters::internals::load_ordered;
use twiceshy_filters::internals::{Reader, Writer};
use twiceshy_filters::{Error, Result};

use super::shard::Shard;
use super::slice::Slice;
use super::store::{Header, Store};
use super::sync::Ordering;
use super::{Guard, GuardOptions, new_generation, tag};

/// What [`Guard::snapshot`] writes.
const SNAPSHOT: &str = "guard";

/// The number of records of a store that cannot tell.
const UNCOUNTED: u64 = u64::MAX;

impl<S: Store> Guard<S> {
    /// The bytes of all filters as of this moment, for [`Guard::open_with`]. They are of
    /// use until the next [`Guard::put`], [`Guard::remove`] or snapshot; afterwards they
    /// cost a rebuild, and adaptations are relearned. Writes wait meanwhile.
    ///
    /// # Errors
    /// [`Error::Remote`] when the store did not take the snapshot's generation. An
    /// earlier snapshot may be of no use any more then.
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let held: Vec<_> = self.shards.iter().map(Shard::writer).collect();
        let mut bytes = Writer::new(SNAPSHOT);
        bytes.u64(tag(&self.hasher));
        // A nonce: no other snapshot, of whatever filters, has this one's generation.
        bytes.u64(new_generation());
        bytes.u64(self.store.exact_count().map_err(Error::Remote)?.unwrap_or(UNCOUNTED));
        bytes.u32(self.shard_bits);
        for shard in &self.shards {
            bytes.block(&shard.look(|filter| filter.save()));
        }
        let bytes = bytes.finish();
        let header =
            Header { tag: tag(&self.hasher), generation: generation(&self.hasher, &bytes) };
        // The next change renews the header. So it does when setting it fails: that may
        // have happened all the same.
        self.dirty.store(false, Ordering::Release);
        self.store.set_header(header).map_err(Error::Remote)?;
        drop(held);
        Ok(bytes)
    }

    /// The filters of a snapshot; an error says why it is of no use.
    pub(super) fn restored(
        &self,
        bytes: &[u8],
        header: Option<Header>,
    ) -> Result<Vec<Shard>, String> {
        let header = header.ok_or("the store is new")?;
        let text = |error: Error| error.to_string();
        let mut reader = Reader::open(bytes).map_err(text)?;
        reader.expect_kind(SNAPSHOT).map_err(text)?;
        if reader.u64("the store's tag").map_err(text)? != header.tag {
            return Err("it was made with another hasher, secret or version".into());
        }
        if generation(&self.hasher, bytes) != header.generation {
            return Err("it is of another state of the store, or was tampered with".into());
        }
        reader.u64("the nonce").map_err(text)?;
        let noted = reader.u64("the number of records").map_err(text)?;
        let stored = self.store.exact_count().map_err(|error| error.to_string())?;
        if let Some(stored) = stored
            && noted != stored
            && noted != UNCOUNTED
        {
            return Err(format!("it is of {noted} records, the store has {stored}"));
        }
        let bits = reader.u32("the shards").map_err(text)?;
        if bits != self.shard_bits {
            return Err(format!("it has 2^{bits} shards instead of 2^{}", self.shard_bits));
        }
        let mut shards = Vec::new();
        for index in 0..1 << bits {
            let filter = reader.block("a filter").and_then(load_ordered).map_err(text)?;
            let (of, spec) = (filter.description(), self.spec.to_string());
            if of != spec {
                return Err(format!("its filters are {of}, not {spec}"));
            }
            shards.push(Shard::new(Slice::new(bits, index), filter));
        }
        reader.finish().map_err(text)?;
        Ok(shards)
    }
}

/// The filters and shards that a snapshot is of: with other options it would be of no use.
///
/// # Errors
/// [`Error::Format`] when it is damaged, or no snapshot.
pub fn snapshot_options(bytes: &[u8]) -> Result<GuardOptions> {
    let mut reader = Reader::open(bytes)?;
    reader.expect_kind(SNAPSHOT)?;
    for what in ["the store's tag", "the nonce", "the number of records"] {
        reader.u64(what)?;
    }
    let shard_bits = reader.u32("the shards")?;
    let spec = load_ordered(reader.block("a filter")?)?.description().parse()?;
    Ok(GuardOptions { spec, shard_bits, ..GuardOptions::default() })
}

/// The generation of the store that a snapshot is of.
fn generation(hasher: &KeyHasher, snapshot: &[u8]) -> u64 {
    hasher.digest(snapshot).word(0)
}
