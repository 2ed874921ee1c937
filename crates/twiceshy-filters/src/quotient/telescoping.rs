//! The telescoping adaptive filter: after a false positive the slot takes the
//! next remainder of its key.
//!
//! Lee, McCauley, Singh, Stein: "Telescoping Filter", sections 3 to 5. Remainder
//! `i` of a digest is the `i`-th piece of `r` bits; a slot's *selector* says which
//! one it holds. The selectors of a block are one arithmetic code:
//!
//! ```text
//! word 0 * slots = quotient . | remainder 0 |        of the fraction
//! word 1         = | remainder 1 | remainder 2 | ... | remainder 64 / r |
//!
//! a block's state = | code of its 64 selectors | epoch: a byte, with reseed only |
//! ```
//!
//! Selectors end with word 1. A slot then holds remainder 0 or one of the lanes of one
//! word, which a query compares with all slots at once; only a match needs the selector,
//! and decodes. A slot that needs a larger selector spends its block. (At `r = 8` that
//! is selector 9. By the time a slot gets there with probability 0.0001, its block is spent
//! with probability 0.3.)
//!
//! A spent block forgets its selectors, and its slots go back to remainder 0, as in the
//! paper. With `spent=reseed` they take remainder 0 of the next *epoch*, another set of hash
//! functions, so an old false positive returns with probability `2^-r` instead of 1.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use crate::bits::lanes::Lanes;
use crate::bits::word::low_bits;
use crate::code::BlockCode;
use crate::code::selectors::SelectorCode;
use crate::digest::Digest;
use crate::error::Result;
use crate::params::{Field, Kind, Literal, Params as _, Valid, Value as _, Word, field};

use super::params::{Slots, validate_budget};
use super::place::Place;
use super::rule::{BlockState, MOST_STATE, Rule, number};

mod search;

use search::AtOnce;

/// What happens to a block whose budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenSpent {
    /// Its slots go back to their first remainders, and to the false positives of these.
    Reset,
    /// Its slots take the first remainders of the next epoch.
    Reseed,
}

impl Word for WhenSpent {
    const WORDS: &'static [(&'static str, Self)] =
        &[("reset", WhenSpent::Reset), ("reseed", WhenSpent::Reseed)];
}

/// The code of selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Tuned,
    General,
}

impl Word for Code {
    const WORDS: &'static [(&'static str, Self)] =
        &[("tuned", Code::Tuned), ("general", Code::General)];
}

/// The parameters of "telescoping".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a remainder, 1 to 32 | 8 |
/// | `budget` | bits for the state of a block of 64 slots, a multiple of 8 to 128; from 16 with `spent=reseed` | 56 |
/// | `code` | the code of selectors: `general`, or the one `tuned` for `f=8` | `general` |
/// | `spent` | a block whose budget is spent starts again (`reset`), with other hash functions (`reseed`) | `reset` |
/// | `literal` | 1: a colliding slot takes its next remainder, also where that is the query's as well | 0 |
/// | `full` | what a full filter does: `error`, `rebuild` (here the same as `error`) or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    slots: Slots,
    budget: u32,
    code: Code,
    spent: WhenSpent,
    literal: Literal,
}

impl Kind for Values {
    type Shape = Slots;

    const NAME: &'static str = "telescoping";
    const ADAPTS: bool = true;
    const STATE_UNIT: Option<&'static str> = Some("keys by selector");
    const USUAL: Self = Values { spent: WhenSpent::Reset, ..Params::RESEEDING.0 };

    fn shape(&self) -> &Slots {
        &self.slots
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        self.slots.fields([
            field("budget", &mut self.budget),
            field("code", &mut self.code),
            field("spent", &mut self.spent),
            field("literal", &mut self.literal),
        ])
    }

    fn validate(&self) -> Result<(), String> {
        // An epoch takes one byte of a reseeding block's state.
        let least = if self.spent == WhenSpent::Reseed { 16 } else { 8 };
        validate_budget(self.budget, least)?;
        if self.code == Code::Tuned && self.slots.f != 8 {
            return Err("code=tuned was tuned for f=8; use code=general".into());
        }
        self.slots.validate()
    }

    fn label(&self) -> String {
        let suffix = if self.spent == WhenSpent::Reseed { "-reseed" } else { "" };
        self.literal.label(&format!("telescoping{suffix}"))
    }

    fn block_code(&self) -> Option<BlockCode> {
        let rule = Telescoping::new(&Valid(*self));
        let bits = (0..=rule.last()).map(|selector| rule.code.bits(selector)).collect();
        Some(BlockCode { budget: 8 * rule.code_bytes as u32, bits })
    }

    fn state_bytes(&self) -> usize {
        self.budget as usize / 8
    }
}

impl Params {
    /// The defaults, but spent blocks are reseeded.
    pub(crate) const RESEEDING: Self = Valid(Values {
        slots: Slots::USUAL,
        budget: 56,
        code: Code::General,
        spent: WhenSpent::Reseed,
        literal: Literal(false),
    });

    /// The same filter with another answer to a spent block.
    ///
    /// # Errors
    /// [`Error::Spec`](crate::Error::Spec) where the budget is too small for an epoch.
    pub fn when_spent(self, spent: WhenSpent) -> Result<Self> {
        self.with("spent", spent.text())
    }
}

/// Selectors in one arithmetic code per block.
#[derive(Clone)]
#[doc(hidden)]
pub struct Telescoping {
    code: SelectorCode,
    /// Bits of a remainder.
    width: u32,
    /// Bytes of a block's code; an epoch takes one more.
    code_bytes: usize,
    /// The remainders from 1 on, as lanes of one word.
    lanes: Lanes,
    reseeds: bool,
    /// Selectors are not skipped.
    literal: bool,
    /// `Some` where remainders have a byte and a block's state is one load.
    at_once: Option<AtOnce>,
}

impl Telescoping {
    /// The largest selector.
    fn last(&self) -> u16 {
        (64 / self.width) as u16
    }

    /// A block's epoch and code.
    #[inline(always)]
    fn parts(&self, state: &[u8]) -> (u8, u128) {
        let (code, epoch) = state.split_at(self.code_bytes);
        (epoch.first().copied().unwrap_or(0), number(code))
    }

    /// Whether any remainder of the digest is this one.
    #[inline(always)]
    fn has(&self, remainder: u64, first: u64, digest: Digest) -> bool {
        let Telescoping { lanes, .. } = self;
        remainder == first || lanes.any_zero(self.others(digest) ^ lanes.broadcast(remainder))
    }

    /// A digest's remainders from 1 on.
    #[inline(always)]
    fn others(&self, digest: Digest) -> u64 {
        digest.word(1) >> (64 - self.lanes.bits())
    }
}

/// Remainder number `selector` of a digest whose number 0 is `first`.
#[inline(always)]
pub(super) fn nth_remainder(digest: Digest, first: u64, selector: u16, width: u32) -> u64 {
    match u32::from(selector) {
        0 => first,
        nth => digest.bits(64 + (nth - 1) * width, width),
    }
}

/// The first selector from `selector` to `last` with which a stored digest's
/// remainder is not the query's.
pub(super) fn next_selector(
    selector: u16,
    last: u16,
    remainders: impl Fn(u16) -> [u64; 2],
) -> Option<u16> {
    (selector..=last).find(|&selector| {
        let [query, stored] = remainders(selector);
        query != stored
    })
}

impl Rule for Telescoping {
    const REMAINDERS_CHANGE: bool = true;

    type SlotState = u16;
    type Params = Params;

    fn new(params: &Params) -> Self {
        let (width, state_bits) = (params.slots.f, params.budget);
        let reseeds = params.spent == WhenSpent::Reseed;
        let budget = if reseeds { state_bits - 8 } else { state_bits };
        let code = match params.code {
            Code::Tuned => SelectorCode::tuned(budget),
            Code::General => SelectorCode::general(width, budget),
        };
        let at_once = code.zeros().filter(|_| width == 8 && state_bits <= 64).map(|zeros| {
            let (code, state) = (low_bits(budget), low_bits(state_bits));
            AtOnce { code, epoch: state ^ code, zeros }
        });
        Telescoping {
            code,
            width,
            code_bytes: budget as usize / 8,
            lanes: Lanes::new(64 / width, width).expect("remainders of 1 to 32 bits"),
            reseeds,
            literal: params.literal.0,
            at_once,
        }
    }

    fn decode(&self, state: &[u8]) -> BlockState<u16> {
        let (epoch, code) = self.parts(state);
        BlockState { epoch, slots: self.code.decode(code) }
    }

    fn encode(&self, block_state: &BlockState<u16>) -> Option<[u8; MOST_STATE]> {
        if block_state.slots.iter().any(|&selector| selector > self.last()) {
            return None;
        }
        let code = self.code.encode(&block_state.slots)?.to_le_bytes();
        let mut state = [0; MOST_STATE];
        state[..self.code_bytes].copy_from_slice(&code[..self.code_bytes]);
        state[self.code_bytes] = block_state.epoch;
        Some(state)
    }

    fn next_epoch(&self, epoch: u8) -> u8 {
        if self.reseeds { epoch.wrapping_add(1) } else { epoch }
    }

    fn depth(&self, selector: u16) -> u8 {
        // At most 64, with remainders of one bit.
        selector as u8
    }

    fn at_depth(&self, _: &Place, depth: u8) -> u16 {
        depth.into()
    }

    #[inline(always)]
    fn remainder(&self, place: &Place, epoch: u8, selector: u16) -> u64 {
        let (digest, first) = if epoch == 0 {
            (place.digest, place.remainder(self.width))
        } else {
            let digest = place.digest.rehashed(u64::from(epoch));
            (digest, digest.bits(0, self.width))
        };
        nth_remainder(digest, first, selector, self.width)
    }

    fn adapts_once(&self) -> bool {
        self.literal
    }

    fn adapted(&self, query: &Place, stored: &Place, epoch: u8, selector: u16) -> Option<u16> {
        if self.literal {
            return (selector < self.last()).then_some(selector + 1);
        }
        next_selector(selector, self.last(), |selector| {
            [query, stored].map(|place| self.remainder(place, epoch, selector))
        })
    }

    fn decode_one(&self, state: &[u8], index: usize) -> (u8, u16) {
        let (epoch, code) = self.parts(state);
        (epoch, self.code.decode_one(code, index))
    }
}

#[cfg(test)]
mod tests;
