//! Phases (section 4.2): the frontier, and the keys that it passes.

use super::{BroomFilter, GROUP};
use crate::broom::form::Form;
use crate::digest::Digest;
use crate::error::Result;
use crate::quotient::place::digests_of;
use alloc::vec::Vec;

/// Keys that an operation adds or removes before the frontier moves.
#[derive(Clone, Copy)]
pub(super) enum Meanwhile {
    Nothing,
    Comes(Digest),
    Goes(Digest),
}

/// The keys of the ranges that are swept next, and the keys that they may collide with.
pub(super) struct Sweep {
    until: usize,
    digests: Vec<Digest>,
    /// The stored digests of quotients into which they will collide.
    others: Vec<Digest>,
}

impl<F: Form> BroomFilter<F> {
    /// Reads all that the frontier needs to move by `ranges`.
    pub(super) fn plan_sweep(
        &self,
        ranges: usize,
        meanwhile: Meanwhile,
        remote: &mut F::Remote,
    ) -> Result<Sweep> {
        let quotients = self.level.quotients();
        let until = (self.frontier + ranges).min(quotients);
        let range = digests_of(self.frontier..=until - 1, quotients);
        let mut digests = F::stored(remote, range.clone())?;
        let mut others: Vec<Digest> = Vec::new();
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::Comes(digest) => {
                digests.extend(Some(digest).filter(|digest| range.contains(digest)));
                others.push(digest);
            }
            Meanwhile::Goes(gone) => digests.retain(|&digest| digest != gone),
        }
        for &digest in &digests {
            let hash = self.hash_with(digest, true);
            if let Some(slot) = self.matching_slot(&hash) {
                // Its owner may be one of those that are rehashed themselves.
                if self.owner(hash.quotient, slot, &digests).is_none() {
                    others.extend(self.candidates(hash.quotient, remote)?);
                }
            }
        }
        if let Meanwhile::Goes(gone) = meanwhile {
            // Its slot is free by then. Hashed with the new function, which Invariant 7
            // says nothing of, it might be taken for the owner of another's.
            others.retain(|&digest| digest != gone);
        }
        Ok(Sweep { until, digests, others })
    }

    /// The functions that a sweep changes in the remote.
    pub(super) fn swept(&self, sweep: &Sweep) -> Vec<(Digest, [u64; 2])> {
        sweep.digests.iter().map(|&digest| (digest, self.functions)).collect()
    }

    /// Moves the frontier, and rehashes the keys that it passes.
    pub(super) fn sweep(&mut self, sweep: Sweep) {
        for &digest in &sweep.digests {
            let hash = self.hash(digest);
            if !self.yard.remove(digest)
                && let Some(slot) = self.matching_slot(&hash)
            {
                let _ = self.level.remove(hash.quotient, slot);
            }
        }
        // Keys that remain there in the yard are not in the remote: their group under the new
        // function would not know of them.
        let swept = digests_of(self.frontier..=sweep.until - 1, self.level.quotients());
        let strangers: Vec<Digest> = self.yard.range(swept).collect();
        for digest in strangers {
            self.yard.remove(digest);
        }
        let groups = self.frontier / GROUP..=(sweep.until - 1) / GROUP;
        self.frontier = sweep.until;
        groups.for_each(|group| self.drop_dead_ghosts(group));
        // A swept key owns nothing until it is placed again.
        let mut others = sweep.others;
        others.retain(|digest| !sweep.digests.contains(digest));
        for (index, &digest) in sweep.digests.iter().enumerate() {
            let hash = self.hash(digest);
            if let Some(slot) = self.matching_slot(&hash) {
                let placed = self.owner(hash.quotient, slot, &sweep.digests[..index]);
                let owner = placed.or_else(|| self.owner(hash.quotient, slot, &others));
                if owner.is_none() {
                    // Its owner was not read: it stays.
                    self.put_into_yard(&hash);
                    continue;
                }
                self.extend(hash.quotient, slot, owner, &hash);
            }
            self.place(&hash);
        }
        self.counts.kicks += sweep.digests.len() as u64;
        if self.frontier == self.level.quotients() {
            self.phase += 1;
            self.frontier = 0;
            self.functions = [self.functions[1], self.draw()];
        }
    }
}
