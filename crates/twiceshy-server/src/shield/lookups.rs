//! Lookups: the filter answers what it can, the store the rest, and the filter adapts.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::{Inner, Shield};
use crate::backend::{Failure, Fetched};
use crate::upstream::Upstream;

impl<U: Upstream> Shield<U> {
    pub(crate) async fn get_many(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        self.values(keys, async |passed| self.inner.upstream.values(passed, most).await).await
    }

    /// MGET: nil also for a value that GET would refuse. Such a key is neither adapted to nor
    /// forgotten: the filter has its digest, and a second look finds it.
    pub(crate) async fn get_many_or_nil(
        &self,
        keys: &[Bytes],
        most: usize,
    ) -> Result<Fetched, Failure> {
        let upstream = &self.inner.upstream;
        self.values(keys, async |passed| upstream.values_or_nil(passed, most).await).await
    }

    async fn values(
        &self,
        keys: &[Bytes],
        ask: impl AsyncFnOnce(&[Bytes]) -> Result<Fetched, Failure>,
    ) -> Result<Fetched, Failure> {
        let mut passed = self.inner.passed(keys);
        if passed.keys.is_empty() {
            return Ok(Fetched { values: vec![None; keys.len()], next: None });
        }
        let Fetched { values, next } = ask(&passed.keys).await?;
        // The answer ends before the first key for whose value there was no room.
        let answered = passed.places.get(values.len()).copied().unwrap_or(keys.len());
        passed.places.truncate(values.len());
        passed.keys.truncate(values.len());
        let values = self.inner.answered(answered, passed, values, Option::is_some).await;
        Ok(Fetched { values, next })
    }

    pub(crate) async fn exists(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let inner = &self.inner;
        let passed = inner.passed(keys);
        if passed.keys.is_empty() {
            return Ok(0);
        }
        let found = inner.upstream.exist(&passed.keys).await?;
        let found = inner.answered(keys.len(), passed, found, |found| *found).await;
        Ok(found.into_iter().filter(|found| *found).count())
    }
}

/// Keys to look up in the store.
pub(super) struct ToStore {
    /// Their places among all that were asked for.
    places: Vec<usize>,
    pub(super) keys: Vec<Bytes>,
    /// Whether the filter has passed them, and not only because it is not relied on.
    filtered: bool,
}

impl<U: Upstream> Inner<U> {
    /// The keys to look up in the store.
    pub(super) fn passed(&self, keys: &[Bytes]) -> ToStore {
        let mut canonical: Vec<(usize, Cow<'_, Bytes>)> = Vec::with_capacity(keys.len());
        for (place, key) in keys.iter().enumerate() {
            canonical.extend(self.upstream.canonical(key).map(|key| (place, key)));
        }
        let owned = |(place, key): (usize, Cow<'_, Bytes>)| (place, key.into_owned());
        let unfiltered = |canonical: Vec<(usize, Cow<'_, Bytes>)>| {
            let (places, keys) = canonical.into_iter().map(owned).unzip();
            ToStore { places, keys, filtered: false }
        };
        let Some(held) = self.trust.held() else {
            let passed = unfiltered(canonical);
            self.sidecar.count_unfiltered(&passed.keys);
            return passed;
        };
        // What the log has just inserted first: then it goes to the filter.
        let fresh = |key: &[u8]| self.stream.contains(|| self.sidecar.digest(key));
        let maybe = match &canonical[..] {
            // A single key needs no lists.
            [(_, key)] if !fresh(key) => vec![self.sidecar.guard().contains(&key[..])],
            canonical => {
                let keys: Vec<&[u8]> = canonical.iter().map(|(_, key)| &key[..]).collect();
                let is_fresh: Vec<bool> = keys.iter().map(|key| fresh(key)).collect();
                let of = |wanted: bool| -> Vec<&[u8]> {
                    let keys = keys.iter().zip(&is_fresh);
                    keys.filter(|(_, fresh)| **fresh == wanted).map(|(key, _)| *key).collect()
                };
                self.sidecar.count_unfiltered(&of(true));
                let mut maybe = self.sidecar.contains_many(&of(false)).into_iter();
                let answer = |&fresh: &bool| fresh || maybe.next().unwrap_or(true);
                is_fresh.iter().map(answer).collect()
            }
        };
        if !self.trust.held_since(held) {
            let denied = canonical.iter().zip(&maybe).filter(|(_, maybe)| !**maybe);
            denied.for_each(|((_, key), _)| self.sidecar.count_read(self.sidecar.digest(&key[..])));
            return unfiltered(canonical);
        }
        let all = canonical.into_iter().zip(maybe);
        let (places, keys) = all.filter(|(_, maybe)| *maybe).map(|(asked, _)| owned(asked)).unzip();
        ToStore { places, keys, filtered: true }
    }

    /// Merges the store's answers with the filter's, in the order of all `count` keys. What the
    /// store does not have does not pass the filter again.
    async fn answered<T: Clone + Default>(
        self: &Arc<Self>,
        count: usize,
        ToStore { places, keys, filtered }: ToStore,
        found: Vec<T>,
        is_there: impl Fn(&T) -> bool,
    ) -> Vec<T> {
        let (mut answers, mut missing) = (vec![T::default(); count], Vec::new());
        for ((place, key), found) in places.into_iter().zip(keys).zip(found) {
            if filtered && !is_there(&found) {
                missing.push(key);
            }
            answers[place] = found;
        }
        self.missed(missing).await;
        answers
    }
}
