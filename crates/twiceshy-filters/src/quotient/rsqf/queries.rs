//! Queries: one at a time, and many with their memory prefetched.

use super::super::glance::ByteBlocks;
use super::{Fingerprint, Rsqf};
use crate::batch::{Glance, Glances, Probes, glance_at_all, probe_all};
use crate::bits::word::{Words, Work};
use crate::digest::Digest;

/// [`DigestFilter::contains`] of a digest's first word.
pub(super) struct Query<'a> {
    pub(super) filter: &'a Rsqf,
    pub(super) word: u64,
}

impl Work for Query<'_> {
    type Outcome = bool;

    #[inline(always)]
    fn run(self, words: impl Words) -> bool {
        let Fingerprint { quotient, remainder } = self.filter.cut(self.word);
        self.filter.runs.holds(words, quotient, remainder)
    }
}

/// [`DigestFilter::contains_many`].
pub(super) struct Queries<'a> {
    pub(super) filter: &'a Rsqf,
    pub(super) digests: &'a [Digest],
    pub(super) found: &'a mut [bool],
}

impl Work for Queries<'_> {
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
struct Probing<'a, W> {
    filter: &'a Rsqf,
    words: W,
}

impl<W: Words> Probes for Probing<'_, W> {
    type Probe = Fingerprint;

    #[inline(always)]
    fn locate(&self, digest: Digest) -> Fingerprint {
        self.filter.fingerprint(digest)
    }

    #[inline(always)]
    fn prefetch(&self, fingerprint: &Fingerprint) {
        self.filter.runs.prefetch(fingerprint.quotient);
    }

    #[inline(always)]
    fn test(&self, fingerprint: &Fingerprint) -> bool {
        self.filter.runs.holds(self.words, fingerprint.quotient, fingerprint.remainder)
    }
}

/// The steps of many queries where remainders have a byte.
struct Glancing<'a, W> {
    filter: &'a Rsqf,
    words: W,
    blocks: ByteBlocks<'a>,
}

impl<W: Words> Glances for Glancing<'_, W> {
    #[inline(always)]
    fn prefetch(&self, digest: Digest) {
        self.blocks.prefetch(self.filter.fingerprint(digest).quotient);
    }

    #[inline(always)]
    fn glance(&self, digest: Digest) -> Glance {
        let Fingerprint { quotient, remainder } = self.filter.fingerprint(digest);
        let seen = self.blocks.glance(self.words, quotient);
        Glance { found: seen.slots.any(remainder), open: seen.far }
    }

    #[inline(always)]
    fn test(&self, digest: Digest) -> bool {
        Query { filter: self.filter, word: digest.word(0) }.run(self.words)
    }
}
