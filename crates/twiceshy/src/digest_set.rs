//! A set of digests in order that is fast up to a size and goes on beyond it.

use std::fmt;
use std::ops::RangeInclusive;

use crate::digest::Digest;
use crate::digest_table::{DigestTable, NoRoom};
use crate::digest_trie::DigestTrie;
use crate::remote::EVERY_DIGEST;

/// A table, and a trie from the first digest on that it has no room for.
#[derive(Clone)]
pub(crate) enum DigestSet {
    Table(DigestTable),
    Trie(DigestTrie),
}

impl DigestSet {
    /// An empty set with room for so many digests, which it keeps.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        DigestSet::Table(DigestTable::new(capacity))
    }

    /// The set of these digests, which are sorted and differ.
    pub(crate) fn from_sorted(digests: &[Digest]) -> Self {
        DigestSet::Trie(DigestTrie::from_sorted(digests))
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            DigestSet::Table(table) => table.len(),
            DigestSet::Trie(trie) => trie.len(),
        }
    }

    /// Adds a digest; `false` when it was there.
    pub(crate) fn insert(&mut self, digest: Digest) -> bool {
        match self {
            DigestSet::Trie(trie) => trie.insert(digest),
            DigestSet::Table(table) => match table.insert(digest) {
                Ok(inserted) => inserted,
                Err(NoRoom) => {
                    let mut digests = Vec::with_capacity(self.len());
                    digests.extend(self.iter());
                    // The table goes before the trie comes.
                    *self = DigestSet::default();
                    *self = DigestSet::from_sorted(&digests);
                    self.insert(digest)
                }
            },
        }
    }

    /// Removes a digest; `false` when it was not there.
    pub(crate) fn remove(&mut self, digest: Digest) -> bool {
        match self {
            DigestSet::Table(table) => table.remove(digest),
            DigestSet::Trie(trie) => trie.remove(digest),
        }
    }

    /// Visits the digests of a range in order.
    pub(crate) fn visit(&self, range: RangeInclusive<Digest>, visitor: &mut dyn FnMut(Digest)) {
        match self {
            DigestSet::Table(table) => table.range(range).for_each(visitor),
            DigestSet::Trie(trie) => trie.range(range).for_each(visitor),
        }
    }

    /// All digests in order.
    pub(crate) fn iter(&self) -> Box<dyn Iterator<Item = Digest> + '_> {
        match self {
            DigestSet::Table(table) => Box::new(table.range(EVERY_DIGEST)),
            DigestSet::Trie(trie) => Box::new(trie.iter()),
        }
    }

    /// Asks for the memory that an insertion of a digest needs first.
    #[inline]
    pub(crate) fn prefetch(&self, digest: Digest) {
        match self {
            DigestSet::Table(table) => table.prefetch(digest),
            DigestSet::Trie(trie) => trie.prefetch(digest),
        }
    }

    /// The heap that it holds in bits, with what an allocator adds.
    pub(crate) fn bits(&self) -> usize {
        match self {
            DigestSet::Table(table) => table.bits(),
            DigestSet::Trie(trie) => trie.bits(),
        }
    }
}

impl Default for DigestSet {
    fn default() -> Self {
        DigestSet::Trie(DigestTrie::default())
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
    use std::collections::BTreeSet;

    use super::*;
    use crate::digest_trie::tests::PATTERNS;
    use crate::rng::Rng;

    /// Insertions, removals and ranges of digests that are random and not, within
    /// the capacity and beyond it.
    #[test]
    fn it_agrees_with_a_tree_set() {
        let steps = if cfg!(miri) { 300 } else { 3000 };
        let mut tables = 0;
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
                        let again = rng.below(8) == 0 && step > 9 * steps / 10;
                        let digest = if again { seen(&pool, &mut rng) } else { pattern(&mut rng) };
                        pool.push(digest);
                        set.prefetch(digest);
                        assert_eq!(set.insert(digest), oracle.insert(digest), "{digest:?}");
                    } else {
                        let digest = seen(&pool, &mut rng);
                        assert_eq!(set.remove(digest), oracle.remove(&digest), "{digest:?}");
                    }
                    assert_eq!(set.len(), oracle.len());
                    let (start, end) = (seen(&pool, &mut rng), seen(&pool, &mut rng));
                    let mut visited = Vec::new();
                    set.visit(start..=end, &mut |digest| visited.push(digest));
                    if start <= end {
                        assert!(visited.iter().eq(oracle.range(start..=end)), "{start:?}, {end:?}");
                    } else {
                        assert_eq!(visited, [], "{start:?} to {end:?}");
                    }
                    if step % 97 == 0 {
                        assert!(set.iter().eq(oracle.iter().copied()));
                        let sorted: Vec<Digest> = oracle.iter().copied().collect();
                        assert!(set == DigestSet::from_sorted(&sorted) && set.clone() == set);
                        if let DigestSet::Table(table) = &set {
                            table.check().unwrap_or_else(|broken| panic!("{broken}"));
                            tables += 1;
                        }
                    }
                }
            }
        }
        // Tables of 1000 and more random digests at the least.
        assert!(tables > 2 * steps / 97, "{tables} times there was a table to check");
    }
}
