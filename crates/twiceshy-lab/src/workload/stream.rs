//! A workload: which keys are stored, and in which order absent ones are asked for.

use std::sync::Arc;

use rand::RngExt;
use rand_distr::{Binomial, Distribution};

use super::{Error, Key, Recording, Repeats, Zipf, reserve};
use crate::random::{mix, rng};

/// Absent keys that a rank of 32 bits can tell apart.
pub const MAX_ABSENT: u64 = 1 << 32;

/// How large a workload is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Size {
    /// Keys to store. A trace has a number of its own, `distinct / (1 + ratio)`.
    pub keys: Option<u64>,
    /// Distinct absent keys for each stored one, A/S. A trace whose `keys` are
    /// given has a ratio of its own.
    pub ratio: f64,
    /// Queries in the stream, of sources that do not say. FireHose streams have
    /// a length of their own, which this overrules; it counts queries for
    /// stored keys too, before they are dropped.
    pub queries: Option<u64>,
    /// Below 1, a smaller trace of the same shape, for quick runs: of a
    /// recording, its beginning. No matter to synthetic sources.
    pub scale: f64,
}

impl Default for Size {
    /// Ten absent keys for each stored one; traces at full size.
    fn default() -> Self {
        Size { keys: None, ratio: 10.0, queries: None, scale: 1.0 }
    }
}

impl Size {
    pub(super) fn check(&self) -> Result<(), Error> {
        let positive = |number: f64| number > 0.0 && number.is_finite();
        match self {
            size if !positive(size.ratio) => Err(Error::Size { what: "ratio", value: size.ratio }),
            size if !(positive(size.scale) && size.scale <= 1.0) => {
                Err(Error::Size { what: "scale (at most 1)", value: size.scale })
            }
            _ => Ok(()),
        }
    }

    /// `keys * ratio`, rounded.
    pub(super) fn absent(&self, keys: u64) -> Result<u64, Error> {
        let absent = (keys as f64 * self.ratio).round();
        if (1.0..=MAX_ABSENT as f64).contains(&absent) {
            // Whole, and far below 2^53.
            return Ok(absent as u64);
        }
        if absent < 1.0 {
            return Err(Error::Size { what: "ratio", value: self.ratio });
        }
        Err(Error::TooManyAbsent { keys, ratio: self.ratio })
    }

    /// A share of `count`, but at least 1.
    pub(super) fn scaled(&self, count: u64) -> u64 {
        ((count as f64 * self.scale).round() as u64).max(1)
    }
}

/// Keys to store, and a stream of queries for absent keys.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The source's name.
    pub name: String,
    /// The keys to store.
    pub stored: Vec<Key>,
    absent: u64,
    stream: Stream,
}

/// What the queries follow from.
#[derive(Clone, Debug)]
enum Stream {
    Drawn {
        exponent: f64,
        queries: u64,
        seed: u64,
    },
    Repeated {
        times: u64,
        seed: u64,
    },
    /// Numbers below that of the stored keys are queries for those.
    Recorded {
        recording: Arc<Recording>,
        take: usize,
        queries: u64,
    },
}

impl Workload {
    /// `queries` independent draws by rank.
    pub(super) fn drawn(
        name: String,
        keys: u64,
        absent: u64,
        exponent: f64,
        queries: u64,
        seed: u64,
    ) -> Result<Self, Error> {
        let stream = Stream::Drawn { exponent, queries, seed };
        Ok(Workload { name, stored: numbered(keys)?, absent, stream })
    }

    /// Every absent key `times` times.
    pub(super) fn repeated(
        name: String,
        keys: u64,
        absent: u64,
        times: u64,
        seed: u64,
    ) -> Result<Self, Error> {
        let stream = Stream::Repeated { times, seed };
        Ok(Workload { name, stored: numbered(keys)?, absent, stream })
    }

    /// The protocol of the papers on a trace: its first `keys` distinct keys are
    /// stored, and all its other elements are queries. Queries for stored keys
    /// are dropped: they are true positives, which no filter gets wrong.
    pub(super) fn recorded(recording: Arc<Recording>, size: &Size) -> Result<Self, Error> {
        let name = recording.name.clone();
        let take = usize::try_from(size.scaled(recording.stream.len() as u64))
            .map_or(recording.stream.len(), |take| take.min(recording.stream.len()));
        // Numbers are those of first appearances, so the largest one of a prefix
        // tells how many there are.
        let listed = recording.stored.unwrap_or(0);
        let stream = &recording.stream[..take];
        let distinct = stream.iter().max().map_or(0, |&last| u64::from(last) + 1).max(listed);
        let keys = recording.stored.or(size.keys);
        let keys = keys.unwrap_or_else(|| (distinct as f64 / (1.0 + size.ratio)).round() as u64);
        if keys == 0 || keys >= distinct {
            return Err(Error::TooFewDistinct { source: name, distinct, keys });
        }
        let queries = stream.iter().filter(|&&number| u64::from(number) >= keys).count() as u64;
        let stream = Stream::Recorded { recording, take, queries };
        Ok(Workload { name, stored: numbered(keys)?, absent: distinct - keys, stream })
    }

    /// Queries in the stream.
    #[must_use]
    pub fn len(&self) -> u64 {
        match &self.stream {
            Stream::Drawn { queries, .. } | Stream::Recorded { queries, .. } => *queries,
            Stream::Repeated { times, .. } => self.absent * times,
        }
    }

    /// Whether nothing is asked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the queries are independent uniform draws of all absent keys.
    #[must_use]
    pub fn is_uniform(&self) -> bool {
        matches!(self.stream, Stream::Drawn { exponent: 0.0, .. })
    }

    /// All absent keys that the stream may ask for, each once.
    pub fn absent(&self) -> impl ExactSizeIterator<Item = Key> + Send + use<> {
        let first = self.stored.len() as u64;
        let absent = usize::try_from(self.absent).expect("2^32 fit a usize");
        (0..absent).map(move |rank| mix(first + rank as u64))
    }

    /// How many absent keys the stream does ask for: exact, at the cost of going
    /// through it where it is drawn.
    #[must_use]
    pub fn distinct(&self) -> u64 {
        if !matches!(self.stream, Stream::Drawn { .. }) {
            return self.absent;
        }
        let words = usize::try_from(self.absent.div_ceil(64)).expect("2^26 fit a usize");
        let mut seen = vec![0_u64; words];
        for rank in self.ranks() {
            seen[rank as usize / 64] |= 1 << (rank % 64);
        }
        seen.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// The queries, the same each time.
    pub fn queries(&self) -> Box<dyn Iterator<Item = Key> + Send + '_> {
        Box::new(self.ranks().map(|rank| self.key(rank)))
    }

    /// The key in a place of [`Workload::absent`].
    #[must_use]
    pub fn key(&self, rank: u32) -> Key {
        mix(self.stored.len() as u64 + u64::from(rank))
    }

    /// What is left of a stream when the queries for all but `some` of the absent keys are taken
    /// out, as numbers below `some`. Only independent uniform draws have an answer: binomially
    /// many, which are uniform draws again. It takes time for these alone.
    ///
    /// # Panics
    /// For more than all absent keys.
    #[must_use]
    pub fn thinned(&self, some: u64) -> Option<impl Iterator<Item = usize> + use<>> {
        let &Stream::Drawn { exponent: 0.0, queries, seed } = &self.stream else { return None };
        assert!(some <= self.absent, "{some} of {} keys", self.absent);
        let mut rng = rng(mix(seed));
        let share = some as f64 / self.absent as f64;
        let left = Binomial::new(queries, share).expect("a probability").sample(&mut rng);
        let some = usize::try_from(some).expect("2^32 fit a usize");
        Some((0..left).map(move |_| rng.random_range(0..some)))
    }

    /// The queries as places in [`Workload::absent`], for callers that keep
    /// something for each absent key.
    #[must_use]
    pub fn ranks(&self) -> Ranks<'_> {
        match &self.stream {
            &Stream::Drawn { exponent, queries, seed } => {
                Ranks::Drawn(Zipf::new(self.absent, exponent, seed), queries)
            }
            &Stream::Repeated { times, seed } => {
                Ranks::Repeated(Repeats::new(self.absent, times, seed))
            }
            Stream::Recorded { recording, take, .. } => {
                // Fewer than all numbers of the recording, which are 32 bits each.
                let stored = u32::try_from(self.stored.len()).expect("it was counted");
                Ranks::Recorded(recording.stream[..*take].iter(), stored)
            }
        }
    }
}

/// The stored keys: those of the first numbers.
fn numbered(keys: u64) -> Result<Vec<Key>, Error> {
    let mut stored = reserve(keys, "stored keys")?;
    stored.extend((0..keys).map(mix));
    Ok(stored)
}

/// The iterator of [`Workload::ranks`].
#[derive(Clone, Debug)]
pub enum Ranks<'a> {
    /// Draws, and how many are left.
    Drawn(Zipf, u64),
    /// Each rank equally often.
    Repeated(Repeats),
    /// Numbers of a recording, and how many of them are stored.
    Recorded(std::slice::Iter<'a, u32>, u32),
}

impl Iterator for Ranks<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        match self {
            Ranks::Drawn(zipf, left) => {
                *left = left.checked_sub(1)?;
                Some(zipf.draw())
            }
            Ranks::Repeated(repeats) => {
                let rank = repeats.next()?;
                Some(u32::try_from(rank).expect("it is below the number of absent keys"))
            }
            Ranks::Recorded(numbers, stored) => {
                numbers.find_map(|number| number.checked_sub(*stored))
            }
        }
    }
}
