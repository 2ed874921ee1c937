//! A contestant in a race, a game or an experiment: a filter of the library with its remote in
//! memory, or one that only the lab has.

use std::collections::HashSet;

use twiceshy_filters::internals::Outlook;
use twiceshy_filters::remote::Accesses;
use twiceshy_filters::{Adapted, AnyFilter, Digest, Result, Spec, Stats};

use crate::adaptive_quotient::AdaptiveQuotient;
use crate::cache::{Cache, LISTED_BITS};
use crate::design::Design;

/// A filter that plays.
#[derive(Debug)]
pub struct Contestant {
    filter: Filter,
    beside: Beside,
}

/// What answers first.
#[derive(Debug)]
enum Filter {
    Library(AnyFilter),
    AdaptiveQuotient(AdaptiveQuotient),
}

/// What is asked when that says "maybe".
#[derive(Debug)]
enum Beside {
    Nothing,
    Whitelist(Whitelist),
    Cache { cache: Cache, share: u32 },
}

impl Contestant {
    /// A filter as it is.
    #[must_use]
    pub fn new(filter: AnyFilter) -> Self {
        Contestant { filter: Filter::Library(filter), beside: Beside::Nothing }
    }

    /// A filter that does not adapt, with a list of at most `room` bits for its known false
    /// positives.
    #[must_use]
    pub fn with_whitelist(filter: AnyFilter, room: usize) -> Self {
        let beside = Beside::Whitelist(Whitelist::within(room));
        Contestant { filter: Filter::Library(filter), beside }
    }

    /// A filter that does not adapt, with a cache of at most `room` bits for its known false
    /// positives: `share` percent of the memory, as its description has it.
    #[must_use]
    pub fn with_cache(filter: AnyFilter, room: usize, share: u32) -> Self {
        let beside = Beside::Cache { cache: Cache::within(room), share };
        Contestant { filter: Filter::Library(filter), beside }
    }

    /// The lab's own adaptive quotient filter.
    #[must_use]
    pub fn adaptive_quotient(filter: AdaptiveQuotient) -> Self {
        Contestant { filter: Filter::AdaptiveQuotient(filter), beside: Beside::Nothing }
    }

    /// `false`: definitely absent. `true`: maybe present.
    #[must_use]
    pub fn contains(&self, digest: Digest) -> bool {
        let maybe = match &self.filter {
            Filter::Library(filter) => filter.contains(digest),
            Filter::AdaptiveQuotient(filter) => filter.contains(digest),
        };
        maybe
            && match &self.beside {
                Beside::Nothing => true,
                Beside::Whitelist(list) => !list.known.contains(&digest),
                Beside::Cache { cache, .. } => !cache.contains(digest),
            }
    }

    /// Many at once, without what is asked when the filter says "maybe": where `found` is `false`, so
    /// is [`contains`](Contestant::contains).
    pub fn screen(&self, digests: &[Digest], found: &mut [bool]) {
        match &self.filter {
            Filter::Library(filter) => filter.contains_many(digests, found),
            Filter::AdaptiveQuotient(filter) => {
                let answers = digests.iter().map(|&digest| filter.contains(digest));
                found.iter_mut().zip(answers).for_each(|(found, answer)| *found = answer);
            }
        }
    }

    /// A test of which absent keys it may ever answer "maybe", if the stored ones stay the same.
    /// Queries for the others change nothing. `true` where that is not known.
    ///
    /// # Errors
    /// None: the remote is in memory.
    pub fn outlook(&mut self) -> Result<Box<dyn Fn(Digest) -> bool + '_>> {
        let looked = match &mut self.filter {
            Filter::Library(filter) if filter.spec().adapts() => filter.outlook()?,
            _ => None,
        };
        Ok(match (&self.filter, looked) {
            (_, Some(outlook)) => Box::new(move |digest| outlook.may(digest)),
            (Filter::Library(filter), None) if only_denies_more(filter) => {
                Box::new(|digest| filter.contains(digest))
            }
            (Filter::Library(_), None) => Box::new(|_| true),
            // Its fingerprints only grow.
            (Filter::AdaptiveQuotient(filter), None) => Box::new(|digest| filter.contains(digest)),
        })
    }

    /// Whether it answers the same whatever it is told.
    #[must_use]
    pub fn never_adapts(&self) -> bool {
        let library = matches!(&self.filter, Filter::Library(filter) if !filter.spec().adapts());
        library && matches!(self.beside, Beside::Nothing)
    }

    /// Whether a false positive that it did not fix may still have changed it.
    #[must_use]
    pub fn may_change_in_vain(&self) -> bool {
        matches!(&self.filter, Filter::Library(filter) if filter.spec().adapts())
    }

    /// The outlook of a filter of which all is known that will ever change: a swapping filter, whose
    /// keys are where they are, or a cyclic or varying one that never adapted, so that all selectors
    /// are the first.
    ///
    /// # Errors
    /// None: the remote is in memory.
    pub fn replayable(&mut self) -> Result<Option<Outlook>> {
        let Filter::Library(filter) = &mut self.filter else { return Ok(None) };
        let unselected = filter.states() == [filter.stats().len];
        Ok(filter.outlook()?.filter(|outlook| unselected || outlook.coins.is_some()))
    }

    /// Adds a key; `false` when it was stored already.
    ///
    /// # Errors
    /// [`twiceshy_filters::Error::Full`].
    pub fn insert(&mut self, digest: Digest) -> Result<bool> {
        let inserted = match &mut self.filter {
            Filter::Library(filter) => filter.insert(digest)?,
            Filter::AdaptiveQuotient(filter) => filter.insert(digest)?,
        };
        match &mut self.beside {
            Beside::Nothing => {}
            Beside::Whitelist(list) => drop(list.known.remove(&digest)),
            Beside::Cache { cache, .. } => cache.remove(digest),
        }
        Ok(inserted)
    }

    /// Removes a key; `false` when it was not stored.
    ///
    /// # Errors
    /// None: the remote is in memory.
    pub fn remove(&mut self, digest: Digest) -> Result<bool> {
        match &mut self.filter {
            Filter::Library(filter) => filter.remove(digest),
            Filter::AdaptiveQuotient(filter) => Ok(filter.remove(digest)),
        }
    }

    /// Reports a positive answer that may have been false.
    ///
    /// # Errors
    /// None: the remote is in memory.
    pub fn adapt(&mut self, digest: Digest) -> Result<Adapted> {
        let outcome = match &mut self.filter {
            Filter::Library(filter) => filter.adapt(digest)?,
            Filter::AdaptiveQuotient(filter) => filter.adapt(digest),
        };
        let fixed = match (&mut self.beside, outcome) {
            (Beside::Whitelist(list), Adapted::Unfixed) => list.add(digest),
            (Beside::Cache { cache, .. }, Adapted::Unfixed) => cache.add(digest),
            _ => return Ok(outcome),
        };
        Ok(if fixed { Adapted::Fixed } else { Adapted::Unfixed })
    }

    /// Counts and sizes, the memory of a list or cache included.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = match &self.filter {
            Filter::Library(filter) => filter.stats(),
            Filter::AdaptiveQuotient(filter) => filter.stats(),
        };
        match &self.beside {
            Beside::Nothing => {}
            Beside::Whitelist(list) => {
                stats.bits += list.bits();
                stats.adaptations += list.known.len() as u64;
            }
            Beside::Cache { cache, .. } => {
                stats.bits += cache.bits();
                stats.adaptations += cache.added();
            }
        }
        stats
    }

    /// False positives that it had no room to adapt to: a list or table was full. A cache makes
    /// room, and the library's filters do not count them.
    #[must_use]
    pub fn refused(&self) -> u64 {
        match (&self.filter, &self.beside) {
            (Filter::AdaptiveQuotient(filter), _) => filter.refused(),
            (_, Beside::Whitelist(list)) => list.refused,
            _ => 0,
        }
    }

    /// The number of remote accesses so far.
    #[must_use]
    pub fn accesses(&self) -> Accesses {
        match &self.filter {
            Filter::Library(filter) => filter.accesses(),
            Filter::AdaptiveQuotient(filter) => filter.accesses(),
        }
    }

    /// The design that builds a filter like this.
    #[must_use]
    pub fn design(&self) -> Design {
        match (&self.filter, &self.beside) {
            (Filter::AdaptiveQuotient(filter), _) => Design::AdaptiveQuotient(filter.shape()),
            (Filter::Library(filter), Beside::Nothing) => Design::Library(filter.spec()),
            (Filter::Library(filter), Beside::Whitelist(_)) => Design::Whitelist(filter.spec()),
            (Filter::Library(filter), Beside::Cache { share, .. }) => {
                Design::Cached { base: filter.spec(), share: *share }
            }
        }
    }

    /// Its short name in tables and plots.
    #[must_use]
    pub fn label(&self) -> String {
        self.design().label()
    }

    /// The description that builds a filter like this.
    #[must_use]
    pub fn spec(&self) -> String {
        self.design().to_string()
    }

    /// Keys that its cache has room for; 0 without one.
    #[must_use]
    pub fn cached_keys(&self) -> usize {
        match &self.beside {
            Beside::Cache { cache, .. } => cache.capacity(),
            _ => 0,
        }
    }

    /// The probability that an absent key that was never queried is answered "maybe".
    #[must_use]
    pub fn first_pass_rate(&self) -> f64 {
        self.design().first_pass_rate(self.stats().load())
    }

    /// Verifies every invariant; for tests.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn check(&mut self) -> Result<(), String> {
        match &mut self.filter {
            Filter::Library(filter) => filter.check()?,
            Filter::AdaptiveQuotient(filter) => filter.check()?,
        }
        match &self.beside {
            Beside::Cache { cache, .. } => cache.check(),
            Beside::Nothing | Beside::Whitelist(_) => Ok(()),
        }
    }
}

/// Whether what it answers "absent" now stays so, as long as its keys stay the same: it does not
/// adapt (of a cache or a list beside it, it says "maybe" less often), or it has remainders that
/// never change, and no extensions yet.
fn only_denies_more(filter: &AnyFilter) -> bool {
    match filter.spec() {
        Spec::Extension(_) => filter.states() == [filter.stats().len],
        spec => !spec.adapts(),
    }
}

/// The exact list of Bender et al., "Bloom Filters, Adaptivity, and the Dictionary Problem",
/// Lemma 28: false positives that are known. When it is full, it stops adapting.
#[derive(Debug)]
struct Whitelist {
    known: HashSet<Digest>,
    most: usize,
    refused: u64,
}

impl Whitelist {
    fn within(room: usize) -> Self {
        Whitelist { known: HashSet::new(), most: room / LISTED_BITS, refused: 0 }
    }

    /// `false` if it is full.
    fn add(&mut self, digest: Digest) -> bool {
        if self.known.len() == self.most {
            self.refused += 1;
            return false;
        }
        self.known.insert(digest);
        true
    }

    fn bits(&self) -> usize {
        self.most * LISTED_BITS
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
        let mut contestant = Contestant::with_whitelist(filter, 10 * LISTED_BITS);
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
        assert_eq!(contestant.refused(), told.len() as u64 - 10);
        // A key that is stored after all is on the list no longer.
        let (number, _) = told[0];
        assert!(contestant.insert(key(number)).unwrap());
        assert!(contestant.contains(key(number)));
    }
}
