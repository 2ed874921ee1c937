//! How a filter of a known type is made: empty, from a file, larger.

use alloc::vec::Vec;
use core::str::FromStr;

use crate::any::Outlook;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::DigestFilter;
use crate::format::Reader;
use crate::params::{self, Params};
use crate::quotient::Layout;
use crate::remote::Ordered;

/// A filter of one type, made or read.
pub trait Build: DigestFilter + Sized {
    /// What it is made from.
    type Params: Params + Copy + Default + FromStr<Err = Error>;

    /// An empty filter for `capacity` keys with this many bins per table.
    fn empty(params: Self::Params, capacity: usize, bins: usize) -> Self;

    /// The filter in a file.
    ///
    /// # Errors
    /// [`Error::Format`].
    fn read(params: Self::Params, reader: Reader<'_>) -> Result<Self>;

    /// What it was made from.
    fn params(&self) -> Self::Params;

    /// [`AnyFilter::states`](crate::AnyFilter::states).
    fn states(&self) -> Vec<usize> {
        Vec::new()
    }

    /// [`AnyFilter::outlook`](crate::AnyFilter::outlook), from a remote that has the keys.
    ///
    /// # Errors
    /// [`Error::Remote`].
    fn outlook(&self, _: &mut Self::Remote) -> Result<Option<Outlook>> {
        Ok(None)
    }

    /// How many codes a query decodes: none for most queries.
    fn decodes(&self, _: Digest) -> usize {
        0
    }
}

/// A filter whose remote is the bare set of digests: a larger one can be built from that
/// set while the first one answers.
pub trait Grow: Build + DigestFilter<Remote = dyn Ordered> {
    /// Where its blocks are, if they are in the order of digests.
    fn layout(&self) -> Option<Layout> {
        None
    }

    /// The same keys in a filter for `capacity` of them; see [`DigestFilter::grow`].
    ///
    /// # Errors
    /// [`Error::Spec`] when the stored keys do not fit; [`Error::Remote`].
    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self>;
}

/// An empty filter for `capacity` keys.
///
/// # Errors
/// [`Error::Spec`] for a capacity that is zero or too large.
pub(crate) fn new<F: Build>(params: &F::Params, capacity: usize) -> Result<F> {
    Ok(F::empty(*params, capacity, params.bins_for(capacity)?))
}

/// The filter in a file.
///
/// # Errors
/// [`Error::Format`] for bytes that are no such filter.
pub(crate) fn load<F: Build>(bytes: &[u8]) -> Result<F> {
    let reader = Reader::open(bytes)?;
    F::read(params::in_file(&reader)?, reader)
}

/// Counts how often each number comes.
pub(crate) fn histogram(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut counts = Vec::new();
    for number in numbers {
        if number >= counts.len() {
            counts.resize(number + 1, 0);
        }
        counts[number] += 1;
    }
    counts
}
