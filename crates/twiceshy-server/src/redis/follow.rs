//! Following: the server tells of keys that come and go, by keyspace events.
//!
//! ```text
//! subscribe to every master ─▶ resync ─▶ beat ─▶ trust for max_lag ─▶ beat ─▶ ...
//!                 ▲                                                     │
//!                 └──── pause, no trust ◀──── anything unexpected ──────┘
//! ```
//!
//! Keys from before the subscription are found by the resync, later ones by their events. An
//! event comes after the write, and is lost with its connection. So the filter is trusted only
//! for `max_lag` after a beat: a request whose answer comes after all events from before it was
//! sent. A lookup therefore never denies a key that was stored `max_lag` before it, or earlier.
//!
//! An event may be old. A new key does no harm; a removed one is looked up before it is
//! forgotten.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use tracing::{info, warn};
use twiceshy::store::Durability;

use crate::backend::Failure;
use crate::shield::{self, Inner, Resynced, Shield, ShieldOptions, State};

use super::listener::{Beat, Event, Events, Listener};
use super::{Redis, RedisServer};

/// How a Redis server is followed.
#[derive(Clone, Copy, Debug)]
pub struct Following {
    /// How old a key may be that a lookup still denies. The server is asked four times as often
    /// whether all events have arrived; without an answer, lookups are passed on to it.
    pub max_lag: Duration,
    /// Whether the shield may set `notify-keyspace-events`.
    pub configure: bool,
}

/// Keys that are added to the filter with one write.
const AT_ONCE: usize = 1 << 12;
/// Beats without an answer. There are some on the way if the server is far away.
const UNANSWERED: usize = 8;
/// Pauses before the server is asked again: after a failure, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Redis {
    /// Opens the sidecar of a server, or a cluster, that tells of the keys that come and go.
    /// A new one is built before this returns; `progress` receives the number of keys done and
    /// about how many there are.
    ///
    /// # Errors
    /// As [`Shield::open`]; also when the server does not tell of its keys.
    pub async fn follow(
        server: RedisServer,
        options: &ShieldOptions,
        following: Following,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Self, Failure> {
        if !options.resync_at_start {
            return Err(Failure::Refused(
                "a Redis server does not say what it stored while nobody listened, so following \
                 it begins with a resync: leave out --no-resync-at-start, or --follow"
                    .into(),
            ));
        }
        let mut session = Session::begin(&server, following).await?;
        // The resync at every start restores what a loss of power takes away.
        let (inner, found) = Inner::open(server, &options.directory, Durability::Process).await?;
        if found == State::Partial {
            let built = session.resync(&inner, progress).await?;
            info!(keys = built.keys, "the filter is built");
        }
        let keeping = keep_following(Arc::clone(&inner), session, following, options.resync);
        Ok(Shield::kept(inner, tokio::spawn(keeping)))
    }
}

/// Follows, and begins again when that ends.
async fn keep_following(
    inner: Arc<Inner<RedisServer>>,
    session: Session,
    following: Following,
    resync: Option<Duration>,
) {
    let mut begun = Ok(session);
    let mut pause = Duration::ZERO;
    loop {
        let failure = match begun {
            Ok(mut session) => {
                let Err(failure) = session.run(&inner, following.max_lag, resync).await;
                if session.was_trusted {
                    pause = Duration::ZERO;
                }
                failure
            }
            Err(failure) => failure,
        };
        inner.trust.withdraw();
        warn!(%failure, "not followed; the store is asked for every key until the next resync");
        sleep(pause).await;
        pause = (2 * pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        begun = Session::begin(&inner.upstream, following).await;
    }
}

/// Subscriptions to all masters; as soon as one fails, it is over.
struct Session {
    /// By the names of the masters in their cluster; a single server has none.
    listeners: Vec<(String, Listener)>,
    events: Events,
    /// What the masters said of themselves before the resync, or later.
    known: Vec<Beat>,
    /// When the filter had every key from before the subscriptions.
    synced: Option<Instant>,
    was_trusted: bool,
}

impl Session {
    async fn begin(server: &RedisServer, following: Following) -> Result<Self, Failure> {
        let masters = match &server.cluster {
            None => vec![(String::new(), server.node.address().clone())],
            Some(cluster) => {
                let view = cluster.whole().await?;
                view.masters().map(|(name, address)| (name.clone(), address)).collect()
            }
        };
        let events = Events::new();
        let mut listeners = Vec::with_capacity(masters.len());
        for (name, address) in masters {
            let Following { configure, .. } = following;
            let is_cluster = server.cluster.is_some();
            let listener =
                Listener::subscribe(&address, is_cluster, server.timeout, configure, &events);
            listeners.push((name, listener.await?));
        }
        let known = all_beats(listeners.clone()).await?;
        Ok(Session { listeners, events, known, synced: None, was_trusted: false })
    }

    /// Finds the keys from before the subscriptions.
    async fn resync(
        &mut self,
        inner: &Arc<Inner<RedisServer>>,
        progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Resynced, Failure> {
        let mut resync = pin!(inner.resync(progress));
        loop {
            tokio::select! {
                resynced = &mut resync => {
                    let resynced = resynced?;
                    self.synced = Some(Instant::now());
                    return Ok(resynced);
                }
                Some(event) = self.events.receiver.recv() => self.apply(inner, event).await?,
            }
        }
    }

    /// Follows until something fails; resyncs beside it if keys were removed unheard.
    async fn run(
        &mut self,
        inner: &Arc<Inner<RedisServer>>,
        max_lag: Duration,
        every: Option<Duration>,
    ) -> Result<Infallible, Failure> {
        let after = |pause: Option<Duration>| pause.map(|pause| Instant::now() + pause);
        if self.synced.is_none() {
            let resynced = self.resync(inner, |_, _| ()).await?;
            shield::log(Ok(resynced));
        }
        let mut ticks = interval((max_lag / 4).max(Duration::from_millis(1)));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut beats, mut resyncs) = (JoinSet::new(), JoinSet::new());
        let mut due = after(every);
        loop {
            tokio::select! {
                Some(event) = self.events.receiver.recv() => self.apply(inner, event).await?,
                _ = ticks.tick(), if beats.len() < UNANSWERED => {
                    let (sent, listeners) = (Instant::now(), self.listeners.clone());
                    beats.spawn(async move { Ok::<_, Failure>((sent, all_beats(listeners).await?)) });
                }
                Some(beat) = beats.join_next() => {
                    let (sent, beat) = beat.map_err(|_| panicked())??;
                    if self.heard(inner, beat).await? {
                        due = Some(Instant::now());
                    }
                    self.trust(inner, sent, max_lag);
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)),
                    if due.is_some() && resyncs.is_empty() =>
                {
                    due = None;
                    let inner = Arc::clone(inner);
                    resyncs.spawn(async move { inner.resync(|_, _| ()).await });
                }
                Some(resynced) = resyncs.join_next() => {
                    let resynced = resynced.map_err(|_| panicked())?;
                    let next = if resynced.is_ok() { every } else { Some(LONGEST_PAUSE) };
                    due = due.or_else(|| after(next));
                    shield::log(resynced);
                }
            }
        }
    }

    /// Takes in the events that came before a beat, and what the masters say. Returns whether all
    /// keys of one were removed, of which it does not tell.
    async fn heard(
        &mut self,
        inner: &Arc<Inner<RedisServer>>,
        beat: Vec<Beat>,
    ) -> Result<bool, Failure> {
        let arrived = self.events.receiver.len();
        self.apply_some(inner, Vec::new(), arrived).await?;
        if self.events.are_lost() {
            return Err(Failure::Upstream(
                "more events arrived than the shield could take in; if that happens often, \
                 following does not pay"
                    .into(),
            ));
        }
        let flushed = self.known.iter().zip(&beat).any(|(then, now)| then.flushes != now.flushes);
        for (then, now) in self.known.iter().zip(&beat) {
            if then.unheard != now.unheard {
                return Err(Failure::Upstream(
                    "it was told to do what it does not tell of (as SWAPDB, REPLICAOF or CONFIG \
                     SET)"
                        .into(),
                ));
            }
            let ours = |name: &String| self.listeners.iter().any(|(listened, _)| listened == name);
            if now.topology.as_ref().is_some_and(|now| !now.masters.keys().all(ours)) {
                return Err(Failure::Upstream("the cluster has a new master".into()));
            }
        }
        self.known = beat;
        Ok(flushed)
    }

    /// All events from before `sent` are taken in.
    fn trust(&mut self, inner: &Inner<RedisServer>, sent: Instant, max_lag: Duration) {
        // Without the keys of the resync they are not all.
        if self.synced.is_none_or(|synced| sent < synced) {
            return;
        }
        inner.trust.give_until((sent + max_lag).into_std());
        if !self.was_trusted {
            info!(masters = self.listeners.len(), "the store is followed");
            self.was_trusted = true;
        }
    }

    /// Takes in an event, and some of those that wait.
    async fn apply(
        &mut self,
        inner: &Arc<Inner<RedisServer>>,
        first: Event,
    ) -> Result<(), Failure> {
        let more = self.events.receiver.len().min(AT_ONCE);
        self.apply_some(inner, vec![first], more).await
    }

    /// Takes in events, and so many more of those that wait.
    async fn apply_some(
        &mut self,
        inner: &Arc<Inner<RedisServer>>,
        mut events: Vec<Event>,
        mut more: usize,
    ) -> Result<(), Failure> {
        loop {
            while more > 0 && events.len() < AT_ONCE {
                events.extend(self.events.receiver.try_recv());
                more -= 1;
            }
            if events.is_empty() {
                return Ok(());
            }
            let (mut new, mut gone) = (Vec::new(), Vec::new());
            for event in events.drain(..) {
                match event {
                    Event::New(key) => new.push(key),
                    Event::Gone(key) => gone.push(key),
                }
            }
            // Their order does not matter: the store is asked about those that are gone.
            if !new.is_empty() {
                inner.appeared(new).await?;
            }
            if !gone.is_empty() {
                inner.vanished(gone).await?;
            }
        }
    }
}

/// A beat of each.
async fn all_beats(listeners: Vec<(String, Listener)>) -> Result<Vec<Beat>, Failure> {
    try_join_all(listeners.into_iter().map(|(_, listener)| listener.beat())).await
}

fn panicked() -> Failure {
    Failure::Store("it panicked; see the log and restart the server".into())
}
