//! The telescoping filter with its selectors stored as they are, a byte a slot
//! ("uTAF"): to see what the arithmetic code costs and saves.
//!
//! Lee, McCauley, Singh, Stein: "Telescoping Filter", section 5. A digest's bits
//! never end, so selectors go up to 255 before a block counts as spent.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bits::word::Words;
use crate::error::Result;
use crate::params::{Field, Kind, Valid};

use super::block::{SLOTS, Within};
use super::params::Slots;
use super::place::Place;
use super::rule::{BlockState, MOST_STATE, Rule};
use super::runs::Runs;
use super::search::Search;
use super::telescoping::{next_selector, nth_remainder};

/// The parameters of "uncompressed".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a remainder, 1 to 32 | 8 |
/// | `full` | what a full filter does: `error`, `rebuild` (here the same as `error`) or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    slots: Slots,
}

impl Kind for Values {
    type Shape = Slots;

    const NAME: &'static str = "uncompressed";
    const ADAPTS: bool = true;
    const STATE_UNIT: Option<&'static str> = Some("keys by selector");
    const USUAL: Self = Values { slots: Slots::USUAL };

    fn shape(&self) -> &Slots {
        &self.slots
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        self.slots.fields([])
    }

    fn validate(&self) -> Result<(), String> {
        self.slots.validate()
    }

    fn state_bytes(&self) -> usize {
        SLOTS
    }
}

/// Selectors of a byte each.
#[derive(Clone)]
#[doc(hidden)]
pub struct Uncompressed {
    /// Bits of a remainder.
    width: u32,
}

impl Rule for Uncompressed {
    const REMAINDERS_CHANGE: bool = true;

    type SlotState = u8;
    type Params = Params;

    fn new(params: &Params) -> Self {
        Uncompressed { width: params.slots.f }
    }

    fn decode(&self, state: &[u8]) -> BlockState<u8> {
        BlockState { epoch: 0, slots: state.try_into().expect("a byte for each slot") }
    }

    fn encode(&self, block_state: &BlockState<u8>) -> Option<[u8; MOST_STATE]> {
        Some(block_state.slots)
    }

    fn depth(&self, selector: u8) -> u8 {
        selector
    }

    fn at_depth(&self, _: &Place, depth: u8) -> u8 {
        depth
    }

    #[inline(always)]
    fn remainder(&self, place: &Place, _: u8, selector: u8) -> u64 {
        let first = place.remainder(self.width);
        nth_remainder(place.digest, first, selector.into(), self.width)
    }

    fn adapted(&self, query: &Place, stored: &Place, epoch: u8, selector: u8) -> Option<u8> {
        let remainders = |selector: u16| {
            [query, stored].map(|place| self.remainder(place, epoch, selector as u8))
        };
        next_selector(selector.into(), u8::MAX.into(), remainders).map(|selector| selector as u8)
    }

    fn decode_one(&self, state: &[u8], index: usize) -> (u8, u8) {
        (0, state[index])
    }
}

/// A slot may have any of 256 remainders: batches leave every occupied run open.
impl Search for Uncompressed {
    #[inline(always)]
    fn may_be_in(&self, _: impl Words, runs: &Runs, run: &Range<usize>, place: &Place) -> bool {
        run.clone().any(|slot| {
            let selector = runs.state(slot / SLOTS)[slot % SLOTS];
            runs.remainder(slot) == self.remainder(place, 0, selector)
        })
    }

    #[inline(always)]
    fn may_be_in_at_once(
        &self,
        words: impl Words,
        runs: &Runs,
        run: Within,
        place: &Place,
    ) -> Option<bool> {
        Some(self.may_be_in(words, runs, &run.slots(), place))
    }

    fn undecoded(&self, state: &[u8], index: usize, remainder: u64, place: &Place) -> Option<bool> {
        Some(remainder == self.remainder(place, 0, state[index]))
    }
}
