//! Scans: all keys of a server, or of every master of a cluster.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use redis::{Pipeline, Value};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::backend::Failure;
use crate::upstream::CHUNK;

use super::masters::Topology;
use super::node::{Connection, Node};
use super::{RedisServer, own_error, pipeline, text, unexpected};

/// A server that is scanned, over one connection: if that breaks, the server may have restarted,
/// and then a cursor means nothing.
struct Scanned<'a> {
    node: &'a Node,
    connection: Connection,
    timeout: Duration,
}

impl RedisServer {
    /// Sends every key that is stored throughout the scan.
    ///
    /// A key that moves from a master that is yet to be scanned to one that was is seen nowhere.
    /// So the scan of a cluster counts only if no slot moved meanwhile.
    pub(super) async fn scan_all(&self, chunks: mpsc::Sender<Vec<Bytes>>) -> Result<(), Failure> {
        let Some(cluster) = &self.cluster else {
            return self.scanned(&self.node).await?.scan(&chunks).await;
        };
        let before = cluster.whole().await?;
        let nodes: Vec<Arc<Node>> =
            before.masters().map(|(_, address)| cluster.node(&address)).collect();
        let nodes = try_join_all(nodes.iter().map(|node| self.scanned(node))).await?;
        unmoved(&nodes, &before.topology).await?;
        for node in &nodes {
            node.scan(&chunks).await?;
        }
        unmoved(&nodes, &before.topology).await
    }

    async fn scanned<'a>(&self, node: &'a Node) -> Result<Scanned<'a>, Failure> {
        Ok(Scanned { node, connection: node.connection().await?, timeout: self.timeout })
    }
}

impl Scanned<'_> {
    /// SCAN returns every key that exists throughout the scan at least once.
    async fn scan(&self, chunks: &mpsc::Sender<Vec<Bytes>>) -> Result<(), Failure> {
        let mut cursor = b"0".to_vec();
        let count = (CHUNK / 16).to_string();
        loop {
            let command = pipeline(&[&b"SCAN"[..], &cursor, b"COUNT", count.as_bytes()]);
            let reply = self.ask(&command).await?;
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

    async fn ask(&self, command: &Pipeline) -> Result<Value, Failure> {
        let deadline = Instant::now() + self.timeout;
        let reply = self.node.ask(&self.connection, command, deadline).await?.pop();
        own_error(reply.unwrap_or_default())
    }
}

/// Fails unless all masters agree that the slots are where they were, and stay there.
async fn unmoved(nodes: &[Scanned<'_>], before: &Topology) -> Result<(), Failure> {
    for node in nodes {
        let now = text(node.ask(&pipeline(&["CLUSTER", "NODES"])).await?)?;
        let now = Topology::parse(&now)?.whole()?;
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
