//! Keys that come and go: through the shield, or announced to it by its clients.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use twiceshy::Digest;

use super::{Inner, Shield};
use crate::backend::Failure;
use crate::blocking::blocking;
use crate::turns::in_turns;
use crate::upstream::Upstream;

impl<U: Upstream> Shield<U> {
    pub(crate) async fn set_many(&self, records: &[(Bytes, Bytes)]) -> Result<(), Failure> {
        let upstream = &self.inner.upstream;
        if !U::WRITES {
            return upstream.set(records).await;
        }
        let mut keys = Vec::with_capacity(records.len());
        in_turns(records, |some| keys.extend(some.iter().map(|(key, _)| key.clone()))).await;
        self.inner.add(keys, upstream.set(records)).await
    }

    pub(crate) async fn remove(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let upstream = &self.inner.upstream;
        if !U::WRITES {
            return upstream.remove(keys).await;
        }
        self.inner.remove(keys, upstream.remove(keys)).await
    }

    pub(crate) async fn added(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let keys = self.inner.canonical_or_refused(keys).await?;
        let adding = self.inner.changes.announce(self.inner.digests(&keys).await).await;
        let added = self.inner.add_keys(keys).await;
        adding.finish().await;
        added
    }

    pub(crate) async fn removed(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let keys = self.inner.canonical_or_refused(keys).await?;
        self.inner.forget_removed(&keys).await
    }
}

impl<U: Upstream> Inner<U> {
    /// Forgets those of the keys that the store does not have.
    pub(super) async fn forget_removed(self: &Arc<Self>, keys: &[Bytes]) -> Result<usize, Failure> {
        let digests = self.digests(keys).await;
        let removal = self.changes.remove(digests.clone()).await;
        self.count_reads(keys);
        let still_there = self.upstream.exist(keys).await?;
        let end = self.upstream.log_end().await?;
        let inner = Arc::clone(self);
        blocking(move || {
            let gone: HashSet<Digest> = digests
                .into_iter()
                .zip(still_there)
                .filter(|(_, there)| !there)
                .map(|(digest, _)| digest)
                .collect();
            let forget = |digests: &[Digest]| inner.forget_absent(digests, end);
            Ok(removal.finish(|digest| gone.contains(digest), forget)?)
        })
        .await
    }

    /// Adds keys to the filter, and then, by `store`, to the store.
    pub(super) async fn add<T>(
        self: &Arc<Self>,
        keys: Vec<Bytes>,
        store: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        // Until the store has answered.
        let adding = self.changes.add(self.digests(&keys).await).await;
        self.add_keys(keys).await?;
        let stored = store.await;
        if stored.is_err() {
            adding.may_come_late().await;
        }
        adding.finish().await;
        stored
    }

    /// Removes keys from the store by `store`, and then from the filter.
    pub(super) async fn remove<T>(
        self: &Arc<Self>,
        keys: &[Bytes],
        store: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let removal = self.changes.remove(self.digests(keys).await).await;
        let removed = store.await?;
        let inner = Arc::clone(self);
        blocking(move || {
            Ok(removal.finish(|_| true, |digests| inner.sidecar.removed_many(digests))?)
        })
        .await?;
        Ok(removed)
    }

    /// Adds keys to the filter; returns how many were new. Most keys that are stored again are
    /// known, which costs a read and no write.
    pub(super) async fn add_keys(self: &Arc<Self>, mut keys: Vec<Bytes>) -> Result<usize, Failure> {
        /// Reading for more keys would delay other connections noticeably.
        const FEW: usize = 64;
        if keys.len() <= FEW {
            self.retain_unknown(&mut keys)?;
            if keys.is_empty() {
                return Ok(0);
            }
        }
        let inner = Arc::clone(self);
        blocking(move || {
            inner.retain_unknown(&mut keys)?;
            Ok(inner.sidecar.added_many(&keys)?)
        })
        .await
    }

    fn retain_unknown(&self, keys: &mut Vec<Bytes>) -> Result<(), Failure> {
        let mut unknown = Ok(());
        keys.retain(|key| match self.sidecar.exists(self.sidecar.digest(key)) {
            Ok(known) => !known,
            Err(error) => {
                unknown = Err(error);
                false
            }
        });
        Ok(unknown?)
    }

    pub(super) async fn digests(&self, keys: &[Bytes]) -> Vec<Digest> {
        let mut digests = Vec::with_capacity(keys.len());
        in_turns(keys, |some| digests.extend(some.iter().map(|key| self.sidecar.digest(key))))
            .await;
        digests
    }

    async fn canonical_or_refused(&self, keys: &[Bytes]) -> Result<Vec<Bytes>, Failure> {
        let mut canonical = Vec::with_capacity(keys.len());
        in_turns(keys, |some| {
            let some = some.iter().filter_map(|key| self.upstream.canonical(key));
            canonical.extend(some.map(Cow::into_owned));
        })
        .await;
        if canonical.len() == keys.len() {
            return Ok(canonical);
        }
        Err(Failure::Refused(format!(
            "one of the keys cannot be in the store: {}",
            self.upstream.origin()
        )))
    }
}
