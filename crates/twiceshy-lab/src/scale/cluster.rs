//! Nodes with their filters: what requests and events do to them.

use twiceshy_filters::internals::reduce64;
use twiceshy_filters::{KeyHasher, Result};

use super::oracle::{Key, Oracle};
use super::partition::{Change, Member, Partition, Shape, key_name};
use super::queue::{Server, Time};
use super::row::{EventRow, SCHEMA};
use super::setting::Setting;
use super::slots::{self, SlotMap};
use crate::race::Watch;
use crate::random::{hasher, mix};

/// Changes that may wait for a follower before it is brought up to date.
const MOST_BEHIND: u64 = 1 << 12;

const MIB: f64 = (1 << 20) as f64;

/// A node with slots.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) server: Server,
    pub(super) down_until: Time,
    pub(super) requests: u64,
}

/// What a lookup brought, and when the client had it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Absent(Time),
    Maybe(Time),
    /// The node is down.
    None,
}

/// The cluster.
pub(super) struct Cluster<'a> {
    setting: &'a Setting,
    shape: Shape,
    /// Clients choose a key's partition by a hash of their own: filters keep their secrets.
    router: KeyHasher,
    pub(super) nodes: Vec<Node>,
    pub(super) slots: SlotMap,
    pub(super) partitions: Vec<Partition>,
    changes: u64,
}

impl<'a> Cluster<'a> {
    /// A cluster whose filters have all keys `0..setting.keys`.
    pub(super) fn load(setting: &'a Setting, watch: &dyn Watch) -> Result<Self> {
        let &Setting { remote, rate, exceptions, .. } = setting;
        let shape = Shape { remote, capacity: setting.capacity(), rate, exceptions };
        let mut cluster = Cluster {
            setting,
            shape,
            router: hasher(mix(setting.seed ^ 5)),
            nodes: (0..setting.nodes).map(|_| Node::default()).collect(),
            slots: SlotMap::even(setting.nodes),
            partitions: Vec::new(),
            changes: 0,
        };
        let filters = cluster.build(0..setting.keys, |_| true, watch)?;
        for (index, (filter, keys)) in filters.into_iter().enumerate() {
            let name = format!("filter:{{{index}}}");
            let slot = slots::slot(name.as_bytes());
            cluster.partitions.push(Partition::new(name, slot, filter, keys)?);
        }
        Ok(cluster)
    }

    /// New filters of all partitions, with the keys of those that are wanted.
    fn build(
        &self,
        keys: impl Iterator<Item = Key>,
        wanted: impl Fn(usize) -> bool,
        watch: &dyn Watch,
    ) -> Result<Vec<(Member, u64)>> {
        let mut filters = (0..self.setting.partitions)
            .map(|index| Ok((Member::new(&self.shape, self.secret(index))?, 0)))
            .collect::<Result<Vec<_>>>()?;
        for key in keys {
            let name = key_name(key);
            let index = self.partition_of(&name);
            if wanted(index) {
                filters[index].0.insert(&name)?;
                filters[index].1 += 1;
            }
            if key % super::run::STRIDE == 0 {
                watch.advance(super::run::STRIDE as usize);
            }
        }
        Ok(filters)
    }

    /// The secret of a partition's filter.
    fn secret(&self, partition: usize) -> KeyHasher {
        hasher(mix(self.setting.seed).wrapping_add(partition as u64))
    }

    /// What `AF.RESERVE` is given for a partition's filter.
    pub(super) fn reserve_arguments(&self, partition: usize) -> String {
        self.shape.reserve_arguments(&self.secret(partition))
    }

    /// The partition of a key.
    pub(super) fn partition_of(&self, name: &str) -> usize {
        let prefix = self.router.digest(name).word(0);
        reduce64(prefix, self.setting.partitions as u64) as usize
    }

    /// The node of a partition.
    pub(super) fn node_of(&self, partition: usize) -> usize {
        self.slots.owner(self.partitions[partition].slot)
    }

    /// Serves a request that a client sends now; when the client has the reply.
    fn serve(&mut self, node: usize, at: Time, service: Time) -> Time {
        let half = self.setting.times.round_trip / 2;
        let node = &mut self.nodes[node];
        node.requests += 1;
        node.server.serve((at + half).max(node.down_until), service) + half
    }

    fn is_down(&self, node: usize, at: Time) -> bool {
        at + self.setting.times.round_trip / 2 < self.nodes[node].down_until
    }

    /// `AF.EXISTS`.
    pub(super) fn lookup(&mut self, at: Time, key: Key) -> Answer {
        let name = key_name(key);
        let partition = self.partition_of(&name);
        let node = self.node_of(partition);
        if self.is_down(node, at) {
            return Answer::None;
        }
        let done = self.serve(node, at, self.setting.times.exists);
        match self.partitions[partition].filter.contains(&name) {
            true => Answer::Maybe(done),
            false => Answer::Absent(done),
        }
    }

    /// `AF.ADD` of a key that is new to the store, or not; when it is acknowledged.
    pub(super) fn insert(&mut self, at: Time, key: Key, new: bool) -> Result<Time> {
        let name = key_name(key);
        let partition = self.partition_of(&name);
        let done = self.serve(self.node_of(partition), at, self.setting.times.add);
        self.partitions[partition].filter.insert(&name)?;
        self.partitions[partition].keys += u64::from(new);
        self.note(partition, done, Change::Insert(key))?;
        Ok(done)
    }

    /// `AF.ADAPT`: whether the key is answered "absent" because of it; `None` if the node is down.
    pub(super) fn adapt(&mut self, at: Time, key: Key) -> Result<Option<bool>> {
        let name = key_name(key);
        let partition = self.partition_of(&name);
        let node = self.node_of(partition);
        if self.is_down(node, at) {
            return Ok(None);
        }
        let done = self.serve(node, at, self.setting.times.adapt);
        let fixed = self.partitions[partition].filter.adapt(&name)?;
        self.note(partition, done, Change::Adapt(key))?;
        Ok(Some(fixed))
    }

    fn note(&mut self, partition: usize, at: Time, change: Change) -> Result<()> {
        self.partitions[partition].note(at, change);
        self.changes += 1;
        if self.changes.is_multiple_of(MOST_BEHIND) {
            let until = self.replicated(at).min(self.snapshot(at));
            self.partitions.iter_mut().try_for_each(|partition| partition.follow(until))?;
        }
        Ok(())
    }

    /// Up to when a replica has all changes.
    fn replicated(&self, at: Time) -> Time {
        at.saturating_sub(self.setting.times.lag)
    }

    /// When the last snapshot was made.
    fn snapshot(&self, at: Time) -> Time {
        at - at % self.setting.times.snapshot
    }

    /// A node is lost: its replica takes over, or its filters are rebuilt.
    pub(super) fn lose(&mut self, at: Time, node: usize, oracle: &mut Oracle) -> Result<EventRow> {
        if self.setting.replicas {
            let (until, failover) = (self.replicated(at), self.setting.times.failover);
            return self.fall_back(at, node, until, oracle, |_| failover);
        }
        let mut row = event_row(at);
        let wanted: Vec<bool> =
            (0..self.partitions.len()).map(|partition| self.node_of(partition) == node).collect();
        let rebuilt = self.build(oracle.all(), |partition| wanted[partition], &())?;
        for (index, (filter, keys)) in rebuilt.into_iter().enumerate() {
            if wanted[index] {
                row.partitions += 1;
                row.rebuilt_keys += keys;
                row.lost_adaptations += self.partitions[index].replace(filter)?;
            }
        }
        for key in oracle.inserted.clone() {
            if wanted[self.partition_of(&key_name(key))] {
                oracle.recover(key);
            }
        }
        let times = &self.setting.times;
        self.take_down(node, at, times.restart + times.rebuild * row.rebuilt_keys, &mut row);
        Ok(row)
    }

    /// A node's process starts again from its last snapshot.
    pub(super) fn restart(
        &mut self,
        at: Time,
        node: usize,
        oracle: &mut Oracle,
    ) -> Result<EventRow> {
        let (restart, load) = (self.setting.times.restart, self.setting.times.load);
        let outage = |bytes| restart + per_mib(load, bytes);
        self.fall_back(at, node, self.snapshot(at), oracle, outage)
    }

    /// A node's filters become what they were at a moment.
    fn fall_back(
        &mut self,
        at: Time,
        node: usize,
        until: Time,
        oracle: &mut Oracle,
        outage: impl Fn(u64) -> Time,
    ) -> Result<EventRow> {
        let mut row = event_row(at);
        for index in 0..self.partitions.len() {
            if self.node_of(index) != node {
                continue;
            }
            let partition = &mut self.partitions[index];
            let lost = partition.fall_back(until)?;
            row.partitions += 1;
            row.bytes += partition.filter.copy()?.1;
            row.lost_keys += lost.keys.len() as u64;
            row.lost_adaptations += lost.adaptations;
            lost.keys.into_iter().for_each(|key| oracle.lose(key));
        }
        self.take_down(node, at, outage(row.bytes), &mut row);
        Ok(row)
    }

    fn take_down(&mut self, node: usize, at: Time, outage: Time, row: &mut EventRow) {
        let down_until = &mut self.nodes[node].down_until;
        *down_until = (at + outage).max(*down_until);
        row.seconds = outage as f64 / 1e9;
    }

    /// Moves a slot with its filters, from this moment on; when it has moved.
    pub(super) fn move_slot(
        &mut self,
        at: Time,
        slot: u16,
        to: usize,
        row: &mut EventRow,
    ) -> Result<Time> {
        while self.nodes.len() <= to {
            self.nodes.push(Node::default());
        }
        let from = self.slots.owner(slot);
        self.slots.assign(slot, to);
        let mut end = at + self.setting.times.slot_move;
        for partition in self.partitions.iter_mut().filter(|partition| partition.slot == slot) {
            let (copy, bytes) = partition.filter.copy()?;
            partition.filter = copy;
            let block = per_mib(self.setting.times.migrate, bytes);
            let start =
                [from, to].iter().fold(end, |start, &node| start.max(self.nodes[node].down_until));
            for node in [from, to] {
                end = end.max(self.nodes[node].server.serve(start, block));
            }
            row.partitions += 1;
            row.bytes += bytes;
            row.longest_block_seconds = row.longest_block_seconds.max(block as f64 / 1e9);
        }
        Ok(end)
    }
}

pub(super) fn event_row(at: Time) -> EventRow {
    EventRow { schema: SCHEMA, at_seconds: at as f64 / 1e9, ..EventRow::default() }
}

fn per_mib(time: Time, bytes: u64) -> Time {
    (time as f64 * bytes as f64 / MIB) as Time
}
