//! [`Topology`]: the masters of a Redis Cluster, and which slots they have, as one node sees it.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use redis::{ConnectionAddr, ConnectionInfo};

use crate::backend::Failure;

use super::slot::SLOTS;

/// What a node says about its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Topology {
    /// The masters that are not known to have failed, by the names that the nodes give each
    /// other. One without slots counts too: a slot that moves to it brings keys first.
    pub(super) masters: BTreeMap<String, Master>,
    /// Slots that this node is giving away or taking over, in Redis' own words.
    pub(super) moving: Vec<String>,
}

/// A master and its slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Master {
    ip: String,
    name: Option<String>,
    port: u16,
    pub(super) slots: Vec<RangeInclusive<u16>>,
}

impl Topology {
    /// Whether this has the same masters, and each of them the same slots.
    pub(super) fn has_slots_of(&self, other: &Topology) -> bool {
        let slots = |(name, master): (&String, &Master)| (name.clone(), master.slots.clone());
        self.masters.iter().map(slots).eq(other.masters.iter().map(slots))
    }

    /// The reply of CLUSTER NODES: a line for each node,
    /// `id ip:port@port[,name] flags master sent received epoch link slots...`.
    pub(super) fn parse(text: &str) -> Result<Self, Failure> {
        let odd = |line: &str| {
            Failure::Upstream(format!("CLUSTER NODES has a line that makes no sense: {line:?}"))
        };
        let mut topology = Topology { masters: BTreeMap::new(), moving: Vec::new() };
        for line in text.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [id, address, flags, _, _, _, _, _, slots @ ..] = &words[..] else {
                return Err(odd(line));
            };
            let has = |flag| flags.split(',').any(|found| found == flag);
            if !has("master") || ["fail", "handshake", "noaddr"].into_iter().any(has) {
                continue;
            }
            let (moving, slots): (Vec<&str>, Vec<&str>) =
                slots.iter().copied().partition(|slots| slots.starts_with('['));
            let slots: Option<Vec<_>> = slots.into_iter().map(range).collect();
            let master = slots.and_then(|slots| Master::parse(address, slots));
            topology.masters.insert((*id).into(), master.ok_or_else(|| odd(line))?);
            topology.moving.extend(moving.into_iter().map(String::from));
        }
        Ok(topology)
    }

    /// How many slots have a master that works.
    pub(super) fn covered(&self) -> usize {
        let slots = self.masters.values().flat_map(|master| &master.slots);
        slots.map(ExactSizeIterator::len).sum()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.covered() == usize::from(SLOTS)
    }

    /// Fails unless every slot has a master that works.
    pub(super) fn whole(self) -> Result<Self, Failure> {
        if self.is_whole() {
            return Ok(self);
        }
        Err(Failure::Upstream(format!(
            "the cluster has a working master for {} of its {SLOTS} slots; see redis-cli --cluster \
             check",
            self.covered()
        )))
    }
}

/// The slots of a range such as `0-5460` or `7`.
fn range(range: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && last < SLOTS).then_some(first..=last)
}

impl Master {
    /// `ip:port@port[,name[,...]]`; an address of IPv6 has colons of its own.
    fn parse(address: &str, slots: Vec<RangeInclusive<u16>>) -> Option<Self> {
        let mut parts = address.split(',');
        let (ip, port) = parts.next()?.split_once('@')?.0.rsplit_once(':')?;
        let name = parts.next().filter(|name| !name.is_empty() && !name.contains('='));
        let port = port.parse().ok()?;
        Some(Master { ip: ip.into(), name: name.map(String::from), port, slots })
    }

    /// One of which only `host:port` is known, as a redirection names it. Without a host it is
    /// that of the node that names it.
    pub(super) fn named(address: &str) -> Option<Self> {
        let (host, port) = address.rsplit_once(':')?;
        let ip = if host == "?" { "" } else { host }.into();
        Some(Master { ip, name: None, port: port.parse().ok()?, slots: Vec::new() })
    }

    /// Whether a redirection that names `other` means this one.
    pub(super) fn is(&self, other: &Master) -> bool {
        let host = &other.ip;
        self.port == other.port && (self.ip == *host || self.name.as_ref() == Some(host))
    }

    /// How to connect to it: as to the node whose address is `known`. With TLS by name, if it
    /// has one, since certificates have names.
    pub(super) fn address(&self, known: &ConnectionInfo) -> ConnectionInfo {
        let address = match known.addr() {
            ConnectionAddr::TcpTls { host, insecure, tls_params, .. } => ConnectionAddr::TcpTls {
                host: self.name.as_ref().unwrap_or_else(|| self.ip_or(host)).clone(),
                port: self.port,
                insecure: *insecure,
                tls_params: tls_params.clone(),
            },
            ConnectionAddr::Tcp(host, _) => {
                ConnectionAddr::Tcp(self.ip_or(host).clone(), self.port)
            }
            other => other.clone(),
        };
        known.clone().set_addr(address)
    }

    /// A node that no other has told its address does not know it.
    fn ip_or<'a>(&'a self, host: &'a String) -> &'a String {
        if self.ip.is_empty() { host } else { &self.ip }
    }
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo as _;

    use super::*;

    const NODES: &str = "\
07c3 127.0.0.1:30004@31004,host4 slave e7d1 0 1426238317239 4 connected
67ed 127.0.0.1:30002@31002,host2 master - 0 1426238316232 2 connected 5461-10922
292f ::1:30003@31003 master - 0 1426238318243 3 connected 10923-16383
6ec2 127.0.0.1:30005@31005,,shard-id=1 master - 0 1426238316232 5 connected
824f :0@0 master,noaddr - 1426238317741 1426238316232 6 disconnected
aa4f 127.0.0.1:30006@31006 master,fail - 1426238317741 1426238316232 6 disconnected
e7d1 :30001@31001,host1 myself,master - 0 0 1 connected 0-5459 5460 [93->-292f] [77-<-e7d2]
";

    #[test]
    fn masters_and_their_slots() {
        let topology = Topology::parse(NODES).and_then(Topology::whole).expect("all slots");
        let names: Vec<_> = topology.masters.keys().collect();
        assert_eq!(names, ["292f", "67ed", "6ec2", "e7d1"]);
        assert_eq!(topology.moving, ["[93->-292f]", "[77-<-e7d2]"]);
        assert_eq!(topology.masters["e7d1"].slots, [0..=5459, 5460..=5460]);

        let address = |id: &str, known: &str| {
            let known = known.into_connection_info().expect("an address");
            topology.masters[id].address(&known).addr().to_string()
        };
        assert_eq!(address("67ed", "redis://a:1"), "127.0.0.1:30002");
        assert_eq!(address("67ed", "rediss://a:1"), "host2:30002");
        assert_eq!(address("6ec2", "rediss://a:1"), "127.0.0.1:30005");
        assert_eq!(address("e7d1", "redis://a:1"), "a:30001");
        assert_eq!(address("292f", "redis://a:1"), "::1:30003");
    }

    #[test]
    fn a_cluster_that_lacks_slots_is_down() {
        let whole = |text: &str| Topology::parse(text).expect("it makes sense").whole();
        let gap = NODES.replace("0-5459", "0-5458");
        let failure = whole(&gap).expect_err("one slot is missing").to_string();
        assert!(failure.contains("16383 of its 16384 slots"), "{failure}");
        let failed = NODES.replace("master - 0 1426238316232 2", "master,fail - 0 1 2");
        whole(&failed).expect_err("a failed master has slots");
        for slots in ["7-x", "7-6", "16384"] {
            let line = format!("a :1@2 master - 0 0 1 connected {slots}");
            Topology::parse(&line).expect_err("no such slots");
        }
        for odd in ["x", "a b master - 0 0 1 connected"] {
            let failure = Topology::parse(odd).expect_err("nonsense").to_string();
            assert!(failure.contains("makes no sense"), "{failure}");
        }
    }

    #[test]
    fn redirections_name_masters() {
        let topology = Topology::parse(NODES).expect("it makes sense");
        let named = |name: &str| {
            let named = Master::named(name).expect("a name");
            topology.masters.iter().find(|(_, master)| master.is(&named)).map(|(id, _)| &id[..])
        };
        assert_eq!(named("127.0.0.1:30002"), Some("67ed"));
        assert_eq!(named("host2:30002"), Some("67ed"));
        assert_eq!(named("::1:30003"), Some("292f"));
        assert_eq!(named("127.0.0.1:30003"), None);
        let by = "redis://a:1".into_connection_info().expect("an address");
        for (name, address) in [("b:2", "b:2"), (":2", "a:2"), ("?:2", "a:2"), ("::1:2", "::1:2")] {
            let master = Master::named(name).expect("a name");
            assert_eq!(master.address(&by).addr().to_string(), address);
        }
        assert_eq!(Master::named("nonsense"), None);
    }
}
