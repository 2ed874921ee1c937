//! The rank-and-select quotient filter, which does not adapt.
//!
//! Pandey, Bender, Johnson, Patro: "A General-Purpose Counting Filter"; Lee,
//! McCauley, Singh, Stein: "Telescoping Filter", sections 2.1 and 5.
//!
//! A digest's first word, taken as a fraction of 2^64 and multiplied by the
//! number of slots, is cut at the binary point:
//!
//! ```text
//! word 0 * slots  =  | quotient (which slot) . remainder (r bits) | rest |
//!                      high 64 bits of the product   low 64 bits
//! ```
//!
//! So the number of slots is arbitrary, and digests are in the order of their quotients and,
//! within a run, of their remainders: the j-th slot of a run is the j-th digest of the
//! quotient's range, with or without a remote. Doubling the slots moves the first bit of each
//! remainder into the quotient, so the filter doubles without its remote
//! ([`Rsqf::doubled`]).
//!
//! Two keys with one fingerprint keep two slots, so removing one never denies the other.

use crate::bits::word::tuned;
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter, Stats, sealed::Sealed};
use crate::format::Reader;
use crate::make::{self, Build, Grow};
use crate::params::{Params as _, WhenFull, too_small};
use crate::remote::{Ordered, stored};
use crate::steps;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::append::runs_of;
use super::common;
use super::runs::Runs;

mod params;
mod queries;
mod whole;

pub use params::Params;
use queries::{Queries, Query};

/// Bytes of a block's state: nothing adapts.
const NO_STATE: usize = 0;

/// The rank-and-select quotient filter ("rsqf"), with an [`Ordered`] remote.
///
/// ```
/// use twiceshy_filters::quotient::Rsqf;
/// use twiceshy_filters::{DigestFilter, KeyHasher};
/// use twiceshy_filters::remote::MemorySet;
/// let mut filter = Rsqf::new(&"rsqf:f=8".parse()?, 1000)?;
/// let (mut remote, hasher) = (MemorySet::new(), KeyHasher::random());
/// filter.insert(hasher.digest("stored"), &mut remote)?;
/// assert!(filter.contains(hasher.digest("stored")));
/// // Twice the room, without a look at the remote.
/// let larger = filter.doubled().expect("a bit to spare");
/// assert!(larger.contains(hasher.digest("stored")));
/// # Ok::<(), twiceshy_filters::Error>(())
/// ```
#[derive(Clone)]
pub struct Rsqf {
    runs: Runs,
    params: Params,
    counts: Stats,
}

/// Where a digest belongs. Fingerprints are in the order of their digests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Fingerprint {
    quotient: usize,
    remainder: u64,
}

impl Rsqf {
    /// An empty filter for `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] for a capacity that is zero or too large.
    pub fn new(params: &Params, capacity: usize) -> Result<Self> {
        make::new(params, capacity)
    }

    /// The filter that [`DigestFilter::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are no such filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        make::load(bytes)
    }

    #[inline(always)]
    fn fingerprint(&self, digest: Digest) -> Fingerprint {
        self.cut(digest.word(0))
    }

    #[inline(always)]
    fn cut(&self, word: u64) -> Fingerprint {
        let product = u128::from(word) * self.runs.quotients() as u128;
        Fingerprint {
            quotient: (product >> 64) as usize,
            remainder: product as u64 >> (64 - self.runs.width()),
        }
    }

    /// Adds a digest's fingerprint without asking the remote: a digest added twice has to be
    /// deleted twice. `false`, and nothing changes, when every slot is taken.
    pub fn add(&mut self, digest: Digest) -> bool {
        let fingerprint = self.fingerprint(digest);
        self.put(fingerprint)
    }

    fn put(&mut self, fingerprint: Fingerprint) -> bool {
        if self.runs.len() == self.runs.quotients() {
            return false;
        }
        let Fingerprint { quotient, remainder } = fingerprint;
        let shift = self.runs.insert_in_order(quotient, remainder);
        self.counts.kicks += (shift.to - shift.from) as u64;
        true
    }

    /// Removes one fingerprint like the digest's without asking the remote.
    /// The digest must have been added: deleting another may deny a stored key.
    /// `false` when there is no such fingerprint.
    pub fn delete(&mut self, digest: Digest) -> bool {
        let Fingerprint { quotient, remainder } = self.fingerprint(digest);
        let Some(shift) = self.runs.remove_one(quotient, remainder) else { return false };
        self.counts.kicks += (shift.to - shift.from) as u64;
        true
    }

    /// Every stored quotient and remainder, in digest order.
    pub fn fingerprints(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.runs.iter().flat_map(move |(quotient, run)| {
            run.map(move |slot| (quotient, self.runs.remainder(slot)))
        })
    }

    /// A filter of all digests of the remote and `newcomer`, with this many slots;
    /// `None` if there are more digests than slots.
    fn renewed(
        &self,
        capacity: usize,
        slots: usize,
        newcomer: Option<Digest>,
        remote: &mut dyn Ordered,
    ) -> Result<Option<Self>> {
        let Some(runs) = runs_of(remote, slots, self.params.slots.f, NO_STATE)? else {
            return Ok(None);
        };
        let counts = Stats { capacity, ..Stats::default() };
        let mut fresh = Rsqf { runs, params: self.params, counts };
        if newcomer.is_some_and(|digest| !fresh.add(digest)) {
            return Ok(None);
        }
        fresh.counts.rebuilds = self.counts.rebuilds + 1;
        fresh.counts.kicks += self.counts.kicks;
        Ok(Some(fresh))
    }
}

impl Build for Rsqf {
    type Params = Params;

    /// A filter's bins are its slots.
    fn empty(params: Params, capacity: usize, bins: usize) -> Self {
        let counts = Stats { capacity, ..Stats::default() };
        Rsqf { runs: Runs::new(bins, params.slots.f, NO_STATE), params, counts }
    }

    fn read(params: Params, reader: Reader<'_>) -> Result<Self> {
        let (runs, counts) = common::read(&params, reader, |_, _| Ok(()))?;
        let filter = Rsqf { runs, params, counts };
        if !filter.fingerprints().is_sorted() {
            return Err(Error::format("its remainders are out of order"));
        }
        Ok(filter)
    }

    fn params(&self) -> Params {
        self.params
    }
}

impl Grow for Rsqf {
    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self> {
        let slots = self.params.bins_for(capacity)?;
        let renewed = self.renewed(capacity, slots, None, remote)?;
        steps::fitting(self, renewed, capacity)
    }
}

impl Sealed for Rsqf {}

impl DigestFilter for Rsqf {
    type Remote = dyn Ordered;

    #[inline]
    fn contains(&self, digest: Digest) -> bool {
        tuned(Query { filter: self, word: digest.word(0) })
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        tuned(Queries { filter: self, digests, found });
    }

    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        if self.contains(digest) && stored(digest, remote)? {
            return Ok(false);
        }
        let (len, capacity, slots) = (self.runs.len(), self.counts.capacity, self.runs.quotients());
        if len < self.params.slots.full.most_keys(capacity, slots) && self.add(digest) {
            if let Err(error) = remote.insert(digest) {
                self.delete(digest);
                return Err(Error::Remote(error));
            }
            return Ok(true);
        }
        let renewed = match self.params.slots.full {
            // Digests are in the remote's order: there are no other hash functions that a
            // rebuild could try.
            WhenFull::Error | WhenFull::Rebuild => None,
            WhenFull::Grow => {
                let (larger, more_slots) = common::next_size(&self.params, &self.runs, capacity)?;
                self.renewed(larger, more_slots, Some(digest), remote)?
            }
        };
        let Some(renewed) = renewed else { return Err(Error::Full { digest, len, capacity }) };
        steps::insert_renewed(self, renewed, digest, remote)
    }

    fn remove(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        steps::remove(self, digest, remote, Self::delete)
    }

    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted> {
        steps::adapt(self, digest, remote)
    }

    fn grow(&mut self, capacity: usize, remote: &mut Self::Remote) -> Result<()> {
        *self = self.grown(capacity, remote)?;
        Ok(())
    }

    fn rebuild(&mut self, remote: &mut Self::Remote) -> Result<()> {
        let capacity = self.counts.capacity;
        let renewed = self.renewed(capacity, self.runs.quotients(), None, remote)?;
        *self = renewed.ok_or_else(|| too_small(&self.params, self.runs.len(), capacity))?;
        Ok(())
    }

    fn stats(&self) -> Stats {
        common::stats(&self.runs, self.counts)
    }

    fn description(&self) -> String {
        self.params.to_string()
    }

    fn save(&self) -> Vec<u8> {
        common::save(&self.params, &self.runs, &self.counts, &[])
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        self.runs.check()?;
        common::check_owners(self.fingerprints(), remote, |digest, (quotient, remainder)| {
            self.fingerprint(digest) == Fingerprint { quotient, remainder }
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;
    use crate::bits::word::{Portable, Work as _};
    use crate::rng::Rng;

    #[test]
    fn batches_of_both_twins_answer_as_single_queries_do() {
        let mut rng = Rng::new(1);
        let mut digest = || Digest::new([rng.next(), rng.next()]);
        let (keys, capacity) = if cfg!(miri) { (90, 100) } else { (1900, 2000) };
        for f in [1, 5, 8, 12, 32] {
            let spec = format!("rsqf:f={f}").parse().expect("a filter");
            let mut filter = Rsqf::new(&spec, capacity).expect("a capacity");
            // Stored ones among absent ones, which may share a fingerprint.
            let mut asked: Vec<Digest> = (0..keys).map(|_| digest()).collect();
            assert!(asked.iter().all(|&key| filter.add(key)), "there is room");
            asked.extend((0..keys).map(|_| digest()));
            asked.sort_unstable_by_key(|digest| digest.word(1));
            let expected: Vec<bool> = asked.iter().map(|&query| filter.contains(query)).collect();
            assert!(expected.iter().filter(|&&found| found).count() >= keys);
            for size in [1, 63, 64, 65, 129, asked.len()] {
                for (digests, expected) in asked.chunks(size).zip(expected.chunks(size)) {
                    let mut found: Vec<bool> = expected.iter().map(|found| !found).collect();
                    filter.contains_many(digests, &mut found);
                    assert_eq!(found, expected, "f={f}, {size} at a time");
                    found.iter_mut().for_each(|found| *found = !*found);
                    Queries { filter: &filter, digests, found: &mut found }.run(Portable);
                    assert_eq!(found, expected, "the safe twin: f={f}, {size} at a time");
                }
            }
            filter.contains_many(&[], &mut []);
        }
    }
}
