//! An ordered set of digests: a fast table up to a known size, a trie beyond it.
//!
//! An insertion touches memory that is rarely in cache, and its outcome is not needed at once.
//! So insertions are deferred: the memory is prefetched, and the digest is placed after [`LATE`]
//! others, or before the next visit or removal.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::iter::from_fn;
use core::mem::take;
use core::ops::RangeInclusive;

use crate::digest::Digest;
use crate::digest_table::{DigestTable, NoRoom};
use crate::digest_trie::DigestTrie;
use crate::remote::EVERY_DIGEST;

/// The digests that are placed, and a few that are not yet.
#[derive(Clone, Default)]
pub(crate) struct DigestSet {
    placed: Placed,
    /// A ring: the oldest is the next to be replaced.
    late: [Option<Digest>; LATE],
    next: usize,
}

/// Digests to be placed at a time.
const LATE: usize = 8;

/// A table, and a trie from the first digest on that it has no room for.
#[derive(Clone)]
enum Placed {
    Table(DigestTable),
    Trie(DigestTrie),
}

impl DigestSet {
    /// An empty set with room for so many digests, which it keeps.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        DigestSet { placed: Placed::Table(DigestTable::new(capacity)), ..DigestSet::default() }
    }

    /// The set of these digests, which are sorted and differ.
    pub(crate) fn from_sorted(digests: &[Digest]) -> Self {
        let placed = Placed::Trie(DigestTrie::from_sorted(digests));
        DigestSet { placed, ..DigestSet::default() }
    }

    pub(crate) fn len(&self) -> usize {
        let is_new = |digest: &Digest| self.placed.range(*digest..=*digest).next().is_none();
        self.placed.len() + self.sorted_late().into_iter().filter(is_new).count()
    }

    /// Adds a digest, unless it is there.
    #[inline]
    pub(crate) fn insert(&mut self, digest: Digest) {
        self.prepare(digest);
        self.late[self.next] = Some(digest);
        self.next = (self.next + 1) % LATE;
    }

    /// Makes room for a digest among the deferred ones, and prefetches its memory.
    #[inline]
    pub(crate) fn prepare(&mut self, digest: Digest) {
        self.placed.prefetch(digest);
        if let Some(due) = self.late[self.next].take() {
            self.placed.insert(due);
        }
    }

    /// Places all digests.
    fn settle(&mut self) {
        for digest in take(&mut self.late).into_iter().flatten() {
            self.placed.insert(digest);
        }
    }

    /// Removes a digest; `false` when it was not there.
    pub(crate) fn remove(&mut self, digest: Digest) -> bool {
        self.settle();
        match &mut self.placed {
            Placed::Table(table) => table.remove(digest),
            Placed::Trie(trie) => trie.remove(digest),
        }
    }

    /// Visits the digests of a range in order.
    pub(crate) fn visit(&mut self, range: RangeInclusive<Digest>, visitor: &mut dyn FnMut(Digest)) {
        self.settle();
        match &self.placed {
            Placed::Table(table) => table.range(range).for_each(visitor),
            Placed::Trie(trie) => trie.range(range).for_each(visitor),
        }
    }

    /// All digests in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Digest> {
        let mut late = self.sorted_late().into_iter().peekable();
        let mut placed = self.placed.range(EVERY_DIGEST).peekable();
        from_fn(move || match (late.peek(), placed.peek()) {
            (Some(first), Some(other)) if first < other => late.next(),
            (first, Some(other)) => {
                if first == Some(other) {
                    late.next();
                }
                placed.next()
            }
            (_, None) => late.next(),
        })
    }

    /// The digests that are not placed yet, each once.
    fn sorted_late(&self) -> Vec<Digest> {
        let mut late: Vec<Digest> = self.late.into_iter().flatten().collect();
        late.sort_unstable();
        late.dedup();
        late
    }

    /// The heap memory that it holds, in bits, including allocator overhead.
    pub(crate) fn bits(&self) -> usize {
        match &self.placed {
            Placed::Table(table) => table.bits(),
            Placed::Trie(trie) => trie.bits(),
        }
    }
}

impl Placed {
    fn len(&self) -> usize {
        match self {
            Placed::Table(table) => table.len(),
            Placed::Trie(trie) => trie.len(),
        }
    }

    /// Adds a digest, unless it is there.
    fn insert(&mut self, digest: Digest) {
        match self {
            Placed::Trie(trie) => {
                trie.insert(digest);
            }
            Placed::Table(table) => {
                if let Err(NoRoom) = table.insert(digest) {
                    let mut digests = Vec::with_capacity(table.len());
                    digests.extend(table.range(EVERY_DIGEST));
                    // The table goes before the trie comes.
                    *self = Placed::default();
                    *self = Placed::Trie(DigestTrie::from_sorted(&digests));
                    self.insert(digest);
                }
            }
        }
    }

    /// The digests of a range in order.
    fn range(&self, range: RangeInclusive<Digest>) -> Box<dyn Iterator<Item = Digest> + '_> {
        match self {
            Placed::Table(table) => Box::new(table.range(range)),
            Placed::Trie(trie) => Box::new(trie.range(range)),
        }
    }

    /// Prefetches the memory that an insertion needs first.
    #[inline]
    fn prefetch(&self, digest: Digest) {
        match self {
            Placed::Table(table) => table.prefetch(digest),
            Placed::Trie(trie) => trie.prefetch(digest),
        }
    }
}

impl Default for Placed {
    fn default() -> Self {
        Placed::Trie(DigestTrie::default())
    }
}

impl PartialEq for DigestSet {
    /// The same digests, wherever they are.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl Eq for DigestSet {}

impl fmt::Debug for DigestSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use alloc::collections::BTreeSet;

    use super::*;
    use crate::digest_trie::tests::PATTERNS;
    use crate::rng::Rng;

    /// Insertions, removals and ranges of digests that are random and not, within
    /// the capacity and beyond it.
    #[test]
    fn it_agrees_with_a_tree_set() {
        let steps = if cfg!(miri) { 300 } else { 3000 };
        let (mut tables, mut most_late) = (0, 0);
        for (seed, pattern) in PATTERNS.into_iter().enumerate() {
            for capacity in [0, 1, 10, 200, 1000, 100_000] {
                let mut rng = Rng::new((seed * 1_000_000 + capacity) as u64);
                let mut set = DigestSet::with_capacity(capacity);
                let mut oracle = BTreeSet::new();
                let mut pool = vec![Digest::default(), Digest::new([u64::MAX; 2])];
                for step in 0..steps {
                    let seen = |pool: &[Digest], rng: &mut Rng| match rng.below(8) {
                        0 => pattern(rng),
                        _ => pool[rng.below(pool.len() as u64) as usize],
                    };
                    let insertions = if step < steps / 2 { 70 } else { 30 };
                    if rng.below(100) < insertions {
                        // The greatest ends a table; only at last is it one of these.
                        let digest = match rng.below(8) {
                            0 if step > 9 * steps / 10 => seen(&pool, &mut rng),
                            1 if pool.len() > 2 => pool[pool.len() - 1],
                            _ => pattern(&mut rng),
                        };
                        pool.push(digest);
                        if rng.below(2) == 0 {
                            set.prepare(digest);
                            assert_eq!(set.len(), oracle.len(), "that changed nothing");
                        }
                        set.insert(digest);
                        oracle.insert(digest);
                    } else {
                        let digest = seen(&pool, &mut rng);
                        assert_eq!(set.remove(digest), oracle.remove(&digest), "{digest:?}");
                    }
                    assert_eq!(set.len(), oracle.len());
                    let late = set.sorted_late().len();
                    most_late = late.max(most_late);
                    if late == LATE || step % 97 == 0 {
                        assert!(set.iter().eq(oracle.iter().copied()));
                        let sorted: Vec<Digest> = oracle.iter().copied().collect();
                        assert!(set == DigestSet::from_sorted(&sorted) && set.clone() == set);
                    }
                    // Each of these, and each removal, places those that are late.
                    if rng.below(8) > 0 {
                        continue;
                    }
                    let (start, end) = (seen(&pool, &mut rng), seen(&pool, &mut rng));
                    let mut visited = Vec::new();
                    set.visit(start..=end, &mut |digest| visited.push(digest));
                    if start <= end {
                        assert!(visited.iter().eq(oracle.range(start..=end)), "{start:?}, {end:?}");
                    } else {
                        assert_eq!(visited, [], "{start:?} to {end:?}");
                    }
                    if let Placed::Table(table) = &set.placed {
                        table.check().unwrap_or_else(|broken| panic!("{broken}"));
                        tables += 1;
                    }
                }
            }
        }
        // Tables of 1000 and more random digests at the least.
        assert!(tables > 2 * steps / 97, "{tables} times there was a table to check");
        assert_eq!(most_late, LATE, "digests at most that were not placed");
    }
}
