//! The records of one commit, read without `redb`: no page is believed before its
//! checksum, which is in the page above it, has been compared.
//!
//! `redb` itself compares checksums only after a crash. With a flipped bit in a digest or a
//! link it looks in the wrong place and finds nothing, and the guard would answer that a
//! stored key is absent. So whatever has to be complete is read here: ranges of records,
//! which prove a key absent, and from which filters learn and are built. A record that
//! `redb` finds has a checksum of its own and needs none of this.
//!
//! Pages of a commit stay as they are for as long as a transaction of `redb` looks at it
//! ([`super::View`] has one), whatever is written meanwhile. A page that is not as its
//! checksum says is therefore damaged, unless the database has been opened again since.

use std::io;
use std::ops::{ControlFlow, Range, RangeInclusive};

use redb::StorageBackend;

use super::pages::{
    BRANCH, Commit, DEEPEST, HEADER, LEAF, Layout, Leaf, Root, Table, Widths, child, count,
    is_sound, separator, table,
};

/// Digests as numbers, and records.
const WIDTHS: Widths = Widths { key: Some(size_of::<u128>()), value: None };

/// Why records cannot be read.
#[derive(Debug)]
pub(super) enum Unsound {
    /// The medium failed.
    Unreadable(io::Error),
    /// What it has is wrong; how, and where.
    Damaged(String),
}

/// The records of one commit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tree {
    layout: Layout,
    root: Option<Root>,
    pub(super) entries: u64,
}

impl Tree {
    /// The records of the last commit, if it has a table of that name. Nobody may commit
    /// meanwhile.
    pub(super) fn latest(medium: &dyn StorageBackend, name: &str) -> Result<Option<Self>, Unsound> {
        let mut header = [0; HEADER];
        medium.read(0, &mut header).map_err(Unsound::Unreadable)?;
        let layout = Layout::read(&header).map_err(Unsound::Damaged)?;
        let commit = Commit::read(&header, Commit::primary(&header));
        let commit = commit.map_err(|reason| Unsound::Damaged(format!("its commit: {reason}")))?;
        let Some(tables) = commit.user else { return Ok(None) };
        let mut definition = None;
        let every = |branch: &[u8]| 0..count(branch) + 1;
        let _ = Reader::new(medium, layout).walk(
            0,
            tables,
            Widths::default(),
            &every,
            &mut |leaf| {
                for (key, value) in (0..leaf.entries).filter_map(|index| leaf.entry(index)) {
                    if key == name.as_bytes() {
                        definition = Some(table(value));
                    }
                }
                ControlFlow::Continue(())
            },
        )?;
        match definition {
            None => Ok(None),
            Some(Some(Table { root, widths: WIDTHS, entries })) => {
                Ok(Some(Tree { layout, root, entries }))
            }
            Some(_) => Err(Unsound::Damaged(format!("table {name:?} is none of digests"))),
        }
    }

    /// Reads it from the medium that it was found in.
    pub(super) fn reader<'a>(&self, medium: &'a dyn StorageBackend) -> Reader<'a> {
        Reader::new(medium, self.layout)
    }
}

/// What reads pages. It keeps those on the way to the last that it read: neighbours share
/// them.
pub(super) struct Reader<'a> {
    medium: &'a dyn StorageBackend,
    layout: Layout,
    path: Vec<(Root, Vec<u8>)>,
}

impl<'a> Reader<'a> {
    fn new(medium: &'a dyn StorageBackend, layout: Layout) -> Self {
        Reader { medium, layout, path: Vec::new() }
    }

    /// Visits the records of a range, in order, until the visitor has had enough.
    pub(super) fn visit(
        &mut self,
        tree: &Tree,
        range: &RangeInclusive<u128>,
        visitor: &mut dyn FnMut(u128, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), Unsound> {
        let (Some(root), false) = (tree.root, range.is_empty()) else { return Ok(()) };
        let (start, end) = (*range.start(), *range.end());
        let children = |branch: &[u8]| child_of(branch, start)..child_of(branch, end) + 1;
        let visited = self.walk(0, root, WIDTHS, &children, &mut |leaf| {
            let first = partition(leaf.entries, |index| {
                leaf.entry(index).is_some_and(|(key, _)| number(key) < start)
            });
            for (key, record) in (first..leaf.entries).filter_map(|index| leaf.entry(index)) {
                let key = number(key);
                if key > end {
                    return ControlFlow::Break(());
                }
                visitor(key, record)?;
            }
            ControlFlow::Continue(())
        });
        visited.map(|_| ())
    }

    /// Verifies the pages on the way to a digest, and the neighbours of each.
    pub(super) fn verify_around(&mut self, tree: &Tree, digest: u128) -> Result<(), Unsound> {
        let Some(mut root) = tree.root else { return Ok(()) };
        for depth in 0.. {
            self.load(depth, root, WIDTHS)?;
            let page = &self.path[depth].1;
            if page[0] != BRANCH {
                break;
            }
            let middle = child_of(page, digest);
            let below = [middle.checked_sub(1), middle.checked_add(1), Some(middle)];
            let below = below.map(|index| child(page, index.filter(|&at| at <= count(page))?));
            let [left, right, Some(middle)] = below else {
                return Err(self.damaged(root, "a page lacks a child"));
            };
            // If it is in the path, so were its neighbours.
            if self.path.get(depth + 1).is_none_or(|(loaded, _)| *loaded != middle) {
                for neighbour in [left, right].into_iter().flatten() {
                    self.load(depth + 1, neighbour, WIDTHS)?;
                }
            }
            root = middle;
        }
        Ok(())
    }

    /// Visits leaves below a page, in order: those of the `children` of each branch.
    fn walk(
        &mut self,
        depth: usize,
        root: Root,
        widths: Widths,
        children: &dyn Fn(&[u8]) -> Range<usize>,
        visitor: &mut dyn FnMut(&Leaf<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Unsound> {
        self.load(depth, root, widths)?;
        let page = &self.path[depth].1;
        match page[0] {
            LEAF => Ok(visitor(&Leaf::of(page, widths))),
            BRANCH => {
                for index in children(page) {
                    let child = child(&self.path[depth].1, index);
                    let child = child.ok_or_else(|| self.damaged(root, "a page lacks a child"))?;
                    if self.walk(depth + 1, child, widths, children, visitor)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            _ => Err(self.damaged(root, "a page is neither leaf nor branch")),
        }
    }

    /// Brings a verified page into the path.
    fn load(&mut self, depth: usize, root: Root, widths: Widths) -> Result<(), Unsound> {
        if self.path.get(depth).is_some_and(|(loaded, _)| *loaded == root) {
            return Ok(());
        }
        if depth > DEEPEST {
            return Err(self.damaged(root, "the tree of pages has no end"));
        }
        self.path.truncate(depth + 1);
        let mut bytes = if depth < self.path.len() { self.path.pop() } else { None }
            .map_or_else(Vec::new, |(_, bytes)| bytes);
        let place = self.layout.place(root.page);
        let place = place.ok_or_else(|| self.damaged(root, "a page would be too large"))?;
        let size = usize::try_from(place.end - place.start).map_err(io::Error::other);
        bytes.resize(size.map_err(Unsound::Unreadable)?, 0);
        self.medium.read(place.start, &mut bytes).map_err(Unsound::Unreadable)?;
        if !is_sound(&bytes, widths, root.checksum) {
            return Err(self.damaged(root, "the checksum of a page is wrong"));
        }
        self.path.push((root, bytes));
        Ok(())
    }

    #[cold]
    fn damaged(&self, root: Root, reason: &str) -> Unsound {
        let offset = self.layout.place(root.page).map_or(0, |place| place.start);
        Unsound::Damaged(format!("{reason}, at byte {offset}"))
    }
}

fn number(key: &[u8]) -> u128 {
    u128::from_le_bytes(key.try_into().expect("the width of keys is fixed"))
}

/// The child of a branch that a digest is in.
fn child_of(branch: &[u8], digest: u128) -> usize {
    partition(count(branch), |index| separator(branch, index).is_some_and(|key| key < digest))
}

/// The first index below `count` for which it does not hold, or `count`; it holds for all
/// before that.
fn partition(count: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests;
