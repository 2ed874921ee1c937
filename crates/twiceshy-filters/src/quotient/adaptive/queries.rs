//! Queries: one at a time, and many with their memory prefetched.

use core::ops::Range;

use super::super::block::Within;
use super::super::glance::ByteBlocks;
use super::super::place::Place;
use super::super::search::Search;
use super::Adaptive;
use crate::batch::{Glance, Glances, Probes, glance_at_all, probe_all};
use crate::bits::word::{Words, Work, WorkOn};
use crate::digest::Digest;

impl<R: Search> Adaptive<R> {
    #[inline(always)]
    fn holds_with(&self, words: impl Words, place: &Place) -> bool {
        match self.runs.find_near(words, place.quotient).1 {
            Some(run) => self.holds_in(words, run, place),
            None => words.apart(FarQuery { filter: self }, place.digest.words().into()),
        }
    }

    /// Whether the digest's run has a slot that may be its own. Everything beyond one load
    /// is out of line and takes bare numbers, so most queries end without a call and stay
    /// in registers.
    #[inline(always)]
    fn holds_in(&self, words: impl Words, run: Within, place: &Place) -> bool {
        let [first, second] = place.digest.words();
        let at_once = self.rule.may_be_in_at_once(words, &self.runs, run, place);
        let Range { start, end } = run.slots();
        match at_once {
            Some(false) => false,
            Some(true) => self.look_at_match(start, end, first, second),
            None => words.apart(SlowQuery { filter: self }, (start..end, [first, second])),
        }
    }

    /// [`Adaptive::look`] at a run that matched at once.
    #[inline(never)]
    fn look_at_match(&self, start: usize, end: usize, first: u64, second: u64) -> bool {
        self.rule.none_adapted(&self.runs, Within::of(&(start..end)))
            || self.look(start, end, first, second)
    }

    /// [`Adaptive::run_holds`], out of line: few queries get here.
    #[cold]
    #[inline(never)]
    fn look(&self, start: usize, end: usize, first: u64, second: u64) -> bool {
        self.run_holds(&(start..end), &self.place(Digest::new([first, second])))
    }
}

/// [`DigestFilter::contains`] of a digest's two words.
pub(super) struct Query<'a, R: Search> {
    pub(super) filter: &'a Adaptive<R>,
}

impl<R: Search> WorkOn<(u64, u64)> for Query<'_, R> {
    type Outcome = bool;

    #[inline(always)]
    fn run_on(self, words: impl Words, (first, second): (u64, u64)) -> bool {
        self.filter.holds_with(words, &self.filter.place(Digest::new([first, second])))
    }
}

/// [`DigestFilter::contains`] of a digest's two words, wherever its run is.
struct FarQuery<'a, R: Search> {
    filter: &'a Adaptive<R>,
}

impl<R: Search> WorkOn<(u64, u64)> for FarQuery<'_, R> {
    type Outcome = bool;

    #[inline(always)]
    fn run_on(self, words: impl Words, (first, second): (u64, u64)) -> bool {
        let place = self.filter.place(Digest::new([first, second]));
        let run = self.filter.runs.find_far(words, place.quotient);
        self.filter.holds_in(words, Within::of(&run), &place)
    }
}

/// [`Adaptive::holds_in`] of a run and a digest's words, in more than one step.
struct SlowQuery<'a, R: Search> {
    filter: &'a Adaptive<R>,
}

impl<R: Search> WorkOn<(Range<usize>, [u64; 2])> for SlowQuery<'_, R> {
    type Outcome = bool;

    #[inline(always)]
    fn run_on(self, words: impl Words, (run, digest): (Range<usize>, [u64; 2])) -> bool {
        let Adaptive { rule, runs, .. } = self.filter;
        let place = self.filter.place(Digest::new(digest));
        rule.may_be_in(words, runs, &run, &place)
            && self.filter.look(run.start, run.end, digest[0], digest[1])
    }
}

/// [`DigestFilter::contains_many`].
pub(super) struct Queries<'a, R: Search> {
    pub(super) filter: &'a Adaptive<R>,
    pub(super) digests: &'a [Digest],
    pub(super) found: &'a mut [bool],
}

impl<R: Search> Work for Queries<'_, R> {
    type Outcome = ();

    #[inline(always)]
    fn run(self, words: impl Words) {
        let Queries { filter, digests, found } = self;
        match filter.runs.of_bytes() {
            Some(blocks) => glance_at_all(digests, found, &Glancing { filter, words, blocks }),
            None => probe_all(digests, found, &Probing { filter, words }),
        }
    }
}

/// The steps of many queries.
struct Probing<'a, R: Search, W> {
    filter: &'a Adaptive<R>,
    words: W,
}

impl<R: Search, W: Words> Probes for Probing<'_, R, W> {
    type Probe = Place;

    #[inline(always)]
    fn locate(&self, digest: Digest) -> Place {
        self.filter.place(digest)
    }

    #[inline(always)]
    fn prefetch(&self, place: &Place) {
        self.filter.runs.prefetch(place.quotient);
        if R::EVERY_QUERY_READS_STATE {
            self.filter.runs.prefetch_state(place.quotient);
        }
    }

    #[inline(always)]
    fn test(&self, place: &Place) -> bool {
        self.filter.holds_with(self.words, place)
    }
}

/// The steps of many queries where remainders have a byte.
struct Glancing<'a, R: Search, W> {
    filter: &'a Adaptive<R>,
    words: W,
    blocks: ByteBlocks<'a>,
}

impl<R: Search, W: Words> Glances for Glancing<'_, R, W> {
    #[inline(always)]
    fn prefetch(&self, digest: Digest) {
        self.blocks.prefetch(self.filter.place(digest).quotient);
    }

    /// A possible match is left open: its state has to be decoded.
    #[inline(always)]
    fn glance(&self, digest: Digest) -> Glance {
        let place = self.filter.place(digest);
        let seen = self.blocks.glance(self.words, place.quotient);
        let may_be = self.filter.rule.may_be_among(self.words, seen.slots, &place);
        Glance { found: false, open: seen.occupied & (seen.far | may_be) }
    }

    #[inline(always)]
    fn test(&self, digest: Digest) -> bool {
        self.filter.holds_with(self.words, &self.filter.place(digest))
    }
}
