//! [`Session`]: one connection.
//!
//! ```text
//! read ─▶ requests ─▶ look-ups in a row: one get_many ─▶ replies ─▶ write
//!                     writes in a row:   one set_many
//! ```
//!
//! All requests that have been read are answered, in order, before the next read. Reading and
//! writing overlap, so a client may send a long pipeline before it reads.
//!
//! Nothing is fetched before there is room for it. When the unread replies reach their limit,
//! the session pauses, in the middle of a batch if need be, until the client has read them.
//! Requests whose replies would not fit even then, or for which all connections together have no
//! memory left, are refused.

mod drain;
mod lookups;
mod passed;
mod room;
#[cfg(test)]
mod tests;
mod transaction;
mod turn;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::command::{self, Command};
use crate::info;
use crate::latency::Timed;
use crate::memory::Share;
use crate::replies::Replies;
use crate::reply::Reply;
use crate::request::{Requests, Unusable};
use crate::server::Server;

use drain::drain;
pub(crate) use room::NoRoom;
use transaction::Transaction;
use turn::TURN;

/// Bytes that are read at once.
const READ: usize = 16 << 10;

/// Room that is made at once for an argument to come: a promise costs no more.
const AHEAD: usize = 64 << 10;

/// Keys of one `get_many`: no more are faster.
pub(crate) const LOOKUPS: usize = 64;

/// Keys and small commands between two looks at the clock.
const WORK: usize = 64;

/// One connection, and what it has said of itself.
pub(crate) struct Session<'a> {
    pub(crate) server: &'a Server,
    pub(crate) id: u64,
    pub(crate) address: IpAddr,
    pub(crate) name: Bytes,
    pub(crate) authenticated: bool,
    pub(crate) wrong_guesses: u32,
    /// After the replies so far the connection ends.
    pub(crate) closing: Option<&'static str>,
    /// It ends in the middle of a request.
    is_broken: bool,
    transaction: Transaction,
    pub(crate) replies: Replies,
    pub(crate) answered: u64,
    errors: u64,
    row: Row,
    /// What comes after the row, and had no room.
    held: Option<Todo>,
    /// Nothing more is answered until the client has read its replies.
    waits: bool,
    /// Room for the keys of a row: a pipeline has one after the other.
    keys: Vec<Bytes>,
    share: Share<'a>,
    /// Memory of the requests in hand.
    requested: usize,
    /// When the requests in hand were read.
    read_at: Instant,
    /// When others had their turn, and what was done since the clock was looked at.
    turn: Instant,
    work: usize,
    /// How long it may work before others have their turn: [`TURN`], nothing in tests.
    slice: Duration,
}

/// A command to do, or what to answer instead.
type Todo = Result<Command, Reply>;

/// Requests in a row that can be done at once, not answered yet.
enum Row {
    None,
    Get(Vec<Bytes>),
    Set(Vec<(Bytes, Bytes)>),
}

impl<'a> Session<'a> {
    pub(crate) fn new(server: &'a Server, id: u64, address: IpAddr) -> Self {
        let now = Instant::now();
        Session {
            server,
            id,
            address,
            name: Bytes::new(),
            authenticated: server.password.is_none(),
            wrong_guesses: 0,
            closing: None,
            is_broken: false,
            transaction: Transaction::default(),
            replies: Replies::default(),
            answered: 0,
            errors: 0,
            row: Row::None,
            held: None,
            waits: false,
            keys: Vec::new(),
            share: Share::new(&server.memory, server.limits.memory),
            requested: 0,
            read_at: now,
            turn: now,
            work: 0,
            slice: TURN,
        }
    }

    /// Answers until either side ends it; says which.
    pub(crate) async fn run(
        mut self,
        mut socket: TcpStream,
        stop: CancellationToken,
    ) -> io::Result<&'static str> {
        socket.set_nodelay(true)?;
        let (mut reader, mut writer) = socket.split();
        let (mut requests, mut buffer) = (Requests::default(), BytesMut::new());
        let idle = self.server.limits.idle.unwrap_or(Duration::MAX);
        let deadline = |from: Instant| from.checked_add(idle).unwrap_or(from + A_YEAR);
        let mut heard_at = Instant::now();
        let mut silence = std::pin::pin!(sleep_until(deadline(heard_at).into()));
        // One for all turns: each that is made or dropped takes a lock of all connections.
        let mut stopped = std::pin::pin!(stop.cancelled());
        loop {
            self.account(&requests);
            if self.replies.is_empty() {
                self.waits = false;
            }
            if !self.waits {
                self.answer(&mut requests, &mut buffer).await;
                if self.idles() {
                    requests.tidy(&mut buffer);
                }
                self.account(&requests);
            }
            let idles = self.idles();
            if let Some(reason) = self.closing
                && idles
                && self.replies.is_empty()
            {
                writer.shutdown().await?;
                if self.is_broken {
                    drain(&mut reader, stopped).await;
                }
                return Ok(reason);
            }
            let mut reads = idles && self.closing.is_none() && !self.is_full();
            if reads {
                let wanted = requests.wanted(&buffer).clamp(READ, AHEAD);
                if !self.may_take(requests.growth(&mut buffer, wanted)) {
                    if requests.is_partial() {
                        requests.skip();
                        continue;
                    }
                    // Little is kept of a line, and of what is skipped: it has room, unless
                    // replies take it.
                    reads = self.replies.is_empty();
                }
                if reads {
                    requests.reserve(&mut buffer, wanted);
                }
            }
            tokio::select! {
                biased;
                written = self.replies.write(&mut writer), if !self.replies.is_empty() => {
                    self.replies.advance(written?);
                    heard_at = Instant::now();
                }
                read = reader.read_buf(&mut buffer), if reads => {
                    if read? == 0 {
                        self.closing = Some("by the client");
                    }
                    self.read_at = Instant::now();
                    (heard_at, self.turn) = (self.read_at, self.read_at);
                }
                () = &mut stopped, if self.closing.is_none() => {
                    self.closing = Some("the server stops");
                }
                () = &mut silence => {
                    // It has been heard since the alarm was set, or it is gone.
                    if deadline(heard_at) <= Instant::now() {
                        return Ok("idle for too long");
                    }
                    silence.as_mut().reset(deadline(heard_at).into());
                }
            }
        }
    }

    /// Answers the requests that have come as a whole, as far as there is room.
    async fn answer(&mut self, requests: &mut Requests, buffer: &mut BytesMut) {
        while !self.waits && !self.is_full() {
            let Some(todo) = self.next(requests, buffer) else { break };
            self.queue(todo).await;
            self.breathe(1).await;
        }
        if !self.waits {
            self.settle().await;
        }
        // Which all connections share: not touched for nothing.
        let traffic = &self.server.traffic;
        for (count, sum) in
            [(&mut self.answered, &traffic.commands), (&mut self.errors, &traffic.errors)]
        {
            if *count > 0 {
                sum.fetch_add(std::mem::take(count), Ordering::Relaxed);
            }
        }
    }

    /// What comes next.
    fn next(&mut self, requests: &mut Requests, buffer: &mut BytesMut) -> Option<Todo> {
        if let Some(held) = self.held.take() {
            return Some(held);
        }
        if self.closing.is_some() {
            return None;
        }
        let stranger = !self.authenticated;
        match requests.next(buffer, &self.limits(), stranger) {
            Ok(Some(request)) if request.is_empty() => Some(Err(self.no_memory())),
            Ok(Some(request)) => Some(match command::parse(request) {
                Ok(command) if stranger && !command.is_for_strangers() => {
                    Err(Reply::Error("NOAUTH Authentication required.".into()))
                }
                parsed => self.transaction.admit(parsed),
            }),
            Ok(None) => None,
            Err(Unusable::Protocol(reason)) => {
                self.closing = Some("it sent something that is not a request");
                Some(Err(self.broken(&reason)))
            }
            Err(Unusable::TooLarge(reason)) => {
                self.closing = Some("its request was too large");
                if let Some(times) = self.server.log.too_large.count() {
                    warn!(id = self.id, address = %self.address, times, reason, "closed a connection");
                }
                Some(Err(self.broken(&reason)))
            }
            Err(Unusable::Foreign) => {
                self.closing = Some("it speaks another protocol");
                if let Some(times) = self.server.log.foreign.count() {
                    warn!(
                        id = self.id,
                        address = %self.address,
                        times,
                        "closed a connection that spoke HTTP, or another protocol that is not \
                         RESP: a web page may be attacking this server; nothing was executed"
                    );
                }
                None
            }
        }
    }

    /// The last reply, after which there is no telling where the next request begins.
    fn broken(&mut self, reason: &str) -> Reply {
        self.is_broken = true;
        Reply::error(format!("Protocol error: {reason}"))
    }

    /// Does a command, or keeps it to be done with the next ones.
    async fn queue(&mut self, todo: Todo) {
        match (todo, &mut self.row) {
            (Ok(Command::Get(key)), Row::Get(keys)) if keys.len() < LOOKUPS => keys.push(key),
            (Ok(Command::Set(key, value)), Row::Set(records)) => records.push((key, value)),
            (todo, _) => {
                if !self.settle().await {
                    self.held = Some(todo);
                    return;
                }
                match todo {
                    Ok(Command::Get(key)) => {
                        let mut keys = std::mem::take(&mut self.keys);
                        keys.push(key);
                        self.row = Row::Get(keys);
                    }
                    Ok(Command::Set(key, value)) => self.row = Row::Set(vec![(key, value)]),
                    Ok(command) => {
                        match self.perform(&command).await {
                            Ok(()) => (),
                            Err(NoRoom::Refused(reply)) => self.reply(reply),
                            Err(NoRoom::Yet) => {
                                self.waits = true;
                                self.held = Some(Ok(command));
                                return;
                            }
                        }
                        if let Some(timed) = command.timed() {
                            self.server.latency.of(timed).record(self.read_at.elapsed(), 1);
                        }
                        if !matches!(command, Command::Connection(_)) {
                            self.breathe(WORK).await;
                        }
                    }
                    Err(reply) => self.reply(reply),
                }
            }
        }
    }

    /// Does the requests in a row; `false` if there is no room for all of their replies
    /// before the client reads.
    async fn settle(&mut self) -> bool {
        match std::mem::replace(&mut self.row, Row::None) {
            Row::None => (),
            Row::Get(mut keys) => {
                let done = self.get(&keys).await;
                if done < keys.len() {
                    keys.drain(..done);
                    self.row = Row::Get(keys);
                    self.waits = true;
                    return false;
                }
                keys.clear();
                self.keys = keys;
            }
            Row::Set(records) => {
                let reply = match self.make_room_for_copy(&records) {
                    Ok(()) => match self.server.backend.set_many(&records).await {
                        Ok(()) => Reply::OK,
                        Err(failure) => Reply::failure(failure),
                    },
                    Err(NoRoom::Refused(reply)) => reply,
                    Err(NoRoom::Yet) => {
                        self.row = Row::Set(records);
                        self.waits = true;
                        return false;
                    }
                };
                for _ in &records {
                    self.reply(reply.clone());
                }
                let count = records.len() as u64;
                self.server.latency.of(Timed::Set).record(self.read_at.elapsed(), count);
            }
        }
        true
    }

    pub(crate) fn reply(&mut self, reply: Reply) {
        self.answered += 1;
        self.errors += u64::from(matches!(reply, Reply::Error(_)));
        self.replies.reply(reply);
    }

    /// Does a command that is not done in a row.
    async fn perform(&mut self, command: &Command) -> Result<(), NoRoom> {
        let backend = &self.server.backend;
        let counted = |result: Result<usize, _>| result.map(Reply::count);
        let result = match command {
            Command::Get(_) | Command::Set(..) => unreachable!("they are done in a row"),
            Command::Mget(keys) => return self.mget(keys).await,
            Command::Mset(records) => {
                self.make_room_for_copy(records)?;
                backend.set_many(records).await.map(|()| Reply::OK)
            }
            Command::Exists(keys) => counted(self.exist(keys).await),
            Command::Del(keys) => counted(backend.remove(keys).await),
            Command::Added(keys) => counted(backend.added(keys).await),
            Command::Removed(keys) => counted(backend.removed(keys).await),
            Command::Wait(position, most) => {
                backend.wait(position, most.as_deref()).await.map(|()| Reply::OK)
            }
            Command::Passed(passed) => return Box::pin(self.pass(passed)).await,
            Command::Transaction(step) => unreachable!("{step:?} is answered before"),
            Command::Snapshot => backend.snapshot().await.map(|()| Reply::OK),
            Command::Backup(name) => self.server.backup(name).await.map(Reply::count),
            Command::Dbsize => backend.count().await.map(Reply::count),
            Command::Stats => Ok(info::stats(self.server, Box::pin(backend.health()).await)),
            Command::Info(words) => {
                let mut asked = info::Asked::default();
                for words in words.chunks(LOOKUPS) {
                    words.iter().for_each(|word| asked.add(word));
                    self.breathe(LOOKUPS).await;
                }
                let health = Box::pin(backend.health()).await;
                Ok(Reply::text(info::info(self.server, &asked, health)))
            }
            Command::Connection(command) => return self.connection(command).await,
        };
        self.reply(result.unwrap_or_else(Reply::failure));
        Ok(())
    }
}

/// For ever, to a clock that cannot count so far.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
