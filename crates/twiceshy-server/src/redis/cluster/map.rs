//! [`Map`]: which master has which slots, and the nodes that are asked for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use redis::{Client, ConnectionInfo};
use tokio::time::Instant;

use crate::backend::Failure;

use super::super::masters::{Master, Topology};
use super::super::node::{Node, PARTS};
use super::super::{own_error, pipeline, text};

/// The slots are learned at most so often, however many requests want them.
const BETWEEN: Duration = Duration::from_millis(10);

/// Which master has which slots, as far as known.
#[derive(Default)]
pub(super) struct Map {
    masters: Vec<(Master, Arc<Node>)>,
    /// By their first slots: the last slot of each range, and the position of its master.
    ranges: BTreeMap<u16, (u16, usize)>,
}

impl Map {
    /// The master of a slot.
    pub(super) fn master(&self, slot: u16) -> Option<&Arc<Node>> {
        let (_, &(last, master)) = self.ranges.range(..=slot).next_back()?;
        (slot <= last).then(|| &self.masters[master].1)
    }

    fn add(&mut self, master: Master, node: Arc<Node>) {
        for range in &master.slots {
            self.ranges.insert(*range.start(), (*range.end(), self.masters.len()));
        }
        self.masters.push((master, node));
    }
}

/// What a node says of its cluster.
pub(in super::super) struct View {
    pub(in super::super) topology: Topology,
    asked: Arc<Node>,
}

impl View {
    /// The masters' names, and how to connect to them.
    pub(in super::super) fn masters(&self) -> impl Iterator<Item = (&String, ConnectionInfo)> {
        let known = self.asked.address();
        self.topology.masters.iter().map(|(name, master)| (name, master.address(known)))
    }

    /// Fails unless every slot has a master that works.
    pub(super) fn whole(self) -> Result<Self, Failure> {
        Ok(View { topology: self.topology.whole()?, ..self })
    }
}

/// The nodes of a cluster. No lock is held while a node is waited for, but for the one of
/// [`Nodes::refresh`], which ends with its request.
pub(super) struct Nodes {
    /// The one whose address was given.
    given: Arc<Node>,
    timeout: Duration,
    /// By address: the masters, and nodes that redirections have named.
    known: Mutex<HashMap<String, Arc<Node>>>,
    map: Mutex<Arc<Map>>,
    /// When the map was last learned, or could not be. Held meanwhile.
    refreshed: tokio::sync::Mutex<Option<Instant>>,
}

impl Nodes {
    pub(super) fn new(given: Client, timeout: Duration) -> Self {
        Nodes {
            given: Arc::new(Node::of_cluster(given, timeout)),
            timeout,
            known: Mutex::default(),
            map: Mutex::default(),
            refreshed: tokio::sync::Mutex::default(),
        }
    }

    /// What is known of the slots.
    pub(super) fn map(&self) -> Arc<Map> {
        Arc::clone(&lock(&self.map))
    }

    /// The node at an address.
    pub(super) fn at(&self, address: &ConnectionInfo) -> Arc<Node> {
        let name = address.addr().to_string();
        let made = || {
            let client = Client::open(address.clone()).expect("as that of the given node");
            Arc::new(Node::of_cluster(client, self.timeout))
        };
        Arc::clone(lock(&self.known).entry(name).or_insert_with(made))
    }

    /// The node that a redirection `by` another one names.
    pub(super) fn named(&self, map: &Map, by: &Node, named: &Master) -> Arc<Node> {
        match map.masters.iter().find(|(master, _)| master.is(named)) {
            Some((_, node)) => Arc::clone(node),
            None => self.at(&named.address(by.address())),
        }
    }

    /// Learns the slots, unless another request just did. `hint` is asked first.
    pub(super) async fn refresh(&self, hint: Option<&Arc<Node>>) -> Result<(), Failure> {
        let mut refreshed = self.refreshed.lock().await;
        if refreshed.is_some_and(|then| then.elapsed() < BETWEEN) {
            return Ok(());
        }
        let view = self.learn(hint).await;
        *refreshed = Some(Instant::now());
        let view = view?;
        let mut map = Map::default();
        for ((_, address), master) in view.masters().zip(view.topology.masters.values()) {
            map.add(master.clone(), self.at(&address));
        }
        // A node that has left its cluster does not know where the others are.
        if view.topology.is_whole() {
            let is_master =
                |node: &Arc<Node>| map.masters.iter().any(|(_, master)| Arc::ptr_eq(master, node));
            lock(&self.known).retain(|_, node| is_master(node));
        }
        *lock(&self.map) = Arc::new(map);
        Ok(())
    }

    /// What a node says of the cluster: the first one that knows a master for every slot, or
    /// else the one that knows most.
    pub(super) async fn learn(&self, hint: Option<&Arc<Node>>) -> Result<View, Failure> {
        if let Some(hint) = hint
            && let Ok(view) = self.view(Arc::clone(hint)).await
            && view.topology.is_whole()
        {
            return Ok(view);
        }
        let mut nodes: Vec<Arc<Node>> = lock(&self.known).values().cloned().collect();
        nodes.push(Arc::clone(&self.given));
        let views = nodes.into_iter().map(|node| self.view(node));
        let mut views: FuturesUnordered<_> = views.collect();
        let mut best: Result<View, _> =
            Err(Failure::Upstream("no node of the cluster answers".into()));
        while let Some(view) = views.next().await {
            match (&best, view) {
                (_, Ok(view)) if view.topology.is_whole() => return Ok(view),
                (Ok(best), Ok(view)) if view.topology.covered() <= best.topology.covered() => (),
                (Ok(_), Err(_)) => (),
                (_, view) => best = view,
            }
        }
        best
    }

    async fn view(&self, asked: Arc<Node>) -> Result<View, Failure> {
        let connection = asked.connection().await?;
        let deadline = Instant::now() + self.timeout / PARTS;
        let nodes = pipeline(&["CLUSTER", "NODES"]);
        let reply = asked.ask(&connection, &nodes, deadline).await?.pop().unwrap_or_default();
        Ok(View { topology: Topology::parse(&text(own_error(reply)?)?)?, asked })
    }
}

/// Nothing panics while it holds one of these.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
