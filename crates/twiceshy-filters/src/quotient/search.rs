//! How a query searches a run before it decodes a block's state.
//!
//! Every default leaves the answer open, and the caller then decodes: a new variant writes
//! `impl Search for Variant {}`. The variants here override them, because nearly all queries
//! end without decoding.

use core::ops::Range;

use crate::bits::word::Words;

use super::block::{Bytes, Within};
use super::place::Place;
use super::rule::Rule;
use super::runs::Runs;

/// How to search a run without decoding its block.
pub trait Search: Rule {
    /// Whether every query reads a block's state, and not only those that have found a
    /// matching remainder: batches then prefetch it.
    const EVERY_QUERY_READS_STATE: bool = true;

    /// `false` when no slot of a run is the digest's, whatever the states of the slots:
    /// so most queries end.
    #[inline(always)]
    fn may_be_in(
        &self,
        _words: impl Words,
        _runs: &Runs,
        _run: &Range<usize>,
        _place: &Place,
    ) -> bool {
        true
    }

    /// [`Search::may_be_in`] if one load shows it, else `None`. Inlined into every query.
    #[inline(always)]
    fn may_be_in_at_once(
        &self,
        _words: impl Words,
        _runs: &Runs,
        _run: Within,
        _place: &Place,
    ) -> Option<bool> {
        None
    }

    /// `false` when none of these slots, with remainders of a byte, is the digest's. For
    /// batches of queries, so without unpredictable branches.
    #[inline(always)]
    fn may_be_among(&self, _words: impl Words, _slots: Bytes, _place: &Place) -> bool {
        true
    }

    /// Whether no slot of a run has adapted, if one load shows it. Then `true` of
    /// [`Search::may_be_in_at_once`] is final.
    #[inline(always)]
    fn none_adapted(&self, _runs: &Runs, _run: Within) -> bool {
        false
    }

    /// Whether slot `index` of a block may be the digest's, if that is known without
    /// decoding.
    fn undecoded(
        &self,
        _state: &[u8],
        _index: usize,
        _remainder: u64,
        _place: &Place,
    ) -> Option<bool> {
        None
    }
}
