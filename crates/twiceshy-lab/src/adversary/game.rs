//! The adaptivity game: Bender et al., "Bloom Filters, Adaptivity, and the
//! Dictionary Problem", section 2, figure 1; Kopelowitz, McCauley, Porat,
//! "Support Optimality and Adaptive Cuckoo Filters", section 5.1.
//!
//! ```text
//!            lookup, insert, delete               contains, adapt, ...
//! Adversary ──────────────────────▶  Oracle  ──────────────────────▶  Defender
//!           ◀──────────────────────          ◀──────────────────────
//!                answers, only       the set and the secret   answers
//! ```
//!
//! The adversary knows the design of the filter, not the secret that makes keys
//! into digests: to it all keys are alike, so they are numbers. The set of the
//! beginning is `0..keys`, and [`Oracle::fresh`] hands out numbers that nobody
//! has asked for.
//!
//! # Who wins
//!
//! An adversary that names a key wins if that is a false positive, as in the
//! figure. One that wants a high rate, and not one certain key, claims its
//! [sustained rate](Claim::Sustained) instead: it wins if the last round's rate
//! is above [`MARGIN`] times the filter's first-pass rate by more than chance
//! explains. A filter whose every answer is a false positive with probability
//! `p` at most, whatever was asked before, shows a rate of `r > p` in a pass
//! over `n` distinct queries with probability `exp(-n KL(r, p))` at most
//! (Chernoff), and so for the mean of several passes over the same queries
//! (the exponential is convex). The adversary wins if that is below
//! [`CHANCE`].

use twiceshy_filters::{Adapted, Digest, KeyHasher, Result};

use crate::contestant::Contestant;
use crate::random::{Rng, hasher, mix, rng};
use crate::workload::Key;

mod passes;

/// How many times the first-pass rate a filter may show in the last round. A
/// query whose quotient is known to be shared collides with each key there
/// (`broom:form=practical`), so its rate is a little above the one of a query
/// that nobody knows; 2 covers it, and no attack that works is below.
pub const MARGIN: f64 = 2.0;

/// The largest probability with which a filter that keeps its rate is said to
/// lose.
pub const CHANCE: f64 = 1e-6;

/// A player that looks for false positives.
pub trait Adversary {
    /// Plays with these random choices, and makes a claim in the end.
    ///
    /// # Errors
    /// [`twiceshy_filters::Error::Full`] where an insertion finds no room.
    fn play(&self, oracle: &mut Oracle<'_>, coins: &mut Rng) -> Result<Claim>;
}

/// The filter in a game: one of the library, or a slow and obvious one of a paper to
/// compare it with.
pub trait Defender {
    /// `false`: definitely absent. `true`: maybe present.
    fn contains(&self, digest: Digest) -> bool;

    /// Many at once: where `found` is `false`, so is [`contains`](Defender::contains).
    fn screen(&self, digests: &[Digest], found: &mut [bool]) {
        found[..digests.len()].fill(true);
    }

    /// Adds a key; `false` when it was stored already.
    ///
    /// # Errors
    /// [`twiceshy_filters::Error::Full`].
    fn insert(&mut self, digest: Digest) -> Result<bool>;

    /// Removes a key; `false` when it was not stored.
    ///
    /// # Errors
    /// None, if the remote is in memory.
    fn remove(&mut self, digest: Digest) -> Result<bool>;

    /// Is told of a false positive. `false` if it surely answers all queries as before.
    ///
    /// # Errors
    /// None, if the remote is in memory.
    fn adapt(&mut self, digest: Digest) -> Result<bool>;

    /// A test of which absent keys it may ever answer "maybe", if the stored ones stay the same.
    ///
    /// # Errors
    /// None, if the remote is in memory.
    fn outlook(&mut self) -> Result<Box<dyn Fn(Digest) -> bool + '_>> {
        Ok(Box::new(|_| true))
    }

    /// The probability that an absent key that was never asked for is answered
    /// "maybe".
    fn first_pass_rate(&self) -> f64;
}

impl Defender for Contestant {
    fn contains(&self, digest: Digest) -> bool {
        self.contains(digest)
    }

    fn screen(&self, digests: &[Digest], found: &mut [bool]) {
        self.screen(digests, found);
    }

    fn insert(&mut self, digest: Digest) -> Result<bool> {
        self.insert(digest)
    }

    fn remove(&mut self, digest: Digest) -> Result<bool> {
        self.remove(digest)
    }

    fn adapt(&mut self, digest: Digest) -> Result<bool> {
        let outcome = self.adapt(digest)?;
        Ok(self.may_change_in_vain() || outcome == Adapted::Fixed)
    }

    /// Of an adaptive filter of the library it takes 190 ns a query, which is more than to look it up
    /// ten times with others.
    fn outlook(&mut self) -> Result<Box<dyn Fn(Digest) -> bool + '_>> {
        if self.may_change_in_vain() { Ok(Box::new(|_| true)) } else { self.outlook() }
    }

    fn first_pass_rate(&self) -> f64 {
        self.first_pass_rate()
    }
}

/// How a game ends, in the adversary's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It found nothing.
    Nothing,
    /// This key is a false positive.
    Named(Key),
    /// The last round's rate is above the filter's, and this key, if any, was
    /// among its false positives.
    Sustained {
        /// A survivor.
        named: Option<Key>,
        /// Distinct queries of the last round.
        distinct: u64,
    },
}

/// What an adversary asked from one [`Oracle::end_round`] to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Lookups.
    pub queries: u64,
    /// Those that were false positives.
    pub false_positives: u64,
}

impl Round {
    /// False positives for each query; 0 where nothing was asked.
    #[must_use]
    pub fn rate(&self) -> f64 {
        self.false_positives as f64 / self.queries.max(1) as f64
    }
}

/// A game that is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// What was asked, round by round.
    pub rounds: Vec<Round>,
    /// The key that the adversary named, if any.
    pub named: Option<Key>,
    /// Whether that is a false positive at the end.
    pub named_is_false_positive: bool,
    /// Whether the adversary won, as defined [above](self).
    pub won: bool,
    /// The filter's first-pass rate when the game began.
    pub epsilon: f64,
    /// Stored keys that were denied: during the game, or each at its end. Not 0
    /// is a bug of the filter.
    pub false_negatives: u64,
}

impl Outcome {
    /// Lookups of the whole game.
    #[must_use]
    pub fn queries(&self) -> u64 {
        self.total().queries
    }

    /// The rate of the last round.
    #[must_use]
    pub fn last_round_rate(&self) -> f64 {
        self.rounds.last().map_or(0.0, Round::rate)
    }

    /// The rate of the whole game.
    #[must_use]
    pub fn overall_rate(&self) -> f64 {
        self.total().rate()
    }

    fn total(&self) -> Round {
        self.rounds.iter().fold(Round::default(), |sum, round| Round {
            queries: sum.queries + round.queries,
            false_positives: sum.false_positives + round.false_positives,
        })
    }
}

/// What the adversary talks to. It owns the set and the secret.
pub struct Oracle<'a> {
    filter: &'a mut dyn Defender,
    hasher: KeyHasher,
    /// By key. Keys that were handed out later and never stored are not in it.
    stored: Vec<bool>,
    keys: Key,
    next: Key,
    round: Round,
    rounds: Vec<Round>,
    false_negatives: u64,
    watch: &'a mut dyn FnMut(&[Round]),
}

impl<'a> Oracle<'a> {
    /// Stores the keys `0..keys` in a filter.
    fn new(
        filter: &'a mut dyn Defender,
        keys: Key,
        secret: u64,
        watch: &'a mut dyn FnMut(&[Round]),
    ) -> Result<Self> {
        let mut oracle = Oracle {
            filter,
            hasher: hasher(secret),
            stored: Vec::new(),
            keys,
            next: keys,
            round: Round::default(),
            rounds: Vec::new(),
            false_negatives: 0,
            watch,
        };
        (0..keys).try_for_each(|key| oracle.insert(key))?;
        Ok(oracle)
    }

    /// How many keys the filter was given: `0..keys`.
    #[must_use]
    pub fn keys(&self) -> Key {
        self.keys
    }

    /// That many keys that were never stored or asked for.
    pub fn fresh(&mut self, count: u64) -> std::ops::Range<Key> {
        let first = self.next;
        self.next += count;
        first..self.next
    }

    /// The answer, "present" or not. The filter is told of a false positive.
    pub fn lookup(&mut self, key: Key) -> bool {
        let digest = self.hasher.digest(key.to_le_bytes());
        let (answer, stored) = (self.filter.contains(digest), self.is_stored(key));
        self.round.queries += 1;
        if answer && !stored {
            self.round.false_positives += 1;
            self.filter.adapt(digest).expect("its remote is in memory");
        }
        self.false_negatives += u64::from(stored && !answer);
        answer
    }

    /// Takes out of these absent keys those that will be answered "absent" until a key is stored or
    /// removed, and says how many they are. To look them up tells nothing and changes nothing, so
    /// it is enough to [count](Oracle::lookups_in_vain) that.
    pub fn take_out_hopeless(&mut self, queries: &mut Vec<Key>) -> u64 {
        let all = queries.len();
        let may = self.filter.outlook().expect("its remote is in memory");
        queries.retain(|query| may(self.hasher.digest(query.to_le_bytes())));
        (all - queries.len()) as u64
    }

    /// Counts lookups of keys that were [taken out](Oracle::take_out_hopeless).
    pub fn lookups_in_vain(&mut self, lookups: u64) {
        self.round.queries += lookups;
    }

    /// Stores a key.
    ///
    /// # Errors
    /// [`twiceshy_filters::Error::Full`].
    ///
    /// # Panics
    /// If it is stored already, which is against the rules.
    pub fn insert(&mut self, key: Key) -> Result<()> {
        assert!(!self.is_stored(key), "key {key} is stored already");
        assert!(self.filter.insert(self.hasher.digest(key.to_le_bytes()))?, "key {key} is new");
        let at = usize::try_from(key).expect("keys are numbered from 0");
        self.stored.resize(self.stored.len().max(at + 1), false);
        self.stored[at] = true;
        Ok(())
    }

    /// Removes a key.
    ///
    /// # Errors
    /// None: the remote is in memory.
    ///
    /// # Panics
    /// If it is not stored, which is against the rules.
    pub fn delete(&mut self, key: Key) -> Result<()> {
        assert!(self.is_stored(key), "key {key} is not stored");
        assert!(self.filter.remove(self.hasher.digest(key.to_le_bytes()))?, "key {key} was stored");
        self.stored[usize::try_from(key).expect("it is stored")] = false;
        Ok(())
    }

    /// What was asked since the last call was a round. How it went.
    pub fn end_round(&mut self) -> Round {
        let round = std::mem::take(&mut self.round);
        self.rounds.push(round);
        (self.watch)(&self.rounds);
        round
    }

    fn is_stored(&self, key: Key) -> bool {
        usize::try_from(key).is_ok_and(|key| self.stored.get(key) == Some(&true))
    }

    fn is_false_positive(&self, key: Key) -> bool {
        !self.is_stored(key) && self.filter.contains(self.hasher.digest(key.to_le_bytes()))
    }

    fn denied(&self) -> u64 {
        let denied = |&key: &Key| {
            self.is_stored(key) && !self.filter.contains(self.hasher.digest(key.to_le_bytes()))
        };
        (0..self.stored.len() as Key).filter(denied).count() as u64
    }
}

/// Plays a game against an empty filter, with `keys` keys in its set. The seed
/// is the oracle's secret and tosses the adversary's coins.
///
/// # Errors
/// [`twiceshy_filters::Error::Full`] where the keys do not fit the filter.
pub fn play(
    filter: &mut dyn Defender,
    adversary: &dyn Adversary,
    keys: u64,
    seed: u64,
) -> Result<Outcome> {
    play_watched(filter, adversary, keys, seed, &mut |_| ())
}

/// [`play`], with a function that sees the rounds so far at the end of each.
///
/// # Errors
/// [`twiceshy_filters::Error::Full`] where the keys do not fit the filter.
pub fn play_watched(
    filter: &mut dyn Defender,
    adversary: &dyn Adversary,
    keys: u64,
    seed: u64,
    watch: &mut dyn FnMut(&[Round]),
) -> Result<Outcome> {
    let mut oracle = Oracle::new(filter, keys, seed, watch)?;
    let epsilon = oracle.filter.first_pass_rate();
    // The adversary's coins do not depend on the secret.
    let claim = adversary.play(&mut oracle, &mut rng(mix(seed)))?;
    debug_assert_eq!(oracle.round, Round::default(), "the last round was not ended");

    let named = match claim {
        Claim::Nothing => None,
        Claim::Named(key) => Some(key),
        Claim::Sustained { named, .. } => named,
    };
    let hit = named.is_some_and(|key| oracle.is_false_positive(key));
    let won = match claim {
        Claim::Sustained { distinct, .. } => {
            let last = oracle.rounds.last().map_or(0.0, Round::rate);
            is_above(last, MARGIN * epsilon, distinct)
        }
        Claim::Nothing | Claim::Named(_) => hit,
    };
    let false_negatives = oracle.false_negatives + oracle.denied();
    let rounds = oracle.rounds;
    Ok(Outcome { rounds, named, named_is_false_positive: hit, won, epsilon, false_negatives })
}

/// Whether a rate seen in `count` trials is above a probability by more than
/// [`CHANCE`] explains.
pub(crate) fn is_above(rate: f64, probability: f64, count: u64) -> bool {
    if rate <= probability {
        return false;
    }
    // 0 ln 0 is 0.
    let term = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
    let divergence = term(rate, probability) + term(1.0 - rate, 1.0 - probability);
    count as f64 * divergence > -CHANCE.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand: 3 of 3 at 1 % are 10^-6 exactly, 4 of 4 are 10^-8; 20 of 1,000 are
    /// twice the mean, exp(-1000 * 0.0039) = 0.02.
    #[test]
    fn a_rate_is_above_a_probability_by_more_than_chance() {
        for (rate, count, above) in [
            (1.0, 4, true),
            (1.0, 2, false),
            (0.02, 1000, false),
            (0.02, 10_000, true),
            (0.01, u64::MAX, false),
            (0.0, u64::MAX, false),
        ] {
            assert_eq!(is_above(rate, 0.01, count), above, "{rate} of {count}");
        }
        assert!(!is_above(1.0, 1.2, 1_000_000), "no rate is above every rate");
    }

    /// Keys that leave the filter behind the oracle's back are missed: when they are
    /// asked for, and at the end.
    #[test]
    fn false_negatives_are_counted() {
        let filter = "rsqf:f=32".parse::<twiceshy_filters::Spec>().unwrap().build(100).unwrap();
        let (mut filter, mut watch) = (Contestant::new(filter), |_: &[Round]| ());
        let mut oracle = Oracle::new(&mut filter, 100, 1, &mut watch).unwrap();
        assert!(oracle.lookup(7));
        assert_eq!((oracle.false_negatives, oracle.denied()), (0, 0));
        let digest = oracle.hasher.digest(7_u64.to_le_bytes());
        oracle.filter.remove(digest).unwrap();
        assert!(!oracle.lookup(7));
        assert_eq!((oracle.false_negatives, oracle.denied()), (1, 1));
    }

    /// Asks so many keys once, or the false positives among them again, and claims
    /// that its rate is high.
    struct Boaster {
        again: bool,
    }

    impl Adversary for Boaster {
        fn play(&self, oracle: &mut Oracle<'_>, _: &mut Rng) -> Result<Claim> {
            let mut queries: Vec<Key> = oracle.fresh(200_000).collect();
            let mut distinct = queries.len() as u64;
            queries.retain(|&query| oracle.lookup(query));
            oracle.end_round();
            if self.again {
                distinct = queries.len() as u64;
                queries.retain(|&query| oracle.lookup(query));
                oracle.end_round();
            }
            Ok(Claim::Sustained { named: queries.first().copied(), distinct })
        }
    }

    /// 740 of 200,000 queries are false positives: a rate of epsilon, which is no
    /// success even if the named key is one; asked again they are a rate of 1.
    #[test]
    fn a_sustained_rate_is_one_above_the_filters_own() {
        for again in [false, true] {
            let filter = "rsqf:f=8".parse::<twiceshy_filters::Spec>().unwrap().build(500).unwrap();
            let outcome = play(&mut Contestant::new(filter), &Boaster { again }, 500, 1).unwrap();
            assert_eq!((outcome.won, outcome.named_is_false_positive), (again, true));
        }
    }

    /// Deletes everything, and says so.
    struct Vandal;

    impl Adversary for Vandal {
        fn play(&self, oracle: &mut Oracle<'_>, _: &mut Rng) -> Result<Claim> {
            for key in 0..oracle.keys() {
                assert!(oracle.lookup(key), "stored");
                oracle.delete(key)?;
            }
            oracle.end_round();
            let present = (0..oracle.keys()).find(|&key| oracle.lookup(key));
            oracle.end_round();
            Ok(present.map_or(Claim::Nothing, Claim::Named))
        }
    }

    #[test]
    fn an_empty_filter_has_no_false_positives() {
        let filter = "rsqf:f=8".parse::<twiceshy_filters::Spec>().unwrap().build(500).unwrap();
        let mut seen = Vec::new();
        let outcome = play_watched(&mut Contestant::new(filter), &Vandal, 500, 1, &mut |rounds| {
            seen.push(rounds.len());
        });
        let outcome = outcome.unwrap();
        assert_eq!(seen, [1, 2]);
        assert_eq!((outcome.named, outcome.won, outcome.false_negatives), (None, false, 0));
        assert_eq!(outcome.queries(), 1000);
        assert_eq!(outcome.overall_rate(), 0.0, "answers that are right are no false positives");
    }
}
