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
    use crate::params::{Kind as _, Params as _, Shape};

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

    /// Of a full filter of each shape: the rate, where a bucket has k keys with the probability of
    /// Poisson's formula and each is like a query with probability 2^-f, and the share of slots used.
    #[test]
    fn rates_and_loads_are_those_of_each_shape() {
        for (text, bits, keys_per_bucket, permille, rate) in [
            ("line:f=9", 9, 41.0 / 40.0, 931, 0.0020),
            ("line:f=10", 10, 37.2 / 40.0, 930, 0.00091),
            ("line:f=11", 11, 33.3 / 40.0, 925, 0.00041),
            ("line:f=12", 12, 30.4 / 40.0, 921, 0.00019),
            ("line:f=16", 16, 22.7 / 36.0, 908, 0.0000096),
        ] {
            let params: Params = text.parse().expect("parameters");
            let shape = params.shape();
            assert_eq!(
                (Shape::cell_bits(shape), Shape::target_permille(shape)),
                (bits, permille),
                "{text}"
            );
            let (mut term, mut sum) = (libm::exp(-keys_per_bucket), 0.0);
            for keys in 0..30 {
                sum +=
                    term * (1.0 - libm::pow(1.0 - libm::exp2(-f64::from(bits)), f64::from(keys)));
                term *= keys_per_bucket / f64::from(keys + 1);
            }
            let lines = shape.lines();
            let load = keys_per_bucket * lines.buckets as f64 / lines.slots as f64;
            let ours = Shape::first_pass_rate(shape, load);
            assert!((ours / sum - 1.0).abs() < 1e-9, "{text}: {ours}, {sum}");
            assert!((ours / rate - 1.0).abs() < 0.03, "{text}: {ours}, {rate}");
        }
    }
}
