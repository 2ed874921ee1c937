//! Scans: all keys of a server, or of every master of a cluster.

use bytes::Bytes;
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, ConnectionInfo, Pipeline, Value};
use tokio::sync::mpsc;

use crate::backend::Failure;
use crate::tls;
use crate::upstream::CHUNK;

use super::masters::Topology;
use super::{RedisServer, own_error, text, unexpected};

impl RedisServer {
    /// Sends every key that is stored throughout the scan.
    ///
    /// A key that moves from a master that is yet to be scanned to one that was is seen nowhere.
    /// So the scan of a cluster counts only if no slot moved meanwhile.
    pub(super) async fn scan_all(&self, chunks: mpsc::Sender<Vec<Bytes>>) -> Result<(), Failure> {
        if self.cluster.is_none() {
            return self.scan_node(None, &chunks).await;
        }
        let before = self.topology().await?;
        let mut nodes = Vec::with_capacity(before.masters.len());
        for master in before.masters.values() {
            let address = master.address(self.client.get_connection_info());
            nodes.push(self.node(address).await?);
        }
        self.unmoved(&mut nodes, &before).await?;
        for node in &mut nodes {
            self.scan_node(Some(node), &chunks).await?;
        }
        self.unmoved(&mut nodes, &before).await
    }

    /// SCAN of a master, or of the only server, returns every key that exists throughout the
    /// scan at least once.
    async fn scan_node(
        &self,
        mut node: Option<&mut MultiplexedConnection>,
        chunks: &mpsc::Sender<Vec<Bytes>>,
    ) -> Result<(), Failure> {
        let mut cursor = b"0".to_vec();
        loop {
            let mut command = Cmd::new();
            command.arg("SCAN").arg(&cursor[..]).arg("COUNT").arg(CHUNK / 16);
            let reply = match &mut node {
                Some(node) => self.ask(node, &command).await?,
                None => self.one(&command).await?,
            };
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
                return Ok(());
            }
            cursor = next;
        }
    }

    /// The cluster as one of its nodes sees it.
    pub(super) async fn topology(&self) -> Result<Topology, Failure> {
        Topology::parse(&text(self.one(&cluster_nodes()).await?)?)
    }

    async fn node(&self, address: ConnectionInfo) -> Result<MultiplexedConnection, Failure> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let name = address.addr().to_string();
        let connected = match Client::open(address) {
            Ok(client) => client.get_multiplexed_async_connection_with_config(&config).await,
            Err(error) => Err(error),
        };
        connected.map_err(|error| {
            Failure::Upstream(tls::explained(format!(
                "no connection to the master {name}: {error}"
            )))
        })
    }

    async fn ask(&self, node: &mut MultiplexedConnection, command: &Cmd) -> Result<Value, Failure> {
        let mut commands = Pipeline::new();
        commands.add_command(command.clone());
        let replies = node.send_packed_commands(&commands, 0, 1).await;
        let mut replies = replies.map_err(|error| self.failed(&error))?;
        own_error(replies.pop().unwrap_or_default())
    }

    /// Whether all masters agree that the slots are where they were, and stay there.
    async fn unmoved(
        &self,
        nodes: &mut [MultiplexedConnection],
        before: &Topology,
    ) -> Result<(), Failure> {
        for node in nodes {
            let now = Topology::parse(&text(self.ask(node, &cluster_nodes()).await?)?)?;
            if !now.moving.is_empty() || !now.has_slots_of(before) {
                return Err(Failure::Upstream(format!(
                    "slots of the cluster are moving, and a scan would miss their keys {:?}; if \
                     that does not end, see redis-cli --cluster check",
                    now.moving
                )));
            }
        }
        Ok(())
    }
}

fn cluster_nodes() -> Cmd {
    let mut command = Cmd::new();
    command.arg("CLUSTER").arg("NODES");
    command
}
