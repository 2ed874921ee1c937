//! A Redis Cluster, and a client that goes where its nodes send it.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use super::{RedisServer, eventually, free_port};
use crate::client::{Client, Value};

/// Masters, and perhaps a replica of the first one, which is the last node.
pub struct RedisCluster {
    pub nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Three masters, each with a third of the slots.
    pub fn start() -> Self {
        let cluster = RedisCluster { nodes: (0..3).map(|_| node()).collect() };
        let sockets = cluster.nodes.iter().map(|node| node.socket().to_string());
        redis_cli(["--cluster", "create"].map(String::from).into_iter().chain(sockets));
        eventually("the cluster is up", || cluster.is_up());
        cluster
    }

    /// One more node, without slots.
    pub fn add_node(&mut self) {
        self.nodes.push(node());
        let joined = self.nodes.len().to_string();
        let SocketAddr::V4(first) = self.nodes[0].socket() else { panic!("it is IPv4") };
        let last = self.nodes.last().expect("it was added");
        let bus = self.nodes[0].client().line("CONFIG GET cluster-port");
        let Value::Array(bus) = bus else { panic!("{bus:?}") };
        let Value::Bulk(bus) = &bus[1] else { panic!("{bus:?}") };
        let bus = String::from_utf8_lossy(bus);
        let meet = format!("CLUSTER MEET {} {} {bus}", first.ip(), first.port());
        assert_eq!(last.client().line(&meet), Value::ok());
        let known = format!("cluster_known_nodes:{joined}\r");
        eventually("all nodes know it", || {
            self.nodes.iter().all(|node| text(&mut node.client(), "CLUSTER INFO").contains(&known))
        });
        eventually("the cluster is up", || self.is_up());
    }

    /// One more node, which has what the first one has.
    pub fn add_replica(&mut self) {
        self.add_node();
        let first = self.id(0);
        let mut replica = self.nodes.last().expect("it was added").client();
        assert_eq!(replica.line(&format!("CLUSTER REPLICATE {first}")), Value::ok());
        eventually("it is in sync", || {
            text(&mut replica, "INFO replication").contains("master_link_status:up")
        });
        eventually("the first one knows its replica", || {
            text(&mut self.nodes[0].client(), "INFO replication").contains("connected_slaves:1")
        });
    }

    fn is_up(&self) -> bool {
        let up = |node: &RedisServer| {
            text(&mut node.client(), "CLUSTER INFO").contains("cluster_state:ok")
        };
        self.nodes.iter().all(up)
    }

    /// Of the first node.
    pub fn address(&self) -> String {
        self.nodes[0].address()
    }

    /// The name of a node in the cluster.
    pub fn id(&self, node: usize) -> String {
        text(&mut self.nodes[node].client(), "CLUSTER MYID")
    }

    /// Moves a slot and its keys, one key at a time.
    pub fn move_slot(&self, slot: u16, from: usize, to: usize) {
        let (source, target) = (self.id(from), self.id(to));
        let (mut giver, mut taker) = (self.nodes[from].client(), self.nodes[to].client());
        let importing = format!("CLUSTER SETSLOT {slot} IMPORTING {source}");
        assert_eq!(taker.line(&importing), Value::ok());
        let migrating = format!("CLUSTER SETSLOT {slot} MIGRATING {target}");
        assert_eq!(giver.line(&migrating), Value::ok());
        loop {
            let keys = giver.line(&format!("CLUSTER GETKEYSINSLOT {slot} 1"));
            let Value::Array(keys) = keys else { panic!("{keys:?}") };
            let Some(Value::Bulk(key)) = keys.first() else { break };
            let SocketAddr::V4(to) = self.nodes[to].socket() else { panic!("it is IPv4") };
            let (ip, port) = (to.ip().to_string(), to.port().to_string());
            let words = [&b"MIGRATE"[..], ip.as_bytes(), port.as_bytes(), key, b"0", b"60000"];
            giver.call(&words);
        }
        // The taker first, as Redis' manual says, and all others at last.
        let owned = format!("CLUSTER SETSLOT {slot} NODE {target}");
        assert_eq!(taker.line(&owned), Value::ok());
        assert_eq!(giver.line(&owned), Value::ok());
    }

    pub fn client(&self) -> ClusterClient {
        ClusterClient { nodes: self.nodes.iter().map(RedisServer::socket).collect(), at: None }
    }
}

fn node() -> RedisServer {
    let bus = free_port().to_string();
    let flags = ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port"];
    RedisServer::start_with(&[&flags[..], &[&bus]].concat())
}

fn redis_cli(arguments: impl Iterator<Item = String>) {
    let mut command = Command::new("redis-cli");
    command.args(arguments).arg("--cluster-yes").stdout(Stdio::null());
    assert!(command.status().expect("redis-cli runs").success());
}

fn text(client: &mut Client, line: &str) -> String {
    match client.line(line) {
        Value::Bulk(text) => String::from_utf8(text).expect("text"),
        other => panic!("{line}: {other:?}"),
    }
}

/// Follows redirections; waits while a node is down.
pub struct ClusterClient {
    nodes: Vec<SocketAddr>,
    at: Option<(SocketAddr, Client)>,
}

impl ClusterClient {
    /// Sends a request for one key and waits for its reply.
    pub fn line(&mut self, words: &str) -> Value {
        let mut answer = None;
        eventually(words, || {
            answer = self.try_line(words);
            answer.is_some()
        });
        answer.expect("there is one")
    }

    fn try_line(&mut self, words: &str) -> Option<Value> {
        if self.at.is_none() {
            self.nodes.rotate_left(1);
            self.go(self.nodes[0])?;
        }
        let mut asking = false;
        for _ in 0..5 {
            let (_, client) = self.at.as_mut()?;
            if asking {
                client.try_call(&["ASKING"]).ok()?;
            }
            let Ok(reply) = client.try_call(&words.split(' ').collect::<Vec<_>>()) else {
                self.at = None;
                return None;
            };
            let Value::Error(error) = &reply else { return Some(reply) };
            match error.split(' ').collect::<Vec<_>>()[..] {
                [kind @ ("MOVED" | "ASK"), _, node] => {
                    asking = kind == "ASK";
                    self.go(node.parse().expect("an address"))?;
                }
                ["CLUSTERDOWN" | "TRYAGAIN" | "READONLY" | "LOADING", ..] => {
                    self.at = None;
                    return None;
                }
                _ => return Some(reply),
            }
        }
        None
    }

    fn go(&mut self, node: SocketAddr) -> Option<()> {
        if self.at.as_ref().is_none_or(|(at, _)| *at != node) {
            self.at = None;
            self.at = Some((node, Client::try_connect(node).ok()?));
        }
        Some(())
    }
}
