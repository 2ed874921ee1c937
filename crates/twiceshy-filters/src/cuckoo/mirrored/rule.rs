//! What distinguishes the variants of the adaptive cuckoo filter.

use alloc::vec::Vec;

use super::super::hashes::Hashes;
use super::super::params::Cuckoo;
use super::super::table::{EMPTY, Place, Shape, Table};
use super::Mirrored;
use crate::bits::lanes::Lanes;
use crate::digest::Digest;
use crate::error::Result;
use crate::format::FIRST_VERSION;
use crate::remote::Mirror;

/// What distinguishes the variants of the adaptive cuckoo filter.
pub trait Rule: Copy + Sized + 'static {
    /// Whether a cell holds a digest exactly if its value equals the pattern's there. Then two
    /// bins can be compared at once.
    const BY_PATTERN: bool;

    /// Whether a digest leaves the same value in every cell of a bin. Then a bin of several words
    /// is searched a word at a time.
    const SAME_IN_BIN: bool;

    /// Whether adapting takes a key to another cell of its bin, drawn at random.
    const DRAWS_CELLS: bool = false;

    /// What a filter with this rule is made from.
    type Params: Cuckoo;

    /// The rule of these parameters.
    fn new(params: &Self::Params) -> Self;

    /// The rule of a file of this version. It stays until the filter is rebuilt.
    fn of_version(params: &Self::Params, _version: u32) -> Self {
        Self::new(params)
    }

    /// The version of its files.
    fn version(&self) -> u32 {
        FIRST_VERSION
    }

    /// [`AnyFilter::states`](crate::AnyFilter::states).
    fn states(_: &Mirrored<Self>) -> Vec<usize> {
        Vec::new()
    }

    /// How many values a key may come to leave in its bin, if adapting never takes it out of
    /// there.
    fn variants(&self, _: &Shape) -> Option<u32> {
        None
    }

    /// One of them. Key and query collide when what the key has left is the same variant of both.
    fn variant(&self, _hashes: Hashes, _variant: u32) -> u64 {
        EMPTY
    }

    /// The value of a cell when a digest arrives there.
    fn arrival(&self, hashes: Hashes, place: Place) -> u64;

    /// Whether the digest may have left this value in the cell.
    #[inline]
    fn holds(&self, value: u64, hashes: Hashes, place: Place) -> bool {
        value == self.arrival(hashes, place)
    }

    /// What the digest would leave in every cell of its bin in `table`, where a
    /// bin is a word of `lanes`.
    fn pattern(&self, hashes: Hashes, table: u32, lanes: &Lanes) -> u64;

    /// The patterns of the first tables.
    #[inline(always)]
    fn patterns<const TABLES: usize>(&self, hashes: Hashes, lanes: &Lanes) -> [u64; TABLES] {
        core::array::from_fn(|table| self.pattern(hashes, table as u32, lanes))
    }

    /// Whether any cell of a bin may hold the digest, whose pattern there is known if the bin is
    /// a word. A rule that overrides this is not [`Rule::BY_PATTERN`].
    #[inline(always)]
    fn in_bin(&self, cells: &Table, hashes: Hashes, table: u32, bin: usize, pattern: u64) -> bool {
        match cells.lanes() {
            Some(lanes) => lanes.any_zero(cells.bin(bin, lanes) ^ pattern),
            None if Self::SAME_IN_BIN => {
                cells.find(bin, self.arrival(hashes, Place { table, slot: 0 })).is_some()
            }
            None => cells
                .shape
                .cells_of(bin)
                .zip(0..)
                .any(|(cell, slot)| self.holds(cells.get(cell), hashes, Place { table, slot })),
        }
    }

    /// Changes the filter so that `query` no longer collides with the digests in these cells.
    fn fix(
        filter: &mut Mirrored<Self>,
        query: Digest,
        colliding: &[(usize, Digest)],
        remote: &mut dyn Mirror,
    ) -> Result<()>;
}
