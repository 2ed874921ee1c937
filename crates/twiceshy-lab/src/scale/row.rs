//! What a run says. The names of the fields are those of the JSON.

use serde::Serialize;

use super::oracle::Denied;
use super::queue::{Latencies, Time};

/// The version of [`Row`] as scripts know it.
pub(super) const SCHEMA: &str = "twiceshy.scale.v1";

/// A line of JSON; `row` says which.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "row", rename_all = "lowercase")]
pub enum Row {
    /// A part of the run.
    Phase(PhaseRow),
    /// Something that happened.
    Event(EventRow),
    /// A node at the end.
    Node(NodeRow),
    /// The run as a whole, last of all.
    Run(Box<RunRow>),
}

/// A part of the run: "traffic", and of the attack "collect" and "replay".
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseRow {
    pub(super) schema: &'static str,
    /// Its name.
    pub phase: &'static str,
    /// What was counted.
    #[serde(flatten)]
    pub counts: Counts,
    /// Reads of the store: hits, wasted reads and unfiltered ones.
    pub store_reads: u64,
    /// How long it took.
    pub seconds: f64,
    /// Requests per second.
    pub per_second: f64,
    /// Time until the node's answer, network included: the median of all lookups.
    pub p50_us: f64,
    /// Likewise.
    pub p99_us: f64,
    /// Likewise.
    pub p999_us: f64,
    /// The longest.
    pub most_us: f64,
    /// The longest time of an insertion, which waits for a node that is down.
    pub insert_most_us: f64,
}

/// Every lookup is in one of the seven fields from `hits` to `false_negatives`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// All lookups.
    pub lookups: u64,
    /// "Maybe" for a stored key.
    pub hits: u64,
    /// "Absent" for an absent key: a read avoided.
    pub avoided: u64,
    /// "Maybe" for an absent key: a wasted read.
    pub wasted: u64,
    /// No answer, as the node was down: the client reads the store.
    pub unfiltered: u64,
    /// "Absent" for a stored key whose insertion was lost with a node.
    pub denied_lost: u64,
    /// "Absent" for a stored key that a late report has hidden.
    pub denied_hidden: u64,
    /// "Absent" for any other stored key: must be 0.
    pub false_negatives: u64,
    /// Of the wasted reads, those for keys that had been fixed before.
    pub repeated: u64,
    /// Insertions.
    pub inserts: u64,
    /// Reported false positives that were fixed.
    pub adaptations: u64,
    /// Reports that did not reach a node, as it was down.
    pub reports_dropped: u64,
}

impl Counts {
    /// A stored key was answered "absent".
    pub(super) fn deny(&mut self, why: Denied) {
        match why {
            Denied::Lost => self.denied_lost += 1,
            Denied::Hidden => self.denied_hidden += 1,
            Denied::Unexplained => self.false_negatives += 1,
        }
    }
}

/// Counts and times of a phase that goes on.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) answers: Latencies,
    pub(super) slowest_insert: Time,
}

impl Tally {
    pub(super) fn row(self, phase: &'static str, took: Time) -> PhaseRow {
        let Tally { counts, answers, slowest_insert } = self;
        let seconds = took as f64 / 1e9;
        let us = |time: Time| time as f64 / 1e3;
        PhaseRow {
            schema: SCHEMA,
            phase,
            store_reads: counts.hits + counts.wasted + counts.unfiltered,
            seconds,
            per_second: if took == 0 {
                0.0
            } else {
                (counts.lookups + counts.inserts) as f64 / seconds
            },
            p50_us: us(answers.percentile(0.5)),
            p99_us: us(answers.percentile(0.99)),
            p999_us: us(answers.percentile(0.999)),
            most_us: us(answers.most()),
            insert_most_us: us(slowest_insert),
            counts,
        }
    }
}

/// Something that happened to the cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EventRow {
    pub(super) schema: &'static str,
    /// When.
    pub at_seconds: f64,
    /// What.
    pub event: String,
    /// How long filters of the node did not answer, or how long slots moved.
    pub seconds: f64,
    /// Filters that it concerned.
    pub partitions: u64,
    /// Bytes sent: to a new replica, from a snapshot, or between nodes.
    pub bytes: u64,
    /// The longest time for which one filter blocked its nodes.
    pub longest_block_seconds: f64,
    /// Insertions that were acknowledged and are lost.
    pub lost_keys: u64,
    /// Adaptations likewise.
    pub lost_adaptations: u64,
    /// Keys that were read from the store to rebuild filters.
    pub rebuilt_keys: u64,
}

/// A node at the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeRow {
    pub(super) schema: &'static str,
    /// Its number.
    pub node: usize,
    /// Hash slots.
    pub slots: u64,
    /// Filters.
    pub partitions: u64,
    /// Keys in them.
    pub keys: u64,
    /// Their memory.
    pub bytes: u64,
    /// The same for each key.
    pub bytes_per_key: f64,
    /// Requests that it answered, reports included.
    pub requests: u64,
    /// Of all requests of the cluster.
    pub share: f64,
    /// Share of the time in which it worked.
    pub busy: f64,
}

/// The run as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunRow {
    pub(super) schema: &'static str,
    /// What all follows from.
    pub seed: u64,
    /// Nodes with slots at the end.
    pub nodes: usize,
    /// Filters.
    pub partitions: usize,
    /// Keys at the start.
    pub keys: u64,
    /// Memory of all filters at the end, per key.
    pub bytes_per_key: f64,
    /// Exceptions that all filters have room for; 0 with a remote.
    pub exceptions_room: u64,
    /// False positives per million absent keys that were never asked for before.
    pub first_pass_per_million: f64,
    /// The absent keys that this was measured with.
    pub first_pass: u64,
    /// The most keys of a node over the mean.
    pub key_imbalance: f64,
    /// The most requests of a node over the mean.
    pub request_imbalance: f64,
    /// Requests per second at which the busiest node would be busy all the time.
    pub per_second_at_most: f64,
    /// False positives that the attacker has collected.
    pub attack_distinct: u64,
    /// Queries that it made of them: as many reads as a filter that does not adapt would waste.
    pub attack_queries: u64,
    /// Reads that they wasted.
    pub attack_wasted: u64,
    /// At the end: stored keys that are denied as their insertion was lost with a node.
    pub denied_lost: u64,
    /// ... because a late report has hidden them.
    pub denied_hidden: u64,
    /// ... for no reason, at the end or in any lookup: must be 0.
    pub false_negatives: u64,
}
