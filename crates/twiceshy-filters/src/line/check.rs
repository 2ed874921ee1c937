//! Every invariant of a line filter.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::LineFilter;
use super::lanes::Portable;
use super::shape::{GROUPS, MOST_DRIFT};
use super::table::Table;
use crate::bits::word::low_bits;
use crate::digest::Digest;
use crate::remote::{EVERY_DIGEST, Ordered};

impl Table {
    /// What holds whatever the remote has: every line is sound, windows tile the buckets, lines
    /// that have moved are empty, and adapted lines are counted.
    pub(super) fn check(&self) -> Result<(), String> {
        let shape = &self.shape;
        if self.first > self.lines.len() || self.lines.len() > self.count {
            return Err("it has lines that no digest is mapped to".into());
        }
        let (mut adapted, mut next_bucket) = (0, 0);
        for (index, line) in self.lines.iter().enumerate() {
            if !line.is_sound(shape) {
                return Err(format!("line {index} is damaged"));
            }
            let start = (index * shape.buckets) as i64 - i64::from(line.drift());
            if line.drift().abs() > MOST_DRIFT || start != next_bucket {
                return Err(format!("line {index} does not start where the one before it ends"));
            }
            if index < self.first && line.used(shape) > 0 {
                return Err(format!("line {index} has moved and is not empty"));
            }
            if !self.has_selectors(index) {
                return Err(format!("line {index} has a selector that there is not"));
            }
            adapted += usize::from(line.states() != 0);
            next_bucket = start + line.window() as i64;
        }
        if next_bucket != (self.lines.len() * shape.buckets) as i64 {
            return Err("the last line does not end with the last bucket".into());
        }
        if adapted != self.adapted {
            return Err(format!("{adapted} lines have adapted, {} are counted", self.adapted));
        }
        // There may be copies, and keys that the remote has lost: slots say little of keys.
        let (len, slots) = (self.counts.len, self.count * shape.slots);
        if len > slots {
            return Err(format!("{slots} slots have {len} keys"));
        }
        self.departed.check()
    }

    /// Whether all selectors of a line are such that a run can have.
    fn has_selectors(&self, line: usize) -> bool {
        let (line, first) = (&self.lines[line], self.first_bucket(line));
        let (mut start, plane) = (0, line.plane_and_more(0, &self.shape));
        (first..).zip(line.lengths(&self.shape)).all(|(bucket, len)| {
            let selector = plane >> start & low_bits(len as u32);
            start += len;
            line.states() >> (bucket % GROUPS) & 1 == 0
                || selector < u64::from(self.shape.selectors())
        })
    }

    /// Whether a bucket has a slot for each of its digests, and no others but copies, if its group
    /// has adapted. Returns the number of slots.
    fn check_bucket(&self, digests: &[Digest]) -> Result<usize, String> {
        let Some(&digest) = digests.first() else { return Ok(0) };
        let bucket = self.find(digest);
        let run = self.lines[bucket.line].run(Portable, bucket.index, &self.shape);
        let slots: Vec<u64> = digests.iter().map(|&digest| self.matches(bucket, digest)).collect();
        let alike = |own: &u64| slots.iter().filter(|&other| other == own).count();
        let stray = slots.iter().position(|own| (own.count_ones() as usize) < alike(own));
        if let Some(stray) = stray {
            return Err(format!("{:?} is stored and has no slot of its own", digests[stray]));
        }
        if let Some(denied) = digests.iter().find(|&&digest| !self.contains(digest)) {
            return Err(format!("{denied:?} is stored and answered \"absent\""));
        }
        let strays = slots.iter().fold(run, |left, own| left & !own).count_ones();
        if strays > 0 {
            return Err(format!("{strays} slots of {bucket:?} belong to no stored key"));
        }
        let (len, keys) = (run.count_ones() as usize, digests.len());
        if len > keys && !self.is_adapted(bucket) {
            return Err(format!("{bucket:?} has {len} slots for {keys} keys and no selector"));
        }
        Ok(len)
    }
}

impl LineFilter {
    /// What holds whatever the remote has: each table alone, and both together.
    pub(super) fn check_tables(&self) -> Result<(), String> {
        self.tables().try_for_each(Table::check)?;
        let table = &self.table;
        if table.lines.len() < table.count {
            let missing = table.count - table.lines.len();
            return Err(format!("{missing} of its {} lines are missing", table.count));
        }
        match &self.growing {
            Some(growing) => growing.check(table)?,
            None if table.first > 0 => {
                return Err("lines have moved in a filter that does not grow".into());
            }
            None => (),
        }
        let capacities =
            [Some(self.capacity), self.growing.as_ref().map(|growing| growing.capacity)];
        for (table, capacity) in self.tables().zip(capacities.into_iter().flatten()) {
            if !(1..=table.count * table.shape.slots).contains(&capacity) {
                return Err(format!("{} lines have no capacity of {capacity}", table.count));
            }
        }
        Ok(())
    }

    /// Each bucket has the slots of its stored keys, and no others.
    pub(super) fn check_against(&self, remote: &mut dyn Ordered) -> Result<(), String> {
        let (mut total, mut slots) = (0, Ok(0));
        let mut of_bucket = Vec::new();
        let is_same = |one: &Digest, other: Digest| {
            let (table, other_table) = (self.table_of(*one), self.table_of(other));
            let number = |digest| table.home(digest).number(&table.shape);
            core::ptr::eq(table, other_table) && number(*one) == number(other)
        };
        let check = |of_bucket: &[Digest]| match of_bucket.first() {
            Some(&digest) => self.table_of(digest).check_bucket(of_bucket),
            None => Ok(0),
        };
        remote
            .visit(EVERY_DIGEST, &mut |digest| {
                if of_bucket.first().is_some_and(|first| !is_same(first, digest)) {
                    if let Ok(sum) = slots {
                        slots = check(&of_bucket).map(|len| sum + len);
                    }
                    of_bucket.clear();
                }
                of_bucket.push(digest);
                total += 1;
            })
            .map_err(|error| error.to_string())?;
        let slots = slots? + check(&of_bucket)?;
        let len = self.len();
        if total != len {
            return Err(format!("{total} keys are stored and {len} are counted"));
        }
        let used =
            |table: &Table| table.lines.iter().map(|line| line.used(&table.shape)).sum::<usize>();
        match self.tables().map(used).sum::<usize>() - slots {
            0 => Ok(()),
            left => Err(format!("{left} slots are in buckets without a stored key")),
        }
    }
}
