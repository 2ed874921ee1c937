//! The hot operations: queries, one or many, and insertions and deletions within a line.
//!
//! Each takes the lines that there are and the number of lines that digests are mapped to: while a
//! filter grows, the last of them are not there yet.

use super::cells::Line;
use super::fingerprint::{Fingerprint, Hash};
use super::lanes::Lanes;
use super::shape::{GROUPS, Home, MOST_DRIFT, Shape};
use crate::batch::{Glance, Glances, glance_at_all};
use crate::bits::prefetch::prefetch;
use crate::digest::Digest;

/// Where a bucket is: the line that has it, and its index in that line's window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) line: usize,
    pub(super) index: u32,
    /// The group of the bucket.
    pub(super) group: usize,
}

/// The highest index behind a window, as a byte. Above it are those before it, which have wrapped.
const MOST_INDEX: u8 = u8::MAX - MOST_DRIFT as u8;

/// Finds a bucket. It is in its home line, or as many lines off as the windows have drifted.
#[inline(always)]
pub(super) fn find(lanes: impl Lanes, lines: &[Line], home: Home, shape: &Shape) -> Found {
    let Home { mut line, mut bucket } = home;
    let group = home.number(shape) % GROUPS;
    loop {
        let index = lines[line].index_of(bucket);
        if lines[line].has(lanes.below(index)) {
            return Found { line, index: index % 64, group };
        }
        if index as u8 > MOST_INDEX {
            line -= 1;
            bucket = bucket.wrapping_add(shape.buckets as u32);
        } else {
            line += 1;
            bucket = bucket.wrapping_sub(shape.buckets as u32);
        }
    }
}

/// The slots of a bucket that hold the fingerprint of a digest, whether its group has adapted or
/// not: without a branch on that.
#[inline(always)]
pub(super) fn matches(
    lanes: impl Lanes,
    line: &Line,
    found: Found,
    digest: Digest,
    shape: &Shape,
) -> u64 {
    let run = line.run(lanes, found.index, shape);
    let adapted = 0u64.wrapping_sub(u64::from(line.states()) >> found.group & 1);
    // Of a group that has not adapted, the selector is 0.
    let selector = lanes.compress(line.plane_and_more(0, shape), run & adapted);
    let fingerprint = Hash::of(digest, line.epoch()).select(selector as u32, shape);
    let slots = lanes.matches(line.bytes(), fingerprint.remainder(), run);
    // The first plane of a group that has adapted holds its selectors.
    if slots == 0 { 0 } else { agreeing(line, slots, fingerprint, adapted, shape) }
}

/// Those of the slots whose planes agree with a fingerprint; of the first plane, bits of `adapted`
/// need not.
#[inline(always)]
fn agreeing(line: &Line, slots: u64, fingerprint: Fingerprint, adapted: u64, shape: &Shape) -> u64 {
    let first = line.plane_and_more(0, shape) ^ fingerprint.plane(0);
    (1..shape.planes).fold(slots & (!first | adapted), |slots, plane| {
        slots & !(line.plane_and_more(plane, shape) ^ fingerprint.plane(plane))
    })
}

/// Whether a digest may be stored, where few lines have adapted.
#[inline(always)]
pub(super) fn contains_with<const K: usize>(
    lanes: impl Lanes,
    lines: &[Line],
    count: usize,
    digest: Digest,
) -> bool {
    let shape = &const { Shape::with_planes::<K>() };
    let home = Home::of(digest.word(0), count, shape);
    if let Some(line) = lines.get(home.line) {
        let below = lanes.below(line.index_of(home.bucket));
        if line.has(below) && line.states() == 0 {
            let run = lanes.run(below, line.occupied(), line.starts_and_more(shape));
            let fingerprint = Hash::of(digest, line.epoch()).select(0, shape);
            let slots = lanes.matches(line.bytes(), fingerprint.remainder(), run);
            return slots != 0 && agreeing(line, slots, fingerprint, 0, shape) != 0;
        }
    }
    lanes.contains_anywhere::<K>(lines, count, digest.word(0), digest.word(1))
}

/// Whether a digest may be stored, where many lines have adapted.
#[inline(always)]
pub(super) fn contains_adapted_with<const K: usize>(
    lanes: impl Lanes,
    lines: &[Line],
    count: usize,
    digest: Digest,
) -> bool {
    let shape = &const { Shape::with_planes::<K>() };
    let home = Home::of(digest.word(0), count, shape);
    if let Some(line) = lines.get(home.line) {
        let index = line.index_of(home.bucket);
        if line.has(lanes.below(index)) {
            let group = home.number(shape) % GROUPS;
            let found = Found { line: home.line, index: index % 64, group };
            return matches(lanes, line, found, digest, shape) != 0;
        }
    }
    lanes.contains_anywhere::<K>(lines, count, digest.word(0), digest.word(1))
}

/// Whether a digest may be stored, wherever its bucket is. Out of line, so that the queries that
/// do not need it need fewer registers.
#[inline(always)]
pub(super) fn contains_anywhere_with<const K: usize>(
    lanes: impl Lanes,
    lines: &[Line],
    count: usize,
    digest: Digest,
) -> bool {
    let shape = &const { Shape::with_planes::<K>() };
    let found = find(lanes, lines, Home::of(digest.word(0), count, shape), shape);
    matches(lanes, &lines[found.line], found, digest, shape) != 0
}

/// [`contains_with`] for many digests.
#[inline(always)]
pub(super) fn contains_many_with<const K: usize>(
    lanes: impl Lanes,
    lines: &[Line],
    count: usize,
    digests: &[Digest],
    found: &mut [bool],
) {
    glance_at_all(digests, found, &Queries::<_, K> { lanes, lines, count });
}

struct Queries<'a, L, const K: usize> {
    lanes: L,
    lines: &'a [Line],
    count: usize,
}

impl<L: Lanes, const K: usize> Glances for Queries<'_, L, K> {
    #[inline(always)]
    fn prefetch(&self, digest: Digest) {
        let shape = &const { Shape::with_planes::<K>() };
        prefetch(self.lines, Home::of(digest.word(0), self.count, shape).line);
    }

    /// Looks into the home line only.
    #[inline(always)]
    fn glance(&self, digest: Digest) -> Glance {
        let shape = &const { Shape::with_planes::<K>() };
        let home = Home::of(digest.word(0), self.count, shape);
        let line = &self.lines[home.line];
        let index = line.index_of(home.bucket);
        let open = !line.has(self.lanes.below(index));
        let group = home.number(shape) % GROUPS;
        let found = Found { line: home.line, index: index % 64, group };
        Glance { found: matches(self.lanes, line, found, digest, shape) != 0, open }
    }

    #[inline(always)]
    fn test(&self, digest: Digest) -> bool {
        contains_anywhere_with::<K>(self.lanes, self.lines, self.count, digest)
    }
}

/// Adds the fingerprint of a digest. `false`, and nothing changed, where that is not all there is
/// to do: its line is full, or a run begins in a group that has adapted.
#[inline(always)]
pub(super) fn insert_with<const K: usize>(
    lanes: impl Lanes,
    lines: &mut [Line],
    count: usize,
    digest: Digest,
) -> bool {
    let shape = &const { Shape::with_planes::<K>() };
    let found = find(lanes, lines, Home::of(digest.word(0), count, shape), shape);
    let line = &mut lines[found.line];
    if line.used(shape) == shape.slots {
        return false;
    }
    let (below, starts) = (lanes.below(found.index), line.starts_and_more(shape));
    let mut selector = 0;
    let adapted = line.states() >> found.group & 1 == 1;
    if adapted {
        let run = lanes.run(below, line.occupied(), starts);
        if run == 0 {
            return false;
        }
        selector = lanes.compress(line.plane_and_more(0, shape), run) as u32;
    }
    let fingerprint = Hash::of(digest, line.epoch()).select(selector, shape);
    let at = lanes.select(starts, (line.occupied() & below).count_ones()) as usize;
    line.insert(found.index, at, adapted, fingerprint, shape);
    true
}

/// Removes a slot that looks like a digest's, and says which line had it. `None`, and nothing
/// changed, if there is none, or if its group has adapted and its selector may be lost.
#[inline(always)]
pub(super) fn delete_with<const K: usize>(
    lanes: impl Lanes,
    lines: &mut [Line],
    count: usize,
    digest: Digest,
) -> Option<usize> {
    let shape = &const { Shape::with_planes::<K>() };
    let found = find(lanes, lines, Home::of(digest.word(0), count, shape), shape);
    let line = &mut lines[found.line];
    let slots = matches(lanes, line, found, digest, shape);
    if slots == 0 || line.states() >> found.group & 1 == 1 {
        return None;
    }
    let run = line.run(lanes, found.index, shape);
    line.remove(found.index, run, slots.trailing_zeros() as usize, false, shape);
    Some(found.line)
}
