//! Remotes: the stored keys as a filter may see them; large, slow, the truth.
//!
//! Filters whose cells only the stored key can explain (the adaptive cuckoo
//! filters) need a [`Mirror`]: which digest sits in which cell. Filters that
//! can be rebuilt from the bare set need an [`Ordered`] one.
//!
//! A remote may fail. Filters therefore first read and plan, then make *one*
//! write, and only when that has succeeded change themselves: a remote has to
//! make each of its writes whole or not at all, and nothing else.

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

/// How often a remote was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Records read.
    pub reads: u64,
    /// Records written or removed.
    pub writes: u64,
}

/// A cell, and the digest that it is to hold or `None` to empty it.
pub(crate) type Write = (usize, Option<Digest>);

/// A remote that mirrors a filter cell by cell: which digest sits in which.
///
/// It is the truth: where filter and mirror disagree, the filter is wrong and
/// is rebuilt from the mirror. A digest is in one cell at most. One that is in two is
/// denied by no filter, but has to be removed twice; [`DigestFilter::check`](crate::DigestFilter::check)
/// finds it, and a filter that grows or is rebuilt puts it into one cell again.
pub trait Mirror {
    /// The digest stored in a cell, or `None` for an empty one.
    ///
    /// # Errors
    /// Whatever keeps the remote from answering.
    fn get(&mut self, cell: usize) -> Result<Option<Digest>, RemoteError>;

    /// Says that a cell, or one of those behind it in its bin, is likely to be asked for
    /// or written soon. A remote that has
    /// to wait for memory can ask for it now; others need not care. It is no access
    /// and changes nothing.
    fn prefetch(&self, _cell: usize) {}

    /// Stores digests in cells, or empties the cells that come with `None`: all of them,
    /// or none and an error.
    ///
    /// # Errors
    /// Whatever keeps the remote from writing.
    fn put(&mut self, writes: &[(usize, Option<Digest>)]) -> Result<(), RemoteError>;

    /// Takes a new layout, of another number of cells perhaps, in place of the
    /// old: whole, or not at all and an error.
    ///
    /// # Errors
    /// Whatever keeps the remote from writing.
    fn replace(&mut self, layout: MemoryMirror) -> Result<(), RemoteError>;

    /// Visits every stored digest.
    ///
    /// # Errors
    /// Whatever keeps the remote from reading.
    fn visit(&mut self, visitor: &mut dyn FnMut(Digest)) -> Result<(), RemoteError>;

    /// How often it was asked so far.
    fn accesses(&self) -> Accesses;
}

/// A remote that holds the stored digests in order.
pub trait Ordered {
    /// Adds a digest; if it is there, nothing changes.
    ///
    /// # Errors
    /// Whatever keeps the remote from writing; it is then unchanged.
    fn insert(&mut self, digest: Digest) -> Result<(), RemoteError>;

    /// Says that a digest is likely to be inserted next, and that the filter is waiting
    /// for memory of its own. A remote can ask for memory now, or do what it has put
    /// off; others need not care. It is no access, and nothing that is seen changes.
    fn prepare(&mut self, _digest: Digest) {}

    /// Removes a digest; `false` when it was not there.
    ///
    /// # Errors
    /// Whatever keeps the remote from writing; it is then unchanged.
    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError>;

    /// Visits every stored digest in the range, in order.
    ///
    /// # Errors
    /// Whatever keeps the remote from reading.
    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError>;

    /// How often it was asked so far.
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

/// Keys that the filter has and the remote has not: a rebuild would lose them.
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

/// A [`Mirror`] in memory: 16 bytes and a bit for each cell.
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

    /// Cells it mirrors.
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
    /// [`Error::Format`] for bytes that are no saved mirror.
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

/// An [`Ordered`] remote in memory: 16 bytes a digest and at most a quarter more,
/// from a few thousand on. If it was made for a number of digests, that is what each
/// of them takes from the start, whether it is there or not.
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

    /// An empty set with room for so many digests, 19.7 bytes for each from the start.
    /// Up to as many an insertion takes half the time of one into a set that grows,
    /// or less. One more, or digests that are no good hashes, make it a set that
    /// grows: that moves all of them once, and has a list of them in between.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        MemorySet { digests: DigestSet::with_capacity(capacity), ..Self::default() }
    }

    /// Digests in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.digests.len()
    }

    /// Whether it has no digest.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The heap that it holds now, in bits, with room not used yet and what an
    /// allocator adds. It takes a moment: the pieces are counted one by one.
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
    /// [`Error::Format`] for bytes that are no saved set.
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
