use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::super::params::Slots;
use super::EXTRA;
use crate::error::{Error, Result};
use crate::params::{self, Field, Shape, field};

/// The parameters of "rsqf".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a remainder, 1 to 32 | 8 |
/// | `full` | what a full filter does: `error`, `rebuild` (here the same as `error`) or `grow` (at its capacity) | `rebuild` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    pub(super) slots: Slots,
}

impl Default for Params {
    fn default() -> Self {
        Params { slots: Slots::USUAL }
    }
}

impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        params::write(*self, f)
    }
}

impl FromStr for Params {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        params::parse(text)
    }
}

impl params::Sealed for Params {}

impl params::Params for Params {
    fn name(&self) -> &'static str {
        "rsqf"
    }

    fn shape(&self) -> &dyn Shape {
        &self.slots
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let Slots { f, full } = &mut self.slots;
        vec![field("f", f), field("full", full)]
    }

    fn validate(&self) -> Result<(), String> {
        self.slots.validate()
    }

    fn adapts(&self) -> bool {
        false
    }

    fn bins_within(&self, room: usize, _: usize) -> Option<usize> {
        self.slots.within(room, EXTRA)
    }
}
