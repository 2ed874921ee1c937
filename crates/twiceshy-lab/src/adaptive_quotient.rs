//! The adaptive quotient filter: Wen, McCoy, Tench, Tagliavini, Bender, Conway, Farach-Colton,
//! Johnson, Pandey, "Adaptive Quotient Filters" (2025), to compare our filters with.
//!
//! A quotient filter whose fingerprints grow. A stored key's bits beyond its quotient are cut into
//! chunks of the remainder's length. Its fingerprint is the first chunk, in one slot; on a false
//! positive it is extended to the first chunk in which key and query differ, each in a further slot:
//!
//! ```text
//! quotient | remainder | extension | extension | ...      one slot each
//!            chunk 0     chunk 1     chunk 2
//! ```
//!
//! Extensions only grow, so a query that was fixed never comes back (the paper's "monotone"). No
//! fingerprint is a prefix of another: an insertion that would break this extends both.
//!
//! The paper keeps the keys in a reverse map on disk. Here each fingerprint has its key, which
//! counts as the remote, and slots are counted rather than laid out: answers and space are the
//! paper's, times are not. Departure: a table that is filled to [`FILL_LIMIT`] refuses, with
//! [`Error::Full`] or [`Adapted::Unfixed`] and a [count](AdaptiveQuotient::refused); how the
//! published code ends there is not part of the paper.

use twiceshy_filters::remote::Accesses;
use twiceshy_filters::{Adapted, Digest, Error, Result, Stats};

/// The name on the command line and in tables.
pub const NAME: &str = "aqf";

/// Slots that may be occupied, of all: what counting quotient filters, on whose code the
/// published filter is built, allow.
pub const FILL_LIMIT: f64 = 0.95;

/// Bits of metadata for each slot: occupied, end of a run, extension, and an offset of
/// 8 bits for 64 slots.
pub const METADATA_BITS: f64 = 3.125;

/// How large a filter is for its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bits of a remainder, and of an extension's chunk.
    pub remainder_bits: u32,
    /// Keys for each slot when it has all its keys, in percent. What is left up to
    /// [`FILL_LIMIT`] is room to adapt.
    pub load_percent: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Shape { remainder_bits: 8, load_percent: 90 }
    }
}

impl Shape {
    /// The share of the slots that the keys take.
    #[must_use]
    pub fn load(&self) -> f64 {
        f64::from(self.load_percent) / 100.0
    }

    /// Bits of a slot with its metadata.
    #[must_use]
    pub fn slot_bits(&self) -> f64 {
        f64::from(self.remainder_bits) + METADATA_BITS
    }

    /// The probability that a query which was never made before is answered "maybe".
    #[must_use]
    pub fn first_pass_rate(&self, load: f64) -> f64 {
        -(-load * self.epsilon()).exp_m1()
    }

    /// The probability that two keys of one run share a remainder.
    #[must_use]
    pub fn epsilon(&self) -> f64 {
        (-f64::from(self.remainder_bits)).exp2()
    }

    /// Extension slots for each key, on average, that are left to adapt with when all keys are
    /// stored: two of them that share a remainder have taken one each. Below 0 where the keys do
    /// not fit, as with remainders of less than 5 bits at a load of 0.9.
    #[must_use]
    pub fn spare_slots(&self, load: f64) -> f64 {
        FILL_LIMIT / load - 1.0 - load * self.epsilon()
    }
}

/// The filter, with the remote that it adapts by.
#[derive(Debug)]
pub struct AdaptiveQuotient {
    shape: Shape,
    capacity: usize,
    /// Fingerprints by quotient.
    runs: Vec<Vec<Fingerprint>>,
    len: usize,
    occupied: usize,
    adaptations: u64,
    refused: u64,
    accesses: Accesses,
}

#[derive(Clone, Copy, Debug)]
struct Fingerprint {
    /// In the remote. Of it the filter sees the first chunks.
    key: Digest,
    /// Chunks, and slots.
    chunks: u32,
}

/// A digest's first word is its quotient; its chunks are cut from the words behind it.
const CHUNKS_FROM: u32 = 64;

/// Keys that are alike for so many bits behind their quotient cannot be told apart: digests have
/// 128 bits, so there are none.
const MOST_BITS: u32 = 512;

impl Fingerprint {
    fn chunk(digest: Digest, index: u32, bits: u32) -> u64 {
        digest.bits(CHUNKS_FROM + index * bits, bits)
    }

    fn matches(&self, query: Digest, bits: u32) -> bool {
        let chunk = |digest, index| Fingerprint::chunk(digest, index, bits);
        (0..self.chunks).all(|index| chunk(self.key, index) == chunk(query, index))
    }

    /// Chunks with which it does not match another key.
    fn chunks_to_differ(&self, other: Digest, bits: u32) -> Option<u32> {
        let chunk = |digest, index| Fingerprint::chunk(digest, index, bits);
        let differs = |&index: &u32| chunk(self.key, index) != chunk(other, index);
        (self.chunks..MOST_BITS / bits).find(differs).map(|index| index + 1)
    }
}

impl AdaptiveQuotient {
    /// An empty filter for `capacity` keys at the load of its shape.
    ///
    /// # Panics
    /// If the shape has no such load or remainder; [`Shape`]s from text do.
    #[must_use]
    pub fn new(shape: Shape, capacity: usize) -> Self {
        assert!((1..=95).contains(&shape.load_percent), "no load: {shape:?}");
        assert!((1..=32).contains(&shape.remainder_bits), "no remainder: {shape:?}");
        let slots = ((capacity as f64 / shape.load()).ceil() as usize).max(1);
        AdaptiveQuotient {
            shape,
            capacity,
            runs: vec![Vec::new(); slots],
            len: 0,
            occupied: 0,
            adaptations: 0,
            refused: 0,
            accesses: Accesses::default(),
        }
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    fn quotient(&self, digest: Digest) -> usize {
        let product = u128::from(digest.word(0)) * self.runs.len() as u128;
        (product >> 64) as usize
    }

    fn limit(&self) -> usize {
        (self.runs.len() as f64 * FILL_LIMIT) as usize
    }

    fn has_room_for(&self, slots: u32) -> bool {
        self.occupied + slots as usize <= self.limit()
    }

    /// The one fingerprint that matches, by run and place.
    fn find(&self, digest: Digest) -> Option<(usize, usize)> {
        let (quotient, bits) = (self.quotient(digest), self.shape.remainder_bits);
        let run = &self.runs[quotient];
        Some((quotient, run.iter().position(|stored| stored.matches(digest, bits))?))
    }

    /// `false`: definitely absent. `true`: maybe present.
    #[must_use]
    pub fn contains(&self, digest: Digest) -> bool {
        self.find(digest).is_some()
    }

    /// Adds a key; `false` when it was stored already.
    ///
    /// # Errors
    /// [`Error::Full`] when its slots, and those that tell it from another key, do not fit.
    pub fn insert(&mut self, digest: Digest) -> Result<bool> {
        let bits = self.shape.remainder_bits;
        let full = Error::Full { digest, len: self.len, capacity: self.capacity };
        let chunks = if let Some((quotient, place)) = self.find(digest) {
            let other = self.runs[quotient][place];
            if other.key == digest {
                return Ok(false);
            }
            let Some(length) = other.chunks_to_differ(digest, bits) else { return Err(full) };
            let more = length - other.chunks;
            if !self.has_room_for(more + length) {
                return Err(full);
            }
            self.runs[quotient][place].chunks = length;
            self.occupied += more as usize;
            length
        } else {
            // Shorter than a fingerprint that it is a prefix of, it would match that key.
            let run = &self.runs[self.quotient(digest)];
            let shared = run.iter().filter_map(|stored| {
                let new = Fingerprint { key: digest, chunks: 1 };
                new.matches(stored.key, bits).then(|| new.chunks_to_differ(stored.key, bits))?
            });
            let chunks = shared.fold(1, u32::max);
            if !self.has_room_for(chunks) {
                return Err(full);
            }
            chunks
        };
        let quotient = self.quotient(digest);
        self.runs[quotient].push(Fingerprint { key: digest, chunks });
        self.len += 1;
        self.occupied += chunks as usize;
        self.accesses.writes += 1;
        Ok(true)
    }

    /// Removes a key with its extensions; `false` when it was not stored.
    pub fn remove(&mut self, digest: Digest) -> bool {
        let Some((quotient, place)) = self.find(digest) else { return false };
        self.accesses.reads += 1;
        if self.runs[quotient][place].key != digest {
            return false;
        }
        let removed = self.runs[quotient].remove(place);
        self.len -= 1;
        self.occupied -= removed.chunks as usize;
        self.accesses.writes += 1;
        true
    }

    /// Reports a positive answer that may have been false. Without room it changes nothing.
    pub fn adapt(&mut self, digest: Digest) -> Adapted {
        let Some((quotient, place)) = self.find(digest) else { return Adapted::Absent };
        self.accesses.reads += 1;
        let stored = self.runs[quotient][place];
        if stored.key == digest {
            return Adapted::Stored;
        }
        let length = stored.chunks_to_differ(digest, self.shape.remainder_bits);
        let fits = |&length: &u32| self.has_room_for(length - stored.chunks);
        let Some(length) = length.filter(fits) else {
            self.refused += 1;
            return Adapted::Unfixed;
        };
        self.runs[quotient][place].chunks = length;
        self.occupied += (length - stored.chunks) as usize;
        self.adaptations += 1;
        Adapted::Fixed
    }

    /// False positives that it had no room to adapt to.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Slots in use, with those of extensions.
    #[must_use]
    pub fn occupied(&self) -> usize {
        self.occupied
    }

    /// Counts and sizes. Memory is that of all slots.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats::default();
        stats.len = self.len;
        stats.capacity = self.capacity;
        stats.cells = self.runs.len();
        stats.bits = (self.runs.len() as f64 * self.shape.slot_bits()).ceil() as usize;
        stats.adaptations = self.adaptations;
        stats
    }

    /// The number of remote accesses so far.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        self.accesses
    }

    /// Verifies every invariant; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&self) -> Result<(), String> {
        let all = || self.runs.iter().flatten();
        let slots: usize = all().map(|stored| stored.chunks as usize).sum();
        if slots != self.occupied || slots > self.limit() {
            let (counted, limit) = (self.occupied, self.limit());
            return Err(format!("{slots} slots in use, {counted} counted, {limit} allowed"));
        }
        if all().count() != self.len {
            return Err(format!("{} keys, {} counted", all().count(), self.len));
        }
        let bits = self.shape.remainder_bits;
        for (quotient, run) in self.runs.iter().enumerate() {
            for stored in run {
                let key = stored.key;
                if self.quotient(key) != quotient {
                    return Err(format!("{key:?} is in the run of {quotient}"));
                }
                let matching = run.iter().filter(|other| other.matches(key, bits)).count();
                if stored.chunks == 0 || matching != 1 {
                    return Err(format!("{matching} fingerprints match {key:?}"));
                }
            }
        }
        Ok(())
    }
}
