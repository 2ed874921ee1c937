//! The cyclic adaptive cuckoo filter: a few selector bits in every cell say
//! which of several fingerprints of the key it holds.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 3.1
//! (algorithms 1 and 2) and 3.2 (varying ranges); Kopelowitz, McCauley, Porat,
//! section 2.4.
//!
//! A cell's values are divided among the fingerprint functions, so a value identifies its
//! function:
//!
//! ```text
//! equal ranges      0 | f0: 1..2^f | f1: 2^f+1..2*2^f | ...          2^s functions
//! varying ranges    0 | f0: everything that does not start with r ones |
//!                   f1, ..., f(2^s): r ones, s bits of the function, f-r bits
//! ```
//!
//! With equal ranges the first value of each is unused: in function 0 it marks an empty cell,
//! and in the others a special case would cost more than it gains. The varying ranges are those
//! of [`super::varying`].

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;

use crate::bits::lanes::Lanes;
use crate::digest::{Digest, reduce32};
use crate::error::Result;
use crate::make::histogram;
use crate::params::{Field, Kind, Valid, field, within};
use crate::remote::Mirror;

use super::hashes::Hashes;
use super::mirrored::{Mirrored, Rule};
use super::params::{Cells, Cuckoo};
use super::table::{Place, Table};

/// The parameters of "cyclic".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 32 with the selector | 12 |
/// | `s` | selector bits, 1 to 8 | 1 |
/// | `k` | tables, 2 to 16 | 4 |
/// | `b` | cells per bin, 1 to 64 | 1 |
/// | `retry` | 1: adapting avoids a fingerprint under which the query still collides | 1 |
/// | `search` | how a full bin makes room: `bfs` or `walk` | `bfs` |
/// | `full` | what a full filter does: `error`, `rebuild` or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    cells: Cells,
    s: u32,
    retry: bool,
}

impl Kind for Values {
    type Shape = Cells;

    const NAME: &'static str = "cyclic";
    const ADAPTS: bool = true;
    const STATE_UNIT: Option<&'static str> = Some("keys by selector");
    const USUAL: Self = Values { cells: Cells::new(4, 1), s: 1, retry: true };

    fn shape(&self) -> &Cells {
        &self.cells
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        self.cells.fields([field("s", &mut self.s)], [field("retry", &mut self.retry)])
    }

    fn validate(&self) -> Result<(), String> {
        self.cells.validate_tables(1)?;
        within("s", self.s, 1, 8)?;
        self.cells.validate_fingerprint(self.s)
    }

    fn label(&self) -> String {
        format!("cyclic-{}", self.s)
    }

    fn cell_bits(&self) -> u32 {
        self.cells.f + self.s
    }
}

impl From<Params> for Ranges {
    fn from(Valid(Values { cells, s, retry }): Params) -> Self {
        let first_end = 1 << cells.f;
        Ranges { below: cells.f, first_end, others: (1 << s) - 1, skip: 1, retry }
    }
}

/// Fingerprint functions and their ranges of cell values.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Ranges {
    /// Bits of a fingerprint below the function's number.
    pub(super) below: u32,
    /// Function 0 has every value below this one.
    pub(super) first_end: u64,
    /// Functions that follow function 0.
    pub(super) others: u32,
    /// The lowest value of an equal range is left out.
    pub(super) skip: u64,
    pub(super) retry: bool,
}

impl Ranges {
    /// Which function made a value.
    #[inline(always)]
    fn selector(&self, value: u64) -> u32 {
        if value < self.first_end { 0 } else { 1 + ((value - self.first_end) >> self.below) as u32 }
    }

    /// The value that function `selector` gives a key; `range` is any value of
    /// that function's range.
    #[inline(always)]
    fn value_in(&self, hashes: Hashes, selector: u32, range: u64) -> u64 {
        // Ranges of the functions after the first start at multiples of their
        // length.
        let (start, length) = if selector == 0 {
            (1, self.first_end - 1)
        } else {
            ((range >> self.below << self.below) + self.skip, (1 << self.below) - self.skip)
        };
        start + reduce32(hashes.selected_tag(selector), length)
    }

    /// The value that function `selector` gives a key.
    fn value(&self, hashes: Hashes, selector: u32) -> u64 {
        let range = self.first_end + (u64::from(selector.saturating_sub(1)) << self.below);
        self.value_in(hashes, selector, range)
    }

    /// The value of a key that never adapted.
    #[inline(always)]
    fn unadapted(&self, hashes: Hashes) -> u64 {
        self.value_in(hashes, 0, 0)
    }

    /// Whether a key may have left this value by a function other than the first.
    #[inline(always)]
    fn matches_adapted(&self, value: u64, hashes: Hashes) -> bool {
        value >= self.first_end && self.matches(value, hashes)
    }

    /// Whether a key may have left this value.
    #[inline(always)]
    fn matches(&self, value: u64, hashes: Hashes) -> bool {
        value == self.value_in(hashes, self.selector(value), value)
    }

    /// The function after `selector`. With `retry`, the next one under which `query` and
    /// `stored` differ, if there is one.
    fn next(&self, selector: u32, query: Hashes, stored: Hashes) -> u32 {
        let functions = self.others + 1;
        let following = |step| (selector + step) % functions;
        let differs = |&next: &u32| self.value(query, next) != self.value(stored, next);
        let steps = if self.retry { functions } else { 2 };
        (1..steps).map(following).find(differs).unwrap_or(following(1))
    }
}

/// Ranges that are divided as the parameters say.
#[derive(Clone, Copy)]
#[doc(hidden)]
pub struct Cyclic<P> {
    ranges: Ranges,
    params: PhantomData<P>,
}

impl<P: Cuckoo + Into<Ranges>> Mirrored<Cyclic<P>> {
    /// The selector of each stored key, in order of cells: for statistics.
    pub fn selectors(&self) -> impl Iterator<Item = u32> + '_ {
        self.table.occupied().map(|cell| self.rule.ranges.selector(self.table.get(cell)))
    }
}

impl<P: Cuckoo + Into<Ranges>> Rule for Cyclic<P> {
    const BY_PATTERN: bool = false;

    type Params = P;

    fn new(params: &P) -> Self {
        Cyclic { ranges: (*params).into(), params: PhantomData }
    }

    fn states(filter: &Mirrored<Self>) -> Vec<usize> {
        histogram(filter.selectors().map(|selector| selector as usize))
    }

    #[inline]
    fn arrival(&self, hashes: Hashes, _: Place) -> u64 {
        self.ranges.unadapted(hashes)
    }

    #[inline]
    fn holds(&self, value: u64, hashes: Hashes, _: Place) -> bool {
        self.ranges.matches(value, hashes)
    }

    #[inline(always)]
    fn pattern(&self, hashes: Hashes, _: u32, lanes: &Lanes) -> u64 {
        lanes.broadcast(self.ranges.unadapted(hashes))
    }

    /// Each cell determines the fingerprint to compare with. Most cells never adapted, and for
    /// those the fingerprint does not depend on the cell.
    #[inline(always)]
    fn in_bin(&self, cells: &Table, hashes: Hashes, _: u32, bin: usize, pattern: u64) -> bool {
        if cells.shape.slots == 1 {
            let value = cells.get(bin);
            return value == pattern || self.ranges.matches_adapted(value, hashes);
        }
        cells.shape.cells_of(bin).any(|cell| self.ranges.matches(cells.get(cell), hashes))
    }

    fn fix(
        filter: &mut Mirrored<Self>,
        query: Digest,
        colliding: &[(usize, Digest)],
        _: &mut dyn Mirror,
    ) -> Result<()> {
        let ranges = filter.rule.ranges;
        let query = filter.hashes(query);
        for &(cell, stored) in colliding {
            let stored = filter.hashes(stored);
            let selector = ranges.selector(filter.table.get(cell));
            let next = ranges.next(selector, query, stored);
            filter.table.set(cell, ranges.value(stored, next));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::table::EMPTY;
    use super::*;

    fn ranges(text: &str) -> (Ranges, u32) {
        fn of<P: Cuckoo + Into<Ranges>>(params: P) -> (Ranges, u32) {
            (params.into(), params.cell_bits())
        }
        match text.parse::<Params>() {
            Ok(params) => of(params),
            Err(_) => of(text.parse::<super::super::varying::Params>().expect("a filter")),
        }
    }

    #[test]
    fn every_value_belongs_to_the_function_that_made_it() {
        for text in
            ["cyclic:f=3,s=1", "cyclic:f=4,s=3", "varying:f=4,s=2,r=1", "varying:f=5,s=0,r=3"]
        {
            let (rule, bits) = ranges(text);
            let functions = rule.others + 1;
            let mut seen = vec![alloc::collections::BTreeSet::new(); functions as usize];
            for word in 0..4000u64 {
                let hashes = Hashes::new(Digest::new([word, crate::digest::mix(word)]), 0, 4);
                for selector in 0..functions {
                    let value = rule.value(hashes, selector);
                    assert!(value != EMPTY && value < 1 << bits, "{text}: {value}");
                    assert_eq!(rule.selector(value), selector, "{text}: {value}");
                    seen[selector as usize].insert(value);
                }
            }
            // Every value of every range occurs: the papers' range sizes, less
            // the reserved ones.
            let sizes: Vec<usize> = seen.iter().map(|values| values.len()).collect();
            let expected: Vec<usize> = match text {
                "cyclic:f=3,s=1" => vec![7, 7],
                "cyclic:f=4,s=3" => vec![15; 8],
                "varying:f=4,s=2,r=1" => vec![31, 8, 8, 8, 8],
                _ => vec![27, 4],
            };
            assert_eq!(sizes, expected, "{text}");
        }
    }
}
