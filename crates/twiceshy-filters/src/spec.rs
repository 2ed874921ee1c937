//! Every filter by name and numbers: read, size, build.
//!
//! ```
//! use twiceshy_filters::Spec;
//! let spec: Spec = "cyclic:f=7,s=1".parse()?;
//! assert_eq!(spec.to_string(), "cyclic:f=7,s=1,k=4,b=1,retry=1,search=bfs,full=rebuild");
//! let filter = spec.build(1000)?;
//! assert!(filter.stats().cells >= 1000);
//! # Ok::<(), twiceshy_filters::Error>(())
//! ```

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

use libm::{exp2, expm1};

use crate::any::AnyFilter;
use crate::bits::packed::Packed;
use crate::broom::sizing as broom;
use crate::cuckoo::bounds::{self, first_pass_rate, target_load_permille};
pub(crate) use crate::cuckoo::search::Search;
use crate::error::{Error, Result};
use crate::quotient::rule::Rule as _;
use crate::quotient::runs::Runs;
use crate::quotient::{BlockCode, extending, telescoping};

/// Which filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The original, partial-key cuckoo filter.
    Plain,
    /// The cuckoo filter with real hashes of the key.
    PlainFull,
    /// Eppstein's simplified cuckoo filter, with a stash.
    Simplified,
    /// The cyclic adaptive cuckoo filter.
    Cyclic,
    /// The cyclic adaptive cuckoo filter with varying fingerprint ranges.
    Varying,
    /// The swapping adaptive cuckoo filter.
    Swapping,
    /// The cuckooing adaptive cuckoo filter.
    Cuckooing,
    /// The rank-and-select quotient filter.
    Rsqf,
    /// The telescoping adaptive filter.
    Telescoping,
    /// The telescoping adaptive filter with uncompressed selectors.
    Uncompressed,
    /// The extension adaptive filter.
    Extension,
    /// The broom filter.
    Broom,
}

impl Kind {
    /// All of them.
    pub const ALL: &[Kind] = &[
        Kind::Plain,
        Kind::PlainFull,
        Kind::Simplified,
        Kind::Cyclic,
        Kind::Varying,
        Kind::Swapping,
        Kind::Cuckooing,
        Kind::Rsqf,
        Kind::Telescoping,
        Kind::Uncompressed,
        Kind::Extension,
        Kind::Broom,
    ];

    /// The name in a description.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Plain => "plain",
            Kind::PlainFull => "plain-full",
            Kind::Simplified => "simplified",
            Kind::Cyclic => "cyclic",
            Kind::Varying => "varying",
            Kind::Swapping => "swapping",
            Kind::Cuckooing => "cuckooing",
            Kind::Rsqf => "rsqf",
            Kind::Telescoping => "telescoping",
            Kind::Uncompressed => "uncompressed",
            Kind::Extension => "extension",
            Kind::Broom => "broom",
        }
    }

    /// The parameters it has, in the order in which they are written.
    const fn parameters(self) -> &'static [&'static str] {
        match self {
            Kind::Plain => &["f", "b", "search", "full"],
            Kind::PlainFull => &["f", "k", "b", "search", "full"],
            Kind::Simplified => &["f", "b", "stash", "search", "full"],
            Kind::Cyclic => &["f", "s", "k", "b", "retry", "search", "full"],
            Kind::Varying => &["f", "s", "r", "k", "b", "retry", "search", "full"],
            Kind::Swapping => &["f", "k", "b", "retry", "search", "full"],
            Kind::Cuckooing => &["f", "k", "b", "tags", "moves", "search", "full"],
            Kind::Rsqf | Kind::Uncompressed => &["f", "full"],
            Kind::Telescoping => &["f", "budget", "code", "spent", "full"],
            Kind::Extension => &["f", "budget", "full"],
            Kind::Broom => &["f", "form", "sweep", "ghosts", "full"],
        }
    }

    /// Whether it is a quotient filter: its bins are its slots, and a digest has
    /// one.
    const fn is_quotient(self) -> bool {
        matches!(
            self,
            Kind::Rsqf | Kind::Telescoping | Kind::Uncompressed | Kind::Extension | Kind::Broom
        )
    }
}

/// What happens to an insertion that finds no cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The key is handed back in [`Error::Full`].
    Error,
    /// Up to its capacity the filter is rebuilt with new hash functions; past
    /// it the key is handed back.
    Rebuild,
    /// The filter is rebuilt half as large again: when it has as many keys as it was
    /// made for, or a key finds no cell before that.
    Grow,
}

/// What becomes of a telescoping filter's block that has learned all it can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenSpent {
    /// Its slots go back to their first remainders, whose false positives are
    /// known already.
    Reset,
    /// Its slots take the first remainders of other hash functions.
    Reseed,
}

/// The code of a telescoping filter's selectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Tuned,
    General,
}

/// What a broom filter's new hash function changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Remainder and adaptivity bits: the remote is the set in digest order.
    Practical,
    /// The quotient as well, as published: the remote has an index for each
    /// function.
    Faithful,
}

/// Whether a cuckooing filter's fingerprint depends on the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tags {
    Table,
    Common,
}

/// The description of a filter: `"name:parameter=value,..."`.
///
/// | parameter | meaning | default |
/// | --- | --- | --- |
/// | `f` | bits of a fingerprint, 2 to 32 with the selector (simplified: to 24); quotient filters: of a remainder, 1 to 32 | 12; quotient filters 8 |
/// | `k` | tables, 2 to 16 | 4; swapping 2 |
/// | `b` | cells a bin, 1 to 64 (swapping: 2 to 64) | 1; plain, simplified and swapping 4 |
/// | `s` | selector bits: cyclic 1 to 8, varying 0 to 8 | 1 |
/// | `r` | varying: one value in `2^r` is left to the functions after the first | 2 |
/// | `retry` | 1: adapt avoids a choice under which the query still collides | 1 |
/// | `tags` | cuckooing: `table` or `common` fingerprints | `table` |
/// | `moves` | cuckooing: moves of one adapt, times log2 of the keys | 32 |
/// | `stash` | simplified: stashed fingerprints a subtable, 0 for no stash | 1024 |
/// | `budget` | telescoping, extension: bits for what the 64 slots of a block learn, a multiple of 8 to 128 | 56 |
/// | `code` | telescoping: `general`, or the `tuned` one for f=8 | `general` |
/// | `spent` | telescoping: a block that has learned all it can starts again (`reset`), with other hash functions (`reseed`) | `reset` |
/// | `form` | broom: what a new hash function changes, `practical` or `faithful` | `practical` |
/// | `sweep` | broom: ranges of digests (of one key on average) that each adaptation rehashes, 1 to 64 | 4 |
/// | `ghosts` | broom: 0 forgets removed keys, and whoever removes and inserts keys can bring false positives back | 1 |
/// | `search` | for a cell: `bfs` or `walk` | `bfs` |
/// | `full` | without one: `error`, `rebuild` (quotient filters: the same as `error`) or `grow` (at its capacity) | `rebuild` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub(crate) kind: Kind,
    pub(crate) f: u32,
    pub(crate) k: u32,
    pub(crate) b: u32,
    pub(crate) s: u32,
    pub(crate) r: u32,
    pub(crate) stash: u32,
    pub(crate) moves: u32,
    pub(crate) retry: bool,
    pub(crate) tags: Tags,
    pub(crate) search: Search,
    pub(crate) full: WhenFull,
    pub(crate) budget: u32,
    pub(crate) code: Code,
    pub(crate) spent: WhenSpent,
    pub(crate) form: Form,
    pub(crate) sweep: u32,
    pub(crate) ghosts: bool,
}

impl Spec {
    /// Bins of one table that 32 hash bits can tell apart.
    pub(crate) const MAX_BINS: usize = u32::MAX as usize;

    /// Sets of hash functions tried at one size before the keys count as too many.
    pub(crate) const MAX_REBUILDS: u64 = 8;

    /// Sets of hash functions tried at each size by an insertion that makes the filter
    /// grow: where the first fails, the next size has more room for another.
    pub(crate) const REBUILDS_PER_GROWTH: u64 = 1;

    /// The default filter of a kind.
    #[must_use]
    pub const fn new(kind: Kind) -> Self {
        let four_slots = matches!(kind, Kind::Plain | Kind::Simplified | Kind::Swapping);
        let quotient = kind.is_quotient();
        let selector = matches!(kind, Kind::Cyclic | Kind::Varying);
        Spec {
            kind,
            f: if quotient { 8 } else { 12 },
            k: match (four_slots, quotient) {
                (true, _) => 2,
                (_, true) => 1,
                _ => 4,
            },
            b: if four_slots { 4 } else { 1 },
            s: if selector { 1 } else { 0 },
            r: 2,
            stash: if matches!(kind, Kind::Simplified) { 1024 } else { 0 },
            moves: 32,
            retry: true,
            tags: Tags::Table,
            search: Search::BreadthFirst,
            full: WhenFull::Rebuild,
            budget: 56,
            code: Code::General,
            spent: WhenSpent::Reset,
            form: Form::Practical,
            sweep: 4,
            ghosts: true,
        }
    }

    /// Which filter it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Its short name in tables: the kind, for a cyclic filter its selector bits
    /// ("cyclic-2"), and what a telescoping filter does unless it is the usual
    /// ("telescoping-reseed"), a broom filter ("broom-faithful").
    #[must_use]
    pub fn label(&self) -> String {
        match self.kind {
            Kind::Cyclic => format!("cyclic-{}", self.s),
            Kind::Telescoping if self.spent == WhenSpent::Reseed => "telescoping-reseed".into(),
            Kind::Broom if self.form == Form::Faithful => "broom-faithful".into(),
            kind => kind.name().to_string(),
        }
    }

    /// The same filter with another fingerprint length.
    ///
    /// # Errors
    /// [`Error::Spec`] where the length is out of range.
    pub fn with_fingerprint(mut self, bits: u32) -> Result<Self> {
        self.f = bits;
        self.validate()?;
        Ok(self)
    }

    /// The same filter with another answer to "no room".
    #[must_use]
    pub const fn when_full(mut self, full: WhenFull) -> Self {
        self.full = full;
        self
    }

    /// The same filter with another answer to a spent block.
    #[must_use]
    pub const fn when_spent(mut self, spent: WhenSpent) -> Self {
        self.spent = spent;
        self
    }

    /// Bytes of what a quotient filter's block learns.
    pub(crate) const fn state_bytes(&self) -> usize {
        match self.kind {
            Kind::Telescoping | Kind::Extension => self.budget as usize / 8,
            Kind::Uncompressed => 64,
            _ => 0,
        }
    }

    /// Bits of a cell: fingerprint and selector.
    #[must_use]
    pub const fn cell_bits(&self) -> u32 {
        self.f + self.s
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
        let has = self.kind.parameters().contains(&parameter);
        has.then(|| self.value(parameter)).and_then(|value| value.parse().ok())
    }

    /// The code of what a block learns; `None` for filters without one.
    #[must_use]
    pub fn block_code(&self) -> Option<BlockCode> {
        match self.kind {
            Kind::Telescoping => Some(telescoping::Telescoping::new(self).block_code()),
            Kind::Extension => Some(extending::Extending::new(self).block_code(self.budget)),
            _ => None,
        }
    }

    /// The probability that an absent key that was never asked for is answered
    /// "maybe" at this load.
    #[must_use]
    pub fn first_pass_rate(&self, load: f64) -> f64 {
        if self.kind.is_quotient() {
            // Poisson: a run has `load` remainders on average, and any number.
            return -expm1(-load * exp2(-f64::from(self.f)));
        }
        let values = match self.kind {
            Kind::Varying => {
                exp2(f64::from(self.cell_bits())) * (1.0 - exp2(-f64::from(self.r))) - 1.0
            }
            _ => exp2(f64::from(self.f)) - 1.0,
        };
        first_pass_rate(values, self.k * self.b, load)
    }

    /// The same filter with the shortest fingerprint whose first-pass rate is
    /// at most `rate` when the filter is as full as it was made for.
    ///
    /// # Errors
    /// [`Error::Spec`] where no fingerprint is long enough.
    pub fn for_rate(mut self, rate: f64) -> Result<Self> {
        let load = f64::from(self.target_permille()) / 1000.0;
        for f in 1..=32 {
            self.f = f;
            if self.validate().is_ok() && self.first_pass_rate(load) <= rate {
                return Ok(self);
            }
        }
        Err(Error::spec(
            self.kind.name(),
            format!("no fingerprint gives a rate of {rate}; ask for a larger one (say 0.001)"),
        ))
    }

    /// An empty filter for `capacity` keys, with its remote in memory.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    pub fn build(&self, capacity: usize) -> Result<AnyFilter> {
        self.validate()?;
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
        let mut spec = Spec::new(Kind::Simplified);
        spec.b = slots;
        let promised = bounds::theorem_4_3(keys, slots, exponent).ok_or_else(|| {
            let reason = "Theorem 4.3 promises no load for these; use 4 cells a bin or more";
            Error::spec(spec.to_string(), reason)
        })?;
        let spec = spec.with_fingerprint(promised.fingerprint_bits)?;
        let bins = promised.bins.next_multiple_of(spec.bin_step());
        Ok(AnyFilter::new(spec, keys, bins))
    }

    /// An empty filter for `keys` keys that stays within `bits` bits of memory
    /// a key: the longest fingerprint that fits at a load of about 0.95.
    ///
    /// # Errors
    /// [`Error::Spec`] where none fits.
    pub fn build_within(&self, keys: usize, bits: f64) -> Result<AnyFilter> {
        let mut spec = *self;
        let room = (bits * keys as f64) as usize;
        for f in (1..=32).rev() {
            spec.f = f;
            if spec.validate().is_err() {
                continue;
            }
            let wanted = spec.bins_for(keys)?;
            let Some(bins) = spec.bins_within(room, keys) else { continue };
            let bins = bins.min(wanted);
            // Rounding down to whole bins may cost a little more load than the
            // target, never so much that the keys would not fit.
            if spec.load_permille(keys, bins) <= spec.target_permille() + 10 {
                return Ok(AnyFilter::new(spec, keys, bins));
            }
        }
        Err(Error::spec(
            self.to_string(),
            format!("{bits} bits a key are too few for {keys} keys; allow more"),
        ))
    }

    /// Whether one filter can have room for `capacity` keys, as far as its hash functions
    /// go; nobody knows yet whether there is memory for it.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    pub fn check_capacity(&self, capacity: usize) -> Result<()> {
        self.bins_for(capacity).map(drop)
    }

    /// Bins of one table for `capacity` keys at the load we fill to.
    #[doc(hidden)]
    pub fn bins_for(&self, capacity: usize) -> Result<usize> {
        if capacity == 0 {
            return Err(Error::spec(self.to_string(), "a filter needs a capacity of at least 1"));
        }
        let per_bin = u128::from(self.cells_per_bin()) * u128::from(self.target_permille());
        let bins = (capacity as u128 * 1000).div_ceil(per_bin);
        let step = self.bin_step() as u128;
        let whole = bins.div_ceil(step) * step;
        usize::try_from(whole).ok().filter(|&bins| bins <= Self::MAX_BINS).ok_or_else(|| {
            Error::spec(
                self.to_string(),
                format!(
                    "a capacity of {capacity} is too large for one filter; cut the keys into \
                     several"
                ),
            )
        })
    }

    /// Keys for each 1000 cells that a filter is made for.
    fn target_permille(&self) -> u32 {
        match self.kind {
            Kind::Broom => broom::TARGET_PERMILLE,
            _ => target_load_permille(self.k, self.b),
        }
    }

    /// Capacities and bins of filters each half as large again as the one
    /// before, and larger in any case: what a full filter tries to become.
    pub(crate) fn growth(
        &self,
        capacity: usize,
        bins: usize,
    ) -> impl Iterator<Item = Result<(usize, usize)>> + use<> {
        let spec = *self;
        let capacities = core::iter::successors(Some(capacity), |size| Some(size + size / 2 + 1));
        capacities.zip(0..=MAX_GROWTHS).skip(1).map(move |(larger, step)| {
            let least = bins + step * spec.bin_step();
            Ok((larger, spec.bins_for(larger)?.max(least)))
        })
    }

    /// Keys that a filter of this capacity, with room for `most`, takes before it is
    /// full. One that grows does so at its capacity: at a load of 0.95 an insertion into a
    /// quotient filter takes 0.24 us, at 0.99 1.3 us and at 0.999 55 us, and queries slow
    /// down as well.
    #[inline]
    pub(crate) fn most_keys(&self, capacity: usize, most: usize) -> usize {
        if self.full == WhenFull::Grow { capacity } else { most }
    }

    /// Whether such a filter can have this many bins.
    pub(crate) fn accepts_bins(&self, bins: usize) -> bool {
        bins != 0 && bins.is_multiple_of(self.bin_step())
    }

    /// An error unless it is one of these kinds.
    pub(crate) fn expect_kind(&self, kinds: &[Kind]) -> Result<()> {
        if kinds.contains(&self.kind) {
            return Ok(());
        }
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        Err(Error::spec(self.to_string(), format!("this type is for {}", names.join(" and "))))
    }

    pub(crate) fn too_small(&self, len: usize, capacity: usize) -> Error {
        Error::spec(
            self.to_string(),
            format!("{len} stored keys do not fit a capacity of {capacity}; ask for more"),
        )
    }

    /// The most bins of one table with which a filter of `keys` keys stays
    /// within `room` bits.
    fn bins_within(&self, room: usize, keys: usize) -> Option<usize> {
        if self.kind == Kind::Broom {
            return broom::quotients_within(self, room, keys);
        }
        if self.kind.is_quotient() {
            return Runs::quotients_within(room, self.f, self.state_bytes());
        }
        let step = self.bin_step();
        let step_bits = step * self.cells_per_bin() as usize * self.cell_bits() as usize;
        let most = room / step_bits;
        // A stash wants more room the fewer the subtables.
        let fits = |steps: &usize| self.expected_bits(steps * step, keys) <= room;
        (1..=most).rev().take(most / 8 + 2).find(fits).map(|steps| steps * step)
    }

    /// Memory of a filter with this many bins a table and `keys` keys, in bits.
    /// A stash is counted with what does not fit subtables that can be filled to
    /// 0.975 (they can be filled further), and three standard deviations more.
    fn expected_bits(&self, bins: usize, keys: usize) -> usize {
        let cells = Packed::bits_for(bins * self.cells_per_bin() as usize, self.cell_bits());
        if self.stash == 0 {
            return cells;
        }
        let subtables = bins / self.bin_step();
        let placeable = 0.975 * (self.bin_step() * self.b as usize) as f64;
        let (mean, square) = bounds::surplus(keys as f64 / subtables as f64, placeable);
        let entries = subtables as f64 * mean + 3.0 * libm::sqrt(subtables as f64 * square);
        cells + (subtables * size_of::<Vec<u64>>() + libm::ceil(entries) as usize * 8) * 8
    }

    fn load_permille(&self, keys: usize, bins: usize) -> u32 {
        let cells = bins as u128 * u128::from(self.cells_per_bin());
        u32::try_from((keys as u128 * 1000).div_ceil(cells)).unwrap_or(u32::MAX)
    }

    /// Cells that one more bin a table adds.
    const fn cells_per_bin(&self) -> u32 {
        match self.kind {
            Kind::Plain | Kind::Simplified => self.b,
            _ => self.k * self.b,
        }
    }

    /// Bins come in multiples of this: whole subtables.
    const fn bin_step(&self) -> usize {
        match self.kind {
            Kind::Simplified => 1 << self.f,
            _ => 1,
        }
    }

    /// The value of a parameter, as it is written.
    fn value(&self, parameter: &str) -> String {
        match parameter {
            "f" => self.f.to_string(),
            "k" => self.k.to_string(),
            "b" => self.b.to_string(),
            "s" => self.s.to_string(),
            "r" => self.r.to_string(),
            "stash" => self.stash.to_string(),
            "moves" => self.moves.to_string(),
            "retry" => u32::from(self.retry).to_string(),
            "tags" => word_of(TAGS, self.tags).to_string(),
            "search" => word_of(SEARCHES, self.search).to_string(),
            "full" => word_of(WHEN_FULL, self.full).to_string(),
            "budget" => self.budget.to_string(),
            "code" => word_of(CODES, self.code).to_string(),
            "spent" => word_of(WHEN_SPENT, self.spent).to_string(),
            "form" => word_of(FORMS, self.form).to_string(),
            "sweep" => self.sweep.to_string(),
            "ghosts" => u32::from(self.ghosts).to_string(),
            _ => unreachable!("{parameter} is no parameter"),
        }
    }

    /// Sets a parameter that the kind has; an error says what it may be.
    fn set(&mut self, parameter: &str, value: &str) -> Result<(), String> {
        let number = || {
            value.parse::<u32>().map_err(|_| format!("{parameter}={value}: a number is expected"))
        };
        let flag = || match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(format!("{parameter}={value}: 0 or 1 is expected")),
        };
        match parameter {
            "f" => self.f = number()?,
            "k" => self.k = number()?,
            "b" => self.b = number()?,
            "s" => self.s = number()?,
            "r" => self.r = number()?,
            "stash" => self.stash = number()?,
            "moves" => self.moves = number()?,
            "retry" => self.retry = flag()?,
            "tags" => self.tags = named(TAGS, parameter, value)?,
            "search" => self.search = named(SEARCHES, parameter, value)?,
            "full" => self.full = named(WHEN_FULL, parameter, value)?,
            "budget" => self.budget = number()?,
            "code" => self.code = named(CODES, parameter, value)?,
            "spent" => self.spent = named(WHEN_SPENT, parameter, value)?,
            "form" => self.form = named(FORMS, parameter, value)?,
            "sweep" => self.sweep = number()?,
            "ghosts" => self.ghosts = flag()?,
            _ => unreachable!("{parameter} is no parameter"),
        }
        Ok(())
    }

    /// Whether the numbers make a filter.
    pub(crate) fn validate(&self) -> Result<()> {
        let within = |name: &str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            let reason = format!("{name}={value} is out of range: use {least} to {most}");
            Err(Error::spec(self.to_string(), reason))
        };
        match self.kind {
            Kind::Rsqf | Kind::Uncompressed => return within("f", self.f, 1, 32),
            Kind::Broom => {
                within("sweep", self.sweep, 1, 64)?;
                return within("f", self.f, 1, 32);
            }
            Kind::Telescoping | Kind::Extension => {
                // An epoch takes one byte of a reseeding block's state.
                let least = if self.spent == WhenSpent::Reseed { 16 } else { 8 };
                within("budget", self.budget, least, 128)?;
                if !self.budget.is_multiple_of(8) {
                    let reason = format!("budget={} is no whole number of bytes", self.budget);
                    return Err(Error::spec(self.to_string(), reason));
                }
                if self.code == Code::Tuned && self.f != 8 {
                    let reason = "code=tuned was tuned for f=8; use code=general";
                    return Err(Error::spec(self.to_string(), reason));
                }
                return within("f", self.f, 1, 32);
            }
            Kind::Plain => within("b", self.b, 1, 64)?,
            Kind::Simplified => {
                within("b", self.b, 1, 64)?;
                within("f", self.f, 2, 24)?;
                within("stash", self.stash, 0, 1 << 20)?;
            }
            Kind::PlainFull | Kind::Cyclic | Kind::Varying | Kind::Cuckooing => {
                within("k", self.k, 2, 16)?;
                within("b", self.b, 1, 64)?;
            }
            Kind::Swapping => {
                within("k", self.k, 2, 16)?;
                within("b", self.b, 2, 64)?;
            }
        }
        match self.kind {
            Kind::Cyclic => within("s", self.s, 1, 8)?,
            Kind::Varying => {
                within("s", self.s, 0, 8)?;
                within("r", self.r, 1, 16)?;
                within("f", self.f, self.r + 1, 32 - self.s)?;
            }
            Kind::Cuckooing => within("moves", self.moves, 1, 1 << 16)?,
            _ => {}
        }
        within("f", self.f, 2, 32 - self.s)
    }
}

/// Sizes that a full filter tries, the last five times the first.
const MAX_GROWTHS: usize = 4;

const TAGS: &[(&str, Tags)] = &[("table", Tags::Table), ("common", Tags::Common)];
const SEARCHES: &[(&str, Search)] = &[("bfs", Search::BreadthFirst), ("walk", Search::RandomWalk)];
const FORMS: &[(&str, Form)] = &[("practical", Form::Practical), ("faithful", Form::Faithful)];
const CODES: &[(&str, Code)] = &[("tuned", Code::Tuned), ("general", Code::General)];
const WHEN_SPENT: &[(&str, WhenSpent)] =
    &[("reset", WhenSpent::Reset), ("reseed", WhenSpent::Reseed)];
const WHEN_FULL: &[(&str, WhenFull)] =
    &[("error", WhenFull::Error), ("rebuild", WhenFull::Rebuild), ("grow", WhenFull::Grow)];

fn word_of<T: PartialEq + Copy>(words: &[(&'static str, T)], value: T) -> &'static str {
    words.iter().find(|(_, named)| *named == value).expect("every value has a word").0
}

fn named<T: Copy>(words: &[(&str, T)], parameter: &str, value: &str) -> Result<T, String> {
    words.iter().find(|(word, _)| *word == value).map(|(_, named)| *named).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("{parameter}={value}: one of {} is expected", known.join(", "))
    })
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        for (index, parameter) in self.kind.parameters().iter().enumerate() {
            let separator = if index == 0 { ':' } else { ',' };
            write!(f, "{separator}{parameter}={}", self.value(parameter))?;
        }
        Ok(())
    }
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, parameters) = text.split_once(':').unwrap_or((text, ""));
        let kind = Kind::ALL.iter().copied().find(|kind| kind.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            Error::spec(
                text,
                format!("no filter is called \"{name}\"; there are {}", known.join(", ")),
            )
        })?;
        let mut spec = Spec::new(kind);
        for pair in parameters.split(',').filter(|pair| !pair.is_empty()) {
            let (parameter, value) = pair.split_once('=').ok_or_else(|| {
                Error::spec(text, format!("\"{pair}\": parameter=value is expected"))
            })?;
            if !kind.parameters().contains(&parameter) {
                let known = kind.parameters().join(", ");
                let reason = format!("{name} has no parameter \"{parameter}\"; it has {known}");
                return Err(Error::spec(text, reason));
            }
            spec.set(parameter, value).map_err(|reason| Error::spec(text, reason))?;
        }
        spec.validate()?;
        Ok(spec)
    }
}
