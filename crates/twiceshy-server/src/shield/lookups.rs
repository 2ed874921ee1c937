//! Lookups: the filter answers what it can, the store the rest, and the filter adapts.

use std::borrow::Cow;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::{Inner, Shield};
use crate::backend::{Failure, Fetched};
use crate::upstream::Upstream;

impl<U: Upstream> Shield<U> {
    pub(crate) async fn get_many(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        self.values(keys, async |passed| self.inner.upstream.values(passed, most).await).await
    }

    /// MGET: nil also for a value that GET would refuse. Adapting to such a key does no harm:
    /// the filter has its digest.
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
        let (mut places, mut passed) = self.inner.passed(keys);
        if places.is_empty() {
            return Ok(Fetched { values: vec![None; keys.len()], next: None });
        }
        let Fetched { values, next } = ask(&passed).await?;
        // The answer ends before the first key for whose value there was no room.
        let answered = places.get(values.len()).copied().unwrap_or(keys.len());
        places.truncate(values.len());
        passed.truncate(values.len());
        let values = self.inner.answered(answered, (places, passed), values, Option::is_some)?;
        Ok(Fetched { values, next })
    }

    pub(crate) async fn exists(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let inner = &self.inner;
        let passed = inner.passed(keys);
        if passed.0.is_empty() {
            return Ok(0);
        }
        let found = inner.upstream.exist(&passed.1).await?;
        let found = inner.answered(keys.len(), passed, found, |found| *found)?;
        Ok(found.into_iter().filter(|found| *found).count())
    }
}

impl<U: Upstream> Inner<U> {
    /// The keys to look up in the store, and their places.
    fn passed(&self, keys: &[Bytes]) -> (Vec<usize>, Vec<Bytes>) {
        let mut canonical: Vec<(usize, Cow<'_, Bytes>)> = Vec::with_capacity(keys.len());
        for (place, key) in keys.iter().enumerate() {
            canonical.extend(self.upstream.canonical(key).map(|key| (place, key)));
        }
        let owned = |(place, key): (usize, Cow<'_, Bytes>)| (place, key.into_owned());
        let Some(held) = self.trust.held() else {
            return canonical.into_iter().map(owned).unzip();
        };
        // What the log has just inserted first: then it goes to the filter.
        let fresh = |key: &[u8]| self.stream.contains(|| self.sidecar.digest(key));
        let maybe = match &canonical[..] {
            // A single key needs no lists.
            [(_, key)] => vec![fresh(key) || self.sidecar.guard().contains(&key[..])],
            canonical => {
                let keys: Vec<&[u8]> = canonical.iter().map(|(_, key)| &key[..]).collect();
                let fresh: Vec<bool> = keys.iter().map(|key| fresh(key)).collect();
                let maybe = self.sidecar.contains_many(&keys);
                maybe.into_iter().zip(fresh).map(|(maybe, fresh)| maybe || fresh).collect()
            }
        };
        if !self.trust.held_since(held) {
            return canonical.into_iter().map(owned).unzip();
        }
        let all = canonical.into_iter().zip(maybe);
        all.filter(|(_, maybe)| *maybe).map(|(asked, _)| owned(asked)).unzip()
    }

    /// Merges the store's answers with the filter's, in the order of all `count` keys. The
    /// filter adapts to the keys that the store does not have.
    fn answered<T: Clone + Default>(
        &self,
        count: usize,
        (places, keys): (Vec<usize>, Vec<Bytes>),
        found: Vec<T>,
        is_there: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>, Failure> {
        self.asked.fetch_add(keys.len() as u64, Ordering::Relaxed);
        let mut answers = vec![T::default(); count];
        for ((place, key), found) in places.into_iter().zip(keys).zip(found) {
            if !is_there(&found) {
                // The answer stands, whether or not the filter can adapt.
                let _ = self.sidecar.guard().adapt(key);
            }
            answers[place] = found;
        }
        Ok(answers)
    }
}
