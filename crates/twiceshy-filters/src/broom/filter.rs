//! The broom filter: fingerprints that grow, and are renewed before they grow
//! too long.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh: "Bloom Filters,
//! Adaptivity, and the Dictionary Problem", sections 4 and 5.
//!
//! ```text
//! fingerprint of a key = quotient . remainder . adaptivity bits     a prefix of its hash
//!
//! digests   0 ──────────── frontier ──────────────────────── 2^64
//! function      b (new)        │         a (old)
//!                              └─▶ adaptations and ghosts move it by a few quotients
//! ```
//!
//! **Invariant 7.** No fingerprint is a prefix of another. So a query matches at most one, and
//! among the stored keys a fingerprint is a prefix of its own key's hash only: the keys of a
//! quotient, read from the remote, show whose it is.
//!
//! **Phases** (4.2). A false positive, and an insertion that collides, lengthens
//! one fingerprint and rehashes the keys of the next few ranges of digests, whose
//! fingerprints are short again; so does a removal that leaves a ghost. When the frontier has passed all, the new
//! function is the old one and another is drawn.
//!
//! **Ghosts** (4.3). A removed key leaves its quotient and adaptivity bits until its hash
//! function is gone, and an inserted key that matches them takes as many bits. A key that goes to
//! the yard because its longer fingerprint has no room leaves them at once. So an adversary learns
//! nothing from removing and inserting keys.
//!
//! **Levels** (5). Keys live in groups of 64 quotients and 64 slots; what finds no room in its
//! group goes to the yard, whole. The paper has a secondary filter for that where remainders are
//! short (5.3) and a back yard of whole hashes where they are long (5.4); the yard serves both:
//! it adds nothing to the rate, and its keys are known without the remote. Where remainders are
//! longer than `2 log2 log2 n` their first bits are kept apart as signatures, and two keys of
//! one quotient and signature do not share a group.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use crate::batch::in_batches;
use crate::digest::Digest;
use crate::digest_trie::DigestTrie;
use crate::error::{Error, Result};
use crate::filter::{Adapted, DigestFilter, Stats, sealed::Sealed};
use crate::make;
use crate::params::{WhenFull, growth, too_small};
use crate::quotient::place::{Place, digests_of};
use crate::remote::strangers;
use crate::rng::Rng;

use super::form::{self, Changes, Form};
use super::group::SLOTS as GROUP;
use super::level::Level;
use super::params::Params;

mod check;
mod extend;
mod filled;
mod ghosts;
mod saved;
mod sweep;

use ghosts::Outside;
use sweep::Meanwhile;

/// The broom filter.
///
/// Its remote must not have keys that the filter does not have: if the hash of such a key
/// matches another key's fingerprint, a rehash would take it for the owner. A filter that is
/// older than its remote has to be [rebuilt](DigestFilter::rebuild).
///
/// ```
/// use twiceshy_filters::broom::Broom;
/// use twiceshy_filters::{Adapted, DigestFilter, KeyHasher};
/// use twiceshy_filters::remote::MemorySet;
/// let mut filter = Broom::new(&"broom:f=8".parse()?, 1000)?;
/// let (mut remote, hasher) = (MemorySet::new(), KeyHasher::random());
/// filter.insert(hasher.digest("stored"), &mut remote)?;
/// let missing = hasher.digest("missing");
/// if filter.contains(missing) {
///     filter.adapt(missing, &mut remote)?;
/// }
/// # Ok::<(), twiceshy_filters::Error>(())
/// ```
#[derive(Clone)]
pub struct BroomFilter<F> {
    level: Level,
    /// Keys that found no room in their group.
    yard: DigestTrie,
    /// Ghosts that found no room in theirs.
    outside: Outside,
    /// Seeds of the old and the new hash function.
    functions: [u64; 2],
    phase: u64,
    /// Digests of ranges below this one have the new function.
    frontier: usize,
    rng: Rng,
    params: Params,
    counts: Stats,
    form: core::marker::PhantomData<F>,
}

/// A digest under one of the two functions.
#[derive(Clone, Copy)]
struct Hash {
    digest: Digest,
    quotient: usize,
    remainder: u64,
    /// What follows the remainder.
    bits: u64,
    new: bool,
}

impl<F: Form> BroomFilter<F> {
    /// An empty filter for `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] for the other form, or a capacity that is zero or too large.
    pub fn new(params: &Params, capacity: usize) -> Result<Self> {
        form::expect::<F>(params)?;
        make::new(params, capacity)
    }

    /// The filter that [`DigestFilter::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are not such a filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        make::load(bytes)
    }

    /// Adaptivity bits of each group of 64 quotients, ghosts included: for
    /// statistics.
    pub fn adaptivity_bits(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.level.groups()).map(|group| self.level.used_bits(group))
    }

    /// The number of keys rehashed so far.
    #[must_use]
    pub fn rehashed(&self) -> u64 {
        self.counts.kicks
    }

    /// The number of times that every key was rehashed.
    #[must_use]
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// The most cache lines of groups that a query reads, in addition to the yard if the group
    /// has keys there.
    #[doc(hidden)]
    #[must_use]
    pub fn cache_lines(&self, digest: Digest) -> u32 {
        self.level.lines(self.hash(digest).quotient)
    }

    /// Whether the digest's range is already swept.
    #[inline(always)]
    fn is_new(&self, digest: Digest) -> bool {
        Place::new(digest, self.level.quotients()).quotient < self.frontier
    }

    #[inline(always)]
    fn hash(&self, digest: Digest) -> Hash {
        self.hash_with(digest, self.is_new(digest))
    }

    #[inline(always)]
    fn hash_with(&self, digest: Digest, new: bool) -> Hash {
        let hashed = digest.rehashed(self.functions[usize::from(new)]);
        let (first, second) = (hashed.word(1), hashed.word(2));
        Hash {
            digest,
            quotient: F::quotient(digest, hashed, self.level.quotients()),
            remainder: first >> (64 - self.params.slots.f),
            bits: first << self.params.slots.f | second >> (64 - self.params.slots.f),
            new,
        }
    }

    /// The slots that match a hash: one at most.
    #[inline(always)]
    fn matches(&self, hash: &Hash) -> u64 {
        self.level.matches(hash.quotient, hash.remainder, hash.bits)
    }

    fn matching_slot(&self, hash: &Hash) -> Option<u32> {
        let matches = self.matches(hash);
        (matches != 0).then(|| matches.trailing_zeros())
    }

    #[inline(always)]
    fn holds(&self, hash: &Hash) -> bool {
        self.matches(hash) != 0 || self.in_yard(hash)
    }

    #[inline(always)]
    fn in_yard(&self, hash: &Hash) -> bool {
        self.level.overflowed(hash.quotient / GROUP) && self.yard_has(hash.digest)
    }

    #[inline(never)]
    fn yard_has(&self, digest: Digest) -> bool {
        self.yard.range(digest..=digest).next().is_some()
    }

    /// The owner of a slot, among digests that include all of its quotient.
    fn owner(&self, quotient: usize, slot: u32, candidates: &[Digest]) -> Option<Hash> {
        let mut hashes = candidates.iter().map(|&digest| self.hash(digest));
        hashes.find(|hash| self.owns(hash, quotient, slot))
    }

    fn owns(&self, hash: &Hash, quotient: usize, slot: u32) -> bool {
        hash.quotient == quotient
            && self.matches(hash) >> slot & 1 == 1
            && !self.yard_has(hash.digest)
    }

    fn candidates(&self, quotient: usize, remote: &mut F::Remote) -> Result<Vec<Digest>> {
        let range = digests_of(quotient..=quotient, self.level.quotients());
        F::candidates(remote, self.functions, range)
    }

    /// Takes out a key, of a slot or of the yard.
    fn forget(&mut self, hash: &Hash, slot: Option<u32>) {
        if let Some(slot) = slot {
            let _ = self.level.remove(hash.quotient, slot);
        } else {
            self.yard.remove(hash.digest);
        }
    }

    fn put_into_yard(&mut self, hash: &Hash) {
        self.level.set_overflowed(hash.quotient / GROUP, true);
        self.yard.insert(hash.digest);
    }

    /// What an insertion changes in the remote. A newcomer may be rehashed at once.
    fn addition(&self, hash: &Hash, mut moved: Vec<(Digest, [u64; 2])>) -> Changes {
        let before = moved.len();
        moved.retain(|&(digest, _)| digest != hash.digest);
        let new = hash.new || moved.len() < before;
        let function = self.functions[usize::from(new)];
        Changes { added: Some((hash.digest, function)), removed: None, moved }
    }

    /// The seed of another hash function.
    fn draw(&mut self) -> u64 {
        // 0 is the digest itself, and stays with the first function.
        self.rng.next().max(1)
    }

    fn len(&self) -> usize {
        self.level.len() + self.yard.len()
    }
}

impl<F: Form> Sealed for BroomFilter<F> {}

impl<F: Form> DigestFilter for BroomFilter<F> {
    type Remote = F::Remote;

    #[inline]
    fn contains(&self, digest: Digest) -> bool {
        self.holds(&self.hash(digest))
    }

    fn contains_many(&self, digests: &[Digest], found: &mut [bool]) {
        in_batches(
            digests,
            found,
            |digest| self.hash(digest),
            |hash| self.level.prefetch(hash.quotient),
            |hash| self.holds(hash),
        );
    }

    fn insert(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        let hash = self.hash(digest);
        if self.in_yard(&hash) {
            return Ok(false);
        }
        let mut collision = None;
        if let Some(slot) = self.matching_slot(&hash) {
            let candidates = self.candidates(hash.quotient, remote)?;
            if candidates.contains(&digest) {
                return Ok(false);
            }
            collision = Some((slot, self.owner(hash.quotient, slot, &candidates)));
        }
        let (len, capacity, quotients) = (self.len(), self.counts.capacity, self.level.quotients());
        if len >= self.params.slots.full.most_keys(capacity, quotients) {
            if self.params.slots.full != WhenFull::Grow {
                return Err(Error::Full { digest, len, capacity });
            }
            let size = growth(self.params, capacity.max(len), quotients).next();
            let (larger, bins) = size.expect("there is a next size")?;
            let mut digests = form::all::<F>(remote)?;
            if digests.len() != len {
                return Err(Error::Remote(strangers(len, digests.len())));
            }
            digests.push(digest);
            let fresh = self.filled(larger, bins, &digests);
            F::replace(remote, fresh.functions[0], &digests, Some(digest))?;
            *self = fresh;
            return Ok(true);
        }
        let Some((slot, owner)) = collision else {
            F::write(remote, &self.addition(&hash, Vec::new()))?;
            self.place(&hash);
            return Ok(true);
        };
        let ranges = self.ranges_for_extension(hash.quotient, slot, owner, &hash);
        let sweep = self.plan_sweep(ranges, Meanwhile::Comes(digest), remote)?;
        F::write(remote, &self.addition(&hash, self.swept(&sweep)))?;
        self.rng.stir(digest);
        self.extend(hash.quotient, slot, owner, &hash);
        self.place(&hash);
        self.sweep(sweep);
        Ok(true)
    }

    fn remove(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<bool> {
        let hash = self.hash(digest);
        if !self.holds(&hash) || F::stored(remote, digest..=digest)?.is_empty() {
            return Ok(false);
        }
        let function = self.functions[usize::from(hash.new)];
        let removed = Some((digest, function));
        let slot = self.matching_slot(&hash).filter(|_| !self.yard_has(digest));
        let string = slot.map(|slot| self.level.string(hash.quotient, slot));
        let ghost = string.and_then(|string| self.new_ghost(&hash, string));
        let Some(ghost) = ghost else {
            F::write(remote, &Changes { removed, ..Changes::default() })?;
            self.forget(&hash, slot);
            return Ok(true);
        };
        let sweep = self.plan_sweep(self.ranges_for(ghost), Meanwhile::Goes(digest), remote)?;
        F::write(remote, &Changes { removed, moved: self.swept(&sweep), added: None })?;
        self.rng.stir(digest);
        self.forget(&hash, slot);
        self.leave(ghost);
        self.sweep(sweep);
        Ok(true)
    }

    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted> {
        let hash = self.hash(digest);
        if self.in_yard(&hash) {
            if !F::stored(remote, digest..=digest)?.is_empty() {
                return Ok(Adapted::Stored);
            }
            // The remote does not have it: it is removed here as well.
            self.yard.remove(digest);
            if self.matching_slot(&hash).is_none() {
                self.counts.adaptations += 1;
                return Ok(Adapted::Fixed);
            }
        }
        let Some(slot) = self.matching_slot(&hash) else { return Ok(Adapted::Absent) };
        let candidates = self.candidates(hash.quotient, remote)?;
        if candidates.contains(&digest) {
            return Ok(Adapted::Stored);
        }
        let owner = self.owner(hash.quotient, slot, &candidates);
        let ranges = self.ranges_for_extension(hash.quotient, slot, owner, &hash);
        let sweep = self.plan_sweep(ranges, Meanwhile::Nothing, remote)?;
        F::write(remote, &Changes { moved: self.swept(&sweep), ..Changes::default() })?;
        self.rng.stir(digest);
        self.extend(hash.quotient, slot, owner, &hash);
        self.sweep(sweep);
        self.counts.adaptations += 1;
        // The sweep may have given the query itself another hash.
        Ok(if self.contains(digest) { Adapted::Unfixed } else { Adapted::Fixed })
    }

    /// The digests that share the digest's own quotient. (What the sweep of an
    /// adaptation rehashes is elsewhere.)
    fn range(&self, digest: Digest) -> RangeInclusive<Digest> {
        let quotients = self.level.quotients();
        let quotient = Place::new(digest, quotients).quotient;
        digests_of(quotient..=quotient, quotients)
    }

    fn grow(&mut self, capacity: usize, remote: &mut Self::Remote) -> Result<()> {
        *self = self.larger(capacity, remote)?;
        Ok(())
    }

    fn rebuild(&mut self, remote: &mut Self::Remote) -> Result<()> {
        let digests = form::all::<F>(remote)?;
        let (capacity, bins) = (self.counts.capacity, self.level.quotients());
        if digests.len() > bins {
            return Err(too_small(&self.params, digests.len(), capacity));
        }
        let fresh = self.filled(capacity, bins, &digests);
        F::replace(remote, fresh.functions[0], &digests, None)?;
        *self = fresh;
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats {
            len: self.len(),
            cells: self.level.slots(),
            stashed: self.yard.len(),
            bits: self.level.bits() + self.yard.bits() + self.outside.bits(),
            ..self.counts
        }
    }

    fn description(&self) -> String {
        self.params.to_string()
    }

    fn save(&self) -> Vec<u8> {
        self.to_bytes()
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        self.verify(remote)
    }
}
