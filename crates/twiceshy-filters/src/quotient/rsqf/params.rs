use alloc::string::String;
use alloc::vec::Vec;

use super::super::params::Slots;
use crate::error::Result;
use crate::params::{Field, Kind, Valid};

/// The parameters of "rsqf".
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
    pub(super) slots: Slots,
}

impl Kind for Values {
    type Shape = Slots;

    const NAME: &'static str = "rsqf";
    const ADAPTS: bool = false;
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
}
