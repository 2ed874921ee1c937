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
//!                              └─▶ each adaptation moves it by a few quotients
//! ```
//!
//! **Invariant 7.** No fingerprint is a prefix of another, so a query matches one
//! at most, and a fingerprint is a prefix of the hash of its own key alone: the
//! candidates that the remote has for a quotient tell by themselves whose it is.
//!
//! **Phases** (4.2). A false positive, and an insertion that collides, lengthens
//! one fingerprint and rehashes the keys of the next few ranges of digests, whose
//! fingerprints are short again. When the frontier has passed all, the new
//! function is the old one and another is drawn.
//!
//! **Ghosts** (4.3). A removed key leaves its quotient and adaptivity bits until
//! its function is gone, and who is inserted and matches them takes as many bits,
//! so that nobody learns anything from removing and inserting a key.
//!
//! **Levels** (5). Keys live in groups of 64 quotients and 64 slots; what finds no
//! room in its group goes to the yard, whole. The paper has a secondary filter for
//! that where remainders are short (5.3) and a back yard of whole hashes where
//! they are long (5.4); the yard serves both: it adds nothing to the rate, and
//! who is in it is known without asking the remote. Where remainders are longer
//! than `2 log2 log2 n` their first bits are kept apart as signatures, and two keys
//! of one quotient and signature do not share a group.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::any::{Build, Grow, spec_of};
use crate::batch::in_batches;
use crate::cuckoo::bounds::surplus;
use crate::digest::Digest;
use crate::digest_trie::DigestTrie;
use crate::error::{Error, Result};
use crate::filter::{Adapted, Filter, Stats};
use crate::format::{Reader, Writer};
use crate::quotient::place::{Place, digests_of};
use crate::remote::{Ordered, read_digest, strangers, write_digest};
use crate::rng::Rng;
use crate::spec::{Kind, Spec, WhenFull};

use super::form::{self, Changes, Form, Practical};
use super::level::{Level, Shape};
use super::strings::Text;

const GROUP: usize = 64;

/// Keys for each 1000 slots that a filter is made for: the paper's `1 / (1 + alpha)`.
///
/// The paper's alpha is above 3 for any real number of keys. A group of 64 slots
/// that gets a Poisson number of keys of mean 54.4 overflows with probability
/// 0.09, and 0.6 % of all keys go to the yard, at 20 bytes each: one bit a key
/// over all. At 0.8 or 0.9 the sum of groups and yard is larger.
pub(crate) const TARGET_PERMILLE: u32 = 850;

/// The most quotients with which a filter of `keys` keys stays within `room` bits.
/// A key leaves the yard only when it is swept, so four times as many may be there
/// as there is no room for at any time: with all quotients rehashed, 2.5 % instead
/// of 0.6 %. And three standard deviations more.
pub(crate) fn quotients_within(spec: &Spec, room: usize, keys: usize) -> Option<usize> {
    let group = Level::group_bits(shape(spec, keys));
    let fits = |groups: &usize| {
        let (mean, square) = surplus(keys as f64 / *groups as f64, GROUP as f64);
        let yard = 4.0 * *groups as f64 * mean + 3.0 * (*groups as f64 * square).sqrt();
        // 16 bytes and a quarter, and the root of the trie.
        groups * group + (20.0 * yard + 128.0) as usize * 8 <= room
    };
    let most = room / group;
    (1..=most).rev().take(most / 8 + 2).find(fits).map(|groups| groups * GROUP)
}

/// Signatures are the first `2 log2 log2 n` bits of remainders that have more.
fn shape(spec: &Spec, quotients: usize) -> Shape {
    let log = (quotients.max(4) as f64).log2();
    let signature = (2.0 * log.log2()).ceil() as u32;
    let head = spec.f.min(signature);
    Shape { head, tail: spec.f - head }
}

/// The broom filter.
///
/// Its remote must not have keys that the filter never got: one whose hash matches
/// another's fingerprint would be taken for its owner when it is rehashed. A filter
/// that is older than its remote has to be [rebuilt](Filter::rebuild).
///
/// ```
/// use twiceshy::broom::Broom;
/// use twiceshy::{Adapted, Filter, KeyHasher, MemorySet};
/// let mut filter = Broom::new(&"broom:f=8".parse()?, 1000)?;
/// let (mut remote, hasher) = (MemorySet::new(), KeyHasher::random());
/// filter.insert(hasher.digest("stored"), &mut remote)?;
/// let missing = hasher.digest("missing");
/// if filter.contains(missing) {
///     filter.adapt(missing, &mut remote)?;
/// }
/// # Ok::<(), twiceshy::Error>(())
/// ```
#[derive(Clone)]
pub struct BroomFilter<F> {
    level: Level,
    /// Keys that found no room in their group.
    yard: DigestTrie,
    /// Ghosts that found no room in theirs, by group.
    ghost_yard: BTreeMap<usize, Vec<Ghost>>,
    /// Seeds of the old and the new hash function.
    functions: [u64; 2],
    phase: u64,
    /// Digests of ranges below this one have the new function.
    frontier: usize,
    rng: Rng,
    spec: Spec,
    counts: Stats,
    form: std::marker::PhantomData<F>,
}

/// What a removed key left.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ghost {
    quotient: usize,
    tag: bool,
    string: Text,
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

/// The keys of the ranges that are swept next, and who may be in their way.
struct Sweep {
    until: usize,
    digests: Vec<Digest>,
    /// The stored digests of quotients into which they will collide.
    others: Vec<Digest>,
}

impl<F: Form> BroomFilter<F> {
    /// An empty filter for `capacity` keys.
    ///
    /// # Errors
    /// [`Error::Spec`] for another kind's description or an impossible capacity.
    pub fn new(spec: &Spec, capacity: usize) -> Result<Self> {
        spec.expect_kind(&[Kind::Broom])?;
        spec.validate()?;
        form::expect::<F>(spec)?;
        Ok(Self::empty(*spec, capacity, spec.bins_for(capacity)?))
    }

    /// The filter that [`Filter::save`] wrote.
    ///
    /// # Errors
    /// [`Error::Format`] for bytes that are no such filter.
    pub fn load(bytes: &[u8]) -> Result<Self> {
        let reader = Reader::open(bytes)?;
        let spec = spec_of(&reader)?;
        spec.expect_kind(&[Kind::Broom])?;
        form::expect::<F>(&spec)?;
        Self::read(spec, reader)
    }

    /// Adaptivity bits of each group of 64 quotients, ghosts included: for
    /// statistics.
    pub fn adaptivity_bits(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.level.groups()).map(|group| self.level.used_bits(group))
    }

    /// Removed keys whose adaptivity bits are remembered.
    #[must_use]
    pub fn ghosts(&self) -> usize {
        let in_groups =
            (0..self.level.groups()).map(|group| self.level.ghost_count(group) as usize);
        in_groups.sum::<usize>() + self.ghost_yard.values().map(Vec::len).sum::<usize>()
    }

    /// Keys that were rehashed so far.
    #[must_use]
    pub fn rehashed(&self) -> u64 {
        self.counts.kicks
    }

    /// How often every key was rehashed.
    #[must_use]
    pub fn phase(&self) -> u64 {
        self.phase
    }

    /// Cache lines of the groups that a query reads at most, beside a look into
    /// the yard where the group has keys there.
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
            remainder: first >> (64 - self.spec.f),
            bits: first << self.spec.f | second >> (64 - self.spec.f),
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

    /// Who owns a slot, of digests that include all of its quotient.
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
        F::candidates(remote, self.functions, quotient, self.level.quotients())
    }

    /// Lengthens the fingerprint in a slot until it is no prefix of `other`
    /// (section 4.1, EXTEND). A slot without an owner goes.
    fn extend(&mut self, quotient: usize, slot: u32, owner: Option<Hash>, other: &Hash) {
        let Some(owner) = owner else {
            let _ = self.level.remove(quotient, slot);
            return;
        };
        let common = (owner.bits ^ other.bits).leading_zeros();
        let longer = (common < 64).then(|| Text::prefix(owner.bits, common as u8 + 1));
        let room = longer.is_some_and(|text| self.level.set_string(quotient, slot, text).is_ok());
        if !room {
            let _ = self.level.remove(quotient, slot);
            self.put_into_yard(&owner);
        }
    }

    fn put_into_yard(&mut self, hash: &Hash) {
        self.level.set_overflowed(hash.quotient / GROUP, true);
        self.yard.insert(hash.digest);
    }

    /// Gives a digest that no fingerprint matches the shortest fingerprint that
    /// is no prefix of another and as long as the ghosts that it matches.
    fn place(&mut self, hash: &Hash) {
        let Hash { quotient, remainder, bits, .. } = *hash;
        let mut length = self.ghost_length(hash);
        let mut equal = self.level.equal(quotient, remainder);
        while equal != 0 {
            let string = self.level.string(quotient, equal.trailing_zeros());
            length = length.max(string.common(bits) + 1);
            equal &= equal - 1;
        }
        let signature_taken =
            self.has_signatures() && self.level.same_head(quotient, remainder) != 0;
        let placed = length <= 64
            && !signature_taken
            && self.level.insert(quotient, remainder, Text::prefix(bits, length)).is_ok();
        if !placed {
            self.put_into_yard(hash);
        }
    }

    fn has_signatures(&self) -> bool {
        shape(&self.spec, self.level.quotients()).tail != 0
    }

    /// The length of the longest ghost that the digest matches.
    fn ghost_length(&mut self, hash: &Hash) -> u8 {
        let group = hash.quotient / GROUP;
        self.drop_dead_ghosts(group);
        let tag = self.tag(hash.new);
        let elsewhere = self.ghost_yard.get(&group).into_iter().flatten();
        let elsewhere = elsewhere
            .filter(|ghost| ghost.quotient == hash.quotient)
            .map(|ghost| (ghost.tag, ghost.string));
        let all = self.level.ghosts(hash.quotient).chain(elsewhere);
        all.filter(|(ghost, string)| *ghost == tag && string.is_prefix_of(hash.bits))
            .map(|(_, string)| string.length)
            .max()
            .unwrap_or(0)
    }

    fn leave_ghost(&mut self, hash: &Hash, string: Text) {
        if string.length == 0 || !self.spec.ghosts {
            return;
        }
        let group = hash.quotient / GROUP;
        self.drop_dead_ghosts(group);
        let ghost = Ghost { quotient: hash.quotient, tag: self.tag(hash.new), string };
        // A key that is removed again and again leaves one.
        let known = |(tag, string)| tag == ghost.tag && string == ghost.string;
        let outside = self.ghost_yard.get(&group).is_some_and(|ghosts| ghosts.contains(&ghost));
        if outside || self.level.ghosts(hash.quotient).any(known) {
            return;
        }
        if !self.level.add_ghost(ghost.quotient, ghost.tag, ghost.string) {
            self.ghost_yard.entry(group).or_default().push(ghost);
        }
    }

    /// Ghosts of odd and even functions are told apart; the old function is that
    /// of the phase.
    fn tag(&self, new: bool) -> bool {
        (self.phase % 2 == 1) != new
    }

    /// Once in each phase, before a group has ghosts of the new function, those
    /// with its tag are of the function before the old one.
    fn drop_dead_ghosts(&mut self, group: usize) {
        let now = self.phase % 2 == 1;
        if self.level.stamp(group) == now {
            return;
        }
        self.level.set_stamp(group, now);
        let dead = self.tag(true);
        self.level.drop_ghosts(group, dead);
        if let Some(ghosts) = self.ghost_yard.get_mut(&group) {
            ghosts.retain(|ghost| ghost.tag != dead);
            if ghosts.is_empty() {
                self.ghost_yard.remove(&group);
            }
        }
    }

    /// Reads all that the next step of the frontier needs, when `newcomer` will
    /// be stored by then.
    fn plan_sweep(&self, newcomer: Option<Digest>, remote: &mut F::Remote) -> Result<Sweep> {
        let quotients = self.level.quotients();
        let until = (self.frontier + self.spec.sweep as usize).min(quotients);
        let range = digests_of(self.frontier..=until - 1, quotients);
        let mut digests = F::stored(remote, range.clone())?;
        digests.extend(newcomer.filter(|digest| range.contains(digest)));
        let mut others: Vec<Digest> = newcomer.into_iter().collect();
        for &digest in &digests {
            let hash = self.hash_with(digest, true);
            if let Some(slot) = self.matching_slot(&hash) {
                // Its owner may be one of those that are rehashed themselves.
                if self.owner(hash.quotient, slot, &digests).is_none() {
                    others.extend(self.candidates(hash.quotient, remote)?);
                }
            }
        }
        Ok(Sweep { until, digests, others })
    }

    /// The functions that a sweep changes in the remote.
    fn swept(&self, sweep: &Sweep) -> Vec<(Digest, [u64; 2])> {
        sweep.digests.iter().map(|&digest| (digest, self.functions)).collect()
    }

    /// What an insertion changes in the remote. A newcomer may be rehashed at once.
    fn addition(&self, hash: &Hash, mut moved: Vec<(Digest, [u64; 2])>) -> Changes {
        let before = moved.len();
        moved.retain(|&(digest, _)| digest != hash.digest);
        let new = hash.new || moved.len() < before;
        let function = self.functions[usize::from(new)];
        Changes { added: Some((hash.digest, function)), removed: None, moved }
    }

    /// Moves the frontier, and rehashes who it passes.
    fn sweep(&mut self, sweep: Sweep) {
        for &digest in &sweep.digests {
            let hash = self.hash(digest);
            if !self.yard.remove(digest)
                && let Some(slot) = self.matching_slot(&hash)
            {
                let _ = self.level.remove(hash.quotient, slot);
            }
        }
        let groups = self.frontier / GROUP..=(sweep.until - 1) / GROUP;
        self.frontier = sweep.until;
        groups.for_each(|group| self.drop_dead_ghosts(group));
        // Who is swept owns nothing before it is placed again.
        let mut others = sweep.others;
        others.retain(|digest| !sweep.digests.contains(digest));
        for (index, &digest) in sweep.digests.iter().enumerate() {
            let hash = self.hash(digest);
            if let Some(slot) = self.matching_slot(&hash) {
                let placed = self.owner(hash.quotient, slot, &sweep.digests[..index]);
                let owner = placed.or_else(|| self.owner(hash.quotient, slot, &others));
                if owner.is_none() {
                    // Whose it is was not asked: it stays.
                    self.put_into_yard(&hash);
                    continue;
                }
                self.extend(hash.quotient, slot, owner, &hash);
            }
            self.place(&hash);
        }
        self.counts.kicks += sweep.digests.len() as u64;
        if self.frontier == self.level.quotients() {
            self.phase += 1;
            self.frontier = 0;
            self.functions = [self.functions[1], self.draw()];
        }
    }

    /// The seed of another hash function.
    fn draw(&mut self) -> u64 {
        // 0 is the digest itself, and stays with the first function.
        self.rng.next().max(1)
    }

    /// A filter of all these digests; quotients of a fresh function.
    fn filled(&self, capacity: usize, bins: usize, digests: &[Digest]) -> Self {
        let mut fresh = Self::empty(self.spec, capacity, bins);
        fresh.rng = self.rng.clone();
        fresh.functions = [fresh.draw(), fresh.draw()];
        let mut hashes: Vec<Hash> = digests.iter().map(|&digest| fresh.hash(digest)).collect();
        hashes.sort_by_key(|hash| hash.quotient);
        for run in hashes.chunk_by(|one, other| one.quotient == other.quotient) {
            let candidates: Vec<Digest> = run.iter().map(|hash| hash.digest).collect();
            for (index, hash) in run.iter().enumerate() {
                if let Some(slot) = fresh.matching_slot(hash) {
                    let owner = fresh.owner(hash.quotient, slot, &candidates[..index]);
                    fresh.extend(hash.quotient, slot, owner, hash);
                }
                fresh.place(hash);
            }
        }
        let old = self.counts;
        fresh.counts = Stats {
            rebuilds: old.rebuilds + 1,
            kicks: old.kicks,
            adaptations: old.adaptations,
            ..fresh.counts
        };
        fresh
    }

    fn len(&self) -> usize {
        self.level.len() + self.yard.len()
    }

    /// Invariant 7: no fingerprint is a prefix of another.
    fn check_prefixes(&self) -> Result<(), String> {
        for (quotient, slot) in self.level.iter() {
            let string = self.level.string(quotient, slot);
            let mut others = self.level.equal(quotient, self.level.remainder(quotient, slot));
            others &= !(1 << slot);
            while others != 0 {
                let other = self.level.string(quotient, others.trailing_zeros());
                if string.length <= other.length && string.is_prefix_of(other.bits) {
                    return Err(format!(
                        "two fingerprints of quotient {quotient}: one is a prefix"
                    ));
                }
                others &= others - 1;
            }
        }
        Ok(())
    }
}

impl<F: Form> Build for BroomFilter<F> {
    /// A filter's bins are its quotients.
    fn empty(spec: Spec, capacity: usize, bins: usize) -> Self {
        let mut filter = BroomFilter {
            level: Level::new(bins, shape(&spec, bins)),
            yard: DigestTrie::default(),
            ghost_yard: BTreeMap::new(),
            functions: [0, 0],
            phase: 0,
            frontier: 0,
            rng: Rng::new(0),
            spec,
            counts: Stats { capacity, ..Stats::default() },
            form: std::marker::PhantomData,
        };
        let first = if F::BEGINS_WITH_THE_DIGEST { 0 } else { filter.draw() };
        filter.functions = [first, filter.draw()];
        filter
    }

    fn read(spec: Spec, mut reader: Reader<'_>) -> Result<Self> {
        let quotients = reader.size("the number of quotients")?;
        let len = reader.size("the number of keys")?;
        let counts = Stats {
            capacity: reader.size("the capacity")?,
            adaptations: reader.counter("the adaptations")?,
            rebuilds: reader.counter("the rebuilds")?,
            kicks: reader.counter("the kicks")?,
            ..Stats::default()
        };
        let functions = [reader.u64("the old function")?, reader.u64("the new function")?];
        let phase = reader.counter("the phase")?;
        let frontier = reader.size("the frontier")?;
        let rng = Rng::new(reader.u64("the generator")?);
        let groups = reader.block("the groups")?;
        let yard_len = reader.count("digests of the yard", 16)?;
        let yard: Vec<Digest> =
            (0..yard_len).map(|_| read_digest(&mut reader)).collect::<Result<_>>()?;
        let ghosts = reader.count("ghosts", 24)?;
        let mut ghost_yard: BTreeMap<usize, Vec<Ghost>> = BTreeMap::new();
        for _ in 0..ghosts {
            let quotient = reader.size("a ghost's quotient")?;
            let (tag, length) = (reader.u32("a ghost's tag")?, reader.u32("a ghost's length")?);
            let bits = reader.u64("a ghost's bits")?;
            if quotient >= quotients || tag > 1 || !(1..=64).contains(&length) {
                return Err(Error::format("a ghost belongs nowhere"));
            }
            let string = Text::prefix(bits, length as u8);
            let ghost = Ghost { quotient, tag: tag == 1, string };
            ghost_yard.entry(quotient / GROUP).or_default().push(ghost);
        }
        reader.finish()?;
        let capacities = 1..=quotients;
        if !(1..=Spec::MAX_BINS).contains(&quotients) || !capacities.contains(&counts.capacity) {
            let capacity = counts.capacity;
            return Err(Error::format(format!(
                "{quotients} quotients have no capacity of {capacity}"
            )));
        }
        if !yard.is_sorted_by(|a, b| a < b) {
            return Err(Error::format("the digests of its yard are out of order"));
        }
        if frontier >= quotients {
            return Err(Error::format("its frontier is behind the last quotient"));
        }
        let shape = shape(&spec, quotients);
        let level = Level::from_bytes(groups, quotients, shape).map_err(Error::format)?;
        let mut filter = BroomFilter {
            level,
            yard: DigestTrie::from_sorted(&yard),
            ghost_yard,
            functions,
            phase,
            frontier,
            rng,
            spec,
            counts,
            form: std::marker::PhantomData,
        };
        if filter.len() != len || len > quotients {
            return Err(Error::format("its number of keys is not that of its fingerprints"));
        }
        filter.check_prefixes().map_err(Error::format)?;
        for digest in yard {
            let group = filter.hash(digest).quotient / GROUP;
            filter.level.set_overflowed(group, true);
        }
        Ok(filter)
    }
}

impl<F: Form> BroomFilter<F> {
    fn larger(&self, capacity: usize, remote: &mut F::Remote) -> Result<Self> {
        let bins = self.spec.bins_for(capacity)?;
        let digests = form::all::<F>(remote)?;
        if digests.len() > capacity {
            return Err(self.spec.too_small(digests.len(), capacity));
        }
        let fresh = self.filled(capacity, bins, &digests);
        F::replace(remote, fresh.functions[0], &digests, None)?;
        Ok(fresh)
    }
}

impl Grow for BroomFilter<Practical> {
    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self> {
        self.larger(capacity, remote)
    }
}

impl<F: Form> Filter for BroomFilter<F> {
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
        if len >= quotients {
            if self.spec.full != WhenFull::Grow {
                return Err(Error::Full { digest, len, capacity });
            }
            let size = self.spec.growth(capacity, quotients).next();
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
        let sweep = self.plan_sweep(Some(digest), remote)?;
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
        F::write(remote, &Changes { removed: Some((digest, function)), ..Changes::default() })?;
        if !self.yard.remove(digest)
            && let Some(slot) = self.matching_slot(&hash)
        {
            let string = self.level.remove(hash.quotient, slot);
            self.leave_ghost(&hash, string);
        }
        Ok(true)
    }

    fn adapt(&mut self, digest: Digest, remote: &mut Self::Remote) -> Result<Adapted> {
        let hash = self.hash(digest);
        if self.in_yard(&hash) {
            if !F::stored(remote, digest..=digest)?.is_empty() {
                return Ok(Adapted::Stored);
            }
            // The remote never got it, or lost it: it goes from here as well.
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
        let sweep = self.plan_sweep(None, remote)?;
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
            return Err(self.spec.too_small(digests.len(), capacity));
        }
        let fresh = self.filled(capacity, bins, &digests);
        F::replace(remote, fresh.functions[0], &digests, None)?;
        *self = fresh;
        Ok(())
    }

    fn stats(&self) -> Stats {
        let ghosts: usize = self.ghost_yard.values().map(|ghosts| ghosts.capacity()).sum();
        let ghost_bits = ghosts * size_of::<Ghost>() * 8 + self.ghost_yard.len() * 2 * 32 * 8;
        Stats {
            len: self.len(),
            cells: self.level.slots(),
            stashed: self.yard.len(),
            bits: self.level.bits() + self.yard.bits() + ghost_bits,
            ..self.counts
        }
    }

    fn spec(&self) -> Spec {
        self.spec
    }

    fn save(&self) -> Vec<u8> {
        let mut writer = Writer::new(&self.spec.to_string());
        writer.u64(self.level.quotients() as u64);
        writer.u64(self.len() as u64);
        writer.u64(self.counts.capacity as u64);
        writer.u64(self.counts.adaptations);
        writer.u64(self.counts.rebuilds);
        writer.u64(self.counts.kicks);
        self.functions.iter().for_each(|&function| writer.u64(function));
        writer.u64(self.phase);
        writer.u64(self.frontier as u64);
        writer.u64(self.rng.state);
        writer.block(&self.level.as_bytes());
        writer.u64(self.yard.len() as u64);
        self.yard.iter().for_each(|digest| write_digest(&mut writer, digest));
        let ghosts: Vec<&Ghost> = self.ghost_yard.values().flatten().collect();
        writer.u64(ghosts.len() as u64);
        for ghost in ghosts {
            writer.u64(ghost.quotient as u64);
            writer.u32(ghost.tag.into());
            writer.u32(ghost.string.length.into());
            writer.u64(ghost.string.bits);
        }
        writer.finish()
    }

    fn check(&self, remote: &mut Self::Remote) -> Result<(), String> {
        self.level.check()?;
        self.check_prefixes()?;
        let stored = form::all::<F>(remote).map_err(|error| error.to_string())?;
        let mut owned = std::collections::HashSet::new();
        let mut in_yard = 0;
        for &digest in &stored {
            let hash = self.hash(digest);
            if self.yard_has(digest) {
                in_yard += 1;
                if !self.level.overflowed(hash.quotient / GROUP) {
                    return Err(format!("{digest:?} is in the yard and its group does not know"));
                }
                continue;
            }
            let Some(slot) = self.matching_slot(&hash) else {
                return Err(format!("{digest:?} is stored and has no fingerprint"));
            };
            if !owned.insert((hash.quotient, slot)) {
                return Err(format!("{digest:?} shares its fingerprint"));
            }
            let candidates =
                self.candidates(hash.quotient, remote).map_err(|error| error.to_string())?;
            if !candidates.contains(&digest) {
                return Err(format!("the remote does not find {digest:?} by its quotient"));
            }
        }
        if owned.len() != self.level.len() {
            let extra = self.level.len() - owned.len();
            return Err(format!("{extra} fingerprints belong to no stored key"));
        }
        if in_yard != self.yard.len() {
            return Err("the yard has keys that are not stored".into());
        }
        Ok(())
    }
}
