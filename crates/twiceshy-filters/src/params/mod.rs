//! What the parameters of every kind of filter have in common: their text, their
//! limits, and the sizes that follow from them.
//!
//! Each kind has its own next to its filter
//! ([`cuckoo::cyclic::Params`](crate::cuckoo::cyclic::Params),
//! [`quotient::rsqf::Params`](crate::quotient::rsqf::Params)): a struct of values that says
//! in [`Kind`] what they mean. [`Valid`] makes [`Params`] of it, and
//! [`Spec`](crate::Spec) is the enum of them all.

mod kind;
mod value;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use crate::code::BlockCode;
use crate::error::{Error, Result};
use crate::format::Reader;

pub use kind::{Kind, Shape, Valid};
pub use value::{Field, Value, WhenFull};
pub(crate) use value::{Literal, Word, field};

/// The most bins of one table: 32 hash bits address them.
pub(crate) const MAX_BINS: usize = u32::MAX as usize;

/// Sets of hash functions to try at one size before giving up.
pub(crate) const MAX_REBUILDS: u64 = 8;

/// Sets of hash functions that a growing filter tries at each size: if the first fails, the next
/// size has more room.
pub(crate) const REBUILDS_PER_GROWTH: u64 = 1;

/// Sizes that a full filter tries, the last five times the first.
const MAX_GROWTHS: usize = 4;

/// The parameters of one kind of filter. They are always within their limits: [`FromStr`] and
/// [`Params::with`] return an error for values that are not.
///
/// ```
/// use twiceshy_filters::quotient::telescoping;
/// use twiceshy_filters::{Error, Params};
///
/// let params: telescoping::Params = "telescoping:f=8".parse()?;
/// assert_eq!(params.with("f", 12)?.to_string(),
///     "telescoping:f=12,budget=56,code=general,spent=reset,full=rebuild");
/// assert!(matches!(params.with("f", 33), Err(Error::Spec { .. })));
/// # Ok::<(), Error>(())
/// ```
///
/// The trait is sealed: only kinds in this crate's catalogue can be built.
pub trait Params: fmt::Debug + fmt::Display + Sealed + 'static {
    /// The name of the kind in a description.
    fn name(&self) -> &'static str;

    /// Every parameter, in the order of its text form.
    #[doc(hidden)]
    fn fields(&mut self) -> Vec<Field<'_>>;

    /// Verifies that a filter with these parameters can be built.
    ///
    /// # Errors
    /// Which parameter is out of its limits, and what they are.
    #[doc(hidden)]
    fn validate(&self) -> Result<(), String>;

    /// A short name for tables: the kind, and what sets this filter apart from the
    /// usual one of its kind ("cyclic-2", "telescoping-reseed").
    fn label(&self) -> String;

    /// Bits of a cell or slot: fingerprint and selector.
    fn cell_bits(&self) -> u32;

    /// The probability that an absent key that was never queried is answered
    /// "maybe" at this load.
    fn first_pass_rate(&self, load: f64) -> f64;

    /// Whether the filter adapts to a reported false positive.
    fn adapts(&self) -> bool;

    /// What [`AnyFilter::states`](crate::AnyFilter::states) counts; `None` if nothing.
    fn state_unit(&self) -> Option<&'static str>;

    /// The code of a block's state; `None` for filters without one.
    #[doc(hidden)]
    fn block_code(&self) -> Option<BlockCode>;

    /// Keys per 1000 cells of a full filter.
    #[doc(hidden)]
    fn target_permille(&self) -> u32;

    /// Cells that one more bin per table adds.
    #[doc(hidden)]
    fn cells_per_bin(&self) -> u32;

    /// Bins come in multiples of this.
    #[doc(hidden)]
    fn bin_step(&self) -> usize;

    /// The least number of bins from `bins` on that a filter can have.
    #[doc(hidden)]
    fn whole_bins(&self, bins: usize) -> usize;

    /// The most bins of one table with which a filter of `keys` keys stays within
    /// `room` bits.
    #[doc(hidden)]
    fn bins_within(&self, room: usize, keys: usize) -> Option<usize>;

    /// Bins of one table for `capacity` keys, however many.
    #[doc(hidden)]
    fn bins(&self, capacity: usize) -> u128;

    /// Bins of one table for `capacity` keys at the target load.
    #[doc(hidden)]
    fn bins_for(&self, capacity: usize) -> Result<usize> {
        if capacity == 0 {
            return Err(Error::spec(self.to_string(), "a filter needs a capacity of at least 1"));
        }
        let bins = usize::try_from(self.bins(capacity));
        bins.ok().filter(|&bins| bins <= MAX_BINS).ok_or_else(|| {
            Error::spec(
                self.to_string(),
                format!(
                    "a capacity of {capacity} is too large for one filter; split the keys \
                     among several"
                ),
            )
        })
    }

    /// Keys per 1000 cells in so many bins.
    #[doc(hidden)]
    fn load_permille(&self, keys: usize, bins: usize) -> u32 {
        let cells = bins as u128 * u128::from(self.cells_per_bin());
        u32::try_from((keys as u128 * 1000).div_ceil(cells)).unwrap_or(u32::MAX)
    }

    /// The same parameters with another value for one of them.
    ///
    /// # Errors
    /// [`Error::Spec`] for a parameter that the kind does not have, or a value that it
    /// cannot have.
    fn with(mut self, parameter: &str, value: impl fmt::Display) -> Result<Self>
    where
        Self: Sized,
    {
        change(&mut self, parameter, &value.to_string())?;
        Ok(self)
    }
}

/// Implemented only by the parameters of this crate's filters.
pub trait Sealed {}

/// Sets a parameter.
///
/// # Errors
/// Why not: there is no such parameter, or it cannot have this value.
pub(crate) fn set(
    params: &mut dyn Params,
    parameter: &str,
    value: &str,
) -> core::result::Result<(), String> {
    let name = params.name();
    let mut fields = params.fields();
    match fields.iter_mut().find(|(known, _)| *known == parameter) {
        Some((_, field)) => {
            field.set(value).map_err(|expected| format!("{parameter}={value}: {expected}"))
        }
        None => {
            let known: Vec<&str> = fields.iter().map(|(known, _)| *known).collect();
            let known = known.join(", ");
            Err(format!("{name} has no parameter \"{parameter}\"; it has {known}"))
        }
    }
}

/// Sets a parameter of a valid description; the result is valid, or an error.
///
/// # Errors
/// [`Error::Spec`].
pub(crate) fn change(params: &mut dyn Params, parameter: &str, value: &str) -> Result<()> {
    let text = format!("{}:{parameter}={value}", params.name());
    set(params, parameter, value).map_err(|reason| Error::spec(text, reason))?;
    params.validate().map_err(|reason| Error::spec(params.to_string(), reason))
}

/// A description's name and parameters.
pub(crate) fn split(text: &str) -> (&str, &str) {
    text.split_once(':').unwrap_or((text, ""))
}

/// Sets the parameters of a description, `text`, and validates all.
///
/// # Errors
/// [`Error::Spec`].
pub(crate) fn read(params: &mut dyn Params, text: &str) -> Result<()> {
    for pair in split(text).1.split(',').filter(|pair| !pair.is_empty()) {
        let (parameter, value) = pair
            .split_once('=')
            .ok_or_else(|| Error::spec(text, format!("\"{pair}\": parameter=value is expected")))?;
        set(params, parameter, value).map_err(|reason| Error::spec(text, reason))?;
    }
    params.validate().map_err(|reason| Error::spec(params.to_string(), reason))
}

/// The parameters in the description of a known kind.
///
/// # Errors
/// [`Error::Spec`], also for the description of another kind.
pub(crate) fn parse<P: Params + Default>(text: &str) -> Result<P> {
    let mut params = P::default();
    if split(text).0 != params.name() {
        return Err(Error::spec(text, format!("this type is for {}", params.name())));
    }
    read(&mut params, text)?;
    Ok(params)
}

/// Writes a description.
pub(crate) fn write(mut params: impl Params, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(params.name())?;
    let written = params.fields().into_iter().filter(|(_, value)| value.is_written());
    for (index, (name, value)) in written.enumerate() {
        let separator = if index == 0 { ':' } else { ',' };
        write!(f, "{separator}{name}={}", value.text())?;
    }
    Ok(())
}

/// The description of the filter in a file.
///
/// # Errors
/// [`Error::Format`].
pub(crate) fn in_file<P: FromStr<Err = Error> + fmt::Display>(reader: &Reader<'_>) -> Result<P> {
    let kind = reader.kind();
    let params: P = kind.parse().map_err(|error: Error| Error::format(error.to_string()))?;
    // No version writes "f=+8", or a parameter twice.
    if params.to_string() != kind {
        return Err(Error::format(format!("its kind is \"{kind}\" in place of \"{params}\"")));
    }
    Ok(params)
}

/// Returns an error unless a parameter is within its limits.
pub(crate) fn within(name: &str, value: u32, least: u32, most: u32) -> Result<(), String> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{name}={value} is out of range: use {least} to {most}"))
}

/// The sizes that a full filter tries to grow to, as capacities and bins: each half as large
/// again as the one before, and always larger.
pub(crate) fn growth<P: Params + Copy>(
    params: P,
    capacity: usize,
    bins: usize,
) -> impl Iterator<Item = Result<(usize, usize)>> {
    let capacities = core::iter::successors(Some(capacity), |size| Some(size + size / 2 + 1));
    capacities.zip(0..=MAX_GROWTHS).skip(1).map(move |(larger, step)| {
        let least = bins + step * params.bin_step();
        Ok((larger, params.whole_bins(params.bins_for(larger)?.max(least))))
    })
}

/// The error of stored keys that do not fit a capacity.
pub(crate) fn too_small(params: &impl Params, len: usize, capacity: usize) -> Error {
    Error::spec(
        params.to_string(),
        format!("{len} stored keys do not fit a capacity of {capacity}; ask for more"),
    )
}
