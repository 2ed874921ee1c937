//! The adaptive cuckoo filters of the papers, slow and obvious: an array of whole
//! digests, and fingerprints that are computed when they are compared.
//!
//! Kopelowitz, McCauley, Porat, "Support Optimality and Adaptive Cuckoo Filters",
//! section 2. What the library's filters differ in is a parameter here, so that a
//! test can say which rule makes a difference.

use rand::RngExt;
use twiceshy_filters::{Digest, Error, Result};
use twiceshy_lab::adversary::game::Defender;
use twiceshy_lab::random::{Rng, mix, rng};

/// How a stored key is made to differ from a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// 2.4: the next of so many selectors.
    Cyclic(u32),
    /// 2.5: another slot of the bin.
    Swapping,
    /// 2.3: the next table, and whoever is there goes on as in an insertion.
    Cuckooing,
    /// The same, but whoever is driven out goes to its next table as well, also where
    /// another of its cells is empty.
    CuckooingInTurn,
}

/// Which of the stored keys that collide with a query are fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fixes {
    /// "If multiple x collide with q, this procedure is repeated for each such x."
    Every,
    /// Only the one in the first table, and in the first slot there.
    First,
}

/// A filter.
pub struct Reference {
    rule: Rule,
    fixes: Fixes,
    tables: usize,
    slots: usize,
    /// Of each table.
    bins: usize,
    /// Of a fingerprint.
    bits: u32,
    cells: Vec<Option<Stored>>,
    coins: Rng,
    /// Keys that fixes moved, and false positives that were fixed.
    moves: u64,
    adapted: u64,
}

#[derive(Clone, Copy)]
struct Stored {
    digest: Digest,
    selector: usize,
}

/// So many times as many moves as the logarithm of the cells, and an insertion or a fix is
/// given up.
const PATIENCE: u32 = 64;

impl Reference {
    /// An empty filter for so many keys at that load.
    pub fn new(
        (rule, fixes): (Rule, Fixes),
        (tables, slots): (usize, usize),
        bits: u32,
        (keys, load): (u64, f64),
        seed: u64,
    ) -> Self {
        let bins = (keys as f64 / (load * (tables * slots) as f64)).ceil() as usize;
        let cells = vec![None; tables * bins * slots];
        let coins = rng(mix(seed));
        Reference { rule, fixes, tables, slots, bins, bits, cells, coins, moves: 0, adapted: 0 }
    }

    fn len(&self) -> usize {
        self.cells.iter().flatten().count()
    }

    fn hash(digest: Digest, number: usize) -> u64 {
        let [first, second] = digest.words();
        mix(first ^ mix(second.wrapping_add(number as u64)))
    }

    /// The cells of a key in a table.
    fn cells_in(&self, digest: Digest, table: usize) -> std::ops::Range<usize> {
        let bin = Self::hash(digest, table) % self.bins as u64;
        let start = (table * self.bins + bin as usize) * self.slots;
        start..start + self.slots
    }

    fn table_of(&self, cell: usize) -> usize {
        cell / self.slots / self.bins
    }

    /// A key's fingerprint, as a cell with that selector would have it.
    fn fingerprint(&self, digest: Digest, cell: usize, selector: usize) -> u64 {
        let function = match self.rule {
            Rule::Cyclic(_) => selector,
            Rule::Swapping => cell % self.slots,
            Rule::Cuckooing | Rule::CuckooingInTurn => self.table_of(cell),
        };
        Self::hash(digest, self.tables + function) >> (64 - self.bits)
    }

    fn collides(&self, query: Digest, cell: usize) -> bool {
        self.cells[cell].is_some_and(|Stored { digest, selector }| {
            let fingerprint = |digest| self.fingerprint(digest, cell, selector);
            fingerprint(digest) == fingerprint(query)
        })
    }

    fn colliding(&self, query: Digest) -> Vec<usize> {
        let cells = (0..self.tables).flat_map(|table| self.cells_in(query, table));
        cells.filter(|&cell| self.collides(query, cell)).collect()
    }

    fn empty_of(&self, digest: Digest, mut tables: impl Iterator<Item = usize>) -> Option<usize> {
        tables
            .find_map(|table| self.cells_in(digest, table).find(|&cell| self.cells[cell].is_none()))
    }

    /// Keys that were moved for a false positive, on average.
    pub fn moves_of_a_fix(&self) -> f64 {
        self.moves as f64 / self.adapted as f64
    }

    fn put(&mut self, cell: usize, digest: Digest) -> Option<Stored> {
        self.moves += u64::from(self.adapted > 0);
        self.cells[cell].replace(Stored { digest, selector: 0 })
    }

    /// Puts a key into a table, and moves others on. `false`, and all is as it was, when
    /// that takes too many moves.
    fn place(&mut self, digest: Digest, table: usize) -> bool {
        let mut driven_out = Vec::new();
        let (mut homeless, mut next) = (digest, table);
        for step in 0..PATIENCE * self.cells.len().ilog2() {
            let in_next = self.empty_of(homeless, std::iter::once(next));
            let may_choose = step > 0 && self.rule != Rule::CuckooingInTurn;
            let anywhere = || self.empty_of(homeless, (0..self.tables).filter(|_| may_choose));
            if let Some(cell) = in_next.or_else(anywhere) {
                self.put(cell, homeless);
                return true;
            }
            let cell = self.cells_in(homeless, next).start + self.coins.random_range(0..self.slots);
            let stored = self.put(cell, homeless).expect("no cell there is empty");
            driven_out.push((cell, stored));
            (homeless, next) = (stored.digest, (next + 1) % self.tables);
        }
        for (cell, stored) in driven_out.into_iter().rev() {
            self.cells[cell] = Some(stored);
        }
        false
    }

    fn fix(&mut self, cell: usize) {
        let Some(Stored { digest, selector }) = self.cells[cell] else { return };
        match self.rule {
            Rule::Cyclic(selectors) => {
                let selector = (selector + 1) % selectors as usize;
                self.cells[cell] = Some(Stored { digest, selector });
            }
            Rule::Swapping => {
                let others: Vec<usize> = {
                    let start = cell - cell % self.slots;
                    (start..start + self.slots).filter(|&other| other != cell).collect()
                };
                let other = others[self.coins.random_range(0..others.len())];
                self.cells.swap(cell, other);
            }
            Rule::Cuckooing | Rule::CuckooingInTurn => {
                self.cells[cell] = None;
                if !self.place(digest, (self.table_of(cell) + 1) % self.tables) {
                    self.cells[cell] = Some(Stored { digest, selector });
                }
            }
        }
    }
}

impl Defender for Reference {
    fn contains(&self, digest: Digest) -> bool {
        !self.colliding(digest).is_empty()
    }

    fn insert(&mut self, digest: Digest) -> Result<bool> {
        if let Some(cell) = self.empty_of(digest, 0..self.tables) {
            self.put(cell, digest);
            return Ok(true);
        }
        let table = self.coins.random_range(0..self.tables);
        let full = Error::Full { digest, len: self.len(), capacity: self.cells.len() };
        self.place(digest, table).then_some(true).ok_or(full)
    }

    fn remove(&mut self, digest: Digest) -> Result<bool> {
        let is_it = |cell: &Option<Stored>| cell.is_some_and(|stored| stored.digest == digest);
        let cell = self.cells.iter_mut().find(|cell| is_it(cell));
        Ok(cell.and_then(Option::take).is_some())
    }

    fn adapt(&mut self, digest: Digest) -> Result<bool> {
        self.adapted += 1;
        let fixed = match self.fixes {
            Fixes::Every => self.cells.len(),
            Fixes::First => 1,
        };
        for cell in self.colliding(digest).into_iter().take(fixed) {
            // The fix of another may have moved this one.
            if self.collides(digest, cell) {
                self.fix(cell);
            }
        }
        Ok(true)
    }

    fn first_pass_rate(&self) -> f64 {
        let load = self.len() as f64 / self.cells.len() as f64;
        load * (self.tables * self.slots) as f64 * (-f64::from(self.bits)).exp2()
    }
}
