//! Codes for the state of a block: the selectors or extensions of its 64 slots in one word
//! of at most `budget` bits.
//!
//! | file | codes | filter |
//! | --- | --- | --- |
//! | [`arithmetic`] | any slot states of which one, the zero, is common | |
//! | [`selectors`] | which remainder of its key a slot holds | telescoping |
//! | [`extensions`] | bits appended to a slot's remainder | extending |
//!
//! Three laws hold for each of them, whatever the budget:
//!
//! - a block that has not adapted encodes to 0, and no other block does;
//! - every word decodes, and the decoded block encodes again;
//! - encoding returns `None` when the budget is spent, and never loses a slot.

pub(crate) mod arithmetic;
pub(crate) mod extensions;
pub(crate) mod selectors;

use alloc::vec::Vec;

/// Bits that the code of a block spends on its slots; for models.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockCode {
    /// Bits that the code of 64 slots may have. Rounding takes up to two of them.
    pub budget: u32,
    /// Entry `i`: the ideal bits of a slot with selector `i`, or with an extension of `i`
    /// bits. A slot that needs more than the last entry spends its block.
    pub bits: Vec<f64>,
}
