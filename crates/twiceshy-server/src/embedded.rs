//! [`Embedded`]: a store in a directory of the server.
//!
//! Lookups run on the caller's thread, since most of them touch only memory. Writes wait for the
//! disk, so all of them go through one thread, which writes in one batch what has gathered
//! during the previous write: a hundred writing clients cost one wait.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};
use twiceshy::Guard;
use twiceshy::guard::Store as _;
use twiceshy::store::{GuardedStore, Redb};

use crate::backend::{Failure, Fetched};
use crate::backups::Backups;
use crate::blocking::blocking;

/// A guarded store, and the thread that writes to it.
pub struct Embedded {
    store: Arc<GuardedStore>,
    queue: mpsc::Sender<Write>,
    writer: JoinHandle<()>,
    backups: Arc<Backups>,
}

type Record = (Bytes, Bytes);

/// Records whose client waits for the write.
struct Write {
    records: Vec<Record>,
    done: oneshot::Sender<Result<(), Failure>>,
}

/// The length of the queue of writes; more clients wait for a place in it.
const QUEUE: usize = 1024;

/// Records and bytes that one write takes, unless one client brings more.
const GATHERED_RECORDS: usize = 1 << 14;
const GATHERED_BYTES: usize = 64 << 20;

impl Embedded {
    /// Serves a store.
    #[must_use]
    pub fn new(store: GuardedStore) -> Self {
        let store = Arc::new(store);
        let (queue, writes) = mpsc::channel(QUEUE);
        let writer = thread::spawn({
            let store = Arc::clone(&store);
            move || write_all(&store, writes)
        });
        Embedded { store, queue, writer, backups: Arc::default() }
    }

    pub(crate) fn get_many(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        let (mut bytes, mut next) = (0, None);
        let values = self.store.get_many_while(keys, |value| {
            if bytes + value.len() > most {
                next = Some(value.len());
                return None;
            }
            bytes += value.len();
            Some(Bytes::copy_from_slice(value))
        })?;
        Ok(Fetched { values, next })
    }

    pub(crate) fn exists(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let mut found = 0;
        for key in keys {
            found += usize::from(self.store.exists(key)?);
        }
        Ok(found)
    }

    pub(crate) async fn set_many(&self, records: &[Record]) -> Result<(), Failure> {
        let (done, answer) = oneshot::channel();
        let write = Write { records: records.to_vec(), done };
        self.queue.send(write).await.map_err(|_| writer_is_gone())?;
        answer.await.map_err(|_| writer_is_gone())?
    }

    pub(crate) async fn remove(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let (store, keys) = (Arc::clone(&self.store), keys.to_vec());
        blocking(move || Ok(store.remove_many(&keys)?)).await
    }

    pub(crate) async fn snapshot(&self) -> Result<(), Failure> {
        let store = Arc::clone(&self.store);
        blocking(move || Ok(store.snapshot()?)).await
    }

    pub(crate) async fn backup(&self, to: PathBuf) -> Result<u64, Failure> {
        let (store, backups) = (Arc::clone(&self.store), Arc::clone(&self.backups));
        blocking(move || backups.run(|progress| store.backup_with(to, &[], progress))).await
    }

    pub(crate) fn backups(&self) -> &Backups {
        &self.backups
    }

    pub(crate) fn count(&self) -> Result<u64, Failure> {
        self.store.store().count().map_err(|error| Failure::Store(error.to_string()))
    }

    pub(crate) fn guard(&self) -> &Guard<Redb> {
        &self.store
    }

    pub(crate) async fn close(self) -> Result<(), Failure> {
        let Embedded { store, queue, writer, backups } = self;
        drop(queue);
        backups.stop();
        blocking(move || {
            backups.wait();
            writer.join().map_err(|_| writer_is_gone())?;
            match Arc::try_unwrap(store) {
                Ok(store) => {
                    store.close()?;
                    Ok(())
                }
                // A removal whose client did not wait still has it.
                Err(store) => Ok(store.snapshot()?),
            }
        })
        .await
    }
}

fn writer_is_gone() -> Failure {
    Failure::Store("its writer has stopped; see the log and restart the server".into())
}

/// Writes all that has gathered, again and again.
fn write_all(store: &GuardedStore, mut writes: mpsc::Receiver<Write>) {
    while let Some(Write { mut records, done }) = writes.blocking_recv() {
        let mut waiting = vec![done];
        let mut bytes = size(&records);
        while records.len() < GATHERED_RECORDS
            && bytes < GATHERED_BYTES
            && let Ok(more) = writes.try_recv()
        {
            bytes += size(&more.records);
            records.extend(more.records);
            waiting.push(more.done);
        }
        let result = store.put_many(&last_of_each(records));
        let result = result.map(|_| ()).map_err(Failure::from);
        for done in waiting {
            // A client that is gone needs no answer.
            let _ = done.send(result.clone());
        }
    }
}

fn size(records: &[Record]) -> usize {
    records.iter().map(|(key, value)| key.len() + value.len()).sum()
}

/// Of records with one key the last: the others would be overwritten at once.
fn last_of_each(mut records: Vec<Record>) -> Vec<Record> {
    if records.len() > 1 {
        let mut seen = HashSet::with_capacity(records.len());
        records.reverse();
        records.retain(|(key, _)| seen.insert(key.clone()));
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_each_key_stays() {
        let record = |key: &'static str, value: &'static str| (key.into(), value.into());
        let records = vec![record("a", "1"), record("b", "2"), record("a", "3")];
        let mut last = last_of_each(records);
        last.sort();
        assert_eq!(last, [record("a", "3"), record("b", "2")]);
    }
}
