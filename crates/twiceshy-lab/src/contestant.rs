//! A contestant in a race, a game or an experiment: a filter of the library with its remote in
//! memory, or the whitelist baseline made of one.

use std::collections::HashSet;

use twiceshy_filters::remote::Accesses;
use twiceshy_filters::{Adapted, AnyFilter, Digest, Result, Spec, Stats};

/// A filter that plays.
#[derive(Debug)]
pub struct Contestant {
    filter: AnyFilter,
    whitelist: Option<Whitelist>,
}

impl Contestant {
    /// A filter as it is.
    #[must_use]
    pub fn new(filter: AnyFilter) -> Self {
        Contestant { filter, whitelist: None }
    }

    /// A filter that does not adapt, with a list of at most `room` bits for its known false
    /// positives.
    #[must_use]
    pub fn with_whitelist(filter: AnyFilter, room: usize) -> Self {
        Contestant { filter, whitelist: Some(Whitelist::within(room)) }
    }

    /// `false`: definitely absent. `true`: maybe present.
    #[must_use]
    pub fn contains(&self, digest: Digest) -> bool {
        let known = |list: &Whitelist| list.known.contains(&digest);
        self.filter.contains(digest) && !self.whitelist.as_ref().is_some_and(known)
    }

    /// Adds a key; `false` when it was stored already.
    ///
    /// # Errors
    /// [`twiceshy_filters::Error::Full`].
    pub fn insert(&mut self, digest: Digest) -> Result<bool> {
        let inserted = self.filter.insert(digest)?;
        if let Some(list) = &mut self.whitelist {
            list.known.remove(&digest);
        }
        Ok(inserted)
    }

    /// Removes a key; `false` when it was not stored.
    ///
    /// # Errors
    /// None: the remote is in memory.
    pub fn remove(&mut self, digest: Digest) -> Result<bool> {
        self.filter.remove(digest)
    }

    /// Reports a positive answer that may have been false.
    ///
    /// # Errors
    /// None: the remote is in memory.
    pub fn adapt(&mut self, digest: Digest) -> Result<Adapted> {
        let outcome = self.filter.adapt(digest)?;
        Ok(match (&mut self.whitelist, outcome) {
            (Some(list), Adapted::Unfixed) => list.learn(digest),
            _ => outcome,
        })
    }

    /// Counts and sizes, the whitelist's memory included.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.filter.stats();
        if let Some(list) = &self.whitelist {
            stats.bits += list.bits();
            stats.adaptations += list.known.len() as u64;
        }
        stats
    }

    /// The number of remote accesses so far.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        self.filter.accesses()
    }

    /// Its short name in tables and plots.
    #[must_use]
    pub fn label(&self) -> String {
        if self.whitelist.is_some() { WHITELIST.to_string() } else { self.filter.spec().label() }
    }

    /// The description that builds a filter like this.
    #[must_use]
    pub fn spec(&self) -> String {
        let spec = self.filter.spec();
        if self.whitelist.is_some() { format!("{WHITELIST} over {spec}") } else { spec.to_string() }
    }

    /// The filter itself, without a whitelist.
    #[must_use]
    pub fn filter_spec(&self) -> Spec {
        self.filter.spec()
    }

    /// The probability that an absent key that was never queried is answered "maybe".
    #[must_use]
    pub fn first_pass_rate(&self) -> f64 {
        self.filter.spec().first_pass_rate(self.filter.stats().load())
    }

    /// Verifies every invariant; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&mut self) -> Result<(), String> {
        self.filter.check()
    }
}

/// The name of the baseline.
pub const WHITELIST: &str = "whitelist";

/// The share of its memory that the baseline gives to its list.
pub const WHITELIST_SHARE: f64 = 0.25;

/// The exact list of Bender et al., "Bloom Filters, Adaptivity, and the Dictionary Problem",
/// Lemma 28: false positives that are known. When it is full, it stops adapting.
#[derive(Debug)]
struct Whitelist {
    known: HashSet<Digest>,
    most: usize,
}

/// Bits of one entry: a digest and its control byte, in a table that is filled
/// to seven eighths.
const ENTRY_BITS: usize = (size_of::<Digest>() + 1) * 8 * 8 / 7;

impl Whitelist {
    fn within(room: usize) -> Self {
        Whitelist { known: HashSet::new(), most: room / ENTRY_BITS }
    }

    fn learn(&mut self, digest: Digest) -> Adapted {
        if self.known.len() == self.most {
            return Adapted::Unfixed;
        }
        self.known.insert(digest);
        Adapted::Fixed
    }

    fn bits(&self) -> usize {
        self.most * ENTRY_BITS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::hasher;

    #[test]
    fn a_whitelist_learns_until_its_memory_is_spent() {
        let hasher = hasher(1);
        let key = |number: u64| hasher.digest(number.to_le_bytes());
        let filter = "plain:f=4".parse::<Spec>().unwrap().build(1000).unwrap();
        let mut contestant = Contestant::with_whitelist(filter, 10 * ENTRY_BITS);
        for number in 0..1000 {
            contestant.insert(key(number)).unwrap();
        }
        // A third of all absent keys are false positives: of 1000, fewer than 11
        // would be with probability below 10^-100.
        let mut told = Vec::new();
        for number in 1000..2000 {
            if contestant.contains(key(number)) {
                told.push((number, contestant.adapt(key(number)).unwrap()));
            }
        }
        assert!(told[..10].iter().all(|(_, outcome)| *outcome == Adapted::Fixed));
        assert!(told[..10].iter().all(|(number, _)| !contestant.contains(key(*number))));
        assert!(told[10..].iter().all(|(_, outcome)| *outcome == Adapted::Unfixed));
        // A key that is stored after all is on the list no longer.
        let (number, _) = told[0];
        assert!(contestant.insert(key(number)).unwrap());
        assert!(contestant.contains(key(number)));
    }
}
