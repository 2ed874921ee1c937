//! [`Staged`]: a remote with the ranges that were read ahead.
//!
//! A filter's modification reads first, then plans, then writes; an error before the writes
//! leaves the filter unchanged. A modification can therefore be tried with the ranges at hand.
//! If it needs another range, it fails, the range is read without a lock on the filter, and the
//! modification is tried again. The filter is locked only for moments, and never while the
//! store works.

use std::ops::RangeInclusive;

use twiceshy_filters::Digest;
use twiceshy_filters::RemoteError;
use twiceshy_filters::remote::{Accesses, Ordered};

/// Ranges of the store's digests. It ignores writes: the guard makes them in the store.
#[derive(Default)]
pub(crate) struct Staged {
    ranges: Vec<(RangeInclusive<Digest>, Vec<Digest>)>,
    wanted: Option<RangeInclusive<Digest>>,
}

impl Staged {
    /// Adds the stored digests of a range, in order.
    pub(crate) fn add(&mut self, range: RangeInclusive<Digest>, digests: Vec<Digest>) {
        self.ranges.push((range, digests));
    }

    /// The range that the last modification lacked.
    pub(crate) fn wanted(&mut self) -> Option<RangeInclusive<Digest>> {
        self.wanted.take()
    }

    /// Whether a digest is stored; an error if its range was not read.
    fn holds(&mut self, digest: Digest) -> Result<bool, RemoteError> {
        let mut found = false;
        self.visit(digest..=digest, &mut |_| found = true)?;
        Ok(found)
    }
}

impl Ordered for Staged {
    fn insert(&mut self, digest: Digest) -> Result<(), RemoteError> {
        self.holds(digest).map(|_| ())
    }

    fn remove(&mut self, digest: Digest) -> Result<bool, RemoteError> {
        self.holds(digest)
    }

    fn visit(
        &mut self,
        range: RangeInclusive<Digest>,
        visitor: &mut dyn FnMut(Digest),
    ) -> Result<(), RemoteError> {
        let covers = |read: &RangeInclusive<Digest>| {
            read.start() <= range.start() && range.end() <= read.end()
        };
        let Some((_, digests)) = self.ranges.iter().find(|(read, _)| covers(read)) else {
            self.wanted = Some(range);
            return Err("a range that was not read ahead".into());
        };
        let start = digests.partition_point(|digest| digest < range.start());
        digests[start..].iter().take_while(|digest| *digest <= range.end()).for_each(|&digest| {
            visitor(digest);
        });
        Ok(())
    }

    fn accesses(&self) -> Accesses {
        Accesses::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(number: u128) -> Digest {
        Digest::from_number(number)
    }

    /// Every tenth digest is stored, and two ranges were read.
    #[test]
    fn what_was_read_is_answered_and_the_rest_is_wanted() {
        let stored =
            |from: u128, to: u128| (from..=to).filter(|number| number % 10 == 0).map(digest);
        let mut staged = Staged::default();
        let read = [(100, 135), (150, 170)];
        for (from, to) in read {
            staged.add(digest(from)..=digest(to), stored(from, to).collect());
        }
        for (from, to) in (95..175).flat_map(|from| (from..175).map(move |to| (from, to))) {
            let range = digest(from)..=digest(to);
            let was_read = read.iter().any(|&(first, last)| first <= from && to <= last);
            let mut seen = Vec::new();
            let answer = staged.visit(range.clone(), &mut |digest| seen.push(digest));
            let expected: Vec<Digest> =
                if was_read { stored(from, to).collect() } else { Vec::new() };
            assert_eq!((answer.is_ok(), seen), (was_read, expected), "{from} to {to}");
            assert_eq!(staged.wanted(), (!was_read).then_some(range));
            assert_eq!(staged.wanted(), None, "it is asked for once");
            if from == to {
                let removed = staged.remove(digest(from)).ok();
                assert_eq!(removed, was_read.then_some(from % 10 == 0), "{from}");
                assert_eq!(staged.insert(digest(from)).is_ok(), was_read, "{from}");
                assert_eq!(staged.wanted().is_some(), !was_read, "{from}");
            }
        }
    }
}
