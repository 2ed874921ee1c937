//! Every invariant of a line filter.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::LineFilter;
use super::lanes::Portable;
use super::shape::MOST_DRIFT;
use super::table::Table;
use crate::digest::Digest;
use crate::remote::{EVERY_DIGEST, Ordered};

impl Table {
    /// What holds whatever the remote has: every line is sound, windows tile the buckets, lines
    /// that have moved are empty, and all slots and adapted lines are counted.
    pub(super) fn check(&self) -> Result<(), String> {
        let shape = &self.shape;
        if self.first > self.lines.len() || self.lines.len() > self.count {
            return Err("it has lines that no digest is mapped to".into());
        }
        let (mut used, mut adapted, mut next_bucket) = (0, 0, 0);
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
            used += line.used(shape);
            adapted += usize::from(line.states() != 0);
            next_bucket = start + line.window() as i64;
        }
        if next_bucket != (self.lines.len() * shape.buckets) as i64 {
            return Err("the last line does not end with the last bucket".into());
        }
        if adapted != self.adapted {
            return Err(format!("{adapted} lines have adapted, {} are counted", self.adapted));
        }
        if used != self.counts.len {
            return Err(format!("{used} slots are in use for {} keys", self.counts.len));
        }
        self.departed.check()
    }

    /// Whether a bucket has a slot for each of its digests, and no other.
    fn check_bucket(&self, digests: &[Digest]) -> Result<(), String> {
        let Some(&digest) = digests.first() else { return Ok(()) };
        let bucket = self.find(digest);
        let run = self.lines[bucket.line].run(Portable, bucket.index, &self.shape);
        let slots: Vec<u64> = digests.iter().map(|&digest| self.matches(bucket, digest)).collect();
        let alike = |own: &u64| slots.iter().filter(|&other| other == own).count();
        let stray = slots.iter().position(|own| own.count_ones() as usize != alike(own));
        if let Some(stray) = stray {
            return Err(format!("{:?} is stored and has no slot of its own", digests[stray]));
        }
        match run.count_ones() as usize - digests.len() {
            0 => Ok(()),
            left => Err(format!("{left} slots of {bucket:?} belong to no stored key")),
        }
    }
}

impl LineFilter {
    /// Each bucket has a slot for each of its stored keys, and no other.
    pub(super) fn check_against(&self, remote: &mut dyn Ordered) -> Result<(), String> {
        let (mut total, mut found) = (0, Ok(()));
        let mut of_bucket = Vec::new();
        let is_same = |one: &Digest, other: Digest| {
            let (table, other_table) = (self.table_of(*one), self.table_of(other));
            let number = |digest| table.home(digest).number(&table.shape);
            core::ptr::eq(table, other_table) && number(*one) == number(other)
        };
        remote
            .visit(EVERY_DIGEST, &mut |digest| {
                if of_bucket.first().is_some_and(|first| !is_same(first, digest)) {
                    if found.is_ok() {
                        found = self.table_of(of_bucket[0]).check_bucket(&of_bucket);
                    }
                    of_bucket.clear();
                }
                of_bucket.push(digest);
                total += 1;
            })
            .map_err(|error| error.to_string())?;
        found?;
        if let Some(&digest) = of_bucket.first() {
            self.table_of(digest).check_bucket(&of_bucket)?;
        }
        // Every bucket with a key has as many slots as keys, so others have none.
        let len = self.len();
        if total != len {
            return Err(format!("{total} keys are stored and {len} are counted"));
        }
        Ok(())
    }
}
