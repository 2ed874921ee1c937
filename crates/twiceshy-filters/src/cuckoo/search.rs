//! Making room: a path of cells along which the occupants move up by one.
//!
//! ```text
//! new ─▶ c0 ─▶ c1 ─▶ ... ─▶ cm (empty)
//! ```
//!
//! A path is searched read-only and its cells are distinct, so a search that
//! fails has moved nothing. Breadth-first search (Eppstein, section 2.5) finds
//! the shortest path; the random walk (Mitzenmacher et al., section 2.1) looks
//! at one occupant at a time.

use alloc::vec::Vec;
use core::ops::Range;

use crate::params::Word;
use crate::rng::Rng;

/// How a search looks for an empty cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    BreadthFirst,
    RandomWalk,
    /// A displaced key takes an empty cell of its own, or displaces a key in its next table.
    NextTable,
}

impl Word for Search {
    const WORDS: &'static [(&'static str, Self)] =
        &[("bfs", Search::BreadthFirst), ("walk", Search::RandomWalk), ("next", Search::NextTable)];
}

/// Cells a breadth-first search may look into before it gives up.
const MAX_CELLS: usize = 2048;

/// Occupants a random walk may move before it gives up.
const MAX_STEPS: usize = 500;

/// How many cells ahead moves are prefetched: the first two bins of four cells.
const AHEAD: usize = 8;

/// The bins to search and the moves out of their cells, as a search sees them.
pub(crate) trait Moves {
    /// Why an occupant is not known.
    type Error;

    /// Cells per bin.
    fn slots(&self) -> usize;

    /// An empty cell of a bin.
    fn empty_cell(&self, bin: usize) -> Option<usize>;

    /// Prefetches the memory that [`Moves::ways`] out of a bin and their destinations need.
    fn prefetch(&self, bin: usize);

    /// The bins that the occupant of a cell of this bin may move to.
    fn ways(
        &mut self,
        bin: usize,
        cell: usize,
    ) -> Result<impl Iterator<Item = usize> + use<Self>, Self::Error>;

    /// The cells of a bin.
    #[inline]
    fn cells(&self, bin: usize) -> Range<usize> {
        bin * self.slots()..(bin + 1) * self.slots()
    }
}

/// A path of cells from one of the full `starts` to an empty cell, both
/// included, or `None` when there is none within the limits.
pub(crate) fn path<M: Moves>(
    search: Search,
    starts: &[usize],
    rng: &mut Rng,
    moves: &mut M,
) -> Result<Option<Vec<usize>>, M::Error> {
    match search {
        Search::BreadthFirst => breadth_first(starts, moves),
        // With two bins the next one is the other: the walk.
        Search::RandomWalk | Search::NextTable => random_walk(starts, rng, moves),
    }
}

fn breadth_first<M: Moves>(
    starts: &[usize],
    moves: &mut M,
) -> Result<Option<Vec<usize>>, M::Error> {
    let slots = moves.slots();
    let mut tree = Tree::new(MAX_CELLS.div_ceil(slots));
    starts.iter().for_each(|&bin| tree.add(bin, None));
    let mut asked = 0;
    let mut node = 0;
    while node < tree.nodes.len() {
        // The destinations are far apart and independent: out of cache, prefetching makes all of
        // them arrive in the time of one.
        while asked < tree.nodes.len() && asked * slots < node * slots + AHEAD {
            moves.prefetch(tree.nodes[asked].bin);
            asked += 1;
        }
        let bin = tree.nodes[node].bin;
        for cell in moves.cells(bin) {
            for way in moves.ways(bin, cell)? {
                if let Some(end) = moves.empty_cell(way) {
                    return Ok(Some(tree.path(Step { node, cell }, end)));
                }
                tree.add(way, Some(Step { node, cell }));
            }
        }
        node += 1;
    }
    Ok(None)
}

/// The bins that a breadth-first search has seen, each once, and from where.
struct Tree {
    nodes: Vec<Node>,
    most: usize,
    /// A bin without a mark was not seen; others are looked up in the list. Looking up every bin
    /// made filling a table to its limit three times slower.
    marks: [u64; MARK_WORDS],
}

struct Node {
    bin: usize,
    from: Option<Step>,
}

/// A move out of a cell of a node's bin.
#[derive(Clone, Copy)]
struct Step {
    node: usize,
    cell: usize,
}

const MARK_WORDS: usize = 128;

impl Tree {
    fn new(most: usize) -> Self {
        Tree { nodes: Vec::with_capacity(16), most, marks: [0; MARK_WORDS] }
    }

    /// Adds a bin, unless it was seen or the tree is as large as it may be.
    #[inline]
    fn add(&mut self, bin: usize, from: Option<Step>) {
        // Before the lookup: in a search that fails, most bins come when the tree is full.
        if self.nodes.len() == self.most {
            return;
        }
        let (word, bit) = (bin / 64 % MARK_WORDS, bin % 64);
        let marked = self.marks[word] >> bit & 1 == 1;
        let seen = marked && self.nodes.iter().any(|node| node.bin == bin);
        if !seen {
            self.marks[word] |= 1 << bit;
            self.nodes.push(Node { bin, from });
        }
    }

    /// The path from a start to `last`, and on to `end`.
    fn path(&self, last: Step, end: usize) -> Vec<usize> {
        let mut path = Vec::with_capacity(8);
        path.push(end);
        let mut at = Some(last);
        while let Some(step) = at {
            path.push(step.cell);
            at = self.nodes[step.node].from;
        }
        path.reverse();
        path
    }
}

fn random_walk<M: Moves>(
    starts: &[usize],
    rng: &mut Rng,
    moves: &mut M,
) -> Result<Option<Vec<usize>>, M::Error> {
    let mut path = Vec::new();
    let mut choices = starts.to_vec();
    while path.len() < MAX_STEPS {
        let cells = choices.iter().flat_map(|&bin| moves.cells(bin));
        let cells: Vec<usize> = cells.filter(|cell| !path.contains(cell)).collect();
        if cells.is_empty() {
            return Ok(None);
        }
        let cell = cells[rng.below(cells.len() as u64) as usize];
        path.push(cell);
        choices.clear();
        choices.extend(moves.ways(cell / moves.slots(), cell)?);
        if let Some(end) = choices.iter().find_map(|&bin| moves.empty_cell(bin)) {
            path.push(end);
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// Bins of `SLOTS` cells; `full` says which are, `ways` where an occupant may go.
    struct Graph<const SLOTS: usize, F, W> {
        full: F,
        ways: W,
    }

    impl<const SLOTS: usize, F, W> Moves for Graph<SLOTS, F, W>
    where
        F: Fn(usize) -> bool,
        W: Fn(usize) -> Result<[usize; 2], &'static str>,
    {
        type Error = &'static str;

        fn slots(&self) -> usize {
            SLOTS
        }

        fn empty_cell(&self, bin: usize) -> Option<usize> {
            (!(self.full)(bin)).then_some(bin * SLOTS)
        }

        fn prefetch(&self, _: usize) {}

        fn ways(
            &mut self,
            _: usize,
            cell: usize,
        ) -> Result<impl Iterator<Item = usize> + use<SLOTS, F, W>, Self::Error> {
            (self.ways)(cell).map(<[usize; 2]>::into_iter)
        }
    }

    /// Cells on a line, one a bin: the occupant of c may move to c + 1 or c - 1.
    fn line(search: Search, full: Range<usize>, start: usize) -> Option<Vec<usize>> {
        let full = |bin| full.contains(&bin);
        let mut line = Graph::<1, _, _> { full, ways: |cell| Ok([cell + 1, cell - 1]) };
        path(search, &[start], &mut Rng::new(1), &mut line).expect("every occupant is known")
    }

    #[test]
    fn breadth_first_takes_the_shorter_way() {
        assert_eq!(line(Search::BreadthFirst, 10..40, 13), Some(vec![13, 12, 11, 10, 9]));
        assert_eq!(line(Search::BreadthFirst, 10..40, 38), Some(vec![38, 39, 40]));
        // Fifteen steps either way: without the marks, cells seen before would
        // fill the tree long before that.
        let far = line(Search::BreadthFirst, 10..40, 25);
        assert_eq!(far.map(|path| path.len()), Some(16));
    }

    #[test]
    fn a_walk_never_visits_a_cell_twice() {
        let found = line(Search::RandomWalk, 10..40, 20).expect("either end is a way out");
        let ends = [(20..=40).collect::<Vec<_>>(), (9..=20).rev().collect()];
        assert!(ends.contains(&found), "{found:?}");
    }

    #[test]
    fn both_give_up_where_there_is_no_way_out() {
        for search in [Search::BreadthFirst, Search::RandomWalk] {
            let ways = |cell| Ok([(cell + 1) % 5, (cell + 3) % 5]);
            let mut ring = Graph::<1, _, _> { full: |_| true, ways };
            assert_eq!(path(search, &[0, 1], &mut Rng::new(1), &mut ring), Ok(None));
            assert_eq!(line(search, 1..1_000_000, 500_000), None);
        }
    }

    #[test]
    fn an_error_of_the_remote_ends_the_search() {
        for search in [Search::BreadthFirst, Search::RandomWalk] {
            let mut broken = Graph::<2, _, _> { full: |_| true, ways: |_| Err("broken") };
            assert_eq!(path(search, &[0], &mut Rng::new(1), &mut broken), Err("broken"));
        }
    }
}
