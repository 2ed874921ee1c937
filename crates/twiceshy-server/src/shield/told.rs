//! Keys of which the store tells, after they came or went.

use std::sync::Arc;

use bytes::Bytes;

use super::Inner;
use crate::backend::Failure;
use crate::blocking::blocking;
use crate::upstream::Upstream;

impl<U: Upstream> Inner<U> {
    /// The store has these keys, or had them a moment ago.
    pub(crate) async fn appeared(self: &Arc<Self>, keys: Vec<Bytes>) -> Result<(), Failure> {
        let adding = self.changes.hear(self.digests(&keys).await).await;
        let added = self.add_keys(keys).await;
        adding.finish().await;
        added.map(drop)
    }

    /// The store lost these keys, and may have them again. Those that the filter does not know
    /// cost no request.
    pub(crate) async fn vanished(self: &Arc<Self>, keys: Vec<Bytes>) -> Result<(), Failure> {
        let inner = Arc::clone(self);
        let known = blocking(move || inner.known(keys)).await?;
        if known.is_empty() {
            return Ok(());
        }
        self.forget_removed(&known).await.map(drop)
    }

    fn known(&self, keys: Vec<Bytes>) -> Result<Vec<Bytes>, Failure> {
        let mut known = Vec::with_capacity(keys.len());
        for key in keys {
            if self.sidecar.exists(self.sidecar.digest(&key))? {
                known.push(key);
            }
        }
        Ok(known)
    }
}
