//! [`Redis`]: a filter in front of a Redis server, which takes reads and writes.
//!
//! All clients share one connection, and the requests of one call go as one pipeline. Keys may
//! have values of any type: if it is not a string, GET returns the server's own WRONGTYPE error
//! and MGET nil, as the server itself does.
//!
//! Values are read with GETRANGE, each up to its share of the available memory. Only values that
//! are larger, or empty (GETRANGE cannot tell an empty value from a missing key), are requested
//! again.
//!
//! The shield does not see changes other than SET and DEL through it, such as other clients'
//! writes, RENAME and expiry; see [`Shield`]. A cluster is refused: a scan of one node does not
//! visit all keys.

mod passed;

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, Pipeline, RedisError, TlsCertificates,
    Value,
};
use tokio::sync::mpsc;

use crate::backend::{Failure, Fetched};
use crate::shield::Shield;
use crate::tls::{self, Authorities};
use crate::upstream::{ASKED, CHUNK, Link, Upstream};

/// A filter in front of a Redis server.
pub type Redis = Shield<RedisServer>;

/// A Redis server.
pub struct RedisServer {
    client: Client,
    timeout: Duration,
    link: Link<Connection>,
}

/// A connection and its number among those of a server.
#[derive(Clone)]
struct Connection {
    connection: MultiplexedConnection,
    number: u64,
}

impl RedisServer {
    /// The server at an address such as `redis://:password@host:6379/0`, or `rediss://` for
    /// TLS. Its certificate has to be signed by one of these authorities, or by one that the
    /// system trusts. Requests wait at most `timeout`.
    ///
    /// # Errors
    /// [`Failure::Refused`] for an invalid address, or a cluster; [`Failure::Upstream`] when it
    /// is down.
    pub async fn connect(
        address: &str,
        authorities: Option<&Authorities>,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let client = client(address, authorities)?;
        let server = RedisServer { client, timeout, link: Link::new(timeout) };
        let mut cluster = Cmd::new();
        cluster.arg("INFO").arg("cluster");
        let info = server.one(&cluster).await?;
        if matches!(&info, Value::BulkString(text) if contains(text, b"cluster_enabled:1")) {
            return Err(Failure::Refused(
                "the Redis server is part of a cluster, and one node does not know all keys; \
                 only single servers are supported"
                    .into(),
            ));
        }
        Ok(server)
    }

    async fn connection(&self) -> Result<Connection, Failure> {
        // The link limits the total time, and its error says what may be wrong.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(Some(self.timeout));
        let connect = async {
            let connection = self.client.get_multiplexed_async_connection_with_config(&config);
            let connection = connection.await.map_err(|error| tls::explained(error.to_string()))?;
            Ok(Connection { connection, number: next() })
        };
        self.link.get(|_| true, connect).await
    }

    /// Sends commands as one pipeline. Each has a reply, which may be an error.
    async fn send(&self, commands: &Pipeline, count: usize) -> Result<Vec<Value>, Failure> {
        let Connection { mut connection, number } = self.connection().await?;
        match connection.send_packed_commands(commands, 0, count).await {
            Ok(replies) => Ok(replies),
            Err(error) => Err(self.failed(&error, number).await),
        }
    }

    async fn one(&self, command: &Cmd) -> Result<Value, Failure> {
        let mut commands = Pipeline::new();
        commands.add_command(command.clone());
        let reply = self.send(&commands, 1).await?.pop();
        reply.map_or_else(|| Err(unexpected(&Value::Nil)), own_error)
    }

    /// The same command for each of the keys.
    async fn each(
        &self,
        name: &str,
        keys: &[Bytes],
        more: &[usize],
    ) -> Result<Vec<Value>, Failure> {
        let mut replies = Vec::with_capacity(keys.len());
        for keys in keys.chunks(ASKED) {
            let mut commands = Pipeline::with_capacity(keys.len());
            for key in keys {
                commands.cmd(name).arg(&key[..]).arg(more);
            }
            replies.append(&mut self.send(&commands, keys.len()).await?);
        }
        Ok(replies)
    }

    /// The values of keys, as many as have at most `most` bytes together.
    async fn fetch(
        &self,
        keys: &[Bytes],
        most: usize,
        value: fn(Value) -> Result<Option<Bytes>, Failure>,
    ) -> Result<Fetched, Failure> {
        // At least one byte of each: otherwise a value would look missing.
        let part = (most / keys.len().max(1)).max(1);
        let parts = self.each("GETRANGE", keys, &[0, part - 1]).await?;
        let parts = parts.into_iter().map(value).collect::<Result<Vec<_>, _>>()?;
        let is_empty = |part: &Option<Bytes>| part.as_ref().is_some_and(Bytes::is_empty);
        let empty: Vec<Bytes> = keys
            .iter()
            .zip(&parts)
            .filter(|(_, part)| is_empty(part))
            .map(|(key, _)| key.clone())
            .collect();
        let mut empty = match &empty[..] {
            [] => Vec::new(),
            empty => self.each("GET", empty, &[]).await?,
        }
        .into_iter();
        let (mut fetched, mut bytes) = (Fetched::default(), 0);
        for (key, found) in keys.iter().zip(parts) {
            let whole = if is_empty(&found) {
                value(empty.next().unwrap_or(Value::Nil))?
            } else if found.as_ref().is_some_and(|found| found.len() >= part) {
                // All of it perhaps, or only the beginning.
                let length = count(self.for_key("STRLEN", key).await?)?;
                if bytes + length > most {
                    fetched.next = Some(length);
                    break;
                }
                value(self.for_key("GET", key).await?)?
            } else {
                found
            };
            if !fetched.add(whole, &mut bytes, most) {
                break;
            }
        }
        Ok(fetched)
    }

    /// A command for one key.
    async fn for_key(&self, name: &str, key: &[u8]) -> Result<Value, Failure> {
        let mut command = Cmd::new();
        command.arg(name).arg(key);
        let mut commands = Pipeline::new();
        commands.add_command(command);
        Ok(self.send(&commands, 1).await?.pop().unwrap_or(Value::Nil))
    }

    /// What a connection's error means; one that is of no use any more is left.
    async fn failed(&self, error: &RedisError, number: u64) -> Failure {
        self.link.lose(|connection| connection.number == number).await;
        let reason = if error.is_timeout() {
            format!("no answer in {:?}", self.timeout)
        } else {
            error.to_string()
        };
        Failure::Upstream(reason)
    }
}

fn client(address: &str, authorities: Option<&Authorities>) -> Result<Client, Failure> {
    let unusable = |error: RedisError| {
        Failure::Refused(format!(
            "the store's address is not one of Redis: {error}; expected \
             redis://[:password@]host[:port][/database], or rediss:// for TLS"
        ))
    };
    let client = Client::open(address).map_err(unusable)?;
    match (client.get_connection_info().addr(), authorities) {
        (ConnectionAddr::TcpTls { insecure: true, .. }, _) => Err(Failure::Refused(
            "the store's address ends with #insecure, but certificates are always verified: leave \
             it out, and if an authority of your own signed that of the server, give it with \
             --store-ca FILE"
                .into(),
        )),
        (ConnectionAddr::TcpTls { .. }, authorities) => {
            tls::choose_cryptography();
            let root_cert = authorities.map(Authorities::pem);
            let trusted = TlsCertificates { client_tls: None, root_cert };
            Client::build_with_tls(address, trusted).map_err(unusable)
        }
        (_, Some(_)) => Err(Failure::Refused(
            "--store-ca is for TLS, and the store's address asks for none: use rediss:// instead \
             of redis://, or leave --store-ca out"
                .into(),
        )),
        (_, None) => Ok(client),
    }
}

/// Numbers for connections.
fn next() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Turns an error reply into a failure with the server's own text.
fn own_error(reply: Value) -> Result<Value, Failure> {
    match reply {
        Value::ServerError(error) => Err(Failure::Reply(match error.details() {
            Some(details) => format!("{} {details}", error.code()),
            None => error.code().to_string(),
        })),
        reply => Ok(reply),
    }
}

/// A server that answers so is none that we know; its bytes may be a value.
fn unexpected(reply: &Value) -> Failure {
    let kind = match reply {
        Value::BulkString(_) => "a string",
        Value::Int(_) => "a number",
        Value::Array(_) => "an array",
        Value::Nil => "nothing",
        _ => "something else",
    };
    Failure::Upstream(format!("the Redis server answered {kind} where that makes no sense"))
}

fn value(reply: Value) -> Result<Option<Bytes>, Failure> {
    match own_error(reply)? {
        Value::BulkString(bytes) => Ok(Some(bytes.into())),
        Value::Nil => Ok(None),
        reply => Err(unexpected(&reply)),
    }
}

/// The reply of MGET: nil for a value that GET would refuse.
fn value_or_nil(reply: Value) -> Result<Option<Bytes>, Failure> {
    match reply {
        Value::ServerError(error) if error.code() == "WRONGTYPE" => Ok(None),
        reply => value(reply),
    }
}

fn count(reply: Value) -> Result<usize, Failure> {
    match own_error(reply)? {
        Value::Int(count) if count >= 0 => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        reply => Err(unexpected(&reply)),
    }
}

impl Upstream for RedisServer {
    const WRITES: bool = true;

    fn origin(&self) -> String {
        let info = self.client.get_connection_info();
        format!("redis://{}/{}", info.addr(), info.redis_settings().db())
    }

    /// Keys are what they are.
    fn canonical<'k>(&self, key: &'k Bytes) -> Option<Cow<'k, Bytes>> {
        Some(Cow::Borrowed(key))
    }

    async fn values(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        self.fetch(keys, most, value).await
    }

    async fn values_or_nil(&self, keys: &[Bytes], most: usize) -> Result<Fetched, Failure> {
        self.fetch(keys, most, value_or_nil).await
    }

    async fn exist(&self, keys: &[Bytes]) -> Result<Vec<bool>, Failure> {
        let replies = self.each("EXISTS", keys, &[]).await?;
        replies.into_iter().map(|reply| Ok(count(reply)? > 0)).collect()
    }

    async fn estimate(&self) -> Result<u64, Failure> {
        let mut command = Cmd::new();
        command.arg("DBSIZE");
        Ok(count(self.one(&command).await?)? as u64)
    }

    /// SCAN returns every key that exists throughout the scan at least once.
    async fn scan(&self, chunks: mpsc::Sender<Vec<Bytes>>) -> Result<u64, Failure> {
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = Cmd::new();
            command.arg("SCAN").arg(&cursor[..]).arg("COUNT").arg(CHUNK / 16);
            let reply = self.one(&command).await?;
            let Value::Array(parts) = reply else { return Err(unexpected(&reply)) };
            let Ok([Value::BulkString(next), Value::Array(keys)]) = <[Value; 2]>::try_from(parts)
            else {
                return Err(unexpected(&Value::Array(Vec::new())));
            };
            let key = |key| match key {
                Value::BulkString(key) => Ok(Bytes::from(key)),
                reply => Err(unexpected(&reply)),
            };
            let keys = keys.into_iter().map(key).collect::<Result<Vec<_>, _>>()?;
            if chunks.send(keys).await.is_err() {
                return Err(Failure::Store("the scan was abandoned".into()));
            }
            if next == b"0" {
                return Ok(0);
            }
            cursor = next;
        }
    }

    /// All of them or none, as MSET does it.
    async fn set(&self, records: &[(Bytes, Bytes)]) -> Result<(), Failure> {
        let mut command = Cmd::new();
        command.arg(if records.len() == 1 { "SET" } else { "MSET" });
        for (key, value) in records {
            command.arg(&key[..]).arg(&value[..]);
        }
        match self.one(&command).await? {
            Value::Okay => Ok(()),
            reply => Err(unexpected(&reply)),
        }
    }

    async fn remove(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let mut command = Cmd::new();
        command.arg("DEL");
        for key in keys {
            command.arg(&key[..]);
        }
        count(self.one(&command).await?)
    }
}
