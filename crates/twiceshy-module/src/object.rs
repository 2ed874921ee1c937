//! What a key of the server holds: a filter, and what the server has to know of it. Knows nothing
//! of the server.

use twiceshy::filter::kind_of;
use twiceshy::{Adapted, Digest, Filter, KeyHasher};
use twiceshy_filters::{Error, Result};

use crate::exact::Exact;
use crate::recent::Recent;

/// A filter as a value of the server.
#[derive(Clone)]
pub struct Object {
    pub contents: Contents,
    /// Whether it may take more keys than it was made for.
    pub scaling: bool,
    /// False positives that were fixed, since it was made.
    adaptations: u64,
}

#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "most objects are the large one, and all are boxed")]
pub enum Contents {
    /// Without its keys; it adapts by noting exceptions.
    Alone { filter: Filter, recent: Recent },
    /// With the digests of its keys.
    Exact(Box<Exact>),
    /// Chunks of `AF.LOADCHUNK`, of which more are to come.
    Arriving(Vec<u8>),
}

/// What a filter is made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub rate: f64,
    pub capacity: usize,
    pub scaling: bool,
    pub remote: Remote,
    /// False positives to keep at least.
    pub exceptions: Option<usize>,
    pub hasher: KeyHasher,
}

/// Where the keys of a filter are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    None,
    Memory,
}

/// Bits of the table for one exception: a set, which holds five, and its index. With one exception
/// per set on average, 1 in 1,400 finds its set full (Poisson).
const EXCEPTION_BITS: f64 = 68.0 * 8.0;

/// The fewest and the most bits of exceptions per key that a table can have.
const LEAST_BITS: f64 = 0.01;
const MOST_BITS: f64 = 65536.0;

/// What is known of a filter, by `AF.INFO`.
pub struct Info {
    pub capacity: usize,
    pub bytes: usize,
    pub filters: usize,
    pub items: usize,
    pub rate: f64,
    pub remote: Remote,
    pub adaptations: u64,
    pub exceptions: usize,
    pub exceptions_room: usize,
}

/// What an object takes beside a filter without its keys.
fn beside(recent: &Recent) -> usize {
    size_of::<Object>() - size_of::<Filter>() + recent.bytes()
}

const ARRIVING: &str = "it is being loaded; send the remaining chunks with AF.LOADCHUNK";

impl Object {
    /// An empty filter.
    ///
    /// # Errors
    /// [`Error::Spec`] for numbers that a filter cannot have.
    pub fn new(wanted: &Wanted) -> Result<Self> {
        let Wanted { rate, capacity, scaling, remote, exceptions, ref hasher } = *wanted;
        let contents = match remote {
            Remote::Memory if exceptions.is_some() => {
                let reason = "with REMOTE memory a filter adapts without them; leave them out";
                return Err(Error::spec("EXCEPTIONS", reason));
            }
            Remote::Memory => {
                Contents::Exact(Box::new(Exact::new(hasher.clone(), rate, capacity, scaling)?))
            }
            Remote::None => {
                let builder =
                    Filter::builder().capacity(capacity).rate(rate).hasher(hasher.clone());
                let filter = match exceptions {
                    None => builder,
                    Some(0) => builder.exceptions(0.0),
                    Some(count) => {
                        let bits = count as f64 * EXCEPTION_BITS / capacity.max(1) as f64;
                        builder.exceptions(bits.clamp(LEAST_BITS, MOST_BITS))
                    }
                };
                Self::alone(filter.build()?)
            }
        };
        Ok(Object { contents, scaling, adaptations: 0 })
    }

    fn alone(filter: Filter) -> Contents {
        let recent = Recent::for_capacity(filter.stats().capacity);
        Contents::Alone { filter, recent }
    }

    /// A filter from its file.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are none.
    pub fn from_file(bytes: &[u8], scaling: bool, adaptations: u64) -> Result<Self> {
        let contents = match kind_of(bytes)? {
            "filter" => Self::alone(Filter::from_bytes(bytes)?),
            _ => Contents::Exact(Box::new(Exact::from_bytes(bytes)?)),
        };
        Ok(Object { contents, scaling, adaptations })
    }

    /// The bytes of its file, which the command line reads, and Python if it has no remote. While
    /// it arrives: the bytes that have come.
    pub fn to_file(&self) -> Vec<u8> {
        match &self.contents {
            Contents::Alone { filter, .. } => filter.to_bytes(),
            Contents::Exact(exact) => exact.to_bytes(),
            Contents::Arriving(bytes) => bytes.clone(),
        }
    }

    /// The first chunks of a file.
    pub fn arriving(bytes: Vec<u8>, scaling: bool, adaptations: u64) -> Self {
        Object { contents: Contents::Arriving(bytes), scaling, adaptations }
    }

    pub fn is_arriving(&self) -> bool {
        matches!(self.contents, Contents::Arriving(_))
    }

    /// Whether an item may be stored.
    ///
    /// # Errors
    /// [`Error::Format`] while it arrives, as all operations.
    pub fn contains(&self, item: &[u8]) -> Result<bool> {
        match &self.contents {
            // A read that changed anything would make replicas differ.
            Contents::Alone { filter, .. } => Ok(filter.peek(item)),
            Contents::Exact(exact) => Ok(exact.contains(exact.hasher().digest(item))),
            Contents::Arriving(_) => Err(Error::format(ARRIVING)),
        }
    }

    /// [`Object::contains`] for many items.
    ///
    /// # Errors
    /// Likewise.
    pub fn contains_many(&self, items: &[&[u8]]) -> Result<Vec<bool>> {
        match &self.contents {
            Contents::Alone { filter, .. } => Ok(filter.peek_many(items)),
            Contents::Exact(exact) => {
                let digests: Vec<Digest> =
                    items.iter().map(|item| exact.hasher().digest(item)).collect();
                Ok(exact.contains_many(&digests))
            }
            Contents::Arriving(_) => Err(Error::format(ARRIVING)),
        }
    }

    /// Adds an item; `false` when it may be stored already (`REMOTE none`) or is (`memory`).
    ///
    /// # Errors
    /// [`Error::Full`] if it would take more than `most_bytes`, or may not grow.
    pub fn add(&mut self, item: &[u8], most_bytes: usize) -> Result<bool> {
        match &mut self.contents {
            Contents::Alone { filter, recent } => {
                let limit = most_bytes.saturating_sub(beside(recent));
                let added = filter.insert_within(item, if self.scaling { limit } else { 0 })?;
                recent.note(filter.hasher().digest(item));
                Ok(added)
            }
            Contents::Exact(exact) => {
                let digest = exact.hasher().digest(item);
                exact.insert(digest, self.scaling, most_bytes)
            }
            Contents::Arriving(_) => Err(Error::format(ARRIVING)),
        }
    }

    /// Reports that an item which was answered "maybe" is not stored.
    ///
    /// # Errors
    /// Likewise.
    pub fn adapt(&mut self, item: &[u8]) -> Result<Adapted> {
        let adapted = match &mut self.contents {
            Contents::Alone { filter, recent } => {
                if !filter.peek(item) {
                    Adapted::Absent
                } else if recent.has(filter.hasher().digest(item)) {
                    Adapted::Stored
                } else if filter.adapt(item) {
                    Adapted::Fixed
                } else {
                    Adapted::Unfixed
                }
            }
            Contents::Exact(exact) => exact.adapt(exact.hasher().digest(item))?,
            Contents::Arriving(_) => return Err(Error::format(ARRIVING)),
        };
        self.adaptations += u64::from(adapted == Adapted::Fixed);
        Ok(adapted)
    }

    /// Removes an item; `false` when it is not stored.
    ///
    /// # Errors
    /// [`Error::Spec`] for a filter without its keys.
    pub fn remove(&mut self, item: &[u8]) -> Result<bool> {
        match &mut self.contents {
            Contents::Exact(exact) => exact.remove(exact.hasher().digest(item)),
            Contents::Alone { .. } => Err(Error::spec(
                "REMOTE none",
                "without its keys a filter cannot remove one of them; reserve it with REMOTE memory",
            )),
            Contents::Arriving(_) => Err(Error::format(ARRIVING)),
        }
    }

    /// Adds the keys of another filter.
    ///
    /// # Errors
    /// [`Error::Spec`] if the two have different secrets or remotes, and [`Error::Full`].
    pub fn absorb(&mut self, other: &Object, most_bytes: usize) -> Result<()> {
        let reason = "filters can be merged if they were reserved with the same SECRET and REMOTE";
        match (&mut self.contents, &other.contents) {
            (Contents::Alone { filter, recent }, Contents::Alone { filter: other, .. })
                if filter.hasher() == other.hasher() =>
            {
                let (ours, theirs) = (filter.stats(), other.stats());
                if ours.bytes + theirs.bytes > most_bytes.saturating_sub(beside(recent)) {
                    let digest = Digest::default();
                    return Err(Error::Full { digest, len: ours.len, capacity: ours.capacity });
                }
                filter.absorb(other.clone())
            }
            (Contents::Exact(exact), Contents::Exact(other))
                if exact.hasher() == other.hasher() =>
            {
                exact.absorb(other, most_bytes)
            }
            _ => Err(Error::spec("another filter", reason)),
        }
    }

    /// All memory that it takes.
    pub fn bytes(&self) -> usize {
        match &self.contents {
            Contents::Alone { filter, recent } => filter.stats().bytes + beside(recent),
            Contents::Exact(exact) => size_of::<Self>() + exact.bytes(),
            Contents::Arriving(bytes) => size_of::<Self>() + bytes.capacity(),
        }
    }

    /// # Errors
    /// Likewise.
    pub fn info(&self) -> Result<Info> {
        let bytes = self.bytes();
        match &self.contents {
            Contents::Alone { filter, .. } => {
                let stats = filter.stats();
                Ok(Info {
                    capacity: stats.capacity,
                    bytes,
                    filters: stats.layers,
                    items: stats.len,
                    rate: stats.rate,
                    remote: Remote::None,
                    adaptations: self.adaptations,
                    exceptions: stats.exceptions,
                    exceptions_room: stats.exceptions_room,
                })
            }
            Contents::Exact(exact) => Ok(Info {
                capacity: exact.capacity(),
                bytes,
                filters: 1,
                items: exact.len(),
                rate: exact.rate(),
                remote: Remote::Memory,
                adaptations: self.adaptations,
                exceptions: 0,
                exceptions_room: 0,
            }),
            Contents::Arriving(_) => Err(Error::format(ARRIVING)),
        }
    }

    pub fn adaptations(&self) -> u64 {
        self.adaptations
    }

    /// The number of items.
    ///
    /// # Errors
    /// Likewise.
    pub fn len(&self) -> Result<usize> {
        match &self.contents {
            Contents::Alone { filter, .. } => Ok(filter.len()),
            Contents::Exact(exact) => Ok(exact.len()),
            Contents::Arriving(_) => Err(Error::format(ARRIVING)),
        }
    }

    /// About how many pieces of memory it is in, or how long freeing them takes in these units.
    pub fn pieces(&self) -> usize {
        match &self.contents {
            Contents::Exact(exact) => 1 + exact.len() / 64,
            // Large pieces take the system about a microsecond per 16 KiB.
            _ => 1 + self.bytes() / (16 << 10),
        }
    }
}
