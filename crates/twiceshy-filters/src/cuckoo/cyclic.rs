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
//! equal ranges      0 | f0: the next 2^f | f1: the next 2^f | ... | the last of 2^s: 2^f - 1
//! varying ranges    0 | f0: everything that does not start with r ones |
//!                   f1, ..., f(2^s): r ones, s bits of the function, f-r bits
//! ```
//!
//! Value 0 marks an empty cell, so one function has a value less. With equal ranges it is the
//! last, which the fewest keys ever come to. With varying ranges ([`super::varying`]) it is the
//! first, whose range is the largest. Files of version 1 have equal ranges of `2^f - 1` values
//! each; a filter keeps them until it is rebuilt.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::marker::PhantomData;

use libm::exp2;

use crate::bits::lanes::Lanes;
use crate::digest::{Digest, reduce32};
use crate::error::Result;
use crate::make::histogram;
use crate::params::{Field, Kind, Valid, field, within};
use crate::remote::Mirror;

use super::hashes::Hashes;
use super::mirrored::{Mirrored, Rule};
use super::params::{Cells, Cuckoo};
use super::table::{Place, Shape, Table};

/// The parameters of "cyclic".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 32 with the selector | 12 |
/// | `s` | selector bits, 1 to 8 | 1 |
/// | `k` | tables, 2 to 16 | 4 |
/// | `b` | cells per bin, 1 to 64 | 1 |
/// | `retry` | 1: adapting avoids a fingerprint under which the query still collides | 1 |
/// | `search` | how a full bin makes room: `bfs`, `walk`, or `next` as published | `bfs` |
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

    /// The first function has every value of its range.
    fn first_pass_rate(&self, load: f64) -> f64 {
        self.cells.rate_of(exp2(f64::from(self.cells.f)), load)
    }
}

/// The version of files in which only the last of equal ranges is short of a value.
const ONE_VALUE_SHORT: u32 = 2;

impl From<Params> for Ranges {
    fn from(Valid(Values { cells, s, retry }): Params) -> Self {
        Ranges {
            below: cells.f,
            first_end: (1 << cells.f) + 1,
            others: (1 << s) - 1,
            skip: 0,
            last_short: 1,
            version: ONE_VALUE_SHORT,
            retry,
        }
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
    /// How many of the lowest values of each range after the first are left out.
    pub(super) skip: u64,
    /// How many values less the last range has.
    pub(super) last_short: u64,
    /// That of a file with these ranges.
    pub(super) version: u32,
    pub(super) retry: bool,
}

impl Ranges {
    /// The ranges of a file.
    fn of_version(self, version: u32) -> Self {
        if version == self.version {
            return self;
        }
        // Equal ranges, the first value of each left out.
        Ranges { first_end: 1 << self.below, skip: 1, last_short: 0, version, ..self }
    }

    /// Which function made a value.
    #[inline(always)]
    fn selector(&self, value: u64) -> u32 {
        if value < self.first_end { 0 } else { 1 + ((value - self.first_end) >> self.below) as u32 }
    }

    /// The value that function `selector` gives a key; `range` is any value of
    /// that function's range.
    #[inline(always)]
    fn value_in(&self, hashes: Hashes, selector: u32, range: u64) -> u64 {
        let (start, length) = if selector == 0 {
            (1, self.first_end - 1)
        } else {
            let above = (range - self.first_end) >> self.below << self.below;
            let short = if selector == self.others { self.last_short } else { 0 };
            (self.first_end + above + self.skip, (1 << self.below) - self.skip - short)
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
    const SAME_IN_BIN: bool = false;

    type Params = P;

    fn new(params: &P) -> Self {
        Cyclic { ranges: (*params).into(), params: PhantomData }
    }

    fn of_version(params: &P, version: u32) -> Self {
        let Cyclic { ranges, .. } = Self::new(params);
        Cyclic { ranges: ranges.of_version(version), params: PhantomData }
    }

    fn version(&self) -> u32 {
        self.ranges.version
    }

    fn states(filter: &Mirrored<Self>) -> Vec<usize> {
        histogram(filter.selectors().map(|selector| selector as usize))
    }

    /// One for each function.
    fn variants(&self, _: &Shape) -> Option<u32> {
        Some(self.ranges.others + 1)
    }

    fn variant(&self, hashes: Hashes, variant: u32) -> u64 {
        self.ranges.value(hashes, variant)
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
    use alloc::collections::BTreeSet;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::super::table::EMPTY;
    use super::*;
    use crate::format::FIRST_VERSION;

    fn ranges(text: &str) -> (Ranges, u32) {
        fn of<P: Cuckoo + Into<Ranges>>(params: P) -> (Ranges, u32) {
            (params.into(), params.cell_bits())
        }
        match text.parse::<Params>() {
            Ok(params) => of(params),
            Err(_) => of(text.parse::<super::super::varying::Params>().expect("a filter")),
        }
    }

    /// The values of each function, seen from the digests of 4000 keys.
    fn values(rule: Ranges, bits: u32) -> Vec<BTreeSet<u64>> {
        let functions = rule.others + 1;
        let mut seen = vec![BTreeSet::new(); functions as usize];
        for word in 0..4000u64 {
            let hashes = Hashes::new(Digest::new([word, crate::digest::mix(word)]), 0, 4);
            for selector in 0..functions {
                let value = rule.value(hashes, selector);
                assert!(value != EMPTY && value < 1 << bits, "{value}");
                assert_eq!(rule.selector(value), selector, "{value}");
                assert!(rule.matches(value, hashes) && !rule.matches(EMPTY, hashes));
                assert_eq!(rule.matches_adapted(value, hashes), selector > 0, "{value}");
                seen[selector as usize].insert(value);
            }
        }
        seen
    }

    /// Every value of every range occurs: of the papers' range sizes only one value is missing,
    /// and that is the empty cell.
    #[test]
    fn every_value_belongs_to_the_function_that_made_it() {
        for (text, sizes) in [
            ("cyclic:f=3,s=1", vec![8, 7]),
            ("cyclic:f=4,s=3", vec![16, 16, 16, 16, 16, 16, 16, 15]),
            ("varying:f=4,s=2,r=1", vec![31, 8, 8, 8, 8]),
            ("varying:f=5,s=0,r=3", vec![27, 4]),
        ] {
            let (rule, bits) = ranges(text);
            let seen = values(rule, bits);
            assert_eq!(seen.iter().map(BTreeSet::len).collect::<Vec<_>>(), sizes, "{text}");
            let all: BTreeSet<u64> = seen.into_iter().flatten().collect();
            assert_eq!(all, (1..1 << bits).collect(), "{text}");
        }
    }

    /// In files of version 1 each equal range lacks its first value. Varying ranges never changed.
    #[test]
    fn files_of_version_1_have_other_equal_ranges() {
        let (rule, bits) = ranges("cyclic:f=3,s=2");
        let seen = values(rule.of_version(FIRST_VERSION), bits);
        let expected = (0..4).map(|range| (8 * range + 1..8 * range + 8).collect());
        assert_eq!(seen, expected.collect::<Vec<BTreeSet<u64>>>());
        let (rule, bits) = ranges("varying:f=4,s=1,r=1");
        assert_eq!(values(rule.of_version(FIRST_VERSION), bits), values(rule, bits));
    }

    /// With `retry`, the next function that tells a query from its key, or the next of all where
    /// none does. Without, the next of all.
    #[test]
    fn the_next_function_is_the_first_that_helps() {
        let (with, without) = (ranges("cyclic:f=2,s=2").0, ranges("cyclic:f=2,s=2,retry=0").0);
        let hashes = |word| Hashes::new(Digest::new([word, crate::digest::mix(word)]), 0, 4);
        let mut skipped = [0; 4];
        for word in 0..1000 {
            let (query, stored) = (hashes(2 * word), hashes(2 * word + 1));
            for selector in 0..4 {
                let others = [1, 2, 3].map(|step| (selector + step) % 4);
                let helps = |&next: &u32| with.value(query, next) != with.value(stored, next);
                let at = others.iter().position(helps);
                skipped[at.unwrap_or(3)] += 1;
                assert_eq!(with.next(selector, query, stored), others[at.unwrap_or(0)]);
                assert_eq!(without.next(selector, query, stored), others[0]);
            }
        }
        assert!(skipped.iter().all(|&count| count > 20), "{skipped:?}");
    }
}
