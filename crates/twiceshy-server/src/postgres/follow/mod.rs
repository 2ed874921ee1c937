//! Following a table through PostgreSQL's log: logical replication, plugin `pgoutput`.
//!
//! ```text
//! first start   slot ──▶ its snapshot: scan the keys ──▶ stream from the slot's position on
//! restart       stream from what the slot has confirmed ──▶ the last transaction that is on
//!               disk has to come again, unless it was confirmed ──▶ what follows it is new
//! apply         lookups know ──▶ applied is reported ──▶ disk ──▶ flushed is reported
//! ```
//!
//! What the slot has confirmed is common to the server's log and to that which was read before,
//! whatever was done to the server: the slot is a part of what is put back. PostgreSQL writes that
//! position to disk late, so a crash takes it back a little too. The last transaction tells the
//! two apart ([`Commit`](crate::shield::stream::Commit)).
//!
//! The filter is relied on only while it is known to be fresh. Several times per `--max-lag` the
//! server is asked for the end of its log ([`probe`]). When that position has been applied, all
//! that any client could see at the moment of the question is known here, and the filter is
//! relied on until `--max-lag` after that moment. Whatever breaks, the next proof is missing and
//! lookups go to the store: a cut connection, a slow disk, a stopped process.
//!
//! With [`FollowMode::Sync`] commits wait until this shield has applied them, as long as it is
//! one of PostgreSQL's synchronous standbys: then there is no window at all. The filter is relied
//! on only while the server says that it is so.

mod forget;
mod lsn;
mod next;
mod pgoutput;
mod probe;
mod session;
mod setup;
mod slot;
mod stand_in;
mod wire;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{error, info, warn};
use twiceshy::store::Durability;

use super::Table;
use super::inspect::refused;
use crate::backend::Failure;
use crate::blocking::blocking;
use crate::shield::{Inner, Shield, ShieldOptions, resync};

pub use forget::{Forgotten, forget};
use lsn::Lsn;
use setup::{Publication, Server};
use slot::Followed;
pub(super) use slot::not_connected;
use stand_in::confirm_all;
pub(super) use wire::Walsender;

/// How a table is followed.
#[derive(Clone, Debug)]
pub struct FollowOptions {
    /// Whether commits wait for the shield.
    pub mode: FollowMode,
    /// How old the filter may be before lookups pass it by.
    pub max_lag: Duration,
    /// The `application_name` of the connection to the log, by which
    /// `synchronous_standby_names` lists it.
    pub name: String,
}

/// Whether commits wait for the shield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowMode {
    /// They do not: a key may be denied for as long as the lag.
    Async,
    /// They do, if PostgreSQL lists the shield in `synchronous_standby_names`.
    Sync,
}

/// How well a store is followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FollowStats {
    /// How old the filter may be at most; `None` if that is not known.
    pub lag: Option<Duration>,
    /// The position in the store's log up to which lookups know everything.
    pub applied: u64,
    /// The bytes of log that the store keeps for this shield.
    pub retained: u64,
}

/// What the follower knows of itself.
#[derive(Default)]
pub(crate) struct Progress {
    /// Nanoseconds after `origin` at which the filter was last known to be fresh; 0: never.
    fresh: AtomicU64,
    retained: AtomicU64,
    /// When following began; unset if it did not.
    origin: OnceLock<Instant>,
}

impl Progress {
    fn set_fresh(&self, at: Instant) {
        let Some(&origin) = self.origin.get() else { return };
        let after = at.saturating_duration_since(origin).as_nanos();
        let after = u64::try_from(after).unwrap_or(u64::MAX);
        self.fresh.fetch_max(after.max(1), Ordering::Relaxed);
    }

    /// Whether the table is followed.
    pub(super) fn is_following(&self) -> bool {
        self.origin.get().is_some()
    }

    fn lag(&self) -> Option<Duration> {
        let fresh = self.fresh.load(Ordering::Relaxed);
        let origin = self.origin.get().filter(|_| fresh > 0)?;
        Some(origin.elapsed().saturating_sub(Duration::from_nanos(fresh)))
    }
}

/// Follows one table.
struct Follower {
    inner: Arc<Inner<Table>>,
    options: FollowOptions,
}

/// The pause after a failure: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Shield<Table> {
    /// Opens the sidecar of a table and follows the table's changes. A new sidecar is built before
    /// this returns; `progress` receives the number of keys done and about how many there are.
    ///
    /// # Errors
    /// As [`Shield::open`]; [`Failure::Refused`] when the server cannot be followed, with what to
    /// change.
    pub async fn follow(
        table: Table,
        shield: &ShieldOptions,
        options: FollowOptions,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Self, Failure> {
        setup::leads_to_the_primary(&table.lanes.sessions.config)?;
        let (inner, _) = Inner::open(table, &shield.directory, Durability::Power).await?;
        inner.upstream.progress.origin.get_or_init(Instant::now);
        let follower = Follower { inner: Arc::clone(&inner), options };
        inner.recall_stream()?;
        // What cannot work is said now, and not again and again in the log.
        let (client, server, publication) = follower.prepare().await?;
        if let Err(reason) = follower.resumes(&client, &server).await? {
            info!(reason, "building the filter");
            follower.build(&server, &publication, progress).await?;
        }
        let upkeep = tokio::spawn(follower.run());
        Ok(Shield::kept(inner, upkeep))
    }

    /// How well the table is followed; `None` if it is not.
    #[must_use]
    pub fn follow_stats(&self) -> Option<FollowStats> {
        let progress = &self.inner.upstream.progress;
        progress.is_following().then(|| FollowStats {
            lag: progress.lag(),
            applied: *self.inner.stream.applied().borrow(),
            retained: progress.retained.load(Ordering::Relaxed),
        })
    }

    /// TS.WAIT: waits until everything before a position of the log is known to lookups.
    pub(crate) async fn wait(&self, position: &[u8], most: Option<&[u8]>) -> Result<(), Failure> {
        /// Longer than any lag that is worth waiting for.
        const LONGEST: u64 = 60_000;
        if self.follow_stats().is_none() {
            return Err(refused("TS.WAIT needs a server that was started with --follow"));
        }
        let position: Lsn = String::from_utf8_lossy(position).parse().map_err(refused)?;
        let milliseconds = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<u64>().ok();
        let most = match most {
            None => LONGEST,
            Some(text) => milliseconds(text).filter(|most| *most <= LONGEST).ok_or_else(|| {
                refused("the time to wait is a number of milliseconds, at most 60000")
            })?,
        };
        let mut applied = self.inner.stream.applied();
        let reached = applied.wait_for(|applied| *applied >= position.0);
        match timeout(Duration::from_millis(most), reached).await {
            Ok(_) => Ok(()),
            Err(_) => Err(refused(format!(
                "not known after {most} ms; the log is known up to {}",
                Lsn(*self.inner.stream.applied().borrow())
            ))),
        }
    }
}

impl Follower {
    /// Follows for ever.
    async fn run(self) {
        let pause = match self.options.mode {
            FollowMode::Async => Duration::from_secs(1),
            // Somebody may wait for the disk.
            FollowMode::Sync => Duration::ZERO,
        };
        let write = async {
            loop {
                let failure = self.inner.write_stream(pause).await;
                error!(%failure, "what PostgreSQL's log says could not be written; trying again");
                sleep(LONGEST_PAUSE).await;
            }
        };
        tokio::join!(write, self.follow());
    }

    /// Follows from one broken connection to the next.
    async fn follow(&self) {
        let (mut pause, mut told) = (Duration::ZERO, String::new());
        loop {
            let began = Instant::now();
            let Err(failure) = self.session().await;
            self.inner.trust.withdraw();
            if began.elapsed() > LONGEST_PAUSE {
                (pause, told) = (Duration::ZERO, String::new());
            }
            pause = (2 * pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            let refused = matches!(failure, Failure::Refused(_));
            let failure = failure.to_string();
            if failure != told {
                warn!(failure, "not following; lookups go to the store meanwhile");
                told = failure;
            }
            // Somebody has to change something first, and commits need not wait for that.
            if refused && self.options.mode == FollowMode::Sync {
                tokio::select! {
                    () = sleep(pause) => (),
                    never = confirm_all(&self.inner.upstream.lanes, &self.options.name) => match never {},
                }
            } else {
                sleep(pause).await;
            }
        }
    }

    /// A connection to the server, if it can be followed, and the publication.
    async fn prepare(&self) -> Result<(tokio_postgres::Client, Server, Publication), Failure> {
        let lanes = &self.inner.upstream.lanes;
        let client = lanes.session().await?;
        let server = setup::server(&client, self.options.mode).await?;
        setup::same_table(&client, &lanes.found).await?;
        let publication = setup::publication(&client, &server, &lanes.found).await?;
        Ok((client, server, publication))
    }

    /// Whether the stream can go on where it was; otherwise why not.
    async fn resumes(
        &self,
        client: &tokio_postgres::Client,
        server: &Server,
    ) -> Result<Result<(), String>, Failure> {
        let Inner { stream, upstream, directory, .. } = &*self.inner;
        let Some(followed) = Followed::read(directory).filter(|_| stream.position().is_some())
        else {
            return Ok(Err("the directory has no complete filter yet".into()));
        };
        if followed.system != server.system {
            return Ok(Err(format!(
                "this is another server (its system identifier is {}, not {})",
                server.system, followed.system
            )));
        }
        let fingerprint = setup::fingerprint(&upstream.lanes.found);
        let (flushed, end) = (Lsn(*stream.flushed().borrow()), Lsn(stream.end()));
        slot::resumes(client, &followed, &fingerprint, flushed, end).await
    }

    /// Builds the filter from nothing: a new slot, a scan of its snapshot, and then the position
    /// of that. Commits do not wait for it.
    async fn build(
        &self,
        server: &Server,
        publication: &Publication,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<(), Failure> {
        self.inner.trust.withdraw();
        let built = self.build_alone(server, publication, progress);
        match self.options.mode {
            FollowMode::Async => built.await,
            FollowMode::Sync => tokio::select! {
                built = built => built,
                never = confirm_all(&self.inner.upstream.lanes, &self.options.name) => match never {},
            },
        }
    }

    async fn build_alone(
        &self,
        server: &Server,
        publication: &Publication,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<(), Failure> {
        let inner = &self.inner;
        let _turn = Arc::clone(&inner.resyncing).lock_owned().await;
        inner.begin_build().await;
        let clearing = Arc::clone(inner);
        blocking(move || {
            // From here on the directory is not built, whatever happens.
            clearing.begin_stream(0)?;
            clearing.forget_all()
        })
        .await?;
        let lanes = &inner.upstream.lanes;
        let directory = &inner.directory;
        let mut slot = slot::create(lanes, directory, server, &self.options.name).await?;
        let fingerprint = setup::fingerprint(&lanes.found);
        let client = slot.session(lanes, &fingerprint).await?;
        let scan = async |keys: mpsc::Sender<Vec<Bytes>>| lanes.scan(&client, keys).await;
        let built = resync::fill(inner, scan, progress).await?;
        let at = slot.position;
        slot.finish(directory)?;
        let done = Arc::clone(inner);
        blocking(move || {
            done.begin_stream(at.0)?;
            done.scanned()
        })
        .await?;
        inner.end_build();
        info!(
            keys = built.keys,
            without_key = built.without_key,
            position = %at,
            publication = publication.name,
            "the filter is built"
        );
        Ok(())
    }
}
