//! A chain of filters, each twice as large as the one before.
//!
//! A filter without its keys cannot be rebuilt. When it is full, a larger one is added, and a
//! query searches both:
//!
//! ```text
//! query ──▶ newest ──▶ older ──▶ oldest        maybe: the first that says so
//!           4c keys    2c keys   c keys        absent: if none does
//!           f+2 bits   f+1 bits  f bits
//! insert ─▶ newest
//! ```
//!
//! Fingerprints grow along the chain, so that the rates of all filters together stay within the
//! requested one.

use twiceshy_filters::internals::{Reader, Writer};
use twiceshy_filters::{Digest, Error, Result};

use super::exceptions::{LEAST_BITS, MOST_BITS};
use super::fingerprints::{Fingerprints, Kind};
use super::layer::{Known, Layer};

/// Of the rate that was asked for, the first filter leaves at least this share to later ones.
const LEFT_TO_LATER: f64 = 1.0 / 16.0;

/// The highest rate of a chain: filters with many mistakes add up to more than 1.
const MOST_RATE: f64 = 2.0;

/// A chain of filters over digests.
#[derive(Clone, PartialEq)]
pub(crate) struct Chain {
    /// New keys go here. It has most of them, and is searched first.
    newest: Layer,
    /// The full ones, oldest first.
    older: Vec<Layer>,
    /// The most that the rates of all filters may add up to.
    rate: f64,
    /// Bits of exceptions for each key.
    exception_bits: f64,
}

/// What a chain is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) fingerprints: Fingerprints,
    pub(crate) capacity: usize,
    pub(crate) rate: f64,
    pub(crate) exception_bits: f64,
}

impl Sizes {
    /// About how many bytes a filter takes.
    pub(crate) fn bytes(&self) -> usize {
        let bits_per_key = self.fingerprints.bits_per_key() + self.exception_bits;
        (self.capacity as f64 * bits_per_key / 8.0) as usize
    }
}

/// The shortest fingerprints with which the first filter of a chain keeps a rate.
///
/// # Errors
/// [`Error::Spec`] where none are long enough.
pub(crate) fn fingerprints_for(kind: Kind, rate: f64) -> Result<Fingerprints> {
    let most = rate * (1.0 - LEFT_TO_LATER);
    Fingerprints::for_rate(kind, most).ok_or_else(|| {
        let reason = "no fingerprint is long enough for it; ask for a larger one (say 0.001)";
        Error::spec(format!("rate={rate}"), reason)
    })
}

/// The rate of a chain whose first filter has such fingerprints: half of it is left to later
/// ones.
pub(crate) fn rate_of(fingerprints: Fingerprints) -> f64 {
    2.0 * fingerprints.full_rate()
}

impl Chain {
    /// An empty chain of one filter.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity of zero or one that is too large.
    pub(crate) fn new(sizes: &Sizes) -> Result<Self> {
        let Sizes { fingerprints, capacity, rate, exception_bits } = *sizes;
        let newest = Layer::new(fingerprints, capacity, exception_bits)?;
        Ok(Chain { newest, older: Vec::new(), rate, exception_bits })
    }

    /// All filters, newest first.
    pub(crate) fn layers(&self) -> impl Iterator<Item = &Layer> {
        std::iter::once(&self.newest).chain(self.older.iter().rev())
    }

    fn layers_mut(&mut self) -> impl Iterator<Item = &mut Layer> {
        std::iter::once(&mut self.newest).chain(self.older.iter_mut().rev())
    }

    /// The answer to a query; hits among the exceptions are noted there.
    #[inline]
    pub(crate) fn contains(&self, digest: Digest) -> bool {
        self.newest.contains(digest) || self.older.iter().rev().any(|layer| layer.contains(digest))
    }

    /// The same without a note.
    #[inline]
    pub(crate) fn peek(&self, digest: Digest) -> bool {
        self.layers().any(|layer| layer.known(digest) == Known::Maybe)
    }

    /// [`Chain::contains`] for many digests: their memory is prefetched.
    pub(crate) fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        self.answer_many(digests, found, |layer, digest| layer.exceptions.hit(digest));
    }

    /// [`Chain::peek`] for many digests.
    pub(crate) fn peek_many(&self, digests: &[Digest], found: &mut [bool]) {
        self.answer_many(digests, found, |layer, digest| layer.exceptions.holds(digest));
    }

    fn answer_many(
        &self,
        digests: &[Digest],
        found: &mut [bool],
        is_exception: impl Fn(&Layer, Digest) -> bool,
    ) {
        let answer = |layer: &Layer, found: &mut [bool]| {
            layer.filter.contains_many(digests, found);
            for (found, digest) in found.iter_mut().zip(digests) {
                if *found {
                    *found = !is_exception(layer, *digest);
                }
            }
        };
        answer(&self.newest, found);
        let mut found_here = Vec::new();
        for layer in self.older.iter().rev() {
            found_here.resize(digests.len(), false);
            answer(layer, &mut found_here);
            for (found, here) in found.iter_mut().zip(&found_here) {
                *found |= *here;
            }
        }
    }

    /// Adds a digest; `false` when the chain answered "maybe" already.
    ///
    /// # Errors
    /// [`Error::Full`] if a larger filter is needed and the chain would take more than
    /// `most_bytes` on the heap; nothing has changed.
    pub(crate) fn insert_within(&mut self, digest: Digest, most_bytes: usize) -> Result<bool> {
        let mut excepted = None;
        for layer in self.layers_mut() {
            match layer.known(digest) {
                Known::Maybe => return Ok(false),
                Known::Excepted => excepted = excepted.or(Some(layer)),
                Known::Absent => (),
            }
        }
        // With its fingerprint there, the exception is all that hides it.
        if let Some(layer) = excepted {
            layer.exceptions.remove(digest);
            return Ok(true);
        }
        if !self.newest.add(digest) {
            let larger = self.larger();
            if self.heap_bytes().saturating_add(larger.bytes()) > most_bytes {
                let sum = |of: fn(&Layer) -> usize| self.layers().map(of).sum();
                return Err(Error::Full {
                    digest,
                    len: sum(Layer::len),
                    capacity: sum(Layer::capacity),
                });
            }
            self.extend(larger);
            assert!(self.newest.add(digest), "an empty filter has room");
        }
        Ok(true)
    }

    /// [`Chain::insert_within`] any memory.
    pub(crate) fn insert(&mut self, digest: Digest) -> bool {
        self.insert_within(digest, usize::MAX).expect("no filter is too large")
    }

    /// Adds an exception wherever the digest is answered "maybe"; `false` when nowhere, or
    /// when there is no table.
    pub(crate) fn adapt(&mut self, digest: Digest) -> bool {
        let mut adapted = false;
        for layer in self.layers_mut() {
            if layer.known(digest) == Known::Maybe {
                adapted |= layer.exceptions.insert(digest);
            }
        }
        adapted
    }

    /// The next filter: twice as large.
    fn larger(&self) -> Sizes {
        let left = self.rate - self.layers().map(Layer::full_rate).sum::<f64>();
        Sizes {
            fingerprints: self.next_fingerprints(left),
            capacity: self.newest.capacity().saturating_mul(2),
            rate: self.rate,
            exception_bits: self.exception_bits,
        }
    }

    /// Begins a larger filter: of that size, or as large as a filter can be.
    fn extend(&mut self, larger: Sizes) {
        let Sizes { fingerprints, capacity, exception_bits, .. } = larger;
        let larger = std::iter::successors(Some(capacity), |capacity| Some(capacity / 2))
            .find_map(|capacity| Layer::new(fingerprints, capacity, exception_bits).ok())
            .expect("the last one could be made");
        self.older.push(std::mem::replace(&mut self.newest, larger));
    }

    /// The fingerprints of a filter for half of the rate that is left, and at most half of that of
    /// the last one: the shortest that do, or the longest where those are not enough. Where the
    /// line filter has none, those of a plain one follow.
    fn next_fingerprints(&self, left: f64) -> Fingerprints {
        let last = self.newest.filter.fingerprints();
        let most = left.min(last.full_rate()) / 2.0;
        let longest = || Fingerprints::longest(last.kind, |_| true);
        Fingerprints::for_rate(last.kind, most).or_else(longest).expect("every kind has some")
    }

    /// Takes over the filters of another chain, each with its exceptions. New keys go to the
    /// larger of both newest filters.
    pub(crate) fn absorb(&mut self, mut other: Chain) {
        if other.newest.capacity() > self.newest.capacity() {
            std::mem::swap(self, &mut other);
        }
        self.rate = (self.rate + other.rate).min(MOST_RATE);
        // The newest filter of a chain may be empty; all others have keys.
        let theirs = other.older.into_iter().chain([other.newest]).filter(|layer| layer.len() > 0);
        self.older.splice(0..0, theirs);
    }

    /// Removes all keys and exceptions; one filter stays, the largest.
    pub(crate) fn clear(&mut self) {
        self.older = Vec::new();
        self.newest.clear();
    }

    /// Empties the tables of exceptions and gives them another size.
    pub(crate) fn reset_exceptions(&mut self, bits_per_key: f64) {
        self.exception_bits = bits_per_key;
        for layer in self.layers_mut() {
            layer.exceptions = super::exceptions::Exceptions::new(layer.capacity(), bits_per_key);
        }
    }

    /// Frees the memory that a chain for lookups only does not need.
    pub(crate) fn shrink(&mut self) {
        self.older.shrink_to_fit();
        self.layers_mut().for_each(|layer| layer.exceptions.drop_if_empty());
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.older.capacity() * size_of::<Layer>()
            + self.layers().map(Layer::heap_bytes).sum::<usize>()
    }

    /// The sizes, and the layers from the oldest on.
    pub(crate) fn write(&self, writer: &mut Writer) {
        writer.u64(self.rate.to_bits());
        writer.u64(self.exception_bits.to_bits());
        writer.u64(self.older.len() as u64 + 1);
        for layer in self.older.iter().chain([&self.newest]) {
            layer.write(writer);
        }
    }

    /// What [`Chain::write`] wrote.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let rate = f64::from_bits(reader.u64("the rate")?);
        let exception_bits = f64::from_bits(reader.u64("the size of the exceptions")?);
        // Each has its own length, and its exceptions have two.
        let count = reader.count("filters", 24)?;
        if count == 0 {
            return Err(Error::format("it is a chain of no filters"));
        }
        let mut older = Vec::new();
        for _ in 1..count {
            older.push(Layer::read(reader)?);
        }
        let chain = Chain { newest: Layer::read(reader)?, older, rate, exception_bits };
        chain.check().map_err(Error::format)?;
        Ok(chain)
    }

    /// Verifies every invariant.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Chain { rate, exception_bits, .. } = *self;
        if !(rate > 0.0 && rate <= MOST_RATE) {
            return Err(format!("its rate is {rate}"));
        }
        if exception_bits != 0.0 && !(LEAST_BITS..=MOST_BITS).contains(&exception_bits) {
            return Err(format!("its exceptions have {exception_bits} bits per key"));
        }
        if self.older.iter().any(|layer| layer.len() == 0) {
            return Err("a filter of the chain was left empty".into());
        }
        self.layers().try_for_each(Layer::check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 3] = [Kind::Line, Kind::Plain, Kind::Rsqf];

    fn empty_sizes(kind: Kind, rate: f64) -> Sizes {
        let fingerprints = fingerprints_for(kind, rate).expect("a usual rate");
        Sizes { fingerprints, capacity: 1, rate, exception_bits: 0.5 }
    }

    fn empty(kind: Kind, rate: f64) -> Chain {
        Chain::new(&empty_sizes(kind, rate)).expect("a small filter")
    }

    /// Twenty doublings are a million times as many keys as the filter was made for.
    #[test]
    fn the_rates_of_a_chain_add_up_to_what_was_asked_for() {
        let rates = [0.9, 0.5, 0.25, 0.1, 0.03, 0.01, 0.002, 0.001, 1e-4, 1.001e-4];
        for (kind, rate) in KINDS.into_iter().flat_map(|kind| rates.map(|rate| (kind, rate))) {
            let mut chain = empty(kind, rate);
            let mut sum = 0.0;
            for _ in 0..20 {
                let at_target = chain.newest.filter.fingerprints().full_rate();
                sum += chain.newest.full_rate().max(at_target);
                assert!(sum <= rate, "{kind:?}, {rate}: {sum}");
                // Only the widths are needed, not the tables.
                let next = chain.next_fingerprints(rate - sum);
                chain.newest = Layer::new(next, 1, 0.5).expect("a small filter");
            }
        }
    }

    /// Of fingerprints that were asked for, the first filter takes half of the rate.
    #[test]
    fn fingerprints_give_the_rate_of_a_chain_that_begins_with_them() {
        for kind in KINDS {
            let fingerprints = fingerprints_for(kind, 0.01).expect("a usual rate");
            let rate = rate_of(fingerprints);
            let sizes = Sizes { fingerprints, rate, ..empty_sizes(kind, 0.01) };
            let first = Chain::new(&sizes).expect("a small filter").newest.filter.fingerprints();
            assert!(
                rate < 0.02 && (first.full_rate() / rate - 0.5).abs() < 1e-9,
                "{kind:?}: {rate}"
            );
        }
    }

    #[test]
    fn a_peek_changes_nothing_and_a_query_notes_its_exception() {
        let digest = |number: u64| Digest::new([1, 2]).rehashed(number + 1);
        let sizes = Sizes { exception_bits: 1000.0, ..empty_sizes(Kind::Plain, 0.5) };
        let mut chain = Chain::new(&sizes).expect("a small filter");
        chain.insert(digest(0));
        let wrong: Vec<Digest> =
            (1..).map(digest).filter(|&digest| chain.peek(digest)).take(3).collect();
        assert!(wrong.iter().all(|&digest| chain.adapt(digest)));
        // The order of exceptions is in the file.
        let bytes = |chain: &Chain| {
            let mut writer = Writer::new("chain");
            chain.write(&mut writer);
            writer.finish()
        };
        let before = bytes(&chain);
        assert!(!wrong.iter().any(|&digest| chain.peek(digest)));
        let mut found = [true; 3];
        chain.peek_many(&wrong, &mut found);
        assert_eq!(found, [false; 3]);
        assert!(bytes(&chain) == before);
        // All are in one set, where the last that came is not the first.
        assert!(!wrong.iter().any(|&digest| chain.contains(digest)));
        assert!(bytes(&chain) != before);
    }

    #[test]
    fn a_chain_grows_within_its_limit_only() {
        let digest = |number: u64| Digest::new([1, 2]).rehashed(number + 1);
        let mut chain = empty(Kind::Line, 0.01);
        let most = 50_000;
        let inserted = (0..100_000)
            .take_while(|&number| chain.insert_within(digest(number), most).is_ok())
            .count();
        assert!((1000..100_000).contains(&inserted), "{inserted} keys");
        let before = chain.clone();
        let full = chain.insert_within(digest(inserted as u64), most);
        assert!(matches!(full, Err(Error::Full { .. })) && chain == before);
        assert!(chain.heap_bytes() <= most, "{} bytes", chain.heap_bytes());
        assert!((0..inserted as u64).all(|number| chain.contains(digest(number))));
    }

    /// The bounds of what a file may say.
    #[test]
    fn a_chain_that_no_filter_has_is_refused() {
        let sound = empty(Kind::Line, 0.01);
        let with = |rate, exception_bits| Chain { rate, exception_bits, ..sound.clone() };
        let reread = |chain: &Chain| {
            let mut writer = Writer::new("chain");
            chain.write(&mut writer);
            Chain::read(&mut Reader::open(&writer.finish())?).map(|_| ())
        };
        for (rate, bits) in [(f64::MIN_POSITIVE, 0.0), (MOST_RATE, LEAST_BITS), (0.01, MOST_BITS)] {
            with(rate, bits).check().expect("it is sound");
            reread(&with(rate, bits)).expect("it is sound");
        }
        let rates = [0.0, -0.01, 2.0 * MOST_RATE, f64::NAN].map(|rate| with(rate, 0.5));
        let bits = [-0.5, LEAST_BITS / 2.0, 2.0 * MOST_BITS, f64::NAN].map(|bits| with(0.01, bits));
        let mut with_an_empty_one = sound.clone();
        with_an_empty_one.older.push(sound.newest.clone());
        for (index, chain) in rates.iter().chain(&bits).chain([&with_an_empty_one]).enumerate() {
            assert!(chain.check().is_err(), "{index}");
            assert!(matches!(reread(chain), Err(Error::Format { .. })), "{index}");
        }
    }

    /// Both chains keep their own rate, so the sum is all that the joined one can promise. The
    /// larger of both newest filters stays the newest; a filter without keys is left out.
    #[test]
    fn a_joined_chain_has_the_rates_of_both_and_the_larger_filter_in_front() {
        let digest = |number: u64| Digest::new([1, 2]).rehashed(number + 1);
        let of = |capacity, rate| {
            Chain::new(&Sizes { capacity, ..empty_sizes(Kind::Line, rate) }).expect("a filter")
        };
        for (ours, theirs, sum) in [(0.25, 0.5, 0.75), (0.01, 0.02, 0.03), (0.9, 0.9, 1.8)] {
            for (small, large) in [(100, 200), (200, 100), (100, 100)] {
                let (mut one, mut other) = (of(small, ours), of(large, theirs));
                one.insert(digest(0));
                other.insert(digest(1));
                one.absorb(other);
                assert!((one.rate - sum).abs() < 1e-12, "{ours} and {theirs}: {}", one.rate);
                let capacities: Vec<usize> = one.layers().map(Layer::capacity).collect();
                assert_eq!(capacities, [small.max(large), small.min(large)]);
                assert_eq!(one.newest.filter.contains(digest(0)), small >= large, "ours stays");
                one.check().expect("all in order");
            }
        }
        let mut most = Chain { rate: MOST_RATE, ..of(100, 0.5) };
        most.absorb(of(100, 0.5));
        assert_eq!((most.rate.to_bits(), most.older.len()), (MOST_RATE.to_bits(), 0));
    }

    #[test]
    fn a_larger_filter_begins_when_the_last_is_full() {
        let mut chain = empty(Kind::Plain, 0.01);
        let digest = |number: u64| Digest::new([1, 2]).rehashed(number + 1);
        for number in 0..1000 {
            chain.insert(digest(number));
        }
        let capacities: Vec<usize> = chain.layers().map(Layer::capacity).collect();
        assert!(capacities.is_sorted_by(|newer, older| *newer == 2 * older), "{capacities:?}");
        assert!(capacities.len() > 5 && (0..1000).all(|number| chain.contains(digest(number))));
        assert!(chain.older.iter().all(|layer| layer.len() == layer.capacity()));
        chain.check().expect("all in order");
        chain.clear();
        assert_eq!(chain.layers().map(Layer::capacity).collect::<Vec<_>>(), capacities[..1]);
        assert!(!(0..1000).any(|number| chain.contains(digest(number))));
    }
}
