//! Every invariant of a line filter.

use alloc::format;
use alloc::string::{String, ToString};

use super::LineFilter;
use super::hot::find;
use super::lanes::Portable;
use super::shape::{Home, MOST_DRIFT};
use crate::remote::{EVERY_DIGEST, Ordered};

impl LineFilter {
    /// What holds whatever the remote has: every line is sound, windows tile the buckets, and
    /// all slots are counted.
    pub(super) fn check_lines(&self) -> Result<(), String> {
        let shape = &self.shape;
        let (mut used, mut next_bucket) = (0, 0);
        for (index, line) in self.lines.iter().enumerate() {
            if !line.is_sound(shape) {
                return Err(format!("line {index} is damaged"));
            }
            let start = (index * shape.buckets) as i64 - i64::from(line.drift());
            if line.drift().abs() > MOST_DRIFT || start != next_bucket {
                return Err(format!("line {index} does not start where the one before it ends"));
            }
            used += line.used(shape);
            next_bucket = start + line.window() as i64;
        }
        if next_bucket != (self.lines.len() * shape.buckets) as i64 {
            return Err("the last line does not end with the last bucket".into());
        }
        let adapted = self.lines.iter().filter(|line| line.states() != 0).count();
        if adapted != self.adapted {
            return Err(format!("{adapted} lines have adapted, {} are counted", self.adapted));
        }
        if used != self.counts.len {
            return Err(format!("{used} slots are in use for {} keys", self.counts.len));
        }
        self.departed.check()
    }

    /// Each bucket has a slot for each of its stored keys, and no other.
    pub(super) fn check_against(&self, remote: &mut dyn Ordered) -> Result<(), String> {
        let shape = &self.shape;
        let mut broken = None;
        let (mut total, mut bucket, mut of_bucket) = (0, None, 0);
        let mut end_bucket = |home: Option<Home>, count: usize| {
            let Some(home) = home else { return };
            let found = find(Portable, &self.lines, home, shape);
            let slots = self.lines[found.line].run(Portable, found.index, shape).count_ones();
            if slots as usize != count && broken.is_none() {
                broken = Some(format!("{count} keys of {home:?} have {slots} slots"));
            }
        };
        let mut denied = None;
        remote
            .visit(EVERY_DIGEST, &mut |digest| {
                let home = self.home(digest);
                let number = home.number(shape);
                if bucket.is_none_or(|last: Home| last.number(shape) != number) {
                    end_bucket(bucket, of_bucket);
                    (bucket, of_bucket) = (Some(home), 0);
                }
                total += 1;
                of_bucket += 1;
                if self.matches(self.find(digest), digest) == 0 {
                    denied = denied.or(Some(digest));
                }
            })
            .map_err(|error| error.to_string())?;
        end_bucket(bucket, of_bucket);
        if let Some(digest) = denied {
            return Err(format!("{digest:?} is stored and denied"));
        }
        if let Some(broken) = broken {
            return Err(broken);
        }
        if total != self.counts.len {
            return Err(format!("{total} keys are stored and {} are counted", self.counts.len));
        }
        Ok(())
    }
}
