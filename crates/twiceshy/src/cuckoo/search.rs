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

use crate::rng::Rng;

/// How a full bin's occupants are asked for a way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Search {
    BreadthFirst,
    RandomWalk,
}

/// Cells a breadth-first search may look into before it gives up.
const MAX_CELLS: usize = 2048;

/// Occupants a random walk may move before it gives up.
const MAX_STEPS: usize = 500;

/// The bins to search, as a search sees them.
pub(crate) struct Bins<F> {
    /// Cells a bin.
    pub(crate) slots: usize,
    /// An empty cell of a bin.
    pub(crate) empty_cell: F,
}

impl<F: Fn(usize) -> Option<usize>> Bins<F> {
    fn cells<'a>(&self, bins: &'a [usize]) -> impl Iterator<Item = usize> + use<'a, F> {
        let slots = self.slots;
        bins.iter().flat_map(move |bin| bin * slots..(bin + 1) * slots)
    }

    #[inline]
    fn first_empty(&self, bins: &[usize]) -> Option<usize> {
        bins.iter().find_map(|&bin| (self.empty_cell)(bin))
    }
}

/// A path of cells from one of the full `starts` to an empty cell, both
/// included, or `None` when there is none within the limits. `next` lists the
/// bins that the occupant of a cell may move to.
pub(crate) fn path<E>(
    search: Search,
    starts: &[usize],
    bins: &Bins<impl Fn(usize) -> Option<usize>>,
    rng: &mut Rng,
    mut next: impl FnMut(usize, &mut Vec<usize>) -> Result<(), E>,
) -> Result<Option<Vec<usize>>, E> {
    match search {
        Search::BreadthFirst => breadth_first(starts, bins, &mut next),
        Search::RandomWalk => random_walk(starts, bins, rng, &mut next),
    }
}

fn breadth_first<E>(
    starts: &[usize],
    bins: &Bins<impl Fn(usize) -> Option<usize>>,
    next: &mut impl FnMut(usize, &mut Vec<usize>) -> Result<(), E>,
) -> Result<Option<Vec<usize>>, E> {
    let mut tree = Tree::new(MAX_CELLS.div_ceil(bins.slots));
    starts.iter().for_each(|&bin| tree.add(bin, None));
    let mut choices = Vec::new();
    let mut node = 0;
    while node < tree.nodes.len() {
        for cell in bins.cells(&[tree.nodes[node].bin]) {
            choices.clear();
            next(cell, &mut choices)?;
            if let Some(end) = bins.first_empty(&choices) {
                return Ok(Some(tree.path(Step { node, cell }, end)));
            }
            choices.iter().for_each(|&bin| tree.add(bin, Some(Step { node, cell })));
        }
        node += 1;
    }
    Ok(None)
}

/// The bins that a breadth-first search has seen, each once, and from where.
struct Tree {
    nodes: Vec<Node>,
    most: usize,
    /// A bin whose mark is not set was not seen; the others are looked up.
    /// Looking up every bin made filling a table to its limit three times slower.
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
        let (word, bit) = (bin / 64 % MARK_WORDS, bin % 64);
        let marked = self.marks[word] >> bit & 1 == 1;
        let seen = marked && self.nodes.iter().any(|node| node.bin == bin);
        if !seen && self.nodes.len() < self.most {
            self.marks[word] |= 1 << bit;
            self.nodes.push(Node { bin, from });
        }
    }

    /// The path from a start to `last`, and on to `end`.
    fn path(&self, last: Step, end: usize) -> Vec<usize> {
        let mut path = vec![end];
        let mut at = Some(last);
        while let Some(step) = at {
            path.push(step.cell);
            at = self.nodes[step.node].from;
        }
        path.reverse();
        path
    }
}

fn random_walk<E>(
    starts: &[usize],
    bins: &Bins<impl Fn(usize) -> Option<usize>>,
    rng: &mut Rng,
    next: &mut impl FnMut(usize, &mut Vec<usize>) -> Result<(), E>,
) -> Result<Option<Vec<usize>>, E> {
    let mut path = Vec::new();
    let mut choices = starts.to_vec();
    while path.len() < MAX_STEPS {
        let cells = bins.cells(&choices).filter(|cell| !path.contains(cell));
        let cells: Vec<usize> = cells.collect();
        if cells.is_empty() {
            return Ok(None);
        }
        let cell = cells[rng.below(cells.len() as u64) as usize];
        path.push(cell);
        choices.clear();
        next(cell, &mut choices)?;
        if let Some(end) = bins.first_empty(&choices) {
            path.push(end);
            return Ok(Some(path));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    /// Cells on a line, one a bin: the occupant of c may move to c + 1 or c - 1.
    fn line(search: Search, full: std::ops::Range<usize>, start: usize) -> Option<Vec<usize>> {
        let empty_cell = |bin| (!full.contains(&bin)).then_some(bin);
        let Ok(found) = path::<Infallible>(
            search,
            &[start],
            &Bins { slots: 1, empty_cell },
            &mut Rng::new(1),
            |cell, choices| {
                choices.extend([cell + 1, cell - 1]);
                Ok(())
            },
        );
        found
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
            let Ok(found) = path::<Infallible>(
                search,
                &[0, 1],
                &Bins { slots: 1, empty_cell: |_| None },
                &mut Rng::new(1),
                |cell, choices| {
                    choices.extend([(cell + 1) % 5, (cell + 3) % 5]);
                    Ok(())
                },
            );
            assert_eq!(found, None);
            assert_eq!(line(search, 1..1_000_000, 500_000), None);
        }
    }

    #[test]
    fn an_error_of_the_remote_ends_the_search() {
        for search in [Search::BreadthFirst, Search::RandomWalk] {
            let bins = Bins { slots: 2, empty_cell: |_| None };
            let found = path(search, &[0], &bins, &mut Rng::new(1), |_, _| Err("broken"));
            assert_eq!(found, Err("broken"));
        }
    }
}
