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
//! writes, RENAME and expiry; see [`Shield`]. With [`Redis::follow`] the server tells of them.
//!
//! In front of a cluster, each key's command goes to the master of its slot. Commands for several
//! keys are then several commands: MSET is not atomic.

mod cluster;
mod follow;
mod listener;
mod masters;
mod node;
mod passed;
mod scan;
mod slot;

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use redis::{
    Client, Cmd, ConnectionAddr, Pipeline, RedisError, TlsCertificates, ToRedisArgs, Value,
};
use tokio::sync::mpsc;

use crate::backend::{Failure, Fetched};
use crate::shield::Shield;
use crate::tls::{self, Authorities};
use crate::upstream::{ASKED, Upstream};

use cluster::Cluster;
use node::Node;

pub use follow::Following;

/// A filter in front of a Redis server.
pub type Redis = Shield<RedisServer>;

/// A Redis server, or a cluster of them.
pub struct RedisServer {
    /// The server whose address was given.
    node: Node,
    /// If that is part of one.
    cluster: Option<Cluster>,
    timeout: Duration,
}

impl RedisServer {
    /// The server at an address such as `redis://:password@host:6379/0`, or `rediss://` for
    /// TLS. Its certificate has to be signed by one of these authorities, or by one that the
    /// system trusts. Requests wait at most `timeout`.
    ///
    /// # Errors
    /// [`Failure::Refused`] for an invalid address; [`Failure::Upstream`] when it is down.
    pub async fn connect(
        address: &str,
        authorities: Option<&Authorities>,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let client = client(address, authorities)?;
        let node = Node::single(client.clone(), timeout);
        let mut server = RedisServer { node, cluster: None, timeout };
        let info = server.one(&["INFO", "cluster"]).await.map_err(|failure| match failure {
            Failure::Upstream(reason) => {
                Failure::Upstream(format!("{}: {reason}", client.get_connection_info().addr()))
            }
            failure => failure,
        })?;
        let info = text(info)?;
        if info.contains("cluster_enabled:1") {
            if matches!(client.get_connection_info().addr(), ConnectionAddr::Unix(_)) {
                return Err(Failure::Refused(
                    "the store is a cluster, whose nodes are found by host and port: give it as \
                     redis://host:port"
                        .into(),
                ));
            }
            server.cluster = Some(Cluster::new(client, timeout));
        }
        Ok(server)
    }

    /// Sends commands at once. Each has a reply, which may be an error. In a cluster they have
    /// keys, as their second words.
    async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        match &self.cluster {
            None => self.node.send(commands).await,
            Some(cluster) => cluster.send(commands).await,
        }
    }

    /// The reply to a command.
    async fn one(&self, words: &[impl ToRedisArgs]) -> Result<Value, Failure> {
        let reply = self.send(&pipeline(words)).await?.pop();
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
            replies.append(&mut self.send(&commands).await?);
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
        let command = pipeline(&[name.as_bytes(), key]);
        Ok(self.send(&command).await?.pop().unwrap_or(Value::Nil))
    }
}

/// A command, to be sent.
fn pipeline(words: &[impl ToRedisArgs]) -> Pipeline {
    let mut command = Cmd::new();
    for word in words {
        command.arg(word);
    }
    let mut commands = Pipeline::new();
    commands.add_command(command);
    commands
}

#[expect(clippy::needless_pass_by_value, reason = "as an argument of map_err")]
fn unusable(error: RedisError) -> Failure {
    Failure::Refused(format!(
        "the store's address is not one of Redis: {error}; expected \
         redis://[:password@]host[:port][/database], or rediss:// for TLS"
    ))
}

fn client(address: &str, authorities: Option<&Authorities>) -> Result<Client, Failure> {
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

fn text(reply: Value) -> Result<String, Failure> {
    match reply {
        Value::BulkString(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Value::VerbatimString { text, .. } | Value::SimpleString(text) => Ok(text),
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
        let info = self.node.address();
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
        let command = pipeline(&["DBSIZE"]);
        let counts = match &self.cluster {
            None => self.node.send(&command).await?,
            Some(cluster) => cluster.of_each(&command).await?,
        };
        counts.into_iter().map(|reply| Ok(count(reply)? as u64)).sum()
    }

    async fn scan(&self, chunks: mpsc::Sender<Vec<Bytes>>) -> Result<u64, Failure> {
        self.scan_all(chunks).await.map(|()| 0)
    }

    /// All of them or none, as MSET does it; in a cluster each by itself.
    async fn set(&self, records: &[(Bytes, Bytes)]) -> Result<(), Failure> {
        let mut commands = Pipeline::new();
        if self.cluster.is_some() {
            // Commands that are sent again may overtake others: the last record of a key is its
            // only one.
            let last: HashMap<&Bytes, &Bytes> =
                records.iter().map(|(key, value)| (key, value)).collect();
            for (key, value) in last {
                commands.cmd("SET").arg(&key[..]).arg(&value[..]);
            }
        } else {
            commands.cmd(if records.len() == 1 { "SET" } else { "MSET" });
            for (key, value) in records {
                commands.arg(&key[..]).arg(&value[..]);
            }
        }
        for reply in self.send(&commands).await? {
            match own_error(reply)? {
                Value::Okay => (),
                reply => return Err(unexpected(&reply)),
            }
        }
        Ok(())
    }

    async fn remove(&self, keys: &[Bytes]) -> Result<usize, Failure> {
        let mut commands = Pipeline::new();
        if self.cluster.is_some() {
            for key in keys {
                commands.cmd("DEL").arg(&key[..]);
            }
        } else {
            commands.cmd("DEL");
            for key in keys {
                commands.arg(&key[..]);
            }
        }
        let mut removed = 0;
        for reply in self.send(&commands).await? {
            removed += count(reply)?;
        }
        Ok(removed)
    }
}
