//! [`Session`]: one connection.
//!
//! ```text
//! read ─▶ requests ─▶ look-ups in a row: one get_many ─▶ replies ─▶ write
//!                     writes in a row:   one set_many
//! ```
//!
//! Whatever has been read is answered before the next read, in order. Reading and
//! writing go on at the same time, so that a client may send a long pipeline
//! before it reads; when too many replies wait for it, nothing more is read.

use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::consume_budget;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use crate::backend::Failure;
use crate::command::{self, Command};
use crate::info;
use crate::latency::Timed;
use crate::limits::Limits;
use crate::reply::{Reply, Version};
use crate::request::{ProtocolError, Requests};
use crate::server::Server;

/// Bytes that are read at once.
const READ: usize = 16 << 10;

/// Room that is made at once for an argument that is to come: a promise costs
/// no more than that.
const AHEAD: usize = 64 << 10;

/// Keys of one `get_many`: bounds the values in memory, and no more are faster.
const LOOKUPS: usize = 64;

/// A buffer that is larger than this is given back when it is empty.
const KEPT: usize = 256 << 10;

/// One connection, and what it has said of itself.
pub(crate) struct Session<'a> {
    pub(crate) server: &'a Server,
    pub(crate) id: u64,
    pub(crate) version: Version,
    pub(crate) name: Bytes,
    pub(crate) authenticated: bool,
    /// After the replies so far the connection ends.
    pub(crate) closing: Option<&'static str>,
    replies: BytesMut,
    row: Row,
    /// Room for the keys of a row: a pipeline has one after the other.
    room: Vec<Bytes>,
    /// When the requests in hand were read.
    read_at: Instant,
    answered: u64,
    errors: u64,
}

/// Requests in a row that can be done at once, not answered yet.
enum Row {
    None,
    Get(Vec<Bytes>),
    Set(Vec<(Bytes, Bytes)>),
}

impl<'a> Session<'a> {
    pub(crate) fn new(server: &'a Server, id: u64) -> Self {
        Session {
            server,
            id,
            version: Version::Resp2,
            name: Bytes::new(),
            authenticated: server.password.is_none(),
            closing: None,
            replies: BytesMut::new(),
            row: Row::None,
            room: Vec::new(),
            read_at: Instant::now(),
            answered: 0,
            errors: 0,
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
            if self.closing.is_none() {
                self.answer(&mut requests, &mut buffer).await;
            }
            if let Some(reason) = self.closing
                && self.replies.is_empty()
            {
                writer.shutdown().await?;
                return Ok(reason);
            }
            let reads = self.closing.is_none() && self.replies.len() < self.server.limits.reply;
            if reads {
                let wanted = requests.wanted(&buffer).clamp(READ, AHEAD);
                buffer.reserve(wanted);
            }
            tokio::select! {
                biased;
                written = writer.write(&self.replies), if !self.replies.is_empty() => {
                    self.replies.advance(written?);
                    heard_at = Instant::now();
                    // `capacity` does not count the room of what has been written.
                    if self.replies.is_empty() && self.replies.try_reclaim(KEPT + 1) {
                        self.replies = BytesMut::new();
                    }
                }
                read = reader.read_buf(&mut buffer), if reads => {
                    if read? == 0 {
                        self.closing = Some("by the client");
                    }
                    self.read_at = Instant::now();
                    heard_at = self.read_at;
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

    /// Answers the requests that have come as a whole.
    async fn answer(&mut self, requests: &mut Requests, buffer: &mut BytesMut) {
        let limits: Limits = self.server.limits;
        while self.closing.is_none() && self.replies.len() < limits.reply {
            let stranger = !self.authenticated;
            let limits = if stranger { limits.of_strangers() } else { limits };
            match requests.next(buffer, &limits, stranger) {
                Ok(Some(request)) => match command::parse(request) {
                    Ok(command) => self.queue(command).await,
                    Err(reply) => self.reply_after_row(reply).await,
                },
                Ok(None) => break,
                Err(ProtocolError(reason)) => {
                    self.reply_after_row(Reply::error(format!("Protocol error: {reason}"))).await;
                    self.closing = Some("what it sent is no request");
                }
            }
        }
        self.settle().await;
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

    /// Does a command, or keeps it to be done with the next ones.
    async fn queue(&mut self, command: Command) {
        if !self.authenticated && !command.is_for_strangers() {
            let reply = Reply::Error("NOAUTH Authentication required.".into());
            return self.reply_after_row(reply).await;
        }
        match command {
            Command::Get(key) => {
                if let Row::Get(keys) = &mut self.row
                    && keys.len() < LOOKUPS
                {
                    return keys.push(key);
                }
                self.settle().await;
                let mut keys = std::mem::take(&mut self.room);
                keys.push(key);
                self.row = Row::Get(keys);
            }
            Command::Set(key, value) => {
                if let Row::Set(records) = &mut self.row {
                    return records.push((key, value));
                }
                self.settle().await;
                self.row = Row::Set(vec![(key, value)]);
            }
            command => {
                self.settle().await;
                let timed = command.timed();
                let reply = self.perform(command).await;
                self.reply(reply);
                if let Some(timed) = timed {
                    self.server.latency.of(timed).record(self.read_at.elapsed(), 1);
                }
            }
        }
    }

    /// Does the requests in a row.
    async fn settle(&mut self) {
        match std::mem::replace(&mut self.row, Row::None) {
            Row::None => (),
            Row::Get(mut keys) => {
                self.settle_gets(&keys).await;
                keys.clear();
                self.room = keys;
            }
            Row::Set(records) => {
                let reply = match self.server.backend.set_many(&records).await {
                    Ok(()) => Reply::OK,
                    Err(failure) => Reply::failure(failure),
                };
                for _ in &records {
                    self.reply(reply.clone());
                }
                let count = records.len() as u64;
                self.server.latency.of(Timed::Set).record(self.read_at.elapsed(), count);
            }
        }
    }

    async fn settle_gets(&mut self, keys: &[Bytes]) {
        consume_budget().await;
        match self.server.backend.get_many(keys).await {
            Ok(values) => {
                self.time_lookups(&values);
                for value in values {
                    self.reply(Reply::value(value));
                }
            }
            // Each by itself: the filter may know that some are absent.
            Err(_) if keys.len() > 1 => {
                for key in keys {
                    Box::pin(self.settle_gets(std::slice::from_ref(key))).await;
                }
            }
            Err(failure) => self.reply(Reply::failure(failure)),
        }
    }

    /// EXISTS, in as many look-ups as it takes.
    async fn exist(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let mut found = 0;
        for keys in keys.chunks(LOOKUPS) {
            found += self.server.backend.exists(keys).await?;
            consume_budget().await;
        }
        Ok(found)
    }

    /// The values of an MGET, in as many look-ups as it takes.
    async fn values(&self, keys: &[Bytes]) -> Reply {
        let (mut replies, mut bytes) = (Vec::with_capacity(keys.len()), 0);
        for keys in keys.chunks(LOOKUPS) {
            // Others have their turn.
            consume_budget().await;
            match self.server.backend.get_many_or_nil(keys).await {
                Ok(values) => {
                    self.time_lookups(&values);
                    bytes += values.iter().flatten().map(Bytes::len).sum::<usize>();
                    replies.extend(values.into_iter().map(Reply::value));
                }
                Err(failure) => return Reply::failure(failure),
            }
            if bytes > self.server.limits.reply {
                let most = self.server.limits.reply;
                return Reply::error(format!(
                    "the values have more than {most} bytes; ask for fewer keys at once"
                ));
            }
        }
        Reply::Array(replies)
    }

    fn time_lookups(&self, values: &[Option<Bytes>]) {
        let took = self.read_at.elapsed();
        let hits = values.iter().flatten().count();
        for (timed, count) in [(Timed::Hit, hits), (Timed::Miss, values.len() - hits)] {
            if count > 0 {
                self.server.latency.of(timed).record(took, count as u64);
            }
        }
    }

    async fn reply_after_row(&mut self, reply: Reply) {
        self.settle().await;
        self.reply(reply);
    }

    fn reply(&mut self, reply: Reply) {
        self.answered += 1;
        self.errors += u64::from(matches!(reply, Reply::Error(_)));
        reply.encode(self.version, &mut self.replies);
    }

    /// Does a command that is not done in a row.
    async fn perform(&mut self, command: Command) -> Reply {
        let backend = &self.server.backend;
        let counted = |result: Result<usize, _>| result.map(Reply::count);
        let result = match command {
            Command::Get(_) | Command::Set(..) => unreachable!("they are done in a row"),
            Command::Mget(keys) => return self.values(&keys).await,
            Command::Mset(records) => backend.set_many(&records).await.map(|()| Reply::OK),
            Command::Exists(keys) => counted(self.exist(&keys).await),
            Command::Del(keys) => counted(backend.remove(&keys).await),
            Command::Added(keys) => counted(backend.added(&keys).await),
            Command::Removed(keys) => counted(backend.removed(&keys).await),
            Command::Snapshot => backend.snapshot().await.map(|()| Reply::OK),
            Command::Backup(name) => self.server.backup(&name).await.map(Reply::count),
            Command::Dbsize => backend.count().await.map(Reply::count),
            Command::Stats => return info::stats(self.server),
            Command::Info(sections) => return Reply::text(info::info(self.server, &sections)),
            Command::Connection(command) => return self.connection(&command),
        };
        result.unwrap_or_else(Reply::failure)
    }
}

/// For ever, to a clock that cannot count so far.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
