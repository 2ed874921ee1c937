//! Players that see answers only, and the [game] they play.
//!
//! ```
//! use twiceshy_lab::adversary::{Attack, Target, game::play};
//! use twiceshy_lab::entrants;
//!
//! let mut filter = entrants::parse("rsqf").unwrap().0[0].build(1000)?;
//! let target = Target::new(&filter, 1000, 10.0);
//! let outcome = play(&mut filter, &*Attack::Repeat.on(&target), 1000, 1)?;
//! assert!(outcome.won, "a filter that does not adapt");
//! # Ok::<(), twiceshy_filters::Error>(())
//! ```

use twiceshy_filters::Spec;

use crate::contestant::Contestant;
use crate::design::Design;

pub mod deletion_timing;
pub mod game;
pub mod persistence;
pub mod recall;
pub mod repeat;
pub mod rounds;
pub mod telescoping;
pub mod theorem_10;
pub mod theorem_12;
pub mod theorem_9;

/// `|Q|` of `|S|` keys and `|Q|/|S|`: at least one query.
#[must_use]
pub fn queries(keys: u64, ratio: f64) -> u64 {
    ((keys as f64 * ratio).round() as u64).max(1)
}

/// Every adversary, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// [`repeat`].
    Repeat,
    /// [`rounds`].
    Rounds,
    /// [`telescoping`].
    Telescoping,
    /// [`theorem_9`].
    Theorem9,
    /// [`theorem_10`].
    Theorem10,
    /// [`theorem_12`].
    Theorem12,
    /// [`deletion_timing`].
    DeletionTiming,
    /// [`recall`].
    Recall,
}

/// What an adversary knows of a filter (everything but its secret), and how many queries it may
/// make.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    design: Design,
    cells: u64,
    keys: u64,
    queries: u64,
}

impl Target {
    /// A filter for that many keys, and `ratio` distinct queries for each.
    #[must_use]
    pub fn new(filter: &Contestant, keys: u64, ratio: f64) -> Self {
        let cells = filter.stats().cells as u64;
        Target { design: filter.design(), cells, keys, queries: queries(keys, ratio) }
    }

    /// A parameter of the filter; 1 where it has no such parameter.
    fn parameter(&self, name: &str) -> u32 {
        self.design.number(name).unwrap_or(1)
    }

    /// Fingerprints that a cell can hold for a key.
    fn selectors(&self) -> u32 {
        let selectors = 1 << self.design.number("s").unwrap_or(0);
        if matches!(self.design, Design::Library(Spec::Varying(_))) {
            selectors + 1
        } else {
            selectors
        }
    }

    /// The number of hashes that the filter can choose from for a stored key: selectors, cells
    /// of a bin, or tables. Two for a filter without a choice, or without a limit.
    fn hashes(&self) -> u32 {
        match self.design.library() {
            Some(Spec::Cyclic(_) | Spec::Varying(_)) => self.selectors(),
            Some(Spec::Swapping(_)) => self.parameter("b"),
            Some(Spec::Cuckooing(_)) => self.parameter("k"),
            _ => 2,
        }
    }
}

impl Attack {
    /// All of them.
    pub const ALL: [Attack; 8] = [
        Attack::Repeat,
        Attack::Rounds,
        Attack::Telescoping,
        Attack::Theorem9,
        Attack::Theorem10,
        Attack::Theorem12,
        Attack::DeletionTiming,
        Attack::Recall,
    ];

    /// The name on the command line and in rows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Attack::Repeat => "repeat",
            Attack::Rounds => "rounds",
            Attack::Telescoping => "telescoping",
            Attack::Theorem9 => "theorem-9",
            Attack::Theorem10 => "theorem-10",
            Attack::Theorem12 => "theorem-12",
            Attack::DeletionTiming => "deletion-timing",
            Attack::Recall => "recall",
        }
    }

    /// What it does, in one sentence.
    #[must_use]
    pub const fn summary(self) -> &'static str {
        match self {
            Attack::Repeat => "asks one false positive again and again",
            Attack::Rounds => "asks all queries, then only the false positives of each round",
            Attack::Telescoping => {
                "asks in rounds of ten passes, and drops what was never positive"
            }
            Attack::Theorem9 => "looks for a query that shares all selectors of a stored key",
            Attack::Theorem10 => "looks for a query that shares all cells of a stored key",
            Attack::Theorem12 => "looks for queries that cannot all be fixed at once",
            Attack::DeletionTiming => "deletes and inserts the key that a false positive is due to",
            Attack::Recall => "asks every false positive of all rounds again in each round",
        }
    }

    /// The adversary against a filter. Theorems 9 and 10 differ only in what they count as the
    /// filter's choices: its selectors, or its cells.
    #[must_use]
    pub fn on(self, target: &Target) -> Box<dyn game::Adversary> {
        let (bits, queries) = (target.parameter("f"), target.queries);
        match self {
            Attack::Repeat => Box::new(repeat::Repeat { queries }),
            Attack::Rounds => Box::new(rounds::Rounds { queries }),
            Attack::Telescoping => Box::new(telescoping::Telescoping { queries }),
            Attack::Theorem9 => {
                Box::new(theorem_9::theorem_9(target.selectors(), bits).at_most(queries))
            }
            Attack::Theorem10 => {
                Box::new(theorem_10::theorem_10(target.parameter("b"), bits).at_most(queries))
            }
            Attack::Theorem12 => {
                let hashes = target.hashes();
                let bins = target.cells / u64::from(hashes);
                let attack = theorem_12::Theorem12::new(hashes, bins, bits, target.keys);
                Box::new(attack.at_most(queries))
            }
            Attack::DeletionTiming => Box::new(deletion_timing::DeletionTiming { queries }),
            Attack::Recall => {
                Box::new(recall::Recall { fresh: queries.div_ceil(recall::ROUNDS as u64) })
            }
        }
    }
}
