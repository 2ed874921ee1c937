//! The parameters that quotient filters share.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::str::FromStr;

use libm::{exp2, expm1};

use super::runs::Runs;
use crate::cuckoo::bounds::target_load_permille;
use crate::error::Error;
use crate::params::{Field, Kind, Params, Shape, Valid, WhenFull, field, within};

/// Slots: the length of their remainders, and what a full filter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Bits of a remainder.
    pub(crate) f: u32,
    pub(crate) full: WhenFull,
}

impl Slots {
    /// Remainders of 8 bits.
    pub(crate) const USUAL: Self = Slots { f: 8, full: WhenFull::Rebuild };

    pub(crate) fn validate(&self) -> Result<(), String> {
        within("f", self.f, 1, 32)
    }

    /// All of them in the order in which they are written, with a kind's own in between.
    pub(crate) fn fields<'a>(
        &'a mut self,
        own: impl IntoIterator<Item = Field<'a>>,
    ) -> Vec<Field<'a>> {
        let mut fields = vec![field("f", &mut self.f)];
        fields.extend(own);
        fields.push(field("full", &mut self.full));
        fields
    }
}

impl Shape for Slots {
    fn cell_bits(&self) -> u32 {
        self.f
    }

    /// The length of a run is Poisson with mean `load`.
    fn first_pass_rate(&self, load: f64) -> f64 {
        -expm1(-load * exp2(-f64::from(self.f)))
    }

    fn target_permille(&self) -> u32 {
        target_load_permille(1, 1)
    }

    fn cells_per_bin(&self) -> u32 {
        1
    }

    fn bins_within(kind: &impl Kind<Shape = Self>, room: usize, _: usize) -> Option<usize> {
        Runs::quotients_within(room, kind.shape().f, kind.state_bytes())
    }
}

/// The parameters of a quotient filter.
pub trait Quotient: Params + Copy + Default + FromStr<Err = Error> {
    /// Those that all quotient filters have.
    fn slots(&self) -> &Slots;

    /// Bytes of a block's state.
    fn state_bytes(&self) -> usize;
}

impl<K: Kind<Shape = Slots>> Quotient for Valid<K> {
    fn slots(&self) -> &Slots {
        self.shape()
    }

    fn state_bytes(&self) -> usize {
        self.0.state_bytes()
    }
}

/// Whether a block's state can have this budget: whole bytes, `least` to 128 bits.
pub(super) fn validate_budget(budget: u32, least: u32) -> Result<(), String> {
    within("budget", budget, least, 128)?;
    if !budget.is_multiple_of(8) {
        return Err(alloc::format!("budget={budget} is no whole number of bytes"));
    }
    Ok(())
}
