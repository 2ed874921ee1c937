//! Remotes: the exact set of stored keys, large and slow, as a filter sees it.
//!
//! Adaptive cuckoo filters need a [`Mirror`], which knows the digest in each cell. Quotient and
//! broom filters can be rebuilt from the bare set and need an [`Ordered`] remote.
//!
//! A remote may fail. Filters therefore read and plan first, then make *one* write, and change
//! themselves only when it has succeeded. All they ask of a remote is that each write is atomic.

mod indexed;

use alloc::format;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::bits::packed::Packed;
use crate::bits::pages::filled;
use crate::bits::prefetch::prefetch;
use crate::digest::Digest;
use crate::digest_set::DigestSet;
use crate::error::{Error, RemoteError, Result};
use crate::format::{Reader, Writer};

pub use indexed::{Entry, Indexed, MemoryIndex};

/// The number of remote accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Records read.
    pub reads: u64,
    /// Records written or removed.
    pub writes: u64,
}

/// A cell, and the digest that it is to hold or `None` to empty it.
pub(crate) type Write = (usize, Option<Digest>);

/// A remote that mirrors a filter cell by cell: it knows the digest in each.
///
/// Where filter and mirror disagree, the mirror is right and the filter is rebuilt from it. A
/// digest is in at most one cell. A digest in two cells is still answered "maybe", but has to be
/// removed twice; [`DigestFilter::check`](crate::DigestFilter::check) reports it, and growing or
/// rebuilding the filter puts it into one cell again.
pub trait Mirror {
    /// The digest stored in a cell, or `None` for an empty one.
    ///
    /// # Errors
    /// When the remote cannot answer.
    fn get(&mut self, cell: usize) -> Result<Option<Digest>, RemoteError>;

    /// Hints that this cell, or a later one of its bin, is about to be read or written. A remote
    /// in memory can prefetch it; others ignore the hint. It is not counted as an access and
    /// changes nothing.
    fn prefetch(&self, _cell: usize) {}

    /// Stores digests in cells, or empties the cells that come with `None`. Atomic: after an
    /// error none of them has changed.
    ///
    /// # Errors
    /// When the remote cannot write.
    fn put(&mut self, writes: &[(usize, Option<Digest>)]) -> Result<(), RemoteError>;

    /// Replaces all cells by a new layout, which may have another number of cells. Atomic: after
    /// an error nothing has changed.
    ///
    /// # Errors
    /// When the remote cannot write.
    fn replace(&mut self, layout: MemoryMirror) -> Result<(), RemoteError>;

    /// Visits every stored digest.
    ///
    /// # Errors
    /// When the remote cannot read.
    fn visit(&mut self, visitor: &mut dyn FnMut(Digest)) -> Result<(), RemoteError>;

    /// The number of accesses so far.
    fn accesses(&self) -> Accesses;
}

/// A remote that holds the stored digests in order.
pub trait Ordered {
    /// Adds a digest; if it is there, nothing changes.
    ///
    /// # Errors
    /// When the remote cannot write; it is then unchanged.
    fn insert(&mut self, digest: Digest) -> Result<(), RemoteError>;

    /// Hints that this digest is about to be inserted, while the filter waits for memory of its
    /// own. A remote can prefetch or finish deferred work; others ignore the hint. It is not
    /// counted as an access, and no answer changes.
    fn prepare(&mut self, _digest: Digest) {}

    /// Removes a digest; `false` when it was not there.
    ///
    /// # Errors
    /// When the remote cannot write; it is then unchanged.
    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError>;

    /// Visits every stored digest in the range, in order.
    ///
    /// # Errors
    /// When the remote cannot read.
    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError>;

    /// The number of accesses so far.
    fn accesses(&self) -> Accesses;
}

/// The digests that a remote visits.
pub(crate) fn collected(
    visit: impl FnOnce(&mut dyn FnMut(Digest)) -> Result<(), RemoteError>,
) -> Result<Vec<Digest>> {
    let mut digests = Vec::new();
    visit(&mut |digest| digests.push(digest)).map_err(Error::Remote)?;
    Ok(digests)
}

/// Whether an ordered remote has this digest.
pub(crate) fn stored(digest: Digest, remote: &mut dyn Ordered) -> Result<bool> {
    let mut found = false;
    remote.visit(digest..=digest, &mut |_| found = true).map_err(Error::Remote)?;
    Ok(found)
}

/// The error of a filter with keys that its remote does not have: a rebuild would lose them.
pub(crate) fn strangers(held: usize, stored: usize) -> RemoteError {
    format!(
        "it has {stored} digests and the filter {held} fingerprints; keys that were added without \
         a remote cannot be rebuilt from it"
    )
    .into()
}

/// The range of every digest there is.
pub const EVERY_DIGEST: RangeInclusive<Digest> =
    Digest::new([0, 0])..=Digest::new([u64::MAX, u64::MAX]);

/// A [`Mirror`] in memory: 16 bytes and a bit per cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryMirror {
    /// The words of the digests: zeros that the system gives untouched.
    digests: Vec<[u64; 2]>,
    occupied: Packed,
    accesses: Accesses,
}

impl MemoryMirror {
    /// A mirror of that many cells, all empty.
    #[must_use]
    pub fn new(cells: usize) -> Self {
        MemoryMirror {
            digests: filled([0; 2], cells),
            occupied: Packed::new(cells, 1),
            accesses: Accesses::default(),
        }
    }

    /// The number of cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.digests.len()
    }

    /// The occupied cells and their digests, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, Digest)> {
        let occupied = (0..self.cells()).filter(|&cell| self.occupied.get(cell) == 1);
        occupied.map(|cell| (cell, Digest::new(self.digests[cell])))
    }

    /// Its bytes, in the format of `docs/format.md`.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(MIRROR);
        writer.u64(self.cells() as u64);
        writer.block(self.occupied.as_bytes());
        self.iter().for_each(|(_, digest)| write_digest(&mut writer, digest));
        writer.finish()
    }

    /// The mirror that [`MemoryMirror::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are not a saved mirror.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::open(bytes)?;
        reader.expect_kind(MIRROR)?;
        let cells = reader.size("the number of cells")?;
        let bits = reader.block("the occupied cells")?;
        let occupied = Packed::from_bytes(bits, cells, 1).ok_or_else(|| {
            Error::format(format!("{} bytes do not mark {cells} cells", bits.len()))
        })?;
        let mut digests = filled([0; 2], cells);
        for cell in (0..cells).filter(|&cell| occupied.get(cell) == 1) {
            digests[cell] = read_digest(&mut reader)?.words();
        }
        reader.finish()?;
        let mirror = MemoryMirror { digests, occupied, accesses: Accesses::default() };
        let mut sorted: Vec<Digest> = mirror.iter().map(|(_, digest)| digest).collect();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            let digest = twice[0];
            return Err(Error::format(format!("its mirror has {digest:?} in two cells")));
        }
        Ok(mirror)
    }
}

impl Mirror for MemoryMirror {
    fn get(&mut self, cell: usize) -> Result<Option<Digest>, RemoteError> {
        self.accesses.reads += 1;
        Ok((self.occupied.get(cell) == 1).then(|| Digest::new(self.digests[cell])))
    }

    fn prefetch(&self, cell: usize) {
        prefetch(&self.digests, cell);
    }

    fn put(&mut self, writes: &[Write]) -> Result<(), RemoteError> {
        self.accesses.writes += writes.len() as u64;
        for &(cell, content) in writes {
            self.occupied.set(cell, u64::from(content.is_some()));
            self.digests[cell] = content.unwrap_or_default().words();
        }
        Ok(())
    }

    fn replace(&mut self, layout: MemoryMirror) -> Result<(), RemoteError> {
        self.accesses.writes += layout.cells() as u64;
        self.digests = layout.digests;
        self.occupied = layout.occupied;
        Ok(())
    }

    fn visit(&mut self, visitor: &mut dyn FnMut(Digest)) -> Result<(), RemoteError> {
        self.accesses.reads += self.cells() as u64;
        self.iter().for_each(|(_, digest)| visitor(digest));
        Ok(())
    }

    fn accesses(&self) -> Accesses {
        self.accesses
    }
}

/// An [`Ordered`] remote in memory: 16 to 20 bytes per digest, from a few thousand digests on. A
/// set made [with a capacity](MemorySet::with_capacity) takes that memory from the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemorySet {
    digests: DigestSet,
    accesses: Accesses,
}

impl MemorySet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty set with room for `capacity` digests, 19.7 bytes each from the start. Up to that
    /// number, insertions take at most half as long as into a growing set. One more digest, or
    /// digests that are not uniformly distributed, turn it into a growing set: that moves all
    /// digests once, and needs a temporary list of them.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        MemorySet { digests: DigestSet::with_capacity(capacity), ..Self::default() }
    }

    /// The number of digests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// Whether it has no digest.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All digests in order; not counted as an access.
    pub fn iter(&self) -> impl Iterator<Item = Digest> {
        self.digests.iter()
    }

    /// The heap memory that it holds now, in bits, including unused room and allocator overhead.
    #[must_use]
    pub fn bits(&self) -> usize {
        self.digests.bits()
    }

    /// Its bytes, in the format of `docs/format.md`.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(SET);
        writer.u64(self.digests.len() as u64);
        self.digests.iter().for_each(|digest| write_digest(&mut writer, digest));
        writer.finish()
    }

    /// The set that [`MemorySet::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are not a saved set.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::open(bytes)?;
        reader.expect_kind(SET)?;
        let len = reader.count("digests", 16)?;
        let digests: Vec<Digest> =
            (0..len).map(|_| read_digest(&mut reader)).collect::<Result<_>>()?;
        reader.finish()?;
        if !digests.is_sorted_by(|a, b| a < b) {
            return Err(Error::format("the digests of a set are out of order"));
        }
        Ok(MemorySet { digests: DigestSet::from_sorted(&digests), accesses: Accesses::default() })
    }
}

impl Ordered for MemorySet {
    fn insert(&mut self, digest: Digest) -> Result<(), RemoteError> {
        self.accesses.writes += 1;
        self.digests.insert(digest);
        Ok(())
    }

    fn prepare(&mut self, digest: Digest) {
        self.digests.prepare(digest);
    }

    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError> {
        self.accesses.writes += 1;
        Ok(self.digests.remove(digest))
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        // One for the seek, also when it finds nothing.
        self.accesses.reads += 1;
        self.digests.visit(range, visitor);
        Ok(())
    }

    fn accesses(&self) -> Accesses {
        self.accesses
    }
}

/// The kinds of the two files.
const MIRROR: &str = "mirror";
const SET: &str = "set";

pub(crate) fn write_digest(writer: &mut Writer, digest: Digest) {
    digest.words().into_iter().for_each(|word| writer.u64(word));
}

pub(crate) fn read_digest(reader: &mut Reader<'_>) -> Result<Digest> {
    Ok(Digest::new([reader.u64("a digest")?, reader.u64("a digest")?]))
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn a_set_in_memory_agrees_with_a_tree_set_and_its_own_file() {
        let mut rng = Rng::new(12);
        let (mut set, mut oracle) = (MemorySet::new(), BTreeSet::new());
        let mut expected = Accesses::default();
        for step in 0..if cfg!(miri) { 300 } else { 20_000 } {
            let digest = Digest::new([rng.below(5000) << 51, rng.below(2)]);
            if rng.below(3) > 0 {
                set.insert(digest).expect("memory");
                oracle.insert(digest);
            } else {
                assert_eq!(set.remove(digest).expect("memory"), oracle.remove(&digest));
            }
            let end = Digest::new([digest.words()[0] | 1 << 56, u64::MAX]);
            let mut visited = Vec::new();
            set.visit(digest..=end, &mut |digest| visited.push(digest)).expect("memory");
            assert!(visited.iter().eq(oracle.range(digest..=end)), "from {digest:?}");
            expected = Accesses { reads: expected.reads + 1, writes: expected.writes + 1 };
            assert_eq!(set.accesses(), expected);
            assert_eq!((set.len(), set.is_empty()), (oracle.len(), oracle.is_empty()));
            if step % 500 == 0 {
                let bytes = set.save();
                set = MemorySet::load(&bytes).expect("what was saved");
                assert_eq!(set.save(), bytes);
                expected = Accesses::default();
            }
        }
        assert!((16 * 8 * set.len()..20 * 8 * set.len()).contains(&set.bits()), "{}", set.bits());
    }

    #[test]
    fn a_range_that_ends_before_it_starts_has_nothing() {
        let (low, high) = (Digest::new([1, 0]), Digest::new([2, 0]));
        let mut set = MemorySet::new();
        set.insert(low).expect("memory");
        set.insert(high).expect("memory");
        set.visit(high..=low, &mut |digest| panic!("{digest:?}")).expect("memory");
    }
}
