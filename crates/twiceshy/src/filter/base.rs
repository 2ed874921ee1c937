//! The filter under a layer: fingerprints alone, without a remote.
//!
//! A kind is a case of [`Kind`] and of [`Base`]. In a file, a layer is the saved filter,
//! which names its kind.

use twiceshy_filters::cuckoo::{Plain, plain};
use twiceshy_filters::internals::{Build, Reader};
use twiceshy_filters::line::LineFilter;
use twiceshy_filters::quotient::{Rsqf, rsqf};
use twiceshy_filters::{Digest, DigestFilter as _, Error, Params as _, Result, Stats};

use super::fingerprints::{Fingerprints, Kind};

/// Bins that a plain filter has beyond those of its load.
///
/// A plain filter fails before its capacity when, for some `k` of its `m` bins, more than
/// `4 k` keys have both their bins among those `k`. (The search for a free cell visits up to
/// 512 bins, all that such a filter has.) A key does with probability `(k / m)^2`, so `n` keys
/// fail with probability at most
///
/// ```text
/// sum over k of  binomial(m, k) * P(Binomial(n, (k / m)^2) > 4 k)
/// ```
///
/// With 12 more bins this is below 6 * 10^-7 for every capacity up to 600. Without them
/// filters of 38 keys in 10 bins failed in one case of ten. From 500 keys on chance evens
/// itself out, and the 72 bytes (of 12-bit fingerprints) are a tenth of the filter or less.
const SPARE_BINS: usize = 12;

/// The most bins that a filter can have.
const MOST_BINS: usize = u32::MAX as usize;

/// A filter without a remote.
#[derive(Clone)]
pub(crate) enum Base {
    Line(LineFilter),
    Plain(Plain),
    Rsqf(Rsqf),
}

impl Base {
    /// An empty filter.
    ///
    /// # Errors
    /// [`Error::Spec`] for a fingerprint that the kind cannot have, and for a capacity of zero
    /// or one that is too large.
    pub(crate) fn new(fingerprints: Fingerprints, capacity: usize) -> Result<Self> {
        let Fingerprints { kind, bits } = fingerprints;
        Ok(match kind {
            Kind::Line => {
                let params = fingerprints.line();
                // One line takes as many keys as it has slots, and has too high a rate then.
                let most = fingerprints.target_load() * f64::from(params.cells_per_bin());
                let is_crowded = params.bins_for(capacity)? == 1 && capacity as f64 > most;
                Base::Line(empty(params, capacity, usize::from(is_crowded))?)
            }
            Kind::Plain => {
                let params = plain::Params::default().with("f", bits)?;
                Base::Plain(empty(params, capacity, SPARE_BINS)?)
            }
            Kind::Rsqf => {
                let params = rsqf::Params::default().with("f", bits)?;
                Base::Rsqf(empty(params, capacity, 0)?)
            }
        })
    }

    /// Which fingerprints it has.
    pub(crate) fn fingerprints(&self) -> Fingerprints {
        let (kind, bits) = match self {
            Base::Line(filter) => (Kind::Line, filter.params().cell_bits()),
            Base::Plain(filter) => (Kind::Plain, filter.params().cell_bits()),
            Base::Rsqf(filter) => (Kind::Rsqf, filter.params().cell_bits()),
        };
        Fingerprints { kind, bits }
    }

    /// The answer to a query.
    #[inline]
    pub(crate) fn contains(&self, digest: Digest) -> bool {
        match self {
            Base::Line(filter) => filter.contains(digest),
            Base::Plain(filter) => filter.contains(digest),
            Base::Rsqf(filter) => rsqf_contains(filter, digest),
        }
    }

    /// [`Base::contains`] for many digests: their memory is prefetched.
    pub(crate) fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        match self {
            Base::Line(filter) => filter.contains_many(digests, found),
            Base::Plain(filter) => filter.contains_many(digests, found),
            Base::Rsqf(filter) => filter.contains_many(digests, found),
        }
    }

    /// Adds a digest that is answered "absent"; `false`, and nothing has changed, when it has
    /// no room.
    #[inline]
    pub(crate) fn add(&mut self, digest: Digest) -> bool {
        match self {
            Base::Line(filter) => filter.add(digest),
            Base::Plain(filter) => filter.add(digest),
            Base::Rsqf(filter) => filter.add(digest),
        }
    }

    #[inline]
    pub(crate) fn stats(&self) -> Stats {
        match self {
            Base::Line(filter) => filter.stats(),
            Base::Plain(filter) => filter.stats(),
            Base::Rsqf(filter) => filter.stats(),
        }
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        match self {
            Base::Line(filter) => clear(filter),
            Base::Plain(filter) => clear(filter),
            Base::Rsqf(filter) => clear(filter),
        }
    }

    /// The bytes of its file.
    pub(crate) fn save(&self) -> Vec<u8> {
        match self {
            Base::Line(filter) => filter.save(),
            Base::Plain(filter) => filter.save(),
            Base::Rsqf(filter) => filter.save(),
        }
    }

    /// What [`Base::save`] gave.
    ///
    /// # Errors
    /// [`Error::Format`] for other bytes.
    pub(crate) fn load(bytes: &[u8]) -> Result<Self> {
        let description = Reader::open(bytes)?.kind();
        Ok(match description.split(':').next() {
            Some("line") => Base::Line(LineFilter::load(bytes)?),
            Some("plain") => Base::Plain(Plain::load(bytes)?),
            Some("rsqf") => Base::Rsqf(Rsqf::load(bytes)?),
            _ => {
                let reason =
                    format!("\"{description}\" is not a filter that works without a remote");
                return Err(Error::format(reason));
            }
        })
    }
}

/// Out of line, so that queries of the default kind stay in registers.
#[inline(never)]
fn rsqf_contains(filter: &Rsqf, digest: Digest) -> bool {
    filter.contains(digest)
}

/// An empty filter with bins to spare.
fn empty<F: Build>(params: F::Params, capacity: usize, spare_bins: usize) -> Result<F> {
    let bins = params.bins_for(capacity)?;
    Ok(F::empty(params, capacity, (bins + spare_bins).min(MOST_BINS)))
}

/// Replaces a filter by an empty one of its size.
fn clear<F: Build>(filter: &mut F) {
    let (params, Stats { capacity, cells, .. }) = (filter.params(), filter.stats());
    // The old memory goes before the new one comes.
    *filter = F::empty(params, 1, 1);
    *filter = F::empty(params, capacity, cells / params.cells_per_bin() as usize);
}

#[cfg(test)]
mod tests;
