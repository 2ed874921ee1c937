//! An ordered set of digests in little more than 16 bytes each.
//!
//! A trie over the bits of the digests with level compression (Nilsson and
//! Tikkanen, "Implementing a Dynamic Compressed Trie", WAE 1998) whose leaves are
//! sorted lists (Heinz, Zobel and Williams, "Burst Tries", 2002):
//!
//! ```text
//! root      [ 00 │ 01 │ 10 │ 11 ]         2 to WIDTH children by the next bits
//!              │    │
//!              │    └ leaf: up to LEAF digests that start with 01, sorted
//!              └ branch [ 0 │ 1 ]
//!                         │   └ leaf: digests that start with 001
//!                         └ leaf: digests that start with 000
//! ```
//!
//! A leaf that is too long bursts into a branch of two. A branch whose children are full
//! doubles: each makes way for its two halves. One whose children are empty halves. Random
//! digests are therefore one or two steps from the root, whatever their number; adversarial
//! digests are at most one step per bit. An insertion moves at most the digests of one branch's
//! leaves.
//!
//! Within a leaf, a digest's next bits predict its place. A leaf's capacity follows its length
//! in small steps, so that a half-full leaf takes half the memory.

use alloc::vec::Vec;
use core::ops::RangeInclusive;
use core::{fmt, iter, mem};

use crate::bits::prefetch::prefetch;
use crate::digest::{Digest, reduce32};
use crate::remote::EVERY_DIGEST;

/// Digests in order: up to `LEAF` of them, three or more, in a leaf, and up to
/// `WIDTH` children in a branch, a power of two. Tests make both tiny, so that
/// rare paths are common.
///
/// With leaves half as long the set is no faster and a byte a key larger. A root of
/// 16,384 children would have the leaves of 10^6 digests one step away instead of two, and
/// spare a fifth of an insertion; but the doubling to so many is one insertion of 4 ms, and
/// servers have other requests waiting.
pub(crate) struct DigestTrie<const LEAF: usize = 96, const WIDTH: usize = 2048> {
    root: Branch<LEAF, WIDTH>,
    len: usize,
    /// Bytes on the heap, with what an allocator adds. Every change counts what it does to them, as
    /// looking at all leaves takes half a millisecond with 10^7 digests.
    heap: usize,
}

/// Two or more nodes, one for each value of the next bits.
#[derive(Clone)]
struct Branch<const LEAF: usize, const WIDTH: usize> {
    children: Vec<Node<LEAF, WIDTH>>,
    /// The sum of what the children weigh.
    weight: usize,
}

#[derive(Clone)]
enum Node<const LEAF: usize, const WIDTH: usize> {
    Leaf(Vec<Digest>),
    Branch(Branch<LEAF, WIDTH>),
}

/// Room in a leaf comes and goes in pieces of that many digests: always less than
/// one piece is empty.
const STEP: usize = 8;

/// Whether a digest was added.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inserted {
    /// It was there.
    No,
    Yes,
    /// Yes, and a leaf burst.
    Burst,
}

/// Where a digest is in a leaf, or where it would be put. All digests of the leaf
/// have the first `used` bits in common.
///
/// Numbers are compared, which is free of branches. From the guess it goes step by
/// step: a binary search around the guess was slower, and one of the whole leaf
/// touches more cache lines.
#[inline]
fn search(digests: &[Digest], digest: Digest, used: u32) -> Result<usize, usize> {
    let mut at = guess(digest, digests.len(), used);
    let target = digest.number();
    while at < digests.len() && digests[at].number() < target {
        at += 1;
    }
    while at > 0 && digests[at - 1].number() >= target {
        at -= 1;
    }
    if digests.get(at) == Some(&digest) { Ok(at) } else { Err(at) }
}

/// About where a digest is in a leaf of so many.
#[inline]
fn guess(digest: Digest, len: usize, used: u32) -> usize {
    reduce32(digest.bits(used, 32), len as u64) as usize
}

impl<const LEAF: usize, const WIDTH: usize> Node<LEAF, WIDTH> {
    /// What it adds to the weight of its branch: a branch, what a full leaf does.
    fn weight(&self) -> usize {
        match self {
            Node::Leaf(digests) => digests.len(),
            Node::Branch(_) => LEAF,
        }
    }

    fn leaf(digests: &[Digest]) -> Self {
        let mut list = Vec::with_capacity(digests.len().next_multiple_of(STEP));
        list.extend_from_slice(digests);
        Node::Leaf(list)
    }

    /// Bytes on the heap, with what an allocator adds. It looks at every leaf.
    fn heap(&self) -> usize {
        match self {
            Node::Leaf(digests) => allocated(digests),
            Node::Branch(branch) => branch.heap(),
        }
    }

    /// A branch of two such halves, or one leaf if that is enough.
    fn joined(halves: [Self; 2]) -> Self {
        match halves {
            [Node::Leaf(mut left), Node::Leaf(right)] if left.len() + right.len() <= LEAF => {
                left.reserve_exact(right.len());
                left.extend(right);
                Node::Leaf(left)
            }
            halves => Node::Branch(Branch::new(halves.into())),
        }
    }

    /// What has a 0 as bit number `used`, and what has a 1.
    fn halves(self, used: u32) -> [Self; 2] {
        match self {
            Node::Leaf(digests) => {
                let (left, right) =
                    digests.split_at(digests.partition_point(|digest| digest.bits(used, 1) == 0));
                [Self::leaf(left), Self::leaf(right)]
            }
            Node::Branch(Branch { mut children, .. }) => {
                let right = children.split_off(children.len() / 2);
                children.shrink_to_fit();
                [children, right].map(|half| Branch::new(half).settled())
            }
        }
    }

    /// Sorted digests with the first `used` bits in common, more of them than a
    /// leaf holds or not.
    fn from_sorted(digests: &[Digest], used: u32) -> Self {
        if digests.len() <= LEAF {
            return Self::leaf(digests);
        }
        Branch::from_sorted(digests, used).settled()
    }
}

impl<const LEAF: usize, const WIDTH: usize> Branch<LEAF, WIDTH> {
    fn new(children: Vec<Node<LEAF, WIDTH>>) -> Self {
        let weight = children.iter().map(Node::weight).sum();
        Branch { children, weight }
    }

    /// The simplest node that can stand for it.
    fn settled(mut self) -> Node<LEAF, WIDTH> {
        while self.is_sparse() && self.children.len() > 1 {
            self.halve();
        }
        if self.children.len() > 1 { Node::Branch(self) } else { self.children.remove(0) }
    }

    /// The branch of sorted digests, with half-full leaves if they are random.
    fn from_sorted(mut digests: &[Digest], used: u32) -> Self {
        let width = (4 * digests.len()).div_ceil(3 * LEAF).next_power_of_two().clamp(2, WIDTH);
        let bits = width.ilog2();
        let children = (0..width as u64).map(|index| {
            let end = digests.partition_point(|digest| digest.bits(used, bits) <= index);
            let (first, rest) = digests.split_at(end);
            digests = rest;
            Node::from_sorted(first, used + bits)
        });
        Branch::new(children.collect())
    }

    /// How many bits choose among the children.
    #[inline]
    fn bits(&self) -> u32 {
        self.children.len().trailing_zeros()
    }

    /// Which child a digest belongs to.
    #[inline]
    fn index(&self, digest: Digest, used: u32) -> usize {
        digest.bits(used, self.bits()) as usize
    }

    fn is_sparse(&self) -> bool {
        sparse::<LEAF>(self.weight, self.children.len())
    }

    /// Enough digests for twice as many children, and some to spare, so that a
    /// branch does not double and halve in turns.
    fn is_dense(&self) -> bool {
        self.weight * 4 >= self.children.len() * LEAF * 3
    }

    /// Adds a digest, and to `heap` the bytes that it takes.
    fn insert(&mut self, digest: Digest, used: u32, heap: &mut usize) -> Inserted {
        let index = self.index(digest, used);
        let below = used + self.bits();
        let child = &mut self.children[index];
        let inserted = match child {
            Node::Branch(branch) => branch.insert(digest, below, heap),
            Node::Leaf(digests) => {
                let Err(at) = search(digests, digest, below) else { return Inserted::No };
                if digests.len() == digests.capacity() {
                    *heap -= allocated(digests);
                    digests.reserve_exact(STEP);
                    *heap += allocated(digests);
                }
                digests.insert(at, digest);
                if digests.len() <= LEAF {
                    self.weight += 1;
                    return Inserted::Yes;
                }
                // The leaf was full, and a branch weighs as much.
                *heap -= allocated(digests);
                *child = Node::from_sorted(digests, below);
                *heap += child.heap();
                Inserted::Burst
            }
        };
        if inserted == Inserted::Burst && self.children.len() < WIDTH && self.is_dense() {
            self.double(below, heap);
        }
        inserted
    }

    /// Removes a digest, and from `heap` the bytes that it took; `false` when it was not there. It
    /// may leave the branch sparse.
    fn remove(&mut self, digest: Digest, used: u32, heap: &mut usize) -> bool {
        let index = self.index(digest, used);
        let below = used + self.bits();
        let child = &mut self.children[index];
        self.weight -= child.weight();
        let removed = match child {
            Node::Leaf(digests) => {
                let found = search(digests, digest, below);
                if let Ok(at) = found {
                    digests.remove(at);
                    if digests.capacity() - digests.len() >= STEP {
                        *heap -= allocated(digests);
                        digests.shrink_to(digests.len().next_multiple_of(STEP));
                        *heap += allocated(digests);
                    }
                }
                found.is_ok()
            }
            Node::Branch(branch) => {
                let removed = branch.remove(digest, below, heap);
                if branch.is_sparse() {
                    *heap -= branch.heap();
                    *child = Branch::new(mem::take(&mut branch.children)).settled();
                    *heap += child.heap();
                }
                removed
            }
        };
        self.weight += self.children[index].weight();
        removed
    }

    /// Gives each half of a child its own place, if that leaves the branch
    /// not sparse.
    fn double(&mut self, below: u32, heap: &mut usize) {
        // Of a wide branch, which is not sparse, one half at least is a branch.
        let halves = |child: &Node<LEAF, WIDTH>| match child {
            Node::Branch(branch) if branch.children.len() == 2 => branch.weight,
            other => other.weight(),
        };
        let weight: usize = self.children.iter().map(halves).sum();
        if !sparse::<LEAF>(weight, 2 * self.children.len()) {
            *heap -= self.heap();
            let children = mem::take(&mut self.children).into_iter();
            *self = Branch::new(children.flat_map(|child| child.halves(below)).collect());
            *heap += self.heap();
        }
    }

    /// Makes one child of each two.
    fn halve(&mut self) {
        let width = self.children.len() / 2;
        let mut children = mem::take(&mut self.children).into_iter();
        let mut next = || children.next().expect("an even number of children");
        *self = Branch::new((0..width).map(|_| Node::joined([next(), next()])).collect());
    }

    /// Bytes on the heap, with what an allocator adds. It looks at every leaf.
    fn heap(&self) -> usize {
        allocated(&self.children) + self.children.iter().map(Node::heap).sum::<usize>()
    }
}

/// Too few digests for so many children. With fewer than three tenths of a full
/// leaf each, what comes with a leaf is more than a quarter of its digests.
fn sparse<const LEAF: usize>(weight: usize, children: usize) -> bool {
    weight * 10 < children * LEAF * 3
}

/// What an allocator adds to each piece of memory: a word, and padding to an
/// even number of them.
const ALLOCATION: usize = 16;

fn allocated<T>(items: &Vec<T>) -> usize {
    match items.capacity() {
        0 => 0,
        capacity => capacity * size_of::<T>() + ALLOCATION,
    }
}

impl<const LEAF: usize, const WIDTH: usize> DigestTrie<LEAF, WIDTH> {
    /// The set of these digests, which are sorted and differ.
    pub(crate) fn from_sorted(digests: &[Digest]) -> Self {
        let root = match Node::from_sorted(digests, 0) {
            Node::Branch(root) => root,
            leaf => Branch::new(leaf.halves(0).into()),
        };
        Self::of(root, digests.len())
    }

    fn of(root: Branch<LEAF, WIDTH>, len: usize) -> Self {
        let heap = root.heap();
        DigestTrie { root, len, heap }
    }

    /// Asks for the memory that an insertion of a digest needs first.
    #[inline]
    pub(crate) fn prefetch(&self, digest: Digest) {
        let (leaf, used) = self.leaf(digest);
        let guess = guess(digest, leaf.len(), used);
        // The lines around the guess, where it is searched, and the first of those
        // that are shifted.
        for at in (guess.saturating_sub(4)..guess + 16).step_by(4) {
            prefetch(leaf, at);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Adds a digest; `false` when it was there.
    pub(crate) fn insert(&mut self, digest: Digest) -> bool {
        let inserted = self.root.insert(digest, 0, &mut self.heap) != Inserted::No;
        self.len += usize::from(inserted);
        inserted
    }

    /// Removes a digest; `false` when it was not there.
    pub(crate) fn remove(&mut self, digest: Digest) -> bool {
        let removed = self.root.remove(digest, 0, &mut self.heap);
        self.len -= usize::from(removed);
        if self.root.is_sparse() && self.root.children.len() > 2 {
            self.heap -= self.root.heap();
            self.root.halve();
            self.heap += self.root.heap();
        }
        removed
    }

    /// The leaf that a digest belongs in, and how many bits lead to it.
    #[inline]
    fn leaf(&self, digest: Digest) -> (&[Digest], u32) {
        let (mut branch, mut used) = (&self.root, 0);
        loop {
            let index = branch.index(digest, used);
            used += branch.bits();
            match &branch.children[index] {
                Node::Leaf(digests) => return (digests, used),
                Node::Branch(below) => branch = below,
            }
        }
    }

    /// The digests of a range in order.
    #[inline]
    pub(crate) fn range(&self, range: RangeInclusive<Digest>) -> impl Iterator<Item = Digest> {
        let (start, end) = range.into_inner();
        let (leaf, used) = self.leaf(start);
        let (Ok(at) | Err(at)) = search(leaf, start, used);
        let mut next = after(start, used);
        let later = iter::from_fn(move || {
            let first = next.filter(|&first| first <= end)?;
            let (leaf, used) = self.leaf(first);
            next = after(first, used);
            Some(leaf)
        });
        let from_start = leaf[at..].iter().chain(later.flatten()).copied();
        from_start.take_while(move |&digest| digest <= end)
    }

    /// All digests in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Digest> {
        self.range(EVERY_DIGEST)
    }

    /// The heap that it holds in bits, with what an allocator adds.
    pub(crate) fn bits(&self) -> usize {
        8 * self.heap
    }
}

/// The least digest whose first `used` bits are greater than those of `digest`.
#[inline]
fn after(digest: Digest, used: u32) -> Option<Digest> {
    let last = digest.number() | u128::MAX.checked_shr(used).unwrap_or(0);
    last.checked_add(1).map(Digest::from_number)
}

impl<const LEAF: usize, const WIDTH: usize> Clone for DigestTrie<LEAF, WIDTH> {
    /// The clone's leaves have no room left, so that it may take less memory.
    fn clone(&self) -> Self {
        Self::of(self.root.clone(), self.len)
    }
}

impl<const LEAF: usize, const WIDTH: usize> Default for DigestTrie<LEAF, WIDTH> {
    fn default() -> Self {
        Self::from_sorted(&[])
    }
}

impl<const LEAF: usize, const WIDTH: usize> PartialEq for DigestTrie<LEAF, WIDTH> {
    /// The same digests, however they are spread over leaves.
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<const LEAF: usize, const WIDTH: usize> Eq for DigestTrie<LEAF, WIDTH> {}

impl<const LEAF: usize, const WIDTH: usize> fmt::Debug for DigestTrie<LEAF, WIDTH> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
pub(crate) mod tests;
