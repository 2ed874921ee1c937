//! Filters made without their remotes: from sorted digests, by doubling, by merging two.

use alloc::format;
use alloc::string::ToString;

use super::super::append::Appending;
use super::{Fingerprint, NO_STATE, Params, Rsqf};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::filter::Stats;
use crate::params::{MAX_BINS, Params as _, too_small};

impl Rsqf {
    /// A filter of sorted digests: the same bytes as with [`Rsqf::add`], several times as
    /// fast. A digest that comes twice has to be deleted twice.
    ///
    /// ```
    /// use twiceshy_filters::quotient::Rsqf;
    /// use twiceshy_filters::{DigestFilter, KeyHasher};
    /// let hasher = KeyHasher::random();
    /// let mut digests: Vec<_> = (0..1000).map(|n| hasher.digest(format!("key {n}"))).collect();
    /// digests.sort_unstable();
    /// let filter = Rsqf::from_sorted(&"rsqf:f=8".parse()?, 1000, digests)?;
    /// assert!(filter.contains(hasher.digest("key 7")));
    /// # Ok::<(), twiceshy_filters::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Spec`] as for [`Rsqf::new`], and when a digest comes before a
    /// smaller one; [`Error::Full`] hands back the first that finds no slot.
    pub fn from_sorted(
        params: &Params,
        capacity: usize,
        digests: impl IntoIterator<Item = Digest>,
    ) -> Result<Self> {
        let mut filter = Self::new(params, capacity)?;
        let mut appending = filter.appending();
        let mut last = Digest::new([0, 0]);
        for digest in digests {
            if digest < last {
                let reason = format!("{digest:?} comes behind {last:?}; sort the digests");
                return Err(Error::spec(params.to_string(), reason));
            }
            if appending.len() == filter.runs.quotients() {
                return Err(Error::Full { digest, len: appending.len(), capacity });
            }
            let Fingerprint { quotient, remainder } = filter.fingerprint(digest);
            appending.append(quotient, remainder);
            last = digest;
        }
        filter.runs = appending.finish();
        Ok(filter)
    }

    /// Runs of this filter's shape, to be written in order.
    fn appending(&self) -> Appending {
        Appending::new(self.runs.quotients(), self.runs.width(), NO_STATE)
    }

    /// The same filter with twice the slots, made without the remote: the first bit of each
    /// remainder goes to its quotient. Bit for bit it is the filter that the remote would
    /// give. `None` if remainders have only one bit, or the slots would be too many.
    #[must_use]
    pub fn doubled(&self) -> Option<Self> {
        let width = self.runs.width() - 1;
        let params = self.params.with("f", width).ok()?;
        let slots = self.runs.quotients().checked_mul(2).filter(|&n| n <= MAX_BINS)?;
        let mut appending = Appending::new(slots, width, NO_STATE);
        for (quotient, remainder) in self.fingerprints() {
            let top = remainder >> width;
            appending.append(2 * quotient + top as usize, remainder ^ top << width);
        }
        let counts = Stats {
            capacity: 2 * self.counts.capacity,
            rebuilds: self.counts.rebuilds + 1,
            ..self.counts
        };
        Some(Rsqf { runs: appending.finish(), params, counts })
    }

    /// A filter of all fingerprints of both, made without their remotes, with the slots and
    /// the capacity of `self`. A key that is in both gets two fingerprints, so the sets
    /// should have no key in common.
    ///
    /// # Errors
    /// [`Error::Spec`] if slots or remainders of the two differ, or they have more keys
    /// together than slots.
    pub fn merged(&self, other: &Self) -> Result<Self> {
        let shape = |filter: &Self| (filter.runs.quotients(), filter.runs.width());
        if shape(self) != shape(other) {
            let ((slots, f), (other_slots, other_f)) = (shape(self), shape(other));
            let reason = format!(
                "{slots} slots of f={f} do not merge with {other_slots} of f={other_f}; build \
                 both for the same capacity"
            );
            return Err(Error::spec(self.params.to_string(), reason));
        }
        let len = self.runs.len() + other.runs.len();
        if len > self.runs.quotients() {
            return Err(too_small(&self.params, len, self.counts.capacity));
        }
        let mut appending = self.appending();
        let mut others = other.fingerprints().peekable();
        for own in self.fingerprints() {
            while let Some((quotient, remainder)) = others.next_if(|other| *other < own) {
                appending.append(quotient, remainder);
            }
            appending.append(own.0, own.1);
        }
        others.for_each(|(quotient, remainder)| appending.append(quotient, remainder));
        let counts = Stats {
            rebuilds: self.counts.rebuilds + other.counts.rebuilds + 1,
            kicks: self.counts.kicks + other.counts.kicks,
            ..self.counts
        };
        Ok(Rsqf { runs: appending.finish(), params: self.params, counts })
    }
}
