//! Every invariant of a broom filter.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};

use super::{BroomFilter, GROUP};
use crate::broom::form::{self, Form};
use crate::error::Result;

impl<F: Form> BroomFilter<F> {
    pub(super) fn verify(&self, remote: &mut F::Remote) -> Result<(), String> {
        self.level.check()?;
        self.check_prefixes()?;
        let stored = form::all::<F>(remote).map_err(|error| error.to_string())?;
        let mut owned = BTreeSet::new();
        let mut in_yard = 0;
        for &digest in &stored {
            let hash = self.hash(digest);
            if self.yard_has(digest) {
                in_yard += 1;
                if !self.level.overflowed(hash.quotient / GROUP) {
                    return Err(format!("{digest:?} is in the yard and its group does not know"));
                }
                continue;
            }
            let Some(slot) = self.matching_slot(&hash) else {
                return Err(format!("{digest:?} is stored and has no fingerprint"));
            };
            if !owned.insert((hash.quotient, slot)) {
                return Err(format!("{digest:?} shares its fingerprint"));
            }
            let candidates =
                self.candidates(hash.quotient, remote).map_err(|error| error.to_string())?;
            if !candidates.contains(&digest) {
                return Err(format!("the remote does not find {digest:?} by its quotient"));
            }
        }
        if owned.len() != self.level.len() {
            let extra = self.level.len() - owned.len();
            return Err(format!("{extra} fingerprints belong to no stored key"));
        }
        if in_yard != self.yard.len() {
            return Err("the yard has keys that are not stored".into());
        }
        Ok(())
    }

    /// Invariant 7: no fingerprint is a prefix of another.
    pub(super) fn check_prefixes(&self) -> Result<(), String> {
        for (quotient, slot) in self.level.iter() {
            let string = self.level.string(quotient, slot);
            let mut others = self.level.equal(quotient, self.level.remainder(quotient, slot));
            others &= !(1 << slot);
            while others != 0 {
                let other = self.level.string(quotient, others.trailing_zeros());
                if string.length <= other.length && string.is_prefix_of(other.bits) {
                    return Err(format!(
                        "two fingerprints of quotient {quotient}: one is a prefix"
                    ));
                }
                others &= others - 1;
            }
        }
        Ok(())
    }
}
