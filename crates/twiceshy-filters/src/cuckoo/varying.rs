//! The cyclic adaptive cuckoo filter with varying ranges: the first fingerprint function
//! has most of a cell's values, because most keys never need another.
//!
//! Mitzenmacher, Pontarelli, Reviriego, "Adaptive Cuckoo Filters", section 3.2. The
//! filter is that of [`super::cyclic`], with other ranges.

use alloc::string::String;
use alloc::vec::Vec;

use libm::exp2;

use crate::error::Result;
use crate::format::FIRST_VERSION;
use crate::params::{Field, Kind, Valid, field, within};

use super::cyclic::Ranges;
use super::params::Cells;

/// The parameters of "varying".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, `r` + 1 to 32 with the selector | 12 |
/// | `s` | selector bits, 0 to 8 | 1 |
/// | `r` | one value in `2^r` is left to the functions after the first, 1 to 16 | 2 |
/// | `k` | tables, 2 to 16 | 4 |
/// | `b` | cells per bin, 1 to 64 | 1 |
/// | `retry` | 1: adapting avoids a fingerprint under which the query still collides | 1 |
/// | `search` | how a full bin makes room: `bfs`, `walk`, or `next` as published | `bfs` |
/// | `full` | what a full filter does: `error`, `rebuild` or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    cells: Cells,
    s: u32,
    r: u32,
    retry: bool,
}

impl Kind for Values {
    type Shape = Cells;

    const NAME: &'static str = "varying";
    const ADAPTS: bool = true;
    const STATE_UNIT: Option<&'static str> = Some("keys by selector");
    const USUAL: Self = Values { cells: Cells::new(4, 1), s: 1, r: 2, retry: true };

    fn shape(&self) -> &Cells {
        &self.cells
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        let of_fingerprints = [field("s", &mut self.s), field("r", &mut self.r)];
        self.cells.fields(of_fingerprints, [field("retry", &mut self.retry)])
    }

    fn validate(&self) -> Result<(), String> {
        self.cells.validate_tables(1)?;
        within("s", self.s, 0, 8)?;
        within("r", self.r, 1, 16)?;
        within("f", self.cells.f, self.r + 1, 32 - self.s)?;
        self.cells.validate_fingerprint(self.s)
    }

    fn cell_bits(&self) -> u32 {
        self.cells.f + self.s
    }

    fn first_pass_rate(&self, load: f64) -> f64 {
        let all = exp2(f64::from(self.cells.f + self.s));
        self.cells.rate_of(all * (1.0 - exp2(-f64::from(self.r))) - 1.0, load)
    }
}

impl From<Params> for Ranges {
    fn from(Valid(Values { cells: Cells { f, .. }, s, r, retry }): Params) -> Self {
        let values = 1u64 << (f + s);
        let first_end = values - (values >> r);
        Ranges {
            below: f - r,
            first_end,
            others: 1 << s,
            skip: 0,
            last_short: 0,
            version: FIRST_VERSION,
            retry,
        }
    }
}
