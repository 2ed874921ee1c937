//! One partition of the keys: a real filter, and what its replica or snapshot has of it.

use std::collections::VecDeque;

use twiceshy::Filter;
use twiceshy::filter::DEFAULT_RATE;
use twiceshy_filters::line::{LineFilter, Params};
use twiceshy_filters::remote::MemorySet;
use twiceshy_filters::{Adapted, DigestFilter as _, KeyHasher, Result};

use super::queue::Time;

/// What a filter has behind it in its node, as `AF.RESERVE ... REMOTE` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remote {
    /// Nothing: it adapts by exceptions.
    None,
    /// The digests of its keys: it adapts by changing fingerprints.
    Memory,
}

/// The filter with a remote, and the rate for which `AF.RESERVE` makes it.
const EXACT: &str = "line:f=9,full=grow";
const EXACT_RATE: f64 = 0.002;

/// Bits of the table of exceptions for one of `AF.RESERVE ... EXCEPTIONS`: a set and its index.
const EXCEPTION_BITS: f64 = 68.0 * 8.0;

/// What the module keeps of the last additions to a filter without a remote: 8 bytes per 64 keys of
/// capacity, within these limits.
const ADDITION_BYTES: usize = 8;
const KEYS_PER_ADDITION: usize = 64;
const FEWEST_ADDITIONS: usize = 16;
const MOST_ADDITIONS: usize = 1024;

/// The size and the kind of the filters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) remote: Remote,
    /// Keys that each is made for.
    pub(super) capacity: usize,
    /// The rate, if not the default; of filters without a remote.
    pub(super) rate: Option<f64>,
    /// Bits of exceptions per key, likewise.
    pub(super) exceptions: Option<f64>,
}

impl Shape {
    /// What `AF.RESERVE key` is given to make the same filter.
    pub(super) fn reserve_arguments(&self, hasher: &KeyHasher) -> String {
        let capacity = self.capacity;
        let mut arguments = match self.remote {
            Remote::None => format!("{} {capacity}", self.rate.unwrap_or(DEFAULT_RATE)),
            Remote::Memory => format!("{EXACT_RATE} {capacity} REMOTE memory"),
        };
        if let (Remote::None, Some(bits)) = (self.remote, self.exceptions) {
            let exceptions = (capacity as f64 * bits / EXCEPTION_BITS).ceil();
            arguments.push_str(&format!(" EXCEPTIONS {exceptions}"));
        }
        arguments.push_str(" SECRET ");
        hasher.to_bytes().iter().for_each(|byte| arguments.push_str(&format!("{byte:02x}")));
        arguments
    }
}

/// A filter of the library, as the module has it.
pub(super) enum Member {
    Alone(Box<Filter>),
    Exact(Box<Exact>),
}

/// A filter with its digests in memory.
pub(super) struct Exact {
    filter: LineFilter,
    digests: MemorySet,
    hasher: KeyHasher,
}

impl Member {
    pub(super) fn new(shape: &Shape, hasher: KeyHasher) -> Result<Self> {
        if shape.remote == Remote::Memory {
            let filter = LineFilter::new(&EXACT.parse::<Params>()?, shape.capacity)?;
            let digests = MemorySet::new();
            return Ok(Member::Exact(Box::new(Exact { filter, digests, hasher })));
        }
        let mut builder = Filter::builder().capacity(shape.capacity).hasher(hasher);
        if let Some(rate) = shape.rate {
            builder = builder.rate(rate);
        }
        if let Some(bits) = shape.exceptions {
            builder = builder.exceptions(bits);
        }
        Ok(Member::Alone(Box::new(builder.build()?)))
    }

    pub(super) fn contains(&self, key: &str) -> bool {
        match self {
            // `AF.EXISTS` changes nothing, not even which exception was asked for last.
            Member::Alone(filter) => filter.peek(key),
            Member::Exact(exact) => exact.filter.contains(exact.hasher.digest(key)),
        }
    }

    pub(super) fn insert(&mut self, key: &str) -> Result<()> {
        match self {
            Member::Alone(filter) => drop(filter.insert(key)),
            Member::Exact(exact) => {
                exact.filter.insert(exact.hasher.digest(key), &mut exact.digests)?;
            }
        }
        Ok(())
    }

    /// Whether the key is answered "absent" because of this report.
    pub(super) fn adapt(&mut self, key: &str) -> Result<bool> {
        Ok(match self {
            Member::Alone(filter) => filter.adapt(key),
            Member::Exact(exact) => {
                let digest = exact.hasher.digest(key);
                exact.filter.adapt(digest, &mut exact.digests)? == Adapted::Fixed
            }
        })
    }

    /// Its memory in a node, but for a few hundred bytes.
    pub(super) fn bytes(&self) -> u64 {
        let bytes = match self {
            Member::Alone(filter) => {
                let stats = filter.stats();
                let additions = stats.capacity / KEYS_PER_ADDITION;
                stats.bytes + ADDITION_BYTES * additions.clamp(FEWEST_ADDITIONS, MOST_ADDITIONS)
            }
            Member::Exact(exact) => {
                size_of::<Exact>() + (exact.filter.stats().bits + exact.digests.bits()) / 8
            }
        };
        bytes as u64
    }

    /// Adaptations that it holds.
    pub(super) fn adaptations(&self) -> u64 {
        match self {
            Member::Alone(filter) => filter.stats().exceptions as u64,
            Member::Exact(exact) => exact.filter.stats().adaptations,
        }
    }

    /// Exceptions that it has room for; `None` if it needs none.
    pub(super) fn exceptions_room(&self) -> Option<u64> {
        match self {
            Member::Alone(filter) => Some(filter.stats().exceptions_room as u64),
            Member::Exact(_) => None,
        }
    }

    /// What `DUMP` gives, and `RESTORE` makes of it: a copy, and the bytes that it takes.
    pub(super) fn copy(&self) -> Result<(Self, u64)> {
        Ok(match self {
            Member::Alone(filter) => {
                let bytes = filter.to_bytes();
                (Member::Alone(Box::new(Filter::from_bytes(&bytes)?)), bytes.len() as u64)
            }
            Member::Exact(exact) => {
                let (filter, digests) = (exact.filter.save(), exact.digests.save());
                let copy = Exact {
                    filter: LineFilter::load(&filter)?,
                    digests: MemorySet::load(&digests)?,
                    hasher: exact.hasher.clone(),
                };
                (Member::Exact(Box::new(copy)), (filter.len() + digests.len()) as u64)
            }
        })
    }
}

/// A change of a filter, which a node sends to its replica and appends to its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Insert(u64),
    Adapt(u64),
}

/// What a takeover by the replica, or a restart from a snapshot, has lost.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) keys: Vec<u64>,
    pub(super) adaptations: u64,
}

/// A filter with its follower: the replica or the snapshot, which has all changes up to some moment.
pub(super) struct Partition {
    /// Its name: the key of the object in the cluster.
    pub(super) name: String,
    pub(super) slot: u16,
    pub(super) filter: Member,
    follower: Member,
    /// Changes since what the follower has, in order.
    behind: VecDeque<(Time, Change)>,
    /// Keys that belong here.
    pub(super) keys: u64,
}

impl Partition {
    /// Of a filter that is loaded, with a follower that has all of it.
    pub(super) fn new(name: String, slot: u16, filter: Member, keys: u64) -> Result<Self> {
        let (follower, _) = filter.copy()?;
        Ok(Partition { name, slot, filter, follower, behind: VecDeque::new(), keys })
    }

    /// Notes a change that the filter has made, for the follower.
    pub(super) fn note(&mut self, at: Time, change: Change) {
        self.behind.push_back((at, change));
    }

    /// Brings the follower to what the filter was at a moment.
    pub(super) fn follow(&mut self, until: Time) -> Result<()> {
        while let Some(&(_, change)) = self.behind.front().filter(|(at, _)| *at <= until) {
            match change {
                Change::Insert(key) => self.follower.insert(&key_name(key))?,
                Change::Adapt(key) => drop(self.follower.adapt(&key_name(key))?),
            }
            self.behind.pop_front();
        }
        Ok(())
    }

    /// Puts the follower, as of that moment, in place of the filter; what that has lost.
    pub(super) fn fall_back(&mut self, until: Time) -> Result<Lost> {
        self.follow(until)?;
        let mut lost = Lost::default();
        for (_, change) in self.behind.drain(..) {
            match change {
                Change::Insert(key) => lost.keys.push(key),
                Change::Adapt(_) => lost.adaptations += 1,
            }
        }
        (self.filter, _) = self.follower.copy()?;
        Ok(lost)
    }

    /// Puts a filter that was rebuilt from the store in place of this one; how many adaptations that
    /// has lost.
    pub(super) fn replace(&mut self, filter: Member) -> Result<u64> {
        (self.follower, _) = filter.copy()?;
        self.behind.clear();
        Ok(std::mem::replace(&mut self.filter, filter).adaptations())
    }
}

/// The text of a key, which filters, files and real clusters see.
#[must_use]
pub fn key_name(key: u64) -> String {
    format!("key:{key}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::hasher;

    fn partition(remote: Remote) -> Partition {
        let shape = Shape { remote, capacity: 2000, rate: None, exceptions: None };
        let mut filter = Member::new(&shape, hasher(3)).expect("a filter");
        (0..1000).for_each(|key| filter.insert(&key_name(key)).expect("there is room"));
        Partition::new("filter:{0}".into(), 0, filter, 1000).expect("a partition")
    }

    /// Keys 1000 to 1009 are inserted at times 1000 to 1009. One that is lost is answered "maybe" with
    /// probability 0.002: all five with 3.2e-14.
    #[test]
    fn a_follower_has_what_happened_before_the_cut_and_nothing_else() {
        for remote in [Remote::None, Remote::Memory] {
            let mut partition = partition(remote);
            for key in 1000..1010 {
                partition.filter.insert(&key_name(key)).expect("there is room");
                partition.note(key, Change::Insert(key));
            }
            let lost = partition.fall_back(1004).expect("a takeover");
            assert_eq!(lost, Lost { keys: (1005..1010).collect(), adaptations: 0 });
            assert!((0..1005).all(|key| partition.filter.contains(&key_name(key))));
            assert!((1005..1010).any(|key| !partition.filter.contains(&key_name(key))));
            // The next takeover starts from here.
            assert_eq!(partition.fall_back(2000).expect("a takeover"), Lost::default());
        }
    }

    #[test]
    fn adaptations_are_followed_and_lost_like_keys() {
        for remote in [Remote::None, Remote::Memory] {
            let mut partition = partition(remote);
            let wrong: Vec<u64> =
                (5000..).filter(|&key| partition.filter.contains(&key_name(key))).take(2).collect();
            for (at, &key) in wrong.iter().enumerate() {
                assert!(partition.filter.adapt(&key_name(key)).expect("no failure"));
                partition.note(at as Time, Change::Adapt(key));
            }
            let lost = partition.fall_back(0).expect("a takeover");
            assert_eq!(lost, Lost { keys: Vec::new(), adaptations: 1 });
            let answers = [wrong[0], wrong[1]].map(|key| partition.filter.contains(&key_name(key)));
            assert_eq!(answers, [false, true], "{remote:?}");
        }
    }
}
