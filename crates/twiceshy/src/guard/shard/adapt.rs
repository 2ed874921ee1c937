//! Adapting a shard's filter to a false positive.

use twiceshy_filters::Adapted;

use super::lookup::{Evidence, Shard};
use super::staged::Staged;
use crate::guard::error::Result;
use crate::guard::store::Store;
use crate::guard::sync::Ordering;

impl Shard {
    /// Adapts to a false positive, with the read that proved it. Returns `None` if the filter is
    /// busy; the next read of the same key can adapt instead.
    ///
    /// A write may have overtaken the read. Its list is then out of date, and adapting to it
    /// could deny a key, so the range is read again.
    pub(crate) fn adapt(
        &self,
        mut evidence: Evidence,
        store: &impl Store,
    ) -> Result<Option<Adapted>> {
        let Some(mut filter) = self.try_lock_filter() else { return Ok(None) };
        let inner = evidence.inner;
        let mut staged = Staged::default();
        if self.version.load(Ordering::Acquire) == evidence.version {
            filter.add_pending(&evidence.range, &mut evidence.digests);
            staged = evidence.staged();
        }
        filter.modify(staged, store, |filter, remote| filter.adapt(inner, remote)).map(Some)
    }
}
