//! Codes for the adaptivity state of a block: what its 64 slots have learned
//! from false positives, squeezed into one word of a fixed number of bits.
//!
//! | file | what it codes | filter |
//! | --- | --- | --- |
//! | [`arithmetic`] | any alphabet with a "nothing happened" symbol | |
//! | [`selectors`] | which remainder of its key a slot holds | telescoping |
//! | [`extensions`] | bits appended to a slot's remainder | extending |
//!
//! Three laws hold for each of them, whatever the budget:
//!
//! - the block that never adapted encodes to 0, and no other block does;
//! - every word decodes, and what it decodes to encodes again;
//! - encoding says `None` when the budget is spent, and never loses a slot.

pub(crate) mod arithmetic;
pub(crate) mod extensions;
pub(crate) mod selectors;

use alloc::vec::Vec;

/// What the code of a block spends on what its slots have learned; for models.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockCode {
    /// Bits that the code of 64 slots may have. Rounding takes up to two of them.
    pub budget: u32,
    /// Bits, ideally, for a slot whose selector is the index, or whose extension has
    /// so many bits. A slot that would have to learn more than the last spends its
    /// block.
    pub bits: Vec<f64>,
}
