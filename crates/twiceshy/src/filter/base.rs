//! The filter under a layer: fingerprints alone, without a remote.
//!
//! A kind is a case of [`Kind`] and of [`Base`]. In a file, a layer is the saved filter,
//! which names its kind.

use std::ops::RangeInclusive;

use twiceshy_filters::cuckoo::bounds::{target_load_permille, theorem_5_1_rate};
use twiceshy_filters::cuckoo::{Plain, plain};
use twiceshy_filters::internals::{Build, Reader};
use twiceshy_filters::quotient::{Rsqf, rsqf};
use twiceshy_filters::{Digest, DigestFilter as _, Error, Params as _, Result, Stats};

/// Cells per bin of a plain filter.
const SLOTS: u32 = 4;

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

/// Bits per slot of a quotient filter beside its remainder.
const SLOT_METADATA_BITS: f64 = 17.0 * 8.0 / 64.0;

/// The kind of filter that a [`Filter`](super::Filter) keeps its fingerprints in;
/// see [`Builder::kind`](super::Builder::kind).
///
/// ```
/// use twiceshy::filter::{Filter, Kind};
/// let builder = Filter::builder().capacity(1_000_000).rate(0.002);
/// let fast = builder.clone().build()?;
/// let small = builder.kind(Kind::Rsqf).build()?;
/// assert!(small.stats().bytes < fast.stats().bytes);
/// # Ok::<(), twiceshy::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The cuckoo filter, the fastest: 12.6 bits per key for a rate of 0.002.
    #[default]
    Plain,
    /// The rank-and-select quotient filter, the smallest: 11.7 bits per key for a rate of
    /// 0.002. Lookups and insertions take longer.
    Rsqf,
}

impl Kind {
    /// The lengths that a fingerprint can have. A full plain filter with fewer than 4 bits
    /// would answer "maybe" to everything.
    pub(crate) fn fingerprints(self) -> RangeInclusive<u32> {
        match self {
            Kind::Plain => 4..=32,
            Kind::Rsqf => 1..=32,
        }
    }

    /// The load of a full filter.
    pub(crate) fn target_load(self) -> f64 {
        let (tables, slots) = match self {
            Kind::Plain => (2, SLOTS),
            Kind::Rsqf => (1, 1),
        };
        f64::from(target_load_permille(tables, slots)) / 1000.0
    }

    /// Bits per key of a full filter.
    pub(crate) fn bits_per_key(self, fingerprint_bits: u32) -> f64 {
        let cell = f64::from(fingerprint_bits);
        let cell = match self {
            Kind::Plain => cell,
            Kind::Rsqf => cell + SLOT_METADATA_BITS,
        };
        cell / self.target_load()
    }

    /// The share of absent keys that a filter takes for stored. No fingerprint is stored
    /// twice in the same place, so the chances of all of them add up.
    pub(crate) fn rate(self, fingerprint_bits: u32, load: f64) -> f64 {
        let rate = match self {
            Kind::Plain => theorem_5_1_rate(fingerprint_bits, SLOTS, load),
            Kind::Rsqf => load / f64::from(fingerprint_bits).exp2(),
        };
        rate.min(1.0)
    }

    /// [`Kind::rate`] of a full filter.
    pub(crate) fn full_rate(self, fingerprint_bits: u32) -> f64 {
        self.rate(fingerprint_bits, self.target_load())
    }
}

/// A filter without a remote.
#[derive(Clone)]
pub(crate) enum Base {
    Plain(Plain),
    Rsqf(Rsqf),
}

impl Base {
    /// An empty filter.
    ///
    /// # Errors
    /// [`Error::Spec`] for a fingerprint that the kind cannot have, and for a capacity of zero
    /// or one that is too large.
    pub(crate) fn new(kind: Kind, fingerprint_bits: u32, capacity: usize) -> Result<Self> {
        Ok(match kind {
            Kind::Plain => {
                let params = plain::Params::default().with("f", fingerprint_bits)?;
                Base::Plain(empty(params, capacity, SPARE_BINS)?)
            }
            Kind::Rsqf => {
                let params = rsqf::Params::default().with("f", fingerprint_bits)?;
                Base::Rsqf(empty(params, capacity, 0)?)
            }
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Base::Plain(_) => Kind::Plain,
            Base::Rsqf(_) => Kind::Rsqf,
        }
    }

    /// The answer to a query.
    #[inline]
    pub(crate) fn contains(&self, digest: Digest) -> bool {
        match self {
            Base::Plain(filter) => filter.contains(digest),
            Base::Rsqf(filter) => rsqf_contains(filter, digest),
        }
    }

    /// [`Base::contains`] for many digests: their memory is prefetched.
    pub(crate) fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        match self {
            Base::Plain(filter) => filter.contains_many(digests, found),
            Base::Rsqf(filter) => filter.contains_many(digests, found),
        }
    }

    /// Adds a digest that is answered "absent"; `false`, and nothing has changed, when it has
    /// no room.
    #[inline]
    pub(crate) fn add(&mut self, digest: Digest) -> bool {
        match self {
            Base::Plain(filter) => filter.add(digest),
            Base::Rsqf(filter) => filter.add(digest),
        }
    }

    #[inline]
    pub(crate) fn stats(&self) -> Stats {
        match self {
            Base::Plain(filter) => filter.stats(),
            Base::Rsqf(filter) => filter.stats(),
        }
    }

    /// Bits of a fingerprint.
    pub(crate) fn fingerprint_bits(&self) -> u32 {
        match self {
            Base::Plain(filter) => filter.params().cell_bits(),
            Base::Rsqf(filter) => filter.params().cell_bits(),
        }
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        match self {
            Base::Plain(filter) => clear(filter),
            Base::Rsqf(filter) => clear(filter),
        }
    }

    /// The bytes of its file.
    pub(crate) fn save(&self) -> Vec<u8> {
        match self {
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
