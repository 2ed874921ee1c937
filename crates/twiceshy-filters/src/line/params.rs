use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use libm::{exp2, expm1};

use super::shape::{REMAINDER_BITS, Shape};
use crate::error::Result;
use crate::params::{self, Field, Kind, Valid, WhenFull, field};

/// The parameters of "line".
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint: 9, 10, 11, 12 or 16 | 9 |
/// | `full` | what a full filter does: `error`, `rebuild` (here the same as `error`) or `grow` (at its capacity) | `rebuild` |
pub type Params = Valid<Values>;

/// The values of these parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub struct Values {
    f: u32,
    pub(super) full: WhenFull,
}

impl Values {
    /// The lines of such a filter.
    pub(super) fn lines(&self) -> Shape {
        self.try_lines().expect("parameters are within their limits")
    }

    fn try_lines(&self) -> Option<Shape> {
        Shape::of(self.f.checked_sub(REMAINDER_BITS)? as usize)
    }
}

impl Kind for Values {
    type Shape = Self;

    const NAME: &'static str = "line";
    const ADAPTS: bool = true;
    const STATE_UNIT: Option<&'static str> = Some("groups of buckets");
    const USUAL: Self = Values { f: REMAINDER_BITS + 1, full: WhenFull::Rebuild };

    fn shape(&self) -> &Self {
        self
    }

    fn fields(&mut self) -> Vec<Field<'_>> {
        vec![field("f", &mut self.f), field("full", &mut self.full)]
    }

    fn validate(&self) -> Result<(), String> {
        match self.try_lines() {
            Some(_) => Ok(()),
            None => Err(format!("f={} is out of range: use 9, 10, 11, 12 or 16", self.f)),
        }
    }

    fn label(&self) -> String {
        if self.f == Self::USUAL.f { "line".into() } else { format!("line-{}", self.f) }
    }

    fn bins(&self, capacity: usize) -> u128 {
        self.lines().lines_for(capacity)
    }
}

impl params::Shape for Values {
    fn cell_bits(&self) -> u32 {
        self.f
    }

    /// The number of keys in a bucket is Poisson.
    fn first_pass_rate(&self, load: f64) -> f64 {
        let shape = self.lines();
        let keys = load * shape.slots as f64 / shape.buckets as f64;
        -expm1(-keys * exp2(-f64::from(self.f)))
    }

    fn target_permille(&self) -> u32 {
        let shape = self.lines();
        (shape.keys_per_1000_lines / shape.slots) as u32
    }

    fn cells_per_bin(&self) -> u32 {
        self.lines().slots as u32
    }

    fn bins_within(_: &impl Kind<Shape = Self>, room: usize, _: usize) -> Option<usize> {
        Some(room / 512).filter(|&lines| lines > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::Params;
    use crate::params::Params as _;

    /// A line has 512 bits.
    #[test]
    fn lines_fit_into_their_memory() {
        let params: Params = "line".parse().expect("parameters");
        for (room, lines) in [(511, None), (512, Some(1)), (1023, Some(1)), (51_200, Some(100))] {
            assert_eq!(params.bins_within(room, 0), lines, "{room}");
        }
    }

    #[test]
    fn the_usual_length_needs_no_mention() {
        for (text, label) in [("line", "line"), ("line:f=9", "line"), ("line:f=12", "line-12")] {
            assert_eq!(text.parse::<Params>().expect("parameters").label(), label);
        }
    }
}
