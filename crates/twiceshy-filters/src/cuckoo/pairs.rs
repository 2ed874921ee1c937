//! Queries of two tables whose bins are words: both bins are compared at once.
//!
//! For the rules that compare a cell only with the value that the digest would leave there
//! ([`Rule::BY_PATTERN`]).

use crate::batch::{Probes, probe_in_ring};
use crate::bits::lanes::Lanes;
use crate::digest::Digest;

use super::mirrored::{Mirrored, Probe, Rule};
use super::table::Form;

/// Queries of two tables by patterns, whose bins are words of a form.
struct Pairs<'a, R: Rule> {
    filter: &'a Mirrored<R>,
    form: Form,
    lanes: &'a Lanes,
}

impl<R: Rule> Probes for Pairs<'_, R> {
    type Probe = Probe<2>;

    #[inline(always)]
    fn locate(&self, digest: Digest) -> Probe<2> {
        self.filter.locate(digest)
    }

    #[inline(always)]
    fn prefetch(&self, probe: &Probe<2>) {
        self.filter.table.prefetch_both(self.form, probe.bins);
    }

    #[inline(always)]
    fn test(&self, probe: &Probe<2>) -> bool {
        let patterns = self.filter.rule.patterns(probe.hashes, self.lanes);
        self.filter.table.either_is(self.form, probe.bins, patterns)
    }
}

impl<R: Rule> Mirrored<R> {
    /// The query of two tables.
    #[inline(always)]
    pub(super) fn test_two(&self, probe: &Probe<2>) -> bool {
        // A constant in each arm, so that each has a loop of its own.
        match (self.table.form(), self.table.lanes()) {
            (Form::FourU8, Some(lanes)) if R::BY_PATTERN => {
                Pairs { filter: self, form: Form::FourU8, lanes }.test(probe)
            }
            (Form::FourU16, Some(lanes)) if R::BY_PATTERN => {
                Pairs { filter: self, form: Form::FourU16, lanes }.test(probe)
            }
            _ => self.test(probe),
        }
    }

    /// The query of two tables for many.
    pub(super) fn test_two_many(&self, digests: &[Digest], found: &mut [bool]) {
        // Likewise.
        match (self.table.form(), self.table.lanes()) {
            (Form::FourU8, Some(lanes)) if R::BY_PATTERN => {
                probe_in_ring(digests, found, &Pairs { filter: self, form: Form::FourU8, lanes });
            }
            (Form::FourU16, Some(lanes)) if R::BY_PATTERN => {
                probe_in_ring(digests, found, &Pairs { filter: self, form: Form::FourU16, lanes });
            }
            (form @ Form::Words(_), Some(lanes)) if R::BY_PATTERN => {
                probe_in_ring(digests, found, &Pairs { filter: self, form, lanes });
            }
            _ => self.test_many::<2>(digests, found),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;
    use alloc::{format, vec};

    use super::*;
    use crate::cuckoo::{cuckooing, cyclic, plain_full, swapping};
    use crate::filter::{Adapted, DigestFilter as _};
    use crate::params::Params as _;
    use crate::remote::{MemoryMirror, Mirror as _};
    use crate::rng::Rng;

    /// Queries of two tables, one by one and many at once, against the query that
    /// takes one bin after the other.
    fn compare<R: Rule>(text: &str) {
        let params: R::Params = text.parse().expect("a filter");
        let mut filter = Mirrored::<R>::new(&params, 2000).expect("a capacity");
        let (mut mirror, mut rng) = (MemoryMirror::new(filter.stats().cells), Rng::new(1));
        let mut digests = || Digest::new([rng.next(), rng.next()]);
        let keys: Vec<Digest> = (0..1900).map(|_| digests()).collect();
        for &key in &keys {
            filter.insert(key, &mut mirror).expect("room");
        }
        for round in 0..2 {
            let asked: Vec<Digest> =
                keys.iter().copied().chain((0..20_000).map(|_| digests())).collect();
            let mut found = vec![false; asked.len()];
            filter.contains_many(&asked, &mut found);
            for (index, (&digest, many)) in asked.iter().zip(found).enumerate() {
                let slow = filter.test_any(filter.hashes(digest));
                assert_eq!(filter.contains(digest), slow, "{text} {round} {digest:?}");
                assert_eq!(many, slow, "{text} {round} {digest:?}");
                assert!(slow || index >= keys.len(), "{text}: a false negative");
            }
            // Keys change places and what they leave in their cells, and all hash functions.
            let mut fixed = 0;
            while params.adapts() && fixed < 20 {
                let adapted = filter.adapt(digests(), &mut mirror).expect("in memory");
                fixed += u32::from(adapted == Adapted::Fixed);
            }
            filter.rebuild(&mut mirror).expect("in memory");
            assert_ne!(filter.seed, 0, "{text}");
        }
    }

    #[test]
    fn two_bins_at_once_are_what_each_of_them_is() {
        for (f, b) in [(8, 4), (16, 4), (12, 4), (8, 2), (5, 3), (9, 8)] {
            compare::<plain_full::PlainFull>(&format!("plain-full:f={f},k=2,b={b}"));
            compare::<swapping::Swapping>(&format!("swapping:f={f},k=2,b={b}"));
            compare::<cuckooing::Cuckooing>(&format!("cuckooing:f={f},k=2,b={b}"));
        }
    }
    /// A key of a cyclic filter may have left its second fingerprint, which no pattern has.
    #[test]
    fn keys_are_found_by_any_of_their_fingerprints() {
        for (f, b) in [(7, 4), (15, 4), (11, 4), (7, 2)] {
            let text = format!("cyclic:f={f},s=1,k=2,b={b}");
            let params = text.parse().expect("a filter");
            let mut filter =
                Mirrored::<cyclic::Cyclic<cyclic::Params>>::new(&params, 500).expect("a capacity");
            let (mut mirror, mut rng) = (MemoryMirror::new(filter.stats().cells), Rng::new(2));
            let keys: Vec<Digest> =
                (0..400).map(|_| Digest::new([rng.next(), rng.next()])).collect();
            for &key in &keys {
                filter.insert(key, &mut mirror).expect("room");
            }
            for cell in filter.table.occupied().collect::<Vec<_>>() {
                let key = mirror.get(cell).expect("in memory").expect("a key");
                let second = filter.rule.variant(filter.hashes(key), 1);
                filter.table.set(cell, second);
            }
            let mut found = vec![false; keys.len()];
            filter.contains_many(&keys, &mut found);
            let denied = keys.iter().filter(|&&key| !filter.contains(key)).count();
            let many_denied = found.iter().filter(|&&found| !found).count();
            assert_eq!((denied, many_denied), (0, 0), "{text}: false negatives");
        }
    }
}
