//! Growth without a stop: a frontier moves through the digests.
//!
//! A filter that has the keys it was made for begins a larger table. From then on each insertion
//! moves a few lines: it reads their keys from the remote, adds them to the larger table and
//! empties them. Digests before the *frontier* are in the larger table, those behind it in the
//! smaller one, so a query still asks one table.
//!
//! ```text
//! digests   0 ────────────── frontier ──────────────────────── 2^128
//! smaller   (emptied lines)  | lines with keys
//! larger    lines with keys  | a few empty ones | not made yet
//! ```
//!
//! The frontier is where the window of a smaller line starts, so each smaller bucket is on one side
//! of it. The larger table has other hash functions: a known false positive comes back as often as
//! any other query is one. No step takes long: the larger table's lines are made as the frontier
//! comes near, and the memory of the smaller one is given back piece by piece afterwards.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use super::cells::Line;
use super::fingerprint::Epoch;
use super::table::{LAST, Table};
use crate::bits::pages::release;
use crate::digest::Digest;
use crate::error::Result;
use crate::remote::Ordered;

/// Lines that move with each insertion. A full filter is through after one insertion for each 82
/// of its keys, in which its lines become half a percent fuller on average.
const LINES_PER_INSERTION: usize = 2;

/// Lines that are made before keys come near: more than the longest chain of moves has.
const LINES_AHEAD: usize = 256;

/// Lines that are made at a time.
const LINES_AT_A_TIME: usize = 64;

/// Lines whose memory is given back at a time: 256 KiB.
const LINES_GIVEN_BACK: usize = 4096;

/// A larger table, and the first digest that it does not have yet.
#[derive(Clone)]
pub(super) struct Growing {
    pub(super) table: Table,
    pub(super) capacity: usize,
    pub(super) frontier: Digest,
}

impl Growing {
    /// A larger table than another, without a key.
    pub(super) fn new(count: usize, capacity: usize, epoch: Epoch, smaller: &Table) -> Self {
        let mut table = Table::unmade(count, epoch, smaller.shape, smaller.twin);
        table.lines.reserve_exact(count);
        let mut growing = Self::at(Digest::new([0, 0]), table, capacity);
        growing.make_lines();
        growing
    }

    /// A larger table that has the keys before a frontier.
    pub(super) fn at(frontier: Digest, mut table: Table, capacity: usize) -> Self {
        table.last = before(frontier);
        Growing { table, capacity, frontier }
    }

    /// The least number of lines that there are up to the frontier, and ahead of it.
    fn least_lines(&self) -> usize {
        (self.table.home(self.frontier).line + LINES_AHEAD).min(self.table.count)
    }

    /// What holds between a larger table and the smaller one, whatever the remote has.
    pub(super) fn check(&self, smaller: &Table) -> Result<(), String> {
        let Growing { table, frontier, .. } = self;
        if smaller.first_digest() != Some(*frontier) || table.last != before(*frontier) {
            return Err("its frontier is not where a line starts".into());
        }
        if table.first > 0 {
            return Err("lines of its larger table have moved".into());
        }
        if table.lines.len() < self.least_lines() {
            return Err("lines are missing where its frontier is".into());
        }
        // The keys of one smaller line go to lines that there are.
        if table.count / smaller.count > LINES_AHEAD / 2 {
            return Err(format!("{} lines grow to {}", smaller.count, table.count));
        }
        Ok(())
    }

    /// Makes lines until there are enough ahead of the frontier.
    fn make_lines(&mut self) {
        let (needed, table) = (self.least_lines(), &mut self.table);
        if table.lines.len() < needed {
            let len = (needed + LINES_AT_A_TIME).min(table.count);
            table.lines.resize(len, Line::empty(table.epoch, &table.shape));
        }
    }

    /// Moves the keys of some lines of the smaller table. `false` if the larger one has no room
    /// for a key: then nothing has changed for the line that has it.
    ///
    /// # Errors
    /// [`Error::Remote`](crate::Error::Remote), with nothing changed.
    pub(super) fn step(&mut self, smaller: &mut Table, remote: &mut dyn Ordered) -> Result<bool> {
        for _ in 0..LINES_PER_INSERTION {
            if smaller.first == smaller.lines.len() {
                break;
            }
            if !self.move_line(smaller, remote)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn move_line(&mut self, smaller: &mut Table, remote: &mut dyn Ordered) -> Result<bool> {
        let line = smaller.first;
        let digests = smaller.digests(smaller.buckets(line), remote)?;
        let added = digests.iter().take_while(|&&digest| self.table.add(digest)).count();
        if added < digests.len() {
            for &digest in &digests[..added] {
                let bucket = self.table.find(digest);
                let slots = self.table.matches(bucket, digest);
                self.table.remove_slot(bucket, slots.trailing_zeros() as usize);
            }
            return Ok(false);
        }
        smaller.retire_line(digests.len());
        (self.frontier, self.table.last) = match smaller.first_digest() {
            Some(frontier) => (frontier, before(frontier)),
            None => (LAST, LAST),
        };
        self.make_lines();
        Ok(true)
    }

    /// Whether all keys have moved.
    pub(super) fn is_done(&self, smaller: &Table) -> bool {
        smaller.first == smaller.lines.len()
    }
}

/// The digest before another. Before the first of all there is none: a larger table whose frontier
/// is there has no key, and is not read.
fn before(digest: Digest) -> Digest {
    Digest::from_number(digest.number().saturating_sub(1))
}

impl Table {
    /// Empties the first line in use, which has so many keys and keeps its window, and goes on to the
    /// next that has a bucket.
    fn retire_line(&mut self, keys: usize) {
        let (shape, epoch, line) = (self.shape, self.epoch, self.first);
        self.counts.len = self.counts.len.saturating_sub(keys);
        self.change(line, |line| *line = line.emptied(epoch, &shape));
        self.first += 1;
        while self.lines.get(self.first).is_some_and(|line| line.window() == 0) {
            self.first += 1;
        }
    }
}

/// Lines that all keys have left. Their memory is given back piece by piece: all at once takes
/// milliseconds.
#[derive(Default)]
pub(super) struct Retired {
    lines: Vec<Line>,
    /// Lines whose memory is given back.
    released: usize,
}

impl Clone for Retired {
    /// The clone of a filter has no memory to give back.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Retired {
    pub(super) fn new(mut lines: Vec<Line>) -> Self {
        lines.clear();
        Retired { lines, released: 0 }
    }

    /// Gives back some of the memory.
    pub(super) fn release_some(&mut self) {
        if self.lines.capacity() == 0 {
            return;
        }
        let left = &mut self.lines.spare_capacity_mut()[self.released..];
        let count = left.len().min(LINES_GIVEN_BACK);
        release(&mut left[..count]);
        self.released += count;
        if self.released == self.lines.capacity() {
            *self = Self::default();
        }
    }

    /// Memory that is not given back yet, in bits.
    pub(super) fn bits(&self) -> usize {
        512 * (self.lines.capacity() - self.released)
    }
}
