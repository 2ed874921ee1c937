use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use libm::{exp2, expm1};

use super::shape::Shape;
use crate::error::{Error, Result};
use crate::params::{self, Field, MAX_BINS, WhenFull, field};

/// The parameters of "line".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `k` | bits of a fingerprint beside its byte: 1, 2, 3, 4 or 8 | 1 |
/// | `full` | what a full filter does: `error`, `rebuild` (here the same as `error`) or `grow` (at its capacity) | `rebuild` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    k: u32,
    pub(super) full: WhenFull,
}

impl Default for Params {
    fn default() -> Self {
        Params { k: 1, full: WhenFull::Rebuild }
    }
}

impl Params {
    pub(super) fn shape(&self) -> Shape {
        Shape::of(self.k as usize).expect("parameters are within their limits")
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

impl params::Shape for Params {
    fn cell_bits(&self) -> u32 {
        self.shape().fingerprint_bits()
    }

    /// Poisson: a bucket has so many keys on average, and any number.
    fn first_pass_rate(&self, load: f64) -> f64 {
        let shape = self.shape();
        let keys = load * shape.slots as f64 / shape.buckets as f64;
        -expm1(-keys * exp2(-f64::from(shape.fingerprint_bits())))
    }

    fn target_permille(&self) -> u32 {
        let shape = self.shape();
        (shape.keys_per_1000_lines / shape.slots) as u32
    }

    fn cells_per_bin(&self) -> u32 {
        self.shape().slots as u32
    }
}

impl params::Params for Params {
    fn name(&self) -> &'static str {
        "line"
    }

    fn label(&self) -> String {
        if self.k == 1 { "line".into() } else { format!("line-{}", self.k) }
    }

    fn shape(&self) -> &dyn params::Shape {
        self
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![field("k", &mut self.k), field("full", &mut self.full)]
    }

    fn validate(&self) -> Result<(), String> {
        match Shape::of(self.k as usize) {
            Some(_) => Ok(()),
            None => Err(format!("k={} is out of range: use 1, 2, 3, 4 or 8", self.k)),
        }
    }

    fn adapts(&self) -> bool {
        true
    }

    fn learned_unit(&self) -> Option<&'static str> {
        Some("groups of buckets")
    }

    fn bins_within(&self, room: usize, _: usize) -> Option<usize> {
        Some(room / 512).filter(|&lines| lines > 0)
    }

    /// Lines for so many keys. The ends of the filter can drift to one side only, so few lines
    /// need more room than many.
    fn bins_for(&self, capacity: usize) -> Result<usize> {
        if capacity == 0 {
            return Err(Error::spec(format!("{self}"), "a filter needs a capacity of at least 1"));
        }
        let lines = self.shape().lines_for(capacity);
        if lines > MAX_BINS {
            let reason =
                format!("a capacity of {capacity} is too large for one filter; cut the keys up");
            return Err(Error::spec(format!("{self}"), reason));
        }
        Ok(lines)
    }
}
