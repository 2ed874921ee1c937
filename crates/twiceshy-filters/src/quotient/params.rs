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

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of k slots looks like a query with probability `1 - (1 - 2^-f)^k`, and its length is
    /// Poisson.
    #[test]
    fn a_rate_is_that_of_all_lengths_of_a_run() {
        for (f, load) in [(1, 0.5), (4, 0.95), (8, 0.95), (12, 0.1)] {
            let (mut term, mut sum) = (libm::exp(-load), 0.0);
            for keys in 0..40 {
                sum += term * (1.0 - libm::pow(1.0 - exp2(-f64::from(f)), f64::from(keys)));
                term *= load / f64::from(keys + 1);
            }
            let ours = Slots { f, ..Slots::USUAL }.first_pass_rate(load);
            assert!((ours / sum - 1.0).abs() < 1e-9, "{f} bits: {ours}, {sum}");
        }
    }

    #[test]
    fn a_budget_is_whole_bytes_up_to_128_bits() {
        for budget in 0..=140 {
            let sound = (24..=128).contains(&budget) && budget % 8 == 0;
            assert_eq!(validate_budget(budget, 24).is_ok(), sound, "{budget}");
        }
        assert!(Slots { f: 0, ..Slots::USUAL }.validate().is_err());
        assert!(Slots { f: 33, ..Slots::USUAL }.validate().is_err());
        assert!([1, 32].iter().all(|&f| Slots { f, ..Slots::USUAL }.validate().is_ok()));
    }
}
