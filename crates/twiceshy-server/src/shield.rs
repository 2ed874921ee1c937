//! [`Shield`]: a filter in front of PostgreSQL or Redis.
//!
//! ```text
//! GET, EXISTS   filter: absent? answered. Else the store is asked; a key that it
//!               does not have is not asked for again: the filter adapts, or forgets it
//! SET           filter first, then the store     (Redis; refused by PostgreSQL)
//! DEL           the store first, then the filter
//! TS.ADDED      filter; a client sends it before it writes to the store
//! TS.REMOVED    a client sends it after it removed keys from the store; the filter forgets
//!               those that the store does not have
//! ```
//!
//! The digests are in a local directory, with a file that names their store. Keys that are added
//! to the store without TS.ADDED **read as missing until the next resync**; a key that is
//! removed without TS.REMOVED costs two lookups in the store, and is forgotten.
//!
//! Keys may have been added while the shield was not running. It therefore begins with a resync,
//! and passes every lookup on to the store until that is done ([`Shield::is_trusted`]).
//!
//! A shield that follows its store needs neither TS.ADDED nor TS.REMOVED: the store tells it of
//! keys that come and go, and lookups are passed on while it does not.

mod changes;
mod fresh;
mod leaving;
mod lookups;
mod origin;
mod passed;
pub(crate) mod resync;
mod seen;
pub(crate) mod stream;
#[cfg(test)]
mod tests;
mod told;
mod trust;
mod vanished;
mod writes;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{info, warn};
use twiceshy::guard::Store as _;
use twiceshy::store::{Durability, Options, Redb, SidecarStore};
use twiceshy::{Guard, Sidecar};

use crate::backend::Failure;
use crate::backups::Backups;
use crate::blocking::blocking;
use crate::health::{Health, Probe};
use crate::upstream::Upstream;

use changes::Changes;
use origin::Origin;
pub(crate) use origin::{State, replace_file};
use stream::Stream;
use trust::Trust;
use vanished::SecondLooks;

pub use resync::Resynced;

/// How a shield is opened.
#[derive(Clone, Debug)]
pub struct ShieldOptions {
    /// The directory of its digests; created if it does not exist.
    pub directory: PathBuf,
    /// The pause between two resyncs. `None`: no more resyncs.
    pub resync: Option<Duration>,
    /// Whether to begin with a resync. Without it, keys that were added while the shield was not
    /// running read as missing, so turn it off only for stores that have no other writer.
    /// Changes then wait for the disk. After an unclean stop, and when the files were restored
    /// from a copy, the shield resyncs all the same.
    pub resync_at_start: bool,
}

/// A filter in front of an external store.
pub struct Shield<U: Upstream> {
    pub(crate) inner: Arc<Inner<U>>,
    /// Resyncs, or follows the store.
    upkeep: JoinHandle<()>,
    /// Whether the store tells of its keys. A resync alone then gives no trust.
    follows: bool,
}

/// What a shield and its upkeep share.
pub(crate) struct Inner<U> {
    pub(crate) upstream: U,
    pub(crate) sidecar: SidecarStore,
    /// Where the sidecar is.
    pub(crate) directory: PathBuf,
    changes: Arc<Changes>,
    origin: Mutex<Origin>,
    backups: Backups,
    /// Whether the filter has every key that the shield knows of.
    pub(crate) trust: Trust,
    /// What was read of the store's log, if it is followed.
    pub(crate) stream: Stream,
    second_looks: SecondLooks,
    probe: Probe,
    /// Held by the running resync, and by who writes what the store's log says.
    pub(crate) resyncing: Arc<tokio::sync::Mutex<()>>,
    /// Tells a running resync to stop.
    stopping: AtomicBool,
    /// Resyncs so far.
    seed: AtomicU64,
}

/// How long to wait when a resync failed: at first, and at most.
pub(crate) const FIRST_PAUSE: Duration = Duration::from_millis(100);
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl<U: Upstream> Shield<U> {
    /// Opens the sidecar of a store. A new one is built from the store before this returns;
    /// `progress` receives the number of keys done and about how many there are.
    ///
    /// # Errors
    /// When the directory belongs to another store or is not a sidecar, or when the store is
    /// down before the sidecar is built.
    pub async fn open(
        upstream: U,
        options: &ShieldOptions,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Self, Failure> {
        // A resync at the next start restores what a loss of power takes away.
        let durable = !options.resync_at_start;
        let durability = if durable { Durability::Power } else { Durability::Process };
        let (inner, found) = Inner::open(upstream, &options.directory, durability).await?;
        if matches!(found, State::Whole { .. }) && !options.resync_at_start {
            inner.trust.give();
        }
        match found {
            State::Partial => {
                let built = inner.resync(progress).await?;
                inner.trust.give();
                info!(keys = built.keys, without_key = built.without_key, "the filter is built");
            }
            State::Loose if !options.resync_at_start => warn!(
                "the last run was not stopped cleanly, or the filter's files were restored from a \
                 copy: it may not know all keys, and the store is asked for every key until a \
                 resync is done"
            ),
            State::Loose | State::Whole { .. } => (),
        }
        let upkeep = tokio::spawn(keep_synced(Arc::clone(&inner), options.resync));
        Ok(Shield { inner, upkeep, follows: false })
    }

    /// A shield whose filter this task keeps up to date with what the store tells.
    pub(crate) fn kept(inner: Arc<Inner<U>>, upkeep: JoinHandle<()>) -> Self {
        Shield { inner, upkeep, follows: true }
    }

    /// Whether the filter answers lookups: not before the first resync.
    #[must_use]
    pub fn is_trusted(&self) -> bool {
        self.inner.is_trusted()
    }

    pub(crate) async fn health(&self) -> Health {
        let inner = &self.inner;
        let store_up = inner.probe.store_up(&inner.upstream, |keys| inner.count_reads(keys)).await;
        Health { filter_trusted: self.is_trusted(), store_up, follow: None }
    }

    /// Brings the filter up to date with the store now.
    ///
    /// # Errors
    /// When the store or the sidecar fails. Some new keys may have been added by then, and no
    /// key of the store is forgotten.
    pub async fn resync(&self) -> Result<Resynced, Failure> {
        let resynced = self.inner.resync(|_, _| ()).await?;
        if !self.follows {
            self.inner.trust.give();
        }
        Ok(resynced)
    }

    pub(crate) async fn snapshot(&self) -> Result<(), Failure> {
        let inner = Arc::clone(&self.inner);
        blocking(move || Ok(inner.sidecar.snapshot()?)).await
    }

    pub(crate) async fn backup(&self, to: PathBuf) -> Result<u64, Failure> {
        let inner = Arc::clone(&self.inner);
        blocking(move || {
            let state = inner.origin().state();
            let (name, text) = origin::of_a_copy(&inner.upstream.origin(), state);
            let others = [(name, text.as_bytes())];
            inner.backups.run(|progress| inner.sidecar.backup_with(to, &others, progress))
        })
        .await
    }

    pub(crate) fn backups(&self) -> &Backups {
        &self.inner.backups
    }

    /// The number of keys that the filter has.
    pub(crate) fn count(&self) -> Result<u64, Failure> {
        let count = self.guard().store().count();
        Ok(count.map_err(twiceshy::guard::Error::Read)?)
    }

    pub(crate) fn guard(&self) -> &Guard<Redb> {
        self.inner.sidecar.guard()
    }

    /// Writes a snapshot and closes the sidecar.
    pub(crate) async fn close(mut self) -> Result<(), Failure> {
        self.upkeep.abort();
        // Its result does not matter.
        let _ = (&mut self.upkeep).await;
        let inner = Arc::clone(&self.inner);
        drop(self);
        // Abandoned work may still be running.
        inner.stopping.store(true, Ordering::Relaxed);
        inner.backups.stop();
        drop(inner.resyncing.lock().await);
        blocking(move || {
            inner.backups.wait();
            match Arc::try_unwrap(inner) {
                Ok(inner) => inner.close(),
                // An abandoned write still has it; the next start resyncs.
                Err(inner) => Ok(inner.sidecar.snapshot()?),
            }
        })
        .await
    }
}

impl<U: Upstream> Drop for Shield<U> {
    fn drop(&mut self) {
        self.upkeep.abort();
    }
}

impl<U: Upstream> Inner<U> {
    /// Opens the sidecar of a store, and says what it knows. Nothing is trusted yet.
    pub(crate) async fn open(
        upstream: U,
        directory: &Path,
        durability: Durability,
    ) -> Result<(Arc<Self>, State), Failure> {
        let capacity = usize::try_from(upstream.estimate().await.unwrap_or(0)).unwrap_or(0);
        let capacity = (capacity + capacity / 8).max(1 << 16);
        let store = Options::default().capacity(capacity).durability(durability);
        let (at, origin) = (directory.to_path_buf(), upstream.origin());
        let (sidecar, origin, found) = blocking(move || {
            let mut origin = Origin::open(&at, origin)?;
            let mut found = origin.state();
            if found != State::Partial {
                // Before anything is written: it is not trusted until a clean stop.
                origin.set(State::Loose)?;
            }
            let sidecar: SidecarStore = store
                .open_sidecar(&at, &mut |_, _| ())
                .map_err(|error| not_opened(&error, &at, found))?;
            // When the filter is relied on is for [`Trust`] to say.
            Sidecar::built(&sidecar);
            if found == State::Partial {
                origin.set(State::Partial)?;
            }
            if let State::Whole { generation } = found
                && !(sidecar.was_intact() && sidecar.generation()? == generation)
            {
                found = State::Loose;
            }
            Ok((sidecar, origin, found))
        })
        .await?;
        let inner = Inner {
            upstream,
            sidecar,
            directory: directory.into(),
            changes: Arc::default(),
            origin: Mutex::new(origin),
            backups: Backups::default(),
            trust: Trust::none(),
            stream: Stream::default(),
            second_looks: SecondLooks::default(),
            probe: Probe::default(),
            resyncing: Arc::default(),
            stopping: AtomicBool::new(false),
            seed: AtomicU64::new(0),
        };
        Ok((Arc::new(inner), found))
    }

    fn is_trusted(&self) -> bool {
        self.trust.holds()
    }

    fn next_seed(&self) -> u64 {
        self.seed.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Scans the store; the caller decides what that is worth.
    pub(crate) async fn resync(
        self: &Arc<Self>,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Resynced, Failure> {
        let resynced = resync::resync(self, progress).await?;
        let inner = Arc::clone(self);
        blocking(move || inner.scanned()).await?;
        Ok(resynced)
    }

    /// A scan was finished: the sidecar is whole when it is stopped cleanly.
    pub(crate) fn scanned(&self) -> Result<(), Failure> {
        let mut origin = self.origin();
        if origin.state() == State::Partial { origin.set(State::Loose) } else { Ok(()) }
    }

    fn origin(&self) -> MutexGuard<'_, Origin> {
        // It has what was written last, also after a panic.
        self.origin.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The end of a run. The sidecar is closed first: that may write to it as well.
    fn close(self) -> Result<(), Failure> {
        let trusted = self.is_trusted();
        let mut origin = self.origin.into_inner().unwrap_or_else(PoisonError::into_inner);
        let generation = self.sidecar.close()?;
        // Without a resync it is as the previous run left it.
        if trusted { origin.settle(generation) } else { Ok(()) }
    }
}

/// Resyncs until the first one has succeeded, and then at regular intervals.
async fn keep_synced<U: Upstream>(inner: Arc<Inner<U>>, every: Option<Duration>) {
    let mut pause = Duration::ZERO;
    while !inner.is_trusted() {
        sleep(pause).await;
        pause = (2 * pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        let resynced = inner.resync(|_, _| ()).await;
        if resynced.is_ok() {
            inner.trust.give();
        }
        log(resynced);
    }
    while let Some(every) = every {
        sleep(every).await;
        log(inner.resync(|_, _| ()).await);
    }
}

pub(crate) fn log(resynced: Result<Resynced, Failure>) {
    match resynced {
        Ok(Resynced { keys, added, forgotten, without_key }) => {
            info!(keys, added, forgotten, without_key, "resynced");
        }
        Err(failure) => warn!(%failure, "no resync; trying again later"),
    }
}

/// The file that goes with a copy of a shield's directory that is not open: its name and text.
pub(crate) fn loose_copy(directory: &Path) -> Option<(&'static str, String)> {
    origin::of_a_copy_of(directory)
}

/// Why a sidecar could not be opened, and what to do after a loss of power.
fn not_opened(error: &twiceshy::store::Error, directory: &Path, found: State) -> Failure {
    let remedy = match (error, found) {
        (twiceshy::store::Error::Engine { doing: "open", .. }, State::Loose | State::Partial) => {
            format!(
                "; its last run was not stopped cleanly: if the power was lost, remove {}, and the \
             filter is built again",
                directory.display()
            )
        }
        _ => String::new(),
    };
    Failure::Store(format!("{error}{remedy}"))
}
