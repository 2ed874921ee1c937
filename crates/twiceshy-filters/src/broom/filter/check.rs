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

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;
    use crate::broom::form::Practical;
    use crate::broom::strings::Text;

    /// Every pair of strings of up to four bits that begin with 1, between two others.
    #[test]
    fn a_fingerprint_that_is_a_prefix_is_found() {
        let empty: BroomFilter<Practical> =
            BroomFilter::new(&"broom:f=8".parse().expect("a filter"), 1000).expect("a capacity");
        let strings: Vec<(u64, u8)> = (1..=4)
            .flat_map(|length| (0..1 << (length - 1)).map(move |low| (low, length)))
            .collect();
        for (&one, &other) in
            strings.iter().flat_map(|one| strings.iter().map(move |other| (one, other)))
        {
            let shorter = one.1.min(other.1);
            let is_prefix = one.0 >> (one.1 - shorter) == other.0 >> (other.1 - shorter);
            // The same remainder of one quotient, another remainder, another quotient.
            for (quotient, remainder) in [(3, 7), (3, 6), (4, 7)] {
                let mut filter = empty.clone();
                let level = &mut filter.level;
                for (string, quotient, remainder) in [
                    (Text::prefix(0, 2), 3, 7),
                    (bits(one), 3, 7),
                    (bits(other), quotient, remainder),
                    (Text::prefix(1 << 62, 2), 3, 7),
                ] {
                    level.insert(quotient, remainder, string).expect("room");
                }
                let shares = (quotient, remainder) == (3, 7);
                assert_eq!(
                    filter.check_prefixes().is_err(),
                    shares && is_prefix,
                    "{one:?}, {other:?}"
                );
            }
        }
    }

    /// A one, and the lowest `length - 1` bits of a number.
    fn bits((low, length): (u64, u8)) -> Text {
        Text::prefix((1 << (length - 1) | low) << (64 - length), length)
    }
}
