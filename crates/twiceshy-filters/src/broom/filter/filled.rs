//! A filter built from all of its remote, when it grows or is rebuilt.

use super::{BroomFilter, Hash};
use crate::broom::form::{self, Form, Practical};
use crate::digest::Digest;
use crate::error::Result;
use crate::filter::Stats;
use crate::make::{Build, Grow};
use crate::params::{Params as _, too_small};
use crate::remote::Ordered;
use alloc::vec::Vec;

impl<F: Form> BroomFilter<F> {
    /// A filter of all these digests; quotients of a fresh function.
    pub(super) fn filled(&self, capacity: usize, bins: usize, digests: &[Digest]) -> Self {
        let mut fresh = Self::empty(self.params, capacity, bins);
        fresh.rng = self.rng.clone();
        fresh.functions = [fresh.draw(), fresh.draw()];
        let mut hashes: Vec<Hash> = digests.iter().map(|&digest| fresh.hash(digest)).collect();
        hashes.sort_by_key(|hash| hash.quotient);
        for run in hashes.chunk_by(|one, other| one.quotient == other.quotient) {
            let candidates: Vec<Digest> = run.iter().map(|hash| hash.digest).collect();
            for (index, hash) in run.iter().enumerate() {
                if let Some(slot) = fresh.matching_slot(hash) {
                    let owner = fresh.owner(hash.quotient, slot, &candidates[..index]);
                    fresh.extend(hash.quotient, slot, owner, hash);
                }
                fresh.place(hash);
            }
        }
        let old = self.counts;
        fresh.counts = Stats {
            rebuilds: old.rebuilds + 1,
            kicks: old.kicks,
            adaptations: old.adaptations,
            ..fresh.counts
        };
        fresh
    }

    pub(super) fn larger(&self, capacity: usize, remote: &mut F::Remote) -> Result<Self> {
        let bins = self.params.bins_for(capacity)?;
        let digests = form::all::<F>(remote)?;
        if digests.len() > capacity {
            return Err(too_small(&self.params, digests.len(), capacity));
        }
        let fresh = self.filled(capacity, bins, &digests);
        F::replace(remote, fresh.functions[0], &digests, None)?;
        Ok(fresh)
    }
}

impl Grow for BroomFilter<Practical> {
    fn grown(&self, capacity: usize, remote: &mut (dyn Ordered + 'static)) -> Result<Self> {
        self.larger(capacity, remote)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::error::Error;
    use crate::filter::DigestFilter as _;
    use crate::remote::MemorySet;
    use crate::rng::Rng;

    #[test]
    fn a_filter_is_resized_down_to_its_keys_and_no_further() {
        let (mut rng, mut remote) = (Rng::new(1), MemorySet::new());
        let spec = "broom:f=8".parse().expect("a filter");
        let mut filter = BroomFilter::<Practical>::new(&spec, 1000).expect("a capacity");
        for _ in 0..100 {
            let digest = Digest::new([rng.next(), rng.next()]);
            assert!(filter.insert(digest, &mut remote).expect("room"));
        }
        let before = filter.to_bytes();
        let refused = filter.grow(99, &mut remote).expect_err("it has 100 keys");
        assert!(matches!(refused, Error::Spec { .. }), "{refused}");
        assert!(filter.to_bytes() == before, "a refusal changes nothing");
        filter.grow(100, &mut remote).expect("room for each");
        assert_eq!((filter.stats().capacity, filter.stats().len), (100, 100));
        filter.check(&mut remote).expect("every invariant holds");
    }
}
