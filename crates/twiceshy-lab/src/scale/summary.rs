//! The end of a run: what nodes have, and the run as a whole.

use super::cluster::Node;
use super::row::{Counts, NodeRow, PhaseRow, Row, RunRow, SCHEMA};
use super::run::Run;
use super::slots::SLOTS;

impl Run<'_> {
    /// All rows of a run.
    pub(super) fn finish(
        mut self,
        phases: Vec<PhaseRow>,
        first_positives: u64,
        attack_distinct: u64,
        audit: &Counts,
    ) -> Vec<Row> {
        let nodes = self.nodes();
        let live: Vec<&NodeRow> = nodes.iter().filter(|node| node.slots > 0).collect();
        let imbalance = |of: fn(&NodeRow) -> u64| {
            let sum: u64 = live.iter().map(|node| of(node)).sum();
            let most = live.iter().map(|node| of(node)).max().unwrap_or(0);
            most as f64 * live.len() as f64 / sum.max(1) as f64
        };
        let busiest = self.cluster.nodes.iter().map(|node| node.server.busy).max().unwrap_or(0);
        let counted = |of: fn(&PhaseRow) -> u64| phases.iter().map(of).sum::<u64>();
        let requests = counted(|phase| phase.counts.lookups + phase.counts.inserts);
        let replay = phases.iter().find(|phase| phase.phase == "replay");
        let (bytes, keys) =
            nodes.iter().fold((0, 0), |sum, of| (sum.0 + of.bytes, sum.1 + of.keys));
        let row = RunRow {
            schema: SCHEMA,
            seed: self.setting.seed,
            nodes: live.len(),
            partitions: self.setting.partitions,
            keys: self.setting.keys,
            bytes_per_key: bytes as f64 / keys as f64,
            exceptions_room: self.exceptions_room(),
            first_pass_per_million: first_positives as f64 * 1e6
                / self.setting.first_pass.max(1) as f64,
            first_pass: self.setting.first_pass,
            key_imbalance: imbalance(|node| node.keys),
            request_imbalance: imbalance(|node| node.requests),
            per_second_at_most: requests as f64 * 1e9 / busiest.max(1) as f64,
            attack_distinct,
            attack_queries: replay.map_or(0, |phase| phase.counts.lookups),
            attack_wasted: replay.map_or(0, |phase| phase.counts.wasted),
            denied_lost: audit.denied_lost,
            denied_hidden: audit.denied_hidden,
            false_negatives: audit.false_negatives + counted(|phase| phase.counts.false_negatives),
        };
        let mut rows: Vec<Row> = phases.into_iter().map(Row::Phase).collect();
        rows.append(&mut self.rows);
        rows.extend(nodes.into_iter().map(Row::Node));
        rows.push(Row::Run(Box::new(row)));
        rows
    }

    fn nodes(&self) -> Vec<NodeRow> {
        let requests: u64 = self.cluster.nodes.iter().map(|node| node.requests).sum();
        let seconds = self.arrivals.now.max(1) as f64;
        let row = |(number, node): (usize, &Node)| {
            let of_node = |slot: u16| self.cluster.slots.owner(slot) == number;
            let partitions: Vec<_> = self
                .cluster
                .partitions
                .iter()
                .filter(|partition| of_node(partition.slot))
                .collect();
            let keys: u64 = partitions.iter().map(|partition| partition.keys).sum();
            let bytes: u64 = partitions.iter().map(|partition| partition.filter.bytes()).sum();
            NodeRow {
                schema: SCHEMA,
                node: number,
                slots: (0..SLOTS).filter(|&slot| of_node(slot)).count() as u64,
                partitions: partitions.len() as u64,
                keys,
                bytes,
                bytes_per_key: bytes as f64 / keys.max(1) as f64,
                requests: node.requests,
                share: node.requests as f64 / requests.max(1) as f64,
                busy: node.server.busy as f64 / seconds,
            }
        };
        self.cluster.nodes.iter().enumerate().map(row).collect()
    }
}
