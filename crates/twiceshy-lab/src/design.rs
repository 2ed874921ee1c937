//! What a contestant is made of: a filter of the library, or one that only the lab has.

use std::fmt;

use twiceshy_filters::{Error, Result, Spec, WhenFull};

use crate::adaptive_quotient::{self, AdaptiveQuotient, Shape};
use crate::contestant::Contestant;

/// A kind of filter with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Design {
    /// A filter of the library.
    Library(Spec),
    /// A static filter with an exact list of known false positives.
    Whitelist(Spec),
    /// A static filter with a bounded cache of known false positives.
    Cached {
        /// The filter.
        base: Spec,
        /// The cache's part of the memory, in percent.
        share: u32,
    },
    /// The [adaptive quotient filter](adaptive_quotient).
    AdaptiveQuotient(Shape),
}

/// The name of the baseline with a list.
pub const WHITELIST: &str = "whitelist";

/// The name of the one with a cache.
pub const CACHED: &str = "cached";

/// The part of its memory, in percent, that a whitelist has.
const WHITELIST_SHARE: u32 = 25;

/// The same of a cache, unless its `share` says otherwise: a choice, not tuned for any workload.
const CACHE_SHARE: u32 = 10;

/// Extension slots for each key that an adaptive quotient filter needs to be worth it.
const LEAST_SPARE_SLOTS: f64 = 0.01;

/// Bits of a remainder in the space that filters share in the telescoping filter's paper.
const REMAINDER_BITS: u32 = 8;

/// Bits of a line filter's shortest fingerprint.
const LINE_BITS: u32 = 9;

/// Bits of a cuckoo filter's cell in the same space.
const CELL_BITS: u32 = 11;

impl Design {
    /// The library's filter, if it is one.
    #[must_use]
    pub fn library(&self) -> Option<Spec> {
        match self {
            Design::Library(spec) => Some(*spec),
            _ => None,
        }
    }

    /// The library's filter that it is, or is made of.
    #[must_use]
    pub fn base(&self) -> Option<Spec> {
        match self {
            Design::Library(spec) | Design::Whitelist(spec) => Some(*spec),
            Design::Cached { base, .. } => Some(*base),
            Design::AdaptiveQuotient(_) => None,
        }
    }

    /// Its short name in tables and plots.
    #[must_use]
    pub fn label(&self) -> String {
        match self {
            Design::Library(spec) => spec.label(),
            Design::Whitelist(_) => WHITELIST.to_string(),
            Design::Cached { share: CACHE_SHARE, .. } => CACHED.to_string(),
            Design::Cached { share, .. } => format!("{CACHED}:share={share}"),
            Design::AdaptiveQuotient(_) => adaptive_quotient::NAME.to_string(),
        }
    }

    /// Whether it changes by what it is told.
    #[must_use]
    pub fn adapts(&self) -> bool {
        self.library().is_none_or(|spec| spec.adapts())
    }

    /// A numeric parameter of the filter, or of the one behind a list.
    #[must_use]
    pub fn number(&self, parameter: &str) -> Option<u32> {
        match self {
            Design::AdaptiveQuotient(shape) if parameter == "f" => Some(shape.remainder_bits),
            _ => self.base()?.number(parameter),
        }
    }

    /// The probability that an absent key that was never queried is answered "maybe", with so many
    /// keys per cell.
    #[must_use]
    pub fn first_pass_rate(&self, load: f64) -> f64 {
        match self {
            Design::AdaptiveQuotient(shape) => shape.first_pass_rate(load),
            Design::Library(spec) | Design::Whitelist(spec) | Design::Cached { base: spec, .. } => {
                spec.first_pass_rate(load)
            }
        }
    }

    /// Bits of a cell or slot, without metadata.
    #[must_use]
    pub fn cell_bits(&self) -> u32 {
        match self {
            Design::AdaptiveQuotient(shape) => shape.remainder_bits,
            Design::Library(spec) | Design::Whitelist(spec) | Design::Cached { base: spec, .. } => {
                spec.cell_bits()
            }
        }
    }

    /// The same filter with fingerprints of so many bits.
    ///
    /// # Errors
    /// [`Error::Spec`] for a length that the filter cannot have.
    pub fn with_fingerprint(&self, bits: u32) -> Result<Self> {
        Ok(match *self {
            Design::Library(spec) => Design::Library(spec.with_fingerprint(bits)?),
            Design::Whitelist(spec) => Design::Whitelist(spec.with_fingerprint(bits)?),
            Design::Cached { base, share } => {
                Design::Cached { base: base.with_fingerprint(bits)?, share }
            }
            Design::AdaptiveQuotient(shape) => {
                Design::AdaptiveQuotient(Shape { remainder_bits: bits, ..shape })
            }
        })
    }

    /// The same filter with the fingerprints of Lee, McCauley, Singh, Stein, "Telescoping
    /// Filter", section 6: 8 bits per slot of a quotient filter, and 11 bits per cell of a
    /// cuckoo filter, selector included. A kind without an `f` is as it was.
    ///
    /// # Errors
    /// [`Error::Spec`] where a selector leaves no bits for a fingerprint.
    pub fn at_paper_size(&self) -> Result<Self> {
        if self.number("f").is_none() {
            return Ok(*self);
        }
        // Cuckoo filters have cells in bins, quotient filters have slots. A list or cache takes
        // its share out of the cells.
        let beside = |share: u32| (CELL_BITS * (100 - share) + 50) / 100;
        let bits = match self {
            Design::Cached { share, .. } => beside(*share),
            Design::Whitelist(_) => beside(WHITELIST_SHARE),
            Design::Library(Spec::Line(_)) => LINE_BITS,
            Design::Library(spec) if spec.number("b").is_some() => {
                CELL_BITS.saturating_sub(spec.number("s").unwrap_or(0))
            }
            _ => REMAINDER_BITS,
        };
        self.with_fingerprint(bits)
    }

    /// An empty filter for `keys` keys with the fingerprints of its spec, that never grows: it
    /// would leave the memory that all share. A list has its share of the memory.
    ///
    /// # Errors
    /// [`Error::Spec`] for a filter that cannot be built.
    pub fn build(&self, keys: usize) -> Result<Contestant> {
        let base = |spec: &Spec| spec.when_full(WhenFull::Rebuild).build(keys);
        let room = |bits: usize, share: u32| {
            (bits as f64 * f64::from(share) / f64::from(100 - share)) as usize
        };
        match self {
            Design::Library(spec) => Ok(Contestant::new(base(spec)?)),
            Design::Whitelist(spec) => {
                let filter = base(spec)?;
                let bits = room(filter.stats().bits, WHITELIST_SHARE);
                Ok(Contestant::with_whitelist(filter, bits))
            }
            Design::Cached { base: spec, share } => {
                let filter = base(spec)?;
                let bits = room(filter.stats().bits, *share);
                Ok(Contestant::with_cache(filter, bits, *share))
            }
            Design::AdaptiveQuotient(shape) => {
                Ok(Contestant::adaptive_quotient(AdaptiveQuotient::new(*shape, keys)))
            }
        }
    }

    /// An empty filter for `keys` keys that stays within `bits` bits of memory per key, with the
    /// longest fingerprint that fits. A list has what its filter leaves.
    ///
    /// # Errors
    /// [`Error::Spec`] where none fits.
    pub fn build_within(&self, keys: usize, bits: f64) -> Result<Contestant> {
        let base = |spec: &Spec, share: u32| {
            let spec = spec.when_full(WhenFull::Rebuild);
            let filter = spec.build_within(keys, bits * f64::from(100 - share) / 100.0)?;
            let left = ((bits * keys as f64) as usize).saturating_sub(filter.stats().bits);
            Ok((filter, left))
        };
        match self {
            Design::Library(spec) => Ok(Contestant::new(base(spec, 0)?.0)),
            Design::Whitelist(spec) => {
                let (filter, left) = base(spec, WHITELIST_SHARE)?;
                Ok(Contestant::with_whitelist(filter, left))
            }
            Design::Cached { base: spec, share } => {
                let (filter, left) = base(spec, *share)?;
                Ok(Contestant::with_cache(filter, left, *share))
            }
            Design::AdaptiveQuotient(shape) => {
                let fits = |&bits_per_slot: &u32| {
                    let shape = Shape { remainder_bits: bits_per_slot, ..*shape };
                    let slots = (keys as f64 / shape.load()).ceil();
                    shape.slot_bits() * slots <= bits * keys as f64
                        && shape.spare_slots(shape.load()) > LEAST_SPARE_SLOTS
                };
                let Some(remainder_bits) = (1..=32).rev().find(fits) else {
                    let reason =
                        format!("{bits} bits per key are too few for {keys} keys; allow more");
                    return Err(Error::Spec { text: self.to_string(), reason });
                };
                Design::AdaptiveQuotient(Shape { remainder_bits, ..*shape }).build(keys)
            }
        }
    }

    /// Reads a name with its parameters, such as `whitelist` and `f=8`; `None` if the lab has no
    /// filter of its own with that name.
    pub(crate) fn of_the_lab(name: &str, parameters: &str) -> Option<Result<Self, String>> {
        let plain = |parameters: &str| {
            let spec: Result<Spec> = format!("plain:{parameters}").parse();
            spec.map_err(|error| error.to_string())
        };
        match name {
            WHITELIST => Some(plain(parameters).map(Design::Whitelist)),
            CACHED => {
                let (share, others) = take_number(parameters, "share", CACHE_SHARE);
                Some(share.and_then(|share| match share {
                    1..=90 => Ok(Design::Cached { base: plain(&others)?, share }),
                    _ => Err(format!("a cache of {share} %; use 1 to 90")),
                }))
            }
            adaptive_quotient::NAME => Some(shape(parameters).map(Design::AdaptiveQuotient)),
            _ => None,
        }
    }
}

fn shape(parameters: &str) -> Result<Shape, String> {
    let usual = Shape::default();
    let (bits, others) = take_number(parameters, "f", usual.remainder_bits);
    let (load, others) = take_number(&others, "load", usual.load_percent);
    match (bits?, load?, others.as_str()) {
        (remainder_bits @ 1..=32, load_percent @ 1..=95, "") => {
            Ok(Shape { remainder_bits, load_percent })
        }
        (_, _, "") => Err("an aqf has f=1 to 32, and load=1 to 95 (in percent)".to_string()),
        (_, _, unknown) => Err(format!("an aqf has f and load, and no \"{unknown}\"")),
    }
}

/// A numeric parameter, and the others without it.
fn take_number(parameters: &str, name: &str, usual: u32) -> (Result<u32, String>, String) {
    let is_it = |part: &&str| part.split_once('=').is_some_and(|(key, _)| key.trim() == name);
    let parts = parameters.split(',').map(str::trim).filter(|part| !part.is_empty());
    let (wanted, others): (Vec<&str>, Vec<&str>) = parts.partition(is_it);
    let number = match wanted.last().and_then(|part| part.split_once('=')) {
        None => Ok(usual),
        Some((_, value)) => {
            value.trim().parse().map_err(|_| format!("{name} is a number, not \"{value}\""))
        }
    };
    (number, others.join(","))
}

impl From<Spec> for Design {
    fn from(spec: Spec) -> Self {
        Design::Library(spec)
    }
}

/// The full description; one of the library builds the filter there.
impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Design::Library(spec) => write!(f, "{spec}"),
            Design::Whitelist(spec) => write!(f, "{WHITELIST} over {spec}"),
            Design::Cached { base, share } => write!(f, "{CACHED} (share={share}) over {base}"),
            Design::AdaptiveQuotient(Shape { remainder_bits, load_percent }) => {
                write!(f, "{}:f={remainder_bits},load={load_percent}", adaptive_quotient::NAME)
            }
        }
    }
}
