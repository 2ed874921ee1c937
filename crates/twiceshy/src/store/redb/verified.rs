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
//!
//! A write gives new checksums to the pages that it copies, and would hide damage in them. An
//! insertion copies the pages above its digest, which the guard has read. A removal may also
//! join one more page to these at each level: `redb` merges a page that is less than a third
//! full with a neighbour, and the digests of a page that becomes empty belong to a neighbour
//! from then on. So a batch with `n` removals in a row of neighbouring pages reaches at most
//! `n` pages without any, on both sides together, whatever is in them; see [`keep_reached`].
//! All of those are verified before the batch is written, and so are the pages with the names
//! and roots of the tables, which every commit copies.

use std::collections::HashSet;
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
    /// The tree of tables that it was found in.
    tables: Root,
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
        Reader::new(medium, layout).visit_tables(tables, &mut |key, value| {
            if key == name.as_bytes() {
                definition = Some(table(value));
            }
        })?;
        match definition {
            None => Ok(None),
            Some(Some(Table { root, widths: WIDTHS, entries })) => {
                Ok(Some(Tree { layout, tables, root, entries }))
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
        let visited = self.walk(0, root, &children, &mut |leaf| {
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

    /// Verifies the pages that `redb` may write again when it removes these digests, which
    /// are in order.
    pub(super) fn verify_removals(&self, tree: &Tree, digests: &[u128]) -> Result<(), Unsound> {
        let mut level = Vec::from_iter(tree.root.map(|root| (root, digests.len())));
        let mut page = Vec::new();
        for depth in 0.. {
            keep_reached(&mut level);
            let mut below = Vec::new();
            let mut rest = digests;
            for (root, removals) in level {
                self.read(depth, root, WIDTHS, &mut page)?;
                let mut own;
                (own, rest) = rest.split_at(removals);
                if page[0] != BRANCH {
                    continue;
                }
                for index in 0..=count(&page) {
                    let child = child(&page, index);
                    let child = child.ok_or_else(|| self.damaged(root, "a page lacks a child"))?;
                    let last = separator(&page, index).filter(|_| index < count(&page));
                    let removals = own.partition_point(|&digest| last.is_none_or(|l| digest <= l));
                    own = &own[removals..];
                    below.push((child, removals));
                }
            }
            if below.is_empty() {
                break;
            }
            level = below;
        }
        Ok(())
    }

    /// Verifies the pages that every commit writes again: those with the names and the roots
    /// of the tables.
    pub(super) fn verify_tables(&self, tree: &Tree) -> Result<(), Unsound> {
        self.visit_tables(tree.tables, &mut |_, _| ())
    }

    /// Visits the names and the definitions of all tables.
    fn visit_tables(
        &self,
        root: Root,
        visitor: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<(), Unsound> {
        let widths = Widths::default();
        let (mut stack, mut page) = (vec![(root, 0)], Vec::new());
        // Or else a file of a few pages could have more ways through them than there is time.
        let mut seen = HashSet::new();
        while let Some((root, depth)) = stack.pop() {
            self.read(depth, root, widths, &mut page)?;
            if !seen.insert(self.layout.place(root.page).map(|place| place.start)) {
                return Err(self.damaged(root, "a page is part of the tree twice"));
            }
            if page[0] == BRANCH {
                for index in (0..=count(&page)).rev() {
                    let child = child(&page, index);
                    let child = child.ok_or_else(|| self.damaged(root, "a page lacks a child"))?;
                    stack.push((child, depth + 1));
                }
            } else {
                let leaf = Leaf::of(&page, widths);
                let entries = (0..leaf.entries).filter_map(|index| leaf.entry(index));
                entries.for_each(|(name, definition)| visitor(name, definition));
            }
        }
        Ok(())
    }

    /// Visits leaves below a page, in order: those of the `children` of each branch.
    fn walk(
        &mut self,
        depth: usize,
        root: Root,
        children: &dyn Fn(&[u8]) -> Range<usize>,
        visitor: &mut dyn FnMut(&Leaf<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, Unsound> {
        self.load(depth, root)?;
        let page = &self.path[depth].1;
        match page[0] {
            LEAF => Ok(visitor(&Leaf::of(page, WIDTHS))),
            BRANCH => {
                for index in children(page) {
                    let child = child(&self.path[depth].1, index);
                    let child = child.ok_or_else(|| self.damaged(root, "a page lacks a child"))?;
                    if self.walk(depth + 1, child, children, visitor)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            _ => Err(self.damaged(root, "a page is neither leaf nor branch")),
        }
    }

    /// Brings a verified page of the records into the path.
    fn load(&mut self, depth: usize, root: Root) -> Result<(), Unsound> {
        if self.path.get(depth).is_some_and(|(loaded, _)| *loaded == root) {
            return Ok(());
        }
        self.path.truncate(depth + 1);
        let mut bytes = if depth < self.path.len() { self.path.pop() } else { None }
            .map_or_else(Vec::new, |(_, bytes)| bytes);
        self.read(depth, root, WIDTHS, &mut bytes)?;
        self.path.push((root, bytes));
        Ok(())
    }

    /// Reads a page, and verifies it.
    fn read(
        &self,
        depth: usize,
        root: Root,
        widths: Widths,
        bytes: &mut Vec<u8>,
    ) -> Result<(), Unsound> {
        if depth > DEEPEST {
            return Err(self.damaged(root, "the tree of pages has no end"));
        }
        let place = self.layout.place(root.page);
        let place = place.ok_or_else(|| self.damaged(root, "a page would be too large"))?;
        let size = usize::try_from(place.end - place.start).map_err(io::Error::other);
        bytes.resize(size.map_err(Unsound::Unreadable)?, 0);
        self.medium.read(place.start, bytes).map_err(Unsound::Unreadable)?;
        if is_sound(bytes, widths, root.checksum) {
            Ok(())
        } else {
            Err(self.damaged(root, "the checksum of a page is wrong"))
        }
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

/// Of the pages of one level, in order and with the number of removals in each, keeps those
/// that the removals may reach.
///
/// Each removal joins at most one page to others that are beside it. So pages that are joined
/// in the end, from the first to the last, have at least as many removals as there are pages
/// without any among them. For any such page, the pages before it or those after it alone have
/// more removals than pages without; so one of the two passes arrives with `reach` left.
/// The parents of what is kept here were kept at the level above, where each page stands for
/// all of its children and uses up no more.
fn keep_reached(level: &mut Vec<(Root, usize)>) {
    let mut kept = vec![false; level.len()];
    let mut pass = |indices: &mut dyn Iterator<Item = usize>| {
        let mut reach = 0_usize;
        for index in indices {
            let (_, removals) = level[index];
            kept[index] |= reach > 0 || removals > 0;
            reach = if removals > 0 { reach + removals } else { reach.saturating_sub(1) };
        }
    };
    pass(&mut (0..level.len()));
    pass(&mut (0..level.len()).rev());
    let mut kept = kept.into_iter();
    level.retain(|_| kept.next() == Some(true));
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
