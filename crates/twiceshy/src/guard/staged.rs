//! A remote of what has been read ahead.
//!
//! A filter's change reads first, plans, and writes last; an error before that
//! has changed nothing. So a change can be tried with what is at hand: if the
//! filter wants a range that was not read, the change fails, the range is read
//! (with no lock on the filter), and the change is tried again. The filter is
//! locked for moments, and never while the store works.

use std::ops::RangeInclusive;

use twiceshy_filters::Digest;
use twiceshy_filters::RemoteError;
use twiceshy_filters::remote::{Accesses, Ordered};

/// Ranges of digests as the store has them. Writes are noted by nobody: whoever
/// stages a change makes it in the store.
#[derive(Default)]
pub(super) struct Staged {
    ranges: Vec<(RangeInclusive<Digest>, Vec<Digest>)>,
    wanted: Option<RangeInclusive<Digest>>,
}

impl Staged {
    /// Adds the stored digests of a range, in order.
    pub(super) fn add(&mut self, range: RangeInclusive<Digest>, digests: Vec<Digest>) {
        self.ranges.push((range, digests));
    }

    /// The range for want of which the last change failed.
    pub(super) fn wanted(&mut self) -> Option<RangeInclusive<Digest>> {
        self.wanted.take()
    }

    /// Whether a digest is stored, where that is known.
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
