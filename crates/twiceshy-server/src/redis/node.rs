//! [`Node`]: a Redis server, and the connection to it that all requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, ConnectionInfo, Pipeline, Value};
use tokio::time::{Instant, timeout_at};

use crate::backend::Failure;
use crate::tls;
use crate::upstream::Link;

/// The part of the timeout that a node of a cluster may take to connect, or to tell of the others.
pub(super) const PARTS: u32 = 4;

/// A Redis server, and the connection to it that all requests share.
pub(super) struct Node {
    client: Client,
    /// What its failures begin with.
    name: String,
    timeout: Duration,
    link: Link<Connection>,
}

/// A connection that is shared; it ends with its last clone.
#[derive(Clone)]
pub(super) struct Connection {
    to: MultiplexedConnection,
    is_lost: Arc<AtomicBool>,
}

impl Node {
    /// A server by itself. Requests wait at most `timeout`, and so long for a connection.
    pub(super) fn single(client: Client, timeout: Duration) -> Self {
        Node { client, name: String::new(), timeout, link: Link::new(timeout) }
    }

    /// One of several: its failures name it, and a connection takes less than the timeout, so that
    /// others are asked in time.
    pub(super) fn of_cluster(client: Client, timeout: Duration) -> Self {
        let name = format!("{}: ", client.get_connection_info().addr());
        Node { client, name, timeout, link: Link::new(timeout / PARTS) }
    }

    pub(super) fn address(&self) -> &ConnectionInfo {
        self.client.get_connection_info()
    }

    /// The connection, or a new one if it was lost. If this fails, nothing was sent.
    pub(super) async fn connection(&self) -> Result<Connection, Failure> {
        // The link limits the total time, and its error says what may be wrong.
        let config =
            AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
        let connect = async {
            match self.client.get_multiplexed_async_connection_with_config(&config).await {
                Ok(to) => Ok(Connection { to, is_lost: Arc::default() }),
                Err(error) => Err(tls::explained(error.to_string())),
            }
        };
        let is_alive = |connection: &Connection| !connection.is_lost.load(Ordering::Relaxed);
        self.link.get(is_alive, connect).await.map_err(|failure| self.failed(&reason(failure)))
    }

    /// Sends commands as one pipeline. Each has a reply, which may be an error. If this fails,
    /// any of them may have been executed, and the connection is lost.
    pub(super) async fn ask(
        &self,
        connection: &Connection,
        commands: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, Failure> {
        let mut to = connection.to.clone();
        let replies = to.send_packed_commands(commands, 0, commands.len());
        let reason = match timeout_at(deadline, replies).await {
            Ok(Ok(replies)) => return Ok(replies),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {:?}", self.timeout),
        };
        connection.is_lost.store(true, Ordering::Relaxed);
        Err(self.failed(&reason))
    }

    fn failed(&self, reason: &str) -> Failure {
        Failure::Upstream(format!("{}{reason}", self.name))
    }

    /// Sends commands over the shared connection.
    pub(super) async fn send(&self, commands: &Pipeline) -> Result<Vec<Value>, Failure> {
        let connection = self.connection().await?;
        self.ask(&connection, commands, Instant::now() + self.timeout).await
    }
}

/// Why a store cannot be reached.
pub(super) fn reason(failure: Failure) -> String {
    match failure {
        Failure::Upstream(reason) => reason,
        failure => failure.to_string(),
    }
}
