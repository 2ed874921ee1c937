//! Commands that are passed on to Redis: the filter knows of every key that they may add.

use std::slice;

use bytes::Bytes;

use super::Shield;
use crate::backend::Failure;
use crate::passed::{Effect, Passed};
use crate::redis::RedisServer;
use crate::reply::Reply;

impl Shield<RedisServer> {
    /// The reply to a command that does nothing without its key, if that is surely absent.
    pub(crate) fn settled(&self, passed: &Passed) -> Option<Reply> {
        let reply = passed.without_key()?;
        let asked = self.inner.passed(slice::from_ref(passed.key()));
        asked.keys.is_empty().then_some(reply)
    }

    /// The length of the value that a command may answer.
    pub(crate) async fn passed_length(&self, passed: &Passed) -> Result<usize, Failure> {
        self.inner.count_reads(slice::from_ref(passed.key()));
        self.inner.upstream.length(passed.key()).await
    }

    /// Passes a command on.
    pub(crate) async fn pass(&self, passed: &Passed) -> Result<Reply, Failure> {
        let Passed { words, effect } = passed;
        let (inner, upstream) = (&self.inner, &self.inner.upstream);
        let key = || vec![passed.key().clone()];
        match effect {
            Effect::Needs(_) => {
                let reply = upstream.pass(words).await?;
                // An empty value looks the same; a second look finds its key.
                if inner.is_trusted() && passed.without_key() == Some(reply.clone()) {
                    inner.missed(key()).await;
                }
                Ok(reply)
            }
            Effect::MayAdd => inner.add(key(), upstream.pass(words)).await,
            Effect::Takes => inner.remove(&key(), upstream.pass(words)).await,
            Effect::Removes => {
                let keys: &[Bytes] = passed.keys();
                inner.remove(keys, upstream.unlink(keys)).await.map(Reply::count)
            }
        }
    }
}
