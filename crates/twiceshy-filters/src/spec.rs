//! What every description can do: be read and written, size and build its filter.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::any::AnyFilter;
use crate::catalogue::{Spec, Visitor};
use crate::cuckoo::simplified;
use crate::error::{Error, Result};
use crate::make::{Build, Grow};
use crate::memory::InMemory;
use crate::params::{self, Params, Value, WhenFull};

/// A description's parameters, whichever they are.
struct AnyParams;

impl<'a> Visitor<'a> for AnyParams {
    type Output = &'a mut dyn Params;

    fn alone<F, M>(self, params: &'a mut F::Params) -> Self::Output
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static,
    {
        params
    }
}

/// Whether a filter can stand in front of a store.
struct InFront;

impl<'a> Visitor<'a> for InFront {
    type Output = bool;

    fn alone<F, M>(self, _: &'a mut F::Params) -> bool
    where
        F: Build + Send + Sync + 'static,
        M: InMemory<F::Remote> + Send + Sync + 'static,
    {
        false
    }

    fn in_front<F>(self, _: &'a mut F::Params) -> bool
    where
        F: Grow + Send + Sync + 'static,
    {
        true
    }
}

impl Spec {
    fn params_mut(&mut self) -> &mut dyn Params {
        self.visit(AnyParams)
    }

    /// Asks the parameters, whichever they are.
    fn ask<T>(mut self, question: impl FnOnce(&mut dyn Params) -> T) -> T {
        question(self.params_mut())
    }

    /// The name of its kind.
    ///
    /// ```
    /// assert_eq!(twiceshy_filters::Spec::all()[0].name(), "plain");
    /// ```
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.ask(|params| params.name())
    }

    /// Its short name in tables: the kind, and what sets it apart from the usual filter of
    /// that kind ("cyclic-2", "telescoping-reseed", "broom-faithful").
    #[must_use]
    pub fn label(&self) -> String {
        self.ask(|params| params.label())
    }

    /// Whether the filter changes when it is told of a false positive.
    #[must_use]
    pub fn adapts(&self) -> bool {
        self.ask(|params| params.adapts())
    }

    /// Whether it can stand in front of a store that is read in the order of digests, as a
    /// guard's is. Other filters need their remote in memory.
    #[must_use]
    pub fn guards_a_store(&self) -> bool {
        let mut spec = *self;
        spec.visit(InFront)
    }

    /// What [`AnyFilter::states`] counts; `None` if nothing.
    #[must_use]
    pub fn state_unit(&self) -> Option<&'static str> {
        self.ask(|params| params.state_unit())
    }

    /// The same filter with another value for one of its parameters.
    ///
    /// ```
    /// use twiceshy_filters::Spec;
    /// let spec: Spec = "telescoping:budget=8".parse()?;
    /// // An epoch takes one byte of a block's budget, and leaves none for its code.
    /// let error = spec.with("spent", "reseed").expect_err("no room for an epoch");
    /// assert!(error.to_string().contains("use 16 to 128"), "{error}");
    /// # Ok::<(), twiceshy_filters::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Spec`] for a parameter that the filter does not have, or a value that the
    /// parameter cannot have.
    pub fn with(mut self, parameter: &str, value: impl fmt::Display) -> Result<Self> {
        params::change(self.params_mut(), parameter, &value.to_string())?;
        Ok(self)
    }

    /// The same filter with another fingerprint length.
    ///
    /// # Errors
    /// [`Error::Spec`] where the length is out of range.
    pub fn with_fingerprint(self, bits: u32) -> Result<Self> {
        self.with("f", bits)
    }

    /// The same filter with another answer to "no room".
    #[must_use]
    pub fn when_full(self, full: WhenFull) -> Self {
        self.with("full", full.text()).expect("every filter can be full")
    }

    /// Bits of a cell: fingerprint and selector.
    #[must_use]
    pub fn cell_bits(&self) -> u32 {
        self.ask(|params| params.cell_bits())
    }

    /// The value of a parameter that is a number; `None` where the filter has no such
    /// parameter.
    ///
    /// ```
    /// let spec: twiceshy_filters::Spec = "cyclic:s=2".parse()?;
    /// assert_eq!((spec.number("s"), spec.number("budget")), (Some(2), None));
    /// # Ok::<(), twiceshy_filters::Error>(())
    /// ```
    #[must_use]
    pub fn number(&self, parameter: &str) -> Option<u32> {
        self.ask(|params| {
            let mut fields = params.fields().into_iter();
            fields.find(|(name, _)| *name == parameter)?.1.text().parse().ok()
        })
    }

    /// The probability that an absent key that was never queried is answered
    /// "maybe" at this load.
    #[must_use]
    pub fn first_pass_rate(&self, load: f64) -> f64 {
        self.ask(|params| params.first_pass_rate(load))
    }

    /// The same filter with the shortest fingerprint whose first-pass rate is
    /// at most `rate` when the filter is as full as it was made for.
    ///
    /// # Errors
    /// [`Error::Spec`] where no fingerprint is long enough.
    pub fn for_rate(self, rate: f64) -> Result<Self> {
        let load = f64::from(self.ask(|params| params.target_permille())) / 1000.0;
        let mut candidates = (1..=32).filter_map(|f| self.with_fingerprint(f).ok());
        candidates.find(|spec| spec.first_pass_rate(load) <= rate).ok_or_else(|| {
            Error::spec(
                self.name(),
                format!("no fingerprint gives a rate of {rate}; ask for a larger one (say 0.001)"),
            )
        })
    }

    /// An empty filter for `capacity` keys, with its remote in memory.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    pub fn build(&self, capacity: usize) -> Result<AnyFilter> {
        Ok(AnyFilter::new(*self, capacity, self.bins_for(capacity)?))
    }

    /// An empty simplified filter for `keys` keys with the parameters of
    /// Theorem 4.3: it fails to place them with probability `O(keys^-exponent)`.
    ///
    /// ```
    /// use twiceshy_filters::Spec;
    /// let filter = Spec::build_guaranteed(100_000, 8, 1.0)?;
    /// assert!(filter.stats().cells as f64 > 100_000.0 / 0.8698);
    /// # Ok::<(), twiceshy_filters::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Spec`] where the theorem promises nothing, or asks for a
    /// fingerprint that is too long.
    pub fn build_guaranteed(keys: usize, slots: u32, exponent: f64) -> Result<AnyFilter> {
        let (params, bins) = simplified::Params::guaranteed(keys, slots, exponent)?;
        Ok(AnyFilter::new(Spec::Simplified(params), keys, bins))
    }

    /// An empty filter for `keys` keys that stays within `bits` bits of memory
    /// per key: the longest fingerprint that fits at a load of about 0.95.
    ///
    /// # Errors
    /// [`Error::Spec`] where none fits.
    pub fn build_within(&self, keys: usize, bits: f64) -> Result<AnyFilter> {
        let room = (bits * keys as f64) as usize;
        for spec in (1..=32).rev().filter_map(|f| self.with_fingerprint(f).ok()) {
            let wanted = spec.bins_for(keys)?;
            let fits = spec.ask(|params| {
                let bins = params.bins_within(room, keys)?.min(wanted);
                // Rounding down to whole bins may cost a little more load than the
                // target, never so much that the keys would not fit.
                (params.load_permille(keys, bins) <= params.target_permille() + 10).then_some(bins)
            });
            if let Some(bins) = fits {
                return Ok(AnyFilter::new(spec, keys, bins));
            }
        }
        Err(Error::spec(
            self.to_string(),
            format!("{bits} bits per key are too few for {keys} keys; allow more"),
        ))
    }

    /// Whether the hash functions of one filter suffice for `capacity` keys. Whether there
    /// is memory for it is another question.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    pub fn check_capacity(&self, capacity: usize) -> Result<()> {
        self.bins_for(capacity).map(drop)
    }

    fn bins_for(&self, capacity: usize) -> Result<usize> {
        self.ask(|params| params.bins_for(capacity))
    }
}

/// Shows a visitor the filter's type and parameters.
pub fn visit<V: for<'a> Visitor<'a, Output = T>, T>(mut spec: Spec, visitor: V) -> T {
    spec.visit(visitor)
}

/// What the code of a filter's blocks spends; `None` for filters without one.
#[must_use]
pub fn block_code(spec: &Spec) -> Option<crate::code::BlockCode> {
    spec.ask(|params| params.block_code())
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ask(|params| params.fmt(f))
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, _) = params::split(text);
        let mut spec =
            Spec::all().into_iter().find(|spec| spec.name() == name).ok_or_else(|| {
                let known: Vec<&str> = Spec::all().iter().map(Spec::name).collect();
                Error::spec(
                    text,
                    format!("no filter is called \"{name}\"; there are {}", known.join(", ")),
                )
            })?;
        params::read(spec.params_mut(), text)?;
        Ok(spec)
    }
}
