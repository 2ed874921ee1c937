//! The parameters of "broom".

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use super::sizing;
use crate::error::{Error, Result};
use crate::params::{self, Field, Shape, Word, field, within};
use crate::quotient::params::Slots;

/// What a new hash function changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Remainder and adaptivity bits: the remote is the set in digest order.
    Practical,
    /// The quotient as well, as published: the remote has an index for each
    /// function.
    Faithful,
}

impl Word for Form {
    const WORDS: &'static [(&'static str, Self)] =
        &[("practical", Form::Practical), ("faithful", Form::Faithful)];
}

/// The parameters of "broom".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a remainder, 1 to 32 | 8 |
/// | `form` | what a new hash function changes: `practical` or `faithful` | `practical` |
/// | `sweep` | ranges of digests (of one key on average) that each adaptation rehashes, 1 to 64 | 4 |
/// | `ghosts` | 0: removed keys are forgotten, and whoever removes and inserts keys can bring false positives back | 1 |
/// | `full` | what a full filter does: `error`, `rebuild` (here the same as `error`) or `grow` (at its capacity) | `rebuild` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    pub(super) slots: Slots,
    form: Form,
    pub(super) sweep: u32,
    pub(super) ghosts: bool,
}

impl Params {
    /// What a new hash function changes.
    #[must_use]
    pub fn form(&self) -> Form {
        self.form
    }
}

impl Default for Params {
    fn default() -> Self {
        Params { slots: Slots::USUAL, form: Form::Practical, sweep: 4, ghosts: true }
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
        "broom"
    }

    fn shape(&self) -> &dyn Shape {
        &self.slots
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let Slots { f, full } = &mut self.slots;
        vec![
            field("f", f),
            field("form", &mut self.form),
            field("sweep", &mut self.sweep),
            field("ghosts", &mut self.ghosts),
            field("full", full),
        ]
    }

    fn validate(&self) -> Result<(), String> {
        within("sweep", self.sweep, 1, 64)?;
        self.slots.validate()
    }

    fn label(&self) -> String {
        let suffix = if self.form == Form::Faithful { "-faithful" } else { "" };
        format!("broom{suffix}")
    }

    fn adapts(&self) -> bool {
        true
    }

    fn learned_unit(&self) -> Option<&'static str> {
        Some("groups of 64 quotients by adaptivity bits")
    }

    fn target_permille(&self) -> u32 {
        sizing::TARGET_PERMILLE
    }

    fn bins_within(&self, room: usize, keys: usize) -> Option<usize> {
        sizing::quotients_within(self.slots.f, room, keys)
    }
}
