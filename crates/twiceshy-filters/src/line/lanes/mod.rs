//! The twins: the same functions on a line for each instruction set.
//!
//! A filter chooses its twin once, when it is made: [`Twin::for_this_machine`] is a table of the
//! filter's hot operations, each compiled for one instruction set and one number of planes.

mod portable;
#[cfg(test)]
mod tests;
#[cfg(all(target_arch = "x86_64", feature = "std", not(miri)))]
mod x86;

use super::cells::Line;
#[cfg(doc)]
use super::hot;
use super::shape::Shape;
use crate::digest::Digest;

pub(super) use portable::Portable;

/// How a line is searched.
pub(super) trait Lanes: Copy {
    /// All bits below the low byte of an index: all there are where that is 64 or more.
    fn below(self, index: u32) -> u64;

    /// The slots of the bucket at an index of the window, given the bits below the index, the
    /// occupied bits, and where runs start; bits above those do not matter.
    fn run(self, below: u64, occupied: u64, starts: u64) -> u64;

    /// The position of set bit number `index`, counted from 0, of which there are that many.
    fn select(self, word: u64, index: u32) -> u32;

    /// Those of the slots that hold a remainder.
    fn matches(self, line: &[u8; 64], remainder: u8, slots: u64) -> u64;

    /// The bits of `word` where `mask` has ones, side by side.
    fn compress(self, word: u64, mask: u64) -> u64;

    /// [`hot::contains_anywhere_with`] this twin, out of line.
    fn contains_anywhere<const K: usize>(
        self,
        lines: &[Line],
        count: usize,
        first: u64,
        second: u64,
    ) -> bool;
}

/// Of so many lines, one may have adapted before queries expect it.
const MANY_ADAPTED: usize = 16;

/// A query: lines, their number, and the two words of a digest. (A digest as such would come in memory.)
type Contains = unsafe fn(&[Line], usize, u64, u64) -> bool;

/// The hot operations of a filter, for one processor and one number of planes.
#[derive(Clone, Copy)]
pub(super) struct Twin {
    /// One of the two forms.
    contains: Contains,
    /// [`hot::contains_with`] and [`hot::contains_adapted_with`].
    forms: [Contains; 2],
    contains_many: unsafe fn(&[Line], usize, &[Digest], &mut [bool]),
    insert: unsafe fn(&mut [Line], usize, Digest) -> bool,
    delete: unsafe fn(&mut [Line], usize, Digest) -> Option<usize>,
}

impl Twin {
    /// The fastest twin here.
    pub(super) fn for_this_machine(shape: &Shape) -> Self {
        *Self::all(shape).last().expect("the portable twin is always there")
    }

    /// Every twin that works here, the portable one first and the fastest last.
    pub(super) fn all(shape: &Shape) -> alloc::vec::Vec<Self> {
        match shape.planes {
            1 => Self::all_with::<1>(),
            2 => Self::all_with::<2>(),
            3 => Self::all_with::<3>(),
            4 => Self::all_with::<4>(),
            8 => Self::all_with::<8>(),
            planes => unreachable!("no shape has {planes} planes"),
        }
    }

    fn all_with<const K: usize>() -> alloc::vec::Vec<Self> {
        let portable = portable::twin::<K>();
        #[cfg_attr(
            not(all(target_arch = "x86_64", feature = "std", not(miri))),
            expect(unused_mut, reason = "there is no other twin")
        )]
        let mut twins = alloc::vec![portable];
        #[cfg(all(target_arch = "x86_64", feature = "std", not(miri)))]
        twins.extend(x86::twins::<K>());
        twins
    }

    /// [`hot::contains_with`] or [`hot::contains_adapted_with`].
    #[inline(always)]
    pub(super) fn contains(&self, lines: &[Line], count: usize, digest: Digest) -> bool {
        // SAFETY: `all` alone makes twins, and only those whose instructions this processor has.
        unsafe { (self.contains)(lines, count, digest.word(0), digest.word(1)) }
    }

    /// Chooses the form of queries for a filter of which so many lines have adapted. With the
    /// first form, each query that meets such a line costs an unpredictable branch.
    pub(super) fn choose(&mut self, adapted: usize, lines: usize) {
        self.contains = self.forms[usize::from(adapted > lines / MANY_ADAPTED)];
    }

    /// [`hot::contains_many_with`].
    pub(super) fn contains_many(
        &self,
        lines: &[Line],
        count: usize,
        digests: &[Digest],
        found: &mut [bool],
    ) {
        // SAFETY: as above.
        unsafe { (self.contains_many)(lines, count, digests, found) }
    }

    /// [`hot::insert_with`].
    #[inline(always)]
    pub(super) fn insert(&self, lines: &mut [Line], count: usize, digest: Digest) -> bool {
        // SAFETY: as above.
        unsafe { (self.insert)(lines, count, digest) }
    }

    /// [`hot::delete_with`].
    #[inline(always)]
    pub(super) fn delete(&self, lines: &mut [Line], count: usize, digest: Digest) -> Option<usize> {
        // SAFETY: as above.
        unsafe { (self.delete)(lines, count, digest) }
    }
}
