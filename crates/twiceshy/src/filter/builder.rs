//! [`Builder`]: configures a filter.

use twiceshy_filters::{Error, KeyHasher, Result};

use super::Filter;
use super::chain::{self, Chain, Sizes};
use super::exceptions::{LEAST_BITS, MOST_BITS};
use super::fingerprints::{Fingerprints, Kind};

/// The default false-positive rate: one in 500 for a filter within its capacity, and one in 450 for
/// one that has grown past it.
pub const DEFAULT_RATE: f64 = 1.0 / 450.0;

/// The default bits of exceptions per key; fewer from [`LONG`] bits per key on, where false
/// positives are rare.
const DEFAULT_EXCEPTIONS: f64 = 0.5;
const DEFAULT_EXCEPTIONS_OF_LONG: f64 = 0.25;
const LONG: f64 = 14.0;

/// Configures a [`Filter`]; see [`Filter::builder`].
///
/// ```
/// use twiceshy::Filter;
/// let by_rate = Filter::builder().capacity(1_000_000).rate(0.001).build()?;
/// let by_memory = Filter::builder().capacity(1_000_000).bits_per_key(13.0).build()?;
/// assert!(by_memory.stats().bytes < 1_000_000 * 13 / 8 + 600);
/// # Ok::<(), twiceshy::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "call `build` for the filter"]
pub struct Builder {
    capacity: Option<usize>,
    rate: Option<f64>,
    bits_per_key: Option<f64>,
    exceptions: Option<f64>,
    kind: Kind,
    hasher: Option<KeyHasher>,
}

impl Builder {
    /// The number of keys to store. A filter takes more, but is then a chain of several, and
    /// slower; see [`Filter`].
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = Some(keys);
        self
    }

    /// The share of absent keys that may be answered "maybe" the first time, between 0 and 1; by
    /// default [`DEFAULT_RATE`]. It holds for a full filter, and for one that has grown.
    ///
    /// The filter is the line filter with the next lower of its five rates
    /// ([`Kind::Line`] lists them), so a rate between two of them does not save memory: 0.002 to
    /// 0.001 are all 13.8 bits per key. For larger and very small rates, where that would be a
    /// waste, it is a cuckoo filter. (Fingerprints have at most 32 bits, so in a chain with a rate below 5 * 10^-7 each filter
    /// after the first few adds 2 * 10^-9.)
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = Some(rate);
        self
    }

    /// The memory per key in bits, exceptions included, instead of a rate: the filter has the
    /// lowest rate that fits ([`Kind::Line`] has the exact rule). About 600 bytes that every filter
    /// has are not counted, nor the 1.3 % that a line filter takes more from 5 * 10^7 keys on (2.6 %
    /// from 5 * 10^8). If it grows past its capacity, the rate may double.
    pub fn bits_per_key(mut self, bits: f64) -> Self {
        self.bits_per_key = Some(bits);
        self
    }

    /// The size of the table of exceptions in bits per key; an exception takes about 110 bits.
    /// The default is 0.5, or 0.25 where the filter alone has 14 bits per key or more. With 0
    /// the filter does not adapt.
    pub fn exceptions(mut self, bits_per_key: f64) -> Self {
        self.exceptions = Some(bits_per_key);
        self
    }

    /// The kind of filter underneath, if you do not want the default, [`Kind::Line`].
    pub fn kind(mut self, kind: Kind) -> Self {
        self.kind = kind;
        self
    }

    /// The hash function and its secret, instead of SipHash with a random secret.
    pub fn hasher(mut self, hasher: KeyHasher) -> Self {
        self.hasher = Some(hasher);
        self
    }

    /// About how many bytes [`Builder::build`] allocates.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn bytes(&self) -> Result<usize> {
        Ok(self.sizes()?.bytes())
    }

    /// An empty filter.
    ///
    /// # Errors
    /// [`Error::Spec`] without a capacity, for a number out of range, or with both a rate and
    /// bits per key.
    pub fn build(self) -> Result<Filter> {
        let sizes = self.sizes()?;
        let hasher = self.hasher.unwrap_or_else(KeyHasher::random);
        Ok(Filter { hasher, chain: Chain::new(&sizes)? })
    }

    fn sizes(&self) -> Result<Sizes> {
        let Some(capacity) = self.capacity.filter(|keys| *keys != 0) else {
            let text =
                self.capacity.map_or("no capacity".into(), |keys| format!("capacity={keys}"));
            return Err(Error::spec(text, "say how many keys to make room for, at least 1"));
        };
        let exceptions = self.exceptions.map(checked_exceptions).transpose()?;
        if let (Some(rate), Some(bits)) = (self.rate, self.bits_per_key) {
            let text = format!("rate={rate},bits_per_key={bits}");
            return Err(Error::spec(text, "each follows from the other: give one of the two"));
        }
        if let Some(bits) = self.bits_per_key {
            return within(self.kind, capacity, bits, exceptions);
        }
        let rate = self.rate.unwrap_or(DEFAULT_RATE);
        if !(rate > 0.0 && rate < 1.0) {
            let reason = "a rate is more than 0 and less than 1; 0.002 is one in 500";
            return Err(Error::spec(format!("rate={rate}"), reason));
        }
        let fingerprints = chain::fingerprints_for(self.kind, rate)?;
        let exception_bits = exceptions.unwrap_or_else(|| default_exceptions(fingerprints));
        Ok(Sizes { fingerprints, capacity, rate, exception_bits })
    }
}

/// Bits of exceptions per key, unless the caller says otherwise.
fn default_exceptions(fingerprints: Fingerprints) -> f64 {
    if fingerprints.bits_per_key() < LONG { DEFAULT_EXCEPTIONS } else { DEFAULT_EXCEPTIONS_OF_LONG }
}

/// Verifies the size of a table of exceptions.
pub(super) fn checked_exceptions(bits: f64) -> Result<f64> {
    if bits == 0.0 || (LEAST_BITS..=MOST_BITS).contains(&bits) {
        return Ok(bits);
    }
    let reason =
        format!("a table has {LEAST_BITS} to {MOST_BITS} bits per key, or 0 for no exceptions");
    Err(Error::spec(format!("exceptions={bits}"), reason))
}

/// The longest fingerprints for so many bits per key.
fn within(kind: Kind, capacity: usize, bits: f64, exceptions: Option<f64>) -> Result<Sizes> {
    let exception_bits = |of: Fingerprints| exceptions.unwrap_or_else(|| default_exceptions(of));
    let total = |of: Fingerprints| of.bits_per_key() + exception_bits(of);
    let Some(fingerprints) = Fingerprints::longest(kind, |of| total(of) <= bits) else {
        let least = total(Fingerprints::shortest(kind));
        let reason = format!("the smallest filter takes {least:.1}, its exceptions included");
        return Err(Error::spec(format!("bits_per_key={bits}"), reason));
    };
    let (rate, exception_bits) = (chain::rate_of(fingerprints), exception_bits(fingerprints));
    Ok(Sizes { fingerprints, capacity, rate, exception_bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(builder: Builder) -> String {
        builder.build().map(|_| ()).expect_err("a wrong number").to_string()
    }

    #[test]
    fn wrong_numbers_are_named() {
        let builder = || Filter::builder().capacity(10);
        assert!(refused(Filter::builder().rate(0.1)).contains("how many keys"));
        assert!(refused(builder().capacity(0)).contains("capacity=0"));
        assert!(refused(builder().capacity(usize::MAX)).contains("too large"));
        for rate in [0.0, 1.0, -0.1, 2.0, f64::NAN, f64::INFINITY] {
            assert!(refused(builder().rate(rate)).contains(&format!("rate={rate}")), "{rate}");
        }
        assert!(refused(builder().rate(1e-12)).contains("ask for a larger one"));
        let both = refused(builder().rate(0.1).bits_per_key(8.0));
        assert!(both.contains("rate=0.1,bits_per_key=8") && both.contains("one of the two"));
        for bits in [0.0, 4.6, -3.0, f64::NAN] {
            assert!(refused(builder().bits_per_key(bits)).contains("takes 4.7"), "{bits}");
        }
        for bits in [-1.0, 0.001, 1e9, f64::NAN] {
            let error = refused(builder().exceptions(bits));
            assert!(error.contains(&format!("exceptions={bits}")), "{error}");
        }
    }

    #[test]
    fn sizes_are_the_smallest_that_do() {
        let sizes = |builder: Builder| builder.capacity(1000).sizes().expect("good numbers");
        let of = |sizes: &Sizes| {
            let Fingerprints { kind, bits } = sizes.fingerprints;
            (kind, bits, sizes.exception_bits)
        };
        let usual = sizes(Filter::builder());
        assert_eq!((of(&usual), usual.rate), ((Kind::Line, 9, 0.5), DEFAULT_RATE));
        let [half, low, long] =
            [0.001, 0.0005, 0.0001].map(|rate| of(&sizes(Filter::builder().rate(rate))));
        assert_eq!(half, (Kind::Line, 10, 0.5));
        assert_eq!(low, (Kind::Line, 11, 0.25));
        assert_eq!(long, (Kind::Plain, 17, 0.25));
        let within = |bits: f64| of(&sizes(Filter::builder().bits_per_key(bits)));
        assert_eq!(within(13.0), (Kind::Line, 9, 0.5));
        assert_eq!(within(12.9), (Kind::Plain, 11, 0.5));
        let none = sizes(Filter::builder().bits_per_key(12.5).exceptions(0.0));
        assert_eq!(of(&none), (Kind::Line, 9, 0.0));
        let plain = || Filter::builder().kind(Kind::Plain);
        assert_eq!(of(&sizes(plain())), (Kind::Plain, 12, 0.5));
        assert_eq!(of(&sizes(plain().bits_per_key(12.5))), (Kind::Plain, 11, 0.5));
        let small = sizes(Filter::builder().kind(Kind::Rsqf));
        assert_eq!((of(&small), small.rate), ((Kind::Rsqf, 9, 0.5), DEFAULT_RATE));
        let small = sizes(Filter::builder().kind(Kind::Rsqf).bits_per_key(12.5));
        assert_eq!(of(&small), (Kind::Rsqf, 9, 0.5));
        // 14 bits per key begin at a fingerprint of 14 bits: 14.7.
        let default = |bits| default_exceptions(Fingerprints { kind: Kind::Plain, bits });
        assert_eq!([default(13), default(14)], [0.5, 0.25]);
    }
}
