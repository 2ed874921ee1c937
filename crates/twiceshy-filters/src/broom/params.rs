//! The parameters of "broom".

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::sizing;
use crate::error::Result;
use crate::params::{Field, Kind, Valid, Word, field, within};
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
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
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

impl Kind for Values {
    type Shape = Slots;

    const NAME: &'static str = "broom";
    const ADAPTS: bool = true;
    const STATE_UNIT: Option<&'static str> = Some("groups of 64 quotients by adaptivity bits");
    const USUAL: Self =
        Values { slots: Slots::USUAL, form: Form::Practical, sweep: 4, ghosts: true };

    fn shape(&self) -> &Slots {
        &self.slots
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        self.slots.fields([
            field("form", &mut self.form),
            field("sweep", &mut self.sweep),
            field("ghosts", &mut self.ghosts),
        ])
    }

    fn validate(&self) -> Result<(), String> {
        within("sweep", self.sweep, 1, 64)?;
        self.slots.validate()
    }

    fn label(&self) -> String {
        let suffix = if self.form == Form::Faithful { "-faithful" } else { "" };
        format!("broom{suffix}")
    }

    fn target_permille(&self) -> u32 {
        sizing::TARGET_PERMILLE
    }

    fn bins_within(&self, room: usize, keys: usize) -> Option<usize> {
        sizing::quotients_within(self.slots.f, room, keys)
    }
}
