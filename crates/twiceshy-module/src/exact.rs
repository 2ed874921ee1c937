//! A filter that has the digests of its keys beside it, in memory: `REMOTE memory`.
//!
//! About 20 bytes per key instead of 1.6. For that, deletion is exact, `AF.ADAPT` tells a stored
//! key from a false positive, and adapting changes fingerprints instead of filling a table.

use twiceshy::filters::line::{LineFilter, Params};
use twiceshy::filters::remote::{MemorySet, Ordered as _};
use twiceshy::{Adapted, Digest, KeyHasher};
use twiceshy_filters::internals::{
    FILTER_AND_REMOTE, Reader, Writer, parts_with_secret, with_secret,
};
use twiceshy_filters::{DigestFilter as _, Error, Params as _, Result};

/// The rates of full filters, by the bits of a fingerprint.
const RATES: [(u32, f64); 5] =
    [(9, 0.0020), (10, 0.000_91), (11, 0.000_41), (12, 0.000_19), (16, 0.000_009_6)];

/// The bytes by which an addition lets the digests grow at most, but for the next: itself and the
/// eight before it may each be the first of 8 digests for which a leaf takes memory.
const PER_ADDITION: usize = 9 * 8 * size_of::<Digest>();

/// Now and then one takes more at once, where a branch doubles: up to this share of all bytes, and
/// up to room for 8 digests in each of the 2,048 leaves of the largest branch, and their places.
const DOUBLING_SHARE: usize = 8;
const DOUBLING_MOST: usize = 2048 * (8 * size_of::<Digest>() + 32);

#[derive(Clone)]
pub struct Exact {
    hasher: KeyHasher,
    filter: LineFilter,
    digests: MemorySet,
}

impl Exact {
    /// An empty filter for so many keys, with the shortest fingerprints that keep a rate.
    ///
    /// # Errors
    /// [`Error::Spec`] for a rate or a capacity that it cannot have.
    pub fn new(hasher: KeyHasher, rate: f64, capacity: usize, may_grow: bool) -> Result<Self> {
        let Some((bits, _)) = RATES.into_iter().find(|(_, least)| *least <= rate) else {
            let reason = "REMOTE memory has rates down to 0.00001; it adapts, so 0.002 is plenty";
            return Err(Error::spec(format!("rate={rate}"), reason));
        };
        let when_full = if may_grow { "grow" } else { "error" };
        let params: Params = format!("line:f={bits},full={when_full}").parse()?;
        let filter = LineFilter::new(&params, capacity)?;
        Ok(Exact { hasher, filter, digests: MemorySet::new() })
    }

    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    pub fn contains(&self, digest: Digest) -> bool {
        self.filter.contains(digest)
    }

    pub fn contains_many(&self, digests: &[Digest]) -> Vec<bool> {
        let mut found = vec![false; digests.len()];
        self.filter.contains_many(digests, &mut found);
        found
    }

    /// Adds a digest; `false` when it is stored already.
    ///
    /// # Errors
    /// [`Error::Full`] if that would take more than `most_bytes`, or if the filter has as many
    /// keys as it was made for and may not grow.
    pub fn insert(&mut self, digest: Digest, may_grow: bool, most_bytes: usize) -> Result<bool> {
        let (len, capacity) = (self.len(), self.capacity());
        let is_full = len >= capacity;
        // A filter that grows has two tables for a while, the second of twice the size.
        let growth = if is_full { 2 * self.filter.stats().bits / 8 } else { 0 };
        let has_room = (may_grow || !is_full) && self.has_room(growth + PER_ADDITION, most_bytes);
        if !has_room && !self.is_stored(digest)? {
            return Err(Error::Full { digest, len, capacity });
        }
        self.filter.insert(digest, &mut self.digests)
    }

    /// Whether it may take so many bytes more.
    fn has_room(&self, more: usize, most_bytes: usize) -> bool {
        let doubling = (self.digests.bits() / 8 / DOUBLING_SHARE).min(DOUBLING_MOST);
        self.bytes() + doubling + more <= most_bytes
    }

    fn is_stored(&mut self, digest: Digest) -> Result<bool> {
        let mut is_stored = false;
        let visited = self.digests.visit(digest..=digest, &mut |_| is_stored = true);
        visited.map(|()| is_stored).map_err(Error::Remote)
    }

    /// Removes a digest; `false` when it is not stored.
    ///
    /// # Errors
    /// None: the digests are in memory.
    pub fn remove(&mut self, digest: Digest) -> Result<bool> {
        self.filter.remove(digest, &mut self.digests)
    }

    /// Changes the filter so that it answers "absent", if the digest is not stored.
    ///
    /// # Errors
    /// None: the digests are in memory.
    pub fn adapt(&mut self, digest: Digest) -> Result<Adapted> {
        self.filter.adapt(digest, &mut self.digests)
    }

    /// Adds all keys of another filter with the same hasher.
    ///
    /// # Errors
    /// Those of [`Exact::insert`]; the keys before it are added.
    pub fn absorb(&mut self, other: &Exact, most_bytes: usize) -> Result<()> {
        let mut digests = other.digests.iter();
        digests.try_for_each(|digest| self.insert(digest, true, most_bytes).map(drop))
    }

    pub fn len(&self) -> usize {
        self.filter.stats().len
    }

    pub fn capacity(&self) -> usize {
        self.filter.stats().capacity
    }

    /// All memory, the digests included.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + (self.filter.stats().bits + self.digests.bits()) / 8
    }

    /// The expected share of absent keys that are answered "maybe" the first time.
    pub fn rate(&self) -> f64 {
        let stats = self.filter.stats();
        let params: Params = self.filter.description().parse().expect("its own description");
        params.first_pass_rate(stats.len as f64 / stats.cells.max(1) as f64)
    }

    /// The bytes of its file, which the command line reads too.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new(FILTER_AND_REMOTE);
        writer.block(&self.filter.save());
        writer.block(&self.digests.save());
        with_secret(&self.hasher, &writer.finish())
    }

    /// What [`Exact::to_bytes`] gave.
    ///
    /// # Errors
    /// [`Error::Format`] for other bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let (hasher, filter) = parts_with_secret(bytes)?;
        let mut reader = Reader::open(filter)?;
        reader.expect_kind(FILTER_AND_REMOTE)?;
        let filter = LineFilter::load(reader.block("the filter")?)?;
        let digests = MemorySet::load(reader.block("the digests")?)?;
        reader.finish()?;
        let mut exact = Exact { hasher, filter, digests };
        exact.check().map_err(Error::format)?;
        Ok(exact)
    }

    /// Every invariant: each stored digest is answered "maybe" among them.
    ///
    /// # Errors
    /// The one that does not hold.
    pub fn check(&mut self) -> Result<(), String> {
        self.filter.check(&mut self.digests)
    }
}

#[cfg(test)]
mod tests {
    use twiceshy_filters::format::seal;

    use super::*;

    /// Adds keys from this number on until there is no room; returns the number of the first that
    /// found none.
    fn fill(exact: &mut Exact, from: u64, most_bytes: usize) -> u64 {
        let refused = |number: &u64| {
            let digest = exact.hasher.digest(number.to_le_bytes());
            exact.insert(digest, true, most_bytes).is_err()
        };
        (from..).find(refused).expect("it is full at last")
    }

    #[test]
    fn a_limit_is_used_and_kept() {
        const MOST: usize = 4 << 20;
        let mut exact = Exact::new(KeyHasher::random(), 0.004, 100, true).expect("a filter");
        let first = fill(&mut exact, 0, MOST);
        // The next growth would need twice the filter, and a branch may double.
        assert!((MOST * 2 / 3..=MOST).contains(&exact.bytes()), "{}", exact.bytes());
        let digest = |number: u64, exact: &Exact| exact.hasher.digest(number.to_le_bytes());
        // What is stored may be added again, and what is not may not.
        let again = digest(0, &exact);
        assert!(!exact.insert(again, true, MOST).expect("it is there"));
        assert_eq!(fill(&mut exact, first, MOST), first);
        // Removals make room.
        for number in 0..first / 4 {
            let digest = digest(number, &exact);
            assert!(exact.remove(digest).expect("digests are in memory"));
        }
        assert!(fill(&mut exact, first, MOST) > first + first / 8);
    }

    /// With correct checksums, as by an attacker who can send `RESTORE`: what is loaded denies none of
    /// its digests, so later operations do not meet a filter that is broken.
    #[test]
    fn filters_and_digests_that_do_not_belong_together_are_refused() {
        let made = |first: u64| {
            let mut exact = Exact::new(KeyHasher::fast(7), 0.01, 300, true).expect("a filter");
            for number in first..first + 300 {
                let digest = exact.hasher.digest(number.to_le_bytes());
                exact.insert(digest, true, usize::MAX).expect("there is room");
            }
            exact
        };
        let (one, other) = (made(0), made(1000));
        let load = |filter: &[u8], digests: &[u8]| {
            let mut writer = Writer::new(FILTER_AND_REMOTE);
            writer.block(filter);
            writer.block(digests);
            Exact::from_bytes(&with_secret(&one.hasher, &writer.finish()))
        };
        let (filter, digests) = (one.filter.save(), one.digests.save());
        assert!(load(&filter, &digests).is_ok());
        assert!(load(&filter, &other.digests.save()).is_err());
        assert!(load(&filter, &MemorySet::new().save()).is_err());
        // Every byte of the filter in turn.
        let mut loaded = 0;
        for at in 0..filter.len() {
            let mut changed = filter.clone();
            changed[at] ^= 1 << (at % 8);
            seal(&mut changed);
            let Ok(mut exact) = load(&changed, &digests) else { continue };
            loaded += 1;
            assert_eq!(exact.check(), Ok(()), "byte {at}");
            let all: Vec<Digest> = one.digests.iter().collect();
            assert!(exact.contains_many(&all).into_iter().all(|maybe| maybe), "byte {at}");
            assert!(
                all.iter().all(|&digest| matches!(exact.remove(digest), Ok(true))),
                "byte {at}"
            );
            assert_eq!((exact.len(), exact.check()), (0, Ok(())), "byte {at}");
        }
        // Counts of events, and bits of the last lines' padding.
        assert!(loaded < filter.len() / 4, "{loaded} of {} changes were not noticed", filter.len());
    }
}
