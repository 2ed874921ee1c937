//! A filter that is picked at run time, with its remote in memory.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::any::Any;

use crate::broom::{Broom, FaithfulBroom};
use crate::cuckoo::{Cuckooing, Cyclic, Plain, PlainFull, Simplified, Swapping};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, Filter, Stats};
use crate::format::{Reader, Writer};
use crate::quotient::{Extending, Layout, Rsqf, Telescoping, Uncompressed};
use crate::remote::{Accesses, MemoryMirror, MemorySet, Mirror, Ordered};
use crate::remote::{Indexed, MemoryIndex};
use crate::spec::{Form, Kind, Spec};

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
    whole: Box<dyn Whole + Send + Sync>,
}

/// What [`AnyFilter::save`] writes.
const SAVED_KIND: &str = "filter and remote";

impl AnyFilter {
    pub(crate) fn new(spec: Spec, capacity: usize, bins: usize) -> Self {
        let whole = make(spec, Source::Empty { capacity, bins });
        AnyFilter { whole: whole.expect("an empty filter needs nothing") }
    }

    /// `false`: surely absent. `true`: maybe present.
    #[must_use]
    pub fn contains(&self, digest: Digest) -> bool {
        self.whole.contains(digest)
    }

    /// [`Filter::contains_many`].
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
        self.whole.spec()
    }

    /// How often the remote was asked so far.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        self.whole.accesses()
    }

    /// How much was learned from false positives, as a histogram: entry `i` is the
    /// number of stored keys with selector `i` (telescoping, uncompressed, cyclic,
    /// varying) or with an extension of `i` bits (extension), or of groups of 64
    /// quotients with `i` adaptivity bits (broom). Empty for a filter that has
    /// nothing of the kind. For statistics: it reads all of the filter.
    #[must_use]
    pub fn learned(&self) -> Vec<usize> {
        let whole: &dyn Any = &*self.whole;
        if let Some(pair) = whole.downcast_ref::<Pair<Telescoping, MemorySet>>() {
            histogram(pair.filter.symbols().map(usize::from))
        } else if let Some(pair) = whole.downcast_ref::<Pair<Uncompressed, MemorySet>>() {
            histogram(pair.filter.symbols().map(usize::from))
        } else if let Some(pair) = whole.downcast_ref::<Pair<Extending, MemorySet>>() {
            histogram(pair.filter.symbols().map(|extension| extension.length.into()))
        } else if let Some(pair) = whole.downcast_ref::<Pair<Cyclic, MemoryMirror>>() {
            histogram(pair.filter.selectors().map(|selector| selector as usize))
        } else if let Some(pair) = whole.downcast_ref::<Pair<Broom, MemorySet>>() {
            histogram(pair.filter.adaptivity_bits().map(|bits| bits as usize))
        } else if let Some(pair) = whole.downcast_ref::<Pair<FaithfulBroom, MemoryIndex>>() {
            histogram(pair.filter.adaptivity_bits().map(|bits| bits as usize))
        } else {
            Vec::new()
        }
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
        let spec = spec_of(&filter)?;
        let mut whole = make(spec, Source::Saved { filter, remote })?;
        whole.check().map_err(Error::format)?;
        Ok(AnyFilter { whole })
    }
}

impl core::fmt::Debug for AnyFilter {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "AnyFilter({}, {:?})", self.spec(), self.stats())
    }
}

/// How often each number comes.
fn histogram(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts = Vec::new();
    for number in numbers {
        if number >= counts.len() {
            counts.resize(number + 1, 0);
        }
        counts[number] += 1;
    }
    counts
}

/// The description of the filter in a file.
pub(crate) fn spec_of(reader: &Reader<'_>) -> Result<Spec> {
    let kind = reader.kind();
    let spec: Spec = kind.parse().map_err(|error: Error| Error::format(error.to_string()))?;
    // Nobody has written "f=+8", or a parameter twice.
    if spec.to_string() != kind {
        return Err(Error::format(format!("its kind is \"{kind}\" in place of \"{spec}\"")));
    }
    Ok(spec)
}

/// A filter of one type, made or read.
pub(crate) trait Build: Filter + Sized {
    fn empty(spec: Spec, capacity: usize, bins: usize) -> Self;
    fn read(spec: Spec, reader: Reader<'_>) -> Result<Self>;
}

/// A remote in memory, of the kind that a filter needs.
trait InMemory<R: ?Sized>: Sized {
    /// An empty one for a filter.
    fn behind(filter: &Stats) -> Self;
    fn open(bytes: &[u8]) -> Result<Self>;
    fn to_bytes(&self) -> Vec<u8>;
    /// Whether it can stand behind a filter of that many cells.
    fn fits(&self, cells: usize) -> bool;
    fn remote(&mut self) -> &mut R;
    fn accesses(&self) -> Accesses;
}

impl InMemory<dyn Mirror> for MemoryMirror {
    fn behind(filter: &Stats) -> Self {
        MemoryMirror::new(filter.cells)
    }

    fn open(bytes: &[u8]) -> Result<Self> {
        MemoryMirror::load(bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.save()
    }

    fn fits(&self, cells: usize) -> bool {
        self.cells() == cells
    }

    fn remote(&mut self) -> &mut (dyn Mirror + 'static) {
        self
    }

    fn accesses(&self) -> Accesses {
        Mirror::accesses(self)
    }
}

impl InMemory<dyn Ordered> for MemorySet {
    fn behind(filter: &Stats) -> Self {
        MemorySet::with_capacity(filter.capacity)
    }

    fn open(bytes: &[u8]) -> Result<Self> {
        MemorySet::load(bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.save()
    }

    fn fits(&self, _: usize) -> bool {
        true
    }

    fn remote(&mut self) -> &mut (dyn Ordered + 'static) {
        self
    }

    fn accesses(&self) -> Accesses {
        Ordered::accesses(self)
    }
}

impl InMemory<dyn Indexed> for MemoryIndex {
    fn behind(_: &Stats) -> Self {
        MemoryIndex::new()
    }

    fn open(bytes: &[u8]) -> Result<Self> {
        MemoryIndex::load(bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.save()
    }

    fn fits(&self, _: usize) -> bool {
        true
    }

    fn remote(&mut self) -> &mut (dyn Indexed + 'static) {
        self
    }

    fn accesses(&self) -> Accesses {
        Indexed::accesses(self)
    }
}

/// A filter with its remote, whatever their types.
trait Whole: Any {
    fn contains(&self, digest: Digest) -> bool;
    fn contains_many(&self, digests: &[Digest], found: &mut [bool]);
    fn insert(&mut self, digest: Digest) -> Result<bool>;
    fn remove(&mut self, digest: Digest) -> Result<bool>;
    fn adapt(&mut self, digest: Digest) -> Result<Adapted>;
    fn grow(&mut self, capacity: usize) -> Result<()>;
    fn rebuild(&mut self) -> Result<()>;
    fn stats(&self) -> Stats;
    fn spec(&self) -> Spec;
    fn accesses(&self) -> Accesses;
    fn save(&self) -> (Vec<u8>, Vec<u8>);
    fn check(&mut self) -> Result<(), String>;
}

struct Pair<F, M> {
    filter: F,
    memory: M,
}

impl<F: Filter + 'static, M: InMemory<F::Remote> + 'static> Whole for Pair<F, M> {
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

    fn spec(&self) -> Spec {
        self.filter.spec()
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

/// The one place where a kind becomes a type.
fn make(spec: Spec, source: Source<'_>) -> Result<BoxedWhole> {
    match spec.kind() {
        Kind::Plain => pair::<Plain, MemorySet>(spec, source),
        Kind::Simplified => pair::<Simplified, MemorySet>(spec, source),
        Kind::PlainFull => pair::<PlainFull, MemoryMirror>(spec, source),
        Kind::Cyclic | Kind::Varying => pair::<Cyclic, MemoryMirror>(spec, source),
        Kind::Swapping => pair::<Swapping, MemoryMirror>(spec, source),
        Kind::Cuckooing => pair::<Cuckooing, MemoryMirror>(spec, source),
        Kind::Rsqf => pair::<Rsqf, MemorySet>(spec, source),
        Kind::Telescoping => pair::<Telescoping, MemorySet>(spec, source),
        Kind::Uncompressed => pair::<Uncompressed, MemorySet>(spec, source),
        Kind::Extension => pair::<Extending, MemorySet>(spec, source),
        Kind::Broom => match spec.form {
            Form::Practical => pair::<Broom, MemorySet>(spec, source),
            Form::Faithful => pair::<FaithfulBroom, MemoryIndex>(spec, source),
        },
    }
}

/// A filter whose remote is the bare set of digests: another can be built from
/// it while the first one answers.
pub(crate) trait Grow: Filter<Remote = dyn Ordered> + Sized {
    /// Where its blocks are, if it has them in the order of digests.
    fn layout(&self) -> Option<Layout> {
        None
    }

    /// The same keys in a filter for `capacity` of them; see [`Filter::grow`].
    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self>;
}

/// Any filter whose remote is the bare set of digests.
pub trait OrderedFilter: Filter<Remote = dyn Ordered> + Send + Sync {
    /// [`Grow::layout`].
    fn layout(&self) -> Option<Layout>;

    /// [`Grow::grown`].
    fn larger(
        &self,
        capacity: usize,
        remote: &mut (dyn Ordered + 'static),
    ) -> Result<Box<dyn OrderedFilter>>;
}

impl<F: Grow + Send + Sync + 'static> OrderedFilter for F {
    fn layout(&self) -> Option<Layout> {
        Grow::layout(self)
    }

    fn larger(
        &self,
        capacity: usize,
        remote: &mut (dyn Ordered + 'static),
    ) -> Result<Box<dyn OrderedFilter>> {
        Ok(Box::new(self.grown(capacity, remote)?))
    }
}

/// An empty filter in front of a bare set of digests.
///
/// # Errors
/// [`Error::Spec`] for a kind that needs to know more, or a capacity of nothing.
pub fn ordered(spec: Spec, capacity: usize) -> Result<Box<dyn OrderedFilter>> {
    let bins = spec.bins_for(capacity)?;
    make_ordered(spec, Origin::Empty { capacity, bins })
}

/// The filter in a file, if it is one in front of a bare set of digests.
///
/// # Errors
/// [`Error::Format`], [`Error::Spec`].
pub fn load_ordered(bytes: &[u8]) -> Result<Box<dyn OrderedFilter>> {
    let reader = Reader::open(bytes)?;
    make_ordered(spec_of(&reader)?, Origin::Saved(reader))
}

fn make_ordered(spec: Spec, origin: Origin<'_>) -> Result<Box<dyn OrderedFilter>> {
    Ok(match (spec.kind(), spec.form) {
        (Kind::Plain, _) => Box::new(built::<Plain>(spec, origin)?),
        (Kind::Simplified, _) => Box::new(built::<Simplified>(spec, origin)?),
        (Kind::Rsqf, _) => Box::new(built::<Rsqf>(spec, origin)?),
        (Kind::Telescoping, _) => Box::new(built::<Telescoping>(spec, origin)?),
        (Kind::Uncompressed, _) => Box::new(built::<Uncompressed>(spec, origin)?),
        (Kind::Extension, _) => Box::new(built::<Extending>(spec, origin)?),
        (Kind::Broom, Form::Practical) => Box::new(built::<Broom>(spec, origin)?),
        _ => {
            let reason = "its remote is more than a store in digest order; use telescoping, \
                          uncompressed, extension, broom (form=practical), rsqf, plain or \
                          simplified";
            return Err(Error::spec(spec.to_string(), reason));
        }
    })
}

/// Where a filter alone comes from.
enum Origin<'a> {
    Empty { capacity: usize, bins: usize },
    Saved(Reader<'a>),
}

fn built<F: Build>(spec: Spec, origin: Origin<'_>) -> Result<F> {
    match origin {
        Origin::Empty { capacity, bins } => Ok(F::empty(spec, capacity, bins)),
        Origin::Saved(reader) => F::read(spec, reader),
    }
}

fn pair<F, M>(spec: Spec, source: Source<'_>) -> Result<BoxedWhole>
where
    F: Build + Send + Sync + 'static,
    M: InMemory<F::Remote> + Send + Sync + 'static,
{
    let pair: Pair<F, M> = match source {
        Source::Empty { capacity, bins } => {
            let filter: F = built(spec, Origin::Empty { capacity, bins })?;
            let memory = M::behind(&filter.stats());
            Pair { filter, memory }
        }
        Source::Saved { filter, remote } => {
            Pair { filter: built(spec, Origin::Saved(filter))?, memory: M::open(remote)? }
        }
    };
    if !pair.memory.fits(pair.filter.stats().cells) {
        return Err(Error::format("its remote is that of a filter of another size"));
    }
    Ok(Box::new(pair))
}
