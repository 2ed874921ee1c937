//! [`Listener`]: a connection to a master that hears of the keys that come and go there.
//!
//! It speaks RESP3, so that requests and events share one connection and are in order: the reply
//! to a request that was sent at some moment comes after all events from before that moment.
//!
//! Some commands change keys without an event. Each reply of a [`Listener::beat`] has how often
//! they were called, so that none goes unnoticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, ProtocolVersion, PushInfo,
    PushKind, RedisError, Value,
};
use tokio::sync::mpsc;
use tracing::info;

use crate::backend::Failure;
use crate::tls;

use super::masters::Topology;
use super::{own_error, text};

/// A key came or went.
pub(super) enum Event {
    New(Bytes),
    Gone(Bytes),
}

/// The names of events, as Redis puts them in channels: a key is new, or gone.
const NEW: &str = "new";
const GONE: [&str; 5] = ["del", "expired", "evicted", "rename_from", "move_from"];

/// The classes of events that have these: by event, new, generic, expired, evicted.
const CLASSES: &str = "Engxe";

/// Commands after which nothing that was heard says what is stored.
const UNHEARD: [&str; 7] =
    ["swapdb", "config|set", "config|resetstat", "replicaof", "slaveof", "debug", "failover"];
/// Commands that remove all keys. That does no harm, except that the filter is of no use.
const FLUSHES: [&str; 2] = ["flushdb", "flushall"];

/// Events that wait to be heard: some tens of MB. The server's own limit is of this size.
const WAITING: usize = 1 << 18;

/// Where the events of all listeners arrive.
pub(super) struct Events {
    sender: mpsc::Sender<Event>,
    pub(super) receiver: mpsc::Receiver<Event>,
    /// Whether there were too many.
    lost: Arc<AtomicBool>,
}

/// A subscribed connection.
#[derive(Clone)]
pub(super) struct Listener {
    connection: MultiplexedConnection,
    is_cluster: bool,
}

/// What a master says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Beat {
    /// How often each of [`UNHEARD`], and of [`FLUSHES`], was called so far.
    pub(super) unheard: Vec<u64>,
    pub(super) flushes: Vec<u64>,
    /// What it knows of its cluster, if it is part of one.
    pub(super) topology: Option<Topology>,
}

impl Events {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(WAITING);
        Events { sender, receiver, lost: Arc::default() }
    }

    pub(super) fn are_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// What a connection does with messages.
    fn sink(&self) -> impl Fn(PushInfo) -> Result<(), ()> + Send + Sync + 'static {
        let (sender, lost) = (self.sender.clone(), Arc::clone(&self.lost));
        move |push| {
            let Some(event) = event(push) else { return Ok(()) };
            sender.try_send(event).map_err(|_| lost.store(true, Ordering::Release))
        }
    }
}

/// The event of a message, if it is one.
fn event(push: PushInfo) -> Option<Event> {
    let Ok([Value::BulkString(channel), Value::BulkString(key)]) =
        <[Value; 2]>::try_from(push.data)
    else {
        return None;
    };
    if push.kind != PushKind::Message {
        return None;
    }
    let name = channel.rsplit(|&byte| byte == b':').next()?;
    let key = Bytes::from(key);
    Some(if name == NEW.as_bytes() { Event::New(key) } else { Event::Gone(key) })
}

impl Listener {
    /// Connects to a master and subscribes to what happens to its keys.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the server cannot tell of its keys, or does not and may not be
    /// configured to.
    pub(super) async fn subscribe(
        address: &ConnectionInfo,
        is_cluster: bool,
        timeout: Duration,
        configure: bool,
        events: &Events,
    ) -> Result<Self, Failure> {
        let settings = address.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        let address = address.clone().set_redis_settings(settings);
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout))
            .set_push_sender(events.sink());
        let (name, database) = (address.addr().to_string(), address.redis_settings().db());
        let down = |error: RedisError| {
            Failure::Upstream(tls::explained(format!("{name} does not tell of its keys: {error}")))
        };
        let client = Client::open(address).map_err(down)?;
        let connecting = client.get_multiplexed_async_connection_with_config(&config);
        let connection = connecting.await.map_err(down)?;
        let mut listener = Listener { connection, is_cluster };
        listener.check_version().await?;
        listener.check_setting(configure).await?;
        let channel = |event: &str| format!("__keyevent@{database}__:{event}");
        let channels: Vec<String> = GONE.into_iter().chain([NEW]).map(channel).collect();
        listener.connection.subscribe(channels).await.map_err(down)?;
        Ok(listener)
    }

    async fn check_version(&mut self) -> Result<(), Failure> {
        let info = self.text(Cmd::new().arg("INFO").arg("server")).await?;
        let version = field(&info, "redis_version:").unwrap_or("unknown");
        let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        // Valkey and others give the version of Redis that they are compatible with.
        if major.is_some_and(|major| major >= 7) {
            return Ok(());
        }
        Err(Failure::Refused(format!(
            "the server is of version {version}, and only Redis 7, Valkey and later ones tell of \
             new keys; leave --follow out, and use --resync SECONDS or TS.ADDED"
        )))
    }

    /// Whether events are on; turns them on if that is allowed.
    async fn check_setting(&mut self, configure: bool) -> Result<(), Failure> {
        const SETTING: &str = "notify-keyspace-events";
        let found = self.setting(SETTING).await?;
        if lacking(&found).is_empty() {
            return Ok(());
        }
        if configure {
            let set = needed(&found);
            own_error(self.one(Cmd::new().arg(&["CONFIG", "SET", SETTING, &set])).await?)?;
            info!(from = found, to = set, "{SETTING} is set");
            if lacking(&self.setting(SETTING).await?).is_empty() {
                return Ok(());
            }
        }
        let remedy = if configure { "" } else { ", or start the shield with --configure-store" };
        Err(Failure::Refused(format!(
            "the server does not tell of new and removed keys: its {SETTING} is {found:?}; use \
             redis-cli CONFIG SET {SETTING} '{}'{remedy}",
            needed(&found)
        )))
    }

    async fn setting(&mut self, name: &str) -> Result<String, Failure> {
        let reply = own_error(self.one(Cmd::new().arg("CONFIG").arg("GET").arg(name)).await?)?;
        let value = match reply {
            Value::Map(mut entries) => entries.pop().map(|(_, value)| value),
            _ => None,
        };
        text(value.unwrap_or_default())
    }

    /// Asks the master about itself; the answer comes after all events from before the call.
    pub(super) async fn beat(mut self) -> Result<Beat, Failure> {
        let mut commands = Pipeline::new();
        commands.cmd("INFO").arg("replication").arg("commandstats");
        if self.is_cluster {
            commands.cmd("CLUSTER").arg("NODES");
        }
        let count = commands.len();
        let replies = self.connection.send_packed_commands(&commands, 0, count).await;
        let mut replies = replies.map_err(|error| broken(&error))?.into_iter();
        let mut next = || text(own_error(replies.next().unwrap_or_default())?);
        let info = next()?;
        let topology =
            if self.is_cluster { Some(Topology::parse(&next()?)?.whole()?) } else { None };
        match field(&info, "role:") {
            Some("master") => Ok(Beat {
                unheard: calls(&info, &UNHEARD),
                flushes: calls(&info, &FLUSHES),
                topology,
            }),
            _ => Err(Failure::Refused(
                "the server is a replica, which may get new keys without telling; give the \
                 address of its master"
                    .into(),
            )),
        }
    }

    async fn text(&mut self, command: &Cmd) -> Result<String, Failure> {
        text(own_error(self.one(command).await?)?)
    }

    async fn one(&mut self, command: &Cmd) -> Result<Value, Failure> {
        let mut commands = Pipeline::new();
        commands.add_command(command.clone());
        let replies = self.connection.send_packed_commands(&commands, 0, 1).await;
        Ok(replies.map_err(|error| broken(&error))?.pop().unwrap_or_default())
    }
}

fn broken(error: &RedisError) -> Failure {
    Failure::Upstream(format!("its events are not heard any more: {error}"))
}

/// The rest of the line that begins like this.
fn field<'a>(info: &'a str, begin: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(begin))
}

/// How often each of these commands was called.
fn calls(info: &str, commands: &[&str]) -> Vec<u64> {
    let calls = |command: &&str| {
        let rest = field(info, &format!("cmdstat_{command}:calls="))?;
        rest.split(',').next()?.parse::<u64>().ok()
    };
    commands.iter().map(|command| calls(command).unwrap_or(0)).collect()
}

/// Those of [`CLASSES`] that a setting does not have. `A` stands for most classes, but not for `n`.
fn lacking(found: &str) -> String {
    let all = found.contains('A');
    let has = |class: char| found.contains(class) || all && "gxe".contains(class);
    CLASSES.chars().filter(|class| !has(*class)).collect()
}

/// A setting that has the classes of `found` and all of [`CLASSES`]. Redis 7.0 does not show `n`
/// beside `A`, so this has `A` as what it stands for, except the events of modules.
fn needed(found: &str) -> String {
    format!("{}{}", found.replace('A', "g$lshztxe"), lacking(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_setting_lacks() {
        for (found, lacks, then) in [
            ("", "Engxe", "Engxe"),
            ("gxenE", "", "gxenE"),
            ("AKEn", "", "g$lshztxeKEn"),
            ("KEgxe", "n", "KEgxen"),
            ("AK", "En", "g$lshztxeKEn"),
        ] {
            assert_eq!((lacking(found), needed(found)), (lacks.into(), then.into()), "{found}");
        }
    }

    #[test]
    fn calls_are_counted() {
        let info = "# Commandstats\r\ncmdstat_flushdb:calls=3,usec=1\r\ncmdstat_config|set:calls=2,\
                    usec=5\r\ncmdstat_flushall:calls=4,usec=9\r\nrole:master\r\n";
        assert_eq!(calls(info, &FLUSHES), [3, 4]);
        assert_eq!(calls(info, &UNHEARD), [0, 2, 0, 0, 0, 0, 0]);
        assert_eq!(field(info, "role:"), Some("master"));
    }
}
