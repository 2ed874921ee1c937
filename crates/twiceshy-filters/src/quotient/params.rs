//! The parameters that quotient filters share.

use alloc::string::String;

use libm::{exp2, expm1};

use super::runs::Runs;
use crate::cuckoo::bounds::target_load_permille;
use crate::params::{Params, Shape, WhenFull, within};

/// Slots: how large their remainders are, and what comes when none is left.
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

    /// The most slots within `room` bits, where a block of them has `state` bytes more.
    pub(super) fn within(&self, room: usize, state: usize) -> Option<usize> {
        Runs::quotients_within(room, self.f, state)
    }
}

impl Shape for Slots {
    fn cell_bits(&self) -> u32 {
        self.f
    }

    /// Poisson: a run has `load` remainders on average, and any number.
    fn first_pass_rate(&self, load: f64) -> f64 {
        -expm1(-load * exp2(-f64::from(self.f)))
    }

    fn target_permille(&self) -> u32 {
        target_load_permille(1, 1)
    }

    fn cells_per_bin(&self) -> u32 {
        1
    }
}

/// The parameters of an adaptive quotient filter.
pub trait Adapting: Params + Copy {
    /// Those that all quotient filters have.
    fn slots(&self) -> &Slots;

    /// Bytes of what a block learns.
    fn state_bytes(&self) -> usize;
}

/// Whether a block's state can have so many bits: whole bytes, at least `least` bits.
pub(super) fn validate_budget(budget: u32, least: u32) -> Result<(), String> {
    within("budget", budget, least, 128)?;
    if !budget.is_multiple_of(8) {
        return Err(alloc::format!("budget={budget} is no whole number of bytes"));
    }
    Ok(())
}
