//! What one kind of filter says of its parameters. All else about them, such as their text,
//! is the same for every kind: [`Valid`].

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use core::str::FromStr;

use super::{Field, Params, Sealed, parse, write};
use crate::code::BlockCode;
use crate::error::{Error, Result};

/// The values of one kind's parameters, and what follows from them.
pub trait Kind: Copy + fmt::Debug + Eq + 'static {
    /// Its cells or slots.
    type Shape: Shape;

    /// [`Params::name`].
    const NAME: &'static str;

    /// [`Params::adapts`].
    const ADAPTS: bool;

    /// [`Params::state_unit`].
    const STATE_UNIT: Option<&'static str> = None;

    /// The defaults.
    const USUAL: Self;

    /// Its cells or slots.
    fn shape(&self) -> &Self::Shape;

    /// [`Params::fields`].
    fn fields(&mut self) -> Vec<Field<'_>>;

    /// [`Params::validate`].
    ///
    /// # Errors
    /// Which value is out of its limits, and what they are.
    fn validate(&self) -> Result<(), String>;

    /// [`Params::label`].
    fn label(&self) -> String {
        Self::NAME.to_string()
    }

    /// [`Params::cell_bits`].
    fn cell_bits(&self) -> u32 {
        self.shape().cell_bits()
    }

    /// [`Params::first_pass_rate`].
    fn first_pass_rate(&self, load: f64) -> f64 {
        self.shape().first_pass_rate(load)
    }

    /// [`Params::block_code`].
    fn block_code(&self) -> Option<BlockCode> {
        None
    }

    /// [`Params::target_permille`].
    fn target_permille(&self) -> u32 {
        self.shape().target_permille()
    }

    /// [`Params::cells_per_bin`].
    fn cells_per_bin(&self) -> u32 {
        self.shape().cells_per_bin()
    }

    /// [`Params::bin_step`].
    fn bin_step(&self) -> usize {
        1
    }

    /// [`Params::whole_bins`].
    fn whole_bins(&self, bins: usize) -> usize {
        bins.next_multiple_of(self.bin_step())
    }

    /// [`Params::bins`], by default as many as the target load gives.
    fn bins(&self, capacity: usize) -> u128 {
        let per_bin = u128::from(self.cells_per_bin()) * u128::from(self.target_permille());
        let step = self.bin_step() as u128;
        (capacity as u128 * 1000).div_ceil(per_bin).div_ceil(step) * step
    }

    /// Bytes of a block's state.
    fn state_bytes(&self) -> usize {
        0
    }

    /// Memory beside the cells of a filter with this many bins and keys, in bits.
    fn stash_bits(&self, _bins: usize, _keys: usize) -> usize {
        0
    }

    /// [`Params::bins_within`].
    fn bins_within(&self, room: usize, keys: usize) -> Option<usize> {
        Self::Shape::bins_within(self, room, keys)
    }
}

/// The cells or slots of a filter, and what follows from them. Kinds whose cells hold more
/// than a fingerprint answer for themselves.
pub trait Shape: Sized {
    /// Bits of one.
    fn cell_bits(&self) -> u32;

    /// [`Params::first_pass_rate`].
    fn first_pass_rate(&self, load: f64) -> f64;

    /// Keys for each 1000 of them that a filter is made for.
    fn target_permille(&self) -> u32;

    /// How many one more bin per table adds.
    fn cells_per_bin(&self) -> u32;

    /// [`Params::bins_within`] of a kind with this shape.
    fn bins_within(kind: &impl Kind<Shape = Self>, room: usize, keys: usize) -> Option<usize>;
}

/// The parameters of a kind, within their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Valid<K>(pub(crate) K);

impl<K: Kind> Default for Valid<K> {
    fn default() -> Self {
        Valid(K::USUAL)
    }
}

impl<K> Deref for Valid<K> {
    type Target = K;

    #[inline(always)]
    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K: Kind> fmt::Display for Valid<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(*self, f)
    }
}

impl<K: Kind> FromStr for Valid<K> {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text)
    }
}

impl<K: Kind> Sealed for Valid<K> {}

impl<K: Kind> Params for Valid<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        self.0.fields()
    }

    fn validate(&self) -> Result<(), String> {
        self.0.validate()
    }

    fn label(&self) -> String {
        self.0.label()
    }

    fn cell_bits(&self) -> u32 {
        self.0.cell_bits()
    }

    fn first_pass_rate(&self, load: f64) -> f64 {
        self.0.first_pass_rate(load)
    }

    fn adapts(&self) -> bool {
        K::ADAPTS
    }

    fn state_unit(&self) -> Option<&'static str> {
        K::STATE_UNIT
    }

    fn block_code(&self) -> Option<BlockCode> {
        self.0.block_code()
    }

    fn target_permille(&self) -> u32 {
        self.0.target_permille()
    }

    fn cells_per_bin(&self) -> u32 {
        self.0.cells_per_bin()
    }

    fn bin_step(&self) -> usize {
        self.0.bin_step()
    }

    fn whole_bins(&self, bins: usize) -> usize {
        self.0.whole_bins(bins)
    }

    fn bins(&self, capacity: usize) -> u128 {
        self.0.bins(capacity)
    }

    fn bins_within(&self, room: usize, keys: usize) -> Option<usize> {
        self.0.bins_within(room, keys)
    }
}
