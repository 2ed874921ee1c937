//! The extension adaptive filter ("exAF"): after a false positive the slot's
//! fingerprint grows until it is no longer a prefix of the query's.
//!
//! Lee, McCauley, Singh, Stein: "Telescoping Filter", section 5 and appendix C.4;
//! a simplification of the broom filter of Bender et al. Extensions are the
//! first bits of a digest's second word; those of a block are one arithmetic
//! code. Remainders never change, so a spent block drops its extensions without a look at
//! the remote.

use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

use crate::bits::word::Words;
use crate::code::BlockCode;
use crate::code::extensions::{Extension, ExtensionCode, MAX_LENGTH};
use crate::digest::Digest;
use crate::error::Result;
use crate::params::{Field, Kind, Valid, field};

use super::block::{Bytes, Within};
use super::params::{Slots, validate_budget};
use super::place::Place;
use super::rule::{BlockState, MOST_STATE, Rule, number};
use super::runs::Runs;
use super::search::Search;

/// The parameters of "extension".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a remainder, 1 to 32 | 8 |
/// | `budget` | bits for the state of a block of 64 slots, a multiple of 8 to 128 | 56 |
/// | `full` | what a full filter does: `error`, `rebuild` (here the same as `error`) or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    slots: Slots,
    budget: u32,
}

impl Kind for Values {
    type Shape = Slots;

    const NAME: &'static str = "extension";
    const ADAPTS: bool = true;
    const STATE_UNIT: Option<&'static str> = Some("keys by bits of extension");
    const USUAL: Self = Values { slots: Slots::USUAL, budget: 56 };

    fn shape(&self) -> &Slots {
        &self.slots
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        self.slots.fields([field("budget", &mut self.budget)])
    }

    fn validate(&self) -> Result<(), String> {
        validate_budget(self.budget, 8)?;
        self.slots.validate()
    }

    fn block_code(&self) -> Option<BlockCode> {
        let code = Extending::new(&Valid(*self)).code;
        let bits = (0..=MAX_LENGTH).map(|length| code.bits(length)).collect();
        Some(BlockCode { budget: self.budget, bits })
    }

    fn state_bytes(&self) -> usize {
        self.budget as usize / 8
    }
}

/// Extensions in one arithmetic code per block.
#[derive(Clone)]
#[doc(hidden)]
pub struct Extending {
    code: ExtensionCode,
    /// Bits of a remainder.
    width: u32,
}

/// The first `length` bits behind a digest's remainder.
fn extension(digest: Digest, length: u8) -> Extension {
    let bits = if length == 0 { 0 } else { digest.bits(64, length.into()) as u32 };
    Extension { length, bits }
}

impl Rule for Extending {
    const REMAINDERS_CHANGE: bool = false;

    type SlotState = Extension;
    type Params = Params;

    fn new(params: &Params) -> Self {
        Extending { code: ExtensionCode::for_budget(params.budget), width: params.slots.f }
    }

    fn decode(&self, state: &[u8]) -> BlockState<Extension> {
        BlockState { epoch: 0, slots: self.code.decode(number(state)) }
    }

    fn encode(&self, block_state: &BlockState<Extension>) -> Option<[u8; MOST_STATE]> {
        let code = self.code.encode(&block_state.slots)?.to_le_bytes();
        let mut state = [0; MOST_STATE];
        state[..code.len()].copy_from_slice(&code);
        Some(state)
    }

    fn depth(&self, held: Extension) -> u8 {
        held.length
    }

    fn at_depth(&self, place: &Place, depth: u8) -> Extension {
        extension(place.digest, depth)
    }

    #[inline(always)]
    fn remainder(&self, place: &Place, _: u8, _: Extension) -> u64 {
        place.remainder(self.width)
    }

    fn holds(&self, remainder: u64, place: &Place, _: u8, held: Extension) -> bool {
        remainder == place.remainder(self.width) && held == extension(place.digest, held.length)
    }

    fn adapted(&self, query: &Place, stored: &Place, _: u8, _: Extension) -> Option<Extension> {
        let common = (query.digest.word(1) ^ stored.digest.word(1)).leading_zeros() as u8;
        (common < MAX_LENGTH).then(|| extension(stored.digest, common + 1))
    }

    fn decode_one(&self, state: &[u8], index: usize) -> (u8, Extension) {
        (0, self.code.decode_one(number(state), index))
    }
}

impl Search for Extending {
    const EVERY_QUERY_READS_STATE: bool = false;

    #[inline(always)]
    fn may_be_in(&self, _: impl Words, runs: &Runs, run: &Range<usize>, place: &Place) -> bool {
        runs.any(Within::of(run), place.remainder(self.width))
    }

    #[inline(always)]
    fn may_be_in_at_once(
        &self,
        _: impl Words,
        runs: &Runs,
        run: Within,
        place: &Place,
    ) -> Option<bool> {
        // Finding the run has loaded this width already.
        runs.any_at_once(run, place.remainder(runs.width()))
    }

    #[inline(always)]
    fn may_be_among(&self, _: impl Words, slots: Bytes, place: &Place) -> bool {
        slots.any(place.remainder(8))
    }

    fn undecoded(&self, state: &[u8], index: usize, remainder: u64, place: &Place) -> Option<bool> {
        if remainder != place.remainder(self.width) {
            return Some(false);
        }
        self.code.starts_with_zeros(number(state), index + 1).then_some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An extension has as many bits as tell a key from the query, and not one more.
    #[test]
    fn an_extension_is_as_short_as_it_can_be() {
        let rule = Extending::new(&"extension:f=8".parse().expect("a filter"));
        let stored = Digest::new([1 << 60, 0x0123_4567_89ab_cdef]);
        for common in 0..64 {
            let query = Digest::new([1 << 60, stored.word(1) ^ 1 << (63 - common)]);
            let [query, place] = [query, stored].map(|digest| Place::new(digest, 64));
            let adapted = rule.adapted(&query, &place, 0, Extension::default());
            let longer = (common < MAX_LENGTH).then(|| extension(stored, common + 1));
            assert_eq!(adapted, longer, "{common} bits in common");
            if let Some(Extension { length, bits }) = adapted {
                assert_eq!(u64::from(bits), stored.word(1) >> (64 - length), "{length} bits");
            }
        }
    }
}
