//! The swapping adaptive cuckoo filter: a key's fingerprint depends on the
//! cell's position in its bin, so exchanging two keys of a bin changes both.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 3.3
//! (algorithms 3 and 4); Kopelowitz, McCauley, Porat, section 2.5.
//!
//! Where a bin fits a word, a key's fingerprints for all positions are the
//! next `b * f` bits of its digest, laid out as the bin is: a query is one xor
//! and one test for a zero lane.

use alloc::string::String;
use alloc::vec::Vec;

use crate::bits::lanes::Lanes;
use crate::digest::Digest;
use crate::error::Result;
use crate::params::{Field, Kind, Literal, Valid, field};
use crate::remote::Mirror;

use super::draft::Draft;
use super::hashes::{Fingerprints, Hashes};
use super::mirrored::{Mirrored, Rule};
use super::params::Cells;
use super::table::{Place, Shape};

/// The parameters of "swapping".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 32 | 12 |
/// | `k` | tables, 2 to 16 | 2 |
/// | `b` | cells per bin, 2 to 64 | 4 |
/// | `retry` | 1: adapting avoids a position in which the query still collides | 1 |
/// | `literal` | 1: a false positive swaps one key, also where several collide (footnote 2) | 0 |
/// | `search` | how a full bin makes room: `bfs`, `walk`, or `next` as published | `bfs` |
/// | `full` | what a full filter does: `error`, `rebuild` or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    cells: Cells,
    retry: bool,
    literal: Literal,
}

impl Kind for Values {
    type Shape = Cells;

    const NAME: &'static str = "swapping";
    const ADAPTS: bool = true;
    const USUAL: Self = Values { cells: Cells::new(2, 4), retry: true, literal: Literal(false) };

    fn shape(&self) -> &Cells {
        &self.cells
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let Values { cells, retry, literal } = self;
        cells.fields([], [field("retry", retry), field("literal", literal)])
    }

    fn validate(&self) -> Result<(), String> {
        self.cells.validate_tables(2)?;
        self.cells.validate_fingerprint(0)
    }

    fn label(&self) -> String {
        self.literal.label(Self::NAME)
    }
}

/// One fingerprint for each position in a bin.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Swapping {
    fingerprints: Fingerprints,
    lanes: Option<Lanes>,
    retry: bool,
    /// One swap per false positive.
    once: bool,
}

/// How often a lane that is zero, which is no fingerprint, is drawn again before it becomes 1.
const MAX_DRAWS: u32 = 8;

/// Fingerprints for all positions: `b * f` bits, drawn again where a lane is zero. One lane in
/// `2^f` is, so the branch is almost always predicted.
#[inline]
fn tags(hashes: Hashes, lanes: &Lanes) -> u64 {
    let tags = hashes.tag_bits(0, lanes.bits());
    if lanes.any_zero(tags) { redraw(tags, hashes, lanes) } else { tags }
}

#[cold]
fn redraw(mut tags: u64, hashes: Hashes, lanes: &Lanes) -> u64 {
    for draw in 1..MAX_DRAWS {
        let zeros = lanes.zeros(tags);
        if zeros == 0 {
            return tags;
        }
        tags |= hashes.tag_bits(64 * draw, lanes.bits()) & lanes.spread(zeros);
    }
    tags | lanes.spread(lanes.zeros(tags)) & lanes.ones()
}

impl Rule for Swapping {
    const BY_PATTERN: bool = true;
    const SAME_IN_BIN: bool = false;
    const DRAWS_CELLS: bool = true;

    type Params = Params;

    fn new(params: &Params) -> Self {
        let Cells { f, b, .. } = params.cells;
        Swapping {
            fingerprints: Fingerprints::new(f),
            lanes: Lanes::new(b, f),
            retry: params.retry,
            once: params.literal.0,
        }
    }

    /// One for each cell of a bin.
    fn variants(&self, shape: &Shape) -> Option<u32> {
        Some(shape.slots)
    }

    fn variant(&self, hashes: Hashes, variant: u32) -> u64 {
        self.arrival(hashes, Place { table: 0, slot: variant })
    }

    #[inline]
    fn arrival(&self, hashes: Hashes, place: Place) -> u64 {
        match &self.lanes {
            Some(lanes) => lanes.lane(tags(hashes, lanes), place.slot),
            None => self.fingerprints.of(hashes.tag(place.slot)),
        }
    }

    #[inline(always)]
    fn pattern(&self, hashes: Hashes, _: u32, lanes: &Lanes) -> u64 {
        tags(hashes, lanes)
    }

    /// The same in every table.
    #[inline(always)]
    fn patterns<const TABLES: usize>(&self, hashes: Hashes, lanes: &Lanes) -> [u64; TABLES] {
        [tags(hashes, lanes); TABLES]
    }

    /// Swaps each colliding key with a random other cell of its bin. With
    /// `retry`, another cell is drawn while the query would still collide with
    /// one of the two. With `literal`, the first of them only.
    fn fix(
        filter: &mut Mirrored<Self>,
        query: Digest,
        colliding: &[(usize, Digest)],
        remote: &mut dyn Mirror,
    ) -> Result<()> {
        filter.rng.stir(query);
        let query = filter.hashes(query);
        let mut draft = Draft::default();
        for &(cell, occupant) in colliding {
            // An earlier swap may have changed what the cell holds.
            if let Some(stored) = draft.edit(cell).unwrap_or(Some(occupant))
                && collides(filter, query, stored, cell)
            {
                swap(&mut draft, filter, query, (cell, stored), remote)?;
                if filter.rule.once {
                    break;
                }
            }
        }
        draft.write(filter, remote)
    }
}

/// Whether the query would collide with this key in this cell.
fn collides(filter: &Mirrored<Swapping>, query: Hashes, stored: Digest, cell: usize) -> bool {
    let place = filter.table.shape.place(cell);
    filter.rule.arrival(filter.hashes(stored), place) == filter.rule.arrival(query, place)
}

fn swap(
    draft: &mut Draft,
    filter: &mut Mirrored<Swapping>,
    query: Hashes,
    (cell, stored): (usize, Digest),
    remote: &mut dyn Mirror,
) -> Result<()> {
    let shape = filter.table.shape;
    let mut partners: Vec<usize> =
        shape.cells_of(shape.bin_of(cell)).filter(|&at| at != cell).collect();
    loop {
        let drawn = filter.rng.below(partners.len() as u64) as usize;
        let partner = partners.swap_remove(drawn);
        let other = draft.content(filter, partner, remote)?;
        let still = collides(filter, query, stored, partner)
            || other.is_some_and(|other| collides(filter, query, other, cell));
        if still && filter.rule.retry && !partners.is_empty() {
            continue;
        }
        match other {
            Some(other) => draft.move_to(cell, other),
            None => draft.clear(cell),
        }
        draft.move_to(partner, stored);
        return Ok(());
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;
    use alloc::format;

    use super::*;
    use crate::filter::{Adapted, DigestFilter as _};
    use crate::remote::MemoryMirror;
    use crate::rng::Rng;

    /// A key alone in its bin swaps with empty cells, and comes to every one.
    #[test]
    fn an_empty_cell_is_a_partner_like_any_other() {
        for (b, retry) in [(2, 0), (2, 1), (4, 0), (4, 1)] {
            let params: Params = format!("swapping:f=3,b={b},retry={retry}").parse().expect("one");
            let mut filter = Mirrored::<Swapping>::new(&params, 4).expect("a capacity");
            let (mut mirror, mut rng) = (MemoryMirror::new(filter.stats().cells), Rng::new(1));
            let mut digest = || Digest::new([rng.next(), rng.next()]);
            let key = digest();
            filter.insert(key, &mut mirror).expect("room");
            let shape = filter.table.shape;
            let cell = |filter: &Mirrored<Swapping>| {
                filter.table.occupied().next().expect("one key is stored")
            };
            let bin = shape.bin_of(cell(&filter));
            // Each swap takes it to one of the other cells at random: with a probability of at most
            // 4 (2/3)^100, below 1e-16, one of four is never seen.
            let mut seen = BTreeSet::new();
            while filter.stats().adaptations < 200 {
                let (query, before) = (digest(), cell(&filter));
                if !filter.contains(query) {
                    continue;
                }
                let adapted = filter.adapt(query, &mut mirror).expect("in memory");
                let after = cell(&filter);
                assert_eq!(shape.bin_of(after), bin, "b={b}: it left its bin");
                assert_ne!(after, before, "b={b}: it stayed");
                assert!(adapted == Adapted::Fixed || adapted == Adapted::Unfixed, "{adapted:?}");
                seen.insert(after);
            }
            assert_eq!(seen.len(), b as usize, "cells that it came to");
            assert!(filter.contains(key), "a false negative");
            filter.check(&mut mirror).expect("every invariant holds");
        }
    }

    /// Footnote 2: where several keys collide, one swap. By default there is one for each.
    #[test]
    fn a_literal_filter_swaps_once() {
        for literal in [0, 1] {
            let text = format!("swapping:f=2,b=2,retry=0,literal={literal}");
            let params: Params = text.parse().expect("a filter");
            let mut filter = Mirrored::<Swapping>::new(&params, 100).expect("a capacity");
            let (mut mirror, mut rng) = (MemoryMirror::new(filter.stats().cells), Rng::new(1));
            let mut digest = || Digest::new([rng.next(), rng.next()]);
            while filter.len() < 90 {
                filter.insert(digest(), &mut mirror).expect("room");
            }
            let (shape, mut most) = (filter.table.shape, 0);
            while filter.stats().adaptations < 200 {
                let query = digest();
                let before: Vec<u64> = (0..shape.cells()).map(|at| filter.table.get(at)).collect();
                filter.adapt(query, &mut mirror).expect("in memory");
                let changed = (0..shape.cells()).filter(|&at| filter.table.get(at) != before[at]);
                let bins: BTreeSet<usize> = changed.map(|cell| shape.bin_of(cell)).collect();
                most = most.max(bins.len());
            }
            assert_eq!(most, if literal == 1 { 1 } else { 2 }, "bins that one query changes");
            filter.check(&mut mirror).expect("every invariant holds");
        }
    }

    /// Lane by lane: the first of eight draws that is not zero, or 1.
    #[test]
    fn a_lane_that_is_zero_is_drawn_again() {
        let mut last = 0;
        for (slots, width) in [(4, 1), (4, 2), (8, 3), (2, 8), (16, 4)] {
            let lanes = Lanes::new(slots, width).expect("they fit a word");
            for word in 0..3000 {
                let hashes = Hashes::new(Digest::new([word, crate::digest::mix(word)]), 0, 2);
                let tags = tags(hashes, &lanes);
                for lane in 0..slots {
                    let draw = |draw| lanes.lane(hashes.tag_bits(64 * draw, lanes.bits()), lane);
                    let drawn = (0..MAX_DRAWS).map(draw).find(|&value| value != 0);
                    last += usize::from(drawn.is_none());
                    assert_eq!(lanes.lane(tags, lane), drawn.unwrap_or(1), "{width} bits");
                }
            }
        }
        assert!(last > 10, "{last} lanes were zero in every draw");
    }
}
