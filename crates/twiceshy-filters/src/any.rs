//! A filter that is picked at run time, with its remote in memory.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use crate::catalogue::{Spec, Visitor};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, Stats};
use crate::format::{Reader, Writer};
use crate::make::Build;
use crate::memory::InMemory;
use crate::params;
use crate::remote::Accesses;
use crate::rng::Rng;

/// Any filter, picked by a [`Spec`], with its remote in memory.
///
/// ```
/// use twiceshy_filters::{Adapted, KeyHasher, Spec};
/// let mut filter = "swapping:f=8".parse::<Spec>()?.build(1000)?;
/// let hasher = KeyHasher::random();
/// filter.insert(hasher.digest("stored"))?;
/// let missing = hasher.digest("missing");
/// if filter.contains(missing) {
///     filter.adapt(missing)?; // the store had no such key
/// }
/// # Ok::<(), twiceshy_filters::Error>(())
/// ```
pub struct AnyFilter {
    spec: Spec,
    whole: BoxedWhole,
}

/// [`AnyFilter::outlook`].
#[doc(hidden)]
pub struct Outlook {
    /// How many values a key may come to leave in its bin, at most 32: one for each selector of a
    /// cyclic or varying filter, one for each cell of a swapping filter's bin.
    pub variants: u32,
    /// What a swapping filter draws cells with.
    pub coins: Option<Rng>,
    pub(crate) collisions: Collisions,
}

pub(crate) type Collisions = Box<dyn Fn(Digest, &mut dyn FnMut(usize, u32))>;

impl Outlook {
    /// Calls `found` with each stored key that an absent digest may ever collide with: its present
    /// cell, and a bit for each variant of which both have the same.
    pub fn collisions(&self, digest: Digest, found: &mut dyn FnMut(usize, u32)) {
        (self.collisions)(digest, found);
    }

    /// Whether there are any: otherwise it is answered "absent" whatever was asked before.
    #[must_use]
    pub fn may(&self, digest: Digest) -> bool {
        let mut any = false;
        self.collisions(digest, &mut |_, _| any = true);
        any
    }
}

/// What [`AnyFilter::save`] writes.
pub const SAVED_KIND: &str = "filter and remote";

impl AnyFilter {
    pub(crate) fn new(spec: Spec, capacity: usize, bins: usize) -> Self {
        let whole = make(spec, Source::Empty { capacity, bins });
        AnyFilter { spec, whole: whole.expect("an empty filter needs nothing") }
    }

    /// `false`: surely absent. `true`: maybe present.
    #[must_use]
    pub fn contains(&self, digest: Digest) -> bool {
        self.whole.contains(digest)
    }

    /// [`DigestFilter::contains_many`](crate::DigestFilter::contains_many).
    ///
    /// # Panics
    /// If `found` is not as long as `digests`.
    pub fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        self.whole.contains_many(digests, found);
    }

    /// Adds a digest; `false` when it was stored already.
    ///
    /// # Errors
    /// [`Error::Full`] hands the digest back.
    pub fn insert(&mut self, digest: Digest) -> Result<bool> {
        self.whole.insert(digest)
    }

    /// Removes a digest; `false` when it was not stored.
    ///
    /// # Errors
    /// None as long as the remote is in memory.
    pub fn remove(&mut self, digest: Digest) -> Result<bool> {
        self.whole.remove(digest)
    }

    /// Tells the filter of a positive answer that may have been false.
    ///
    /// # Errors
    /// None as long as the remote is in memory.
    pub fn adapt(&mut self, digest: Digest) -> Result<Adapted> {
        self.whole.adapt(digest)
    }

    /// Makes room for at least `capacity` keys, with new hash functions.
    ///
    /// # Errors
    /// [`Error::Spec`] when the stored keys do not fit that capacity.
    pub fn grow(&mut self, capacity: usize) -> Result<()> {
        self.whole.grow(capacity)
    }

    /// Builds the filter again, with new hash functions.
    ///
    /// # Errors
    /// [`Error::Spec`] when the stored keys fit none that were tried.
    pub fn rebuild(&mut self) -> Result<()> {
        self.whole.rebuild()
    }

    /// Counts and sizes of the filter, without its remote.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.whole.stats()
    }

    /// The description that builds a filter like this.
    #[must_use]
    pub fn spec(&self) -> Spec {
        self.spec
    }

    /// How often the remote was asked so far.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        self.whole.accesses()
    }

    /// How far the filter has adapted, as a histogram: entry `i` counts the
    /// [units](Spec::state_unit) in state `i`, such as stored keys with selector `i`.
    /// Empty for filters without such states. For statistics: it reads the whole filter.
    #[must_use]
    pub fn states(&self) -> Vec<usize> {
        self.whole.states()
    }

    /// What it may ever answer "maybe", if its keys stay the same and it is not rebuilt: all other
    /// queries change nothing, so that a simulation can skip them. `None` for filters whose
    /// adaptations take keys elsewhere, or draw without end.
    ///
    /// # Errors
    /// None as long as the remote is in memory.
    #[doc(hidden)]
    pub fn outlook(&mut self) -> Result<Option<Outlook>> {
        self.whole.outlook()
    }

    /// Verifies every invariant; for tests and fuzzers.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&mut self) -> Result<(), String> {
        self.whole.check()
    }

    /// The bytes of filter and remote.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let (filter, remote) = self.whole.save();
        let mut writer = Writer::new(SAVED_KIND);
        writer.block(&filter);
        writer.block(&remote);
        writer.finish()
    }

    /// What [`AnyFilter::save`] wrote. Filter and remote are compared key by
    /// key, so no file, however it came about, can make a filter that denies a
    /// key of its remote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are no saved filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::open(bytes)?;
        reader.expect_kind(SAVED_KIND)?;
        let filter = Reader::open(reader.block("the filter")?)?;
        let remote = reader.block("the remote")?;
        reader.finish()?;
        let spec: Spec = params::in_file(&filter)?;
        let mut whole = make(spec, Source::Saved { filter, remote })?;
        whole.check().map_err(Error::format)?;
        Ok(AnyFilter { spec, whole })
    }
}

impl core::fmt::Debug for AnyFilter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "AnyFilter({}, {:?})", self.spec(), self.stats())
    }
}

/// A filter with its remote, whatever their types.
trait Whole {
    fn contains(&self, digest: Digest) -> bool;
    fn contains_many(&self, digests: &[Digest], found: &mut [bool]);
    fn insert(&mut self, digest: Digest) -> Result<bool>;
    fn remove(&mut self, digest: Digest) -> Result<bool>;
    fn adapt(&mut self, digest: Digest) -> Result<Adapted>;
    fn grow(&mut self, capacity: usize) -> Result<()>;
    fn rebuild(&mut self) -> Result<()>;
    fn stats(&self) -> Stats;
    fn states(&self) -> Vec<usize>;
    fn outlook(&mut self) -> Result<Option<Outlook>>;
    fn accesses(&self) -> Accesses;
    fn save(&self) -> (Vec<u8>, Vec<u8>);
    fn check(&mut self) -> Result<(), String>;
}

struct Pair<F, M> {
    filter: F,
    memory: M,
}

impl<F: Build, M: InMemory<F::Remote>> Whole for Pair<F, M> {
    fn contains(&self, digest: Digest) -> bool {
        self.filter.contains(digest)
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        self.filter.contains_many(digests, found);
    }

    fn insert(&mut self, digest: Digest) -> Result<bool> {
        self.filter.insert(digest, self.memory.remote())
    }

    fn remove(&mut self, digest: Digest) -> Result<bool> {
        self.filter.remove(digest, self.memory.remote())
    }

    fn adapt(&mut self, digest: Digest) -> Result<Adapted> {
        self.filter.adapt(digest, self.memory.remote())
    }

    fn grow(&mut self, capacity: usize) -> Result<()> {
        self.filter.grow(capacity, self.memory.remote())
    }

    fn rebuild(&mut self) -> Result<()> {
        self.filter.rebuild(self.memory.remote())
    }

    fn stats(&self) -> Stats {
        self.filter.stats()
    }

    fn states(&self) -> Vec<usize> {
        self.filter.states()
    }

    fn outlook(&mut self) -> Result<Option<Outlook>> {
        self.filter.outlook(self.memory.remote())
    }

    fn accesses(&self) -> Accesses {
        self.memory.accesses()
    }

    fn save(&self) -> (Vec<u8>, Vec<u8>) {
        (self.filter.save(), self.memory.to_bytes())
    }

    fn check(&mut self) -> Result<(), String> {
        self.filter.check(self.memory.remote())
    }
}

/// Where a filter comes from.
enum Source<'a> {
    Empty { capacity: usize, bins: usize },
    Saved { filter: Reader<'a>, remote: &'a [u8] },
}

type BoxedWhole = Box<dyn Whole + Send + Sync>;

fn make(mut spec: Spec, source: Source<'_>) -> Result<BoxedWhole> {
    spec.visit(source)
}

impl<'a> Visitor<'a> for Source<'_> {
    type Output = Result<BoxedWhole>;

    fn alone<F, M>(self, params: &'a mut F::Params) -> Result<BoxedWhole>
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static,
    {
        let pair: Pair<F, M> = match self {
            Source::Empty { capacity, bins } => {
                let filter = F::empty(*params, capacity, bins);
                let memory = M::behind(&filter.stats());
                Pair { filter, memory }
            }
            Source::Saved { filter, remote } => {
                Pair { filter: F::read(*params, filter)?, memory: M::open(remote)? }
            }
        };
        if !pair.memory.fits(pair.filter.stats().cells) {
            return Err(Error::format("its remote is that of a filter of another size"));
        }
        Ok(Box::new(pair))
    }
}
