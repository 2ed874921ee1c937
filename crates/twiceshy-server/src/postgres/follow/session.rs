//! One connection to the log, from where the last one ended until this one breaks.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{debug, info, warn};
use twiceshy::Digest;

use super::lsn::Lsn;
use super::next::{Next, next};
use super::pgoutput::{self, Column, Message, Relation, Tuple};
use super::probe::{Probe, Prober};
use super::slot::Followed;
use super::wire::{Incoming, Positions, Walsender};
use super::{FollowMode, Follower, setup, slot};
use crate::backend::Failure;
use crate::shield::stream::{Commit, Event, Unprovable};

/// Insertions of one transaction that are applied before it is complete.
const PIECE: usize = 1 << 14;

/// How long positions may wait to be reported when no commit waits for them.
const REPORT: Duration = Duration::from_millis(100);

/// How long this shield has to have been a synchronous standby. PostgreSQL's processes do not
/// hear of a new setting all at the same time.
const SETTLE: Duration = Duration::from_secs(1);

/// How long the server may say nothing; after half of that it is asked to.
const SILENCE: Duration = Duration::from_secs(120);

/// How long keys that a lookup found to be gone may have no proof in the log.
const BEAT: Duration = Duration::from_millis(250);

/// Answers of the server that wait for their position. When there are more, the filter is far too
/// old, and only the latest are of interest.
const MOST_ASKED: usize = 1000;

/// Log that the server keeps for us, from which on we warn.
const MUCH_LOG: u64 = 1 << 30;

impl Follower {
    /// Follows until something breaks.
    pub(super) async fn session(&self) -> Result<Infallible, Failure> {
        let (client, server, publication) = self.prepare().await?;
        if let Err(reason) = self.resumes(&client, &server).await? {
            warn!(reason, "building the filter again; lookups go to the store meanwhile");
            self.build(&server, &publication, |_, _| ()).await?;
        }
        let lanes = &self.inner.upstream.lanes;
        let followed = Followed::read(&self.inner.directory);
        let followed = followed.ok_or_else(|| Failure::Store("the slot's file is gone".into()))?;
        let mut walsender = lanes.walsender(&self.options.name).await?;
        // From what it has confirmed.
        let (slot, options) = (&followed.slot, publication.options(&server));
        let started = walsender.start(&format!("SLOT \"{slot}\" LOGICAL 0/0 ({options})")).await;
        started.map_err(|error| Failure::Upstream(error.to_string()))?;
        // Nobody else can confirm more now.
        let confirmed = slot::confirmed(&client, &followed.slot).await?;
        let awaited = self.inner.resume_stream(confirmed.0).await;
        let awaited = awaited.map_err(|Unprovable| {
            self.another_log("it cannot be told whether it was put back to an older state")
        })?;
        info!(slot = followed.slot, position = %confirmed, "following PostgreSQL's log");
        let fingerprint = setup::fingerprint(&lanes.found);
        let most = lanes.timeout;
        let prober = Prober::new(client, &followed.slot, &publication, &fingerprint, most).await?;
        let (send, probes) = mpsc::channel(1);
        let reading = Reading {
            follower: self,
            walsender,
            followed,
            confirmed,
            awaited,
            key_place: None,
            xid: 0,
            events: Vec::new(),
            open: false,
            reported: Positions::default(),
            reported_at: Instant::now(),
            heard_at: Instant::now(),
            asked: VecDeque::new(),
            synchronous_since: None,
            relied: None,
            warned: MUCH_LOG,
        };
        tokio::select! {
            outcome = self.probe(prober, send) => outcome,
            outcome = reading.read(probes) => outcome,
        }
    }

    /// Asks the server again and again.
    async fn probe(
        &self,
        prober: Prober,
        send: mpsc::Sender<Probe>,
    ) -> Result<Infallible, Failure> {
        let every = self.options.max_lag / 4;
        let every = every.clamp(Duration::from_millis(5), Duration::from_millis(250));
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut unsent, mut beat_at) = (Lsn(0), Instant::now());
        loop {
            ticks.tick().await;
            let probe = prober.ask().await.map_err(Failure::Upstream)?;
            // The server sends what it has on disk. A transaction that does not wait for that may
            // be visible before.
            let stuck = unsent > Lsn(0) && probe.sendable < unsent;
            unsent = if probe.sendable < probe.end { probe.end } else { Lsn(0) };
            if send.send(probe).await.is_err() {
                return Err(Failure::Upstream("the connection to the log ended".into()));
            }
            let unproved = beat_at.elapsed() > BEAT && self.inner.stream.is_unproved();
            if !stuck && !unproved {
                continue;
            }
            beat_at = Instant::now();
            if let Err(reason) = prober.beat().await {
                // The server writes by itself, a little later.
                debug!(reason, "nothing could be written to PostgreSQL's log");
            }
        }
    }

    /// This is not the log that was read before: the next session builds the filter again.
    fn another_log(&self, why: &str) -> Failure {
        self.inner.doubt_stream();
        Failure::Upstream(format!("PostgreSQL's log is not known to be the one before: {why}"))
    }
}

/// Reads the log.
struct Reading<'a> {
    follower: &'a Follower,
    walsender: Walsender,
    followed: Followed,
    /// Where the log begins.
    confirmed: Lsn,
    /// What has to come again before anything new does.
    awaited: Option<Commit>,
    /// The key's place among the columns, once the log has said what they are.
    key_place: Option<usize>,
    /// The transaction that is being read, and what of it was not applied yet.
    xid: u32,
    events: Vec<Event>,
    open: bool,
    reported: Positions,
    reported_at: Instant,
    heard_at: Instant,
    /// When the server was asked, and the end of its log then; the oldest first.
    asked: VecDeque<(Instant, Lsn)>,
    synchronous_since: Option<Instant>,
    /// Whether the filter was relied on when it was last logged.
    relied: Option<bool>,
    /// The size of the log at the next warning.
    warned: u64,
}

impl Reading<'_> {
    async fn read(mut self, mut probes: mpsc::Receiver<Probe>) -> Result<Infallible, Failure> {
        let inner = &self.follower.inner;
        let mut flushed = inner.stream.flushed();
        loop {
            let sync = self.follower.options.mode == FollowMode::Sync;
            if sync || self.reported_at.elapsed() >= REPORT {
                self.report(false).await?;
            }
            let due = REPORT.saturating_sub(self.reported_at.elapsed());
            tokio::select! {
                next = next(&mut self.walsender, &mut probes) => match next {
                    Next::Probe(Some(probe)) => self.probed(probe)?,
                    Next::Probe(None) => {
                        return Err(Failure::Upstream("the server is not asked any more".into()));
                    }
                    Next::Log(incoming) => {
                        self.take(incoming.map_err(broken)?).await?;
                        // What has come together is reported together.
                        while self.walsender.has_next() {
                            let incoming = self.walsender.next().await.map_err(broken)?;
                            self.take(incoming).await?;
                        }
                        self.prove();
                    }
                },
                _ = flushed.changed() => (),
                () = tokio::time::sleep(due), if !sync => (),
            }
        }
    }

    /// Tells the server how far we are, if that is news or it `must` be.
    async fn report(&mut self, must: bool) -> Result<(), Failure> {
        let stream = &self.follower.inner.stream;
        let (applied, flushed) = (*stream.applied().borrow(), *stream.flushed().borrow());
        let positions = match self.awaited {
            None => Positions { applied: Lsn(applied), flushed: Lsn(flushed) },
            // The server may have another log.
            Some(_) => Positions { applied: self.confirmed, flushed: self.confirmed },
        };
        // A server with `wal_sender_timeout = 0` speaks only when it is asked.
        let silent = self.heard_at.elapsed() > SILENCE / 2;
        if must || silent || positions != self.reported {
            self.walsender.report(positions, silent).await.map_err(broken)?;
            self.reported = positions;
        }
        self.reported_at = Instant::now();
        Ok(())
    }

    async fn take(&mut self, incoming: Incoming) -> Result<(), Failure> {
        self.heard_at = Instant::now();
        match incoming {
            Incoming::Alive { end, wants_reply } => {
                match self.awaited {
                    _ if self.open => (),
                    None => self.follower.inner.reached(end.0),
                    Some(awaited) if end.0 >= awaited.end => return Err(self.put_back()),
                    Some(_) => (),
                }
                if wants_reply {
                    self.report(true).await?;
                }
            }
            Incoming::Data { data, .. } => {
                let message = pgoutput::read(data);
                self.apply(message.ok_or_else(|| strange("a message cannot be read"))?).await?;
            }
        }
        Ok(())
    }

    async fn apply(&mut self, message: Message) -> Result<(), Failure> {
        match message {
            Message::Begin { xid } => (self.xid, self.open) = (xid, true),
            Message::Commit { end, time } => {
                self.pass_on(Some(Commit { end: end.0, time })).await?;
                self.open = false;
            }
            // Of partitions we hear too, though rows are reported as those of the whole table.
            Message::Relation(relation) if relation.table != self.table() => (),
            Message::Relation(relation) => self.key_place = Some(self.key_column(&relation)?),
            Message::Insert { table, new } => {
                self.check(table)?;
                let added = self.digest(&new)?.map(Event::Added);
                self.events.extend(added);
                // Only complete transactions take something away.
                if self.events.len() >= PIECE
                    && self.events.iter().all(|event| matches!(event, Event::Added(_)))
                {
                    self.pass_on(None).await?;
                }
            }
            Message::Update { table, old, new } => {
                self.check(table)?;
                // A large key that stays is not sent as a part of the new row, and yet of the old.
                if *self.key_of(&new)? == Column::Unchanged {
                    return Ok(());
                }
                let new = self.digest(&new)?;
                let old = old.map(|old| self.digest(&old)).transpose()?.flatten();
                if old != new {
                    self.events.extend(old.map(Event::Removed));
                }
                self.events.extend(new.map(Event::Added));
            }
            Message::Delete { table, old } => {
                self.check(table)?;
                let removed = self.digest(&old)?.map(Event::Removed);
                self.events.extend(removed);
            }
            Message::Truncate { tables } => {
                if tables.contains(&self.table()) {
                    self.events.push(Event::Cleared);
                }
            }
            Message::Other => (),
        }
        Ok(())
    }

    /// Gives what was read of a transaction to the filter, unless it has it.
    async fn pass_on(&mut self, commit: Option<Commit>) -> Result<(), Failure> {
        let inner = &self.follower.inner;
        let events = std::mem::take(&mut self.events);
        let Some(awaited) = self.awaited else {
            inner.stream(self.xid, &events, commit);
            inner.room_in_stream().await;
            return Ok(());
        };
        inner.stream_again(self.xid, &events);
        match commit {
            Some(commit) if commit == awaited => {
                self.awaited = None;
                inner.rewind_stream(commit.end).await;
                Ok(())
            }
            Some(commit) if commit.end >= awaited.end => Err(self.put_back()),
            _ => Ok(()),
        }
    }

    fn put_back(&self) -> Failure {
        self.follower.another_log(
            "it does not have the last transaction that was read; the server was put back to an \
             older state",
        )
    }

    /// The number of our table.
    fn table(&self) -> u32 {
        self.follower.inner.upstream.lanes.found.oid
    }

    /// Only our table is published.
    fn check(&self, table: u32) -> Result<(), Failure> {
        if table == self.table() { Ok(()) } else { Err(strange("a row is of another table")) }
    }

    /// The place of the key among a table's columns.
    fn key_column(&self, relation: &Relation) -> Result<usize, Failure> {
        let found = &self.follower.inner.upstream.lanes.found;
        let place = relation
            .columns
            .iter()
            .position(|(name, kind)| *name == found.key && *kind == found.key_oid);
        place.ok_or_else(|| {
            Failure::Refused(format!(
                "the column {} of {} was dropped, renamed or has another type now: start the \
                 server again with the column that has the keys",
                found.key, found.name
            ))
        })
    }

    /// The key column of a row.
    fn key_of<'t>(&self, tuple: &'t Tuple) -> Result<&'t Column, Failure> {
        let place = self.key_place.ok_or_else(|| strange("its columns are not known"))?;
        tuple.get(place).ok_or_else(|| strange("a row has no key column"))
    }

    /// The digest of a row's key, if it has one.
    fn digest(&self, tuple: &Tuple) -> Result<Option<Digest>, Failure> {
        let key = match self.key_of(tuple)? {
            Column::Null | Column::Unchanged => return Ok(None),
            Column::Text(text) => self.key(text)?,
        };
        Ok(Some(self.follower.inner.sidecar.digest(key)))
    }

    /// A key as lookups have it.
    fn key(&self, text: &Bytes) -> Result<Bytes, Failure> {
        let found = &self.follower.inner.upstream.lanes.found;
        found.key_type.read_text(text).ok_or_else(|| strange("a key cannot be read"))
    }

    /// The server has answered.
    fn probed(&mut self, probe: Probe) -> Result<(), Failure> {
        let Follower { inner, options } = self.follower;
        inner.visible(|xid| probe.snapshot.is_over(xid));
        let retained = &inner.upstream.progress.retained;
        retained.store(probe.retained, std::sync::atomic::Ordering::Relaxed);
        if probe.retained >= self.warned {
            self.warned = probe.retained.saturating_mul(2);
            warn!(
                mebibytes = probe.retained >> 20,
                slot = self.followed.slot,
                "PostgreSQL keeps much of its log for this shield; limit it with \
                 max_slot_wal_keep_size"
            );
        }
        if self.heard_at.elapsed() > SILENCE {
            return Err(Failure::Upstream(format!("PostgreSQL's log is silent for {SILENCE:?}")));
        }
        if probe.sender != Some(self.walsender.pid) {
            return Err(Failure::Upstream("the slot is not ours any more".into()));
        }
        if probe.fingerprint.as_deref() != Some(&self.followed.table) {
            // The next session builds the filter again.
            return Err(Failure::Upstream(setup::CHANGED.into()));
        }
        if !probe.published {
            return Err(Failure::Upstream("the publication of the table was changed".into()));
        }
        if options.mode == FollowMode::Sync {
            if !probe.synchronous {
                self.synchronous_since = None;
            } else {
                self.synchronous_since.get_or_insert(probe.asked);
            }
            let since = self.synchronous_since.map(|since| since.elapsed());
            if since.is_none_or(|since| since < SETTLE) {
                self.relied(false);
                inner.trust.withdraw();
                self.asked.clear();
                return Ok(());
            }
        }
        if self.asked.len() == MOST_ASKED {
            self.asked.pop_front();
        }
        self.asked.push_back((probe.asked, probe.end));
        self.prove();
        Ok(())
    }

    /// Relies on the filter if it is known to be fresh.
    fn prove(&mut self) {
        let Follower { inner, options } = self.follower;
        if self.awaited.is_some() {
            return;
        }
        let applied = *inner.stream.applied().borrow();
        let mut fresh = None;
        while let Some(&(at, end)) = self.asked.front()
            && end.0 <= applied
        {
            fresh = Some(at);
            self.asked.pop_front();
        }
        if let Some(at) = fresh {
            inner.upstream.progress.set_fresh(at);
            inner.trust.give_until(at + options.max_lag);
            self.relied(true);
        }
    }

    /// Logs when the filter comes to be relied on, and when a standby is not synchronous.
    fn relied(&mut self, relied: bool) {
        if self.relied.replace(relied) == Some(relied) {
            return;
        }
        if relied {
            info!("the filter is fresh, and answers");
        } else {
            let name = &self.follower.options.name;
            warn!(
                "commits do not wait for this shield, so lookups go to the store: list {name} in \
                 synchronous_standby_names (ALTER SYSTEM SET synchronous_standby_names = '{name}'; \
                 SELECT pg_reload_conf();), or follow with async"
            );
        }
    }
}

fn broken(error: io::Error) -> Failure {
    Failure::Upstream(format!("the connection to PostgreSQL's log broke: {error}"))
}

fn strange(what: &str) -> Failure {
    Failure::Upstream(format!("PostgreSQL's log is not as expected: {what}"))
}
