use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;

use super::*;
use crate::rng::Rng;

impl<const LEAF: usize, const WIDTH: usize> Branch<LEAF, WIDTH> {
    /// Checks all below; `used` bits of every digest are those of `prefix`.
    fn check(&self, prefix: u128, used: u32) -> Result<(), String> {
        let (width, below) = (self.children.len(), used + self.bits());
        if !width.is_power_of_two() || !(2..=WIDTH).contains(&width) || below > 128 {
            return Err(format!("a branch of {width} children at bit {used}"));
        }
        let weight: usize = self.children.iter().map(Node::weight).sum();
        if weight != self.weight {
            return Err(format!("children that weigh {weight} and not {}", self.weight));
        }
        for (index, child) in self.children.iter().enumerate() {
            let prefix = prefix | ((index as u128) << (128 - below));
            match child {
                Node::Branch(branch) if branch.is_sparse() => {
                    return Err(format!("{width} children weigh {weight} at bit {below}"));
                }
                Node::Branch(branch) => branch.check(prefix, below)?,
                Node::Leaf(digests) if digests.len() > LEAF => {
                    return Err(format!("{} digests in a leaf at bit {below}", digests.len()));
                }
                Node::Leaf(digests) if digests.capacity() >= digests.len() + STEP => {
                    return Err(format!(
                        "room for {} in a leaf of {}",
                        digests.capacity(),
                        digests.len()
                    ));
                }
                Node::Leaf(digests) => {
                    let here = |digest: &Digest| (digest.number() ^ prefix) >> (128 - below) == 0;
                    if !digests.is_sorted_by(|a, b| a < b) || !digests.iter().all(here) {
                        return Err(format!("a leaf at bit {below} has {digests:?}"));
                    }
                }
            }
        }
        Ok(())
    }
}

impl<const LEAF: usize, const WIDTH: usize> DigestTrie<LEAF, WIDTH> {
    /// Checks every invariant.
    fn check(&self) -> Result<(), String> {
        if self.root.is_sparse() && self.root.children.len() > 2 {
            return Err(format!("a root of {} children is sparse", self.root.children.len()));
        }
        if self.len != self.iter().count() {
            return Err(format!("{} digests and not {}", self.iter().count(), self.len));
        }
        if self.heap != self.root.heap() {
            return Err(format!("{} bytes and not {}", self.root.heap(), self.heap));
        }
        self.root.check(0, 0)
    }
}

/// Ways to choose digests, random and not.
pub(crate) const PATTERNS: [fn(&mut Rng) -> Digest; 7] = [
    |rng| Digest::new([rng.next(), rng.next()]),
    |rng| Digest::new([rng.below(3000), 0]),
    |rng| Digest::new([u64::MAX, u64::MAX - rng.below(3000)]),
    |rng| Digest::new([7, rng.next()]),
    |rng| Digest::new([rng.next() & 0xf000_0000_0000_001f, rng.next() & 0xff]),
    // As many digests with a long run of zeros as with a short one.
    |rng| Digest::new([rng.next() >> rng.below(64), rng.next() >> rng.below(64)]),
    // A pile among random ones.
    |rng| match rng.below(4) {
        0 => Digest::new([rng.next(), rng.next()]),
        _ => Digest::new([1 << 40, rng.below(1 << 20)]),
    },
];

fn check<const LEAF: usize, const WIDTH: usize>(
    trie: &DigestTrie<LEAF, WIDTH>,
    oracle: &BTreeSet<Digest>,
) {
    trie.check().unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(trie.len(), oracle.len());
    assert!(trie.iter().eq(oracle.iter().copied()));
}

/// Insertions, removals and ranges, in turns mostly of one kind.
fn play<const LEAF: usize, const WIDTH: usize>(steps: usize) {
    for (seed, pattern) in PATTERNS.into_iter().enumerate() {
        let mut rng = Rng::new(seed as u64);
        let mut trie = DigestTrie::<LEAF, WIDTH>::default();
        let mut oracle = BTreeSet::new();
        let mut pool = Vec::new();
        for step in 0..steps {
            let seen = |pool: &Vec<Digest>, rng: &mut Rng| match rng.below(4) {
                0 => pattern(rng),
                _ => {
                    pool.get(rng.below(pool.len() as u64 + 1) as usize).copied().unwrap_or_default()
                }
            };
            let insertions = if (step / (steps / 4)).is_multiple_of(2) { 80 } else { 20 };
            if rng.below(100) < insertions {
                let digest = pattern(&mut rng);
                pool.push(digest);
                trie.prefetch(digest);
                assert_eq!(trie.insert(digest), oracle.insert(digest), "{digest:?}");
            } else if !pool.is_empty() {
                let digest = pool.swap_remove(rng.below(pool.len() as u64) as usize);
                assert_eq!(trie.remove(digest), oracle.remove(&digest), "{digest:?}");
            }
            let (start, end) = (seen(&pool, &mut rng), seen(&pool, &mut rng));
            assert_eq!(trie.remove(end), oracle.remove(&end), "{end:?}");
            let few = trie.range(start..=end).take(5);
            if start <= end {
                assert!(few.eq(oracle.range(start..=end).take(5).copied()), "{start:?} to {end:?}");
            } else {
                assert_eq!(few.count(), 0, "{start:?} to {end:?}");
            }
            if let Some(&before) = oracle.range(..start).next_back() {
                let two = trie.range(before..=start);
                assert!(two.eq(oracle.range(before..=start).copied()), "{start:?}");
            }
            let one = trie.range(start..=start);
            assert!(one.eq(oracle.get(&start).copied()), "{start:?}");
            if step % 97 == 0 {
                check(&trie, &oracle);
                let sorted: Vec<Digest> = oracle.iter().copied().collect();
                let loaded = DigestTrie::from_sorted(&sorted);
                check(&loaded, &oracle);
                check(&trie.clone(), &oracle);
                assert!(loaded == trie && trie.clone() == loaded);
                if step % 2 == 0 {
                    trie = loaded;
                }
            }
        }
        check(&trie, &oracle);
        for digest in oracle {
            assert!(trie.remove(digest));
        }
        check(&trie, &BTreeSet::new());
    }
}

#[test]
fn it_agrees_with_a_tree_set() {
    let steps = if cfg!(miri) { 300 } else { 6000 };
    play::<3, 2>(steps);
    play::<4, 4>(steps);
    play::<5, 64>(steps);
    play::<16, 4>(steps);
    play::<96, 4096>(steps);
}

#[test]
fn equal_sets_are_equal_however_they_came_to_be() {
    let digests: Vec<Digest> = (0..500).map(|i| Digest::new([i << 50, i])).collect();
    let mut upwards = DigestTrie::<8, 16>::default();
    let mut downwards = upwards.clone();
    digests.iter().for_each(|&digest| assert!(upwards.insert(digest)));
    digests.iter().rev().for_each(|&digest| assert!(downwards.insert(digest)));
    assert_eq!(upwards, downwards);
    assert_eq!(upwards, DigestTrie::from_sorted(&digests));
    assert!(upwards.remove(digests[77]) && upwards.insert(Digest::new([77 << 50, 78])));
    assert_ne!(upwards, downwards);
}

/// Three of four children are branches, which weigh much, but hold little.
#[test]
fn a_branch_does_not_double_if_it_would_be_sparse() {
    let digest = |quarter: u64, i: u64| Digest::new([quarter << 62 | (i % 2) << 61 | i, 0]);
    let mut trie = DigestTrie::<10, 16>::default();
    let mut change = |quarter, numbers: RangeInclusive<u64>, insert: bool| {
        for i in numbers {
            let digest = digest(quarter, i);
            assert!(if insert { trie.insert(digest) } else { trie.remove(digest) });
            trie.check().unwrap_or_else(|broken| panic!("{broken}"));
        }
        trie.root.children.len()
    };
    (0..4).for_each(|quarter| assert!(change(quarter, 1..=8, true) <= 4));
    change(3, 1..=8, false);
    for quarter in 0..2 {
        change(quarter, 9..=11, true);
        change(quarter, 7..=11, false);
    }
    assert_eq!(change(2, 9..=11, true), 4);
    assert_eq!(trie.root.weight, 30, "three branches and an empty leaf");
}

fn shuffle(digests: &mut [Digest], rng: &mut Rng) {
    for at in (1..digests.len()).rev() {
        digests.swap(at, rng.below(at as u64 + 1) as usize);
    }
}

/// At most a quarter over 16 bytes a digest.
fn check_space(trie: &DigestTrie, when: &str) {
    let per_digest = trie.bits() as f64 / 8.0 / trie.len() as f64;
    assert!(per_digest <= 20.0, "{per_digest} bytes each for {} {when}", trie.len());
}

/// Insertions of all in order, and removals of all in `removals`, with the
/// space looked at whenever one in fifty has come or gone.
fn check_growth(digests: &[Digest], removals: &[Digest], from: usize, when: &str) {
    let mut trie = DigestTrie::default();
    let mut next = from;
    for &digest in digests {
        trie.insert(digest);
        if trie.len() >= next {
            check_space(&trie, when);
            next += next / 50;
        }
    }
    trie.check().unwrap_or_else(|broken| panic!("{broken}"));
    for &digest in removals {
        trie.remove(digest);
        if trie.len() <= next && next > from {
            check_space(&trie, when);
            next -= next / 50;
        }
    }
    trie.check().unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(trie.len(), 0, "{when}");
}

#[test]
#[cfg_attr(miri, ignore = "too many digests")]
fn random_digests_take_a_quarter_over_16_bytes() {
    let mut rng = Rng::new(5);
    let mut digests: Vec<Digest> = (0..300_000).map(|_| PATTERNS[0](&mut rng)).collect();
    let arrived = digests.clone();
    shuffle(&mut digests, &mut rng);
    check_growth(&arrived, &digests, 2000, "at random");
    digests.sort_unstable();
    check_growth(&digests, &digests, 2000, "in order");
    let mut len = 2000;
    while len < digests.len() {
        check_space(&DigestTrie::from_sorted(&digests[..len]), "low digests loaded");
        let mut sample = arrived[..len].to_vec();
        sample.sort_unstable();
        check_space(&DigestTrie::from_sorted(&sample), "random digests loaded");
        len += len / 7;
    }
}

#[test]
#[cfg_attr(miri, ignore = "too many digests")]
fn counted_digests_in_any_order_are_as_small() {
    let mut rng = Rng::new(6);
    for make in [|i| Digest::new([i, 0]), |i| Digest::new([9, i]), |i| Digest::new([i << 44, i])] {
        let counted: Vec<Digest> = (0..200_000).map(make).collect();
        let (mut reversed, mut shuffled) = (counted.clone(), counted.clone());
        reversed.reverse();
        shuffle(&mut shuffled, &mut rng);
        // With fewer, the hundred branches before the first bit that differs
        // weigh more.
        check_growth(&counted, &reversed, 10_000, "counted");
        check_growth(&reversed, &shuffled, 10_000, "reversed");
        check_growth(&shuffled, &counted, 10_000, "shuffled");
        check_space(&DigestTrie::from_sorted(&counted), "loaded");
    }
}
