//! Snapshots of the filters, and how a store recognises its own.
//!
//! ```text
//! filters ──▶ bytes (with a random nonce) ──▶ keyed hash ──▶ the store's generation
//! ```
//!
//! A snapshot's generation is a hash of all its bytes, keyed with the hasher's secret. The store
//! gets it as part of its header while all writes wait, and gets another one before the next
//! write. A generation therefore identifies one snapshot and one state of the store. Files may
//! be copied, changed and restored in any combination: a snapshot is used only in front of the
//! records that it was taken of.

use twiceshy_filters::internals::{Reader, Writer, load_ordered};

use super::error::{Error, Result};
use super::generation::{of_snapshot, random, tag};
use super::open::Guard;
use super::options::GuardOptions;
use super::shard::{Shard, ShardRange};
use super::store::{Header, Store};

/// The kind of a snapshot, as its file says.
const SNAPSHOT: &str = "guard";

/// Noted for a store that does not know its number of records.
const UNCOUNTED: u64 = u64::MAX;

impl<S: Store> Guard<S> {
    /// The bytes of all filters at this moment, for [`Guard::open_with`]. Writes wait meanwhile.
    ///
    /// The snapshot fits the store until the next [`Guard::put`], [`Guard::remove`] or snapshot.
    /// Opening with a stale snapshot costs a rebuild, and adaptations are relearned.
    ///
    /// # Errors
    /// [`Error::Header`] when the store did not take the snapshot's generation; an earlier
    /// snapshot may no longer fit then. [`Error::Read`].
    pub fn snapshot(&self) -> Result<Vec<u8>> {
        let held: Vec<_> = self.shards.iter().map(Shard::writer).collect();
        let mut bytes = Writer::new(SNAPSHOT);
        bytes.u64(tag(&self.hasher));
        // A nonce: no other snapshot, of any filters, has this one's generation.
        bytes.u64(random());
        bytes.u64(self.store.exact_count().map_err(Error::Read)?.unwrap_or(UNCOUNTED));
        bytes.u32(self.shard_bits);
        for shard in &self.shards {
            bytes.block(&shard.with_filter(|filter| filter.save()));
        }
        let bytes = bytes.finish();
        let header =
            Header { tag: tag(&self.hasher), generation: of_snapshot(&self.hasher, &bytes) };
        // The next write renews the header, also when setting it fails here: the store may have
        // taken it nonetheless.
        self.generation.set_clean();
        self.store.set_header(header).map_err(Error::Header)?;
        drop(held);
        Ok(bytes)
    }

    /// The filters of a snapshot, or the reason why it cannot be used.
    pub(super) fn restored(
        &self,
        bytes: &[u8],
        header: Option<Header>,
    ) -> Result<Vec<Shard>, String> {
        let header = header.ok_or("the store is new")?;
        let mut reader = Reader::open(bytes).map_err(reason)?;
        reader.expect_kind(SNAPSHOT).map_err(reason)?;
        if reader.u64("the store's tag").map_err(reason)? != header.tag {
            return Err("it was made with another hasher, secret or version".into());
        }
        if of_snapshot(&self.hasher, bytes) != header.generation {
            return Err("it is of another state of the store, or was tampered with".into());
        }
        reader.u64("the nonce").map_err(reason)?;
        let noted = reader.u64("the number of records").map_err(reason)?;
        let stored = self.store.exact_count().map_err(|error| error.to_string())?;
        if let Some(stored) = stored
            && noted != stored
            && noted != UNCOUNTED
        {
            return Err(format!("it is of {noted} records, the store has {stored}"));
        }
        let bits = reader.u32("the shards").map_err(reason)?;
        if bits != self.shard_bits {
            return Err(format!("it has 2^{bits} shards instead of 2^{}", self.shard_bits));
        }
        let mut shards = Vec::new();
        for index in 0..1 << bits {
            let filter = reader.block("a filter").and_then(load_ordered).map_err(reason)?;
            let (of, spec) = (filter.description(), self.spec.to_string());
            if of != spec {
                return Err(format!("its filters are {of}, not {spec}"));
            }
            shards.push(Shard::new(ShardRange::new(bits, index), filter));
        }
        reader.finish().map_err(reason)?;
        Ok(shards)
    }
}

/// The options that a snapshot was taken with: a guard with other options cannot use it.
///
/// # Errors
/// [`Error::Snapshot`] when the bytes are damaged, or no snapshot.
pub fn snapshot_options(bytes: &[u8]) -> Result<GuardOptions> {
    let read = || {
        let mut reader = Reader::open(bytes)?;
        reader.expect_kind(SNAPSHOT)?;
        for what in ["the store's tag", "the nonce", "the number of records"] {
            reader.u64(what)?;
        }
        let shard_bits = reader.u32("the shards")?;
        let spec = load_ordered(reader.block("a filter")?)?.description().parse()?;
        Ok(GuardOptions::default().spec(spec).shard_bits(shard_bits))
    };
    read().map_err(|error| Error::Snapshot { reason: reason(error) })
}

/// What is wrong with a snapshot's bytes.
fn reason(error: twiceshy_filters::Error) -> String {
    match error {
        twiceshy_filters::Error::Format { reason } => reason,
        other => other.to_string(),
    }
}
